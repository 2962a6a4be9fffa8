"""The adapter's channel to the owner, as the rest of the adapter sees it.

`shared.transport.adapter_link.AdapterLink` is the real one.

Each batch carries the epoch of the owner's life that it was made for, and the owner drops any other,
so a restarted owner never hears what was meant for the last. The adapter greets the owner until it
is told to start, and sends nothing else before that; after a reconnection the link greets by itself.
"""

from typing import Protocol

from shared.messages.to_owner import AdapterMessage, ToAdapter


class AdapterOwnerLink(Protocol):
    """A channel to the owner: ordered, and slow when the owner is slow."""

    async def send_batch(self, epoch: int, messages: list[AdapterMessage]) -> None:
        """Hand a batch on; returns when the link can take the next one, or will never take this."""

    async def next_order(self) -> ToAdapter:
        """The next thing that the owner wants; awaited all the time."""
