"""The adapter's life: greet the owner, do what it orders, begin anew when the owner does.

An owner that was restarted has another epoch: it drops what was made for the last one and orders a new
sync. A connection that broke while the owner lives on (tcp) is worse: batches were lost, nobody knows
which, and the owner's cluster has a hole. So the adapter asks after each reconnection, and if the epoch
is still the same it gives up; its process ends, is started again, and lists everything anew.
"""

import asyncio
from pathlib import Path
from typing import Final, Protocol

from daemon.adapter.outbox import MessageSink, Outbox
from shared.errors import OperationalError
from shared.messages.to_owner import (
    FROM_ADAPTER,
    NO_EPOCH,
    TO_ADAPTER,
    AdapterBatch,
    AdapterHello,
    AdapterMessage,
    ToAdapter,
)
from shared.telemetry.log import EventLog
from shared.transport.async_peer import AsyncPeer
from shared.transport.channels import Channel, Connected

log: Final = EventLog("adapter")


class EventSource(Protocol):
    """Where events come from: an API server, or memory."""

    async def run(self, sink: MessageSink) -> None:
        """List every kind (`SyncStarted` ... `SyncFinished`), then tell single changes, until cancelled
        or at the source's end. May be run again, for a new life of the owner, who knows nothing."""


class AdapterPeer(Protocol):
    """The connection to the owner, of an `AsyncPeer`."""

    async def recv(self) -> ToAdapter | Connected: ...

    async def send(self, message: AdapterBatch) -> bool: ...


def adapter_peer(runtime_dir: Path, instance: str) -> AsyncPeer[AdapterBatch, ToAdapter]:
    """Of the watch adapter; `instance` names this life of it. To be made inside an event loop."""
    return AsyncPeer(runtime_dir, Channel.ADAPTER, f"adapter-{instance}", FROM_ADAPTER, TO_ADAPTER)


class EventsLostError(OperationalError):
    """The connection to a live owner broke; what it did not get cannot be told."""


class Adapter:
    """Runs a source for the owner at the other end of a connection. To be made inside an event loop."""

    def __init__(self, source: EventSource, peer: AdapterPeer) -> None:
        self._source = source
        self._peer = peer
        self._outbox = Outbox(self._send)
        self._source_run: asyncio.Task[None] | None = None
        self._connected = asyncio.Event()
        self._connection_count = 0
        self._is_rejoining = False
        """There is a new connection, and whoever is there has not spoken yet."""

    async def run(self) -> None:
        """Serve the owner until cancelled. An exception of the source or the peer ends the process."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._outbox.run(), name="outbox")
            while True:
                await self._start(await self._next_epoch(), tasks)

    async def _send(self, epoch: int, messages: list[AdapterMessage]) -> None:
        """Returns when the next batch can be taken. What was made for an owner that is gone, and what
        comes while a new one has not spoken yet, is dropped: a new sync repeats it."""
        await self._connected.wait()
        connection = self._connection_count
        if self._is_rejoining or await self._peer.send(AdapterBatch(epoch, messages)):
            return
        # The next connection may be known before it is known here that this one is over.
        if connection == self._connection_count:
            self._connected.clear()

    async def _next_epoch(self) -> int:
        """That a sync is ordered for; awaited all the time, since connections are noticed here too."""
        while isinstance(order := await self._peer.recv(), Connected):
            self._connected.set()
            self._is_rejoining = self._connection_count > 0
            self._connection_count += 1
            await self._peer.send(AdapterBatch(NO_EPOCH, [AdapterHello()]))
        if self._is_rejoining and order.epoch == self._outbox.epoch:
            raise EventsLostError("the connection to the owner broke; the adapter starts anew")
        self._is_rejoining = False
        return order.epoch

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
