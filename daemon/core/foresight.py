"""A lone pod is placed where its worker said that it would go, before it came.

Asking a worker is two messages, and each wakes a process whose caches went cold while nothing
happened: that is most of what a lone pod waits for. But a worker that has nothing to do can say where
the next pod of the class that it placed last would go, and the owner can check that at leisure. If
nothing has changed when the pod comes, the worker's answer to it would be the same, and so would the
verdict on it; so the pod is assumed at once, and decisions are those without foresight.

What is foreseen is void with the next delta. Pods that need more than a node that takes them (room
that is reserved, nominations) go the usual way.
"""

import numpy as np

from daemon.core.committer import Committer
from daemon.core.dispatch import NO_BATCH, Attempt, Foreseen, Scorer
from daemon.core.holdings import Holdings
from daemon.core.proposals import forget_worked_out
from daemon.core.queue.queued_pod import QueuedPod
from shared.errors import ObjectError
from shared.faults import reading
from shared.messages.from_scorer import Forecast


class Foresight:
    """What the workers foresee."""

    def __init__(self, holdings: Holdings, committer: Committer) -> None:
        self._holdings = holdings
        self._committer = committer

    def note(self, scorer: Scorer, forecast: Forecast) -> None:
        """Keeps what a worker says, if it is of this moment and passes every check."""
        holdings, class_id, row = self._holdings, forecast.class_id, forecast.node_row
        cache = holdings.cache
        scorer.foreseen = None
        info = cache.classes.infos.get(class_id)
        if info is None or not self._is_now(forecast.sequence) or len(cache.view.nominations):
            return
        if not 0 <= row < cache.nodes.row_count or holdings.plugins.may_reserve(info):
            return
        profile = info.spec.scheduler_name
        try:
            with reading("class", class_id):
                passes = holdings.checker.passing(class_id, info, profile, np.array([row], np.intp))
        except ObjectError:
            forget_worked_out(cache, holdings.checker)  # The next pod of the class is told.
            return
        if passes.all():
            scorer.foreseen = Foreseen(
                sequence=forecast.sequence,
                ticket=forecast.ticket,
                class_id=class_id,
                node_name=cache.nodes.name_of(row),
                took_s=forecast.took_s,
            )

    def place(self, now_s: float) -> None:
        """Assumes the only pod that waits, where it was foreseen."""
        holdings = self._holdings
        pod = holdings.queue.lone_active()
        if pod is None:
            return
        foreseen = holdings.scorers.foreseen(pod.class_id)
        if foreseen is None or not self._is_now(foreseen.sequence) or not self._is_wanted(pod):
            return
        holdings.queue.pop_batch(1, now_s)
        attempt = Attempt(
            holdings.scorers.take_ticket(),
            NO_BATCH,
            pod,
            holdings.changes.class_of(pod.record.uid),
        )
        begun_s = holdings.counters.stopwatch()
        holdings.cache.assume_pod(pod.record, foreseen.node_name, attempt.pod_class)
        took_s = holdings.counters.stopwatch() - begun_s
        holdings.counters.took("Reserve", attempt.pod_class.profile, took_s)
        holdings.counters["forecasts_used"] += 1
        holdings.counters.observe("algorithm_s", (), foreseen.took_s)
        self._committer.bind(attempt, foreseen.node_name, now_s)

    def _is_now(self, sequence: int) -> bool:
        """Nothing changed since this snapshot."""
        snapshots = self._holdings.snapshots
        is_last = sequence == snapshots.sequence
        return is_last and snapshots.is_current(self._holdings.scorers.settled())

    def _is_wanted(self, pod: QueuedPod) -> bool:
        """To be scheduled at all (skipPodSchedule)."""
        return not pod.record.deleted and self._holdings.cache.get_pod(pod.record.uid) is None
