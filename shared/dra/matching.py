"""Matching: whether requests can all have as many devices as they want, one device for one of them.

What it leaves out (constraints, counters, amounts) can only make fewer of them fit: where there is no
matching, no search finds an allocation.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shared.dra.resource_slices import DeviceId


class Matching:
    """Grows by one request after the other."""

    def __init__(self) -> None:
        self._had_by: dict[DeviceId, Sequence[DeviceId]] = {}
        """Device -> all that whoever has it could do with."""
        self.looked_at = 0
        """How many devices the last request was tried with."""

    @property
    def size(self) -> int:
        """So many devices are had by somebody alone."""
        return len(self._had_by)

    def add(self, ways: Sequence[tuple[int, Mapping[DeviceId, bool]]]) -> bool:
        """Whether a request can be met as well, perhaps as others take other devices, in one of these
        ways: so many of these devices. True: others may have the device at the same time."""
        self.looked_at = 0
        if not ways:
            return False
        devices: dict[DeviceId, bool] = {}
        for _, each in ways:
            devices |= {
                identity: each[identity] or devices.get(identity, False) for identity in each
            }
        own = [identity for identity, is_shared in devices.items() if not is_shared]
        wanted = min(count for count, _ in ways) - (len(devices) - len(own))
        return all(self._found(own) for _ in range(wanted))

    def _found(self, wanted: Sequence[DeviceId]) -> bool:
        """Whether one more of these devices can be had. First those are looked at that nobody need give
        up."""
        tried: set[DeviceId] = set()
        asked = {id(wanted)}
        ways: list[_Way] = [_Way(wanted)]
        for number, way in enumerate(ways):  # Further ones are added meanwhile.
            for device in way.devices:
                self.looked_at += 1
                if device in tried:
                    continue
                tried.add(device)
                has_it = self._had_by.get(device)
                if has_it is None:
                    self._give(device, ways, number)
                    return True
                if id(has_it) not in asked:
                    asked.add(id(has_it))
                    ways.append(_Way(has_it, device, number))
        return False

    def _give(self, device: DeviceId, ways: Sequence["_Way"], number: int) -> None:
        """Gives the device, and each that is given up for it, to whoever waits for it."""
        while True:
            way = ways[number]
            self._had_by[device] = way.devices
            if way.given_up is None:
                return
            device, number = way.given_up, way.after


class _Way(NamedTuple):
    """Somebody who could do with another device."""

    devices: Sequence[DeviceId]
    given_up: DeviceId | None = None
    after: int = 0
    """For which way it would be given up."""
