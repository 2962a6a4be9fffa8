"""Cache and queue as text for people (kube-scheduler's SIGUSR2 dump), and typed for programs."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from daemon.core.cache import Cache
from daemon.core.cached_nodes import NodeInfo
from daemon.core.counters import Counters
from daemon.core.nominations import NominationBook
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.queue.scheduling_queue import SchedulingQueue
from shared.columns.schema import CPU, EPHEMERAL_STORAGE, MEMORY, Int64s
from shared.columns.table import NodeTable
from shared.messages.admin import (
    Amounts,
    CacheAnswer,
    HeldNode,
    HeldPod,
    MetricsAnswer,
    NodeUsage,
    PendingPod,
    StatusAnswer,
)
from shared.messages.measured import LabelledCount

FOREIGN_NODES_MAX: Final = 10
"""Nodes with the most foreign pods that are told: one line, and few series."""

_NAMED: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


def dump_lines(cache: Cache, queue: SchedulingQueue) -> list[str]:
    """Nodes in order of name, then the queue by place."""
    lines = [f"nodes: {cache.node_count()}, pods: {cache.pod_count()}"]
    for info in sorted(cache.node_infos(), key=lambda i: i.name):
        lines.append(_node_line(cache, info))
        lines.extend(
            f"  pod {pod.record.key} uid {pod.record.uid} phase {pod.phase.value}"
            for pod in info.pods.values()
        )
    lines.append(f"queue: {len(queue)} pods")
    for pod in by_place(queue):
        rejected = ",".join(sorted(pod.unschedulable_plugins))
        lines.append(
            f"  {pod.place.value} {pod.key} uid {pod.uid} priority {pod.priority}"
            f" attempts {pod.attempts} rejected by [{rejected}] gated by [{pod.gated_by}]"
        )
    return lines


def _node_line(cache: Cache, info: NodeInfo) -> str:
    table, row = cache.nodes, info.row
    ghost = "" if info.node is not None else " (ghost)"
    amounts = " ".join(
        f"{name} {table.requested[i, row]}/{table.allocatable[i, row]}"
        for i, name in enumerate(table.resources.values)
        if table.requested[i, row] or table.allocatable[i, row]
    )
    pods = f"pods {table.pod_count[row]}/{table.allowed_pod_count[row]}"
    return f"node {info.name}{ghost} generation {table.generation[row]} {pods} {amounts}"


def by_place(queue: SchedulingQueue) -> list[QueuedPod]:
    """Every pod of the queue, by place and key."""
    return sorted(queue, key=lambda pod: (pod.place.value, pod.key, pod.uid))


def pending_pods(queue: SchedulingQueue, nominations: NominationBook) -> list[PendingPod]:
    """Every pod of the queue, by place and key."""
    return [pending_pod(pod, queue, nominations) for pod in by_place(queue)]


def pending_pod(pod: QueuedPod, queue: SchedulingQueue, nominations: NominationBook) -> PendingPod:
    """One pod of the queue."""
    return PendingPod(
        key=pod.key,
        uid=pod.uid,
        place=pod.place.value,
        attempts=pod.attempts,
        unschedulable_plugins=sorted(pod.unschedulable_plugins),
        pending_plugins=sorted(pod.pending_plugins),
        gated_by=pod.gated_by,
        nominated_node=queue.nominator.node_of(pod.uid) or "",
        awaited_victims=nominations.awaited_victims(pod.uid),
    )


def node_usages(cache: Cache) -> list[NodeUsage]:
    """What is on each node that the API server shows, in order of name."""
    shown = (info for info in cache.node_infos() if info.node is not None)
    return [_node_usage(cache, info) for info in sorted(shown, key=lambda i: i.name)]


def _node_usage(cache: Cache, info: NodeInfo) -> NodeUsage:
    table, row = cache.nodes, info.row
    return NodeUsage(
        name=info.name,
        requested=_amounts(table, table.requested[:, row], cache.asked_in_vain(info)),
        allocatable=_amounts(table, table.allocatable[:, row], {}),
        nonzero_cpu_milli=table.nonzero_cpu_milli.item(row),
        nonzero_memory_bytes=table.nonzero_memory_bytes.item(row),
        pod_count=table.pod_count.item(row),
        allowed_pod_count=table.allowed_pod_count.item(row),
        pods=sorted(pod.record.key for pod in info.pods.values()),
        ports=sorted(table.ports.values[table.ports_id.item(row)]),
        claim_pod_counts=dict(info.pvc_refs),
    )


def cache_answer(cache: Cache, queue: SchedulingQueue, profiles: Iterable[str]) -> CacheAnswer:
    """Who is where, by uid. A pod in flight may be assumed: it is told once, on its node."""
    nodes = [
        HeldNode(
            info.name,
            info.node is None,
            [
                HeldPod(uid, pod.record.key, cache.is_assumed_pod(uid))
                for uid, pod in info.pods.items()
            ],
        )
        for info in cache.node_infos()
    ]
    pending = [
        HeldPod(pod.record.uid, pod.record.key, is_assumed=False)
        for pod in queue
        if cache.get_pod(pod.record.uid) is None
    ]
    return CacheAnswer(nodes, pending, sorted(profiles))


def metrics_answer(
    status: StatusAnswer,
    counters: Counters,
    queue: SchedulingQueue,
) -> MetricsAnswer:
    """All that is counted. Costs a walk over the queue, so it is made when it is asked for only."""
    rejected: Counter[tuple[str, str]] = Counter()
    for pod in queue:
        if pod.unschedulable_plugins:
            profile = pod.pod_class.profile
            rejected.update((plugin, profile) for plugin in pod.unschedulable_plugins)
    incoming = [
        LabelledCount("queue_incoming", list(labels), count)
        for labels, count in queue.incoming.items()
    ]
    in_flight = [
        LabelledCount("inflight_events", [label], count)
        for label, count in queue.events_in_flight().items()
    ]
    return MetricsAnswer(
        status=status,
        labelled=[*counters.labelled(), *incoming, *in_flight],
        histograms=counters.histograms(),
        unschedulable=[
            LabelledCount("unschedulable_pods", list(labels), count)
            for labels, count in sorted(rejected.items())
        ],
    )


def _amounts(table: NodeTable, column: Int64s, more: dict[str, int]) -> Amounts:
    amounts = column.tolist()
    names = table.resources.values
    scalars = {
        name: amount
        for i, (name, amount) in enumerate(zip(names, amounts, strict=False))
        if amount and i not in _NAMED
    }
    return Amounts(amounts[CPU], amounts[MEMORY], amounts[EPHEMERAL_STORAGE], {**scalars, **more})
