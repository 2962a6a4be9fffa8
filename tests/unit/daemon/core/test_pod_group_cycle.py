"""What comes of a group's pods that fit, that need room, that fit nowhere or are an error: the cases of
TestPodGroupSchedulingAlgorithm and TestSubmitPodGroupAlgorithmResult by name.

They are in pkg/scheduler/schedule_one_podgroup_test.go, v1.36.2. There a plugin of the test says what
Filter, PostFilter and Permit come to; here nodes, victims and quorums do. So the last of several pods
cannot be the only one to wait. A fourth pod, gated, is known and not tried.
"""

from typing import Final, NamedTuple

import pytest

from shared.kube.pod_record import PodRecord
from shared.messages.to_owner import PodChanged
from shared.plugins.gates import UNSCHEDULABLE
from shared.plugins.resources.node_resources_fit import NodeResourcesFit
from tests.support.builders import make_node
from tests.unit.daemon.core.test_faults_of_one_pod import BAD, failing
from tests.unit.daemon.core.test_pod_groups import NO_QUORUM, Gangs, member

FITS, NEEDS_ROOM, NOWHERE, ERROR = "fits", "needs room", "nowhere", "error"
WAITING: Final = f"{UNSCHEDULABLE}, pod group is waiting for preemption to complete"
OTHER: Final = "failed to schedule other pod from a pod group: KeyError"
ALL: Final = {"p1", "p2", "p3"}


class Case(NamedTuple):
    pods: tuple[str, str, str]
    quorum: int
    result: str
    """As the metrics name it."""
    message: str = UNSCHEDULABLE
    """Of the PodGroup."""


CASES: Final = {
    "All pods feasible": Case((FITS, FITS, FITS), 0, "scheduled", ""),
    "All pods feasible, two waiting": Case((FITS, FITS, FITS), 3, "scheduled", ""),
    "All pods feasible, but all waiting": Case((FITS, FITS, FITS), 4, "unschedulable"),
    "All pods feasible, one waiting, one unschedulable": Case(
        (FITS, NOWHERE, FITS), 2, "scheduled", ""
    ),
    "All pods require preemption": Case((NEEDS_ROOM,) * 3, 0, "waiting_on_preemption", WAITING),
    "All pods require preemption, but waiting": Case((NEEDS_ROOM,) * 3, 4, "unschedulable"),
    "One pod requires preemption, but waiting, two are feasible": Case(
        (NEEDS_ROOM, FITS, FITS), 3, "waiting_on_preemption", WAITING
    ),
    "One pod unschedulable, one requires preemption, one feasible": Case(
        (NEEDS_ROOM, NOWHERE, FITS), 0, "waiting_on_preemption", WAITING
    ),
    "All pods unschedulable": Case((NOWHERE,) * 3, 0, "unschedulable"),
    "Any filter returned Error": Case((FITS, ERROR, FITS), 0, "error", OTHER),
    "Any filter returned Error, and would for the next pod": Case(
        (FITS, ERROR, ERROR), 0, "error", OTHER
    ),
    "Any filter returned Error while waiting on preemption": Case(
        (NEEDS_ROOM, ERROR, FITS), 0, "error", OTHER
    ),
}


def pod(name: str, kind: str) -> PodRecord:
    selector = {"kind": "full" if kind == NEEDS_ROOM else "free"}
    labels = BAD if kind == ERROR else None
    return member(
        name, "pg1", uid=f"uid-{name}", cpu="9" if kind == NOWHERE else "1", priority=100,
        labels=labels, spec={"nodeSelector": selector},
    )  # fmt: skip


def tried(case: Case, *, has_placements: bool) -> Gangs:
    """The group after its first attempt, of which binders have done nothing yet."""
    berth = Gangs(
        [make_node("free", cpu="3", labels={"kind": "free"})], has_placements=has_placements
    )
    berth.add_node(make_node("full", cpu="3", labels={"kind": "full"}))
    berth.add(*(member(f"low{n}", "", uid=f"uid-low{n}", node_name="full") for n in range(3)))
    berth.add_group("pg1", case.quorum)
    gated = member("p4", "pg1", spec={"schedulingGates": [{"name": "wait"}]})
    pods = [pod(f"p{number}", kind) for number, kind in enumerate(case.pods, 1)]
    berth.tell(*(PodChanged(each) for each in [gated, *pods]))
    while berth.step_owner() or berth.step_scorer(0):
        pass
    return berth


@pytest.mark.usefixtures("all_labels_matter")
@pytest.mark.parametrize("has_placements", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_pod_group_scheduling_algorithm(
    name: str, has_placements: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    monkeypatch.setattr(NodeResourcesFit, "filter", failing(NodeResourcesFit.filter))
    berth = tried(case, has_placements=has_placements)
    fitting = {f"p{n}" for n, kind in enumerate(case.pods, 1) if kind in (FITS, NEEDS_ROOM)}
    orders = {order.name for order in berth.orders}
    nominated = {name for name in ALL if berth.nominated.get(f"uid-{name}")}
    assert berth.attempts() == {case.result: 1}
    assert orders == (fitting if case.result == "scheduled" else set())
    assert nominated == (fitting if case.result == "waiting_on_preemption" else set())
    assert bool(berth.victims) == (case.result == "waiting_on_preemption")
    is_scheduled, reason, message = berth.condition("pg1")
    reasons = {"scheduled": "Scheduled", "error": "SchedulerError"}
    assert (is_scheduled, reason) == (
        case.result == "scheduled",
        reasons.get(case.result, "Unschedulable"),
    )
    assert message.removeprefix(
        "0/1 placements are available, first placement status: "
    ).startswith(case.message)
    assert bool(message) == (not is_scheduled)
    for failed in ALL - orders:
        expected = told(case, failed, fitting)
        assert berth.told(failed).startswith(expected), failed


def told(case: Case, name: str, fitting: set[str]) -> str:
    """How a pod's own message begins."""
    kind = case.pods[int(name[1:]) - 1]
    if case.result == "error":
        return "KeyError" if name == f"p{case.pods.index(ERROR) + 1}" else OTHER
    if name not in fitting:
        return "0/2 nodes are available: "
    if case.result == "unschedulable":
        return NO_QUORUM
    return WAITING if kind == FITS else "0/2 nodes are available: "
