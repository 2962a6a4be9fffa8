"""Which devices are taken, and how much of those that are shared.

Rules: pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go, v1.36.2.
"""

from collections.abc import Iterable, Sequence

from shared.dra.resource_slices import DeviceId, PoolId
from shared.grouped import tally, tally_in
from shared.kube.api.resource_v1 import AllocatedDevice, ResourceClaim
from shared.kube.quantity import QuantityError, parse


class AllocatedState:
    """Kept up by counting claims; reading is a look into a dict."""

    def __init__(self, *, has_shares: bool = True) -> None:
        self._has_shares = has_shares
        """Else who was given a share of a device has it alone (without DRAConsumableCapacity)."""
        self._exclusive: dict[DeviceId, int] = {}
        self._shares: dict[DeviceId, int] = {}
        self._capacity: dict[DeviceId, dict[str, int]] = {}
        self._in_pool: dict[PoolId, dict[str, int]] = {}
        """Devices that somebody has, by name, and how often."""

    def is_taken(self, device: DeviceId) -> bool:
        """Given to one claim alone."""
        return device in self._exclusive

    def is_allocated(self, device: DeviceId) -> bool:
        """Given to any claim."""
        return device in self._exclusive or device in self._shares

    def is_capacity_used(self, device: DeviceId) -> bool:
        """Somebody holds a share of it that is measured."""
        return device in self._capacity

    def used(self, device: DeviceId) -> dict[str, int]:
        """Capacity -> amount in 1e-9 that shares take."""
        return self._capacity.get(device, _NOTHING)

    def fingerprint(self, pool: PoolId, devices: Sequence[DeviceId]) -> object:
        """Equal for devices, of one pool, of which the same numbers are taken in the same way."""
        names = self._in_pool.get(pool)
        if names is None:
            return ()
        return tuple(
            [
                (
                    number,
                    device in self._exclusive,
                    device in self._shares,
                    tuple(sorted(self._capacity[device].items()))
                    if device in self._capacity
                    else None,
                )
                for number, device in enumerate(devices)
                if device[2] in names
            ]
        )

    def count(self, claim: ResourceClaim, sign: int) -> list[DeviceId]:
        """Counts a claim's devices, which are returned; -1: takes that back."""
        touched: list[DeviceId] = []
        for result in results_of(claim):
            if result.admin_access:
                continue  # Watches over the device without taking it.
            device = (result.driver, result.pool, result.device)
            touched.append(device)
            tally_in(self._in_pool, device[:2], device[2], sign)
            if result.share_id is None or not self._has_shares:
                tally(self._exclusive, device, sign)
                continue
            tally(self._shares, device, sign)
            self._consume(device, result, sign)
        return touched

    def _consume(self, device: DeviceId, result: AllocatedDevice, sign: int) -> None:
        if result.consumed_capacity is None or (sign < 0 and device not in self._capacity):
            return
        amounts = self._capacity.setdefault(device, {})
        for name, quantity in result.consumed_capacity.items():
            try:
                amount = parse(quantity).nanos
            except QuantityError:
                continue  # Not ours to judge: a share that measures nothing takes nothing.
            amounts[name] = amounts.get(name, 0) + sign * amount
        # Also while others hold shares of nothing (ConsumedCapacityCollection.Remove).
        if sign < 0 and not any(amounts.values()):
            del self._capacity[device]


_NOTHING: dict[str, int] = {}


def results_of(claim: ResourceClaim) -> Iterable[AllocatedDevice]:
    """The devices of an allocated claim; none otherwise."""
    allocation = claim.status.allocation
    return () if allocation is None else allocation.devices.results or ()
