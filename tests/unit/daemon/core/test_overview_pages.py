"""The owner's part of a look: pages of nodes and pods, summed up, each a bounded turn."""

import pytest

from daemon.core import overview_pages
from daemon.core.overview_pages import FEW, LAST
from daemon.trial.trial import Trial
from shared.messages.admin import (
    NodeLoads,
    NodeLoadsRequest,
    PendingGroup,
    PendingGroups,
    PendingGroupsRequest,
    StatusAnswer,
    StatusRequest,
)
from shared.messages.to_owner import NodeChanged, PodChanged
from tests.support.builders import make_node, make_pod
from tests.support.subjects import queue_facts_of, subject_with
from tests.unit.daemon.core.test_pod_groups import Gangs, member

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


def two_nodes() -> Trial:
    nodes = [
        make_node("n1", cpu="4", labels={ZONE: "a", REGION: "r"}),
        make_node("n2", cpu="2", labels={ZONE: "b"}, extra={"nvidia.com/gpu": "2"}),
    ]
    pods = [make_pod("placed", cpu="3500m")]
    pods += [make_pod(f"big-{cpu}", cpu=f"{cpu}") for cpu in (8, 16, 32)]
    pods.append(make_pod("gated", spec={"schedulingGates": [{"name": "hold"}]}))
    return subject_with(nodes, pods).trial(decides=True)


def loads(trial: Trial, start: int = 0) -> NodeLoads:
    answer = trial.ask(NodeLoadsRequest(start), 1.0)
    assert isinstance(answer, NodeLoads)
    return answer


def pending(trial: Trial, start: int = 0) -> PendingGroups:
    answer = trial.ask(PendingGroupsRequest(start), 1.0)
    assert isinstance(answer, PendingGroups)
    return answer


def amounts(packed: bytes) -> list[int]:
    return list(memoryview(packed).cast("q"))


def test_nodes_are_told_with_their_zones_and_what_is_taken_of_each_resource() -> None:
    page = loads(two_nodes())
    assert page.names == ["n1", "n2"]
    assert page.zones == ["r/a", "b"]
    assert page.resources == ["cpu", "memory", "nvidia.com/gpu", "pods"]
    gib = 2**30
    assert amounts(page.allocatable) == [4000, 2000, 32 * gib, 32 * gib, 0, 2, 110, 110]
    assert amounts(page.requested) == [3500, 0, 128 * 2**20, 0, 0, 0, 1, 0]
    assert page.next_start == LAST


def test_pods_of_which_the_same_is_to_be_said_are_one_group() -> None:
    groups = {one.place: one for one in pending(two_nodes()).groups}
    assert groups == {
        "unschedulable": PendingGroup(
            "unschedulable", "Insufficient cpu", 3, 8000, 32000, "default/big-8"
        ),
        "gated": PendingGroup("gated", "SchedulingGates", 1, 0, 0, "default/gated"),
    }


def test_a_page_is_bounded_and_the_pages_together_are_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(overview_pages, "NODES_A_PAGE", 1)
    monkeypatch.setattr(overview_pages, "PODS_A_PAGE", 3)
    trial = two_nodes()
    first, second = loads(trial), loads(trial, 1)
    assert (first.names, first.next_start) == (["n1"], 1)
    assert (second.names, second.zones, second.next_start) == (["n2"], ["b"], LAST)
    one, other = pending(trial), pending(trial, 3)
    assert (one.next_start, other.next_start) == (3, LAST)
    assert sum(group.pod_count for page in (one, other) for group in page.groups) == 4
    assert one.recent
    assert not other.recent


def test_small_groups_are_put_together_where_there_are_too_many() -> None:
    groups = [PendingGroup("unschedulable", f"r{n}", n, 0, 0, "") for n in range(1, 6)]
    kept = overview_pages.most_frequent(groups, 2)
    assert [(one.reason, one.pod_count) for one in kept] == [("r5", 5), ("r4", 4), (FEW, 6)]


def test_the_latest_decisions_say_where_a_pod_goes_or_why_nowhere() -> None:
    recent = pending(two_nodes()).recent
    assert {one.pod: one.node for one in recent}["default/placed"] == "n1"
    refused = [one for one in recent if one.pod == "default/big-8"]
    assert [one.node for one in refused] == [""]
    assert "2 Insufficient cpu" in refused[0].message


def test_decisions_that_are_remembered_are_bounded() -> None:
    nodes = [make_node("n", cpu="1000", pods=1000)]
    pods = [make_pod(f"p{number}", cpu="1m") for number in range(200)]
    trial = subject_with(nodes, pods).trial(decides=True)
    assert len(pending(trial).recent) == 40


def test_attempts_are_remembered_with_their_outcomes_the_last_few() -> None:
    trial = subject_with([make_node("n0", cpu="1")], [make_pod("big", cpu="8")]).trial(decides=True)
    for number in range(1, 8):
        cordoned = make_node(f"n{number}", cpu="16", unschedulable=True)
        trial.tell([NodeChanged(cordoned)], 20.0 * number)
    facts = queue_facts_of(trial, "default/big", 150.0)
    assert facts.attempts == 8
    assert [one.ago_s for one in facts.past] == [10.0, 30.0, 50.0, 70.0, 90.0]
    assert "7 node(s) were unschedulable" in facts.past[0].message


def test_who_waits_for_the_same_is_counted_with_those_ahead() -> None:
    nodes = [make_node("n", cpu="1", extra={"nvidia.com/gpu": "1"})]
    pods = [
        make_pod("mine", cpu="8"),
        make_pod("same", cpu="9"),
        make_pod("ahead", cpu="9", priority=5),
        make_pod("other", spec={"nodeSelector": {"no": "where"}}),
    ]
    facts = queue_facts_of(subject_with(nodes, pods).trial(decides=True), "default/mine", 1.0)
    told = (facts.reason, facts.competitor_count, facts.ahead_count)
    assert told == ("Insufficient cpu", 2, 1)


def test_how_far_a_scorers_copy_is_behind_is_told() -> None:
    trial = two_nodes()
    trial.tell([NodeChanged(make_node("n3", cpu="1"))], 2.0)
    status = trial.ask(StatusRequest(), 2.0)
    assert isinstance(status, StatusAnswer)
    behind = status.scorer_lags[0]
    assert behind > 0, "its word is from before the node came"
    trial.tell([], 3.0)
    status = trial.ask(StatusRequest(), 3.0)
    assert isinstance(status, StatusAnswer)
    assert status.scorer_lags == {0: 0}


def test_a_gang_is_told_with_what_waits_and_what_is_placed() -> None:
    gangs = Gangs([make_node("n", cpu="2")])
    gangs.add_group("team", 3)
    for name in ("a", "b", "c"):
        gangs.add_pod(member(name, "team"))
    (found,) = overview_pages.pending_groups(gangs.state, 0, 1.0).gangs
    told = (found.group, found.pending_count, found.placed_count, found.wanted_count)
    assert told == ("default/team", 3, 0, 3)


def test_a_pod_that_is_gone_is_in_no_group() -> None:
    trial = subject_with([make_node("n", cpu="1")], [make_pod("big", cpu="8")]).trial(decides=True)
    trial.tell([NodeChanged(make_node("m", cpu="16"))], 20.0)
    trial.tell([PodChanged(make_pod("big", cpu="8", node_name="m"))], 21.0)
    assert pending(trial).groups == []
