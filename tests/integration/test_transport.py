"""The channels over real sockets: delivery, pressure, loss, restarts, and the supervisor's death."""

import asyncio
import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest
import zmq

from daemon.adapter.outbox import MessageSink
from daemon.adapter.process import Adapter, EventsLostError, adapter_peer
from shared.errors import ProtocolVersionError
from shared.kube.api.core_v1 import Node
from shared.kube.api.meta_v1 import ObjectMeta
from shared.messages import codec
from shared.messages.admin import ADMIN_REQUEST, StatusRequest, TextAnswer
from shared.messages.codec import Codec, Drain, M
from shared.messages.from_binder import FROM_BINDER, BinderHello, BindReport, FromBinder
from shared.messages.from_scorer import ResyncRequest, ScorerHeartbeat, ScorerHello
from shared.messages.to_binder import TO_BINDER, BindPods, ToBinder, Welcome
from shared.messages.to_owner import (
    NO_EPOCH,
    AdapterBatch,
    AdapterHello,
    AdapterMessage,
    NodeChanged,
    NodeDeleted,
    StartSync,
)
from shared.messages.to_scorer import SNAPSHOTS, SnapshotDelta, SnapshotFull
from shared.transport.async_peer import AsyncPeer
from shared.transport.channels import LIMITS, Channel, Connected
from shared.transport.heard import PeerGone, Said
from shared.transport.local_stream import connected_stream
from shared.transport.owner_link import NoAnswerError, OwnerLink
from shared.transport.owner_sockets import OwnerSockets
from shared.transport.runtime_dir import AddressInUseError
from shared.transport.scorer_sockets import FromOwner, ScorerSockets
from shared.transport.sockets import Poller, RawSocket, is_readable, messages_now
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration

WAIT_MS = int(HANG_S * 1000)
EMPTY = msgspec.Raw(msgspec.msgpack.encode({}))
FULL = SnapshotFull(epoch=1, sequence=0, generation=1, settled={}, body=EMPTY, next_ticket=1)
WORK = Drain()


def binder_peer(runtime_dir: Path, identity: str) -> AsyncPeer[FromBinder, ToBinder]:
    return AsyncPeer(runtime_dir, Channel.BINDERS, identity, FROM_BINDER, TO_BINDER)


@pytest.fixture
def runtime_dir() -> Iterator[Path]:
    # Not tmp_path: socket paths may have 107 bytes only.
    with tempfile.TemporaryDirectory(prefix="berth-") as folder:
        yield Path(folder)


@pytest.fixture
def owner(runtime_dir: Path) -> Iterator[OwnerSockets]:
    with OwnerSockets(runtime_dir) as sockets:
        yield sockets


def receive(owner: OwnerSockets, until: Callable[[list[Said]], bool]) -> list[Said]:
    """Polls until enough has come; the test's time limit ends it if nothing does."""
    received: list[Said] = []
    while not until(received):
        received += said(owner.poll(WAIT_MS))
    return received


def said(heard: list[Said | PeerGone]) -> list[Said]:
    """Nobody may be gone."""
    assert all(isinstance(each, Said) for each in heard), heard
    return [each for each in heard if isinstance(each, Said)]


def one(owner: OwnerSockets) -> Said:
    return receive(owner, lambda got: len(got) == 1)[0]


def scorer_receive(scorer: ScorerSockets, count: int) -> list[FromOwner]:
    received: list[FromOwner] = []
    while len(received) < count:
        received += scorer.poll(WAIT_MS)
    return received


def hello(scorer: ScorerSockets) -> ScorerHello:
    """Connects and greets."""
    assert [m.message for m in scorer_receive(scorer, 1)] == [Connected()]
    greeting = ScorerHello(0, "x")
    assert scorer.send(greeting)
    return greeting


def dropped(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was wrong with each message that was dropped."""
    lines = [each for each in caplog.records if each.msg == "message_dropped"]
    return [getattr(each, "berth_fields")["problem"] for each in lines]  # noqa: B009 # Set by the log.


class OfOtherVersion(Codec[M]):
    """Of a berth whose messages look otherwise."""

    def encode(self, message: M, buffers: Sequence[codec.Buffer] = ()) -> list[codec.Buffer]:
        with patch.object(codec, "PROTOCOL_VERSION", 1):
            return super().encode(message, buffers)

    def decode(self, parts: Sequence[codec.Buffer]) -> tuple[M, Sequence[codec.Buffer]]:
        with patch.object(codec, "PROTOCOL_VERSION", 1):
            return super().decode(parts)


def delta(sequence: int) -> SnapshotDelta:
    return SnapshotDelta(1, sequence, sequence + 1, {}, EMPTY, 1)


def test_what_came_before_a_socket_was_used_for_something_else_is_not_missed() -> None:
    """Sending takes in what has come, and the descriptor tells of it no more."""
    context: zmq.Context[RawSocket] = zmq.Context()
    poller = Poller()
    with context.socket(zmq.ROUTER) as here, context.socket(zmq.DEALER) as there:
        here.bind("inproc://here")
        there.connect("inproc://here")
        poller.add_socket(here)
        assert poller.wait(0) == {}
        there.send(b"hello")
        select.select([here.getsockopt(zmq.FD)], [], [], HANG_S)
        assert is_readable(here), "as any use of it would find"
        poller.used.add(here)
        assert poller.wait(0) == {here: select.EPOLLIN}
        assert poller.wait(0) == {here: select.EPOLLIN}, "it was not taken"
        (frames,) = messages_now(here, 2)
        assert frames[1].bytes == b"hello"
        assert poller.wait(0) == {}
    poller.close()
    context.term()


class TestScorers:
    def test_full_snapshot_then_every_delta_published_after_it(
        self, runtime_dir: Path, owner: OwnerSockets
    ) -> None:
        with ScorerSockets(runtime_dir, "scorer-0-a") as scorer:
            greeting = hello(scorer)
            got = one(owner)
            assert got == Said(b"scorer-0-a", greeting)
            column = memoryview(bytes(range(256)) * 1000)
            assert owner.send(Channel.SCORERS, got.peer, FULL, [column, b""])
            for sequence in range(1, 101):
                owner.publish(delta(sequence), [column[:sequence]])
            answers = scorer_receive(scorer, 101)
        full = [m for m in answers if isinstance(m.message, SnapshotFull)]
        deltas = [m for m in answers if isinstance(m.message, SnapshotDelta)]
        sequences = [m.message.sequence for m in answers if isinstance(m.message, SnapshotDelta)]
        assert [bytes(b) for b in full[0].buffers] == [bytes(column), b""]
        assert sequences == list(range(1, 101))
        assert [len(m.buffers[0]) for m in deltas] == list(range(1, 101))

    def test_large_buffers_arrive_as_windows_and_small_ones_as_bytes(
        self, runtime_dir: Path, owner: OwnerSockets
    ) -> None:
        with ScorerSockets(runtime_dir, "scorer-0-a") as scorer:
            hello(scorer)
            one(owner)
            owner.publish(delta(1), [bytes(100_000), bytes(10)])
            got = scorer_receive(scorer, 1)[0]
            assert [type(b) for b in got.buffers] == [memoryview, bytes]

    def test_the_owner_is_told_that_a_scorer_died(
        self, runtime_dir: Path, owner: OwnerSockets
    ) -> None:
        with ScorerSockets(runtime_dir, "scorer-0-a") as scorer:
            hello(scorer)
            one(owner)
        heard: list[Said | PeerGone] = []
        while not heard:
            heard = owner.poll(WAIT_MS)
        assert heard == [PeerGone(Channel.SCORERS, b"scorer-0-a")]

    def test_a_send_to_a_peer_that_is_gone_or_unknown_says_so(self, owner: OwnerSockets) -> None:
        assert not owner.send(Channel.SCORERS, b"nobody", WORK)

    def test_a_send_to_a_peer_that_does_not_read_says_so_when_its_queue_is_full(
        self, runtime_dir: Path, owner: OwnerSockets
    ) -> None:
        with ScorerSockets(runtime_dir, "scorer-0-a") as scorer:
            hello(scorer)
            peer = one(owner).peer
            padding = [bytes(60_000)]
            limits = LIMITS[Channel.SCORERS]
            bound = limits.high_water + limits.high_water + 100
            sent = 0
            while sent <= bound and owner.send(Channel.SCORERS, peer, WORK, padding):
                sent += 1
            assert 0 < sent <= bound
            # What was accepted arrives, all of it.
            scorer_receive(scorer, sent)

    def test_a_slow_scorer_sees_a_gap_in_the_sequence(
        self, runtime_dir: Path, owner: OwnerSockets
    ) -> None:
        count = 4 * LIMITS[Channel.SNAPSHOTS].high_water
        with ScorerSockets(runtime_dir, "scorer-0-a") as scorer:
            hello(scorer)
            one(owner)
            column = memoryview(bytes(60_000))
            for sequence in range(count):
                owner.publish(delta(sequence), [column])
            seen: list[int] = []
            while not seen or seen[-1] < count:
                owner.publish(delta(sequence := sequence + 1))
                seen += [
                    m.message.sequence
                    for m in scorer.poll(WAIT_MS)
                    if isinstance(m.message, SnapshotDelta)
                ]
            assert seen == sorted(seen)
            assert len(seen) < seen[-1] + 1

    def test_a_new_owner_is_noticed_and_hears_nothing_that_was_meant_for_the_old_one(
        self, runtime_dir: Path
    ) -> None:
        with ScorerSockets(runtime_dir, "scorer-0-a") as scorer:
            with OwnerSockets(runtime_dir) as owner:
                hello(scorer)
                one(owner)
            while scorer.send(ScorerHeartbeat(1)):
                scorer.poll(10)
            with OwnerSockets(runtime_dir) as owner:
                greeting = hello(scorer)
                assert one(owner).message == greeting

    def test_damaged_snapshots_and_damaged_work_are_a_reason_to_greet_again(
        self, runtime_dir: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        publisher, router = context.socket(zmq.XPUB), context.socket(zmq.ROUTER)
        publisher.bind(Channel.SNAPSHOTS.address(runtime_dir))
        router.bind(Channel.SCORERS.address(runtime_dir))
        try:
            with ScorerSockets(runtime_dir, "scorer-0-a") as scorer:
                publisher.recv()
                good = SNAPSHOTS.encode(delta(1))
                publisher.send_multipart([good[0], bytes(good[1]) + b"x"])
                assert [m.message for m in scorer_receive(scorer, 2)] == [Connected()] * 2
                (lost,) = dropped(caplog)
                assert "instead of" in lost
                scorer.send(ScorerHello(0, "x"))
                router.send_multipart([router.recv_multipart()[0], b"", b""])
                assert scorer_receive(scorer, 1)[0].message == Connected()
                assert len(dropped(caplog)) == 2
        finally:
            publisher.close(0)
            router.close(0)
            context.term()

    def test_send_while_there_is_no_owner_says_no(self, runtime_dir: Path) -> None:
        with ScorerSockets(runtime_dir, "scorer-0-a") as scorer:
            assert not scorer.send(ScorerHeartbeat(1))
            assert not scorer.send(ScorerHeartbeat(1), WAIT_MS)
            assert scorer.poll(0) == []

    def test_a_send_that_waits_gives_up_when_the_owner_dies_and_the_next_is_greeted(
        self, runtime_dir: Path
    ) -> None:
        with ScorerSockets(runtime_dir, "scorer-0-a") as scorer:
            with OwnerSockets(runtime_dir) as owner:
                hello(scorer)
                one(owner)
                message = ResyncRequest("x" * 60_000)
                while scorer.send(message):
                    pass
                thread = threading.Thread(target=owner.close)
                thread.start()
                # Without a limit: nothing but the loss of the owner ends the last of these.
                while scorer.send(message, -1):
                    pass
                thread.join()
            with OwnerSockets(runtime_dir) as owner:
                greeting = hello(scorer)
                assert one(owner).message == greeting


class TestOwner:
    def test_damaged_messages_are_dropped_and_told_and_the_next_is_read(
        self, runtime_dir: Path, owner: OwnerSockets, caplog: pytest.LogCaptureFixture
    ) -> None:
        binder = connected_stream(runtime_dir, Channel.BINDERS, b"binder-0-a")
        assert binder is not None
        with contextlib.closing(binder):
            good = FROM_BINDER.encode(BinderHello(1))
            binder.send([b"alone"])
            binder.send([b"GET / HTTP/1.1", b""])
            binder.send([good[0], bytes(good[1])[:-1] + b"?"])
            binder.send(ADMIN_REQUEST.encode(StatusRequest()))
            binder.send(good)
            assert one(owner).message == BinderHello(1)
            assert len(dropped(caplog)) == 4
            assert any(
                "channel binders: cannot be decoded" in problem for problem in dropped(caplog)
            )

    def test_who_comes_again_by_its_name_is_who_is_answered(
        self, runtime_dir: Path, owner: OwnerSockets
    ) -> None:
        former = connected_stream(runtime_dir, Channel.BINDERS, b"binder-0-a")
        assert former is not None
        former.send(FROM_BINDER.encode(BinderHello(1)))
        assert one(owner).message == BinderHello(1)
        again = connected_stream(runtime_dir, Channel.BINDERS, b"binder-0-a")
        assert again is not None
        with contextlib.closing(former), contextlib.closing(again):
            again.send(FROM_BINDER.encode(BinderHello(2)))
            got = one(owner)
            assert got == Said(b"binder-0-a", BinderHello(2))
            assert owner.send(Channel.BINDERS, got.peer, Welcome(1))
            again.receive(1)
            assert TO_BINDER.decode(again.received.popleft())[0] == Welcome(1)
            assert not former.received

    def test_a_second_owner_is_refused_while_the_first_lives_and_welcome_after(
        self, runtime_dir: Path
    ) -> None:
        refused = pytest.raises(AddressInUseError, match=f"pid {os.getpid()}")
        with OwnerSockets(runtime_dir), refused:
            OwnerSockets(runtime_dir)
        OwnerSockets(runtime_dir).close()

    def test_what_a_killed_owner_left_behind_does_not_stop_the_next(
        self, runtime_dir: Path
    ) -> None:
        code = (
            "import sys; from pathlib import Path\n"
            "from shared.transport.owner_sockets import OwnerSockets\n"
            "OwnerSockets(Path(sys.argv[1])); print('up', flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", code, str(runtime_dir)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path.cwd()
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            with pytest.raises(AddressInUseError, match=f"pid {process.pid}"):
                OwnerSockets(runtime_dir)
            process.kill()
            process.wait()
        assert (runtime_dir / "binders.sock").exists()
        OwnerSockets(runtime_dir).close()

    def test_a_flood_from_the_adapter_does_not_hold_up_the_other_channels(
        self, runtime_dir: Path, owner: OwnerSockets
    ) -> None:
        async def flood_then_report() -> None:
            with (
                adapter_peer(runtime_dir, "adapter-a") as adapter,
                binder_peer(runtime_dir, "b") as b,
            ):
                assert await adapter.recv() == Connected()
                assert await b.recv() == Connected()
                for _ in range(LIMITS[Channel.ADAPTER].high_water):
                    assert await adapter.send(AdapterBatch(0, [AdapterHello()]))
                assert await b.send(BinderHello(0))

        asyncio.run(flood_then_report())
        first = said(owner.poll(WAIT_MS))
        per_poll = LIMITS[Channel.ADAPTER].drained_per_poll
        assert [type(each.message) for each in first].count(AdapterBatch) <= per_poll
        everything = first + receive(owner, lambda got: len(got) + len(first) == 17)
        assert [type(each.message) for each in everything].count(BinderHello) == 1

    def test_watched_descriptors_wake_the_poll(self, owner: OwnerSockets) -> None:
        reading, writing = os.pipe()
        is_cut = owner.watch_fd(reading)
        assert owner.poll(0) == []
        assert not is_cut()
        os.close(writing)
        assert owner.poll(WAIT_MS) == []
        assert is_cut()
        os.close(reading)


class TestAdmin:
    def test_several_clients_get_their_own_answers(
        self, runtime_dir: Path, owner: OwnerSockets
    ) -> None:
        def answer_two() -> None:
            for got in receive(owner, lambda got: len(got) == 2):
                owner.send(Channel.ADMIN, got.peer, TextAnswer([got.peer.decode()]))

        thread = threading.Thread(target=answer_two)
        answers = []
        first, second = OwnerLink(runtime_dir), OwnerLink(runtime_dir)
        asking = threading.Thread(
            target=lambda: answers.append(first.ask_now(StatusRequest(), TextAnswer, HANG_S))
        )
        thread.start()
        asking.start()
        answers.append(second.ask_now(StatusRequest(), TextAnswer, HANG_S))
        asking.join()
        thread.join()
        texts = [answer.lines[0] for answer in answers]
        assert len(set(texts)) == 2
        assert all(text.startswith("admin-") for text in texts)

    def test_without_an_owner_the_question_fails_with_the_address(self, runtime_dir: Path) -> None:
        with pytest.raises(NoAnswerError, match=r"admin\.sock"):
            OwnerLink(runtime_dir).ask_now(StatusRequest(), TextAnswer, timeout_s=0.05)

    def test_a_late_answer_is_not_taken_for_the_next_one(
        self, runtime_dir: Path, owner: OwnerSockets
    ) -> None:
        link = OwnerLink(runtime_dir)
        with pytest.raises(NoAnswerError, match="no answer"):
            link.ask_now(StatusRequest(), TextAnswer, timeout_s=0.2)
        late = one(owner)
        owner.send(Channel.ADMIN, late.peer, TextAnswer(["late"]))

        def answer() -> None:
            owner.send(Channel.ADMIN, one(owner).peer, TextAnswer(["right"]))

        thread = threading.Thread(target=answer)
        thread.start()
        assert link.ask_now(StatusRequest(), TextAnswer, HANG_S) == TextAnswer(["right"])
        thread.join()


class TestAsyncPeer:
    def test_orders_and_reports_go_both_ways(self, runtime_dir: Path, owner: OwnerSockets) -> None:
        async def binder() -> list[object]:
            with binder_peer(runtime_dir, "binder-0-a") as peer:
                seen: list[object] = [await peer.recv()]
                assert await peer.send(BinderHello(0))
                seen += [await peer.recv(), await peer.recv()]
                assert await peer.send(BindReport(1, [1], []))
                return seen

        def serve() -> None:
            peer = one(owner).peer
            owner.send(Channel.BINDERS, peer, Welcome(1))
            owner.send(Channel.BINDERS, peer, BindPods(1, []))

        thread = threading.Thread(target=serve)
        thread.start()
        seen = asyncio.run(binder())
        thread.join()
        assert seen == [Connected(), Welcome(1), BindPods(1, [])]
        assert one(owner).message == BindReport(1, [1], [])

    @pytest.mark.usefixtures("owner")
    def test_who_has_no_descriptor_left_when_it_connects_tries_again(
        self, runtime_dir: Path
    ) -> None:
        async def binder() -> object:
            with binder_peer(runtime_dir, "binder-0-a") as peer:
                soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
                resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))  # What is open stays so.
                try:
                    await asyncio.sleep(0)
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                return await asyncio.wait_for(peer.recv(), HANG_S)

        assert asyncio.run(binder()) == Connected()

    @pytest.mark.parametrize("channel", [Channel.ADAPTER, Channel.BINDERS, Channel.ADMIN])
    def test_who_is_of_another_version_than_the_owner_is_told_so(
        self, runtime_dir: Path, owner: OwnerSockets, channel: Channel
    ) -> None:
        codec = OfOtherVersion[BinderHello](channel, BinderHello)

        async def other() -> None:
            with AsyncPeer(runtime_dir, channel, "other", codec, codec) as peer:
                assert await peer.recv() == Connected()
                assert await peer.send(BinderHello(0))
                assert await asyncio.to_thread(owner.poll, WAIT_MS) == []
                with pytest.raises(ProtocolVersionError, match="same berth on all hosts"):
                    await asyncio.wait_for(peer.recv(), HANG_S)

        asyncio.run(other())

    def test_a_burst_beyond_the_bound_is_taken_in_order_and_nothing_is_lost(
        self, runtime_dir: Path, owner: OwnerSockets
    ) -> None:
        count = 3 * LIMITS[Channel.BINDERS].high_water
        is_received = threading.Event()

        async def binder() -> list[int]:
            with binder_peer(runtime_dir, "binder-0-a") as peer:
                await peer.recv()
                await peer.send(BinderHello(0))
                epochs = []
                for _ in range(count):
                    message = await peer.recv()
                    assert isinstance(message, Welcome)
                    epochs.append(message.epoch)
                is_received.set()
                return epochs

        def serve() -> None:
            peer = one(owner).peer
            for number in range(count):
                while not owner.send(Channel.BINDERS, peer, Welcome(number)):
                    owner.poll(1)
            while not is_received.is_set():
                owner.poll(1)

        thread = threading.Thread(target=serve)
        thread.start()
        assert asyncio.run(binder()) == list(range(count))
        thread.join()

    def test_sending_waits_while_the_owner_does_not_read_and_loses_nothing(
        self, runtime_dir: Path, owner: OwnerSockets
    ) -> None:
        limits = LIMITS[Channel.ADAPTER]
        node = Node(metadata=ObjectMeta(name="n" * 200))
        batch_size = 250
        count = 2 * (limits.high_water + limits.high_water) + 100
        waited = threading.Event()
        is_received = threading.Event()

        async def adapter() -> None:
            with adapter_peer(runtime_dir, "adapter-a") as peer:
                assert await peer.recv() == Connected()
                for number in range(count):
                    batch: list[AdapterMessage] = [NodeChanged(node)] * batch_size
                    batch[0] = NodeChanged(Node(metadata=ObjectMeta(name=str(number))))
                    sending = asyncio.ensure_future(peer.send(AdapterBatch(1, batch)))
                    await asyncio.sleep(0)
                    if not sending.done():
                        waited.set()
                    assert await sending
                await asyncio.to_thread(is_received.wait)

        thread = threading.Thread(target=lambda: asyncio.run(adapter()))
        thread.start()
        assert waited.wait(WAIT_MS / 1000)
        got = receive(owner, lambda got: len(got) == count)
        is_received.set()
        thread.join()
        names = [r.message.messages[0].node.metadata.name for r in got]  # type: ignore[union-attr] # all are NodeChanged
        assert names == [str(number) for number in range(count)]

    def test_a_sender_and_a_receiver_at_full_speed_do_not_miss_one_another(
        self, runtime_dir: Path, owner: OwnerSockets
    ) -> None:
        # The notice that there is room comes once; whoever looks at the wrong moment swallows it.
        count = 10_000
        is_received = threading.Event()

        async def adapter() -> None:
            batch = AdapterBatch(1, [NodeDeleted("n")])
            with adapter_peer(runtime_dir, "adapter-a") as peer:
                assert await peer.recv() == Connected()
                for _ in range(count):
                    assert await peer.send(batch)
                await asyncio.to_thread(is_received.wait)

        thread = threading.Thread(target=lambda: asyncio.run(adapter()))
        thread.start()
        assert len(receive(owner, lambda got: len(got) >= count)) == count
        is_received.set()
        thread.join()

    def test_a_send_that_waits_gives_up_when_the_owner_dies(self, runtime_dir: Path) -> None:
        async def adapter(owner: OwnerSockets) -> bool:
            with adapter_peer(runtime_dir, "adapter-a") as peer:
                await peer.recv()
                node = NodeChanged(Node(metadata=ObjectMeta(name="n" * 200_000)))
                batch = AdapterBatch(1, [node])
                sends = [asyncio.ensure_future(peer.send(batch)) for _ in range(1000)]
                await asyncio.sleep(0)
                assert not all(s.done() for s in sends)
                await asyncio.to_thread(owner.close)
                results = await asyncio.gather(*sends)
                assert not await peer.send(batch)
                return all(results)

        with OwnerSockets(runtime_dir) as owner:
            assert not asyncio.run(adapter(owner))

    def test_a_second_owner_gets_a_fresh_start(self, runtime_dir: Path) -> None:
        async def adapter() -> None:
            hello = AdapterBatch(0, [AdapterHello()])
            with adapter_peer(runtime_dir, "adapter-a") as peer:
                for epoch in (1, 2):
                    with OwnerSockets(runtime_dir) as owner:
                        assert await peer.recv() == Connected()
                        assert await peer.send(hello)
                        got = await asyncio.to_thread(one, owner)
                        assert got.message == hello
                        assert owner.send(Channel.ADAPTER, got.peer, StartSync(epoch))
                        assert await peer.recv() == StartSync(epoch)

        asyncio.run(adapter())


class OfOneNode:
    """A source that tells one change, and then what it is told to."""

    NODE = NodeDeleted("n")
    sink: MessageSink

    async def run(self, sink: MessageSink) -> None:
        self.sink = sink
        sink.put(self.NODE, 1)
        await asyncio.Event().wait()


class TestAdapterFromOneOwnerToTheNext:
    GREETING = AdapterBatch(NO_EPOCH, [AdapterHello()])

    @contextlib.asynccontextmanager
    async def adapter(
        self, runtime_dir: Path, source: OfOneNode
    ) -> AsyncIterator[asyncio.Task[None]]:
        with adapter_peer(runtime_dir, "a") as peer:
            adapter = Adapter(source, peer)
            task = asyncio.ensure_future(adapter.run())
            try:
                yield task
            finally:
                task.cancel()
                await asyncio.wait([task])

    async def greeted(self, owner: OwnerSockets) -> bytes:
        got = await asyncio.to_thread(one, owner)
        assert got.message == self.GREETING
        return got.peer

    def test_a_new_owner_hears_a_hello_and_nothing_of_the_old_sync(self, runtime_dir: Path) -> None:
        async def scene() -> None:
            source = OfOneNode()
            async with self.adapter(runtime_dir, source):
                for epoch in (1, 2):
                    with OwnerSockets(runtime_dir) as owner:
                        peer = await self.greeted(owner)
                        if epoch > 1:
                            source.sink.put(NodeDeleted("of the old sync"), 1)
                            await asyncio.sleep(0)
                        assert owner.send(Channel.ADAPTER, peer, StartSync(epoch))
                        got = await asyncio.to_thread(one, owner)
                        assert got.message == AdapterBatch(epoch, [OfOneNode.NODE])

        asyncio.run(scene())

    def test_a_connection_that_breaks_while_the_owner_lives_on_ends_the_adapter(
        self, runtime_dir: Path
    ) -> None:
        async def scene() -> None:
            async with self.adapter(runtime_dir, OfOneNode()) as task:
                with OwnerSockets(runtime_dir) as owner:
                    peer = await self.greeted(owner)
                    assert owner.send(Channel.ADAPTER, peer, StartSync(1))
                    await asyncio.to_thread(one, owner)
                with OwnerSockets(runtime_dir) as owner:
                    peer = await self.greeted(owner)
                    assert owner.send(Channel.ADAPTER, peer, StartSync(1))
                    await task

        with pytest.raises(ExceptionGroup) as ended:
            asyncio.run(scene())
        assert ended.group_contains(EventsLostError)

    def test_without_an_owner_a_greeting_waits(self, runtime_dir: Path) -> None:
        async def scene() -> None:
            async with self.adapter(runtime_dir, OfOneNode()):
                await asyncio.sleep(0)
                with OwnerSockets(runtime_dir) as owner:
                    await self.greeted(owner)

        asyncio.run(scene())


class TestLifeline:
    def test_a_child_notices_that_its_supervisor_was_killed(self) -> None:
        child = (
            "import asyncio, sys\n"
            "from shared.child_plan import ChildPlan, ChildStart\n"
            "from shared.runtime_options import RuntimeOptions\n"
            "async def main():\n"
            "    cut = asyncio.Event()\n"
            "    plan = ChildPlan(options=RuntimeOptions())\n"
            "    start = ChildStart(plan, 0, int(sys.argv[1]), None, None)\n"
            "    start.call_at_end(asyncio.get_running_loop(), cut.set)\n"
            "    print('watching', flush=True)\n"
            "    await cut.wait()\n"
            "    print('cut', flush=True)\n"
            "asyncio.run(main())\n"
        )
        supervisor = (
            "import os, subprocess, sys\n"
            "import os\n"
            "reading, writing = os.pipe()\n"
            "subprocess.Popen([sys.executable, '-c', sys.argv[1], str(reading)],"
            " pass_fds=[reading])\n"
            "os.read(0, 1)\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", supervisor, child],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path.cwd(),
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"watching\n"
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert process.stdout.readline() == b"cut\n"
