"""The pod group of a pod with claims, some of which may be its (gate DRAWorkloadResourceClaims).

Apart from the plugin, which asks it at each of its extension points.

Rules: getPodGroup and unreservePodGroupClaims in
pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go; BindTo and NameFromPodGroup in
staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go, v1.36.2.
"""

from shared.columns.pod_table import NEVER_STARTED, group_id
from shared.columns.schema import Rows
from shared.dra.device_index import CLAIMS
from shared.dra.pod_claims import (
    FindClaim,
    claim_name,
    claim_name_of_pod,
    claim_named,
    is_reserved_for,
    is_used_by_none_but,
)
from shared.feature_gates import DRA_WORKLOAD_RESOURCE_CLAIMS
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.kube.api.resource_v1 import ResourceClaim, ResourceClaimConsumer
from shared.kube.api.scheduling_v1alpha2 import PodGroup
from shared.kube.pod_record import OwnFacts, PodTemplate, controller_of
from shared.kube.resources import POD_GROUPS
from shared.kube.well_known import SCHEDULING_GROUP


def group_of_claims(pod: PodInfo, cluster: ClusterView) -> str:
    """The name of the group of which some of the pod's claims may be; empty: of none."""
    own = pod.template.own
    return own.group if own is not None and cluster.gates[DRA_WORKLOAD_RESOURCE_CLAIMS] else ""


def group_object(pod: PodInfo, cluster: ClusterView) -> PodGroup | None:
    """The same group, if it is there."""
    key = f"{pod.namespace}/{group_of_claims(pod, cluster)}"
    found: PodGroup | None = cluster.objects.get(POD_GROUPS.plural, key)
    return found


def consumer_group(
    template: PodTemplate, claim: ResourceClaim, group: PodGroup | None
) -> ResourceClaimConsumer | None:
    """The pod's group, where this claim of the pod is, or is to be, reserved for that; None: for the pod
    (BindTo)."""
    if group is None:
        return None
    meta, listed = group.metadata, group.spec.resource_claims or ()
    namespace, own = meta.namespace, template.own or OwnFacts()
    names = (
        claim_name_of_pod(namespace, own, reference)
        for reference in template.spec.resource_claims or ()
        if reference in listed
    )
    if claim.metadata.name in names or is_reserved_for(claim, meta.uid):
        return ResourceClaimConsumer(SCHEDULING_GROUP, POD_GROUPS.plural, meta.name, meta.uid)
    return None


def claims_of_group(group: PodGroup, find: FindClaim) -> list[ResourceClaim]:
    """The claims of a pod group, without those that were made for others; ClaimError for the first that
    is not there."""
    meta, statuses = group.metadata, group.status.resource_claim_statuses
    found = []
    for reference in group.spec.resource_claims or ():
        unnamed = f"PodGroup {meta.key}, spec.resourceClaim {reference.name}"
        name = claim_name(reference, statuses, unnamed, f"PodGroup {meta.key}")
        if name is None:
            continue
        claim = claim_named(meta.namespace, name, find)
        owner = controller_of(claim.metadata.owner_references)
        is_named = reference.resource_claim_name is not None
        if is_named or (owner is not None and owner.uid == meta.uid):
            found.append(claim)
    return found


def unreservable(pod: PodInfo, cluster: ClusterView) -> tuple[str, ...]:
    """Keys of the claims that an earlier attempt has left to the pod's group alone, none of which has a
    node; ClaimError where the group's claims cannot be told."""
    group = group_object(pod, cluster)
    if group is None or len(_rows_of_group(pod, cluster)):
        return ()
    objects, uid = cluster.objects, group.metadata.uid
    return tuple(
        claim.metadata.key
        for claim in claims_of_group(group, objects.all(CLAIMS).get)
        if claim.status.reserved_for
        and is_used_by_none_but(claim, uid)
        and claim.metadata.key not in objects.assumed(CLAIMS)
    )


def has_begun(pod: PodInfo, cluster: ClusterView) -> bool:
    """Whether a kubelet has accepted a pod of the group. Looks at all pods."""
    rows = _rows_of_group(pod, cluster)
    return bool((cluster.pods.start_s[rows] != NEVER_STARTED).any())


def _rows_of_group(pod: PodInfo, cluster: ClusterView) -> Rows:
    """Of the table of pods: those of the group that are on nodes."""
    pods = cluster.pods
    used = pods.used_rows()
    key = f"{pod.namespace}/{group_of_claims(pod, cluster)}"
    rows: Rows = used[pods.group_id[used] == group_id(key)]
    return rows
