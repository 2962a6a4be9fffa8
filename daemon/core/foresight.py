"""A pod is placed where its scorer said that it would go, before it came.

Asking a scorer is two messages, and each wakes a process whose caches went cold while nothing
happened: that is most of what a lone pod waits for. But a scorer that has nothing to do can say where
the next pods of the class that it placed last would go, and the owner can check that at leisure. If
nothing has changed when the pod comes, the scorer's answer to it would be the same, and so would the
verdict on it; so the pod is assumed at once, and decisions are those without foresight.

What is foreseen is void with any other change. As long as there is none, the scorer knows what became
of its pods and need not be told: the delta waits until most of what it foresaw is used, or something
else happens, or somebody needs it (`covering`). What it says then of the next pods begins with those
that were placed meanwhile. Pods that need more than a node that takes them
(something reserved, nominations) go the usual way.
"""

from collections.abc import Collection
from itertools import takewhile

import msgspec
import numpy as np

from daemon.core.checker import Stretch
from daemon.core.committer import Committer, is_wanted
from daemon.core.dispatch import Scorer
from daemon.core.holdings import Part
from daemon.core.owner_counts import Count
from daemon.core.queue.queued_pod import QueuedPod
from shared.errors import ObjectError
from shared.faults import reading
from shared.messages.from_scorer import Forecast


class Foreseen(msgspec.Struct):
    """Where the next pods of a class would go, after a snapshot and what was foreseen and done since."""

    scorer: Scorer
    forecast: Forecast
    sequence: int
    """Of the last snapshot; what changed since was foreseen here."""
    generation: int
    """Of the cache, in that state."""
    used_count: int = 0
    checked_count: int = 0
    """So many of the next pass every check, as long as nothing but these is placed."""
    is_told: bool = False
    """A snapshot has told which were used, and the scorer says what follows."""

    @property
    def may_wait(self) -> bool:
        """Whether the scorer need not be told yet which were used. It is when a quarter is left, so that
        it has said what follows before a pod would have to ask."""
        count = len(self.forecast.node_rows)
        return self.used_count < count if self.is_told else 4 * self.used_count < 3 * count


class Foresight(Part):
    _committer: Committer
    _by_class: dict[int, Foreseen] = msgspec.field(default_factory=dict)
    """What is void leaves with the next snapshot at the latest."""
    _followed: Foreseen | None = None
    """A pod was placed as it was foreseen here, and what follows is not checked yet."""
    is_worth_it: bool = False
    """The last two pods that came were of one class, so that the next may be too: one class is foreseen
    at a time, and for a pod of any other it was in vain."""
    _last_class_id: int = 0

    def came(self, pod: QueuedPod) -> None:
        """It is placed now, or a scorer is asked about it."""
        class_id = pod.pod_class.class_id
        self.is_worth_it, self._last_class_id = class_id == self._last_class_id, class_id

    def note(self, scorer: Scorer, forecast: Forecast) -> None:
        """Keeps what a scorer says, if it passes every check and nothing else has changed since."""
        cache, class_id = self._owner.cache, forecast.class_id
        former = self._by_class.pop(class_id, None)
        info = cache.classes.infos.get(class_id)
        if info is None or len(cache.view.nominations) or self._owner.plugins.may_reserve(info):
            return
        generation = self._owner.snapshots.generation
        foreseen = Foreseen(scorer, forecast, forecast.sequence, generation)
        if former is not None and self._is_still_so(former):
            known = former.forecast
            first = forecast.ticket - known.ticket
            placed = known.node_rows[first : former.used_count] if first >= 0 else []
            if forecast.node_rows[: len(placed)] == placed:
                foreseen.used_count, foreseen.generation = len(placed), former.generation
        if self._is_still_so(foreseen):
            self._by_class[class_id] = foreseen
            self._check(foreseen)

    def _check(self, foreseen: Foreseen) -> None:
        """As many at once as do not keep each other away. All is void if the next does not pass."""
        cache, checker, forecast = self._owner.cache, self._owner.checker, foreseen.forecast
        class_id = forecast.class_id
        info, left = cache.classes.infos[class_id], forecast.node_rows[foreseen.used_count :]
        rows = list(takewhile(lambda row: 0 <= row < cache.nodes.row_count, left))
        foreseen.checked_count = 0
        if rows:
            try:
                with reading("class", class_id):
                    stretch = Stretch(class_id, info, checker, rows[0])
                    asked = np.array([rows[0], *takewhile(stretch.takes, rows[1:])], np.intp)
                    passes = checker.passing(class_id, info, asked)
                foreseen.checked_count = len(asked) if passes.all() else int(passes.argmin())
            except ObjectError:
                self._owner.forget_derived()  # The next pod of the class is told.
        if not foreseen.checked_count:
            del self._by_class[class_id]

    def place(self, now_s: float) -> None:
        """Assumes the pods that wait, in their order, as far as they were foreseen."""
        queue = self._owner.queue
        while (pod := queue.first_in_line()) is not None:
            self.check_next()
            if not self._place(pod, now_s):
                return

    def _place(self, pod: QueuedPod, now_s: float) -> bool:
        owner = self._owner
        foreseen = self._by_class.get(pod.pod_class.class_id)
        if foreseen is None or pod.record.group or not is_wanted(pod, owner.cache):
            return False
        if not self._is_still_so(foreseen):
            return False
        owner.queue.pop_batch(1, now_s)
        self.came(pod)
        pod.ticket = owner.scorers.take_ticket()
        row = foreseen.forecast.node_rows[foreseen.used_count]
        is_placed = self._committer.commit_checked(pod, row, now_s)
        owner.counters[Count.FORECASTS_USED] += 1
        if owner.logs_attempts:
            owner.log_step("placed_as_foreseen", pod)
        owner.counters.observe("algorithm_s", (), foreseen.forecast.took_s)
        if not is_placed:  # By Permit: what was foreseen on top of it is void.
            del self._by_class[pod.pod_class.class_id]
            return True
        foreseen.generation = owner.cache.generation
        foreseen.used_count += 1
        foreseen.checked_count -= 1
        self._followed = foreseen
        return True

    def check_next(self) -> None:
        """Checks what follows the last pod that was placed, which is on its way if nobody waits."""
        followed, self._followed = self._followed, None
        if followed is not None and not followed.checked_count:
            self._check(followed)

    def covering(self) -> Collection[Foreseen]:
        """Of which all is part that changed since the last snapshot."""
        self._by_class = {c: each for c, each in self._by_class.items() if self._is_still_so(each)}
        return self._by_class.values()

    def _is_still_so(self, foreseen: Foreseen) -> bool:
        """The next pod of the class would go to that scorer, and nothing changed since the last snapshot
        but what was foreseen."""
        scorers, snapshots, forecast = self._owner.scorers, self._owner.snapshots, foreseen.forecast
        return (
            forecast.ticket + foreseen.used_count == scorers.next_ticket
            and scorers.by_class.get(forecast.class_id) is foreseen.scorer
            and foreseen.sequence == snapshots.sequence
            and snapshots.is_current(scorers.settled, foreseen.generation)
        )
