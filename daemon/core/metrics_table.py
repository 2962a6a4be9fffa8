"""Metrics that are told apart by labels, or measured, by the owner alone; and all that it tells of.

Names, labels and sentences as in `shared/telemetry/metrics.py`, which has what other processes count.
"""

import math
from typing import Final

from shared.messages.measured import Measured
from shared.telemetry.metrics import (
    HISTOGRAMS,
    LABELLED,
    HistogramMetric,
    Kind,
    LabelledMetric,
    doubling,
    half_more,
)
from shared.telemetry.tally import Tally

ALL_HISTOGRAMS: Final[dict[str, HistogramMetric]] = {
    "attempt_s": HistogramMetric(
        "scheduler_scheduling_attempt_duration_seconds",
        ("result", "profile"),
        doubling(0.001, 15),
        "From a pod's being handed out to its being bound, or to its refusal.",
    ),
    "sli_s": HistogramMetric(
        "scheduler_pod_scheduling_sli_duration_seconds",
        ("attempts",),
        doubling(0.01, 20),
        "From a pod's coming into the queue to its being bound, over all of its attempts.",
    ),
    "attempts": HistogramMetric(
        "scheduler_pod_scheduling_attempts",
        (),
        doubling(1, 5),
        "Attempts that a pod took to be bound.",
    ),
    "podgroup_attempt_s": HistogramMetric(
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        ("result", "profile"),
        doubling(0.001, 15),
        "From a pod group's being handed out to what became of it.",
    ),
    "hint_s": HistogramMetric(
        "scheduler_queueing_hint_execution_duration_seconds",
        ("plugin", "event", "hint"),
        half_more(0.00001, 20),
        "One call of a queueing hint; every 16th is looked at, and counts for as many.",
    ),
    "event_s": HistogramMetric(
        "scheduler_event_handling_duration_seconds",
        ("event",),
        doubling(0.0001, 12),
        "Taking in a change of the cluster: the time of a batch by its changes.",
    ),
    "victims": HistogramMetric(
        "scheduler_preemption_victims", (), doubling(1, 7), "Pods chosen to make room for one."
    ),
    "permit_wait_s": HistogramMetric(
        "scheduler_permit_wait_duration_seconds",
        ("result",),
        doubling(0.001, 15),
        "How long placements waited for Permit plugins.",
    ),
    **HISTOGRAMS,
}

ALL_LABELLED: Final[dict[str, LabelledMetric]] = {
    "podgroup_attempts": LabelledMetric(
        "scheduler_podgroup_schedule_attempts_total",
        ("result", "profile"),
        Kind.COUNTER,
        "Attempts to place a pod group, by what became of them.",
    ),
    "queue_incoming": LabelledMetric(
        "scheduler_queue_incoming_pods_total",
        ("queue", "event"),
        Kind.COUNTER,
        "Pods that came into a part of the queue, by what brought them there.",
    ),
    "inflight_events": LabelledMetric(
        "scheduler_inflight_events",
        ("event",),
        Kind.GAUGE,
        "Cluster events kept for the pods that are being tried.",
    ),
    "foreign_pods_on_node": LabelledMetric(
        "berth_foreign_pods_on_node",
        ("node",),
        Kind.GAUGE,
        "Pods that another scheduler bound to the node while they waited here (the largest few).",
    ),
    "unschedulable_pods": LabelledMetric(
        "scheduler_unschedulable_pods",
        ("plugin", "profile"),
        Kind.GAUGE,
        "Pods in the queue that a plugin rejected; one pod may count for several plugins.",
    ),
    **LABELLED,
}


def owner_tally() -> Tally:
    """Of all of them."""
    return Tally(ALL_HISTOGRAMS, ALL_LABELLED)


def add_to(tally: Tally, measured: Measured) -> None:
    """Takes in what another process tells. Names and shapes that this owner does not know, as of a
    worker of another version, are left out: they would be nobody's metrics. So are figures that no
    process counts."""
    for count in measured.counts:
        declared = ALL_LABELLED.get(count.name)
        is_known = declared is not None and len(count.labels) == len(declared.label_names)
        if is_known and count.count >= 0:
            tally.count(count.name, tuple(count.labels), count.count)
    for state in measured.histograms:
        histogram = ALL_HISTOGRAMS.get(state.name)
        if histogram is None or len(state.labels) != len(histogram.label_names):
            continue
        if len(state.counts) != len(histogram.bounds) + 1 or min(state.counts) < 0:
            continue
        if math.isfinite(state.sum):
            tally.add_histogram(state.name, tuple(state.labels), state.counts, state.sum)
