"""Follows all pods at the API server, for the ledger.

It is subject to the same faults as the scheduler when there is a fault plan: a watch that breaks is
opened anew where it was, and one whose place is forgotten (410) begins again with a list.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from bench.demo.watcher import PODS_PATH
from bench.soak.ledger import Ledger
from shared.clock import Clock
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import ApiError, Expired, TransportError
from shared.kube.http_connection import HttpStream

PAUSE_S: Final = 0.1
"""Before a broken watch is opened again."""
_FINISHED: Final = ("Succeeded", "Failed")


class _Metadata(msgspec.Struct, gc=False):
    name: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 - the API's name


class _Spec(msgspec.Struct, gc=False):
    nodeName: str = ""  # noqa: N815 - the API's name


class _Status(msgspec.Struct, gc=False):
    phase: str = ""


class _Pod(msgspec.Struct):
    """Also an ERROR event's Status, whose `status` is a word."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status | str = ""


class _Event(msgspec.Struct):
    type: str
    object: _Pod


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[_Pod]


_event_decoder: Final = msgspec.json.Decoder(_Event)
_list_decoder: Final = msgspec.json.Decoder(_List)


class Witness:
    """Keeps the ledger up to date."""

    def __init__(
        self, client: ApiClient, ledger: Ledger, on_bound: Callable[[str, str], None], clock: Clock
    ) -> None:
        """`on_bound` gets the pod's name and its node's."""
        self._client = client
        self._ledger = ledger
        self._on_bound = on_bound
        self._clock = clock
        self._version = ""
        self.list_count = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                if not self._version:
                    await self._list()
                stream = await self._client.open_stream(
                    f"{PODS_PATH}?watch=1&resourceVersion={self._version}&timeoutSeconds=3600"
                    "&allowWatchBookmarks=true"
                )
                try:
                    await self._follow(stream)
                finally:
                    stream.close()
            except Expired:
                self._version = ""
            except (ApiError, TransportError, msgspec.DecodeError):
                await asyncio.sleep(PAUSE_S)

    async def _list(self) -> None:
        sent = {name for name, pod in self._ledger.pods.items() if pod.uid}
        listed = _list_decoder.decode(await self._client.get(PODS_PATH, timeout_s=120.0))
        self.list_count += 1
        now_s = self._clock.monotonic_s()
        for pod in listed.items:
            self._see(pod, now_s)
        for name in sent - {pod.metadata.name for pod in listed.items}:
            self._ledger.gone(name)
        self._version = listed.metadata.resourceVersion

    async def _follow(self, stream: HttpStream) -> None:
        rest = b""
        while True:
            chunks = await stream.chunks()
            if not chunks:
                return
            *lines, rest = b"".join((rest, *chunks)).split(b"\n")
            now_s = self._clock.monotonic_s()
            for line in lines:
                if line and not self._take(_event_decoder.decode(line), now_s):
                    return

    def _take(self, event: _Event, now_s: float) -> bool:
        """Whether the watch goes on."""
        match event.type:
            case "ADDED" | "MODIFIED":
                self._see(event.object, now_s)
            case "DELETED":
                self._ledger.gone(event.object.metadata.name)
            case "ERROR":
                self._version = ""
                return False
            case _:
                pass  # BOOKMARK: only its version counts.
        self._version = event.object.metadata.resourceVersion or self._version
        return True

    def _see(self, pod: _Pod, now_s: float) -> None:
        name, node = pod.metadata.name, pod.spec.nodeName
        is_finished = not isinstance(pod.status, str) and pod.status.phase in _FINISHED
        if self._ledger.saw(name, pod.metadata.uid, node, now_s, is_finished=is_finished):
            self._on_bound(name, node)
