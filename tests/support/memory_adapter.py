"""Both ends of an adapter in memory: a cluster that tells what is done to it, and the channel to an
owner that a test plays."""

import asyncio
import copy
from collections import deque

from daemon.adapter.kind_feed import message_of
from daemon.adapter.outbox import MessageSink
from shared.kube.api.core_v1 import ApiObject
from shared.kube.resources import ALL_KINDS, KINDS_BY_PLURAL, ResourceKind
from shared.messages.to_owner import (
    AdapterBatch,
    AdapterMessage,
    SyncFinished,
    SyncStarted,
    ToAdapter,
)
from shared.transport.channels import Connected

_SIZE_BYTES = 512


class MemorySource:
    """Holds objects by kind and name; changes are told to the run that is under way, if any."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[tuple[str, str], ApiObject]] = {
            kind.plural: {} for kind in ALL_KINDS
        }
        self._version = 0
        self._sink: MessageSink | None = None

    def put(self, plural: str, item: ApiObject) -> None:
        """Add or replace an object."""
        kind = self._touch(plural)
        self._objects[plural][_identity(item)] = item
        if self._sink is not None:
            self._sink.put(message_of(kind, _copy(item)), _SIZE_BYTES)

    def remove(self, plural: str, item: ApiObject) -> None:
        """Delete an object; it must be there."""
        kind = self._touch(plural)
        removed = self._objects[plural].pop(_identity(item))
        if self._sink is not None:
            self._sink.put(message_of(kind, _copy(removed), is_gone=True), _SIZE_BYTES)

    async def run(self, sink: MessageSink) -> None:
        """Tell all that is there, then every change, until cancelled."""
        for kind in ALL_KINDS:
            sink.put(SyncStarted(kind.plural), _SIZE_BYTES)
            for item in self._objects[kind.plural].values():
                sink.put(message_of(kind, _copy(item)), _SIZE_BYTES)
            sink.put(SyncFinished(kind.plural, str(self._version)), _SIZE_BYTES)
        self._sink = sink
        try:
            await asyncio.Event().wait()
        finally:
            self._sink = None

    def _touch(self, plural: str) -> ResourceKind:
        self._version += 1
        return KINDS_BY_PLURAL[plural]


def _identity(item: ApiObject) -> tuple[str, str]:
    return item.metadata.namespace, item.metadata.name


def _copy(item: ApiObject) -> ApiObject:
    # Splitting a pod takes it apart; what is held here must stay whole.
    return copy.deepcopy(item)


class MemoryLink:
    """A connection whose far end is in the same process. Call from one event loop."""

    def __init__(self, *, batches_waiting_max: int = 1_000_000) -> None:
        self.batches: deque[tuple[int, list[AdapterMessage]]] = deque()
        """What was sent and not yet taken, oldest first, with its epoch."""
        self._orders: asyncio.Queue[ToAdapter | Connected] = asyncio.Queue()
        self._orders.put_nowait(Connected())
        self._waiting_max = batches_waiting_max
        self._changed = asyncio.Condition()

    async def send_batch(self, epoch: int, messages: list[AdapterMessage]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.batches) < self._waiting_max)
            self.batches.append((epoch, messages))
            self._changed.notify_all()

    async def send(self, message: AdapterBatch) -> bool:
        await self.send_batch(message.epoch, message.messages)
        return True

    async def recv(self) -> ToAdapter | Connected:
        return await self._orders.get()

    # The owner's end ------------------------------------------------------------------------------

    def order(self, order: ToAdapter | Connected) -> None:
        """Tell the adapter something."""
        self._orders.put_nowait(order)

    async def take_batch(self) -> tuple[int, list[AdapterMessage]]:
        """The next batch, with its epoch."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self.batches))
            batch = self.batches.popleft()
            self._changed.notify_all()
            return batch
