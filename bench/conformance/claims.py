"""What PreBind makes of a pod's resource claims, without an API server, and how the corpus shows it."""

from typing import Any

from daemon.core.cache import Cache
from shared.dra.allocated import results_of
from shared.framework.device_index import CLAIMS
from shared.framework.pod_info import PodInfo
from shared.kube.objects import AllocatedDevice
from shared.kube.pod_record import PodRecord
from shared.plugins.dynamic_resources import DynamicResources

Json = dict[str, Any]


def bind_claims(
    plugin: DynamicResources, record: PodRecord, pod: PodInfo, cache: Cache, row: int
) -> Json:
    """Writes the claims of a reserved pod as allocated and reserved for it; returns the field
    `claims` of the decision, which shows those that the pod names directly."""
    bound = plugin.bound_claims(record, pod, cache.view)
    plugin.unreserve(record, pod, cache.view, row)
    for key, claim in bound:
        cache.objects.put(CLAIMS, key, claim)
    named = [c.resource_claim_name for c in pod.spec.resource_claims or ()]
    shown: Json = {}
    for name in named:
        held = cache.objects.get(CLAIMS, f"{record.namespace}/{name}")
        if name is not None and held is not None:
            shown[name] = [_device(result) for result in results_of(held)]
    return {"claims": shown} if shown else {}


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
