"""Answers to those who look in from outside: status, queue, nodes, cache, metrics. Changes nothing."""

from daemon.core.dump import (
    FOREIGN_NODES_MAX,
    cache_answer,
    dump_lines,
    metrics_answer,
    node_usages,
    pending_pods,
)
from daemon.core.holdings import Holdings
from daemon.core.invariants import problems
from daemon.core.pod_resources_page import pod_resources_page
from shared.messages.admin import (
    AdminAnswer,
    CacheRequest,
    CompareRequest,
    DumpRequest,
    MetricsRequest,
    NodesAnswer,
    NodesRequest,
    PodResourcesRequest,
    QueueAnswer,
    QueueRequest,
    StatusAnswer,
    StatusRequest,
    TextAnswer,
)

Question = (
    StatusRequest
    | DumpRequest
    | CompareRequest
    | QueueRequest
    | NodesRequest
    | CacheRequest
    | MetricsRequest
    | PodResourcesRequest
)


def answer_of(holdings: Holdings, question: Question, *, is_standby: bool) -> AdminAnswer:
    """The answer to any question that is none to stop."""
    cache, queue = holdings.cache, holdings.queue
    match question:
        case StatusRequest():
            return status_of(holdings, is_standby=is_standby)
        case DumpRequest():
            return TextAnswer(dump_lines(cache, queue))
        case CompareRequest():
            return TextAnswer(problems(cache, queue) or ["no contradictions"])
        case QueueRequest():
            pods = pending_pods(queue, holdings.nominations)
            counters = dict(holdings.counters)
            return QueueAnswer(pods, holdings.binders.in_flight_count(), counters)
        case NodesRequest(profile):
            return _nodes(holdings, profile)
        case CacheRequest():
            return cache_answer(cache, queue, holdings.settings.profiles)
        case PodResourcesRequest(start):
            return pod_resources_page(cache, queue, start)
        case MetricsRequest():
            status = status_of(holdings, is_standby=is_standby)

            def profile_of(uid: str) -> str:
                return holdings.changes.class_of(uid).profile

            return metrics_answer(status, holdings.counters, queue, profile_of)


def _nodes(holdings: Holdings, profile: str) -> NodesAnswer:
    framework = holdings.frameworks.get(profile)
    scores = () if framework is None else framework.scores
    weights = {entry.plugin.NAME: entry.weight for entry in scores}
    return NodesAnswer(node_usages(holdings.cache), weights)


def status_of(holdings: Holdings, *, is_standby: bool) -> StatusAnswer:
    """What `berth status` shows."""
    cache, counters = holdings.cache, holdings.counters
    return StatusAnswer(
        epoch=holdings.epoch,
        generation=cache.generation,
        synced=holdings.changes.is_synced,
        node_count=cache.node_count(),
        pod_count=cache.pod_count(),
        assumed_pod_count=len(cache.assumed_pods()),
        queue=holdings.queue.pending_lengths(),
        scorers_ready=len(holdings.scorers.ready()),
        binders_ready=holdings.binders.ready_count(),
        binds_in_flight=holdings.binders.in_flight_count(),
        counters=dict(counters),
        is_standby=is_standby,
        foreign_pods_by_node=dict(counters.foreign_by_node.most_common(FOREIGN_NODES_MAX)),
        awaited_kinds=holdings.changes.awaited_kinds,
        adapter_told_s=holdings.changes.adapter_told_s,
        api_heard_s=holdings.changes.api_heard_s,
    )
