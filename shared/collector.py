"""Python's cycle collector in a process whose data live long: out of their way.

Pods, their records and whatever is made for each pod on its way hold no cycles and are invisible to the
collector (`gc=False`). What is left and many (the API objects of nodes; the classes of pods, where every
pod is one of its own) would by default be looked through again each time that its number has grown by a
quarter, and at each of the young collections while it comes. So the young generation is larger, and once
the process is in its stride, everything that is there is put aside for good. What becomes garbage of
that later is freed by its count as ever; only a cycle that was there by then would stay.
"""

import gc
from typing import Final

YOUNG_OBJECTS_MAX: Final = 50_000
"""Objects with references that are made before a collection looks for cycles among them: some ms of
work for the collector, a second or so of a busy owner's. By default it is 700, which takes a scorer a
fifth of its time where every pod is a class of its own."""


class Collector:
    """Of this process; there is one."""

    def __init__(self) -> None:
        gc.set_threshold(YOUNG_OBJECTS_MAX, 20, 20)
        self._is_frozen = False

    def settled(self) -> None:
        """What is there now stays. Only the first call does something."""
        if not self._is_frozen:
            self._is_frozen = True
            gc.collect()
            gc.freeze()
