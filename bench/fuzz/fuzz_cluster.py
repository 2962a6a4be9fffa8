"""A small live cluster in one thread: the real owner and scorer on simulated links, and an adapter and a
binder that are played, so that the inputs can be put in at their place.
"""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.fuzz.fuzz_objects import watch_lines
from bench.fuzz.harness import Surface, Target, WrongError
from bench.sim.links import Links, PeerEnd
from bench.sim.schedule import EPOCH_WALL_S, MachineClock, Process, SimulatedFailure, Simulation
from bench.sim.sim_processes import Life, Machine, OwnerProcess, ScorerProcess
from bench.sim.virtual_loop import Network
from daemon.adapter.kind_feed import KindFeed
from daemon.core.invariants import problems
from shared.config import SchedulerConfiguration
from shared.errors import OperationalError
from shared.kube.http_stream import LineSplitter
from shared.kube.pod_record import PodRecord
from shared.kube.resources import ALL_KINDS
from shared.messages.codec import Buffer
from shared.messages.from_binder import (
    BinderHeartbeat,
    BinderHello,
    BinderReady,
    BindFailed,
    BindFailureReason,
    BindReport,
    VictimDone,
)
from shared.messages.to_binder import TO_BINDER, BindPods, PreemptPods, Welcome
from shared.messages.to_owner import (
    NO_EPOCH,
    TO_ADAPTER,
    AdapterBatch,
    AdapterHello,
    AdapterMessage,
    PodChanged,
    PodDeleted,
)
from shared.plugins.in_tree import InTreeRegistry
from shared.transport.channels import Channel
from shared.transport.heartbeat import Heartbeat
from workers.scorer.extender_calls import ExtenderCaller

EPOCH: Final = int((EPOCH_WALL_S + 1000.0) * 1e9)
"""Of an owner that begins when the simulation does."""
STEP_S: Final = 0.02
CALM_S: Final = 15.0
"""Longer than the longest back-off."""
PATIENCE_S: Final = 120.0
FAILING: Final = 7
"""Each such order fails."""


class PlayedAdapter(PeerEnd):
    """The adapter's own reading of watch lines, without the connections."""

    def __init__(self, links: Links) -> None:
        super().__init__(
            links,
            Process(links.simulation, "adapter", MachineClock(links.simulation)),
            Channel.ADAPTER,
            "adapter",
        )
        self._feeds = {kind.plural: KindFeed(kind, self._put) for kind in ALL_KINDS}
        self._splitter = LineSplitter()
        self._stored: dict[str, dict[str, bytes]] = {plural: {} for plural in self._feeds}
        """As far as can be told, what the API server would list: by kind and uid."""
        self._unsent: list[AdapterMessage] = []
        self.epoch = NO_EPOCH
        self.pods: dict[str, PodRecord] = {}
        """As last told, by uid."""

    def arrive_connected(self) -> None:
        self.tell(AdapterHello())

    def arrive(self, parts: list[Buffer]) -> None:
        self.epoch = TO_ADAPTER.decode(parts)[0].epoch
        for plural in self._feeds:
            self._list(plural)

    def lines(self, plural: str, chunk: bytes) -> None:
        """What a watch brings. What makes it end makes the kind be listed anew."""
        feed = self._feeds[plural]
        self._store(plural, chunk)
        try:
            for line in self._splitter.feed(chunk + b"\n"):
                feed.line(line)
        except OperationalError:
            self._list(plural)
            raise
        finally:
            self.tell()

    def tell(self, *messages: AdapterMessage) -> None:
        self._unsent += messages
        if self._unsent:
            self.carry_up(AdapterBatch(self.epoch, self._unsent))
        self._unsent = []

    def _store(self, plural: str, line: bytes) -> None:
        try:
            event = json.loads(line)
            uid = event["object"]["metadata"]["uid"]
            self._stored[plural].pop(uid, None)
            if event["type"] in ("ADDED", "MODIFIED"):
                self._stored[plural][uid] = json.dumps(event["object"]).encode()
        except (ValueError, TypeError, LookupError, RecursionError):
            pass  # No object that a server could have.

    def _list(self, plural: str) -> None:
        feed, items = self._feeds[plural], b",".join(self._stored[plural].values())
        feed.list_started()
        feed.page(b'{"items":[' + items + b'],"metadata":{"resourceVersion":"1"}}')
        feed.list_finished()
        self.tell()

    def _put(self, message: AdapterMessage, size_bytes: int) -> None:
        del size_bytes
        self._unsent.append(message)
        if isinstance(message, PodChanged):
            self.pods[message.pod.uid] = message.pod
        elif isinstance(message, PodDeleted):
            self.pods.pop(message.pod.uid, None)


class PlayedBinder(PeerEnd):
    """Binds and evicts at once, with some failures; the watch tells of it."""

    def __init__(self, links: Links, adapter: PlayedAdapter) -> None:
        super().__init__(
            links,
            Process(links.simulation, "binder-0", MachineClock(links.simulation)),
            Channel.BINDERS,
            "binder-0",
        )
        self._adapter = adapter
        self.bound: dict[str, str] = {}
        """uid -> node"""
        self._failed: set[str] = set()
        """Once each: who is tried every so many attempts would fail for ever."""

    def arrive_connected(self) -> None:
        self.carry_up(BinderHello(0))

    def beat(self) -> None:
        self.carry_up(BinderHeartbeat(0))

    def arrive(self, parts: list[Buffer]) -> None:
        message = TO_BINDER.decode(parts)[0]
        if isinstance(message, Welcome):
            self.carry_up(BinderReady(message.epoch))
        elif isinstance(message, BindPods):
            finished, failed = [], []
            for order in message.orders:
                if order.ticket % FAILING == 0 and order.uid not in self._failed:
                    self._failed.add(order.uid)
                    told = BindFailed(order.ticket, BindFailureReason.CONFLICT, "no")
                    failed.append(told)
                else:
                    finished.append(order.ticket)
                    self.bound[order.uid] = order.node_name
                    self._show(order.uid, node_name=order.node_name)
            self.carry_up(BindReport(message.epoch, finished, failed))
        elif isinstance(message, PreemptPods):
            done = [VictimDone(victim.order_id) for victim in message.victims]
            self.carry_up(BindReport(message.epoch, [], [], done))
            for victim in message.victims:
                pod = self._adapter.pods.pop(victim.uid, None)
                if pod is not None and not victim.is_given_up:
                    self._adapter.tell(PodDeleted(pod))

    def _show(self, uid: str, **changes: Any) -> None:
        pod = self._adapter.pods.get(uid)
        if pod is not None:
            self._adapter.pods[uid] = shown = msgspec.structs.replace(pod, **changes)
            self._adapter.tell(PodChanged(shown))


def machine_of(simulation: Simulation, network: Network, links: Links) -> Machine:
    """For one berth without an election."""
    clock, registry = MachineClock(simulation), InTreeRegistry(entry_points=())
    return Machine(simulation, network, links, clock, registry, "", 1, None, Path(os.devnull))


class SmallCluster:
    """Comes up with nothing in it."""

    def __init__(
        self,
        on_sent: Callable[[object, Sequence[Buffer]], None] | None = None,
        caller: ExtenderCaller | None = None,
    ) -> None:
        """`on_sent` is told of every message and its frames; `caller` asks extenders."""
        self.simulation = Simulation(seed=1)
        self.links = Links(self.simulation)
        if on_sent is not None:
            setattr(self.links, "sent", on_sent)  # noqa: B010 # In the place of the links' own book.
        self._machine = machine_of(self.simulation, Network(self.simulation), self.links)
        extenders = () if caller is None else caller.extenders
        self._config = SchedulerConfiguration(extenders=extenders)
        self.owner = OwnerProcess(self._machine, Life("owner", 1, self._config, Heartbeat()))
        assert self.owner.epoch == EPOCH, "messages are recorded with it"
        self._caller = caller
        self._lives = 0
        self.scorer = self._new_scorer()
        self.adapter = PlayedAdapter(self.links)
        self.binder = PlayedBinder(self.links, self.adapter)
        self._beat_s = 0.0
        self.go_on(3.0)

    def take_line(self, line: bytes) -> None:
        """A watch line, behind the plural of its kind. Raises what a process dies of, and why the line
        was refused."""
        plural, _, content = line.partition(b" ")
        try:
            self.adapter.lines(plural.decode(), content)
        finally:
            self.go_on()

    def go_on(self, for_s: float = STEP_S) -> None:
        """Lets time pass. Raises what a process dies of."""
        until_s = self.simulation.now_s + for_s
        while self.simulation.now_s < until_s:
            try:
                self.simulation.run_until(min(until_s, self.simulation.now_s + 1.0))
            except SimulatedFailure as failure:
                self._judge(failure)
            if not self.scorer.is_alive:
                self.scorer = self._new_scorer()
            if self.simulation.now_s >= self._beat_s + 1.0:
                self._beat_s = self.simulation.now_s
                self.binder.beat()

    def _judge(self, failure: SimulatedFailure) -> None:
        """A scorer that ends with an error of its own is nothing to wonder at."""
        cause = failure.__cause__
        is_meant = isinstance(cause, OperationalError)
        if self.scorer.name not in failure.detail or not is_meant:
            raise cause if isinstance(cause, Exception) else WrongError(str(failure))
        self.scorer.kill()

    def _new_scorer(self) -> ScorerProcess:
        self._lives += 1
        life = Life("scorer-0", self._lives, self._config, Heartbeat())
        return ScorerProcess(self._machine, life, self._caller)

    def check(self) -> None:
        """All that is held agrees, and a new pod still finds its way to a new node."""
        self.go_on(CALM_S)
        self._look_for_contradictions()
        node = {
            "metadata": {"name": "new-node", "uid": "new-node", "resourceVersion": "9000001"},
            "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "1"}},
        }
        fields = [{"key": "metadata.name", "operator": "In", "values": ["new-node"]}]
        required = {"nodeSelectorTerms": [{"matchFields": fields}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        meta = {"name": "p", "namespace": "new", "uid": "new-pod", "resourceVersion": "9000002"}
        spec = {"containers": [{"name": "c"}], "affinity": affinity, "priority": 2_000_000_000}
        self.adapter.lines("nodes", json.dumps({"type": "ADDED", "object": node}).encode())
        pod = {"metadata": meta, "spec": spec}
        self.adapter.lines("pods", json.dumps({"type": "ADDED", "object": pod}).encode())
        until_s = self.simulation.now_s + PATIENCE_S
        while "new-pod" not in self.binder.bound:
            if self.simulation.now_s >= until_s:
                raise WrongError("a new pod is not bound to the new node that it fits on")
            self.go_on(1.0)
        self._look_for_contradictions()

    def _look_for_contradictions(self) -> None:
        found = problems(self.owner.state.cache, self.owner.state.queue)
        if found:
            raise WrongError(f"contradictions: {found[:3]}")


def _start() -> Target:
    cluster = SmallCluster()
    return Target(cluster.take_line, cluster.check)


WATCH: Final = Surface(
    about="watch lines through adapter, owner and scorer", story=watch_lines, start=_start
)
