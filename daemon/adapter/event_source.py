"""Where events come from, behind one interface: an API server, or memory.

A source lists every kind (`SyncStarted` ... `SyncFinished`) and then tells single changes. It must
be able to run again from the start after it was cancelled, because a new life of the owner begins
with a new list.
"""

from typing import Protocol

from shared.messages.to_owner import AdapterMessage


class MessageSink(Protocol):
    """Where a source puts its messages."""

    def put(self, message: AdapterMessage, size_bytes: int) -> None:
        """Queue a message; it leaves in this turn of the loop if it is urgent and the link is free.

        `size_bytes` is roughly what the message weighs; it bounds the batches.
        """

    async def room(self) -> None:
        """Wait while too much is queued. Sources call this between two reads."""


class EventSource(Protocol):
    """One way of seeing the cluster."""

    async def run(self, sink: MessageSink) -> None:
        """Tell everything to `sink`, from the beginning, until cancelled or at the source's end."""
