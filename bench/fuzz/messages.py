"""Messages between the processes: each direction of each channel, as damaged frames and as frames that
decode and say what nobody would.

What is damaged was said in small clusters that do well. A *direction* names who speaks to whom:

    adapter, scorer, binder, admin   to the owner, in the name of one of its own processes
    far                              to the owner, from a worker of another host, which has a key
    to-scorer, snapshot              from the owner; next-snapshot: with the number that is awaited
    to-binder, to-adapter            from the owner

After what only a far worker said, all must be as before: it is the only one of them that need not be
ours.
"""

import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from bench.apiserver.http_server import ApiServer, ServerOptions
from bench.fuzz.fuzz_cluster import EPOCH, SmallCluster, machine_of
from bench.fuzz.fuzz_objects import clusters, told
from bench.fuzz.harness import Story, Surface, Target
from bench.fuzz.mutation import mutated, mutated_bytes
from bench.sim.links import AsyncEnd, Links, PeerEnd
from bench.sim.schedule import EPOCH_WALL_S, MachineClock, Process, Simulation
from bench.sim.sim_processes import (
    AsyncProcess,
    Life,
    new_process,
    start_adapter,
    start_api_server,
    start_binder,
)
from bench.sim.virtual_loop import Network
from shared.config import SchedulerConfiguration, scoring_digest
from shared.feature_gates import FeatureGates
from shared.limits import PROCESSES_MAX
from shared.messages import admin, from_scorer, to_binder, to_scorer
from shared.messages.admin import ADMIN_ANSWER, ADMIN_REQUEST
from shared.messages.codec import Buffer, Codec, Drain, seal, unseal
from shared.messages.from_binder import FROM_BINDER
from shared.messages.from_scorer import FROM_SCORER
from shared.messages.to_binder import TO_BINDER
from shared.messages.to_owner import FROM_ADAPTER
from shared.messages.to_scorer import SNAPSHOTS, TO_SCORER
from shared.transport import heard
from shared.transport.channels import Channel
from shared.transport.heartbeat import Heartbeat

SCENARIOS_STEP: Final = 9
"""Each such cluster is listened to."""
FAR: Final = b"far-1"
ADMIN: Final = b"admin-1"
FAR_KEY: Final = "far.pub"
FAR_INDEX: Final = PROCESSES_MAX + 5
_DIGEST: Final = scoring_digest(SchedulerConfiguration(), FeatureGates())
STORY_MAX: Final = 60
DAMAGED_SHARE: Final = 0.25
"""Of messages whose bytes are changed, and not what they say."""

TO_OWNER: Final[Mapping[str, tuple[Channel, Codec[Any]]]] = {
    "adapter": (Channel.ADAPTER, FROM_ADAPTER),
    "scorer": (Channel.SCORERS, FROM_SCORER),
    "binder": (Channel.BINDERS, FROM_BINDER),
    "admin": (Channel.ADMIN, ADMIN_REQUEST),
    "far": (Channel.SCORERS, FROM_SCORER),
}
_FROM_OWNER: Final[Mapping[Channel, Codec[Any]]] = {
    Channel.SCORERS: TO_SCORER,
    Channel.ADMIN: ADMIN_ANSWER,
}
GROUPS: Final = (
    ("adapter", "scorer", "binder", "admin", "far"),
    ("far",),
    ("to-scorer", "snapshot", "next-snapshot"),
    ("to-binder",),
    ("to-adapter",),
)
WEIGHTS: Final = (8, 6, 8, 5, 1)
_UNSAID: Final[Mapping[str, Sequence[Any]]] = {
    "admin": (
        admin.StatusRequest(), admin.DumpRequest(), admin.CompareRequest(), admin.StopRequest(),
        admin.QueueRequest(), admin.PodRequest("default/p"), admin.CacheRequest(),
        admin.MetricsRequest(),
    ),
    "scorer": (from_scorer.AskForPods(EPOCH, 1, 5, [0, 1]),),
    "to-scorer": (
        to_scorer.ScheduleExtended(
            EPOCH, 1, [to_scorer.ExtendedTask(1, 1, False, "default", "p", "u")]
        ),
        to_scorer.PodsOnNodes(EPOCH, 1, [to_scorer.PodOnNode(0, 0, "default", "p", "u")]),
        Drain(), to_scorer.GreetAgain(), to_scorer.ScorerRefused("why"),
    ),
}  # fmt: skip
"""What those clusters have no reason to say."""

Said = tuple[Any, list[bytes]]
"""Body, as plain values, and buffers."""


@cache
def _recorded() -> dict[str, list[Said]]:
    """By direction."""
    said: dict[str, list[Said]] = {
        name: [(_plain(each), []) for each in messages] for name, messages in _UNSAID.items()
    }
    for listed in clusters()[::SCENARIOS_STEP]:
        cluster = SmallCluster(lambda message, parts: _note(said, message, parts))
        for line in told(listed):
            cluster.take_line(line)
        cluster.go_on(2.0)
    said["far"] = [*said["scorer"], (_plain(_far_hello()), [])]
    said["next-snapshot"] = said["snapshot"]
    return said


def _note(said: dict[str, list[Said]], message: object, parts: Sequence[Buffer]) -> None:
    module = type(message).__module__.rpartition(".")[2]
    name = {"to_owner": "adapter", "from_scorer": "scorer", "from_binder": "binder",
            "to_scorer": "to-scorer", "to_binder": "to-binder"}[module]  # fmt: skip
    if isinstance(message, to_scorer.SnapshotDelta):
        name = "snapshot"
    if type(message).__name__ == "StartSync":
        name = "to-adapter"
    _, buffers = unseal(name, parts)
    said.setdefault(name, []).append((_plain(message), [bytes(each) for each in buffers]))


def _plain(message: object) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(message))


def _far_hello() -> from_scorer.ScorerHello:
    return from_scorer.ScorerHello(FAR_INDEX, "far", _DIGEST)


def _story(rng: random.Random) -> Story:
    names = rng.choices(GROUPS, WEIGHTS)[0]
    return [_input(rng, rng.choice(names)) for _ in range(rng.randrange(1, STORY_MAX))]


def _input(rng: random.Random, name: str) -> bytes:
    # Kinds first: of heartbeats and events there are many.
    by_kind: dict[str, list[Said]] = {}
    for each in _recorded()[name]:
        by_kind.setdefault(each[0][0], []).append(each)
    body, buffers = rng.choice(by_kind[rng.choice(sorted(by_kind))])
    is_damaged = rng.random() < DAMAGED_SHARE
    if not is_damaged and body[1:] and rng.random() < 0.9:
        body = [body[0], *(mutated(rng, part) if rng.random() < 0.5 else part for part in body[1:])]
    if not is_damaged and buffers and rng.random() < 0.3:
        at = rng.randrange(len(buffers))
        buffers = [*buffers[:at], _changed_numbers(rng, buffers[at]), *buffers[at + 1 :]]
    try:
        encoded = msgspec.msgpack.encode(body)
    except OverflowError:  # A number that no message can have.
        return _input(rng, name)
    if is_damaged and rng.random() < 0.5:
        encoded = mutated_bytes(rng, encoded)  # The frames are in order; what is in them is not.
    frames = [bytes(each) for each in seal(encoded, buffers)]
    if is_damaged and rng.random() < 0.5:
        at = rng.randrange(len(frames))
        frames = [*frames[:at], mutated_bytes(rng, frames[at]), *frames[at + 1 :]]
    whole: bytes = b"%b %b" % (name.encode(), msgspec.msgpack.encode(frames))
    return whole


def _changed_numbers(rng: random.Random, buffer: bytes) -> bytes:
    """Of the same length; rows and ids are eight or four bytes, little endian."""
    width = rng.choice((8, 4, 1))
    if len(buffer) < width:
        return buffer
    at = rng.randrange(len(buffer) // width) * width
    number = rng.choice((0, 1, 5, 100, 70_000, -1, 2**31 - 1, 2**62)) % (1 << 8 * width)
    return buffer[:at] + number.to_bytes(width, "little") + buffer[at + width :]


# Who hears it ---------------------------------------------------------------------------------------


class _Silent(PeerEnd):
    """Is connected, and does not care what it is told. A far worker greets."""

    def __init__(self, links: Links, channel: Channel, identity: bytes) -> None:
        name = identity.decode()
        super().__init__(
            links, Process(links.simulation, name, MachineClock(links.simulation)), channel, name
        )

    def arrive_connected(self) -> None:
        assert self.links.owner is not None, "somebody is connected to"
        if self.channel is Channel.SCORERS:
            self.links.owner.arrive(self.channel, heard.Said(FAR, _far_hello(), FAR_KEY))

    def arrive(self, parts: list[Buffer]) -> None:
        _FROM_OWNER[self.channel].decode(parts)


class _Berth:
    """Owner and scorer of a live cluster."""

    def __init__(self) -> None:
        self.cluster = SmallCluster()
        self.has_only_far_said = True
        _Silent(self.cluster.links, Channel.SCORERS, FAR)
        _Silent(self.cluster.links, Channel.ADMIN, ADMIN)
        cluster = clusters()[SCENARIOS_STEP]
        for line in told(cluster):
            self.cluster.take_line(line)

    def hear(self, name: str, parts: list[Buffer]) -> None:
        self.has_only_far_said &= name == "far"
        cluster, scorer = self.cluster, self.cluster.scorer
        try:
            if name in TO_OWNER:
                channel, incoming = TO_OWNER[name]
                message, _ = incoming.decode(parts)
                peer = {"scorer": scorer.sockets.identity, "far": FAR, "adapter": b"adapter",
                        "binder": b"binder-0", "admin": ADMIN}[name]  # fmt: skip
                key_name = FAR_KEY if name == "far" else ""
                cluster.owner.sockets.arrive(channel, heard.Said(peer, message, key_name))
            elif name == "to-scorer":
                scorer.sockets.arrive(parts)
            else:
                scorer.sockets.hear_snapshot(parts if name == "snapshot" else self._as_next(parts))
        finally:
            cluster.go_on()

    def _as_next(self, parts: list[Buffer]) -> list[Buffer]:
        replica = self.cluster.scorer.loop.replica
        delta, buffers = SNAPSHOTS.decode(parts)
        delta = msgspec.structs.replace(delta, epoch=EPOCH, sequence=(replica.sequence + 1) % 2**64)
        return _whole(SNAPSHOTS.encode(delta, buffers))

    def finish(self) -> None:
        if self.has_only_far_said:
            self.cluster.check()
        else:
            self.cluster.go_on(15.0)


class _Lone:
    """A binder or an adapter that is told what it is told; whatever it says is not heard."""

    def __init__(self, simulation: Simulation, network: Network) -> None:
        self._simulation = simulation
        self._machine = machine_of(simulation, network, Links(simulation))
        self._lives = 0
        self.server: AsyncProcess | None = None
        """Ends with it."""
        self._process = self._begun()

    def _new(self, life: int) -> AsyncProcess:
        config = SchedulerConfiguration()
        return start_adapter(self._machine, Life("adapter", life, config, Heartbeat()))

    def _greet(self, end: AsyncEnd) -> None:
        end.arrive_connected()

    def _begun(self) -> AsyncProcess:
        self._lives += 1
        process = self._new(self._lives)
        self._simulation.run_until(self._simulation.now_s + 0.1)
        self._greet(process.ends[0])
        return process

    def hear(self, parts: list[Buffer]) -> None:
        if not self._process.is_alive:
            self._process = (
                self._begun()
            )  # It ended by an error of its own, as its supervisor sees it.
        try:
            self._process.ends[0].arrive(parts)
        finally:
            self._simulation.run_until(self._simulation.now_s + 0.05)

    def finish(self) -> None:
        self._simulation.run_until(self._simulation.now_s + 15.0)
        self._process.kill()
        if self.server is not None:
            self.server.kill()


class LoneBinder(_Lone):
    """A binder with an owner of its own."""

    def _new(self, life: int) -> AsyncProcess:
        config = SchedulerConfiguration()
        return start_binder(self._machine, Life("binder-0", life, config, Heartbeat()))

    def _greet(self, end: AsyncEnd) -> None:
        super()._greet(end)
        end.arrive(_whole(TO_BINDER.encode(to_binder.Welcome(EPOCH))))


@cache
def recorded_orders() -> list[list[Buffer]]:
    """Frames of bindings, of pods with volumes and claims as well."""
    orders = [body for body, _ in _recorded()["to-binder"] if body[0] == "bB"]
    return [_whole(seal(msgspec.msgpack.encode(body))) for body in orders]


def _beside_a_server(kind: type[_Lone]) -> _Lone:
    simulation = Simulation(seed=1)
    network = Network(simulation)
    process = new_process(simulation, "apiserver", MachineClock(simulation), network)
    server = ApiServer(ServerOptions(), now_s=lambda: EPOCH_WALL_S + simulation.now_s)
    start_api_server(process, server)
    simulation.run_until(simulation.now_s + 0.1)
    lone = kind(simulation, network)
    lone.server = process
    return lone


def _whole(parts: Sequence[Buffer]) -> list[Buffer]:
    return [bytes(part) for part in parts]


def _start() -> Target:
    berth: list[_Berth] = []
    lone: list[_Lone] = []

    def take(data: bytes) -> None:
        name, _, packed = data.partition(b" ")
        parts = list[Buffer](msgspec.msgpack.decode(packed, type=list[bytes]))
        if name in (b"to-binder", b"to-adapter"):
            if not lone:
                lone.append(_beside_a_server(LoneBinder if name == b"to-binder" else _Lone))
            lone[0].hear(parts)
        else:
            if not berth:
                berth.append(_Berth())
            berth[0].hear(name.decode(), parts)

    def finish() -> None:
        heard: list[_Berth | _Lone] = [*berth, *lone]
        for each in heard:
            each.finish()

    return Target(take, finish)


SURFACE: Final = Surface(
    about="messages between the processes, in each direction", story=_story, start=_start
)
