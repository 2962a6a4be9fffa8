"""The scheduling queue and its hints against what kube-scheduler v1.36.2 did."""

from pathlib import Path
from typing import Any

import pytest

from bench.conformance.queue_replay import QueueReplay, hint_differences, queue_differences
from bench.conformance.scenario import read_plain

pytestmark = pytest.mark.conformance

FOLDER = Path(__file__).parent
DIFFERENCES_SHOWN = 5


def test_every_history_of_the_queue_is_that_of_kube_scheduler() -> None:
    lines = [line for _, line in read_plain(FOLDER / "queue.jsonl.gz")]
    found = [d for line in lines for d in queue_differences(line["scenario"], line["expected"])]
    assert found[:DIFFERENCES_SHOWN] == []
    assert len(lines) == 120


def test_every_hint_of_every_plugin_is_that_of_kube_scheduler() -> None:
    lines = [line for _, line in read_plain(FOLDER / "hints.jsonl.gz")]
    found = [d for line in lines for d in hint_differences(line["scenario"], line["expected"])]
    assert found[:DIFFERENCES_SHOWN] == []
    events = [event for line in lines for event in line["expected"]["events"]]
    assert sum(len(event["cluster_events"]) for event in events) == 1774
    assert len(lines) == 151


def test_a_step_that_came_out_otherwise_is_named() -> None:
    line = next(line for _, line in read_plain(FOLDER / "queue.jsonl.gz"))
    line["expected"]["steps"][2]["state"]["active"] = ["default/never-there"]
    (found,) = queue_differences(line["scenario"], line["expected"])
    assert found.startswith("step 2 (")


def test_a_hint_that_came_out_otherwise_is_named() -> None:
    line = next(
        line
        for _, line in read_plain(FOLDER / "hints.jsonl.gz")
        if line["expected"]["events"][0]["cluster_events"]
    )
    line["expected"]["events"][0]["cluster_events"][0]["hints"] = {"default/p": {"NodeName": "No"}}
    (found,) = hint_differences(line["scenario"], line["expected"])
    assert found.startswith("event 0 (")


def test_whom_a_pod_that_goes_may_help_is_known_by_the_classes_of_the_pods() -> None:
    """Hints name the classes that they are about: a replay that knows no classes wakes nobody."""
    labels = {"app": "db"}
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": labels}}
    wants = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    waiting = _pod("p", affinity=wants)
    gone = _pod("b", labels=labels, nodeName="n1")
    ops: list[dict[str, Any]] = [
        {"op": "add", "new": waiting},
        {"op": "pop"},
        {"op": "reject", "plugins": ["InterPodAffinity"]},
        {"op": "event", "kind": "pods", "old": gone},
    ]
    replay = QueueReplay({"objects": {}, "ops": ops})
    *_, last = [replay.step(op) for op in ops]
    assert last["state"]["backoff"] == {"default/p": 1.0}


def _pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "uid": name, "labels": labels or {}}
    return {
        "metadata": {**meta, "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "image": "i"}],
            **spec,
        },
    }
