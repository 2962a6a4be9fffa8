"""The cluster as an API server tells it: one `KindWatch` for each kind, side by side; for as long as it
is watched, or at one moment."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from daemon.adapter.kind_feed import KindFeed
from daemon.adapter.kind_watch import KindWatch, UnavailableKinds, WatchSettings
from daemon.adapter.outbox import MessageSink
from daemon.adapter.recording import Recorder
from shared.errors import OperationalError
from shared.feature_gates import parse_feature_gates
from shared.in_hand import InHand
from shared.kube.cluster_access import ClusterAccess
from shared.kube.connection_problems import ConnectionProblems
from shared.kube.foreign_groups import kinds_with
from shared.kube.http_stream import StreamClient
from shared.kube.resources import ResourceKind, custom_kind
from shared.limits import LIST_BYTES_MAX
from shared.messages.to_owner import AdapterMeasured, AdapterMessage, KindUnavailable, SyncFinished
from shared.runtime_options import RuntimeOptions
from shared.telemetry.metrics import Tally, measured_by, request_observer
from shared.transport.heartbeat import until_beat_s

LIST_CONNECTIONS_MAX: Final = 8
"""Lists under way at once. Watches have connections of their own."""

MEASURED_BYTES: Final = 1024
"""About what it takes in a batch."""


def watched_kinds(options: RuntimeOptions) -> list[ResourceKind]:
    """In the order in which they are started: without what gates leave out, with what plugins add."""
    gates = parse_feature_gates(options.feature_gates)
    kinds = kinds_with(options.pod_groups)
    known = [kind for kind in kinds if not kind.feature_gate or gates[kind.feature_gate]]
    return known + [custom_kind(name) for name in options.custom_kinds]


@dataclass
class ApiSource:
    """Watches an API server. Each run has its own connections."""

    access: ClusterAccess
    seed: int
    kinds: Sequence[ResourceKind]
    settings: WatchSettings = WatchSettings(use_watch_list=True)  # noqa: RUF009  # Frozen.
    recorder: Recorder | None = None
    problems: ConnectionProblems | None = None
    in_hand: InHand | None = None
    _feeds: dict[ResourceKind, KindFeed] = field(default_factory=dict)
    """Of the run before."""

    async def run(self, sink: MessageSink) -> None:
        tally = Tally()
        client = StreamClient(
            self.access,
            connections_max=LIST_CONNECTIONS_MAX,
            body_bytes_max=LIST_BYTES_MAX,
            observer=request_observer(tally, self.access.host_header),
            problems=self.problems,
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                watches = []
                unavailable = UnavailableKinds()
                for kind in self.kinds:
                    # Each kind has a generator of its own: its delays do not depend on the others.
                    rng = random.Random(f"{self.seed}/{kind.plural}")  # noqa: S311  # Jitter, no secret.
                    feed = self._feeds.setdefault(kind, KindFeed(kind, sink.put, self.in_hand))
                    feed.tell_to(sink.put)
                    watch = KindWatch(
                        kind, feed, client, sink, rng, self.settings, self.recorder, unavailable
                    )
                    watches.append(watch)
                    tasks.create_task(watch.run(), name=f"watch {kind.plural}")
                tasks.create_task(_tell(tally, watches, sink), name="measured")
        finally:
            await client.close()


async def _tell(tally: Tally, watches: Sequence[KindWatch], sink: MessageSink) -> None:
    """What was counted since the last time, and when the API server was heard."""
    loop = asyncio.get_running_loop()
    while True:
        heard_s = {watch.plural: watch.heard_s for watch in watches if watch.heard_s}
        sink.put(AdapterMeasured(measured_by(tally), loop.time(), heard_s), MEASURED_BYTES)
        tally.clear()
        await asyncio.sleep(until_beat_s(loop.time()))


# At one moment -------------------------------------------------------------------------------------

LIST_TIMEOUT_S: Final = 600.0
"""For all kinds together; a million nodes take some minutes."""


class _Listed:
    """A sink that keeps what it is told until every kind was listed. There is always room: the cluster
    is wanted whole."""

    is_full = False

    def __init__(self, kinds: Sequence[ResourceKind]) -> None:
        self.messages: list[AdapterMessage] = []
        self.whole = asyncio.get_running_loop().create_future()
        self.awaited = {kind.plural for kind in kinds}

    def put(self, message: AdapterMessage, size_bytes: int) -> None:  # noqa: ARG002  # Nothing is sent.
        if isinstance(message, AdapterMeasured) or self.whole.done():
            return
        self.messages.append(message)
        if isinstance(message, SyncFinished | KindUnavailable):
            self.awaited.discard(message.kind)
            if not self.awaited:
                self.whole.set_result(None)

    async def room(self) -> None:
        pass


def list_cluster(access: ClusterAccess, kinds: Sequence[ResourceKind]) -> list[AdapterMessage]:
    """All objects that decisions depend on; OperationalError if they cannot be had."""
    return asyncio.run(_list(access, kinds))


async def _list(access: ClusterAccess, kinds: Sequence[ResourceKind]) -> list[AdapterMessage]:
    sink = _Listed(kinds)
    source = ApiSource(access, seed=0, kinds=kinds)
    run = asyncio.ensure_future(source.run(sink))
    ends = (run, sink.whole)
    await asyncio.wait(ends, timeout=LIST_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
    run.cancel()
    await asyncio.wait((run,))
    if not sink.whole.done():
        why = "" if run.cancelled() else f": {run.exception()}"
        awaited = ", ".join(sorted(sink.awaited))
        raise OperationalError(f"{access.url}: could not list {awaited}{why}")
    return sink.messages
