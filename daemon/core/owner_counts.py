"""What the owner counts and measures since its start, declared once: a name and a sentence each.

Whoever counts something names it here and nowhere else; `berth status` shows it, and `/metrics`. Names,
labels and sentences as in `shared/telemetry/metrics.py`, which has what other processes count.
"""

import enum
import math
from functools import partial
from typing import Final, NamedTuple

from shared.telemetry.metrics import (
    METRICS,
    Kind,
    Measured,
    MetricFamily,
    Tally,
    doubling,
    half_more,
)


class Metric(NamedTuple):
    """A counter."""

    name: str
    sentence: str
    labels: tuple[tuple[str, str], ...] = ()
    """(label, value): several counts may be one metric under different values."""


def _one_of(name: str, result: str, sentence: str) -> Metric:
    return Metric(name, sentence, (("result", result),))


_attempts = partial(_one_of, "scheduler_schedule_attempts_total")
_binds = partial(_one_of, "berth_binds_total")
_proposals = partial(_one_of, "berth_proposals_total")


@enum.unique
class Count(enum.Enum):
    """What the owner counts since its start: the sentence that says what it is, of a metric that is
    named after it, or else the metric. What is not here cannot be counted."""

    # Members are singletons. Enum's own is a function in Python, asked several times for each pod.
    __hash__ = object.__hash__

    SCHEDULED = _attempts("scheduled", "Placements that were assumed.")
    UNSCHEDULABLE = _attempts("unschedulable", "Attempts that ended without a node.")
    ERRORS = _attempts("error", "Attempts that ended with a plugin's error.")
    BOUND = _binds("bound", "Bindings that the API server accepted.")
    BINDS_FAILED = _binds("failed", "Bindings that were refused or lost.")
    PREEMPTION_ATTEMPTS = Metric(
        "scheduler_preemption_attempts_total",
        "Pods that fit nowhere, for which it was looked whether room can be made.",
    )
    PREEMPTIONS = "Pods for which room was made by preemption."
    PREEMPTIONS_REJECTED = "Proposals to make room that did not pass the owner's check."
    PERMIT_WAITS = "Placements that a Permit plugin made wait."
    PERMIT_REJECTIONS = "Placements that a Permit plugin refused, or that waited too long."
    BINDS_REPEATED = _binds("repeated", "Orders sent again because their binder was lost.")
    PROPOSALS_REJECTED = _proposals("rejected", "Placements that did not pass the owner's check.")
    PROPOSALS_STALE = _proposals("stale", "Answers for attempts that were not out any more.")
    ATTEMPTS_REPEATED = "Attempts made again: their answer was refused, too old, or lost."
    REFUSED_TOO_OFTEN = "Pods in back-off because too many attempts in a row were made again."
    DISAGREEMENTS = "Contradictions between cache and API server, repaired."
    MISSED_DELETES = "Objects gone from a re-list that no watch event had removed."
    ADAPTER_BATCHES = "Messages of the watch adapter that were applied."
    FOREIGN_BINDS = "Pods of ours that another scheduler bound."
    FOREIGN_PODS = "Pending pods of other schedulers, left alone."
    OBJECTS_REJECTED = "API objects left out because they could not be understood."
    ASSUMED_EXPIRED = "Assumed pods dropped because no confirmation came."
    RESYNCS = "Full snapshots sent to scoring workers."
    SNAPSHOTS = "Deltas published to scoring workers."
    WORKERS_REFUSED = "Scoring workers that were sent away for what they said."
    PODS_PARKED = "Pods set aside: scoring workers ended with them in hand, or came to no end."
    SCHEDULED_AFTER_FLUSH = Metric(
        "scheduler_pod_scheduled_after_flush_total",
        "Pods that were placed once they were tried again without a reason.",
    )
    FORECASTS_USED = "Lone pods placed where a scoring worker had said before they came."

    @property
    def key(self) -> str:
        """Its name in status and messages."""
        return self.name.lower()

    @property
    def metric(self) -> Metric:
        """What it is to the outside."""
        told: Metric | str = self.value
        if isinstance(told, str):
            return Metric(f"berth_{self.key}_total", told)
        return told


FAMILY_SENTENCES: Final = {
    "scheduler_schedule_attempts_total": "Attempts to place a pod, by what came of them.",
    "berth_binds_total": "Bindings, by what came of them.",
    "berth_proposals_total": "Placements of workers that were not taken, by the reason.",
}
"""Of metrics that several of the counts above are, under different labels."""

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


def add_to(tally: Tally, measured: Measured) -> None:
    """Takes in what another process tells. Names and shapes that this owner does not know, as of a
    scorer of another version, are left out: they would be nobody's metrics. So are figures that no
    process counts."""
    for count in measured.counts:
        metric = ALL_METRICS.get(count.name)
        if metric is None or metric.bounds or len(count.labels) != len(metric.label_names):
            continue
        if count.count >= 0:
            tally.count(count.name, count.labels, count.count)
    for state in measured.histograms:
        metric = ALL_METRICS.get(state.name)
        if metric is None or not metric.bounds or len(state.labels) != len(metric.label_names):
            continue
        if len(state.counts) != len(metric.bounds) + 1 or min(state.counts) < 0:
            continue
        if math.isfinite(state.sum):
            tally.add_histogram(state)
