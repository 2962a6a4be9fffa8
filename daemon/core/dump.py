"""Cache and queue as text for people (kube-scheduler's SIGUSR2 dump), and typed for programs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from daemon.core.cache import Cache
from daemon.core.cached_nodes import NodeInfo
from daemon.core.counters import Counters
from daemon.core.nominations import NominationBook
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.queue.scheduling_queue import SchedulingQueue
from shared.messages.admin import (
    CacheAnswer,
    HeldNode,
    HeldPod,
    MetricsAnswer,
    PendingPod,
    StatusAnswer,
)
from shared.messages.measured import LabelledCount

FOREIGN_NODES_MAX: Final = 10
"""Nodes with the most foreign pods that are told: one line, and few series."""


def dump_lines(cache: Cache, queue: SchedulingQueue) -> list[str]:
    """Nodes in order of name, then the queue by place."""
    lines = [f"nodes: {cache.node_count()}, pods: {cache.pod_count()}"]
    lines.extend(node_lines(cache))
    lines.append(f"queue: {len(queue)} pods")
    for pod in by_place(queue):
        rejected = ",".join(sorted(pod.unschedulable_plugins))
        lines.append(
            f"  {pod.place.value} {pod.key} uid {pod.uid} priority {pod.priority}"
            f" attempts {pod.attempts} rejected by [{rejected}] gated by [{pod.gated_by}]"
        )
    return lines


def node_lines(cache: Cache) -> Iterator[str]:
    """Each node, in order of name, and below it what is on it."""
    table = cache.nodes
    for info in sorted(cache.node_infos(), key=lambda i: i.name):
        row = info.row
        yield _node_line(cache, info)
        counted = table.nonzero_cpu_milli[row], table.nonzero_memory_bytes[row]
        yield "  counted in scores as cpu {} memory {}".format(*counted)
        for ip, protocol, port in sorted(table.ports.values[table.ports_id.item(row)]):
            yield f"  port {ip} {protocol} {port}"
        for key, count in info.pvc_refs.items():
            yield f"  claim {key} pods {count}"
        for pod in info.pods.values():
            yield f"  pod {pod.record.key} uid {pod.record.uid} phase {pod.phase.value}"


def _node_line(cache: Cache, info: NodeInfo) -> str:
    """Amounts are asked for / allocatable."""
    table, row = cache.nodes, info.row
    ghost = "" if info.node is not None else " (ghost)"
    amounts = [
        f"{name} {table.requested[i, row]}/{table.allocatable[i, row]}"
        for i, name in enumerate(table.resources.values)
        if table.requested[i, row] or table.allocatable[i, row]
    ]
    amounts += [f"{name} {amount}/0" for name, amount in cache.asked_in_vain(info).items()]
    pods = f"pods {table.pod_count[row]}/{table.allowed_pod_count[row]}"
    return f"node {info.name}{ghost} generation {table.generation[row]} {pods} {' '.join(amounts)}"


def by_place(queue: SchedulingQueue) -> list[QueuedPod]:
    """Every pod of the queue, by place and key."""
    return sorted(queue, key=lambda pod: (pod.place.value, pod.key, pod.uid))


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
        # A plugin that said Pending counts as well (AddUnschedulableIfNotPresent, v1.36.2).
        profile = pod.pod_class.profile
        plugins = pod.unschedulable_plugins | pod.pending_plugins
        rejected.update((plugin, profile) for plugin in plugins)
    in_flight = {(label,): count for label, count in queue.events_in_flight().items()}
    of_queue: dict[str, Mapping[Any, int]] = {
        "queue_incoming": queue.incoming,
        "inflight_events": in_flight,
        "unschedulable_pods": dict(sorted(rejected.items())),
    }
    measured = counters.measured()
    measured.counts.extend(
        LabelledCount(name, list(labels), count)
        for name, counts in of_queue.items()
        for labels, count in counts.items()
    )
    return MetricsAnswer(status, measured)
