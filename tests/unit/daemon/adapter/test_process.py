"""The adapter's life with its owner, over a link in memory."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest

from daemon.adapter.outbox import MessageSink, Outbox
from daemon.adapter.process import Adapter, EventSource
from shared.errors import OperationalError
from shared.kube.api.core_v1 import Node, Pod
from shared.kube.api.meta_v1 import ObjectMeta, PodMeta
from shared.kube.resources import ALL_KINDS
from shared.limits import BACKLOG_BYTES_MAX, BATCH_BYTES_MAX, BATCH_COUNT_MAX
from shared.messages.to_owner import (
    FROM_ADAPTER,
    AdapterBatch,
    AdapterHello,
    AdapterMessage,
    NodeChanged,
    NodeDeleted,
    PodChanged,
    StartSync,
    SyncFinished,
    SyncStarted,
)
from shared.transport.channels import Connected
from tests.support.memory_adapter import MemoryLink, MemorySource
from tests.support.waiting import HANG_S


@contextlib.asynccontextmanager
async def running(source: EventSource, link: MemoryLink) -> AsyncIterator[None]:
    task = asyncio.create_task(Adapter(source, link).run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def take_until(link: MemoryLink, last: AdapterMessage, epoch: int) -> list[AdapterMessage]:
    """Messages up to and with `last`, all of one epoch, as they look after a journey in bytes."""
    taken: list[AdapterMessage] = []
    while not taken or taken[-1] != last:
        batch_epoch, messages = await link.take_batch()
        assert batch_epoch == epoch
        frames = FROM_ADAPTER.encode(AdapterBatch(batch_epoch, messages))
        taken += FROM_ADAPTER.decode([bytes(frame) for frame in frames])[0].messages
    return taken


def node(name: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, uid=f"uid-{name}"))


def pod(name: str) -> Pod:
    return Pod(metadata=PodMeta(name=name, namespace="ns", uid=f"uid-{name}"))


END = SyncFinished(ALL_KINDS[-1].plural, "2")


def test_it_greets_at_each_connection_until_it_is_told_to_start() -> None:
    async def main() -> None:
        source, link = MemorySource(), MemoryLink()
        async with running(source, link):
            for _ in range(3):
                epoch, messages = await link.take_batch()
                assert epoch == 0
                assert [type(m) for m in messages] == [AdapterHello]
                assert not link.batches
                link.order(Connected())
            await link.take_batch()
            link.order(StartSync(4))
            epoch, messages = await link.take_batch()
            assert (epoch, messages[0]) == (4, SyncStarted(ALL_KINDS[0].plural))

    asyncio.run(main())


def test_a_list_and_then_single_changes() -> None:
    async def main() -> None:
        source, link = MemorySource(), MemoryLink()
        source.put("nodes", node("n"))
        source.put("pods", pod("p"))
        async with running(source, link):
            assert (await link.take_batch())[0] == 0
            link.order(StartSync(4))
            told = await take_until(link, END, 4)
            assert [m.kind for m in told if isinstance(m, SyncStarted)] == [
                kind.plural for kind in ALL_KINDS
            ]
            assert [m.node.metadata.name for m in told if isinstance(m, NodeChanged)] == ["n"]
            assert [m.pod.name for m in told if isinstance(m, PodChanged)] == ["p"]
            source.remove("nodes", node("n"))
            assert await take_until(link, NodeDeleted("n"), 4) == [NodeDeleted("n")]

    asyncio.run(main())


def test_a_new_life_of_the_owner_gets_everything_anew() -> None:
    async def main() -> None:
        source, link = MemorySource(), MemoryLink()
        source.put("nodes", node("n"))
        source.put("pods", pod("p"))
        async with running(source, link):
            await link.take_batch()
            link.order(StartSync(4))
            first = await take_until(link, END, 4)
            link.order(StartSync(5))
            second = await take_until(link, END, 5)
            assert second == first

    asyncio.run(main())


def test_the_same_order_twice_is_one_order() -> None:
    async def main() -> None:
        source, link = MemorySource(), MemoryLink()
        source.put("nodes", node("n"))
        source.put("pods", pod("p"))
        async with running(source, link):
            await link.take_batch()
            link.order(StartSync(4))
            await take_until(link, END, 4)
            link.order(StartSync(4))
            link.order(StartSync(4))
            source.put("nodes", node("m"))
            told = await take_until(link, NodeChanged(node("m")), 4)
            assert told == [NodeChanged(node("m"))]

    asyncio.run(main())


class BreakingLink(MemoryLink):
    """A connection that ends while the first batch of the first epoch is on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.is_sending = asyncio.Event()
        self.end = asyncio.Event()

    async def send(self, message: AdapterBatch) -> bool:
        if message.epoch != 1 or self.end.is_set():
            return await super().send(message)
        self.is_sending.set()
        await self.end.wait()
        return False


def test_the_next_connection_may_be_known_before_the_end_of_the_last_one() -> None:
    async def main() -> None:
        link, source = BreakingLink(), MemorySource()
        async with running(source, link):
            hello = (await link.take_batch())[1]
            link.order(StartSync(epoch=1))
            await link.is_sending.wait()
            link.order(Connected())
            assert (await link.take_batch())[1] == hello
            link.end.set()
            link.order(StartSync(epoch=2))
            await take_until(link, SyncFinished(ALL_KINDS[-1].plural, "0"), epoch=2)

    asyncio.run(asyncio.wait_for(main(), HANG_S))


def test_a_source_that_fails_ends_the_process() -> None:
    class Failing:
        async def run(self, sink: MessageSink) -> None:
            raise OperationalError("nothing to tell")

    async def main() -> None:
        link = MemoryLink()
        task = asyncio.create_task(Adapter(Failing(), link).run())
        await link.take_batch()
        link.order(StartSync(1))
        with pytest.raises(ExceptionGroup) as caught:
            await task
        assert caught.group_contains(OperationalError, match="nothing to tell")

    asyncio.run(main())


# The outbox ---------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def sending(link: MemoryLink) -> AsyncIterator[Outbox]:
    outbox = Outbox(link.send_batch)
    outbox.start_epoch(1)
    task = asyncio.create_task(outbox.run())
    try:
        yield outbox
    finally:
        task.cancel()
        await asyncio.wait([task])


def test_what_arrives_in_one_turn_leaves_together_and_a_lone_event_at_once() -> None:
    async def main() -> None:
        link = MemoryLink()
        async with sending(link) as outbox:
            for name in "abc":
                outbox.put(NodeDeleted(name), 10)
            assert len((await link.take_batch())[1]) == 3
            outbox.put(NodeDeleted("d"), 10)
            assert await link.take_batch() == (1, [NodeDeleted("d")])

    asyncio.run(main())


def test_batches_are_bounded_by_count_and_bytes_and_keep_the_order() -> None:
    async def main() -> None:
        link = MemoryLink()
        async with sending(link) as outbox:
            names = [str(number) for number in range(3 * BATCH_COUNT_MAX)]
            for name in names:
                outbox.put(NodeDeleted(name), 1)
            for name in ("big", "bigger"):
                outbox.put(NodeDeleted(name), BATCH_BYTES_MAX)
            taken: list[str] = []
            sizes = []
            while len(taken) < len(names) + 2:
                _, messages = await link.take_batch()
                sizes.append(len(messages))
                taken += [msgspec.structs.asdict(m)["name"] for m in messages]
            assert taken == [*names, "big", "bigger"]
            assert sizes == [BATCH_COUNT_MAX] * 3 + [1, 1]

    asyncio.run(main())


def test_sources_wait_while_the_owner_is_behind() -> None:
    async def main() -> None:
        link = MemoryLink(batches_waiting_max=1)
        async with sending(link) as outbox:
            # One batch waits in the link, one for the link: one more than is room for is queued.
            for _ in range(2 + BACKLOG_BYTES_MAX // BATCH_BYTES_MAX + 1):
                outbox.put(NodeDeleted("x"), BATCH_BYTES_MAX)
                await asyncio.sleep(0)
            room = asyncio.ensure_future(outbox.room())
            await asyncio.sleep(0)
            assert not room.done()
            for _ in range(4):
                await link.take_batch()
            await room

    asyncio.run(main())


def test_a_new_epoch_drops_what_is_unsent() -> None:
    async def main() -> None:
        link = MemoryLink()
        async with sending(link) as outbox:
            outbox.put(NodeDeleted("old"), 1)
            outbox.start_epoch(2)
            outbox.put(NodeDeleted("new"), 1)
            assert await link.take_batch() == (2, [NodeDeleted("new")])
            assert not link.batches

    asyncio.run(main())
