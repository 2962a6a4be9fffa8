"""Python's cycle collector in the owner: out of the way of what lives long.

Pods, their records and whatever is made for each pod on its way hold no cycles and are invisible to the
collector (`gc=False`). What is left and many are the API objects of nodes: by default they would be
looked through again each time that their number has grown by a quarter, and at each of the young
collections while they come. So the young generation is larger, and once the first sync is through,
everything that is there is put aside for good. What becomes garbage of that later is freed by its count
as ever; only a cycle that was there at the first sync would stay.
"""

import gc
from typing import Final

YOUNG_OBJECTS_MAX: Final = 50_000
"""Objects with references that are made before a collection looks for cycles among them: some ms of
work for the collector, a second or so of a busy owner's."""


class Collector:
    """Of this process; there is one."""

    def __init__(self) -> None:
        gc.set_threshold(YOUNG_OBJECTS_MAX, 20, 20)
        self._is_frozen = False

    def synced(self) -> None:
        """The cluster was listed. Only the first call does something."""
        if not self._is_frozen:
            self._is_frozen = True
            gc.collect()
            gc.freeze()
