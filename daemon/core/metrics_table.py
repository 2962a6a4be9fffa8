"""Metrics that are told apart by labels, or measured, by the owner alone; and all that it tells of.

Names, labels and sentences as in `shared/telemetry/metrics.py`, which has what other processes count.
"""

import math
from typing import Final

from shared.messages.measured import Measured
from shared.telemetry.metrics import (
    METRICS,
    Kind,
    MetricFamily,
    doubling,
    half_more,
)
from shared.telemetry.tally import Tally

ALL_METRICS: Final[dict[str, MetricFamily]] = {
    "attempt_s": MetricFamily(
        "scheduler_scheduling_attempt_duration_seconds",
        ("result", "profile"),
        "From a pod's being handed out to its being bound, or to its refusal.",
        doubling(0.001, 15),
    ),
    "sli_s": MetricFamily(
        "scheduler_pod_scheduling_sli_duration_seconds",
        ("attempts",),
        "From a pod's coming into the queue to its being bound, over all of its attempts.",
        doubling(0.01, 20),
    ),
    "attempts": MetricFamily(
        "scheduler_pod_scheduling_attempts",
        (),
        "Attempts that a pod took to be bound.",
        doubling(1, 5),
    ),
    "podgroup_attempt_s": MetricFamily(
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        ("result", "profile"),
        "From a pod group's being handed out to what became of it.",
        doubling(0.001, 15),
    ),
    "hint_s": MetricFamily(
        "scheduler_queueing_hint_execution_duration_seconds",
        ("plugin", "event", "hint"),
        "One call of a queueing hint; every 16th is looked at, and counts for as many.",
        half_more(0.00001, 20),
    ),
    "event_s": MetricFamily(
        "scheduler_event_handling_duration_seconds",
        ("event",),
        "Taking in a change of the cluster: the time of a batch by its changes.",
        doubling(0.0001, 12),
    ),
    "victims": MetricFamily(
        "scheduler_preemption_victims", (), "Pods chosen to make room for one.", doubling(1, 7)
    ),
    "permit_wait_s": MetricFamily(
        "scheduler_permit_wait_duration_seconds",
        ("result",),
        "How long placements waited for Permit plugins.",
        doubling(0.001, 15),
    ),
    "podgroup_attempts": MetricFamily(
        "scheduler_podgroup_schedule_attempts_total",
        ("result", "profile"),
        "Attempts to place a pod group, by what became of them.",
    ),
    "queue_incoming": MetricFamily(
        "scheduler_queue_incoming_pods_total",
        ("queue", "event"),
        "Pods that came into a part of the queue, by what brought them there.",
    ),
    "inflight_events": MetricFamily(
        "scheduler_inflight_events",
        ("event",),
        "Cluster events kept for the pods that are being tried.",
        kind=Kind.GAUGE,
    ),
    "foreign_pods_on_node": MetricFamily(
        "berth_foreign_pods_on_node",
        ("node",),
        "Pods that another scheduler bound to the node while they waited here (the largest few).",
        kind=Kind.GAUGE,
    ),
    "unschedulable_pods": MetricFamily(
        "scheduler_unschedulable_pods",
        ("plugin", "profile"),
        "Pods in the queue that a plugin rejected; one pod may count for several plugins.",
        kind=Kind.GAUGE,
    ),
    **METRICS,
}


def owner_tally() -> Tally:
    """Of all of them."""
    return Tally(ALL_METRICS)


def add_to(tally: Tally, measured: Measured) -> None:
    """Takes in what another process tells. Names and shapes that this owner does not know, as of a
    worker of another version, are left out: they would be nobody's metrics. So are figures that no
    process counts."""
    for count in measured.counts:
        metric = ALL_METRICS.get(count.name)
        if metric is None or metric.bounds or len(count.labels) != len(metric.label_names):
            continue
        if count.count >= 0:
            tally.count(count.name, tuple(count.labels), count.count)
    for state in measured.histograms:
        metric = ALL_METRICS.get(state.name)
        if metric is None or not metric.bounds or len(state.labels) != len(metric.label_names):
            continue
        if len(state.counts) != len(metric.bounds) + 1 or min(state.counts) < 0:
            continue
        if math.isfinite(state.sum):
            tally.add_histogram(state.name, tuple(state.labels), state.counts, state.sum)
