"""Follows all pods at the API server, for the ledger.

It is subject to the same faults as the scheduler when there is a fault plan: a watch that breaks is
opened anew where it was, and one whose place is forgotten (410) begins again with a list.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from bench.soak.ledger import Ledger
from bench.watched.pod_events import PodEvent, PodList, PodStatus, WatchedPod
from bench.watched.pod_watch import PodWatch, WatchBrokenError
from bench.watched.watched_listing import PODS_PATH
from shared.clock import Clock
from shared.kube.api_errors import ApiError, Expired, TransportError
from shared.kube.http_stream import StreamClient

PAUSE_S: Final = 0.1
"""Before a broken watch is opened again."""
_FINISHED: Final = ("Succeeded", "Failed")
_list_decoder: Final = msgspec.json.Decoder(PodList)


class Witness:
    """Keeps the ledger up to date."""

    def __init__(
        self,
        client: StreamClient,
        ledger: Ledger,
        on_bound: Callable[[str, str], None],
        clock: Clock,
    ) -> None:
        """`on_bound` gets the pod's name and its node's."""
        self._client = client
        self._ledger = ledger
        self._on_bound = on_bound
        self._clock = clock
        self._watch = PodWatch(client, clock, self._take)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                if not self._watch.version:
                    await self._list()
                await self._watch.follow()
            except (Expired, WatchBrokenError):
                self._watch.version = ""
            except (ApiError, TransportError, msgspec.DecodeError):
                await asyncio.sleep(PAUSE_S)

    async def _list(self) -> None:
        sent = {name for name, pod in self._ledger.pods.items() if pod.uid}
        listed = _list_decoder.decode(await self._client.get(PODS_PATH, timeout_s=120.0))
        now_s = self._clock.monotonic_s()
        for pod in listed.items:
            self._see(pod, now_s)
        for name in sent - {pod.metadata.name for pod in listed.items}:
            self._ledger.gone(name)
        self._watch.version = listed.metadata.resource_version

    def _take(self, event: PodEvent, now_s: float) -> None:
        if event.type == "DELETED":
            self._ledger.gone(event.object.metadata.name)
        else:
            self._see(event.object, now_s)

    def _see(self, pod: WatchedPod, now_s: float) -> None:
        name, node = pod.metadata.name, pod.spec.node_name
        is_finished = isinstance(pod.status, PodStatus) and pod.status.phase in _FINISHED
        if self._ledger.saw(name, pod.metadata.uid, node, now_s, is_finished=is_finished):
            self._on_bound(name, node)
