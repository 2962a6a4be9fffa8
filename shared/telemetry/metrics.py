"""Metrics that are told apart by labels, or measured, by any process: names, labels and a sentence each.

Names are kube-scheduler's where it has such a metric (pkg/scheduler/metrics/metrics.go, v1.36.2), so
that its dashboards work; the others begin with `berth_`. What the owner alone counts is declared in
`daemon/core/owner_counts.py`. `/metrics` shows all of it (`daemon/endpoints/metrics_text.py`).
"""

import enum
from typing import Final, NamedTuple


class Kind(enum.Enum):
    COUNTER = "counter"
    GAUGE = "gauge"


class HistogramMetric(NamedTuple):
    name: str
    label_names: tuple[str, ...]
    bounds: tuple[float, ...]
    sentence: str


def _doubling(first: float, count: int) -> tuple[float, ...]:
    """Bounds that double. Rounded: 0.0016 and not what binary arithmetic makes of it."""
    return tuple(round(first * 2**step, 6) for step in range(count))


def _half_more(first: float, count: int) -> tuple[float, ...]:
    """Bounds each half more than the one before, to the last digit of binary arithmetic."""
    bounds = [first]
    while len(bounds) < count:
        bounds.append(bounds[-1] * 1.5)
    return tuple(bounds)


HISTOGRAMS: Final[dict[str, HistogramMetric]] = {
    "attempt_s": HistogramMetric(
        "scheduler_scheduling_attempt_duration_seconds",
        ("result", "profile"),
        _doubling(0.001, 15),
        "From a pod's being handed out to its being bound, or to its refusal.",
    ),
    "sli_s": HistogramMetric(
        "scheduler_pod_scheduling_sli_duration_seconds",
        ("attempts",),
        _doubling(0.01, 20),
        "From a pod's coming into the queue to its being bound, over all of its attempts.",
    ),
    "attempts": HistogramMetric(
        "scheduler_pod_scheduling_attempts",
        (),
        _doubling(1, 5),
        "Attempts that a pod took to be bound.",
    ),
    "algorithm_s": HistogramMetric(
        "scheduler_scheduling_algorithm_duration_seconds",
        (),
        _doubling(0.001, 15),
        "The scoring worker's own time for a pod.",
    ),
    "podgroup_attempt_s": HistogramMetric(
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        ("result", "profile"),
        _doubling(0.001, 15),
        "From a pod group's being handed out to what became of it.",
    ),
    "podgroup_algorithm_s": HistogramMetric(
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        (),
        _doubling(0.001, 15),
        "The scoring worker's own time for a pod group.",
    ),
    "extension_point_s": HistogramMetric(
        "scheduler_framework_extension_point_duration_seconds",
        ("extension_point", "status", "profile"),
        _doubling(0.0001, 12),
        "All plugins of an extension point together.",
    ),
    "plugin_s": HistogramMetric(
        "scheduler_plugin_execution_duration_seconds",
        ("plugin", "extension_point", "status"),
        _half_more(0.00001, 20),
        "One call of a plugin, about a class of pods and many nodes; every tenth batch is looked at.",
    ),
    "hint_s": HistogramMetric(
        "scheduler_queueing_hint_execution_duration_seconds",
        ("plugin", "event", "hint"),
        _half_more(0.00001, 20),
        "One call of a queueing hint; every 16th is looked at, and counts for as many.",
    ),
    "event_s": HistogramMetric(
        "scheduler_event_handling_duration_seconds",
        ("event",),
        _doubling(0.0001, 12),
        "Taking in a change of the cluster: the time of a batch by its changes.",
    ),
    "victims": HistogramMetric(
        "scheduler_preemption_victims", (), _doubling(1, 7), "Pods chosen to make room for one."
    ),
    "request_s": HistogramMetric(
        "rest_client_request_duration_seconds",
        ("verb", "host"),
        (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0),
        "Requests to the API server, from sending to the answer (of a watch, to its beginning).",
    ),
    "device_wait_s": HistogramMetric(
        "scheduler_dra_bindingconditions_wait_duration_seconds",
        ("profile", "driver", "status"),
        _doubling(0.1, 14),
        "How long pods waited before their binding until drivers had prepared devices.",
    ),
    "permit_wait_s": HistogramMetric(
        "scheduler_permit_wait_duration_seconds",
        ("result",),
        _doubling(0.001, 15),
        "How long placements waited for Permit plugins.",
    ),
}
"""The owner's histogram -> what it is to the outside; bounds are kube-scheduler's."""


class LabelledMetric(NamedTuple):
    name: str
    label_names: tuple[str, ...]
    kind: Kind
    sentence: str


LABELLED: Final[dict[str, LabelledMetric]] = {
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
    "requests": LabelledMetric(
        "rest_client_requests_total",
        ("code", "method", "host"),
        Kind.COUNTER,
        "Requests to the API server, by the answer's status code.",
    ),
    "inflight_events": LabelledMetric(
        "scheduler_inflight_events",
        ("event",),
        Kind.GAUGE,
        "Cluster events kept for the pods that are being tried.",
    ),
    "plugin_evaluations": LabelledMetric(
        "scheduler_plugin_evaluation_total",
        ("plugin", "extension_point", "profile"),
        Kind.COUNTER,
        "Calls of plugins, each about a class of pods and many nodes.",
    ),
    "device_waits": LabelledMetric(
        "scheduler_dra_bindingconditions_allocations_total",
        ("profile", "driver", "status"),
        Kind.COUNTER,
        "Devices that were waited for until a driver had prepared them.",
    ),
    "claim_creates": LabelledMetric(
        "scheduler_resourceclaim_creates_total",
        ("status",),
        Kind.COUNTER,
        "Resource claims that were to be made for extended resources.",
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
}
"""Counts that are told apart by labels."""
