"""Metrics that are told apart by labels, or measured, by more than the owner: names, labels, sentences.

Names are kube-scheduler's where it has such a metric (pkg/scheduler/metrics/metrics.go, v1.36.2), so
that its dashboards work; the others begin with `berth_`. What the owner alone counts is declared in
`daemon/core/owner_counts.py`. `/metrics` shows all of it
(`daemon/endpoints/metrics_text.py`).
"""

import enum
from itertools import accumulate, repeat
from operator import mul
from typing import Final, NamedTuple


class Kind(enum.Enum):
    COUNTER = "counter"
    GAUGE = "gauge"


class MetricFamily(NamedTuple):
    name: str
    label_names: tuple[str, ...]
    sentence: str
    bounds: tuple[float, ...] = ()
    """Of a histogram's buckets; empty: it is a count."""
    kind: Kind = Kind.COUNTER
    """Of a count."""


def doubling(first: float, count: int) -> tuple[float, ...]:
    """Bounds that double. Rounded: 0.0016 and not what binary arithmetic makes of it."""
    return tuple(round(first * 2**step, 6) for step in range(count))


def half_more(first: float, count: int) -> tuple[float, ...]:
    """Bounds each half more than the one before, to the last digit of binary arithmetic."""
    return tuple(accumulate(repeat(1.5, count - 1), mul, initial=first))


METRICS: Final[dict[str, MetricFamily]] = {
    "algorithm_s": MetricFamily(
        "scheduler_scheduling_algorithm_duration_seconds",
        (),
        "The scoring worker's own time for a pod.",
        doubling(0.001, 15),
    ),
    "podgroup_algorithm_s": MetricFamily(
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        (),
        "The scoring worker's own time for a pod group.",
        doubling(0.001, 15),
    ),
    "extension_point_s": MetricFamily(
        "scheduler_framework_extension_point_duration_seconds",
        ("extension_point", "status", "profile"),
        "All plugins of an extension point together.",
        doubling(0.0001, 12),
    ),
    "plugin_s": MetricFamily(
        "scheduler_plugin_execution_duration_seconds",
        ("plugin", "extension_point", "status"),
        "One call of a plugin, about a class of pods and many nodes; every tenth batch is looked at.",
        half_more(0.00001, 20),
    ),
    "request_s": MetricFamily(
        "rest_client_request_duration_seconds",
        ("verb", "host"),
        "Requests to the API server, from sending to the answer (of a watch, to its beginning).",
        (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0),
    ),
    "device_wait_s": MetricFamily(
        "scheduler_dra_bindingconditions_wait_duration_seconds",
        ("profile", "driver", "status"),
        "How long pods waited before their binding until drivers had prepared devices.",
        doubling(0.1, 14),
    ),
    "requests": MetricFamily(
        "rest_client_requests_total",
        ("code", "method", "host"),
        "Requests to the API server, by the answer's status code.",
    ),
    "plugin_evaluations": MetricFamily(
        "scheduler_plugin_evaluation_total",
        ("plugin", "extension_point", "profile"),
        "Calls of plugins, each about a class of pods and many nodes.",
    ),
    "device_waits": MetricFamily(
        "scheduler_dra_bindingconditions_allocations_total",
        ("profile", "driver", "status"),
        "Devices that were waited for until a driver had prepared them.",
    ),
    "claim_creates": MetricFamily(
        "scheduler_resourceclaim_creates_total",
        ("status",),
        "Resource claims that were to be made for extended resources.",
    ),
}
"""Name in messages -> what it is to the outside; bounds are kube-scheduler's."""
