"""The cluster as an API server tells it: one `KindWatch` for each kind, side by side."""

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from daemon.adapter.event_source import MessageSink
from daemon.adapter.kind_watch import InputRecorder, KindWatch, WatchSettings
from shared.kube.api_client import ApiClient
from shared.kube.cluster_access import ClusterAccess
from shared.kube.resources import ALL_KINDS, ResourceKind

LIST_CONNECTIONS_MAX: Final = 8
"""Lists under way at once. Watches have connections of their own."""


class ApiSource:
    """Watches an API server. Each run has its own connections."""

    def __init__(
        self,
        access: ClusterAccess,
        *,
        seed: int,
        settings: WatchSettings | None = None,
        kinds: Sequence[ResourceKind] = ALL_KINDS,
        recorder: InputRecorder | None = None,
    ) -> None:
        self._access = access
        self._seed = seed
        self._settings = settings or WatchSettings()
        self._kinds = kinds
        self._recorder = recorder

    async def run(self, sink: MessageSink) -> None:
        client = ApiClient(self._access, connections_max=LIST_CONNECTIONS_MAX)
        try:
            async with asyncio.TaskGroup() as tasks:
                for kind in self._kinds:
                    # Each kind has a generator of its own: its delays do not depend on the others.
                    rng = random.Random(f"{self._seed}/{kind.plural}")  # noqa: S311  # Jitter, no secret.
                    watch = KindWatch(
                        kind, client, sink, rng, self._settings, recorder=self._recorder
                    )
                    tasks.create_task(watch.run(), name=f"watch {kind.plural}")
        finally:
            await client.close()
