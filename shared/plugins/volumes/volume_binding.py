"""VolumeBinding: a pod's bound volumes within reach of its node, volumes for its other claims.

Filter searches, Reserve lays what was found over the objects of the view, so that the next pod sees
it taken before anybody has told the API server. What of that PreBind, which runs in the binder, tells it
is read after Reserve (`pre_bind_work`).

Rules: pkg/scheduler/framework/plugins/volumebinding/{volume_binding,binder,scorer}.go, v1.36.2.
"""

from collections.abc import Hashable
from typing import ClassVar, Final

import msgspec
import numpy as np

from shared.columns.schema import Int64s, Rows
from shared.errors import ConfigurationError
from shared.feature_gates import STORAGE_CAPACITY_SCORING, FeatureGates
from shared.framework.cluster_view import ClusterView
from shared.framework.normalize import (
    SHAPE_SCORE_MAX,
    UtilizationShapePoint,
    score_table,
    shape_problems,
)
from shared.framework.object_store import ObjectStore
from shared.framework.plugin_api import (
    NEVER_FILTERS,
    NEVER_SCORES,
    Dependence,
    PreFilterResult,
    PreScoreResult,
    Reads,
    Scope,
)
from shared.framework.plugin_args import ArgsStruct, source_of_args
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.status import SUCCESS, Code, Status, Verdicts, unresolvable
from shared.kube.api.core_v1 import PersistentVolumeClaim
from shared.kube.api.core_v1_parts import ObjectReference, PersistentVolume
from shared.kube.api.meta_v1 import Int64
from shared.kube.binding_work import MakeVolume, TakeVolume, VolumeWork
from shared.kube.pod_record import PodRecord
from shared.kube.pod_volumes import ownership_problem
from shared.kube.well_known import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from shared.plugin_names import VOLUME_BINDING
from shared.plugins.volumes.volume_hints import BINDING_EVENTS
from shared.plugins.volumes.volume_rules import (
    CLAIM_LOST,
    WAIT_FOR_FIRST_CONSUMER,
    class_of,
    is_reserved_for,
)
from shared.plugins.volumes.volume_search import (
    PodVolumeClaims,
    VolumeSearch,
    storage_scores,
    volume_place,
)

REASON_IMMEDIATE: Final = "pod has unbound immediate PersistentVolumeClaims"
CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
_encoder: Final = msgspec.msgpack.Encoder()
DEFAULT_SHAPE: Final = [
    UtilizationShapePoint(utilization=0, score=SHAPE_SCORE_MAX),
    UtilizationShapePoint(utilization=100, score=0),
]
"""The emptier, the better."""


class VolumeBindingArgs(ArgsStruct):
    bind_timeout_seconds: Int64 = 600
    """How long the binder waits for the volumes of a pod."""
    shape: list[UtilizationShapePoint] | None = None
    """Score by how full the storage would be; only with the gate StorageCapacityScoring."""

    def problems(self) -> list[str]:
        limit_s = self.bind_timeout_seconds
        negative = f"bindTimeoutSeconds: {limit_s} must not be negative"
        return [negative] if limit_s < 0 else []


class VolumeBinding:
    """Scores only with the gate StorageCapacityScoring, which is off by default."""

    NAME: ClassVar[str] = VOLUME_BINDING
    reads_labels: ClassVar[frozenset[str]] = frozenset()
    ignores_requests: ClassVar[bool] = True
    reads_claims: ClassVar[bool] = True
    may_fail: ClassVar[bool] = True
    object_kinds: ClassVar[frozenset[str]] = frozenset(
        {CLAIMS, VOLUMES, "storageclasses", "csidrivers", "csinodes", "csistoragecapacities"}
    )
    pre_filter_depends: ClassVar[Dependence | None] = Dependence(Reads.OBJECTS, Scope.CLUSTER)
    filter_depends: ClassVar[Dependence] = Dependence(Reads.NODE | Reads.OBJECTS, Scope.ROW)
    pre_score_depends: ClassVar[Dependence | None] = Dependence(Reads.OBJECTS, Scope.CLUSTER)
    score_depends: ClassVar[Dependence] = Dependence(Reads.NODE | Reads.OBJECTS, Scope.ROW)
    scores_within_range: ClassVar[bool] = True

    def __init__(self, args: VolumeBindingArgs, gates: FeatureGates) -> None:
        problems = shape_problems(args.shape, "shape") if args.shape else []
        if args.shape is not None and not gates[STORAGE_CAPACITY_SCORING]:
            problems = ["shape: remove it, or turn on the feature gate StorageCapacityScoring"]
        if problems:
            raise ConfigurationError(source_of_args(self.NAME), problems)
        self._score_table = (
            score_table(args.shape or DEFAULT_SHAPE) if gates[STORAGE_CAPACITY_SCORING] else None
        )
        self._bind_timeout_s = float(args.bind_timeout_seconds)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return BINDING_EVENTS

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        if not pod.claim_uses:
            return NEVER_FILTERS
        problem = _claims_problem(pod, cluster.objects)
        if problem is not None:
            return PreFilterResult(unresolvable(problem))
        return _sorted_out(pod, cluster.objects)

    def _claims_of(self, pod: PodInfo, cluster: ClusterView) -> PodVolumeClaims:
        """What is wrong with the claims is no matter of nodes."""
        return self.pre_filter(pod, cluster).state or PodVolumeClaims()

    def claims_likeness(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Where volumes that are bound can be; what waits for a node is chosen for each pod."""
        if not pod.claim_uses:
            return ()
        claims = self.pre_filter(pod, cluster).state
        if not isinstance(claims, PodVolumeClaims) or claims.waiting:
            return None
        if any(use.is_ephemeral for use in pod.claim_uses):
            return None  # Whose it is, is the pod's own.
        places: list[Hashable] = []
        for claim in claims.bound:
            volume = cluster.objects.latest(VOLUMES, claim.spec.volume_name)
            if volume is None:
                return None
            places.append(volume_place(volume))
        return tuple(places)

    def filter(
        self, state: PodVolumeClaims, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Verdicts:
        search = VolumeSearch(state, cluster, rows)
        codes = (search.reasons != 0) * np.uint8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        codes[search.failed] = Code.ERROR
        state.has_failed |= bool(search.failed.any())
        return Verdicts(codes, search.reasons, search.told.texts)

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:
        if self._score_table is None:
            return NEVER_SCORES
        return PreScoreResult(state=self._claims_of(pod, cluster))

    def score(
        self, state: PodVolumeClaims, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Int64s:
        if self._score_table is None or not state.waiting:
            return np.zeros(len(rows), np.int64)
        search = VolumeSearch(state, cluster, rows)
        return np.where(search.passes, storage_scores(search, self._score_table), 0)

    def reserves_for(self, pod: PodInfo) -> bool:
        """Only for pods with claims."""
        return bool(pod.claim_uses)

    def reserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Status:
        """Assumes the volumes that the pod gets on its node (AssumePodVolumes)."""
        claims = self._claims_of(pod, cluster)
        if not claims.waiting:
            return SUCCESS
        search = VolumeSearch(claims, cluster, np.array([row], np.intp))
        if not search.passes[0]:
            return Status(Code.ERROR, ("volumes were taken meanwhile",))
        found = search.at(0)
        for claim, volume in found.bindings:
            bound = bound_volume(volume, claim)
            if bound is not volume:
                cluster.objects.assume(VOLUMES, volume.metadata.name, bound, record.uid)
        node = {SELECTED_NODE: cluster.nodes.name_of(row)}
        for claim in found.provisions:  # As they ask for a volume for this node.
            annotations = (claim.metadata.annotations or {}) | node
            meta = msgspec.structs.replace(claim.metadata, annotations=annotations)
            assumed = msgspec.structs.replace(claim, metadata=meta)
            cluster.objects.assume(CLAIMS, claim.metadata.key, assumed, record.uid)
        return SUCCESS

    def pre_bind_work(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int
    ) -> bytes:
        """What a reserved pod gets that is not bound yet; not what was assumed for it: a pod that shares
        a claim with an earlier one finds nothing left to assume, and waits for the same volume."""
        if not pod.claim_uses or not (claims := self._claims_of(pod, cluster)).waiting:
            return b""
        found = VolumeSearch(claims, cluster, np.array([row], np.intp)).at(0)
        take = [
            TakeVolume(
                volume_name=volume.metadata.name,
                volume_version=volume.metadata.resource_version,
                is_found=BOUND_BY_CONTROLLER in (volume.metadata.annotations or {}),
                claim_namespace=claim.metadata.namespace,
                claim_name=claim.metadata.name,
                claim_version=claim.metadata.resource_version,
                claim_uid=claim.metadata.uid,
            )
            for claim, volume in found.bindings
        ]
        make = [
            MakeVolume(meta.namespace, meta.name, meta.resource_version, meta.uid)
            for meta in (claim.metadata for claim in found.provisions)
        ]
        return _encoder.encode(VolumeWork(take, make, self._bind_timeout_s))

    def unreserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> None:
        """Takes back what was assumed for the pod (RevertAssumedPodVolumes)."""
        if not pod.claim_uses:
            return
        for kind in (VOLUMES, CLAIMS):
            cluster.objects.forget_assumed_for(kind, record.uid)


def bound_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume, given to the claim; itself where it has been already (GetBindVolumeToClaim)."""
    meta, spec = volume.metadata, volume.spec
    annotations = meta.annotations or {}
    if not is_reserved_for(volume, claim) and BOUND_BY_CONTROLLER not in annotations:
        annotations = {**annotations, BOUND_BY_CONTROLLER: "yes"}
        meta = msgspec.structs.replace(meta, annotations=annotations)
    reference = spec.claim_ref
    if reference is None or reference.uid != claim.metadata.uid:
        reference = ObjectReference(
            kind="PersistentVolumeClaim",
            namespace=claim.metadata.namespace,
            name=claim.metadata.name,
            uid=claim.metadata.uid,
        )
        spec = msgspec.structs.replace(spec, claim_ref=reference)
    if meta is volume.metadata and spec is volume.spec:
        return volume
    return msgspec.structs.replace(volume, metadata=meta, spec=spec)


def _claims_problem(pod: PodInfo, objects: ObjectStore) -> str | None:
    """Why the pod cannot go anywhere, by its claims alone (podHasPVCs)."""
    for use in pod.claim_uses:
        claim = objects.get(CLAIMS, use.key)
        if claim is None:
            wanted = f'persistentvolumeclaim "{use.name}"'
            if use.is_ephemeral:
                return f"waiting for ephemeral volume controller to create the {wanted}"
            return f"{wanted} not found"
        if claim.status.phase == CLAIM_LOST:
            name = claim.spec.volume_name
            return f'persistentvolumeclaim "{use.name}" bound to non-existent persistentvolume "{name}"'
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{use.name}" is being deleted'
        if use.is_ephemeral:
            problem = ownership_problem(pod.namespace, pod.template, claim)
            if problem is not None:
                return problem
    return None


def _sorted_out(pod: PodInfo, objects: ObjectStore) -> PreFilterResult:
    """The claims by what is to be done about them (GetPodVolumeClaims)."""
    bound: list[PersistentVolumeClaim] = []
    waiting: list[PersistentVolumeClaim] = []
    is_immediate = False
    for use in pod.claim_uses:
        claim = objects.latest(CLAIMS, use.key)
        assert claim is not None, "asked about claims that are there"
        if claim.spec.volume_name and BIND_COMPLETED in (claim.metadata.annotations or {}):
            bound.append(claim)
            continue
        class_name = class_of(claim)
        storage_class = objects.get("storageclasses", class_name) if class_name else None
        mode = None if storage_class is None else storage_class.volume_binding_mode
        if storage_class is not None and mode is None:
            told = f'VolumeBindingMode not set for StorageClass "{class_name}"'
            return PreFilterResult(Status(Code.ERROR, (told,)))
        if mode == WAIT_FOR_FIRST_CONSUMER and not claim.spec.volume_name:
            waiting.append(claim)
        else:
            is_immediate = True
    if is_immediate:
        return PreFilterResult(unresolvable(REASON_IMMEDIATE))
    return PreFilterResult(state=PodVolumeClaims(tuple(bound), tuple(waiting)))
