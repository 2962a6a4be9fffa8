"""The owner's core, scorers and a binder in one process without sockets or clock.

Messages are queues of this object; the test decides which one moves next, so that any order of
arrival, loss and death can be played, always the same way for the same choices.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from daemon.core.events import Effect, Event, Note, Publish, Tell
from daemon.core.holdings import Settings
from daemon.core.invariants import problems
from daemon.core.owner_counts import Count
from daemon.core.owner_plugins import OwnerPlugins
from daemon.core.pod_groups import NO_GROUPS, GroupSettings
from daemon.core.queue.queued_pod import Place
from daemon.core.state import SchedulerState
from daemon.owner.owner_assembly import with_method
from shared.config import SchedulerConfiguration
from shared.extenders.extender_config import ExtenderConfig
from shared.feature_gates import (
    GANG_SCHEDULING,
    GENERIC_WORKLOAD,
    NOMINATED_NODE_NAME_FOR_EXPECTATION,
    SCHEDULER_ASYNC_PREEMPTION,
    FeatureGates,
    parse_feature_gates,
)
from shared.framework.plugin_api import PermitPlugin, ReservePlugin
from shared.framework.runtime.profiles import PluginSet, ProfileConfig
from shared.framework.runtime.registry import BuiltProfile
from shared.in_hand import InHand
from shared.kube.api.core_v1 import Node
from shared.kube.pod_record import PodRecord
from shared.kube.resources import ALL_KINDS
from shared.messages.from_binder import (
    BinderHeartbeat,
    BinderHello,
    BinderReady,
    BindFailed,
    BindFailureReason,
    BindReport,
    VictimDone,
)
from shared.messages.from_scorer import FromScorer, Proposals, ScorerHeartbeat, ScorerHello
from shared.messages.to_binder import (
    BindPod,
    BindPods,
    DeleteVictim,
    PreemptPods,
    ReportPods,
    StatusPatch,
)
from shared.messages.to_owner import (
    AdapterBatch,
    AdapterHello,
    AdapterMessage,
    NodeChanged,
    NodeDeleted,
    PodChanged,
    PodDeleted,
    SyncFinished,
    SyncStarted,
)
from shared.messages.to_scorer import SchedulePods, SnapshotDelta, SnapshotFull
from shared.plugins.in_tree import InTreeRegistry
from shared.runtime_options import RuntimeOptions
from shared.transport.channels import Channel
from shared.transport.heard import PeerGone, Said
from workers.scorer.cycle import Cycle
from workers.scorer.engine import BY_SEED
from workers.scorer.extended_pods import ExtendedCycle, ExtenderAnswer, Question
from workers.scorer.replica import Replica

EPOCH = 7
ADAPTER = b"adapter"
BINDER = b"binder-0"
PLACEMENT_GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"


def default_profile(gates: str = "", **plugins: PluginSet) -> BuiltProfile:
    """The default profile, made, but for what is said of extension points."""
    return InTreeRegistry(parse_feature_gates(gates)).build(ProfileConfig(plugins=plugins))


def as_text(gates: Mapping[str, bool], before: str = "") -> str:
    """Feature gates as a flag has them, after others."""
    stated = [f"{name}={str(is_on).lower()}" for name, is_on in gates.items()]
    return ",".join([before, *stated])


@dataclass
class FakeScorer:
    """A worker whose messages are handed over one by one."""

    peer: bytes
    replica: Replica
    cycle: Cycle
    inbox: deque[Tell | Publish] = field(default_factory=deque)
    work: deque[SchedulePods] = field(default_factory=deque)
    questions: deque[Question] = field(default_factory=deque)
    """To extenders."""
    proposal_sequence: int = 0


class Pipeline:
    """One owner, some scorers, one binder, and what is on its way between them."""

    def __init__(
        self,
        worker_count: int = 1,
        seed: int = 0,
        permit: Sequence[PermitPlugin] = (),
        *,
        reserve: Sequence[ReservePlugin] = (),
        is_candidate: bool = False,
        extenders: tuple[ExtenderConfig, ...] = (),
        announces_nodes: bool = False,
        preempts_async: bool = True,
        in_hand: InHand | None = None,
        groups: GroupSettings = NO_GROUPS,
        schedulers: Sequence[str] = ("default-scheduler",),
        logs_attempts: bool = False,
        plugins: Mapping[str, PluginSet] | None = None,
        more_gates: Mapping[str, bool] | None = None,
        says: Callable[[Question], ExtenderAnswer] | None = None,
    ) -> None:
        """`says`: what extenders do where they are asked about a group; pods of none are not placed."""
        self.now_s = 1000.0
        gates = as_text(more_gates or {}, PLACEMENT_GATES if groups.is_on else "")
        built = self.profile = default_profile(gates, **(plugins or {}))
        self.frameworks = dict.fromkeys(schedulers, built.framework)
        self.plugins = OwnerPlugins(
            queue_sort=built.queue_sort,
            pre_enqueue=dict.fromkeys(schedulers, with_method(built, "preEnqueue")),
            reserve=dict.fromkeys(schedulers, (*built.plugins_at["reserve"], *reserve)),
            permit=dict.fromkeys(schedulers, tuple(permit)),
            registrations=dict.fromkeys(schedulers, built.registrations),
            labels_read=built.labels_read,
        )
        settings = Settings(
            gates=FeatureGates(
                {
                    NOMINATED_NODE_NAME_FOR_EXPECTATION: announces_nodes,
                    SCHEDULER_ASYNC_PREEMPTION: preempts_async,
                    **dict.fromkeys((GENERIC_WORKLOAD, GANG_SCHEDULING), groups.is_on),
                    **(more_gates or {}),
                }
            ),
            config=SchedulerConfiguration(extenders=extenders),
            options=RuntimeOptions(log_level="debug" if logs_attempts else "info"),
            is_candidate=is_candidate,
            groups=groups,
        )
        self.state = SchedulerState(
            EPOCH, settings, self.frameworks, self.plugins, self.now_s, in_hand
        )
        self.scorers: dict[int, FakeScorer] = {}
        self.to_owner: deque[Event] = deque()
        self.orders: deque[BindPod] = deque()
        self.patches: list[StatusPatch] = []
        """Of statuses, as the binder was told."""
        self.victims: deque[DeleteVictim] = deque()
        """Pods that the owner wants deleted."""
        self.evicted: set[str] = set()
        self.nominated: dict[str, str] = {}
        """uid -> node, as the fake API server was told."""
        self.notes: list[Note] = []
        self.bound: dict[str, list[str]] = {}
        """uid -> nodes that the fake API server was asked to bind it to, and did."""
        self.stuck: set[int] = set()
        """Scorers that say nothing any more."""
        self._extenders, self._says = extenders, says
        self._lives = 0
        self._seed = seed
        self.handle(Said(BINDER, BinderHello(0)))
        self.handle(Said(BINDER, BinderReady(EPOCH)))
        for index in range(worker_count):
            self.start_scorer(index)

    @property
    def verdicts(self) -> list[StatusPatch]:
        """Those that say why a pod was not placed."""
        return [patch for patch in self.patches if patch.reason]

    # The cluster ---------------------------------------------------------------------------------

    def sync(self, nodes: list[Node], pods: list[PodRecord]) -> None:
        """The adapter says Hello, and lists everything."""
        self.handle(Said(ADAPTER, AdapterBatch(0, [AdapterHello()])))
        messages: list[AdapterMessage] = []
        for kind in ALL_KINDS:
            messages.append(SyncStarted(kind.plural))
            if kind.plural == "nodes":
                messages.extend(NodeChanged(node) for node in nodes)
            if kind.plural == "pods":
                messages.extend(PodChanged(pod) for pod in pods)
            messages.append(SyncFinished(kind.plural, "1"))
        self.tell(*messages)

    def tell(self, *messages: AdapterMessage) -> None:
        self.handle(Said(ADAPTER, AdapterBatch(EPOCH, list(messages))))

    def add_node(self, node: Node) -> None:
        self.tell(NodeChanged(node))

    def remove_node(self, name: str) -> None:
        self.tell(NodeDeleted(name))

    def add_pod(self, pod: PodRecord) -> None:
        self.tell(PodChanged(pod))

    def delete_pod(self, pod: PodRecord) -> None:
        self.tell(PodDeleted(pod))

    # Moving messages -----------------------------------------------------------------------------

    def handle(self, *events: Event) -> None:
        for effect in self.state.handle(events, self.now_s):
            self._carry_out(effect)

    def advance(self, by_s: float) -> None:
        self.now_s += by_s
        self.handle(Said(BINDER, BinderHeartbeat(0)))
        for index, scorer in self.scorers.items():
            if index not in self.stuck:
                self.handle(Said(scorer.peer, ScorerHeartbeat(0)))

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Tell(Channel.SCORERS, peer):
                scorer = next((s for s in self.scorers.values() if s.peer == peer), None)
                if scorer is None:
                    self.to_owner.append(PeerGone(Channel.SCORERS, peer))
                else:
                    scorer.inbox.append(effect)
            case Publish():
                for scorer in self.scorers.values():
                    scorer.inbox.append(effect)
            case Tell(_, _, BindPods(_, orders)):
                self.orders.extend(orders)
            case Tell(_, _, ReportPods(patches=patches)):
                self.patches += patches
                named = {each.uid: each.nominated_node_name for each in patches}
                self.nominated |= {uid: node for uid, node in named.items() if node is not None}
            case Tell(_, _, PreemptPods(victims=victims)):
                self.victims.extend(victims)
            case Note():
                self.notes.append(effect)
            case Tell():
                pass

    def start_scorer(self, index: int, instance: str = "") -> None:
        """A worker's new life, or another connection of the one that is called so; what was in hand is
        lost."""
        self._lives += 1
        replica = Replica(index, self.state.settings.gates)
        peer = b"scorer-%d-%d" % (index, self._lives)
        of_cycle = replica, self.frameworks, self._seed + index, BY_SEED, self.plugins.reserve
        scorer = self.scorers[index] = FakeScorer(peer, replica, Cycle(*of_cycle))
        if self._says is not None:

            def tell(message: FromScorer) -> None:
                self.to_owner.append(Said(peer, message))

            ask = scorer.questions.append
            scorer.cycle = ExtendedCycle(self._extenders, ask, tell, *of_cycle)
        self.to_owner.append(Said(peer, ScorerHello(index, instance or peer.decode())))

    def lose_scorer(self, index: int) -> None:
        """A worker died: its connection is closed."""
        scorer = self.scorers.pop(index)
        self.to_owner.append(PeerGone(Channel.SCORERS, scorer.peer))

    def step_scorer(self, index: int) -> bool:
        """One message read, or one batch placed. False: nothing to do."""
        scorer = self.scorers[index]
        if scorer.inbox:
            self._read(scorer, scorer.inbox.popleft())
            return True
        if scorer.work and self._is_ready(scorer, scorer.work[0]):
            self._place(index, scorer, scorer.work.popleft())
            return True
        return self.step_extender(index)

    def step_extender(self, index: int) -> bool:
        """Answers a scorer's oldest question."""
        scorer = self.scorers[index]
        if not scorer.questions or self._says is None:
            return False
        self._hear(scorer, [self._says(scorer.questions.popleft())])
        return True

    def _hear(self, scorer: FakeScorer, answers: list[ExtenderAnswer]) -> None:
        assert isinstance(scorer.cycle, ExtendedCycle)
        for proposals in scorer.cycle.work(answers):
            scorer.proposal_sequence = proposals.proposal_sequence
            self.to_owner.append(Said(scorer.peer, proposals))

    @staticmethod
    def _read(scorer: FakeScorer, effect: Tell | Publish) -> None:
        message = effect.message
        if isinstance(message, SnapshotFull):
            scorer.replica.apply_full(message, list(effect.buffers))
            scorer.cycle.start_over()
        elif isinstance(message, SnapshotDelta):
            scorer.replica.apply_delta(message, list(effect.buffers))
        elif isinstance(message, SchedulePods):
            scorer.work.append(message)

    @staticmethod
    def _is_ready(scorer: FakeScorer, work: SchedulePods) -> bool:
        return scorer.replica.is_whole and scorer.replica.sequence >= work.min_sequence

    def _place(self, index: int, scorer: FakeScorer, work: SchedulePods) -> None:
        if work.asked:
            assert isinstance(scorer.cycle, ExtendedCycle)
            scorer.cycle.add_group(work)
            self._hear(scorer, [])
            return
        proposals = scorer.cycle.run(work)
        scorer.proposal_sequence = proposals.proposal_sequence
        self.to_owner.append(Said(scorer.peer, proposals))

    def foresee(self, index: int, count: int = 1) -> bool:
        """What a worker does that has nothing to do. False: it has, or foresees nothing."""
        scorer = self.scorers[index]
        replica = scorer.replica
        if scorer.work or not replica.is_whole or not replica.is_settled:
            return False
        forecast = scorer.cycle.foresee(count)
        if forecast is None:
            return False
        self.to_owner.append(Said(scorer.peer, forecast))
        return True

    def step_owner(self) -> bool:
        """One message read. What a worker found on the newest state must not all be refused: else the
        two would go round for ever."""
        if not self.to_owner:
            return False
        event = self.to_owner.popleft()
        must_settle, settled_count = self._is_found_on_the_newest(event), self._settled_count()
        self.handle(event)
        assert not must_settle or self._settled_count() > settled_count, event
        return True

    def _is_found_on_the_newest(self, event: Event) -> bool:
        """Answers about pods that still wait for them, from a worker that knows everything."""
        if not isinstance(event, Said) or not isinstance(event.message, Proposals):
            return False
        scorers, message = self.state.scorers, event.message
        scorer = scorers.get(event.peer)
        if scorer is None or scorers.settled[scorer.index] != message.proposal_sequence - 1:
            return False
        if message.generation != self.state.cache.generation:
            return False
        tickets = {*message.placements.tickets, *message.skipped}
        tickets.update(*(failure.tickets for failure in message.failures))
        attempts = [scorer.attempts[ticket] for ticket in tickets if ticket in scorer.attempts]
        return any(
            attempt.place is Place.IN_FLIGHT
            and attempt.pod_class is attempt.tried_as
            and not attempt.record.deleted
            and self.state.cache.get_pod(attempt.record.uid) is None
            for attempt in attempts
        )

    def _settled_count(self) -> int:
        counted = (Count.SCHEDULED, Count.UNSCHEDULABLE, Count.ERRORS)
        return sum(self.state.counters[name] for name in counted) + len(self.state.waiting.by_uid)

    def step_binder(self, *, fails: bool = False) -> bool:
        """Answers the oldest order."""
        if not self.orders:
            return False
        order = self.orders.popleft()
        if fails:
            failed = BindFailed(order.ticket, BindFailureReason.CONFLICT, "no")
            self.to_owner.append(Said(BINDER, BindReport(EPOCH, [], [failed])))
        else:
            self.bound.setdefault(order.uid, []).append(order.node_name)
            report = BindReport(EPOCH, [order.ticket], [])
            self.to_owner.append(Said(BINDER, report))
        return True

    def step_victim(self, *, fails: bool = False, lingers: bool = False) -> bool:
        """Deletes the pod that was ordered to go first; it is gone at once, or marked alone."""
        if not self.victims:
            return False
        order = self.victims.popleft()
        done = VictimDone(order.order_id, "the API server refuses" if fails else "")
        self.to_owner.append(Said(BINDER, BindReport(EPOCH, [], [], [done])))
        held = None if order.is_given_up else self.state.cache.get_pod(order.uid)
        if held is not None and lingers and not fails:
            marked = msgspec.structs.replace(
                held.record,
                node_name=held.node_name,
                deleted="2026-01-01T00:00:00Z",
                is_preempted=True,
            )
            self.to_owner.append(Said(ADAPTER, AdapterBatch(EPOCH, [PodChanged(marked)])))
        elif held is not None and not fails:
            self.bound.pop(order.uid, None)
            self.evicted.add(order.uid)
            self.to_owner.append(Said(ADAPTER, AdapterBatch(EPOCH, [PodDeleted(held.record)])))
        return True

    def run_until_quiet(self, steps_max: int = 100_000) -> None:
        """Moves everything until nothing moves."""
        for _ in range(steps_max):
            moved = self.step_owner()
            for index in self.scorers:
                moved = self.step_scorer(index) or moved
            moved = self.step_binder() or moved
            moved = self.step_victim() or moved
            if not moved:
                return
        raise AssertionError("the pipeline does not come to rest")

    # What must hold ------------------------------------------------------------------------------

    def check(self) -> None:
        found = problems(self.state.cache, self.state.queue)
        assert not found, found
