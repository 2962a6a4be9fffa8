"""Kubernetes feature gates: those that change what is decided or written here, and all the others.

Every gate of kube-scheduler v1.36 is accepted, as on its command line. One that nothing here obeys and
that was given another value than its default is named (`without_effect`): decisions stay those of the
default.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

from shared.errors import ConfigurationError
from shared.kube.resources import POD_GROUPS


class Gate(NamedTuple):
    stage: Literal["alpha", "beta", "GA", "deprecated"]
    """How far it has come; `AllAlpha` and `AllBeta` set all of a stage."""
    is_on: bool
    """By default."""
    is_locked: bool


_GATES: Final = {
    Gate("alpha", is_on=False, is_locked=False): """
    APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage
    CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ClientsAllowCBOR
    ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation
    CloudControllerManagerWebhook ContainerStopSignals CrossNamespaceVolumeDataSource
    DRAListTypeAttributes DRANodeAllocatableResources DRAResourcePoolStatus
    DRAWorkloadResourceClaims EventedPLEG GangScheduling GenericWorkload HPAScaleToZero
    ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
    InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace LoggingAlphaOptions
    ManifestBasedAdmissionControlConfig MemoryQoS MutablePVNodeAffinity NativeHistograms
    PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodLevelResourceManagers
    PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay
    RuntimeClassInImageCriApi ShardedListAndWatch StorageCapacityScoring StorageVersionAPI
    TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling
    TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport VolumeLimitScaling
    WindowsCPUAndMemoryAffinity WorkloadAwarePreemption WorkloadWithJob
    """,
    Gate("beta", is_on=False, is_locked=False): """
    ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode
    CoordinatedLeaderElection DRADeviceTaintRules LocalStorageCapacityIsolationFSQuotaMonitoring
    MaxUnavailableStatefulSet PodCertificateRequest SELinuxMount SchedulerAsyncAPICalls
    StorageVersionMigrator
    """,
    Gate("beta", is_on=True, is_locked=False): """
    APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO
    AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions
    CRDObservedGenerationTracking ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation
    ClientsAllowTLSCacheGC ComponentFlagz ComponentStatusz ConstrainedImpersonation
    ContainerCheckpoint ContainerRestartRules ContextualLogging DRAConsumableCapacity
    DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource DRAPartitionableDevices
    DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization
    DRASchedulerFilterTimeout DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas
    DetectCacheInconsistency EnvFiles ExtendWebSocketsToKubelet GracefulNodeShutdown
    GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance HostnameOverride
    InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
    InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax
    KubeletEnsureSecretPulledImages KubeletSeparateDiskGC
    KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot LoggingBetaOptions
    MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
    MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs
    NodeDeclaredFeatures NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching
    PLEGOnDemandRelist PodDeletionCost PodLevelResources PodReadyToStartContainersCondition
    PodTopologyLabelsAdmission PortForwardWebsockets PreventStaticPodAPIReferences
    RelaxedServiceNameValidation ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile
    RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage
    RestartAllContainersOnContainerExits RotateKubeletServerCertificate SchedulerAsyncPreemption
    SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate
    StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob
    StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
    StatefulSetSemanticRevisionComparison StorageVersionHash StrictIPCIDRValidation
    StructuredAuthenticationConfigurationEgressSelector
    StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
    TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests
    UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy
    UnlockWhileProcessingFIFO WatchCacheInitializationPostStartHook WatchList WatchListClient
    WindowsGracefulNodeShutdown
    """,
    Gate("GA", is_on=True, is_locked=False): """
    AllowServiceExternalIPs CustomCPUCFSQuotaPeriod DRAPrioritizedList InformerResourceVersion
    MutatingAdmissionPolicy
    """,
    Gate("GA", is_on=True, is_locked=True): """
    APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource
    AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache CPUManagerPolicyOptions
    CRDValidationRatcheting CSIServiceAccountTokenSecrets ConsistentListFromCache
    CustomResourceFieldSelectors DRAAdminAccess DeclarativeValidation DisableAllocatorDualWrite
    DynamicResourceAllocation ExecProbeTimeout ExternalServiceAccountTokenSigner
    ImageMaximumGCAge ImageVolume InOrderInformers InPlacePodVerticalScaling
    JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy JobSuccessPolicy
    KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI
    KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing
    LogarithmicScaleDown MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator
    MutableCSINodeAllocatableCount NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread
    NodeLogQuery NodeSwap OrderedNamespaceDeletion PodLifecycleSleepAction
    PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PodSchedulingReadiness
    PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure
    RecursiveReadOnlyMounts RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
    ResilientWatchCacheInitialization RetryGenerateName SELinuxChangePolicy
    SELinuxMountReadWriteOncePod SchedulerQueueingHints SeparateTaintEvictionController
    ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
    ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SidecarContainers
    StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf
    StructuredAuthenticationConfiguration SupplementalGroupsPolicy SystemdWatchdog
    TopologyManagerPolicyOptions UserNamespacesSupport VolumeAttributesClass WinDSR WinOverlay
    """,
    Gate("deprecated", is_on=False, is_locked=False): """
    AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
    ChangeContainerStatusOnKubeletRestart DeclarativeValidationTakeover KMSv1
    KubeletRegistrationGetOnExistsOnly WindowsHostNetwork
    """,
    Gate("deprecated", is_on=True, is_locked=False): """
    DisableCPUQuotaWithExclusiveCPUs KubeletPodResourcesListUseActivePods
    ServiceCIDRStatusFieldWiping StorageNamespaceIndex
    """,
    Gate("deprecated", is_on=False, is_locked=True): """
    AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver SeparateCacheWatchRPC
    """,
    Gate("deprecated", is_on=True, is_locked=True): """
    AggregatedDiscoveryRemoveBetaType DisableNodeKubeProxyVersion
    """,
}
KNOWN_GATES: Final = {name: gate for gate, names in _GATES.items() for name in names.split()}

TAINT_TOLERATION_COMPARISON_OPERATORS: Final = "TaintTolerationComparisonOperators"
STORAGE_CAPACITY_SCORING: Final = "StorageCapacityScoring"
NOMINATED_NODE_NAME_FOR_EXPECTATION: Final = "NominatedNodeNameForExpectation"
SCHEDULER_ASYNC_PREEMPTION: Final = "SchedulerAsyncPreemption"
SCHEDULER_POP_FROM_BACKOFF_Q: Final = "SchedulerPopFromBackoffQ"
MATCH_LABEL_KEYS_IN_POD_TOPOLOGY_SPREAD: Final = "MatchLabelKeysInPodTopologySpread"
NODE_DECLARED_FEATURES: Final = "NodeDeclaredFeatures"
VOLUME_LIMIT_SCALING: Final = "VolumeLimitScaling"
GENERIC_WORKLOAD: Final = POD_GROUPS.feature_gate
GANG_SCHEDULING: Final = "GangScheduling"
TOPOLOGY_AWARE_WORKLOAD_SCHEDULING: Final = "TopologyAwareWorkloadScheduling"
WORKLOAD_AWARE_PREEMPTION: Final = "WorkloadAwarePreemption"
DRA_EXTENDED_RESOURCE: Final = "DRAExtendedResource"
DRA_PRIORITIZED_LIST: Final = "DRAPrioritizedList"
DRA_PARTITIONABLE_DEVICES: Final = "DRAPartitionableDevices"
DRA_DEVICE_TAINTS: Final = "DRADeviceTaints"
DRA_CONSUMABLE_CAPACITY: Final = "DRAConsumableCapacity"
DRA_RESOURCE_CLAIM_DEVICE_STATUS: Final = "DRAResourceClaimDeviceStatus"
DRA_DEVICE_BINDING_CONDITIONS: Final = "DRADeviceBindingConditions"
DRA_SCHEDULER_FILTER_TIMEOUT: Final = "DRASchedulerFilterTimeout"
DRA_WORKLOAD_RESOURCE_CLAIMS: Final = "DRAWorkloadResourceClaims"
DRA_NODE_ALLOCATABLE_RESOURCES: Final = "DRANodeAllocatableResources"

OBEYED: Final = frozenset(
    {TAINT_TOLERATION_COMPARISON_OPERATORS, STORAGE_CAPACITY_SCORING,
     NOMINATED_NODE_NAME_FOR_EXPECTATION,
     SCHEDULER_ASYNC_PREEMPTION, SCHEDULER_POP_FROM_BACKOFF_Q, MATCH_LABEL_KEYS_IN_POD_TOPOLOGY_SPREAD,
     NODE_DECLARED_FEATURES, VOLUME_LIMIT_SCALING, GENERIC_WORKLOAD, GANG_SCHEDULING,
     TOPOLOGY_AWARE_WORKLOAD_SCHEDULING, WORKLOAD_AWARE_PREEMPTION, DRA_EXTENDED_RESOURCE,
     DRA_PRIORITIZED_LIST, DRA_PARTITIONABLE_DEVICES, DRA_DEVICE_TAINTS, DRA_CONSUMABLE_CAPACITY,
     DRA_RESOURCE_CLAIM_DEVICE_STATUS, DRA_DEVICE_BINDING_CONDITIONS, DRA_SCHEDULER_FILTER_TIMEOUT,
     DRA_WORKLOAD_RESOURCE_CLAIMS, DRA_NODE_ALLOCATABLE_RESOURCES}
)  # fmt: skip
NEEDED_BY: Final[Mapping[str, str]] = {
    "AtomicFIFO": """StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob
    StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet""",
    "APIServerIdentity": "StorageVersionAPI UnknownVersionInteroperabilityProxy",
    "ClusterTrustBundle": "ClusterTrustBundleProjection",
    "ContainerRestartRules": "RestartAllContainersOnContainerExits",
    "DRADeviceTaints": "DRADeviceTaintRules",
    "DRAResourceClaimDeviceStatus": """DRADeviceBindingConditions
    DRAResourceClaimGranularStatusAuthorization""",
    GENERIC_WORKLOAD: """DRAWorkloadResourceClaims GangScheduling TopologyAwareWorkloadScheduling
    WorkloadWithJob""",
    GANG_SCHEDULING: "WorkloadAwarePreemption",
    "GracefulNodeShutdown": "GracefulNodeShutdownBasedOnPodPriority WindowsGracefulNodeShutdown",
    MATCH_LABEL_KEYS_IN_POD_TOPOLOGY_SPREAD: "MatchLabelKeysInPodTopologySpreadSelectorMerge",
    NODE_DECLARED_FEATURES: """ExtendWebSocketsToKubelet InPlacePodLevelResourcesVerticalScaling
    InPlacePodVerticalScalingInitContainers RestartAllContainersOnContainerExits
    UserNamespacesHostNetworkSupport""",
    "PodLevelResources": "InPlacePodLevelResourcesVerticalScaling PodLevelResourceManagers",
    "ResourceHealthStatus": "ResourceHealthStatusMessage",
}
"""Gate -> those that can only be on with it (pkg/features/kube_features.go, v1.36.2); without those that
are locked."""
BATCHING: Final = "OpportunisticBatching"
"""Whose decisions are always those of false."""
OBEYED_UPSTREAM: Final = frozenset(
    f"""
    {BATCHING} ComponentFlagz ComponentStatusz CoordinatedLeaderElection DRADeviceTaintRules
    DRAListTypeAttributes InPlacePodLevelResourcesVerticalScaling NativeHistograms PodLevelResources
    """.split()
)
"""Not here, while they change what kube-scheduler decides, or what is seen of it."""
_WHOLE_STAGES: Final = {"AllAlpha": "alpha", "AllBeta": "beta"}
_COMPONENT: Final = "kube"
BOOLEANS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""As Go's strconv.ParseBool."""


class FeatureGates:
    def __init__(self, changed: Mapping[str, bool] | None = None) -> None:
        wanted = dict(changed or {})
        problems = list(_problems(wanted))
        if problems:
            raise ConfigurationError("featureGates", problems)
        for whole, stage in _WHOLE_STAGES.items():
            is_on = wanted.pop(whole, None)
            if is_on is not None:
                of_stage = (name for name, gate in KNOWN_GATES.items() if gate.stage == stage)
                wanted = {**dict.fromkeys(of_stage, is_on), **wanted}
        self._gates = {name: wanted.get(name, gate.is_on) for name, gate in KNOWN_GATES.items()}
        lacking = [
            f"{name}: needs {needed}=true"
            for needed, names in NEEDED_BY.items()
            if not self._gates[needed]
            for name in names.split()
            if self._gates[name]
        ]
        if lacking:
            raise ConfigurationError("featureGates", lacking)
        self.without_effect: list[str] = [
            f"{name}={str(is_on).lower()}"
            for name, is_on in wanted.items()
            if name not in OBEYED and is_on != (KNOWN_GATES[name].is_on and name != BATCHING)
        ]
        """What was asked for and is not obeyed, as it would be written."""

    def __getitem__(self, name: str) -> bool:
        """Of a gate in `OBEYED`."""
        return self._gates[name]


def _problems(wanted: Mapping[str, bool]) -> Iterable[str]:
    for name, is_on in wanted.items():
        gate = KNOWN_GATES.get(name)
        if gate is None and name not in _WHOLE_STAGES:
            yield f"{name}: kube-scheduler v1.36 has no such gate (see its --help)"
        elif gate is not None and gate.is_locked and is_on != gate.is_on:
            yield f"{name}: cannot be set to {str(is_on).lower()}, it is locked to its default"


def parse_feature_gates(text: str) -> FeatureGates:
    """Reads `Name=true,kube:Name=false`, as --feature-gates of kube-scheduler; empty: the defaults."""
    changed: dict[str, bool] = {}
    problems: list[str] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (part.strip() for part in entry.partition("="))
        component, _, plain = (part.strip() for part in name.rpartition(":"))
        if component not in ("", _COMPONENT):
            problems.append(f"{entry}: there is no component {component}, only {_COMPONENT}")
        elif value not in BOOLEANS:
            problems.append(f"{entry}: write {plain or 'Name'}=true or {plain or 'Name'}=false")
        else:
            changed[plain] = BOOLEANS[value]
    if problems:
        raise ConfigurationError("--feature-gates", problems)
    return FeatureGates(changed)


DEFAULT_GATES: Final = FeatureGates()
