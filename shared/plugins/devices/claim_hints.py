"""Events that help pods that DynamicResources rejected.

Rules: `EventsToRegister` and its hints in
pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, v1.36.2.
"""

from typing import Final

from shared.dra.device_index import CLAIMS
from shared.dra.pod_claims import ClaimError, claims_of
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import Change, ClusterEventWithHint, PodView, as_kind
from shared.kube.api.resource_v1 import ResourceClaim


def after_claim_change(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """Some claim freed its devices, or a claim of the pod is new or has another status. Without all
    claims of the pod no change of one can help."""
    was, now = change.both(ResourceClaim)
    claims = _claims_of(pod.info, cluster)
    if now is None or claims is None:
        return False
    if was is not None and was.status.allocation and not now.status.allocation:
        return True
    if all(claim.metadata.uid != now.metadata.uid for claim in claims):
        return False
    return was is None or was.status != now.status


def after_own_generated_claim(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """The claims that the pod waited for are made and named in its status."""
    now = as_kind(PodView, change.new)
    if now is None or not change.is_of(pod):
        return False
    return _claims_of(now.info, cluster) is not None


EVENTS: Final = (
    ClusterEventWithHint(
        Resource.NODE, (Action.ADD, Action.UPDATE_NODE_ALLOCATABLE, Action.UPDATE_NODE_LABEL)
    ),
    ClusterEventWithHint(
        Resource.RESOURCE_CLAIM,
        (Action.ADD, Action.UPDATE),
        after_claim_change,
        reads_identity=True,
    ),
    ClusterEventWithHint(
        Resource.POD, (Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM,), after_own_generated_claim
    ),
    ClusterEventWithHint(Resource.DEVICE_CLASS, (Action.ADD, Action.UPDATE)),
    ClusterEventWithHint(Resource.RESOURCE_SLICE, (Action.ADD, Action.UPDATE)),
)


def _claims_of(pod: PodInfo, cluster: ClusterView) -> list[ResourceClaim] | None:
    """The pod's claims; None while one is missing, on its way out, or another pod's."""
    try:
        return claims_of(pod.namespace, pod.template, cluster.objects.all(CLAIMS).get)
    except ClaimError:
        return None
