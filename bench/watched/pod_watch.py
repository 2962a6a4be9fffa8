"""A watch of all pods, beside the scheduler's: it measures and it testifies.

Each event is handed on once, with the time at which it came: a server in trouble may repeat some. What
is done about a gap in the history is the caller's affair: a run that must see every change ends, one
that may list anew sets `version` and goes on.
"""

from collections.abc import Callable
from typing import Final

import msgspec
import orjson

from bench.watched.pod_events import PodEvent
from bench.watched.watched_listing import PODS_PATH
from shared.clock import Clock
from shared.errors import OperationalError
from shared.kube.http_stream import HttpStream, StreamClient

_decoder: Final = msgspec.json.Decoder(PodEvent)


class WatchBrokenError(OperationalError):
    """The watch lost its place; what happened meanwhile cannot be known any more."""


class PodWatch:
    """Follows pods from `version` on."""

    def __init__(
        self, client: StreamClient, clock: Clock, take: Callable[[PodEvent, float], None]
    ) -> None:
        """`take` gets ADDED, MODIFIED and DELETED."""
        self._client = client
        self._clock = clock
        self._take_event = take
        self.version = ""
        """From here on nothing was seen yet."""

    async def start(self) -> None:
        """Takes the version from which on everything is seen."""
        listed = orjson.loads(await self._client.get(f"{PODS_PATH}?limit=1"))
        self.version = listed["metadata"]["resourceVersion"]

    async def run(self) -> None:
        """Watches until cancelled; WatchBrokenError when it cannot go on without a gap."""
        while True:
            await self.follow()

    async def follow(self) -> None:
        """One watch, until the server ends it in order."""
        assert self.version, "start comes first"
        stream = await self._client.open_stream(
            f"{PODS_PATH}?watch=1&resourceVersion={self.version}&timeoutSeconds=3600"
            "&allowWatchBookmarks=true"
        )
        try:
            await self._read(stream)
        finally:
            stream.close()

    async def _read(self, stream: HttpStream) -> None:
        rest = b""
        while chunks := await stream.chunks():
            *lines, rest = b"".join((rest, *chunks)).split(b"\n")
            now_s = self._clock.monotonic_s()
            for line in lines:
                if line:
                    self._take(_decoder.decode(line), now_s)

    def _take(self, event: PodEvent, now_s: float) -> None:
        version = event.object.metadata.resource_version
        if version and int(version) <= int(self.version):
            # One watch shows changes in their order: this one was shown before.
            return
        match event.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                self._take_event(event, now_s)
            case "ERROR":
                told = event.object.message or "no reason given"
                raise WatchBrokenError(f"the watch of pods ended: {told}")
            case _:
                pass  # BOOKMARK: only its version counts.
        self.version = version or self.version
