"""What the binder has to do about the volumes and resource claims of a pod: before it binds the pod, or
to free claims where the pod fits nowhere.

Read after Reserve, which laid its allocations over the claims. A claim that is reserved for the pod
already needs nothing, unless a driver has to prepare its devices first: that is waited for.

Volumes are read from the same search that Reserve made its assumptions by: a pod that shares a claim
with an earlier one finds nothing left to assume, and waits for the same volume all the same.
"""

from collections.abc import Iterable

import numpy as np

from daemon.core.cache import Cache
from daemon.core.owner_plugins import OwnerPlugins
from shared.dra.device_index import CLAIMS, device_index
from shared.dra.extended import pod_uid_of
from shared.dra.pod_claims import is_used_by_none_but
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.pod_record import PodRecord
from shared.kube.well_known import BOUND_BY_CONTROLLER
from shared.messages.to_binder import (
    ClaimWork,
    GeneratedClaim,
    MakeVolume,
    ReleaseClaim,
    TakeVolume,
    VolumeWork,
)
from shared.plugins.devices.dynamic_resources import DynamicResources
from shared.plugins.volumes.volume_binding import VolumeBinding


def claim_work(
    plugins: OwnerPlugins, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int
) -> list[ClaimWork]:
    """For a pod that was reserved a place on the row; empty for the usual pod, which has no claims."""
    if not pod.spec.resource_claims and not pod.requests.scalars:
        return []
    plugin = plugins.reserving(pod, DynamicResources)
    if plugin is None:
        return []
    assumed = cluster.objects.assumed(CLAIMS)
    work = []
    for key, claim in plugin.used_claims(record, pod, cluster).items():
        # Of those that share what was allocated for one of them, that one writes it.
        is_new = key in assumed and assumed[key].pod_uids[0] == record.uid
        if not is_new and plugin.is_ready_for(claim, record):
            continue
        allocation = claim.status.allocation
        assert allocation is not None, f"{key} is used without being allocated"
        generated = None
        # What the pod names is there; the scheduler's own claim is only assumed.
        if is_new and cluster.objects.get(CLAIMS, key) is None:
            mappings = plugin.extended_requests_on(pod, cluster, row).mappings
            generated = GeneratedClaim(claim.spec, list(mappings))
        work.append(
            ClaimWork(
                namespace=claim.metadata.namespace,
                name=claim.metadata.name,
                uid=claim.metadata.uid,
                allocation=allocation,
                is_new=is_new,
                ready_timeout_s=plugin.binding_timeout_s,
                generated=generated,
            )
        )
    return work


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


def volume_work(
    plugins: OwnerPlugins, pod: PodInfo, cluster: ClusterView, row: int
) -> VolumeWork | None:
    """For a pod that was reserved a place on the row; None where all volumes are bound."""
    if not pod.claim_uses:
        return None
    plugin = plugins.reserving(pod, VolumeBinding)
    found = None if plugin is None else plugin.volumes_on(pod, cluster, np.array([row], np.intp))
    if plugin is None or found is None:
        return None
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
    return VolumeWork(take, make, plugin.bind_timeout_s)
