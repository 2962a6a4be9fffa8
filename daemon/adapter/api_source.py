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
from shared.messages.measured import told
from shared.messages.to_owner import AdapterMeasured
from shared.telemetry.tally import Tally, request_observer

LIST_CONNECTIONS_MAX: Final = 8
"""Lists under way at once. Watches have connections of their own."""

MEASURED_PERIOD_S: Final = 5.0
MEASURED_BYTES: Final = 512
"""About what it takes in a batch."""


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
        tally = Tally()
        client = ApiClient(
            self._access,
            connections_max=LIST_CONNECTIONS_MAX,
            observer=request_observer(tally, self._access.host_header),
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_tell(tally, sink), name="measured")
                for kind in self._kinds:
                    # Each kind has a generator of its own: its delays do not depend on the others.
                    rng = random.Random(f"{self._seed}/{kind.plural}")  # noqa: S311  # Jitter, no secret.
                    watch = KindWatch(
                        kind, client, sink, rng, self._settings, recorder=self._recorder
                    )
                    tasks.create_task(watch.run(), name=f"watch {kind.plural}")
        finally:
            await client.close()


async def _tell(tally: Tally, sink: MessageSink) -> None:
    """What was counted since the last time, for the owner's metrics."""
    while True:
        await asyncio.sleep(MEASURED_PERIOD_S)
        if tally.counts:
            sink.put(AdapterMeasured(told(tally)), MEASURED_BYTES)
            tally.clear()
