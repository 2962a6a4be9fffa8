"""Answers of an owner that has one scorer, one binder and nothing unusual to tell."""

from daemon.core.counters import Counters
from shared.messages.admin import MetricsAnswer, QueueLengths, StatusAnswer
from shared.telemetry.metrics import LabelledCount


def status_answer(
    *,
    epoch: int = 1,
    queue: QueueLengths | None = None,
    counters: dict[str, int] | None = None,
    foreign_pods_by_node: dict[str, int] | None = None,
) -> StatusAnswer:
    return StatusAnswer(
        epoch=epoch,
        generation=7,
        synced=True,
        node_count=3,
        pod_count=2,
        assumed_pod_count=1,
        queue=queue or QueueLengths(5, 0, 0, 0, 0),
        scorers_ready=1,
        binders_ready=1,
        binds_in_flight=0,
        counters=counters or {},
        foreign_pods_by_node=foreign_pods_by_node or {},
    )


def metrics_answer(counters: Counters, status: StatusAnswer) -> MetricsAnswer:
    measured = counters.measured()
    measured.counts.append(LabelledCount("unschedulable_pods", ("NodeAffinity", "p"), 2))
    return MetricsAnswer(status, measured)
