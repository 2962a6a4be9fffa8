"""Which pods go to which scorer.

Each scorer has a credit: so many pods may be out with it at a time. While it places one batch the
next is already on its way, so a scorer never waits for the owner; more than that only ages the
snapshot that a batch will be placed on. A batch is whatever is waiting, up to a bound: 1 when the
queue is short, so that a lone pod waits for nothing.

Pods of one class go to the same scorer as long as that scorer has credit: it has the class's scores
at hand, and two scorers that place the same class compete for the same nodes.

When many of a scorer's placements are refused, its copy is too old for what goes on: others take the
same nodes meanwhile. Its window (the credit when it has nothing in hand) is then halved, and grows again
by a fixed step with each answer that is accepted, as TCP does on a path that it shares with others.
"""

from collections.abc import Container, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from daemon.core.events import Effect, Tell
from daemon.core.peers import Peer, Peers
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.snapshot_log import SnapshotLog
from shared.limits import RUN_PODS_MAX
from shared.messages.from_scorer import Proposals
from shared.messages.to_scorer import (
    ExtendedTask,
    GroupTask,
    ScheduleExtended,
    SchedulePods,
    TaskRun,
)
from shared.transport.channels import Channel

BATCH_PODS_MAX: Final = 256
"""Owner and scorer spend about 6 and 60 us a pod: a batch is some milliseconds, beside which the cost
of a message (about 50 us) does not count, and short enough that deltas are read often."""
CREDIT_PODS: Final = 2 * BATCH_PODS_MAX
WINDOW_PODS_MIN: Final = 16
"""A message costs about what one pod does; below that, smaller is only slower."""
WINDOW_STEP_PODS: Final = 16
"""From the least to the most in 31 accepted answers."""
REFUSED_SHARE_MAX: Final = 1 / 8
"""A refused placement costs one more evaluation: up to here the work done twice is less than what half
the window would lose."""


Placed = tuple[QueuedPod, int]
"""A pod and the row of its node."""


class GroupInHand(NamedTuple):
    key: str
    tickets: range
    needed: int
    """So many of its pods had to find a place when it went out."""


class Scorer(Peer):
    instance: str
    key_name: str = ""
    """Of a scorer of another host, who is believed nothing that can be checked; else empty."""
    is_ready: bool = False
    """It has been sent a full snapshot."""
    lag: int = 0
    """So many generations its copy was behind when it last said so."""
    attempts: dict[int, QueuedPod] = msgspec.field(default_factory=dict)
    """By ticket: what it has in hand."""
    extended: set[int] = msgspec.field(default_factory=set)
    """Tickets, among those, of pods that wait for extenders. They take nobody's place."""
    groups: dict[int, GroupInHand] = msgspec.field(default_factory=dict)
    """Batch id -> the pod group that the batch is."""
    refused_generation: int = 0
    """When a placement of its was last refused: what it finds to fit nowhere on an older copy may
    only be kept away by that placement."""
    window: int = CREDIT_PODS
    """So many pods may be out with it."""
    last_batch_id: int = 0
    """Of what it was given so far."""
    shrunk_at_batch: int = 0
    """The window was last halved for this batch or those before."""

    @property
    def credit(self) -> int:
        return self.window - len(self.attempts) + len(self.extended)

    def settle(self, ticket: int) -> QueuedPod | None:
        """An answer came in; None for a pod that is not out with this scorer."""
        self.extended.discard(ticket)
        return self.attempts.pop(ticket, None)

    def judged(self, accepted_count: int, refused_count: int, batch_id: int) -> None:
        """What became of one answer. The batches that are out with the scorer were handed out under the
        old window, so that their refusals say nothing new."""
        count = accepted_count + refused_count
        if not count:
            return
        if refused_count <= count * REFUSED_SHARE_MAX:
            self.window = min(CREDIT_PODS, self.window + WINDOW_STEP_PODS)
        elif batch_id > self.shrunk_at_batch:
            self.window = max(WINDOW_PODS_MIN, self.window // 2)
            self.shrunk_at_batch = self.last_batch_id


class Found(NamedTuple):
    """What a scorer has found, and when that was heard."""

    scorer: Scorer
    proposals: Proposals
    now_s: float


class ScorerFleet(Peers[Scorer]):
    SILENCE_MAX_S = 60.0
    """A scorer says something each second, except while it places a batch: 256 pods of as many classes
    on a million nodes take about 10 s."""

    def __init__(
        self,
        epoch: int,
        snapshots: SnapshotLog,
        nominated: Container[str],
        *,
        names_pods: bool = False,
    ) -> None:
        """`nominated`: uids, as they are then. `names_pods`: scorers log what they do with each."""
        super().__init__()
        self._epoch = epoch
        self._snapshots = snapshots
        self._nominated = nominated
        self._names_pods = names_pods
        self.by_class: dict[int, Scorer] = {}
        """Where the next pod of a class goes, if that has credit."""
        self.settled: dict[int, int] = {}
        """Scorer index -> its last proposals whose verdicts are in the cache."""
        self.next_ticket = 1
        """Of the next pod that is handed out."""
        self._next_batch_id = 1
        self.is_careful = False
        """Each scorer has one pod at a time; see `suspects.py`."""

    def join(
        self, peer: bytes, index: int, instance: str, now_s: float, key_name: str = ""
    ) -> None:
        """A scorer said Hello. Those that it replaces have left."""
        self._by_peer[peer] = Scorer(peer, index, now_s, instance, key_name)
        self.settled[index] = 0

    def leave(self, peer: bytes) -> list[QueuedPod]:
        """A scorer is gone. Returns what it had in hand, in order."""
        scorer = self._by_peer.pop(peer, None)
        if scorer is None:
            return []
        self.by_class = {c: s for c, s in self.by_class.items() if s is not scorer}
        del self.settled[scorer.index]
        return [scorer.attempts[ticket] for ticket in sorted(scorer.attempts)]

    def ready(self) -> list[Scorer]:
        return [scorer for scorer in self if scorer.is_ready]

    def credit(self) -> int:
        """How many pods the scorers together can still take."""
        return sum(max(0, self._credit(scorer)) for scorer in self.ready())

    def _credit(self, scorer: Scorer) -> int:
        return 1 - len(scorer.attempts) if self.is_careful else scorer.credit

    def awaited_count(self) -> int:
        """Without those that wait for extenders: that may take long, and they lose nothing by an end."""
        return sum(len(scorer.attempts) - len(scorer.extended) for scorer in self)

    def take_ticket(self) -> int:
        """For a pod that is not part of a batch."""
        ticket = self.next_ticket
        self.next_ticket += 1
        return ticket

    def hand_out(self, pods: list[QueuedPod]) -> list[Effect]:
        """Gives pods (at most `credit()`, in queue order) to the scorers."""
        effects: list[Effect] = []
        for scorer, share in self._shares(pods).items():
            for start in range(0, len(share), BATCH_PODS_MAX):
                work = self._work(scorer, share[start : start + BATCH_PODS_MAX])
                effects.append(Tell(Channel.SCORERS, scorer.peer, work))
        return effects

    def hand_out_group(
        self, pods: list[QueuedPod], group: GroupTask, asked: Sequence[QueuedPod] = ()
    ) -> list[Effect]:
        """Gives all pods of a group, however many, to one scorer. `asked`: those of them that extenders
        are asked about; the others wait with them."""
        scorer = self.by_class.get(pods[0].class_id)
        if asked:
            scorer = min(self.ready(), key=lambda s: (len(s.extended), s.index))
        elif scorer is None or self._credit(scorer) <= 0:
            scorer = max(self.ready(), key=lambda s: (self._credit(s), -s.index))
        work = self._work(scorer, pods, group)
        tickets = range(work.first_ticket, self.next_ticket)
        if asked:
            scorer.extended.update(tickets)
            work = replace(work, asked=[self._extended(pod) for pod in asked])
        key = pods[0].record.group_key
        scorer.groups[work.batch_id] = GroupInHand(key, tickets, group.needed)
        return [Tell(Channel.SCORERS, scorer.peer, work)]

    def hand_out_extended(self, pods: list[QueuedPod]) -> list[Effect]:
        """Gives pods that extenders are asked about to the scorers that have the fewest of them."""
        shares: dict[bytes, list[ExtendedTask]] = {}
        load = {scorer: len(scorer.extended) for scorer in self.ready()}
        for pod in pods:
            scorer = min(load, key=lambda s: (load[s], s.index))
            load[scorer] += 1
            pod.ticket, pod.tried_as = self.take_ticket(), pod.pod_class
            scorer.attempts[pod.ticket] = pod
            scorer.extended.add(pod.ticket)
            shares.setdefault(scorer.peer, []).append(self._extended(pod))
        epoch, sequence = self._epoch, self._snapshots.sequence
        return [
            Tell(Channel.SCORERS, peer, ScheduleExtended(epoch, sequence, tasks))
            for peer, tasks in shares.items()
        ]

    def _extended(self, pod: QueuedPod) -> ExtendedTask:
        record = pod.record
        return ExtendedTask(
            pod.ticket, pod.class_id, record.uid in self._nominated,
            record.namespace, record.name, record.uid,
        )  # fmt: skip

    def _shares(self, pods: list[QueuedPod]) -> dict[Scorer, list[QueuedPod]]:
        left = {scorer: self._credit(scorer) for scorer in self.ready()}
        shares: dict[Scorer, list[QueuedPod]] = {}
        for pod in pods:
            class_id = pod.pod_class.class_id
            scorer = self.by_class.get(class_id)
            if scorer is None or left.get(scorer, 0) <= 0:
                scorer = self.by_class[class_id] = max(left, key=lambda s: (left[s], -s.index))
            left[scorer] -= 1
            shares.setdefault(scorer, []).append(pod)
        return shares

    def _work(
        self, scorer: Scorer, batch: list[QueuedPod], group: GroupTask | None = None
    ) -> SchedulePods:
        batch_id = self._next_batch_id
        self._next_batch_id += 1
        scorer.last_batch_id = batch_id
        first_ticket, nominated = self.next_ticket, self._nominated
        self.next_ticket += len(batch)
        for ticket, pod in enumerate(batch, first_ticket):
            pod.ticket, pod.tried_as = ticket, pod.pod_class
            scorer.attempts[ticket] = pod

        def kind_of(pod: QueuedPod) -> tuple[int, str]:
            uid = pod.record.uid
            return pod.pod_class.class_id, uid if uid in nominated else ""

        runs: list[TaskRun] = []
        for (class_id, uid), alike in groupby(batch, kind_of):
            left = len(list(alike))
            while left:
                runs.append(TaskRun(class_id, min(left, RUN_PODS_MAX), uid))
                left -= runs[-1].count
        names = [pod.key for pod in batch] if self._names_pods else []
        sequence = self._snapshots.sequence
        return SchedulePods(self._epoch, batch_id, sequence, first_ticket, runs, group, names=names)
