"""The scheduler as a whole: nodes that change, several profiles, bindings that fail, tainted nodes.

Mirrors test/integration/scheduler/scheduler_test.go, bind, eventhandler, taint and what
queueing/queue_test.go has about bindings, of kube-scheduler v1.36; each test names the one that it
mirrors. There is no node controller here: the tests taint nodes as it would.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests.integration.upstream.queueing_cases import affinity, on_nodes
from tests.integration.upstream.scheduler_plugins import ENTRY_POINTS
from tests.support.live import (
    EVENTS,
    Fields,
    Json,
    LiveBerth,
    condition_of,
    configuration,
    enabled,
    profile,
)

pytestmark = pytest.mark.integration


def _instead(name: str) -> Json:
    return {"disabled": [{"name": "*"}], "enabled": [{"name": name}]}


def start_berth() -> LiveBerth:
    profiles = [
        profile("default-scheduler"),
        profile("custom-scheduler"),
        profile("untainted", {"filter": _instead("Untainted")}),
        profile("first-fail", {"bind": _instead("FirstFailBinds")}),
        profile("label-permit", enabled(multiPoint=["LabelPermits"])),
        profile("replaced", enabled(multiPoint=["Replaces"])),
    ]
    config = configuration(*profiles, podInitialBackoffSeconds=1, podMaxBackoffSeconds=1)
    admission = frozenset({"Priority", "DefaultTolerationSeconds"})
    return LiveBerth(config, ENTRY_POINTS, disabled_admission=admission)


def is_unbound(live: LiveBerth, name: str) -> bool:
    return "nodeName" not in live.pod(name)["spec"]


# Nodes that change --------------------------------------------------------------------------------


def test_update_node_event(live: LiveBerth) -> None:
    """TestUpdateNodeEvent: labels and taints change at once, and the plugin asked for taints only."""
    cordoned = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    live.add_node("n1", taints=[cordoned])
    live.add_pod("p", scheduler="untainted")
    live.unschedulable("p", contains="it is tainted")

    def change(node: Json) -> None:
        node["metadata"]["labels"]["foo"] = "bar"
        node["spec"]["taints"] = []

    live.update_node("n1", change)
    assert live.bound("p") == "n1"


def test_unschedulable_nodes(live: LiveBerth) -> None:
    """TestUnschedulableNodes: node.spec.unschedulable is obeyed, and its end wakes the pod."""
    live.add_node("n1", spec={"unschedulable": True})
    live.add_pod("p")
    live.unschedulable("p", contains="node(s) were unschedulable")
    live.update_node("n1", lambda node: node["spec"].update(unschedulable=False))
    assert live.bound("p") == "n1"


def test_node_events(live: LiveBerth) -> None:
    """TestNodeEvents: a second node helps when its taint goes, and not before."""
    live.add_node("n1", cpu="100m")
    live.add_pod("p1", cpu="80m")
    assert live.bound("p1") == "n1"
    live.add_pod("p2", cpu="40m")
    live.unschedulable("p2", contains="Insufficient cpu")
    live.add_node("n2", cpu="100m", taints=[{"key": "test", "effect": "NoSchedule"}])
    live.unschedulable("p2", contains="untolerated taint")
    assert is_unbound(live, "p2")
    live.update_node("n2", lambda node: node["spec"].update(taints=[]))
    assert live.bound("p2") == "n2"


def test_allocatable(live: LiveBerth) -> None:
    """TestAllocatable: what a node has is what it says is allocatable, also when that shrinks."""
    live.add_node("n1", cpu="30m", memory="30")
    live.add_pod("p1", cpu="20m", memory="20")
    assert live.bound("p1") == "n1"
    live.update(
        "/api/v1/nodes/n1",
        lambda node: node["status"]["allocatable"].update(cpu="10m", memory="10"), "status",
    )  # fmt: skip
    live.delete_pod("p1")
    live.until(lambda s: s.pod_count == 0, "p1 is gone")
    live.nodes(lambda nodes: nodes["n1"]["allocatable"].get("milli_cpu") == 10, "n1 has shrunk")
    live.add_pod("p2", cpu="20m", memory="20")
    told = live.unschedulable("p2")
    assert "Insufficient cpu" in told
    assert "Insufficient memory" in told


# Other schedulers, several profiles ---------------------------------------------------------------


def test_multiple_schedulers(live: LiveBerth) -> None:
    """TestMultipleSchedulers: a pod of another scheduler is left alone, whoever else is placed."""
    live.add_node("n1")
    live.add_pod("foo", scheduler="foo-scheduler")
    live.add_pod("unnamed")
    live.add_pod("named", scheduler="default-scheduler")
    assert live.bound("unnamed") == live.bound("named") == "n1"
    assert is_unbound(live, "foo")
    assert "foo" not in live.queue(lambda _: True, "the queue")


def test_multiple_scheduling_profiles(live: LiveBerth) -> None:
    """TestMultipleSchedulingProfiles: each pod's event is told in the name of its own profile."""
    live.add_node("n1")
    names = {"foo": "default-scheduler", "bar": "custom-scheduler"}
    for name, scheduler in names.items():
        live.add_pod(name, scheduler=scheduler)
        live.bound(name)

    def told(events: Fields) -> dict[str, str]:
        return {
            event["regarding"]["name"]: event["reportingController"]
            for event in events["items"]
            if event["reason"] == "Scheduled" and event["regarding"]["name"] in names
        }

    found = live.wait(EVENTS, lambda events: len(told(events)) == len(names), "are about both")
    assert told(found) == names


def test_scheduler_informers(live: LiveBerth) -> None:
    """TestSchedulerInformers, "Pod cannot be scheduled when node is occupied by pods scheduled by other
    schedulers"."""
    live.add_nodes("n1", "n2", cpu="500m", memory="500")
    for index in range(2):
        live.add_pod(f"other-{index}", scheduler="foo-scheduler", node=f"n{index + 1}",
                     cpu="300m", memory="200")  # fmt: skip
    live.until(lambda s: s.pod_count == 2, "they are known")
    live.add_pod("p", cpu="300m", memory="200")
    assert "2 Insufficient cpu" in live.unschedulable("p")


# Bindings -----------------------------------------------------------------------------------------


def test_default_binder_same_uid(live: LiveBerth) -> None:
    """TestDefaultBinder, "same UID"."""
    live.add_node("n1")
    uid = live.add_pod("p")["metadata"]["uid"]
    assert live.bound("p") == "n1"
    assert live.pod("p")["metadata"]["uid"] == uid


def test_default_binder_different_uid(live: LiveBerth) -> None:
    """TestDefaultBinder, "different UID": a pod that took the other's name is not bound for it."""
    live.add_node("n1")
    live.add_pod("p", scheduler="replaced")
    live.wait_call("Replaces", "pre_bind", "p")
    live.wait_pod("p", lambda p: p["metadata"]["labels"] == {"is": "other"}, "is replaced")
    live.until(lambda s: s.binds_in_flight == 0 and s.pod_count == 0, "the binding came to nothing")
    assert is_unbound(live, "p")


def test_requeue_by_bind_failure(live: LiveBerth) -> None:
    """TestRequeueByBindFailure: no event is needed."""
    live.add_node("n1")
    live.add_pod("p", scheduler="first-fail")
    assert live.bound("p") == "n1"
    assert live.calls("FirstFailBinds", "bind") == ["p", "p"]


def test_requeue_by_permit_rejection(live: LiveBerth) -> None:
    """TestRequeueByPermitRejection: what happened while the pod waited counts when it is rejected."""
    live.add_node("n1")
    live.add_pod("probe", spec=affinity(on_nodes("updated", "yes")))
    live.unschedulable("probe")
    live.add_pod("p1", scheduler="label-permit")
    live.until(lambda s: s.assumed_pod_count == 1, "p1 waits")
    live.update_node("n1", lambda node: node["metadata"]["labels"].update(updated="yes"))
    assert live.bound("probe") == "n1"  # So the change has been seen.
    live.add_pod("p2", scheduler="label-permit", labels={"rejects": "yes"})
    assert live.bound("p2") == "n1"
    live.wait_call("LabelPermits", "permit", "p1", 2)


def test_a_rejected_pod_that_nothing_helped_stays_rejected(live: LiveBerth) -> None:
    """TestRequeueByPermitRejection, the other way round: without the event nobody tries it again."""
    live.add_node("n1")
    live.add_pod("p1", scheduler="label-permit")
    live.until(lambda s: s.assumed_pod_count == 1, "p1 waits")
    live.add_pod("p2", scheduler="label-permit", labels={"rejects": "yes"})
    assert live.bound("p2") == "n1"
    live.unschedulable("p1", contains="rejected by the test")
    found = live.queue(lambda pods: pods["p1"].place == "unschedulable", "p1 rests")
    assert found["p1"].attempts == 1


# Tainted nodes ------------------------------------------------------------------------------------

KEYS = {
    "not-ready": "node.kubernetes.io/not-ready",
    "unschedulable": "node.kubernetes.io/unschedulable",
    "memory": "node.kubernetes.io/memory-pressure",
    "disk": "node.kubernetes.io/disk-pressure",
    "network": "node.kubernetes.io/network-unavailable",
    "pid": "node.kubernetes.io/pid-pressure",
}


@dataclass(frozen=True)
class TaintCase:
    name: str
    taints: Sequence[str]
    fits: Sequence[Sequence[str]]
    """Tolerations of pods that fit."""
    refused: Sequence[Sequence[str]]
    is_cordoned: bool = False


TAINT_CASES = [
    TaintCase("not-ready node", ["not-ready"], [["not-ready"]], [[]]),
    TaintCase("unschedulable node", ["unschedulable"], [["unschedulable"]], [[]], True),
    TaintCase("memory pressure node", ["memory"], [["memory"]], [[], ["disk"]]),
    TaintCase("disk pressure node", ["disk"], [["disk"]], [[], ["memory"]]),
    TaintCase("network unavailable and node is ready", ["network"], [["network"]], [[]]),
    TaintCase("network unavailable and node is not ready", ["network", "not-ready"],
              [["network", "not-ready"]], [[], ["network"]]),
    TaintCase("pid pressure node", ["pid"], [["pid"]], [[]]),
    TaintCase("multi taints on node", ["disk", "memory", "pid"], [["disk", "memory", "pid"]],
              [[], ["disk", "memory"]]),
]  # fmt: skip


@pytest.mark.parametrize("case", TAINT_CASES, ids=lambda case: case.name)
def test_taint_node_by_condition(live: LiveBerth, case: TaintCase) -> None:
    """TestTaintNodeByCondition, the case of the same name, with the taints of the node controller."""
    taints = [{"key": KEYS[name], "effect": "NoSchedule"} for name in case.taints]
    live.add_node("n1", taints=taints, spec={"unschedulable": case.is_cordoned})

    def add(name: str, tolerated: Sequence[str]) -> None:
        tolerations = [
            {"key": KEYS[each], "operator": "Exists", "effect": "NoSchedule"} for each in tolerated
        ]
        live.add_pod(name, cpu="100m", spec={"tolerations": tolerations})

    for index, tolerated in enumerate(case.refused):
        add(f"refused-{index}", tolerated)
        live.unschedulable(f"refused-{index}")
    for index, tolerated in enumerate(case.fits):
        add(f"fits-{index}", tolerated)
        assert live.bound(f"fits-{index}") == "n1"
    for index in range(len(case.refused)):
        assert is_unbound(live, f"refused-{index}")
        assert condition_of(live.pod(f"refused-{index}"))
