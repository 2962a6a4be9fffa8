"""Answers to those who look in from outside: status, queue, nodes, cache, metrics. Changes nothing."""

from daemon.core.dump import (
    FOREIGN_NODES_MAX,
    by_place,
    cache_answer,
    dump_lines,
    metrics_answer,
    pending_pod,
)
from daemon.core.holdings import ClusterFacts, OutgoingWork
from daemon.core.invariants import problems
from daemon.core.overview_pages import competition, node_loads, pending_groups, pod_resources_page
from daemon.core.queue.queued_pod import Place, QueuedPod
from shared.messages.admin import (
    AdminAnswer,
    CacheRequest,
    CompareRequest,
    DumpRequest,
    MetricsRequest,
    NodeLoadsRequest,
    PastFailure,
    PendingGroupsRequest,
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


def answer_of(
    facts: ClusterFacts,
    outgoing: OutgoingWork,
    question: Question,
    now_s: float,
    *,
    is_standby: bool,
) -> AdminAnswer:
    """The answer to any question that is none to stop."""
    cache, queue = facts.cache, facts.queue
    match question:
        case StatusRequest():
            return status_of(facts, outgoing, is_standby=is_standby)
        case DumpRequest():
            return TextAnswer(dump_lines(cache, queue))
        case CompareRequest():
            return TextAnswer(problems(cache, queue) or ["no contradictions"])
        case QueueRequest():
            pods = [pending_pod(pod, queue, facts.nominations) for pod in by_place(queue)]
            in_flight_count = outgoing.binders.in_flight_count()
            return QueueAnswer(pods, in_flight_count, outgoing.counters.plain())
        case PodRequest(key):
            found = (queue_facts(facts, pod, now_s) for pod in queue if pod.key == key)
            return PodAnswer(next(found, None))
        case CacheRequest():
            return cache_answer(cache, queue, facts.settings.profiles)
        case NodeLoadsRequest(start):
            return node_loads(cache, start)
        case PendingGroupsRequest(start):
            return pending_groups(facts, outgoing.counters, start, now_s)
        case PodResourcesRequest(start):
            return pod_resources_page(cache, queue, start)
        case MetricsRequest():
            status = status_of(facts, outgoing, is_standby=is_standby)
            return metrics_answer(status, outgoing.counters, queue)


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
        rejected_by=sorted(pod.unschedulable_plugins | pod.pending_plugins),
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


def status_of(facts: ClusterFacts, outgoing: OutgoingWork, *, is_standby: bool) -> StatusAnswer:
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
        is_standby=is_standby,
        foreign_pods_by_node=dict(counters.foreign_by_node.most_common(FOREIGN_NODES_MAX)),
        awaited_kinds=facts.syncs.awaited_kinds,
        adapter_told_s=facts.syncs.adapter_told_s,
        api_heard_s=facts.syncs.api_heard_s,
        unavailable_kinds=facts.syncs.unavailable,
        last_error=counters.last_error,
        scorer_lags={each.index: each.lag for each in outgoing.scorers.ready()},
    )
