"""Every metric that berth has, declared once: name, labels and a sentence each.

Names are kube-scheduler's where it has such a metric (pkg/scheduler/metrics/metrics.go, v1.36.2), so
that its dashboards work; the others begin with `berth_`. The owner counts under short names
(`daemon/core/counters.py`); this table says what each is to the outside. `berth status` shows it.
"""

import enum
from typing import Final, NamedTuple


class Kind(enum.Enum):
    COUNTER = "counter"
    GAUGE = "gauge"


class Metric(NamedTuple):
    name: str
    kind: Kind
    labels: tuple[tuple[str, str], ...]
    """(label, value): several counts may be one metric under different values."""
    sentence: str


def _attempts(result: str, sentence: str) -> Metric:
    labels = (("result", result),)
    return Metric("scheduler_schedule_attempts_total", Kind.COUNTER, labels, sentence)


def _binds(result: str, sentence: str) -> Metric:
    return Metric("berth_binds_total", Kind.COUNTER, (("result", result),), sentence)


def _proposals(result: str, sentence: str) -> Metric:
    return Metric("berth_proposals_total", Kind.COUNTER, (("result", result),), sentence)


def _plain(name: str, sentence: str) -> Metric:
    return Metric(f"berth_{name}_total", Kind.COUNTER, (), sentence)


def _pending(queue: str, sentence: str) -> Metric:
    return Metric("scheduler_pending_pods", Kind.GAUGE, (("queue", queue),), sentence)


OWNER_COUNTERS: Final[dict[str, Metric]] = {
    "scheduled": _attempts("scheduled", "Placements that were assumed."),
    "unschedulable": _attempts("unschedulable", "Attempts that ended without a node."),
    "errors": _attempts("error", "Attempts that ended with a plugin's error."),
    "bound": _binds("bound", "Bindings that the API server accepted."),
    "binds_failed": _binds("failed", "Bindings that were refused or lost."),
    "binds_repeated": _binds("repeated", "Orders sent again because their binder was lost."),
    "proposals_rejected": _proposals(
        "rejected", "Placements that did not pass the owner's check on its newest state."
    ),
    "proposals_stale": _proposals("stale", "Answers for attempts that were not out any more."),
    "disagreements": _plain(
        "disagreements", "Contradictions between cache and API server, repaired."
    ),
    "missed_deletes": _plain(
        "missed_deletes", "Objects gone from a re-list that no watch event had removed."
    ),
    "adapter_batches": _plain(
        "adapter_batches", "Messages of the watch adapter that were applied."
    ),
    "foreign_binds": _plain("foreign_binds", "Pods of ours that another scheduler bound."),
    "foreign_pods": _plain("foreign_pods", "Pending pods of other schedulers, left alone."),
    "objects_rejected": _plain(
        "objects_rejected", "API objects left out because they could not be understood."
    ),
    "assumed_expired": _plain(
        "assumed_expired", "Assumed pods dropped because no confirmation came."
    ),
    "resyncs": _plain("resyncs", "Full snapshots sent to scoring workers."),
    "snapshots": _plain("snapshots", "Deltas published to scoring workers."),
}
"""The owner's counter -> what it is to the outside."""

QUEUE_GAUGES: Final[dict[str, Metric]] = {
    "active": _pending("active", "Pods that wait for their turn."),
    "backoff": _pending("backoff", "Pods that wait out their pause after a failed attempt."),
    "unschedulable": _pending(
        "unschedulable", "Pods that fit nowhere and wait for the cluster to change."
    ),
    "gated": _pending("gated", "Pods that a scheduling gate holds back."),
    "in_flight": Metric(
        "berth_pods_in_flight", Kind.GAUGE, (), "Pods that a scoring worker has in hand."
    ),
}
"""Field of `QueueLengths` -> what it is to the outside."""
