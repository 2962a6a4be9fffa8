"""The entrance for workers of other hosts over real sockets: keys, versions, slow and lost workers."""

import contextlib
import socket
import struct
import weakref
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
import zmq

from shared.errors import ConfigurationError, ProtocolVersionError
from shared.messages.codec import MAGIC, PROTOCOL_VERSION, Drain, seal
from shared.messages.from_scorer import ScorerHello
from shared.messages.to_scorer import SnapshotDelta
from shared.transport.channels import (
    REMOTE_SNAPSHOTS_HIGH_WATER,
    SUBSCRIBER_TOPIC,
    Channel,
    Connected,
)
from shared.transport.heard import PeerGone, Said
from shared.transport.owner_sockets import OwnerSockets
from shared.transport.remote import RemoteOwner, WorkersEntrance, write_keys
from shared.transport.scorer_sockets import RefusedError, ScorerSockets
from tests.support.free_ports import free_port_pair
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration

EMPTY = msgspec.Raw(msgspec.msgpack.encode({}))
TURN_MS = 20


def delta(sequence: int) -> SnapshotDelta:
    return SnapshotDelta(1, sequence, sequence + 1, {}, EMPTY, 1)


class Stage:
    """An owner with its entrance open, and the files of its workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"tcp://127.0.0.1:{free_port_pair()}"
        for name in ("owner", "w"):
            write_keys(folder, name)
        files = (str(folder / "owner.key"), str(folder / "w.pub"))
        self.entrance = WorkersEntrance.read(self.address, *files)
        self.runtime_dir = folder / "run"
        self.owner = self.new_owner()

    def new_owner(self) -> OwnerSockets:
        owner = OwnerSockets(self.runtime_dir)
        owner.admit_workers(self.entrance)
        return owner

    def way(self, key: str = "w", server_key: str = "owner") -> RemoteOwner:
        files = (str(self.folder / f"{server_key}.pub"), str(self.folder / f"{key}.key"))
        return RemoteOwner(self.address, *files)

    def meet(self, scorer: ScorerSockets) -> Said:
        """Both turn until the worker has been heard; the entrance opens in the owner's own poll."""
        while True:
            for got in scorer.poll(TURN_MS):
                if got.message == Connected():
                    assert scorer.send(ScorerHello(300, "x"))
            for received in self.owner.poll(TURN_MS):
                assert isinstance(received, Said)
                return received

    def turn_for_ever(self, scorer: ScorerSockets) -> None:
        """Until something is raised; the owner must not hear anything meanwhile."""
        while True:
            assert self.owner.poll(TURN_MS) == []
            scorer.poll(TURN_MS)


def poll_for_ever(scorer: ScorerSockets) -> None:
    while True:
        scorer.poll(TURN_MS)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    one = Stage(tmp_path)
    yield one
    one.owner.close()


def test_workers_here_and_there_are_served_by_the_same_sockets(stage: Stage) -> None:
    here = stage.runtime_dir
    with ScorerSockets(here, "here") as near, ScorerSockets(stage.way(), "there") as far:
        for scorer, name, key_name in ((near, b"here", ""), (far, b"there", "w")):
            met = stage.meet(scorer)
            assert (met.peer, met.key_name) == (name, key_name)
        stage.owner.publish(delta(1))
        for scorer, name in ((near, b"here"), (far, b"there")):
            assert stage.owner.send(Channel.SCORERS, name, Drain())
            seen: set[str] = set()
            while seen != {"SnapshotDelta", "Drain"}:
                seen |= {type(got.message).__name__ for got in scorer.poll(TURN_MS)}


def test_a_key_that_is_not_allowed_is_refused(stage: Stage) -> None:
    write_keys(stage.folder, "stranger")
    with (
        ScorerSockets(stage.way(key="stranger"), "s") as scorer,
        pytest.raises(RefusedError, match=r"does not allow this worker's key; append its \.pub"),
    ):
        stage.turn_for_ever(scorer)


def test_without_keys_nothing_is_sent_or_heard(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = stage.way()
    monkeypatch.setattr(way, "prepare", lambda _: None)
    with ScorerSockets(way, "s") as scorer:
        while not scorer.failed_count:
            assert stage.owner.poll(TURN_MS) == []
            scorer.poll(TURN_MS)
        assert not scorer.send(ScorerHello(300, "x"))


def test_a_worker_that_dies_is_noticed_and_a_new_owner_is_greeted(stage: Stage) -> None:
    with ScorerSockets(stage.way(), "a") as scorer:
        stage.meet(scorer)
        stage.owner.close()
        stage.owner = stage.new_owner()
        assert isinstance(stage.meet(scorer).message, ScorerHello)
    gone: list[Said | PeerGone] = []
    while not gone:
        gone = stage.owner.poll(TURN_MS)
    assert gone == [PeerGone(Channel.SCORERS, b"a")]


def test_a_worker_that_comes_back_before_its_old_connection_is_dead_is_heard(
    stage: Stage,
) -> None:
    with ScorerSockets(stage.way(), "same") as first:
        stage.meet(first)
        with ScorerSockets(stage.way(), "same") as second:
            assert isinstance(stage.meet(second).message, ScorerHello)
            assert stage.owner.send(Channel.SCORERS, b"same", Drain())
            got = [g.message for g in second.poll(int(HANG_S * 1000))]
            assert got == [Drain()]


def test_a_slow_worker_costs_the_owner_a_bounded_number_of_deltas(stage: Stage) -> None:
    count = 8 * REMOTE_SNAPSHOTS_HIGH_WATER
    way, context = stage.way(), zmq.Context[zmq.Socket[bytes]]()
    slow = context.socket(zmq.SUB)
    slow.setsockopt(zmq.RCVHWM, 1)
    slow.setsockopt(zmq.RCVBUF, 4096)
    slow.setsockopt(zmq.SUBSCRIBE, SUBSCRIBER_TOPIC + b"slow")
    slow.setsockopt(zmq.SUBSCRIBE, MAGIC)
    way.prepare(slow)
    slow.connect(way.addresses[Channel.SNAPSHOTS])
    sequence = 0
    while not slow.poll(0):  # Until its subscription is in force.
        stage.owner.poll(TURN_MS)
        sequence += 1
        stage.owner.publish(delta(sequence))
    columns: list[weakref.ref[npt.NDArray[np.float64]]] = []
    for _ in range(count):
        column = np.zeros(10_000)
        columns.append(weakref.ref(column))
        sequence += 1
        stage.owner.publish(delta(sequence), [column.data])
        del column
    # pyzmq frees what was sent in a thread of its own; what it keeps lets the test run out of time.
    while sum(column() is not None for column in columns) > 2 * REMOTE_SNAPSHOTS_HIGH_WATER:
        stage.owner.poll(TURN_MS)
    seen, patience_ms = 0, int(HANG_S * 1000)
    while slow.poll(patience_ms):
        slow.recv_multipart()
        seen, patience_ms = seen + 1, 200
    assert 0 < seen < count  # It can tell by the sequence that it missed some.
    context.destroy(linger=0)


def test_a_worker_of_another_version_learns_it_and_the_owner_tells(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    way = stage.way()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    old = context.socket(zmq.DEALER)
    way.prepare(old)
    old.connect(way.addresses[Channel.SCORERS])
    frames = [bytes(part) for part in seal(msgspec.msgpack.encode(["wh", 99, 0, "old"]))]
    frames[0] = frames[0][:4] + struct.pack("<H", 99) + frames[0][6:]
    old.send_multipart(frames)
    while not old.poll(TURN_MS):
        assert stage.owner.poll(TURN_MS) == []
    (version,) = struct.unpack_from("<H", old.recv_multipart()[0], 4)
    assert version == PROTOCOL_VERSION
    (dropped,) = [each for each in caplog.records if each.msg == "message_dropped"]
    assert "protocol version 99" in str(vars(dropped)["berth_fields"])
    context.destroy(linger=0)


def test_an_owner_of_another_version_ends_the_worker_with_the_remedy(stage: Stage) -> None:
    stage.owner.close()
    here = stage.runtime_dir
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    publisher = context.socket(zmq.XPUB)
    publisher.bind(Channel.SNAPSHOTS.address(here))
    with ScorerSockets(here, "s") as scorer:
        while not publisher.poll(TURN_MS):
            scorer.poll(TURN_MS)
        frames = [bytes(part) for part in seal(b"\x90")]
        frames[0] = frames[0][:4] + struct.pack("<H", 99) + frames[0][6:]
        publisher.send_multipart(frames)
        with pytest.raises(ProtocolVersionError, match="install the same berth on all hosts"):
            poll_for_ever(scorer)
    context.destroy(linger=0)


def test_the_entrance_needs_keys(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        WorkersEntrance.read("tcp://127.0.0.1:7400", "", "")


@pytest.mark.parametrize("channel", [Channel.SCORERS, Channel.SNAPSHOTS])
def test_a_large_frame_before_the_handshake_is_cut_off_at_once(
    stage: Stage, channel: Channel
) -> None:
    host, port = stage.entrance.addresses[channel].removeprefix("tcp://").split(":")
    bound = stage.owner._sockets[channel].getsockopt(zmq.MAXMSGSIZE)
    assert isinstance(bound, int)
    assert bound <= 16 * 1024 * 1024
    with socket.create_connection((host, int(port)), timeout=HANG_S) as raw:
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)
        raw.sendall(greeting)
        seen = b""
        while len(seen) < len(greeting):
            seen += raw.recv(64)
        raw.sendall(b"\x06" + struct.pack(">Q", bound + 1) + bytes(1000))
        # Nothing more is sent: without the bound, the owner would wait for the rest.
        with contextlib.suppress(ConnectionResetError):
            assert raw.recv(64) == b""
