"""Resource claims that nobody needs any more: what a binder is to free, and what the owner forgets."""

from collections.abc import Iterable

from daemon.core.cache import Cache
from shared.dra.device_index import CLAIMS, device_index
from shared.dra.extended import pod_uid_of
from shared.dra.pod_claims import is_used_by_none_but
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.pod_record import PodRecord
from shared.messages.to_binder import ReleaseClaim


def written_claims(cache: Cache) -> dict[str, str]:
    """Every assumed claim and one of its pods whose binder is done: the API server has been told."""
    found = {}
    for key, assumed in cache.objects.assumed(CLAIMS).items():
        for uid in assumed.pod_uids:
            pod = cache.get_pod(uid)
            if pod is None or not cache.is_assumed_pod(uid) or pod.is_binding_finished:
                found[key] = uid
    return found


def forget_written(cache: Cache, written: dict[str, str]) -> None:
    """A list that began after these were told has come: what it does not show as allocated was freed
    again meanwhile, which no event tells any more."""
    assumed = cache.objects.assumed(CLAIMS)
    for key, pod_uid in written.items():
        if key in assumed and pod_uid in assumed[key].pod_uids:
            cache.objects.forget_assumed(CLAIMS, key)


def claim_releases(
    ticket: int, record: PodRecord, pod: PodInfo, cluster: ClusterView, keys: Iterable[str] = ()
) -> list[ReleaseClaim]:
    """What may be freed for a pod: of the claims named those that nobody else uses, and whatever an
    earlier attempt (perhaps of an earlier owner) has left of claims for its extended resources."""
    stale: Iterable[str] = ()
    if pod.requests.scalars:
        stale = sorted(device_index(cluster).special_claims.get(record.uid, ()))
    objects = cluster.objects
    releases = []
    own = f"{record.namespace}/"
    for key in dict.fromkeys((*filter(lambda key: key.startswith(own), keys), *stale)):
        claim: ResourceClaim | None = objects.get(CLAIMS, key)
        if claim is None or key in objects.assumed(CLAIMS):
            continue  # Gone or changed since that was found.
        is_special = pod_uid_of(claim) == record.uid
        if claim.status.allocation is None and not is_special:
            continue
        if is_used_by_none_but(claim, record.uid):
            meta = claim.metadata
            releases.append(
                ReleaseClaim(meta.namespace, meta.name, meta.uid, record.uid, is_special, ticket)
            )
    return releases
