"""The adapter's channel to the owner, as the rest of the adapter sees it.

`shared.transport.adapter_link.AdapterLink` is the real one; the one here stays in memory and is for
tests and tools.

Each batch carries the epoch of the owner's life that it was made for, and the owner drops any other,
so a restarted owner never hears what was meant for the last. The adapter greets the owner until it
is told to start, and sends nothing else before that; after a reconnection the link greets by itself.
"""

import asyncio
from collections import deque
from typing import Protocol

from shared.messages.to_owner import AdapterMessage, ToAdapter


class AdapterOwnerLink(Protocol):
    """A channel to the owner: ordered, and slow when the owner is slow."""

    async def send_batch(self, epoch: int, messages: list[AdapterMessage]) -> None:
        """Hand a batch on; returns when the link can take the next one, or will never take this."""

    async def next_order(self) -> ToAdapter:
        """The next thing that the owner wants; awaited all the time."""


class MemoryLink:
    """A link whose far end is in the same process. Call from one event loop."""

    def __init__(self, *, batches_waiting_max: int = 1_000_000) -> None:
        self.batches: deque[tuple[int, list[AdapterMessage]]] = deque()
        """What was sent and not yet taken, oldest first, with its epoch."""
        self._orders: asyncio.Queue[ToAdapter] = asyncio.Queue()
        self._waiting_max = batches_waiting_max
        self._changed = asyncio.Condition()

    async def send_batch(self, epoch: int, messages: list[AdapterMessage]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.batches) < self._waiting_max)
            self.batches.append((epoch, messages))
            self._changed.notify_all()

    async def next_order(self) -> ToAdapter:
        return await self._orders.get()

    # The owner's end ------------------------------------------------------------------------------

    def order(self, order: ToAdapter) -> None:
        """Tell the adapter something."""
        self._orders.put_nowait(order)

    async def take_batch(self) -> tuple[int, list[AdapterMessage]]:
        """The next batch, with its epoch."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self.batches))
            batch = self.batches.popleft()
            self._changed.notify_all()
            return batch
