"""Answers to those who look in from outside: status, queue, nodes, cache, metrics; all of it as text for
people (kube-scheduler's SIGUSR2 dump). Changes nothing."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from daemon.core.cache import Cache
from daemon.core.cached_nodes import NodeInfo
from daemon.core.holdings import Holdings
from daemon.core.invariants import problems
from daemon.core.overview_pages import competition, node_loads, pending_groups, pod_resources_page
from daemon.core.queue.queued_pod import Place, QueuedPod
from daemon.core.queue.scheduling_queue import SchedulingQueue
from shared.messages import admin
from shared.telemetry.metrics import LabelledCount

FOREIGN_NODES_MAX: Final = 10
"""Nodes with the most foreign pods that are told: one line, and few series."""


def answer_of(owner: Holdings, question: admin.Question, now_s: float) -> admin.AdminAnswer:
    """The answer to any question that is none to stop."""
    cache, queue = owner.cache, owner.queue
    match question:
        case admin.StatusRequest():
            return status_of(owner)
        case admin.DumpRequest():
            return admin.TextAnswer(dump_lines(cache, queue))
        case admin.CompareRequest():
            return admin.TextAnswer(problems(cache, queue) or ["no contradictions"])
        case admin.QueueRequest():
            pods = [_pending_pod(owner, pod) for pod in by_place(queue)]
            return admin.QueueAnswer(pods, owner.binders.in_flight_count(), owner.counters.plain())
        case admin.PodRequest(key):
            found = (queue_facts(owner, pod, now_s) for pod in queue if pod.key == key)
            return admin.PodAnswer(next(found, None))
        case admin.CacheRequest():
            return cache_answer(owner)
        case admin.NodeLoadsRequest(start):
            return node_loads(cache, start)
        case admin.PendingGroupsRequest(start):
            return pending_groups(owner, start, now_s)
        case admin.PodResourcesRequest(start):
            return pod_resources_page(cache, queue, start)
        case admin.MetricsRequest():
            return metrics_answer(owner)


def queue_facts(owner: Holdings, pod: QueuedPod, now_s: float) -> admin.QueueFacts:
    """All that is known of a pod that waits."""
    held, waiting = owner.cache.get_pod(pod.uid), owner.waiting.waiting_pod(pod.uid)
    since_s = pod.timestamp_s if waiting is None else waiting.since_s
    leftover_s = pod.timestamp_s + owner.settings.options.pod_max_in_unschedulable_pods_s
    next_try_s = {Place.BACKOFF: pod.backoff_until_s, Place.UNSCHEDULABLE: leftover_s}
    due_s = None if pod.gated_by else next_try_s.get(pod.place)
    reason, competitor_count, ahead_count = competition(owner.queue, pod)
    return admin.QueueFacts(
        place=pod.place.value,
        attempts=pod.attempts,
        rejected_by=sorted(pod.rejected_by),
        gated_by=pod.gated_by,
        nominated_node=owner.queue.nominator.node_of(pod.uid) or "",
        awaited_victim_count=len(owner.nominations.awaited_victims(pod.uid)),
        pending_for_s=round(now_s - pod.added_s, 1),
        here_for_s=round(now_s - since_s, 1),
        next_try_in_s=None if due_s is None else round(max(0.0, due_s - now_s), 1),
        woken_by=owner.queue.wakeups.events_of(pod.rejected_by),
        assumed_node="" if held is None else held.node_name,
        waits_for=[] if waiting is None else list(waiting.pending_plugins),
        past=[
            admin.PastFailure(round(now_s - at_s, 1), message)
            for at_s, message in reversed(pod.past)
        ],
        reason=reason,
        competitor_count=competitor_count,
        ahead_count=ahead_count,
    )


def status_of(owner: Holdings) -> admin.StatusAnswer:
    """What `berth status` shows."""
    cache, counters = owner.cache, owner.counters
    return admin.StatusAnswer(
        epoch=owner.epoch,
        generation=cache.generation,
        synced=owner.syncs.is_synced,
        node_count=cache.node_count(),
        pod_count=cache.pod_count(),
        assumed_pod_count=len(cache.assumed_pods()),
        queue=owner.queue.pending_lengths(),
        scorers_ready=len(owner.scorers.ready()),
        binders_ready=owner.binders.ready_count(),
        binds_in_flight=owner.binders.in_flight_count(),
        counters=counters.plain(),
        is_standby=owner.is_standby,
        foreign_pods_by_node=dict(counters.foreign_by_node.most_common(FOREIGN_NODES_MAX)),
        awaited_kinds=sorted(owner.syncs.awaited),
        adapter_told_s=owner.syncs.adapter_told_s,
        api_heard_s=owner.syncs.api_heard_s,
        unavailable_kinds=owner.syncs.unavailable,
        last_error=counters.last_error,
        scorer_lags={each.index: each.lag for each in owner.scorers.ready()},
    )


def dump_lines(cache: Cache, queue: SchedulingQueue) -> list[str]:
    """Nodes in order of name, then the queue by place."""
    lines = [f"nodes: {cache.node_count()}, pods: {cache.pod_count()}"]
    queued = [
        f"  {pod.place.value} {pod.key} uid {pod.uid} priority {pod.priority} attempts {pod.attempts}"
        f" rejected by [{','.join(sorted(pod.unschedulable_plugins))}] gated by [{pod.gated_by}]"
        for pod in by_place(queue)
    ]
    return [*lines, *node_lines(cache), f"queue: {len(queue)} pods", *queued]


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


def _pending_pod(owner: Holdings, pod: QueuedPod) -> admin.PendingPod:
    return admin.PendingPod(
        key=pod.key,
        uid=pod.uid,
        place=pod.place.value,
        attempts=pod.attempts,
        unschedulable_plugins=sorted(pod.unschedulable_plugins),
        pending_plugins=sorted(pod.pending_plugins),
        gated_by=pod.gated_by,
        nominated_node=owner.queue.nominator.node_of(pod.uid) or "",
        awaited_victims=owner.nominations.awaited_victims(pod.uid),
    )


def cache_answer(owner: Holdings) -> admin.CacheAnswer:
    """Who is where, by uid. A pod in flight may be assumed: it is told once, on its node."""
    cache = owner.cache
    nodes = [
        admin.HeldNode(
            info.name,
            info.node is None,
            [
                admin.HeldPod(uid, pod.record.key, cache.is_assumed_pod(uid))
                for uid, pod in info.pods.items()
            ],
        )
        for info in cache.node_infos()
    ]
    pending = [
        admin.HeldPod(pod.record.uid, pod.record.key, is_assumed=False)
        for pod in owner.queue
        if cache.get_pod(pod.record.uid) is None
    ]
    return admin.CacheAnswer(nodes, pending, sorted(owner.frameworks))


def metrics_answer(owner: Holdings) -> admin.MetricsAnswer:
    """All that is counted. Costs a walk over the queue, so it is made when it is asked for only."""
    queue, counters = owner.queue, owner.counters
    rejected: Counter[tuple[str, str]] = Counter()
    for pod in queue:
        rejected.update((plugin, pod.pod_class.profile) for plugin in pod.rejected_by)
    in_flight = {(label,): count for label, count in queue.in_flight.events_by_label().items()}
    of_queue: dict[str, Mapping[Any, int]] = {
        "queue_incoming": queue.incoming,
        "inflight_events": in_flight,
        "unschedulable_pods": dict(sorted(rejected.items())),
    }
    measured = counters.measured()
    measured.counts.extend(
        LabelledCount(name, labels, count)
        for name, counts in of_queue.items()
        for labels, count in counts.items()
    )
    return admin.MetricsAnswer(status_of(owner), measured)
