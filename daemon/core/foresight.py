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

from itertools import takewhile

import numpy as np

from daemon.core.checker import Stretch
from daemon.core.committer import Committer, is_wanted
from daemon.core.dispatch import Foreseen, Scorer
from daemon.core.holdings import Part
from daemon.core.owner_counts import Count
from daemon.core.queue.queued_pod import QueuedPod
from shared.errors import ObjectError
from shared.faults import reading
from shared.messages.from_scorer import Forecast


class Foresight(Part):
    _committer: Committer
    _followed: Scorer | None = None
    """A pod was placed where this scorer had foreseen it, and what follows is not checked yet."""

    def note(self, scorer: Scorer, forecast: Forecast) -> None:
        """Keeps what a scorer says, if it passes every check and nothing else has changed since."""
        cache = self._owner.cache
        former, scorer.foreseen = scorer.foreseen, None
        info = cache.classes.infos.get(forecast.class_id)
        if info is None or len(cache.view.nominations) or self._owner.plugins.may_reserve(info):
            return
        foreseen = Foreseen(forecast, forecast.sequence, self._owner.snapshots.generation)
        if former is not None and self._is_still_so(former):
            known = former.forecast
            first = forecast.ticket - known.ticket
            placed = known.node_rows[first : former.used_count] if first >= 0 else []
            if known.class_id == forecast.class_id and forecast.node_rows[: len(placed)] == placed:
                foreseen.used_count, foreseen.generation = len(placed), former.generation
        if self._is_still_so(foreseen):
            scorer.foreseen = foreseen
            self._check(scorer, foreseen)

    def _check(self, scorer: Scorer, foreseen: Foreseen) -> None:
        """As many at once as do not keep each other away. All is void if the next does not pass."""
        cache, checker, forecast = self._owner.cache, self._owner.checker, foreseen.forecast
        class_id = forecast.class_id
        info, left = cache.classes.infos[class_id], forecast.node_rows[foreseen.used_count :]
        rows = list(takewhile(lambda row: 0 <= row < cache.nodes.row_count, left))
        foreseen.checked_count = 0
        if rows:
            stretch = Stretch(class_id, info, checker, cache.view, rows[0])
            asked = np.array([rows[0], *takewhile(stretch.takes, rows[1:])], np.intp)
            try:
                with reading("class", class_id):
                    passes = checker.passing(class_id, info, asked)
                foreseen.checked_count = len(asked) if passes.all() else int(passes.argmin())
            except ObjectError:
                self._owner.forget_derived()  # The next pod of the class is told.
        if not foreseen.checked_count:
            scorer.foreseen = None

    def place(self, now_s: float) -> None:
        """Assumes the pods that wait, in their order, as far as they were foreseen."""
        queue = self._owner.queue
        while (pod := queue.first_in_line()) is not None:
            self.check_next()
            if not self._place(pod, now_s):
                return

    def _place(self, pod: QueuedPod, now_s: float) -> bool:
        scorer = self._owner.scorers.with_foresight(pod.class_id)
        foreseen = None if scorer is None else scorer.foreseen
        if scorer is None or foreseen is None or pod.record.group:
            return False
        if not self._is_still_so(foreseen) or not is_wanted(pod, self._owner.cache):
            return False
        self._owner.queue.pop_batch(1, now_s)
        pod.ticket = self._owner.scorers.take_ticket()
        row = foreseen.forecast.node_rows[foreseen.used_count]
        self._committer.commit_checked(pod, row, now_s)
        self._owner.counters[Count.FORECASTS_USED] += 1
        if self._owner.logs_attempts:
            self._owner.log_step("placed_as_foreseen", pod)
        self._owner.counters.observe("algorithm_s", (), foreseen.forecast.took_s)
        foreseen.generation = self._owner.cache.generation
        foreseen.used_count += 1
        foreseen.checked_count -= 1
        self._followed = scorer
        return True

    def check_next(self) -> None:
        """Checks what follows the last pod that was placed, which is on its way if nobody waits."""
        scorer, self._followed = self._followed, None
        foreseen = None if scorer is None else scorer.foreseen
        if scorer is not None and foreseen is not None and not foreseen.checked_count:
            self._check(scorer, foreseen)

    def covering(self) -> list[Foreseen]:
        """Of which all is part that changed since the last snapshot."""
        scorers = self._owner.scorers
        foreseen = (each.foreseen for each in scorers if each.foreseen is not None)
        following = (each for each in foreseen if each.ticket == scorers.next_ticket)
        return [each for each in following if self._is_still_so(each)]

    def _is_still_so(self, foreseen: Foreseen) -> bool:
        """Nothing changed since the last snapshot but what was foreseen."""
        snapshots, settled = self._owner.snapshots, self._owner.scorers.settled
        is_of_last = foreseen.sequence == snapshots.sequence
        return is_of_last and snapshots.is_current(settled, foreseen.generation)
