"""Which pods go to which scoring worker.

Each worker has a credit: so many pods may be out with it at a time. While it places one batch the
next is already on its way, so a worker never waits for the owner; more than that only ages the
snapshot that a batch will be placed on. A batch is whatever is waiting, up to a bound: 1 when the
queue is short, so that a lone pod waits for nothing.

Pods of one class go to the same worker as long as that worker has credit: it has the class's scores
at hand, and two workers that place the same class compete for the same nodes.
"""

from collections.abc import Callable, Iterable
from typing import Final

from daemon.core.effects import Effect, TellScorer
from daemon.core.pod_classes import PodClass
from daemon.core.queue.queued_pod import QueuedPod
from shared.messages.to_scorer import PodTask, SchedulePods

BATCH_PODS_MAX: Final = 256
"""Owner and worker spend about 6 and 60 us a pod: a batch is some milliseconds, beside which the cost
of a message (about 50 us) does not count, and short enough that deltas are read often."""
CREDIT_PODS: Final = 2 * BATCH_PODS_MAX


class Attempt:
    """One pod out with a worker."""

    __slots__ = ("batch_id", "pod", "pod_class", "ticket")

    def __init__(self, ticket: int, batch_id: int, pod: QueuedPod, pod_class: PodClass) -> None:
        self.ticket = ticket
        self.batch_id = batch_id
        self.pod = pod
        self.pod_class = pod_class


class Scorer:
    """One connected worker."""

    __slots__ = ("attempts", "instance", "is_ready", "last_heard_s", "peer", "proposal_sequence",
                 "worker_index")  # fmt: skip

    def __init__(self, peer: bytes, worker_index: int, instance: str, now_s: float) -> None:
        self.peer = peer
        self.last_heard_s = now_s
        self.worker_index = worker_index
        self.instance = instance
        self.is_ready = False
        """It has been sent a full snapshot."""
        self.attempts: dict[int, Attempt] = {}
        """By ticket: what it has in hand."""
        self.proposal_sequence = 0
        """Of its last proposals that were settled here."""

    @property
    def credit(self) -> int:
        return CREDIT_PODS - len(self.attempts)


class ScorerFleet:
    """The connected workers and what each has in hand."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._by_peer: dict[bytes, Scorer] = {}
        self._by_class: dict[int, Scorer] = {}
        self._next_ticket = 1
        self._next_batch_id = 1

    def __len__(self) -> int:
        return len(self._by_peer)

    def join(
        self, peer: bytes, worker_index: int, instance: str, now_s: float
    ) -> tuple[Scorer, list[Attempt]]:
        """A worker said Hello. Returns what its former life, if any, had in hand."""
        lost = self.leave(peer)
        for other in [s for s in self._by_peer.values() if s.worker_index == worker_index]:
            lost += self.leave(other.peer)
        scorer = Scorer(peer, worker_index, instance, now_s)
        self._by_peer[peer] = scorer
        return scorer, lost

    def leave(self, peer: bytes) -> list[Attempt]:
        """A worker is gone. Returns what it had in hand, in order."""
        scorer = self._by_peer.pop(peer, None)
        if scorer is None:
            return []
        self._by_class = {c: s for c, s in self._by_class.items() if s is not scorer}
        return [scorer.attempts[ticket] for ticket in sorted(scorer.attempts)]

    def get(self, peer: bytes) -> Scorer | None:
        return self._by_peer.get(peer)

    def heard(self, peer: bytes, now_s: float) -> bool:
        """Says whether the worker is known."""
        scorer = self._by_peer.get(peer)
        if scorer is not None:
            scorer.last_heard_s = now_s
        return scorer is not None

    def oldest_heard_s(self) -> float:
        """When the most silent worker was last heard; there must be one."""
        return min(scorer.last_heard_s for scorer in self._by_peer.values())

    def silent_since(self, deadline_s: float) -> list[bytes]:
        return [s.peer for s in self._by_peer.values() if s.last_heard_s < deadline_s]

    def ready(self) -> list[Scorer]:
        return [scorer for scorer in self._by_peer.values() if scorer.is_ready]

    def settled(self) -> dict[int, int]:
        """Worker index -> the last proposals whose verdicts are in the cache."""
        return {s.worker_index: s.proposal_sequence for s in self._by_peer.values()}

    def credit(self) -> int:
        """How many pods the workers together can still take."""
        return sum(max(0, scorer.credit) for scorer in self.ready())

    def attempt_count(self) -> int:
        return sum(len(scorer.attempts) for scorer in self._by_peer.values())

    def retire_classes(self, class_ids: Iterable[int]) -> None:
        """These classes have no pods left."""
        for class_id in class_ids:
            self._by_class.pop(class_id, None)

    def hand_out(
        self,
        pods: list[tuple[QueuedPod, PodClass]],
        min_sequence: int,
        own_uid: Callable[[str], str],
    ) -> list[Effect]:
        """Gives pods (at most `credit()`, in queue order) to the workers. `own_uid` gives the uid of
        a nominated pod back, and nothing for others."""
        effects: list[Effect] = []
        for scorer, share in self._shares(pods).items():
            for start in range(0, len(share), BATCH_PODS_MAX):
                batch = share[start : start + BATCH_PODS_MAX]
                work = self._work(scorer, batch, min_sequence, own_uid)
                effects.append(TellScorer(scorer.peer, work))
        return effects

    def _shares(
        self, pods: list[tuple[QueuedPod, PodClass]]
    ) -> dict[Scorer, list[tuple[QueuedPod, PodClass]]]:
        ready = self.ready()
        left = {scorer: scorer.credit for scorer in ready}
        shares: dict[Scorer, list[tuple[QueuedPod, PodClass]]] = {}
        for pod, pod_class in pods:
            scorer = self._by_class.get(pod_class.class_id)
            if scorer is None or left.get(scorer, 0) <= 0:
                scorer = max(ready, key=lambda s: (left[s], -s.worker_index))
                self._by_class[pod_class.class_id] = scorer
            left[scorer] -= 1
            shares.setdefault(scorer, []).append((pod, pod_class))
        return shares

    def _work(
        self,
        scorer: Scorer,
        batch: list[tuple[QueuedPod, PodClass]],
        min_sequence: int,
        own_uid: Callable[[str], str],
    ) -> SchedulePods:
        batch_id = self._next_batch_id
        self._next_batch_id += 1
        tasks: list[PodTask] = []
        for pod, pod_class in batch:
            ticket = self._next_ticket
            self._next_ticket += 1
            scorer.attempts[ticket] = Attempt(ticket, batch_id, pod, pod_class)
            tasks.append(PodTask(ticket, pod_class.class_id, own_uid(pod.record.uid)))
        return SchedulePods(
            epoch=self._epoch,
            batch_id=batch_id,
            min_sequence=min_sequence,
            tasks=tasks,
        )
