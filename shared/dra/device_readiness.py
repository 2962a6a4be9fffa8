"""How far drivers are with the devices of a claim that they have to prepare before its pod is bound.

Rules: isClaimReadyForBinding in pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go,
v1.36.2.
"""

import enum

from shared.kube.api.meta_v1 import Condition
from shared.kube.api.resource_v1 import ResourceClaimStatus


class Readiness(enum.Enum):
    """How far drivers are with an allocation."""

    READY = "nothing to prepare, or all of it is prepared"
    PENDING = "a driver is at it"
    FAILED = "a driver gave up"


def readiness(status: ResourceClaimStatus) -> Readiness:
    """What drivers say of the allocated devices that need preparing."""
    if status.allocation is None:
        return Readiness.READY
    said = {(d.driver, d.pool, d.device): d for d in status.devices or ()}
    for result in status.allocation.devices.results or ():
        if not result.binding_conditions:
            continue
        device = said.get((result.driver, result.pool, result.device))
        if device is None:
            return Readiness.PENDING
        is_true = {c.type for c in device.conditions or () if c.status == "True"}
        if is_true & set(result.binding_failure_conditions or ()):
            return Readiness.FAILED
        if not is_true.issuperset(result.binding_conditions):
            return Readiness.PENDING
    return Readiness.READY


def failed_condition(status: ResourceClaimStatus) -> Condition | None:
    """By which a driver says that it gave up preparing an allocated device; None: it did not."""
    said = {(d.driver, d.pool, d.device): d for d in status.devices or ()}
    for result in (status.allocation.devices.results or ()) if status.allocation else ():
        device = said.get((result.driver, result.pool, result.device))
        if not result.binding_conditions or device is None:
            continue
        by_type = {c.type: c for c in device.conditions or () if c.status == "True"}
        for name in result.binding_failure_conditions or ():
            if name in by_type:
                return by_type[name]
    return None
