"""Follows all pods on the API server and writes what it sees into a `PodBook`.

A watch of the demo's own, beside the scheduler's: it measures and it testifies. It must see every
change, so a gap in the history (410 Gone) ends the run instead of being bridged by a new list.
"""

from typing import Final

import msgspec
import orjson

from bench.demo.pod_book import PodBook, WatchedPod, WatchEvent
from shared.clock import Clock
from shared.errors import OperationalError
from shared.kube.api_client import ApiClient
from shared.kube.http_connection import HttpStream

PODS_PATH: Final = "/api/v1/pods"
_decoder: Final = msgspec.json.Decoder(WatchEvent)


class WatchBrokenError(OperationalError):
    """The watch lost its place; what happened meanwhile cannot be known any more."""


class PodWatcher:
    """Follows pods from the moment of `start`."""

    def __init__(self, client: ApiClient, book: PodBook, clock: Clock) -> None:
        self._client = client
        self._book = book
        self._clock = clock
        self._version = ""

    async def start(self) -> None:
        """Takes the version from which on everything is seen."""
        listed = orjson.loads(await self._client.get(f"{PODS_PATH}?limit=1"))
        self._version = listed["metadata"]["resourceVersion"]

    async def run(self) -> None:
        """Watches until cancelled; WatchBrokenError when it cannot go on without a gap."""
        assert self._version, "start comes first"
        while True:
            stream = await self._client.open_stream(
                f"{PODS_PATH}?watch=1&resourceVersion={self._version}&timeoutSeconds=3600"
                "&allowWatchBookmarks=true"
            )
            try:
                await self._follow(stream)
            finally:
                stream.close()

    async def _follow(self, stream: HttpStream) -> None:
        rest = b""
        while True:
            chunks = await stream.chunks()
            if not chunks:
                return
            *lines, rest = b"".join((rest, *chunks)).split(b"\n")
            now_s = self._clock.monotonic_s()
            for line in lines:
                if line:
                    self._take(_decoder.decode(line), now_s)

    def _take(self, event: WatchEvent, now_s: float) -> None:
        match event.type:
            case "ADDED" | "MODIFIED":
                self._book.observed(event, now_s)
            case "DELETED":
                raise WatchBrokenError(f"pod {event.object.metadata.name} was deleted; nobody may")
            case "ERROR":
                raise WatchBrokenError(f"the watch of pods ended: {_told(event.object)}")
            case _:
                pass  # BOOKMARK: only its version counts.
        self._version = event.object.metadata.resourceVersion or self._version


def _told(status: WatchedPod) -> str:
    return status.message or "no reason given"
