"""A berth in one thread: the owner's core, a scorer that reads the owner's own columns, a binder that
says yes. Nothing leaves it.

For whoever asks what berth would do: with a pod (`berth explain`), with another cluster or
configuration (`berth what-if`), with a day that is over (`berth replay`). It is fed with an adapter's
messages, from an API server or a recording, and has the state for itself. Decisions are those of the core
and the engine; what differs from a berth that runs: extenders are not asked, bindings and victims take no
time, and among equal nodes the first by name is taken, not one by seed.

Time is passed in, and is whatever the caller says.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from daemon.core.dispatch import Attempt
from daemon.core.effects import Effect, TellBinder, TellScorer
from daemon.core.events import AdapterSaid, BinderSaid, Event, ScorerSaid
from daemon.core.state import SchedulerState
from daemon.owner.assembly import OwnerOptions, make_state
from shared.config import SchedulerConfiguration
from shared.engine.best_rows import Ties
from shared.engine.engine import Choice, ClassEvaluation, Engine
from shared.errors import ObjectError
from shared.faults import reading
from shared.framework.cluster_view import ClusterView
from shared.framework.feature_gates import FeatureGates
from shared.framework.preemptor import Preemptor
from shared.framework.registry import Registry
from shared.framework.runtime import Framework
from shared.messages.frames import PROTOCOL_VERSION
from shared.messages.from_binder import (
    BinderHeartbeat,
    BinderHello,
    BinderReady,
    BindFinished,
    BindReport,
    VictimDone,
    VictimReport,
)
from shared.messages.from_scorer import (
    Failure,
    Placements,
    PreemptionProposal,
    Proposals,
    ScorerHeartbeat,
    ScorerHello,
)
from shared.messages.to_binder import BindPods, PodVerdict, PreemptPods, ReportPods
from shared.messages.to_owner import (
    AdapterBatch,
    AdapterHello,
    AdapterMessage,
    PodDeleted,
)
from shared.messages.to_scorer import PodTask, SchedulePods

_PEER: Final = b"trial"
_EPOCH: Final = 1


class Placed(NamedTuple):
    """A pod found its node."""

    key: str
    uid: str
    node_name: str


class Evicted(NamedTuple):
    """A pod had to go."""

    key: str
    uid: str
    node_name: str
    preemptor: str
    """The key of the pod that it made room for."""


class _Work(NamedTuple):
    """A pod that the scorer was given."""

    batch_id: int
    task: PodTask
    is_last: bool


class Trial:
    """One cluster, and what a configuration makes of it."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        gates: FeatureGates,
        now_s: float = 0.0,
        *,
        decides: bool = True,
    ) -> None:
        """ConfigurationError where the configuration cannot be used. Without `decides` pods are taken
        in and nothing is done with them."""
        registry = Registry(gates)
        self.frameworks: dict[str, Framework] = {
            profile.scheduler_name: registry.build(profile).framework for profile in config.profiles
        }
        self.state: SchedulerState = make_state(
            replace(config, extenders=()), gates, registry, OwnerOptions(1), _EPOCH, now_s
        )
        self.placed: dict[str, Placed] = {}
        """By uid: those that found a node here."""
        self.evicted: list[Evicted] = []
        self.verdicts: dict[str, PodVerdict] = {}
        """By uid: what was last said of those that did not."""
        self._work: deque[_Work] = deque()
        self._proposal_sequence = 0
        self.engine = Engine(self.view, self.state.cache.journal, self.frameworks)
        hello = AdapterSaid(_PEER, AdapterBatch(0, [AdapterHello(PROTOCOL_VERSION, "trial")]))
        events: list[Event] = [
            hello,
            BinderSaid(_PEER, BinderHello(PROTOCOL_VERSION, 0, "trial")),
            BinderSaid(_PEER, BinderReady(0, _EPOCH)),
        ]
        if decides:
            events.append(ScorerSaid(_PEER, ScorerHello(PROTOCOL_VERSION, 0, "trial")))
        self._decides = decides
        self._settle(events, now_s)

    @property
    def view(self) -> ClusterView:
        return self.state.cache.view

    def tell(self, messages: Iterable[AdapterMessage], now_s: float) -> None:
        """Changes of the cluster, and whatever follows from them at once."""
        self._settle([AdapterSaid(_PEER, AdapterBatch(_EPOCH, list(messages)))], now_s)

    def pass_time(self, now_s: float, until_s: float) -> float:
        """Whatever would be tried until then; says when it is."""
        while (due_s := self.state.next_wakeup_s()) <= until_s:
            now_s = max(now_s, due_s)
            self._settle([], now_s)
        return now_s

    # The other processes -------------------------------------------------------------------------

    def _settle(self, events: Sequence[Event], now_s: float) -> None:
        """Until nobody has anything to say any more."""
        alive: list[Event] = [BinderSaid(_PEER, BinderHeartbeat(0, 0, 0))]
        if self._decides:
            alive.append(ScorerSaid(_PEER, ScorerHeartbeat(0, 0, 0)))
        said = [*events, *alive]
        while said:
            said = [
                reply for effect in self.state.handle(said, now_s) for reply in self._do(effect)
            ]
            if self._work:
                said.append(ScorerSaid(_PEER, self._propose(self._work.popleft())))

    def _do(self, effect: Effect) -> Iterable[Event]:
        match effect:
            case TellScorer(_, SchedulePods() as work):
                tasks = list(work.tasks)
                for task in tasks:
                    self._work.append(_Work(work.batch_id, task, task is tasks[-1]))
            case TellBinder(_, BindPods(orders=orders)):
                for order in orders:
                    key = f"{order.namespace}/{order.name}"
                    self.placed[order.uid] = Placed(key, order.uid, order.node_name)
                    self.verdicts.pop(order.uid, None)
                finished = [BindFinished(order.order_id) for order in orders]
                yield BinderSaid(_PEER, BindReport(0, _EPOCH, finished, []))
            case TellBinder(_, PreemptPods() as preempt):
                yield from self._evict(preempt)
            case TellBinder(_, ReportPods(verdicts=verdicts)):
                self.verdicts |= {verdict.uid: verdict for verdict in verdicts}
            case _:
                pass  # Of copies, logs and questions nobody here wants to know.

    def _evict(self, preempt: PreemptPods) -> Iterable[Event]:
        gone: list[AdapterMessage] = []
        for victim in preempt.victims:
            key = f"{victim.namespace}/{victim.name}"
            preemptor = f"{victim.preemptor_namespace}/{victim.preemptor_name}"
            self.evicted.append(Evicted(key, victim.uid, victim.node_name, preemptor))
            self.placed.pop(victim.uid, None)
            held = self.state.cache.get_pod(victim.uid)
            if held is not None:
                gone.append(PodDeleted(held.record))
        done = [VictimDone(victim.order_id) for victim in preempt.victims]
        yield BinderSaid(_PEER, VictimReport(0, _EPOCH, done))
        yield AdapterSaid(_PEER, AdapterBatch(_EPOCH, gone))

    # The scorer ----------------------------------------------------------------------------------

    def _propose(self, work: _Work) -> Proposals:
        """One pod at a time: what it is placed on is what the owner has."""
        self._proposal_sequence += 1
        placements, failures, skipped = Placements([], []), list[Failure](), list[int]()
        ticket = work.task.ticket
        scorer = self.state.scorers.get(_PEER)
        attempt = None if scorer is None else scorer.attempts.get(ticket)
        if attempt is None:
            skipped.append(ticket)
        else:
            try:
                with reading("pod", attempt.pod.record):
                    found = self._attempt(work.task, attempt)
            except ObjectError as error:
                self.engine.forget_all()
                found = Failure([ticket], error.told(), [], [], True, ends_nomination=True)
            if isinstance(found, Failure):
                failures.append(found)
            else:
                placements = Placements([ticket], [found.row])
        return Proposals(
            worker_index=0, epoch=_EPOCH, batch_id=work.batch_id,
            proposal_sequence=self._proposal_sequence, generation=self.state.cache.generation,
            is_last=work.is_last, placements=placements, failures=failures, skipped=skipped,
        )  # fmt: skip

    def _attempt(self, task: PodTask, attempt: Attempt) -> Choice | Failure:
        pod_class = attempt.pod_class
        evaluation = self.engine.evaluate(pod_class.class_id, pod_class.info, pod_class.profile)
        nominated_row = -1
        if task.uid:
            nominated_row = self.view.nominations.row_of(task.uid)
            if self.engine.takes_nominated(evaluation, nominated_row, task.uid):
                return Choice(nominated_row, 0, 1)
            evaluation = self.engine.evaluate_alone(pod_class.info, pod_class.profile, task.uid)
        choice = self.engine.choose(evaluation, self.first_by_name)
        if choice is not None:
            return choice
        preemptor = Preemptor(pod_class.info, task.uid, nominated_row, bool(task.uid))
        return self._failure(task.ticket, evaluation, preemptor)

    def _failure(self, ticket: int, evaluation: ClassEvaluation, preemptor: Preemptor) -> Failure:
        fit_error = self.engine.failure(evaluation)
        plugins, pending = sorted(fit_error.plugins), sorted(fit_error.pending_plugins)
        if fit_error.error:
            return Failure([ticket], fit_error.error, plugins, pending, True, ends_nomination=True)
        if not evaluation.framework.post_filters or not len(self.view.nodes.order):
            told = fit_error.message()
            return Failure([ticket], told, plugins, pending, False, ends_nomination=True)
        result = self.engine.post_filter(evaluation, preemptor, lambda rows: rows.item(0))
        preemption = result.preemption
        proposal = None
        if preemption is not None and preemption.best is not None:
            proposal = PreemptionProposal(preemption.best.row, list(preemption.best.victims))
        return Failure(
            [ticket], fit_error.message(result.status.message), plugins, pending, False, proposal,
            ends_nomination=preemption is not None and preemption.ends_nomination,
            freed_claims=list(result.freed_claims), was_room_sought=preemption is not None,
        )  # fmt: skip

    def first_by_name(self, ties: Ties) -> int:
        """Of nodes of equal score."""
        return min(ties.tolist(), key=self.view.nodes.name_of)
