"""Dashboards and alerts made for kube-scheduler find every metric as they know it: name, type, labels
and buckets are those that a real kube-scheduler was recorded with. What is not served is documented."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from daemon.core.counters import Counters
from daemon.core.owner_counts import ALL_METRICS
from daemon.endpoints.metrics_text import metrics_text
from shared.messages.admin import MetricsAnswer, QueueLengths
from tests.support.owner_answers import metrics_answer, status_answer

HERE: Final = Path(__file__).parent
DOCS: Final = HERE.parents[1] / "docs" / "running.md"
OURS: Final = ("berth_", "process_")
"""The second are the Prometheus client's, the same in every program."""
SAMPLE: Final = re.compile(r"([a-z_]+)(?:\{([^}]*)\})? \S+")
LABEL: Final = re.compile(r'([a-z_]+)="([^"]*)"')


class Family(NamedTuple):
    kind: str
    labels: frozenset[str]
    bounds: tuple[float, ...]


def recorded() -> dict[str, Family]:
    families = {}
    lines = (HERE / "kube-scheduler-metrics.txt").read_text(encoding="utf-8").splitlines()
    for line in lines:
        if line.startswith("#"):
            continue
        name, kind, labels, bounds = line.split(" ")
        families[name] = Family(
            kind,
            frozenset() if labels == "-" else frozenset(labels.split(",")),
            () if bounds == "-" else tuple(float(bound) for bound in bounds.split(",")),
        )
    return families


def everything() -> MetricsAnswer:
    """An owner that has counted all that can be counted."""
    counters = Counters()
    for name, metric in ALL_METRICS.items():
        labels = tuple("x" for _ in metric.label_names)
        if metric.bounds:
            counters.observe(name, labels, 0.5)
        else:
            counters.count(name, labels)
    return metrics_answer(counters, status_answer(queue=QueueLengths(1, 1, 1, 1, 1)))


def samples(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    for line in text.splitlines():
        if not line.startswith("#"):
            matched = SAMPLE.fullmatch(line)
            assert matched is not None, line
            yield matched[1], dict(LABEL.findall(matched[2] or ""))


def served() -> dict[str, Family]:
    text = metrics_text(everything(), [], is_leading=True, now_s=0.0)
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    labels: dict[str, set[frozenset[str]]] = {}
    bounds: dict[str, list[float]] = {}
    for name, told in samples(text):
        plain = re.sub(r"_(bucket|sum|count)$", "", name)
        family = plain if kinds.get(plain) == "histogram" else name
        bound = told.pop("le", "+Inf")
        if bound != "+Inf":
            bounds.setdefault(family, []).append(float(bound))
        labels.setdefault(family, set()).add(frozenset(told))
    families = {}
    for name, kind in kinds.items():
        (only,) = labels[name]  # A family whose series differ in their labels is two.
        families[name] = Family(kind, only, tuple(bounds.get(name, ())))
    return families


def test_what_is_served_is_as_kube_scheduler_serves_it() -> None:
    theirs = recorded()
    ours = {name: one for name, one in served().items() if not name.startswith(OURS)}
    assert len(ours) >= 15
    assert ours == {name: theirs.get(name) for name in ours}


def test_what_is_not_served_is_documented() -> None:
    text = DOCS.read_text(encoding="utf-8")
    documented = set(re.findall(r"`((?:scheduler|rest_client)_\w+)`: not served", text))
    assert documented == set(recorded()) - set(served())
