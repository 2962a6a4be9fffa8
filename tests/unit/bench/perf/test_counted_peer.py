"""The connection of the feeder: who waits for so many messages goes on when they have gone."""

import asyncio

from bench.perf.decision_processes import CountedPeer
from shared.messages.to_owner import NO_EPOCH, AdapterBatch, AdapterHello, SyncStarted
from tests.support.memory_adapter import MemoryLink
from tests.support.waiting import HANG_S


def test_messages_count_from_the_sync_on() -> None:
    async def scenario() -> None:
        peer = CountedPeer(MemoryLink())
        await peer.send(AdapterBatch(NO_EPOCH, [AdapterHello()]))
        waiting = asyncio.create_task(peer.until_sent(3))
        await peer.send(AdapterBatch(7, [SyncStarted("pods"), SyncStarted("nodes")]))
        await asyncio.sleep(0)
        assert not waiting.done()
        await peer.send(AdapterBatch(7, [SyncStarted("services")]))
        await asyncio.wait_for(waiting, HANG_S)
        assert peer.batch_count == 2

    asyncio.run(scenario())
