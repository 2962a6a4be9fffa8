"""What berth leaves on pods and in events, beside what a kube-scheduler v1.36.2 left in its place.

The recording (`kube-scheduler-effects.jsonl`) shows pods and events of one namespace after some pods
were placed, some could not be, and one was gated. The same pods are made here before a whole berth;
what it writes is compared field by field, as the API server shows it.
"""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import LiveBerth, condition_of, configuration, profile

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


@pytest.fixture(scope="module")
def live() -> Iterator[LiveBerth]:
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


def shape(value: Any) -> Any:
    """The same for values that differ by time alone."""
    return {k: "a time" if k == "lastTransitionTime" else v for k, v in value.items()}


def condition(pod: Json) -> Json:
    found = condition_of(pod)
    assert found is not None, "PodScheduled stands there"
    return found


@pytest.mark.parametrize("name", [*FITTING, *FAILING, "gate"])
def test_the_condition_is_the_recorded_one(live: LiveBerth, name: str) -> None:
    pod = live.pod(name, NAMESPACE)
    assert pod is not None
    assert shape(condition(pod)) == shape(condition(PODS[name]))


def event_of(live: LiveBerth, name: str) -> Json:
    """Events come after bindings: waits for the first about the pod."""
    path = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"

    def found() -> Json | None:
        items = live.ask("GET", path)["items"]
        return next((e for e in items if e["regarding"]["name"] == name), None)

    held: list[Json] = []

    def is_there(_: Any) -> bool:
        event = found()
        if event is not None:
            held.append(event)
        return event is not None

    live.until(is_there, f"an event about {name}")
    return held[-1]


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
