"""AdapterLink: the watch adapter's channel to the owner, with what a new connection means for it.

An owner that was restarted has another epoch: it drops what was made for the last one and orders a
new sync, so nothing needs to be done here. A connection that broke while the owner lives on (tcp) is
worse: batches were lost, nobody knows which, and the owner's cluster has a hole. The link therefore
asks after each reconnection, and if the epoch is still the same it gives up; the adapter's process
ends, is started again, and lists everything anew.
"""

import asyncio
from pathlib import Path
from typing import Final

from shared.errors import OperationalError
from shared.messages.to_owner import (
    FROM_ADAPTER,
    TO_ADAPTER,
    AdapterBatch,
    AdapterHello,
    AdapterMessage,
    ToAdapter,
)
from shared.transport.async_peer import AsyncPeer
from shared.transport.channels import Channel
from shared.transport.sockets import Closing, Connected

NO_EPOCH: Final = 0
AdapterPeer = AsyncPeer[AdapterBatch, ToAdapter]


def adapter_peer(runtime_dir: Path, instance: str) -> AdapterPeer:
    """Of the watch adapter; `instance` names this life of it. To be made inside an event loop."""
    return AsyncPeer(runtime_dir, Channel.ADAPTER, f"adapter-{instance}", FROM_ADAPTER, TO_ADAPTER)


class EventsLostError(OperationalError):
    """The connection to a live owner broke; what it did not get cannot be told."""


class AdapterLink(Closing):
    """Ordered; `send_batch` is slow when the owner is slow. To be made inside an event loop."""

    def __init__(self, peer: AdapterPeer) -> None:
        self._peer = peer
        self._epoch = NO_EPOCH
        self._has_connected = False
        self._is_rejoining = False
        self._connected = asyncio.Event()

    async def send_batch(self, epoch: int, messages: list[AdapterMessage]) -> None:
        """Hands a batch on; returns when the link can take the next one.

        What was made for an owner that is gone, and what comes while a new one has not spoken yet, is
        dropped: a new sync repeats it.
        """
        await self._connected.wait()
        if self._is_rejoining:
            return
        if not await self._peer.send(AdapterBatch(epoch, messages)):
            self._connected.clear()

    async def next_order(self) -> ToAdapter:
        """What the owner wants; to be awaited all the time, since connections are noticed here too."""
        while True:
            message = await self._peer.recv()
            if isinstance(message, Connected):
                await self._on_connected()
                continue
            if self._is_rejoining and message.epoch == self._epoch:
                raise EventsLostError("the connection to the owner broke; the adapter starts anew")
            self._is_rejoining = False
            self._epoch = message.epoch
            return message

    def close(self) -> None:
        """Lets go of the channel; what is handed on is still delivered if the owner lives."""
        self._peer.close()

    async def _on_connected(self) -> None:
        self._connected.set()
        self._is_rejoining = self._has_connected
        self._has_connected = True
        if self._is_rejoining:
            await self._peer.send(AdapterBatch(NO_EPOCH, [AdapterHello()]))
