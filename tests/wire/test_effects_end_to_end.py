"""What berth leaves on pods and in events, beside what a kube-scheduler v1.36.2 left in its place.

The recording (`kube-scheduler-effects.jsonl`) shows pods and events of one namespace after some pods
were placed, some could not be, and one was gated. The same pods are made here before a whole berth;
what it writes is compared field by field, as the API server shows it.
"""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import Fields, LiveBerth, SharedBerth, condition_of, configuration, profile

RECORDING = Path(__file__).parent / "kube-scheduler-effects.jsonl"
NAMESPACE = "eff"
FITTING = ("low0", "low1", "low2", "high0")
FAILING = ("selector", "toobig")
Json = dict[str, Any]


def recorded(path: str) -> list[Json]:
    for line in RECORDING.read_text().splitlines():
        exchange = json.loads(line)
        if exchange.get("request", {}).get("path") == path:
            items: list[Json] = json.loads(exchange["response"]["body"])["items"]
            return items
    raise AssertionError(f"{path} is not recorded")


PODS = {p["metadata"]["name"]: p for p in recorded(f"/api/v1/namespaces/{NAMESPACE}/pods")}
EVENTS = {
    e["regarding"]["name"]: e
    for e in recorded(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")
}


@contextmanager
def recorded_pods_made() -> Iterator[LiveBerth]:
    off = frozenset({"Priority", "DefaultTolerationSeconds"})
    with LiveBerth(configuration(profile("default-scheduler")), disabled_admission=off) as berth:
        berth.create("/api/v1/namespaces", "Namespace", {"metadata": {"name": NAMESPACE}})
        berth.add_nodes("e0", "e1", "e2", "n1", "n2", "n3")
        berth.add_node("n0", spec={"unschedulable": True})
        for name in (*FITTING, *FAILING, "gate"):
            spec = copy.deepcopy(PODS[name]["spec"])
            spec.pop("nodeName", None)
            body = {"metadata": {"name": name, "labels": {"app": "a"}}, "spec": spec}
            berth.create(f"/api/v1/namespaces/{NAMESPACE}/pods", "Pod", body)
        for name in FITTING:
            berth.bound(name, NAMESPACE)
        for name in FAILING:
            berth.unschedulable(name, namespace=NAMESPACE)
        yield berth


@pytest.fixture(scope="module")
def shared_berth() -> Iterator[SharedBerth]:
    with SharedBerth(recorded_pods_made) as shared:
        yield shared


@pytest.fixture
def live(shared_berth: SharedBerth) -> Iterator[LiveBerth]:
    """Nothing is changed by a test."""
    with shared_berth.lend(put_back=lambda _: None) as live:
        yield live


def shape(value: Any) -> Any:
    """The same for values that differ by time alone."""
    return {k: "a time" if k == "lastTransitionTime" else v for k, v in value.items()}


@pytest.mark.parametrize("name", [*FITTING, *FAILING, "gate"])
def test_the_condition_is_the_recorded_one(live: LiveBerth, name: str) -> None:
    pod = live.wait_pod(name, condition_of, "has the condition", NAMESPACE)
    assert shape(condition_of(pod)) == shape(condition_of(PODS[name]))


def event_of(live: LiveBerth, name: str) -> Fields:
    """Events come after bindings: waits for the first about the pod."""

    def found(events: Fields) -> list[Fields]:
        return [event for event in events["items"] if event["regarding"]["name"] == name]

    path = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
    return found(live.wait(path, found, f"are about {name}"))[0]


@pytest.mark.parametrize("name", [*FITTING, *FAILING])
def test_the_event_is_the_recorded_one(live: LiveBerth, name: str) -> None:
    ours, theirs = event_of(live, name), copy.deepcopy(EVENTS[name])
    assert set(ours) - {"apiVersion", "kind"} == set(theirs) - {"apiVersion", "kind"}
    for field in ("type", "reason", "action", "reportingController"):
        assert ours[field] == theirs[field], field
    # Several nodes are as good: which one was taken is not what is compared.
    assert ours["note"].rpartition(" to ")[0] == theirs["note"].rpartition(" to ")[0]
    if name in FAILING:
        assert ours["note"] == theirs["note"]
    assert set(ours["regarding"]) == set(theirs["regarding"])
    assert ours["metadata"]["name"].startswith(f"{name}.")
    assert ours["reportingInstance"].startswith("default-scheduler-")
