"""What PreBind makes of a pod's resource claims, without an API server, and how the corpus shows it."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from daemon.core.cache import Cache
from shared.dra.allocated import results_of
from shared.dra.device_index import CLAIMS
from shared.dra.pod_claims import is_reserved_for
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.kube.api.meta_v1 import ObjectMeta, OwnerReference
from shared.kube.api.resource_v1 import (
    AllocatedDevice,
    ResourceClaim,
    ResourceClaimConsumer,
    ResourceClaimSpec,
)
from shared.kube.binding_work import ClaimWork, consumer_of
from shared.kube.pod_record import PodRecord
from shared.kube.well_known import EXTENDED_RESOURCE_CLAIM, IS_ONE
from shared.plugins.devices.dynamic_resources import DynamicResources

Json = dict[str, Any]

WRITTEN: Final = "-written"


def bind_claims(
    plugin: DynamicResources, record: PodRecord, pod: PodInfo, cache: Cache, row: int
) -> Json:
    """Writes the claims of a reserved pod as allocated and reserved for it; returns the field
    `claims` of the decision, which shows those that the pod names directly."""
    bound = bound_claims(plugin, record, pod, cache.view)
    plugin.unreserve(record, pod, cache.view, row)
    for key, claim in bound:
        cache.objects.put(CLAIMS, key, claim)
    held = cache.objects.all(CLAIMS)
    named = [c.resource_claim_name for c in pod.spec.resource_claims or ()]
    return shown_claims(record.namespace, named, held)


def bound_claims(
    plugin: DynamicResources, record: PodRecord, pod: PodInfo, cluster: ClusterView
) -> list[tuple[str, ResourceClaim]]:
    """Keys and claims as PreBind leaves them for a reserved pod: allocated, and reserved for it."""
    consumer = ResourceClaimConsumer(resource="pods", name=record.name, uid=record.uid)
    found = []
    for key, claim in plugin.used_claims(record, pod, cluster).items():
        if not is_reserved_for(claim, record.uid):
            users = [*(claim.status.reserved_for or ()), consumer]
            status = msgspec.structs.replace(claim.status, reserved_for=users)
            found.append((key, msgspec.structs.replace(claim, status=status)))
    return found


def shown_claims(
    namespace: str, names: Iterable[str | None], claims: dict[str, ResourceClaim]
) -> Json:
    """The field `claims` of a decision; `claims` by key, of which those named are shown."""
    shown: Json = {}
    for name in names:
        held = claims.get(f"{namespace}/{name}")
        if name is not None and held is not None:
            shown[name] = [_device(result) for result in results_of(held)]
    return {"claims": shown} if shown else {}


def written_claim(work: ClaimWork, held: ResourceClaim | None, record: PodRecord) -> ResourceClaim:
    """A claim as the API server shows it once a binder has done its work; `held` is the claim before,
    None for one that the binder makes."""
    if held is None:
        assert work.generated is not None, f"an order for claim {work.name}, which is not there"
        held = _made_claim(work, work.generated.spec, record)
    users = list(held.status.reserved_for or ())
    consumer = consumer_of(work, record.name, record.uid)
    if not is_reserved_for(held, consumer.uid):
        users.append(consumer)
    version = held.metadata.resource_version + WRITTEN
    return msgspec.structs.replace(
        held,
        metadata=msgspec.structs.replace(held.metadata, resource_version=version),
        status=msgspec.structs.replace(held.status, allocation=work.allocation, reserved_for=users),
    )


def _made_claim(work: ClaimWork, spec: ResourceClaimSpec, record: PodRecord) -> ResourceClaim:
    owner = OwnerReference("v1", "Pod", record.name, record.uid, controller=True)
    meta = ObjectMeta(
        name=work.name,
        namespace=work.namespace,
        uid=f"uid-of-{work.name}",
        annotations={EXTENDED_RESOURCE_CLAIM: IS_ONE},
        owner_references=[owner],
    )
    return ResourceClaim(metadata=meta, spec=spec)


def _device(result: AllocatedDevice) -> Json:
    shape: Json = {
        "request": result.request,
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
    }
    if result.admin_access:
        shape["admin_access"] = True
    if result.consumed_capacity:
        shape["consumed_capacity"] = result.consumed_capacity
    return shape
