"""The adapter's life: greet the owner, do what it orders, begin anew when the owner does."""

import asyncio
from typing import Final, Protocol

from daemon.adapter.outbox import AdapterOwnerLink, MessageSink, Outbox
from shared.messages.to_owner import AdapterHello
from shared.telemetry.log import EventLog
from shared.transport.adapter_link import NO_EPOCH

log: Final = EventLog("adapter")

HELLO_INTERVAL_S: Final = 1.0
"""How often an owner that has not ordered anything yet is greeted again."""


class EventSource(Protocol):
    """Where events come from: an API server, or memory."""

    async def run(self, sink: MessageSink) -> None:
        """List every kind (`SyncStarted` ... `SyncFinished`), then tell single changes, until cancelled
        or at the source's end. May be run again: a new life of the owner begins with a new list."""


class Adapter:
    """Runs a source for the owner at the other end of a link."""

    def __init__(
        self,
        source: EventSource,
        link: AdapterOwnerLink,
        *,
        hello_interval_s: float = HELLO_INTERVAL_S,
    ) -> None:
        self._source = source
        self._link = link
        self._outbox = Outbox(link)
        self._hello_interval_s = hello_interval_s
        self._source_run: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serve the owner until cancelled. An exception of the source or the link ends the process."""
        async with asyncio.TaskGroup() as tasks:
            greeting = tasks.create_task(self._greet(), name="greeting")
            epoch = (await self._link.next_order()).epoch
            greeting.cancel()
            tasks.create_task(self._outbox.run(), name="outbox")
            while True:
                await self._start(epoch, tasks)
                epoch = (await self._link.next_order()).epoch

    async def _greet(self) -> None:
        while True:
            await self._link.send_batch(NO_EPOCH, [AdapterHello()])
            await asyncio.sleep(self._hello_interval_s)

    async def _start(self, epoch: int, tasks: asyncio.TaskGroup) -> None:
        """Begin with `epoch`, dropping what is unsent of the last one."""
        if epoch == self._outbox.epoch:
            # Two greetings brought two answers; what they ask for is being done.
            return
        log.info("sync_starts", epoch=epoch)
        if self._source_run is not None:
            self._source_run.cancel()
            await asyncio.wait([self._source_run])
        self._outbox.start_epoch(epoch)
        self._source_run = tasks.create_task(self._source.run(self._outbox), name="source")
