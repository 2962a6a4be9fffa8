"""Answers to those who look in from outside: status, queue, nodes, cache, metrics; all of it as text for
people (kube-scheduler's SIGUSR2 dump). Changes nothing."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from daemon.core.cache import Cache
from daemon.core.cached_nodes import NodeInfo
from daemon.core.holdings import ClusterFacts, OutgoingWork
from daemon.core.invariants import problems
from daemon.core.overview_pages import competition, node_loads, pending_groups, pod_resources_page
from daemon.core.queue.queued_pod import Place, QueuedPod
from daemon.core.queue.scheduling_queue import SchedulingQueue
from shared.messages.admin import (
    AdminAnswer,
    CacheAnswer,
    CacheRequest,
    CompareRequest,
    DumpRequest,
    HeldNode,
    HeldPod,
    MetricsAnswer,
    MetricsRequest,
    NodeLoadsRequest,
    PastFailure,
    PendingGroupsRequest,
    PendingPod,
    PodAnswer,
    PodRequest,
    PodResourcesRequest,
    Question,
    QueueAnswer,
    QueueFacts,
    QueueRequest,
    StatusAnswer,
    StatusRequest,
    TextAnswer,
)
from shared.telemetry.metrics import LabelledCount

FOREIGN_NODES_MAX: Final = 10
"""Nodes with the most foreign pods that are told: one line, and few series."""


def answer_of(
    facts: ClusterFacts, outgoing: OutgoingWork, question: Question, now_s: float
) -> AdminAnswer:
    """The answer to any question that is none to stop."""
    cache, queue = facts.cache, facts.queue
    match question:
        case StatusRequest():
            return status_of(facts, outgoing)
        case DumpRequest():
            return TextAnswer(dump_lines(cache, queue))
        case CompareRequest():
            return TextAnswer(problems(cache, queue) or ["no contradictions"])
        case QueueRequest():
            pods = [_pending_pod(facts, pod) for pod in by_place(queue)]
            in_flight_count = outgoing.binders.in_flight_count()
            return QueueAnswer(pods, in_flight_count, outgoing.counters.plain())
        case PodRequest(key):
            found = (queue_facts(facts, pod, now_s) for pod in queue if pod.key == key)
            return PodAnswer(next(found, None))
        case CacheRequest():
            return cache_answer(facts)
        case NodeLoadsRequest(start):
            return node_loads(cache, start)
        case PendingGroupsRequest(start):
            return pending_groups(facts, outgoing, start, now_s)
        case PodResourcesRequest(start):
            return pod_resources_page(cache, queue, start)
        case MetricsRequest():
            return metrics_answer(facts, outgoing)


def queue_facts(facts: ClusterFacts, pod: QueuedPod, now_s: float) -> QueueFacts:
    """All that is known of a pod that waits."""
    held, waiting = facts.cache.get_pod(pod.uid), facts.waiting.waiting_pod(pod.uid)
    since_s = pod.timestamp_s if waiting is None else waiting.since_s
    leftover_s = pod.timestamp_s + facts.settings.queue.leftover_after_s
    next_try_s = {Place.BACKOFF: pod.backoff_until_s, Place.UNSCHEDULABLE: leftover_s}
    due_s = None if pod.gated_by else next_try_s.get(pod.place)
    reason, competitor_count, ahead_count = competition(facts.queue, pod)
    return QueueFacts(
        place=pod.place.value,
        attempts=pod.attempts,
        rejected_by=sorted(pod.rejected_by),
        gated_by=pod.gated_by,
        nominated_node=facts.queue.nominator.node_of(pod.uid) or "",
        awaited_victim_count=len(facts.nominations.awaited_victims(pod.uid)),
        pending_for_s=round(now_s - pod.added_s, 1),
        here_for_s=round(now_s - since_s, 1),
        next_try_in_s=None if due_s is None else round(max(0.0, due_s - now_s), 1),
        woken_by=facts.queue.events_that_wake(pod),
        assumed_node="" if held is None else held.node_name,
        waits_for=[] if waiting is None else list(waiting.pending_plugins),
        past=[PastFailure(round(now_s - at_s, 1), message) for at_s, message in reversed(pod.past)],
        reason=reason,
        competitor_count=competitor_count,
        ahead_count=ahead_count,
    )


def status_of(facts: ClusterFacts, outgoing: OutgoingWork) -> StatusAnswer:
    """What `berth status` shows."""
    cache, counters = facts.cache, outgoing.counters
    return StatusAnswer(
        epoch=outgoing.epoch,
        generation=cache.generation,
        synced=facts.syncs.is_synced,
        node_count=cache.node_count(),
        pod_count=cache.pod_count(),
        assumed_pod_count=len(cache.assumed_pods()),
        queue=facts.queue.pending_lengths(),
        scorers_ready=len(outgoing.scorers.ready()),
        binders_ready=outgoing.binders.ready_count(),
        binds_in_flight=outgoing.binders.in_flight_count(),
        counters=counters.plain(),
        is_standby=facts.is_standby,
        foreign_pods_by_node=dict(counters.foreign_by_node.most_common(FOREIGN_NODES_MAX)),
        awaited_kinds=facts.syncs.awaited_kinds,
        adapter_told_s=facts.syncs.adapter_told_s,
        api_heard_s=facts.syncs.api_heard_s,
        unavailable_kinds=facts.syncs.unavailable,
        last_error=counters.last_error,
        scorer_lags={each.index: each.lag for each in outgoing.scorers.ready()},
    )


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
            phase = "assumed" if cache.is_assumed_pod(pod.record.uid) else "added"
            yield f"  pod {pod.record.key} uid {pod.record.uid} phase {phase}"


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


def _pending_pod(facts: ClusterFacts, pod: QueuedPod) -> PendingPod:
    return PendingPod(
        key=pod.key,
        uid=pod.uid,
        place=pod.place.value,
        attempts=pod.attempts,
        unschedulable_plugins=sorted(pod.unschedulable_plugins),
        pending_plugins=sorted(pod.pending_plugins),
        gated_by=pod.gated_by,
        nominated_node=facts.queue.nominator.node_of(pod.uid) or "",
        awaited_victims=facts.nominations.awaited_victims(pod.uid),
    )


def cache_answer(facts: ClusterFacts) -> CacheAnswer:
    """Who is where, by uid. A pod in flight may be assumed: it is told once, on its node."""
    cache = facts.cache
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
        for pod in facts.queue
        if cache.get_pod(pod.record.uid) is None
    ]
    return CacheAnswer(nodes, pending, sorted(facts.frameworks))


def metrics_answer(facts: ClusterFacts, outgoing: OutgoingWork) -> MetricsAnswer:
    """All that is counted. Costs a walk over the queue, so it is made when it is asked for only."""
    queue, counters = facts.queue, outgoing.counters
    rejected: Counter[tuple[str, str]] = Counter()
    for pod in queue:
        rejected.update((plugin, pod.pod_class.profile) for plugin in pod.rejected_by)
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
    return MetricsAnswer(status_of(facts, outgoing), measured)
