"""Conditions and events, field by field as kube-scheduler v1.36.2 wrote them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared.messages.to_binder import BindPod, DeleteVictim, StatusPatch
from workers.binder.api_bodies import (
    NOTE_BYTES_MAX,
    Event,
    Series,
    cut_note,
    disruption_patch,
    event_body,
    event_name,
    failed_scheduling_event,
    preempted_event,
    scheduled_event,
    series_patch,
    status_patch,
)

EFFECTS = Path("tests/wire/kube-scheduler-effects.jsonl")
BY_API_SERVER = ("uid", "resourceVersion", "creationTimestamp", "managedFields")


def recorded_items(path: str) -> Iterator[dict[str, Any]]:
    for line in EFFECTS.read_text().splitlines():
        exchange = json.loads(line)
        if exchange.get("request", {}).get("path") == path:
            yield from json.loads(exchange["response"]["body"])["items"]


EVENTS = list(recorded_items("/apis/events.k8s.io/v1/namespaces/eff/events"))
PODS = {p["metadata"]["name"]: p for p in recorded_items("/api/v1/namespaces/eff/pods")}


def our_event(recorded: dict[str, Any]) -> Event:
    about = recorded["regarding"]
    profile, version = "default-scheduler", about["resourceVersion"]
    pod = about["namespace"], about["name"], about["uid"]
    if recorded["reason"] == "Scheduled":
        node = recorded["note"].rsplit(" ", 1)[1]
        return scheduled_event(BindPod(1, profile, *pod, node, False, resource_version=version))
    note = recorded["note"]
    return failed_scheduling_event(
        StatusPatch(profile, *pod, "Unschedulable", note, True, resource_version=version)
    )


@pytest.mark.parametrize("recorded", EVENTS, ids=[e["metadata"]["name"] for e in EVENTS])
def test_an_event_has_the_fields_and_values_that_kube_scheduler_writes(
    recorded: dict[str, Any],
) -> None:
    body = event_body(our_event(recorded), "a-name", "default-scheduler-vm", 0.0, None)
    ours = json.loads(body)
    assert ours.pop("apiVersion") == "events.k8s.io/v1"
    assert ours.pop("kind") == "Event"
    expected = json.loads(json.dumps(recorded))
    for name in ("deprecatedSource", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"):
        del expected[name]
    for name in BY_API_SERVER:
        expected["metadata"].pop(name, None)
    expected["metadata"]["name"] = "a-name"
    expected["eventTime"] = "1970-01-01T00:00:00.000000Z"
    assert ours == expected
    assert list(ours["regarding"]) == list(expected["regarding"])


def test_event_times_and_names_have_the_recorded_form() -> None:
    # selector.18e9eba8d1f166c5, 2026-11-21T01:37:16.793139Z
    recorded = next(e for e in EVENTS if e["regarding"]["name"] == "selector")
    wall_s = int(recorded["metadata"]["name"].rsplit(".", 1)[1], 16) / 1e9
    body = event_body(our_event(recorded), "n", "i", wall_s, None)
    # The name's time was read some microseconds after the event's.
    assert json.loads(body)["eventTime"][:23] == recorded["eventTime"][:23]
    name = event_name("selector", wall_s)
    assert name.startswith("selector.18e9eba8d1f1")
    assert len(name) == len(recorded["metadata"]["name"])


def test_a_name_that_would_be_too_long_is_replaced() -> None:
    assert len(event_name("p" * 236, 1.8e9)) == 253
    assert len(event_name("p" * 237, 1.8e9)) == 36


def _verdict(uid: str, message: str, generation: int) -> StatusPatch:
    return StatusPatch(
        "p", "ns", "n", uid, "Unschedulable", message, True, observed_generation=generation
    )


def test_the_condition_of_a_group_says_whether_it_is_scheduled() -> None:
    verdict = StatusPatch(
        "", "ns", "g", "u", "Scheduled", "", False,
        observed_generation=3, is_group=True, is_scheduled=True,
    )  # fmt: skip
    assert json.loads(status_patch(verdict, 1795225036.9))["status"] == {
        "conditions": [
            {
                "type": "PodGroupScheduled",
                "status": "True",
                "reason": "Scheduled",
                "message": "",
                "lastTransitionTime": "2026-11-21T01:37:16Z",
                "observedGeneration": 3,
            }
        ]
    }


@pytest.mark.parametrize("name", ["selector", "toobig"])
def test_the_condition_has_the_fields_and_values_that_kube_scheduler_writes(name: str) -> None:
    pod = PODS[name]
    recorded = pod["status"]["conditions"][0]
    patch = json.loads(
        status_patch(_verdict(pod["metadata"]["uid"], recorded["message"], 1), 1795225036.9)
    )
    assert patch["metadata"] == {"uid": pod["metadata"]["uid"]}
    assert patch["status"]["conditions"] == [recorded]


def test_a_later_condition_leaves_the_time_of_transition_alone() -> None:
    patch = json.loads(status_patch(_verdict("u", "m", 0), None))
    condition = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m",
        "lastProbeTime": None,
    }  # fmt: skip
    assert patch["status"] == {"conditions": [condition]}


def test_notes_are_cut_to_what_the_api_server_takes() -> None:
    assert cut_note("n" * NOTE_BYTES_MAX) == "n" * NOTE_BYTES_MAX
    cut = cut_note("n" * (NOTE_BYTES_MAX + 1))
    assert cut == "n" * (NOTE_BYTES_MAX - 4) + " ..."
    assert len(cut_note("ä" * NOTE_BYTES_MAX).encode()) <= NOTE_BYTES_MAX


def test_a_series_tells_how_often_and_when_last() -> None:
    patch = json.loads(series_patch(Series(2, "2026-11-21T01:37:16.000000Z")))
    assert patch == {"series": {"count": 2, "lastObservedTime": "2026-11-21T01:37:16.000000Z"}}


def test_without_a_resource_version_the_reference_has_none() -> None:
    event = scheduled_event(BindPod(1, "p", "ns", "n", "u", "x", False))
    body = event_body(event, "n", "i", 0, None)
    assert "resourceVersion" not in json.loads(body)["regarding"]


def test_a_victim_of_a_group_is_told_so() -> None:
    order = DeleteVictim(
        1, "default-scheduler", "ns", "v", "uid-v", "7", "cluster", "ns", "train", "uid-train",
        is_for_group=True,
    )  # fmt: skip
    event = preempted_event(order, is_deleted=True)
    preemptor = event.related
    assert preemptor is not None
    assert (preemptor.kind, preemptor.api_version) == ("PodGroup", "scheduling.k8s.io/v1alpha2")
    assert event.note == "Preempted by podgroup uid-train on node cluster"
    lone = msgspec.structs.replace(order, is_for_group=False)
    preemptor = preempted_event(lone, is_deleted=True).related
    assert preemptor is not None
    assert (preemptor.kind, preemptor.name) == ("Pod", "train")
    assert b"to accommodate a higher priority podgroup" in disruption_patch(order, 0.0)
    alone = disruption_patch(lone, 0.0)
    assert b'to accommodate a higher priority pod"' in alone
