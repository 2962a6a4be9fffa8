"""How many different volumes of each driver are attached to each node, kept up one user at a time.

The simple way counts the volumes of all pods on a node for each pod that wants to go there. Here a
pod that comes or goes changes as many numbers as it has volumes, and a driver's counts are one array
for all nodes. A volume counts once on a node, however many pods use it there; that the API server
shows it attached counts as a use as well, but not as one by a pod.

Rules: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go, v1.36.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from shared.columns.schema import Int64s
from shared.grouped import tally_in
from shared.kube.pod_volumes import Attachable

FIRST_CAPACITY: Final = 64


class AttachCounts:
    """By driver and node row. Removing what was not added is a bug."""

    def __init__(self) -> None:
        self._counts: dict[str, Int64s] = {}
        self._pods: dict[str, dict[int, int]] = {}
        """Volume -> node row -> pods that use it there."""
        self._attached: dict[str, dict[int, int]] = {}
        """The same of the API server's word that it is attached."""

    def count(self, driver: str, capacity: int) -> Int64s:
        """Volumes on each node; shape (at least capacity,). Read only."""
        counts = self._counts.get(driver)
        if counts is None or len(counts) < capacity:
            counts = self._counts[driver] = self._grown(driver, capacity)
        return counts

    def rows_with_pods(self, volume: str) -> list[int]:
        """The nodes on which pods use the volume."""
        return list(self._pods.get(volume, ()))

    def change_pods(self, volume: Attachable, row: int, change: int) -> None:
        """So many more pods (fewer, if negative) use the volume on the node."""
        self._change(self._pods, self._attached, volume, row, change)

    def change_attached(self, volume: Attachable, row: int, change: int) -> None:
        """The volume is attached to the node by one more object, or by one less."""
        self._change(self._attached, self._pods, volume, row, change)

    def _change(
        self,
        users: dict[str, dict[int, int]],
        others: dict[str, dict[int, int]],
        volume: Attachable,
        row: int,
        change: int,
    ) -> None:
        before = users.get(volume.name, _NOBODY).get(row, 0)
        after = before + change
        assert after >= 0, "a use of a volume was taken back twice"
        tally_in(users, volume.name, row, change)
        if bool(before) is not bool(after) and row not in others.get(volume.name, _NOBODY):
            self.count(volume.driver, row + 1)[row] += 1 if after else -1

    def _grown(self, driver: str, capacity: int) -> Int64s:
        old = self._counts.get(driver)
        size = FIRST_CAPACITY if old is None else len(old)
        while size < capacity:
            size *= 2
        counts = np.zeros(size, np.int64)
        if old is not None:
            counts[: len(old)] = old
        return counts


_NOBODY: Final[Mapping[int, int]] = {}
