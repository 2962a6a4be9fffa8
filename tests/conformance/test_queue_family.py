"""The scheduling queue and its hints against what kube-scheduler v1.36.2 did."""

from pathlib import Path

import pytest

from bench.conformance.queue_replay import hint_differences, queue_differences
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
