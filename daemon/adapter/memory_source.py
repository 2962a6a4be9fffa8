"""A cluster in memory that tells what is done to it; for tests and simulations in one process."""

import asyncio
import copy

from daemon.adapter.event_source import MessageSink
from daemon.adapter.kind_feed import changed, deleted
from shared.kube.objects import ApiObject
from shared.kube.resources import ALL_KINDS, KINDS_BY_PLURAL, ResourceKind
from shared.messages.to_owner import SyncFinished, SyncStarted

_SIZE_BYTES = 512


class MemorySource:
    """Holds objects by kind and name; changes are told to the run that is under way, if any."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[tuple[str, str], ApiObject]] = {
            kind.plural: {} for kind in ALL_KINDS
        }
        self._version = 0
        self._sink: MessageSink | None = None

    def put(self, plural: str, item: ApiObject) -> None:
        """Add or replace an object."""
        kind = self._touch(plural)
        self._objects[plural][_identity(item)] = item
        if self._sink is not None:
            self._sink.put(changed(kind, _copy(item)), _SIZE_BYTES)

    def remove(self, plural: str, item: ApiObject) -> None:
        """Delete an object; it must be there."""
        kind = self._touch(plural)
        removed = self._objects[plural].pop(_identity(item))
        if self._sink is not None:
            self._sink.put(deleted(kind, _copy(removed)), _SIZE_BYTES)

    async def run(self, sink: MessageSink) -> None:
        """Tell all that is there, then every change, until cancelled."""
        for kind in ALL_KINDS:
            sink.put(SyncStarted(kind.plural), _SIZE_BYTES)
            for item in self._objects[kind.plural].values():
                sink.put(changed(kind, _copy(item)), _SIZE_BYTES)
            sink.put(SyncFinished(kind.plural, str(self._version)), _SIZE_BYTES)
        self._sink = sink
        try:
            await asyncio.Event().wait()
        finally:
            self._sink = None

    def _touch(self, plural: str) -> ResourceKind:
        self._version += 1
        return KINDS_BY_PLURAL[plural]


def _identity(item: ApiObject) -> tuple[str, str]:
    return item.metadata.namespace, item.metadata.name


def _copy(item: ApiObject) -> ApiObject:
    # Splitting a pod takes it apart; what is held here must stay whole.
    return copy.deepcopy(item)
