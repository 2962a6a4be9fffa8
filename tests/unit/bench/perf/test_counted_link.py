"""The link of the feeder: who waits for so many messages goes on when they have gone."""

import asyncio

from bench.perf.decision_processes import CountedLink
from shared.messages.to_owner import AdapterHello, SyncStarted
from shared.transport.adapter_link import NO_EPOCH
from tests.support.memory_adapter import MemoryLink
from tests.support.waiting import HANG_S


def test_messages_count_from_the_sync_on() -> None:
    async def scenario() -> None:
        link = CountedLink(MemoryLink())
        await link.send_batch(NO_EPOCH, [AdapterHello()])
        waiting = asyncio.create_task(link.until_sent(3))
        await link.send_batch(7, [SyncStarted("pods"), SyncStarted("nodes")])
        await asyncio.sleep(0)
        assert not waiting.done()
        await link.send_batch(7, [SyncStarted("services")])
        await asyncio.wait_for(waiting, HANG_S)
        assert link.batch_count == 2

    asyncio.run(scenario())
