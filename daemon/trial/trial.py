"""A berth in one thread: the owner's core, a scorer with its copy, and a binder that says yes. Nothing
leaves it.

For whoever asks what berth would do: with a pod (`berth explain`), with another cluster or
configuration (`berth what-if`), with a day that is over (`berth replay`). It is fed with an adapter's
messages, from an API server or a recording. Owner and scorer are those of the processes, meet as
messages, and decide as there; what differs: extenders are not asked, and bindings and victims take no
time.

Time is whatever the caller says.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from daemon.adapter.api_source import list_cluster, watched_kinds
from daemon.commands.check_config import check
from daemon.core.events import Effect, Event, Publish, Tell
from daemon.owner.owner_assembly import make_state
from daemon.supervisor.process_list import read_list
from shared.child_plan import PLAN_NAME, read_plan
from shared.config import SchedulerConfiguration
from shared.feature_gates import parse_feature_gates
from shared.framework.cluster_view import ClusterView
from shared.kube.find_access import find_access
from shared.messages.admin import AdminAnswer, AdminRequest
from shared.messages.from_binder import (
    BinderHeartbeat,
    BinderHello,
    BinderReady,
    BindReport,
    VictimDone,
)
from shared.messages.from_scorer import ScorerHeartbeat, ScorerHello
from shared.messages.to_binder import BindPods, PreemptPods, ReportPods, StatusPatch
from shared.messages.to_owner import AdapterBatch, AdapterHello, AdapterMessage, PodDeleted
from shared.messages.to_scorer import SchedulePods, SnapshotFull
from shared.plugins.in_tree import InTreeRegistry
from shared.runtime_options import RuntimeOptions
from shared.transport.heard import Said
from workers.scorer.cycle import Cycle
from workers.scorer.engine import Engine
from workers.scorer.replica import Replica

_PEER: Final = b"trial"
_EPOCH: Final = 1


class Placed(NamedTuple):
    key: str
    node_name: str
    at_s: float


class Eviction(msgspec.Struct, frozen=True):
    """A pod had to go. All are keys."""

    pod: str
    node: str
    preemptor: str
    """Whom it made room for."""


class Trial:
    """One cluster, and what a configuration makes of it."""

    def __init__(
        self, config: SchedulerConfiguration, options: RuntimeOptions, *, decides: bool = True
    ) -> None:
        """ConfigurationError where the configuration cannot be used. Of the options those count that say
        how it is decided: the seed, feature gates, and what is said of groups. Without `decides` pods
        are taken in, and nothing is done with them."""
        gates = parse_feature_gates(options.feature_gates)
        registry = InTreeRegistry(gates)
        built = [registry.build(profile) for profile in config.profiles]
        self.frameworks = {profile.scheduler_name: profile.framework for profile in built}
        of_owner = RuntimeOptions(
            pod_groups=options.pod_groups, gang_reservation_s=options.gang_reservation_s
        )
        alone = replace(config, extenders=())
        self.state = make_state(alone, gates, registry, of_owner, _EPOCH, 0.0)
        self.placed: dict[str, Placed] = {}
        """By uid: those that found a node here, whatever became of them."""
        self.evicted: dict[str, Eviction] = {}
        self.verdicts: dict[str, StatusPatch] = {}
        """By uid: what was last said of those that did not."""
        self._replica = Replica(0, gates)
        self._cycle = Cycle(
            self._replica,
            self.frameworks,
            options.seed * 1_000_003,
            reserves={profile.scheduler_name: profile.plugins_at["reserve"] for profile in built},
        )
        self._decides = decides
        self.now_s = 0.0
        """Up to where time has passed."""
        events: list[Event] = [
            Said(_PEER, AdapterBatch(0, [AdapterHello()])),
            Said(_PEER, BinderHello(0)),
            Said(_PEER, BinderReady(_EPOCH)),
        ]
        if decides:
            events.append(Said(_PEER, ScorerHello(0, "trial")))
        self._settle(events)

    @property
    def view(self) -> ClusterView:
        return self.state.cache.view

    @cached_property
    def engine(self) -> Engine:
        """Looks at the cluster as it is, whether or not pods are decided here."""
        return Engine(self.view, self.frameworks)

    def tell(self, messages: Iterable[AdapterMessage], now_s: float) -> None:
        """Changes of the cluster, and whatever follows from them at once."""
        self.now_s = now_s
        self._settle([Said(_PEER, AdapterBatch(_EPOCH, list(messages)))])

    def pass_time(self, until_s: float) -> None:
        """Whatever would be tried until then."""
        while (due_s := self.state.wakes_at_s) <= until_s:
            self.now_s = max(self.now_s, due_s)
            self._settle([])

    def ask(self, request: AdminRequest, now_s: float) -> AdminAnswer:
        """What the owner answers to a question."""
        effects = self.state.handle([Said(_PEER, request)], now_s)
        told = (effect.message for effect in effects if isinstance(effect, Tell))
        (answer,) = (message for message in told if isinstance(message, AdminAnswer))
        return answer

    def _settle(self, events: Sequence[Event]) -> None:
        alive: list[Event] = [Said(_PEER, BinderHeartbeat(0))]
        if self._decides:
            alive.append(Said(_PEER, ScorerHeartbeat(self._replica.generation)))
        said = [*events, *alive]
        while said:
            said = [
                reply
                for effect in self.state.handle(said, self.now_s)
                for reply in self._do(effect)
            ]

    def _do(self, effect: Effect) -> Iterable[Event]:
        match effect:
            case Tell(_, _, SnapshotFull() as full, buffers):
                self._replica.apply_full(full, list(buffers))
                self._cycle.start_over()
            case Publish(delta, buffers):
                self._replica.apply_delta(delta, list(buffers))
            case Tell(_, _, SchedulePods() as work):
                yield Said(_PEER, self._cycle.run(work))
            case Tell(_, _, BindPods(orders=orders)):
                for order in orders:
                    key = f"{order.namespace}/{order.name}"
                    self.placed[order.uid] = Placed(key, order.node_name, self.now_s)
                    self.verdicts.pop(order.uid, None)
                finished = [order.ticket for order in orders]
                yield Said(_PEER, BindReport(_EPOCH, finished, []))
            case Tell(_, _, PreemptPods() as preempt):
                yield from self._evict(preempt)
            case Tell(_, _, ReportPods(patches=patches)):
                self.verdicts |= {patch.uid: patch for patch in patches if patch.reason}
            case _:
                pass  # Of copies, logs and questions nobody here wants to know.

    def _evict(self, preempt: PreemptPods) -> Iterable[Event]:
        gone: list[AdapterMessage] = []
        for victim in preempt.victims:
            key = f"{victim.namespace}/{victim.name}"
            preemptor = f"{victim.preemptor_namespace}/{victim.preemptor_name}"
            self.evicted[victim.uid] = Eviction(key, victim.node_name, preemptor)
            held = self.state.cache.get_pod(victim.uid)
            if held is not None:
                gone.append(PodDeleted(held.record))
        done = [VictimDone(victim.order_id) for victim in preempt.victims]
        yield Said(_PEER, BindReport(_EPOCH, [], [], done))
        yield Said(_PEER, AdapterBatch(_EPOCH, gone))


class Subject(NamedTuple):
    """A cluster, and how it is scheduled."""

    config: SchedulerConfiguration
    options: RuntimeOptions
    messages: list[AdapterMessage]

    def trial(self, *, decides: bool, config: SchedulerConfiguration | None = None) -> Trial:
        """The cluster in a trial of its own; with another configuration, if one is given."""
        trial = Trial(config or self.config, self.options, decides=decides)
        trial.tell(self.messages, 0.0)
        return trial


def running_subject(runtime_dir: str) -> Subject:
    """What the berth that runs there sees; NotRunningError if none does. The objects are listed from the
    API server: the berth has its own work to do."""
    read_list(Path(runtime_dir))
    options = read_plan(Path(runtime_dir) / PLAN_NAME).options
    access = find_access(server=options.server, kubeconfig=options.kubeconfig)
    config = check(options.config, options.feature_gates).configuration
    return Subject(config, options, list_cluster(access, watched_kinds(options)))
