"""How far drivers are with the devices of a claim that they have to prepare before its pod is bound.

Rules: isClaimReadyForBinding in pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go,
v1.36.2.
"""

from typing import NamedTuple

from shared.kube.api.meta_v1 import Condition
from shared.kube.api.resource_v1 import ResourceClaimStatus


class Preparation(NamedTuple):
    """How far drivers are with the devices of a claim."""

    is_done: bool
    """Of all that need it."""
    failed: Condition | None = None
    """By which a driver says that it gave up."""


def preparation(status: ResourceClaimStatus) -> Preparation:
    """What drivers say of the allocated devices that need preparing."""
    said = {(d.driver, d.pool, d.device): d for d in status.devices or ()}
    for result in (status.allocation.devices.results or ()) if status.allocation else ():
        if not result.binding_conditions:
            continue
        device = said.get((result.driver, result.pool, result.device))
        if device is None:
            return Preparation(is_done=False)
        is_true = {c.type: c for c in device.conditions or () if c.status == "True"}
        for name in result.binding_failure_conditions or ():
            if name in is_true:
                return Preparation(is_done=False, failed=is_true[name])
        if not is_true.keys() >= set(result.binding_conditions):
            return Preparation(is_done=False)
    return Preparation(is_done=True)
