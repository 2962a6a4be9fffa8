"""Messages on their way to the owner, batched by what is there when the link is free.

A batch is whatever was put since the last one went out. When the owner keeps up, that is what
arrived in one turn of the event loop, often a single event; when it falls behind, batches grow up to
their bound, and beyond that the sources stop reading, so that the backlog waits in the API server
and not in our memory.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from shared.limits import BACKLOG_BYTES_MAX, BATCH_BYTES_MAX, BATCH_COUNT_MAX
from shared.messages.to_owner import NO_EPOCH, AdapterMessage


class MessageSink(Protocol):
    """Where what is listed and watched is put."""

    def put(self, message: AdapterMessage, size_bytes: int) -> None:
        """Queue a message; it leaves in this turn of the loop if the link is free.
        `size_bytes` is roughly what the message weighs; it bounds the batches."""

    @property
    def is_full(self) -> bool:
        """Too much is queued."""

    async def room(self) -> None:
        """Wait while it is full. Sources call this between two reads."""


class Outbox:
    """A queue in front of the way to the owner. `run` sends; everything else is called from the same
    loop."""

    def __init__(self, send: Callable[[int, list[AdapterMessage]], Awaitable[None]]) -> None:
        """`send` takes a batch of an epoch, and returns when it can take the next."""
        self._send = send
        self._queue: deque[tuple[AdapterMessage, int]] = deque()
        self._queued_bytes = 0
        self._has_messages = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self.epoch = NO_EPOCH
        """The owner's life that messages are put for."""

    def start_epoch(self, epoch: int) -> None:
        """From now on messages are for another life of the owner; unsent ones are dropped."""
        self.epoch = epoch
        self._queue.clear()
        self._queued_bytes = 0
        self._has_messages.clear()
        self._has_room.set()

    def put(self, message: AdapterMessage, size_bytes: int) -> None:
        self._queue.append((message, size_bytes))
        self._queued_bytes += size_bytes
        self._has_messages.set()
        if self._queued_bytes > BACKLOG_BYTES_MAX:
            self._has_room.clear()

    @property
    def is_full(self) -> bool:
        return self._queued_bytes > BACKLOG_BYTES_MAX

    async def room(self) -> None:
        await self._has_room.wait()

    async def run(self) -> None:
        while True:
            await self._has_messages.wait()
            batch = self._take_batch()
            if batch:
                await self._send(self.epoch, batch)

    def _take_batch(self) -> list[AdapterMessage]:
        batch: list[AdapterMessage] = []
        batch_bytes = 0
        while self._queue and len(batch) < BATCH_COUNT_MAX:
            message, size_bytes = self._queue[0]
            if batch and batch_bytes + size_bytes > BATCH_BYTES_MAX:
                break
            self._queue.popleft()
            batch.append(message)
            batch_bytes += size_bytes
        self._queued_bytes -= batch_bytes
        if not self._queue:
            self._has_messages.clear()
        if self._queued_bytes <= BACKLOG_BYTES_MAX:
            self._has_room.set()
        return batch
