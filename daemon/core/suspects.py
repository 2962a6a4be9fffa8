"""Which pods a lost scorer had in hand: who is suspected of it, and who is parked for it.

What a scorer does not survive (no memory, a fault of a library, work without an end) no boundary inside
it can contain, and a pod that is simply handed out again takes one scorer after the other with it. So
after a loss pods are handed out one by one, each alone to its scorer, until those that were in hand
have been answered. A pod that was in hand at two losses, the second time alone, is parked with all of
its class, which would go the same way; it is tried again alone after an hour, or when it changes (it is
of another class then). Nothing is remembered of pods that nobody was lost with, nor where a scorer that
greets again shows that it lives: only the way to it was lost, as may happen to one of another host.
"""

import math
from collections.abc import Collection
from typing import Final, NamedTuple

from daemon.core.queue.queued_pod import QueuedPod

LOSSES_MAX: Final = 2
LOSSES_IN_COMPANY_MAX: Final = 4
"""Extenders may leave several pods in one hand at all times."""
SUSPICION_S: Final = 60.0
"""Pods that nobody has had in hand since (gated, say, or less important than what comes) are let off:
one by one the cluster's pods are not placed as fast as they may come."""
PARKED_S: Final = 3600.0
PARKED: Final = "Parked"
"""What gates a parked pod, as a PreEnqueue plugin would."""
WHY: Final = (
    "the scoring process ended, or did not come to an end, with this pod in hand, again and again;"
    " it is tried again in an hour, or when it changes"
)


class _Suspicion(NamedTuple):
    losses: int
    since_s: float
    """When the last of them was."""
    instance: str | None
    """Of the scorer that was lost last, where it may be heard of again."""


class Suspects:
    """By class: pods of one class are evaluated alike."""

    def __init__(self) -> None:
        self._suspected: dict[int, _Suspicion] = {}
        self.parked: dict[int, _Suspicion] = {}

    @property
    def is_careful(self) -> bool:
        """Pods are to be handed out one by one."""
        return bool(self._suspected)

    def lose(
        self, pods: Collection[QueuedPod], now_s: float, instance: str | None = None
    ) -> set[int]:
        """A scorer is lost with these in hand; the classes that are parked from now on. `instance`: of
        one of which no more is known than that the way to it is lost (`has_lived`)."""
        losses_max = LOSSES_MAX if len(pods) == 1 else LOSSES_IN_COMPANY_MAX
        guilty: set[int] = set()
        for pod in pods:
            pod.tried_as.is_suspect = True
        for class_id in {pod.tried_as.class_id for pod in pods}:
            before = self._suspected.get(class_id)
            losses = 1 if before is None else before.losses + 1
            self._suspected[class_id] = _Suspicion(losses, now_s, instance)
            if losses >= losses_max:
                guilty.add(class_id)
                self.parked[class_id] = self._suspected.pop(class_id)
        return guilty

    def has_lived(self, instance: str) -> None:
        """The scorer is back: it did not end of what it had in hand."""
        for class_id, (losses, since_s, lost_last) in list(self._suspected.items()):
            if lost_last == instance:
                del self._suspected[class_id]
                if losses > 1:
                    self._suspected[class_id] = _Suspicion(losses - 1, since_s, None)
        for class_id, parked in self.parked.items():
            if parked.instance == instance:
                self.parked[class_id] = parked._replace(since_s=-math.inf, instance=None)

    def clear(self, class_id: int) -> None:
        """A pod of the class was answered, or it has none any more."""
        self._suspected.pop(class_id, None)

    def retire(self, class_ids: Collection[int]) -> None:
        """These classes have no pods any more."""
        for class_id in class_ids if self.parked or self._suspected else ():
            self.clear(class_id)
            self.parked.pop(class_id, None)

    def due(self, now_s: float) -> set[int]:
        """Classes that are parked no more; one loss more, and they are again."""
        if self._suspected:
            old_s = now_s - SUSPICION_S
            self._suspected = {c: s for c, s in self._suspected.items() if s.since_s > old_s}
        due = {c for c, parked in self.parked.items() if parked.since_s + PARKED_S <= now_s}
        for class_id in due:
            del self.parked[class_id]
            self._suspected[class_id] = _Suspicion(LOSSES_MAX - 1, now_s, None)
        return due
