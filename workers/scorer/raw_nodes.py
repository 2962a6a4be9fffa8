"""Whole Node objects as the API server tells them, for extenders that keep no nodes themselves.

Made only where such an extender is configured: the scheduler itself reads a few fields of a node, but
an extender may look at any. Lists and watches nodes by itself; callers may rely on each object being
one that the API server sent, though perhaps not its newest state.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec

from shared.errors import OperationalError
from shared.kube.api.meta_v1 import NamedObject
from shared.kube.api_errors import read_answer
from shared.kube.decode import raw_event_decoder
from shared.kube.http_stream import LineSplitter, StreamClient
from shared.kube.list_pages import list_pages
from shared.telemetry.log import EventLog

NODES_PATH: Final = "/api/v1/nodes"
PAGE_SIZE: Final = 500
BACKOFF_S: Final = 1.0
BACKOFF_S_MAX: Final = 30.0
WATCH_S: Final = 300

log = EventLog("scorer.raw_nodes")


_object_decoder: Final = msgspec.json.Decoder(NamedObject)


class RawNodes:
    """Nodes by name. Belongs to one event loop."""

    def __init__(self, client: StreamClient) -> None:
        self._client = client
        self._nodes: dict[str, bytes] = {}
        self._version = ""
        """Where a watch may resume; empty: list first."""
        self._is_listed = asyncio.Event()

    async def get(self, names: Iterable[str]) -> list[bytes]:
        """These nodes; one that the watch has not brought yet is asked for."""
        await self._is_listed.wait()
        found: list[bytes] = []
        for name in names:
            node = self._nodes.get(name)
            found.append(await self._client.get(f"{NODES_PATH}/{name}") if node is None else node)
        return found

    async def run(self) -> None:
        """Keeps the nodes up to date until cancelled."""
        backoff_s = BACKOFF_S
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                backoff_s = BACKOFF_S
            except OperationalError as error:
                self._version = ""
                log.warning("nodes_not_watched", problem=str(error), next_try_s=backoff_s)
                await asyncio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, BACKOFF_S_MAX)

    async def _list(self) -> None:
        nodes: dict[str, bytes] = {}
        version = ""
        async for page in list_pages(self._client, NODES_PATH, PAGE_SIZE):
            for item in page.items or ():
                nodes[read_answer(_object_decoder, item).metadata.name] = bytes(item)
            version = page.metadata.resource_version
        self._nodes, self._version = nodes, version
        self._is_listed.set()

    async def _watch(self) -> None:
        stream = await self._client.open_stream(
            f"{NODES_PATH}?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_S}"
            f"&resourceVersion={self._version}"
        )
        splitter = LineSplitter()
        try:
            while chunks := await stream.chunks():
                for line in splitter.feed(b"".join(chunks)):
                    if not self._take(line):
                        return
        finally:
            stream.close()

    def _take(self, line: bytes) -> bool:
        """One event; False: the watch is of no use any more."""
        event = read_answer(raw_event_decoder, line)
        if event.type == "ERROR":
            self._version = ""
            return False
        meta = read_answer(_object_decoder, event.object).metadata
        self._version = meta.resource_version
        if event.type == "DELETED":
            self._nodes.pop(meta.name, None)
        elif event.type != "BOOKMARK":
            self._nodes[meta.name] = bytes(event.object)
        return True
