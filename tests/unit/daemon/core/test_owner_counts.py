"""The table of metrics is complete and well-formed."""

import re
from collections.abc import Iterable

import pytest

from daemon.core.counters import Counters
from daemon.core.owner_counts import Count, Metric


def every() -> Iterable[Metric]:
    return [count.metric for count in Count]


def test_a_counter_that_is_not_declared_cannot_be_counted() -> None:
    with pytest.raises(KeyError):
        Counters()["bonud"] += 1  # type: ignore[index] # Which mypy would have said.


def test_names_follow_prometheus_and_every_metric_has_a_sentence() -> None:
    for metric in every():
        assert re.fullmatch(r"(?:scheduler|berth)_[a-z_]+", metric.name)
        assert metric.name.endswith("_total")
        assert re.fullmatch(r"[A-Z].*\.", metric.sentence)


def test_no_two_metrics_are_told_by_the_same_name_and_labels() -> None:
    series = [(metric.name, metric.labels) for metric in every()]
    assert len(set(series)) == len(series)


def test_one_metric_has_the_same_labels_everywhere() -> None:
    labels: dict[str, tuple[str, ...]] = {}
    for metric in every():
        names = tuple(name for name, _ in metric.labels)
        assert labels.setdefault(metric.name, names) == names
