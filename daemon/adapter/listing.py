"""A cluster as it is at one moment: everything that an adapter would tell, once, from an API server."""

import asyncio
from collections.abc import Sequence
from typing import Final

from daemon.adapter.api_source import ApiSource
from shared.errors import OperationalError
from shared.kube.cluster_access import ClusterAccess
from shared.kube.resources import ResourceKind
from shared.messages.to_owner import AdapterMeasured, AdapterMessage, KindUnavailable, SyncFinished

LIST_TIMEOUT_S: Final = 600.0
"""For all kinds together; a million nodes take some minutes."""


class _Listed:
    """A sink that keeps what it is told until every kind was listed."""

    def __init__(self, kinds: Sequence[ResourceKind]) -> None:
        self.messages: list[AdapterMessage] = []
        self.is_whole = asyncio.Event()
        self.awaited = {kind.plural for kind in kinds}

    def put(self, message: AdapterMessage, size_bytes: int) -> None:  # noqa: ARG002  # Nothing is sent.
        if isinstance(message, AdapterMeasured) or self.is_whole.is_set():
            return
        self.messages.append(message)
        if isinstance(message, SyncFinished | KindUnavailable):
            self.awaited.discard(message.kind)
            if not self.awaited:
                self.is_whole.set()

    async def room(self) -> None:
        """There is always room: the cluster is wanted whole."""


def list_cluster(access: ClusterAccess, kinds: Sequence[ResourceKind]) -> list[AdapterMessage]:
    """All objects that decisions depend on; OperationalError if they cannot be had."""
    return asyncio.run(_list(access, kinds))


async def _list(access: ClusterAccess, kinds: Sequence[ResourceKind]) -> list[AdapterMessage]:
    sink = _Listed(kinds)
    source = ApiSource(access, seed=0, kinds=kinds)
    run = asyncio.ensure_future(source.run(sink))
    whole = asyncio.ensure_future(sink.is_whole.wait())
    await asyncio.wait({run, whole}, timeout=LIST_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
    for task in (run, whole):
        task.cancel()
    await asyncio.wait({run, whole})
    if not sink.is_whole.is_set():
        why = "" if run.cancelled() else f": {run.exception()}"
        awaited = ", ".join(sorted(sink.awaited))
        raise OperationalError(f"{access.url}: could not list {awaited}{why}")
    return sink.messages
