"""status.nominatedNodeName of pods whose binding takes time, through real processes.

Mirrors TestNominatedNodeNameIsSetBeforePreBindAndWaitOnPermit (test/integration/scheduler/
nominated_node_name, v1.36), with the feature gate on and off. Instead of letting a plugin hang, the
PreBind plugin here tells what the pod's status said when it was asked.
"""

import pytest

from tests.integration.upstream.nominating_plugins import ENTRY_POINTS
from tests.support.live import Json, LiveBerth, condition_of, configuration, enabled, profile
from tests.support.live_cluster import nominated_node

pytestmark = pytest.mark.integration

PROFILES = (
    profile("default-scheduler"),
    profile("pre-bind", enabled(multiPoint=["Looks"])),
    profile("idle", enabled(multiPoint=["Idles"])),
    profile("permit", enabled(multiPoint=["Permits"])),
    profile(
        "wait-short", enabled(multiPoint=["Permits"]), Permits={"answer": "wait", "timeoutS": 1}
    ),
    profile(
        "wait",
        enabled(multiPoint=["Permits", "Looks"]),
        Permits={"answer": "wait", "timeoutS": 900},
    ),
)


def start_berth(feature_gates: str = "") -> LiveBerth:
    config = configuration(*PROFILES, podInitialBackoffSeconds=60, podMaxBackoffSeconds=60)
    return LiveBerth(config, ENTRY_POINTS, feature_gates=feature_gates)


@pytest.fixture
def live(live: LiveBerth) -> LiveBerth:
    live.add_node("n1")
    return live


def add(live: LiveBerth, name: str, scheduler: str, **labels: str) -> Json:
    return live.add_pod(name, scheduler=scheduler, labels={"name": name, **labels})


def failed_unnamed(live: LiveBerth, name: str, reason: str) -> None:
    """Waits until the attempt's failure is written, and the node's name taken back."""
    live.wait_pod(
        name,
        lambda p: condition_of(p)["reason"] == reason and not nominated_node(p),
        "has failed and names no node",
    )


def test_a_pod_names_its_node_before_pre_bind(live: LiveBerth) -> None:
    add(live, "p", "pre-bind")
    assert live.bound("p") == "n1"
    live.wait_call("Looks", "pre_bind", "p n1")
    assert not nominated_node(live.pod("p"))


def test_a_pod_that_waits_on_permit_names_its_node(live: LiveBerth) -> None:
    add(live, "p", "wait")
    assert live.nominated("p") == "n1"
    live.until(lambda s: s.assumed_pod_count == 1, "it waits")
    add(live, "peer", "permit", says="allow")
    assert live.bound("peer") == live.bound("p") == "n1"
    live.wait_call("Looks", "pre_bind", "p n1")
    assert not nominated_node(live.pod("p"))


@pytest.mark.parametrize("scheduler", ["default-scheduler", "permit", "idle"])
def test_a_pod_that_is_bound_at_once_names_none(live: LiveBerth, scheduler: str) -> None:
    add(live, "p", scheduler)
    assert live.bound("p") == "n1"
    assert not nominated_node(live.pod("p"))
    assert live.calls("Looks") == live.calls("Idles", "pre_bind") == []


def test_the_name_is_taken_back_when_pre_bind_fails(live: LiveBerth) -> None:
    add(live, "fail", "pre-bind")
    failed_unnamed(live, "fail", "SchedulerError")
    live.wait_call("Looks", "pre_bind", "fail n1")


def test_the_name_is_taken_back_when_nobody_allows_the_pod(live: LiveBerth) -> None:
    add(live, "p", "wait-short")
    failed_unnamed(live, "p", "Unschedulable")


def test_with_the_gate_off_no_pod_names_its_node() -> None:
    with start_berth("NominatedNodeNameForExpectation=false") as live:
        live.add_node("n1")
        add(live, "p", "pre-bind")
        assert live.bound("p") == "n1"
        add(live, "waits", "wait")
        live.until(lambda s: s.counters["permit_waits"] == 1, "it waits")
        add(live, "peer", "permit", says="allow")
        assert live.bound("waits") == "n1"
        live.wait_call("Looks", "pre_bind", "p -")
        live.wait_call("Looks", "pre_bind", "waits -")
