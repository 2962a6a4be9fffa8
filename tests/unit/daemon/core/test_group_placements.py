"""Groups with a topology constraint: upstream's cases by name, and generated ones decided by counting.

The first part mirrors test/integration/scheduler/podgroup/topology_aware_scheduling/tas_test.go of
v1.36.2: nodes have 2 cpu, pods ask for 1, large ones for 2, and ones that fit nowhere for 3.
"""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import pytest

from daemon.core.cluster_changes import LATE_S
from daemon.core.pod_groups import NOT_ELIGIBLE
from shared.kube.pod_record import PodRecord
from shared.messages.to_owner import PodChanged
from tests.support.builders import make_node, make_pod
from tests.unit.daemon.core.test_pod_groups import Gangs, gang
from workers.scorer.cycle import Cycle

UNKNOWN: Final = "cannot determine domain for already scheduled pods"
NONE_FIT: Final = "placements are available, first placement status: pod group is unschedulable"


class Racks(Gangs):
    """Nodes `r1n1`, `r1n2`, ... of rack r1, and so on; those of a rack are in one zone."""

    def __init__(self, racks: Mapping[str, int], zones: Mapping[str, str] | None = None) -> None:
        self.rack_of: dict[str, str] = {}
        nodes = []
        for rack, count in racks.items():
            for number in range(1, count + 1):
                labels = {"rack": rack, "zone": (zones or {}).get(rack, "z1")}
                nodes.append(make_node(f"{rack}n{number}", cpu="2", labels=labels))
                self.rack_of[f"{rack}n{number}"] = rack
        super().__init__(nodes, has_placements=True)

    def constrain(self, name: str, min_count: int = 0, key: str = "rack") -> None:
        self.add_group(name, min_count, schedulingConstraints={"topology": [{"key": key}]})

    def exist(self, name: str, node: str, cpu: str) -> PodRecord:
        pod = make_pod(name, uid=f"uid-{name}", node_name=node, cpu=cpu, memory=None, priority=100)
        self.add_pod(pod)
        self.settle()
        return pod

    def racks_of(self, *pods: str) -> set[str]:
        return {self.rack_of[self.bound[f"uid-{pod}"][-1]] for pod in pods}


def large(*names: str, group: str = "pg1") -> list[PodRecord]:
    return gang(*names, group=group, cpu="2", priority=100)


def plain(*names: str, group: str = "pg1") -> list[PodRecord]:
    return gang(*names, group=group, cpu="1", priority=100)


# Gang policy -------------------------------------------------------------------------------------


def test_gang_schedules_on_a_single_rack_when_only_one_feasible_rack_is_available() -> None:
    berth = Racks({"r1": 3, "r2": 2, "r3": 1})
    berth.exist("existing1", "r2n1", "2")
    berth.constrain("pg1", 3)
    berth.add(*plain("p1", "p2", "p3"))
    assert berth.racks_of("p1", "p2", "p3") == {"r1"}


def test_gang_remains_pending_when_no_feasible_resources_are_found() -> None:
    berth = Racks({"r1": 2, "r2": 1, "r3": 1})
    berth.constrain("pg1", 3)
    berth.add(*large("p1", "p2", "p3"))
    assert berth.waiting() == {"p1", "p2", "p3"}
    assert berth.condition("pg1") == (False, "Unschedulable", f"0/3 {NONE_FIT}")


def test_gang_remains_pending_when_resources_are_consumed_by_existing_pods() -> None:
    berth = Racks({"r1": 3})
    berth.exist("existing1", "r1n1", "2")
    blocker = berth.exist("existing2", "r1n3", "2")
    berth.constrain("pg1", 3)
    berth.add(*plain("p1", "p2", "p3"))
    assert berth.waiting() == {"p1", "p2", "p3"}
    berth.delete_pod(blocker)
    berth.wait()
    assert berth.racks_of("p1", "p2", "p3") == {"r1"}


def test_gang_chooses_the_placement_with_the_highest_score() -> None:
    berth = Racks({"r1": 2, "r2": 3, "r3": 1})
    berth.constrain("pg1", 3)
    berth.add(*plain("p1", "p2", "p3"))
    assert berth.racks_of("p1", "p2", "p3") == {"r1"}


def test_gang_chooses_the_highest_allocation_percentage_with_pre_existing_pods() -> None:
    berth = Racks({"r1": 2, "r2": 3, "r3": 3, "r4": 1})
    berth.exist("existing1", "r2n1", "2")
    berth.exist("existing2", "r3n3", "1")
    berth.constrain("pg1", 3)
    berth.add(*plain("p1", "p2", "p3"))
    assert berth.racks_of("p1", "p2", "p3") == {"r2"}


def test_two_gangs_schedule_consecutively_each_on_a_separate_rack() -> None:
    berth = Racks({"r1": 3, "r2": 2})
    berth.constrain("pg1", 3)
    berth.add(*large("p1", "p2", "p3"))
    berth.constrain("pg2", 2)
    berth.add(*plain("p4", "p5", group="pg2"))
    assert berth.racks_of("p1", "p2", "p3") == {"r1"}
    assert berth.racks_of("p4", "p5") == {"r2"}


def test_two_gangs_schedule_consecutively_both_on_the_same_rack() -> None:
    berth = Racks({"r1": 3, "r2": 1})
    berth.constrain("pg1", 2)
    berth.constrain("pg2", 3)
    berth.add(*large("p1"), *plain("p2"), *plain("p3", "p4", "p5", group="pg2"))
    assert berth.racks_of("p1", "p2") == {"r1"}
    assert berth.racks_of("p3", "p4", "p5") == {"r1"}


def test_two_gangs_schedule_consecutively_different_topology_keys() -> None:
    berth = Racks({"r1": 2, "r2": 1, "r3": 3}, {"r3": "z2"})
    berth.constrain("pg1", 3)
    berth.add(*large("p1", "p2", "p3"))
    berth.constrain("pg2", 3, "zone")
    berth.add(*large("p4", "p5", "p6", group="pg2"))
    assert berth.racks_of("p1", "p2", "p3") == {"r3"}
    assert berth.racks_of("p4", "p5", "p6") == {"r1", "r2"}


def test_two_gangs_schedule_consecutively_only_one_fits_in_the_cluster() -> None:
    berth = Racks({"r1": 2})
    berth.constrain("pg1", 3)
    berth.add(*plain("p1", "p2", "p3"))
    berth.constrain("pg2", 2)
    berth.add(*plain("p4", "p5", group="pg2"))
    assert berth.racks_of("p1", "p2", "p3") == {"r1"}
    assert berth.waiting() == {"p4", "p5"}


def test_gang_with_min_count_below_pod_count_schedules_on_a_single_rack() -> None:
    berth = Racks({"r1": 2, "r2": 2})
    berth.constrain("pg1", 2)
    berth.add(*plain("p1", "p2", "p3"))
    assert len(berth.racks_of("p1", "p2", "p3")) == 1


def test_gang_with_min_count_below_pod_count_chooses_the_smaller_rack_and_stays_there() -> None:
    berth = Racks({"r1": 3, "r2": 2, "r3": 1})
    berth.constrain("pg1", 3)
    berth.add(*plain("p1", "p2", "p3"))
    berth.add(*plain("p4"))
    assert berth.racks_of("p1", "p2", "p3", "p4") == {"r2"}
    berth.add(*plain("p5"))
    assert berth.waiting() == {"p5"}


def test_gang_does_not_schedule_on_a_single_rack_when_preemption_could_free_up_resources() -> None:
    berth = Racks({"r1": 2})
    low = make_pod("low", uid="uid-low", node_name="r1n2", cpu="2", memory=None, priority=10)
    berth.add_pod(low)
    berth.constrain("pg1", 3)
    berth.add(*plain("p1", "p2", "p3"))
    assert berth.waiting() == {"p1", "p2", "p3"}
    assert not berth.evicted
    assert "preemption: not eligible due to placement-based pod group scheduling limitation" in (
        berth.told("p3")
    )


# Basic policy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("racks", [{"r1": 2}, {"r1": 2, "r2": 2, "r3": 2}])
def test_basic_podgroup_schedules_all_pods_on_a_single_rack(racks: dict[str, int]) -> None:
    berth = Racks(racks)
    berth.constrain("pg1")
    berth.add(*plain("p1", "p2", "p3"))
    assert len(berth.racks_of("p1", "p2", "p3")) == 1


def test_basic_podgroup_cannot_fit_on_a_single_rack_no_pods_get_scheduled_on_a_different_rack() -> (
    None
):
    berth = Racks({"r1": 1, "r2": 1})
    berth.constrain("pg1")
    berth.add(*plain("p1", "p2", "p3"))
    assert len(berth.bound) == 2
    assert len(berth.racks_of(*berth.bound_names())) == 1
    assert len(berth.waiting()) == 1


def test_basic_podgroup_does_not_schedule_at_all_when_no_pods_fit() -> None:
    berth = Racks({"r1": 1, "r2": 1})
    berth.constrain("pg1")
    berth.add(*gang("p1", "p2", cpu="3"))
    assert berth.waiting() == {"p1", "p2"}


def test_basic_podgroup_schedules_only_some_pods_when_others_do_not_fit_on_any_node() -> None:
    berth = Racks({"r1": 1, "r2": 1})
    berth.constrain("pg1")
    berth.add(*plain("p1"), *gang("p2", cpu="3"))
    assert berth.bound_names() == {"p1"}
    assert berth.waiting() == {"p2"}


def test_basic_podgroup_chooses_the_highest_allocation_percentage() -> None:
    berth = Racks({"r1": 2, "r2": 3})
    berth.constrain("pg1")
    berth.add(*plain("p1", "p2", "p3"))
    assert berth.racks_of("p1", "p2", "p3") == {"r1"}


def test_basic_podgroup_chooses_the_highest_allocation_percentage_with_pre_existing_pods() -> None:
    berth = Racks({"r1": 3, "r2": 3, "r3": 4})
    berth.exist("existing1", "r1n1", "1")
    berth.exist("existing2", "r2n2", "1")
    berth.exist("existing3", "r2n3", "1")
    berth.constrain("pg1")
    berth.add(*plain("p1", "p2", "p3"))
    assert berth.racks_of("p1", "p2", "p3") == {"r2"}


def test_basic_podgroup_chooses_the_best_scoring_placement_that_will_not_fit_all_podgroup() -> None:
    berth = Racks({"r1": 4, "r2": 1})
    berth.exist("existing1", "r1n1", "2")
    berth.constrain("pg1")
    berth.add(*plain("p1"))
    berth.add(*plain("p2", "p3"))
    assert berth.racks_of("p1", "p2") == {"r2"}
    assert berth.waiting() == {"p3"}


def test_two_basic_podgroups_schedule_consecutively_each_on_a_single_rack() -> None:
    berth = Racks({"r1": 3, "r2": 1})
    berth.constrain("pg1")
    berth.add(*plain("p1", "p2"))
    berth.constrain("pg2")
    berth.add(*plain("p3", "p4", group="pg2"))
    assert berth.racks_of("p1", "p2") == {"r2"}
    assert berth.racks_of("p3", "p4") == {"r1"}


def test_two_basic_podgroups_schedule_consecutively_on_the_only_rack() -> None:
    berth = Racks({"r1": 3})
    berth.constrain("pg1")
    berth.constrain("pg2")
    berth.add(*plain("p1", "p2"), *plain("p3", "p4", "p5", group="pg2"))
    assert berth.racks_of("p1", "p2", "p3", "p4", "p5") == {"r1"}


def test_two_basic_podgroups_schedule_consecutively_different_topology_keys() -> None:
    berth = Racks({"r1": 1, "r2": 2, "r3": 2}, {"r2": "z2", "r3": "z2"})
    berth.constrain("pg1")
    berth.add(*plain("p1", "p2"))
    berth.constrain("pg2", key="zone")
    berth.add(*large("p3", "p4", "p5", group="pg2"))
    assert berth.racks_of("p1", "p2") == {"r1"}
    assert berth.racks_of("p3", "p4", "p5") == {"r2", "r3"}


def test_two_basic_podgroups_schedule_consecutively_one_does_not_fit_in_the_assigned_rack() -> None:
    berth = Racks({"r1": 2, "r2": 1})
    berth.constrain("pg1")
    berth.add(*plain("p1"))
    berth.add(*plain("p2", "p3"))
    assert berth.racks_of("p1", "p2") == {"r2"}
    assert berth.waiting() == {"p3"}
    berth.constrain("pg2")
    berth.add(*plain("p4", "p5", "p6", group="pg2"))
    assert berth.racks_of("p4", "p5", "p6") == {"r1"}


def test_basic_podgroup_continues_to_schedule_pods_when_more_resources_become_available() -> None:
    berth = Racks({"r1": 1, "r2": 1})
    blocker = berth.exist("existing1", "r1n1", "1")
    berth.constrain("pg1")
    berth.add(*plain("p1"))
    berth.add(*plain("p2"))
    assert berth.racks_of("p1") == {"r1"}
    assert berth.waiting() == {"p2"}
    berth.delete_pod(blocker)
    berth.wait()
    assert berth.racks_of("p1", "p2") == {"r1"}


# Errors and edges --------------------------------------------------------------------------------


def test_no_node_with_the_label_is_no_placement() -> None:
    berth = Racks({"r1": 1})
    berth.constrain("pg1", 1, "block")
    berth.add(*gang("p1", cpu="1", nominated_node_name="r1n1"))
    assert berth.told("p1") == "no feasible placements found"
    assert berth.condition("pg1") == (False, "Unschedulable", "no feasible placements found")
    assert (
        not berth.nominated
    )  # It stays as it is (submitPodGroupAlgorithmResult: no NominatingInfo).


def test_nobody_goes_for_pods_of_a_group_with_constraints_that_name_no_key() -> None:
    berth = Racks({"r1": 1})
    berth.exist("low", "r1n1", "2")
    berth.add_group("pg1", 1, schedulingConstraints={})
    berth.add(*gang("p1", cpu="1", priority=200))
    assert berth.told("p1").endswith(f"preemption: {NOT_ELIGIBLE}")
    assert not berth.evicted


def test_pods_in_two_racks_already_are_an_error() -> None:
    berth = Racks({"r1": 1, "r2": 1})
    for number, node in enumerate(("r1n1", "r2n1")):
        berth.add_pod(gang(f"e{number}", cpu="1", node_name=node)[0])
    berth.constrain("pg1", 1)
    berth.add(*plain("p1"))
    told = f"{UNKNOWN}: more than 1 domain found for pod group: r1, r2"
    assert berth.told("p1") == told
    assert berth.condition("pg1") == (False, "SchedulerError", told)
    assert berth.attempts() == {"error": 1}


def test_a_group_without_a_constraint_has_one_placement() -> None:
    berth = Racks({"r1": 1, "r2": 1})
    berth.add_group("pg1", 4)
    berth.add(*plain("p1", "p2", "p3", "p4"))
    assert berth.racks_of("p1", "p2", "p3", "p4") == {"r1", "r2"}
    berth.add_group("pg2", 1)
    berth.add(*plain("q1", group="pg2"))
    assert berth.condition("pg2")[2] == f"0/1 {NONE_FIT}"


# TestGeneratePlacements in plugins/topologyaware/topology_placement_test.go, those that are not above


def test_with_topology_key_constraint_returns_placement_for_each_topology_domain() -> None:
    """Nodes without the label are in none."""
    berth = Racks({"r1": 2, "r2": 1, "r3": 1})
    berth.add_node(make_node("no-rack", cpu="100", labels={"block": "r1"}))
    berth.constrain("pg1", 5)
    berth.add(*plain("p1", "p2", "p3", "p4", "p5"))
    assert not berth.bound
    assert berth.condition("pg1")[2] == f"0/3 {NONE_FIT}"


def test_with_pods_already_scheduled_in_a_single_domain_returns_that_domain() -> None:
    berth = Racks({"r1": 1, "r2": 2})
    berth.add_pod(gang("e1", node_name="r1n1")[0])
    berth.constrain("pg1", 3)
    berth.add(*plain("p1", "p2"))
    assert berth.waiting() == {"p1", "p2"}
    assert berth.condition("pg1")[2] == f"0/1 {NONE_FIT}"
    berth.add_node(make_node("r1n2", cpu="2", labels={"rack": "r1"}))
    berth.rack_of["r1n2"] = "r1"
    berth.wait()
    assert berth.racks_of("p1", "p2") == {"r1"}


@pytest.mark.parametrize(
    "is_there",
    [
        pytest.param(False, id="with already scheduled pod on node outside of snapshot"),
        pytest.param(True, id="with already scheduled pod on node without topology label"),
    ],
)
def test_a_node_of_which_the_domain_is_not_known_is_an_error(is_there: bool) -> None:
    berth = Racks({"r1": 1})
    if is_there:
        berth.add_node(make_node("elsewhere", labels={"foo": "bar"}))
    berth.add_pod(gang("e1", node_name="elsewhere")[0])
    berth.constrain("pg1", 1)
    berth.add(*plain("p1"))
    told = (
        f'{UNKNOWN}: getting node for pod default/e1: nodeinfo not found for node name "elsewhere"'
    )
    if is_there:
        told = f"{UNKNOWN}: no topology domain found for pod default/e1"
    assert berth.condition("pg1") == (False, "SchedulerError", told)


# TestPodGroupSchedulingPlacementAlgorithm_Scoring: see test_registry.py for where weights are from ---


@pytest.mark.parametrize(
    ("weights", "rack"),
    [
        pytest.param((1, 2), "r1", id="respects higher score of placement1"),
        pytest.param((2, 1), "r2", id="respects higher score of placement2"),
    ],
)
def test_scores_of_placements_are_weighted(weights: tuple[int, int], rack: str) -> None:
    """On one rack two of three pods fit, and it is full then; on the other all, and half of it is."""
    berth = Racks({"r1": 1, "r2": 3})
    for each in berth.frameworks.values():
        weight_of = dict(zip(("PodGroupPodsCount", "NodeResourcesFit"), weights, strict=True))
        each.placement_scores = tuple(
            (plugin, weight_of[plugin.NAME]) for plugin, _ in each.placement_scores
        )
    berth.constrain("pg1", 2)
    berth.tell(*(PodChanged(pod) for pod in plain("p1", "p2", "p3")))
    berth.settle()
    assert berth.racks_of(*berth.bound_names()) == {rack}


# Generated ---------------------------------------------------------------------------------------


class Counted:
    """One scenario of equal pods, decided by counting: what each rack takes, and its score."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.racks = {f"r{number}": rng.randint(1, 3) for number in range(rng.randint(1, 4))}
        self.used = {
            f"{rack}n{number}": rng.choice((0, 0, 0, 1, 2))
            for rack, count in self.racks.items()
            for number in range(1, count + 1)
        }
        self.cpu = rng.choice((1, 1, 2))
        self.pod_count = rng.randint(1, 7)
        self.min_count = rng.choice((0, rng.randint(1, self.pod_count)))

    def _rack(self, node: str) -> str:
        return node.partition("n")[0]

    def best(self) -> tuple[set[str], int]:
        """The racks that it may go to, and how many pods find a node there."""
        room = Counter[str]()
        used = Counter[str]()
        for node, cpu in self.used.items():
            room[self._rack(node)] += (2 - cpu) // self.cpu
            used[self._rack(node)] += cpu
        found = {rack: min(self.pod_count, room[rack]) for rack in self.racks}
        possible = {r: n for r, n in found.items() if n >= max(1, self.min_count)}
        if not possible:
            return set(), 0
        scores: dict[str, int] = {}
        for rack, count in possible.items():
            size = 2 * self.racks[rack]
            cpu_share = (used[rack] + count * self.cpu) * 100 // size
            memory = (self._existing(rack) + count) * (200 << 20) * 100
            memory_share = memory // (self.racks[rack] * (32 << 30))
            share = (cpu_share + memory_share) // 2
            scores[rack] = count * 100 // max(possible.values()) + share
        best = max(scores.values())
        racks = {rack for rack, score in scores.items() if score == best}
        return racks, max(possible[rack] for rack in racks)

    def _existing(self, rack: str) -> int:
        return sum(cpu > 0 for node, cpu in self.used.items() if self._rack(node) == rack)


@pytest.mark.parametrize("first", range(0, 320, 40))
@pytest.mark.parametrize("is_foreseen", [True, False])
def test_generated_groups_go_where_counting_says(
    first: int, is_foreseen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_foreseen:  # Every placement is tried, as upstream does.
        monkeypatch.setattr("workers.scorer.group_cycle.room_by_row", lambda *_: None)
    placed_count = 0
    for seed in range(first, first + 40):
        scenario = Counted(seed)
        berth = Racks(scenario.racks)
        for node, cpu in scenario.used.items():
            if cpu:
                berth.exist(f"e-{node}", node, str(cpu))
        berth.constrain("pg1", scenario.min_count)
        pods = gang(*(f"p{n}" for n in range(scenario.pod_count)), cpu=str(scenario.cpu))
        berth.tell(*(PodChanged(pod) for pod in pods))  # At once: all are tried together.
        berth.settle()
        bound = berth.bound_names()
        racks, count = scenario.best()
        told = f"seed {seed}"
        assert len(bound) == count, told
        assert berth.racks_of(*bound) <= racks, told
        placed_count += bool(bound)
    assert 0 < placed_count < 40


# Nested topology keys: berth's own --------------------------------------------------------------


def nest(berth: Racks, name: str, min_count: int, keys: str, last: str = "") -> None:
    topology = {"schedulingConstraints": {"topology": [{"key": last}]}} if last else {}
    berth.add_group(name, min_count, annotations={"berth.dev/topology-keys": keys}, **topology)


ZONES: Final = {"r1": "z1", "r2": "z1", "r3": "z2", "r4": "z2"}


def test_the_narrowest_key_that_has_room_is_taken() -> None:
    berth = Racks({"r1": 1, "r2": 2, "r3": 3, "r4": 1}, ZONES)
    nest(berth, "pg1", 3, "rack", "zone")
    berth.add(*large("p1", "p2", "p3"))
    assert berth.racks_of("p1", "p2", "p3") == {"r3"}


def test_where_no_rack_has_room_a_zone_has_to_do() -> None:
    berth = Racks({"r1": 1, "r2": 2, "r3": 3, "r4": 1}, ZONES)
    nest(berth, "pg1", 4, "rack, zone")
    berth.add(*large("p1", "p2", "p3", "p4"))
    assert berth.racks_of("p1", "p2", "p3", "p4") == {"r3", "r4"}


def test_the_last_key_has_to_do_and_says_what_is_lacking() -> None:
    berth = Racks({"r1": 1, "r2": 2, "r3": 3, "r4": 1}, ZONES)
    nest(berth, "pg1", 5, "rack", "zone")
    berth.add(*large("p1", "p2", "p3", "p4", "p5"))
    assert not berth.bound_names()
    assert berth.condition("pg1")[2] == f"0/2 {NONE_FIT}"
    assert berth.lack("pg1") == "4 of 5 members fit in zone z2; 1 need 2 cpu each"


def test_a_rack_that_reaches_over_two_zones_is_in_neither() -> None:
    berth = Racks({"r1": 1, "r2": 2}, {"r1": "z1", "r2": "z1"})
    berth.add_node(make_node("far", cpu="2", labels={"rack": "r2", "zone": "z2"}))
    nest(berth, "pg1", 3, "rack", "zone")
    berth.add(*large("p1", "p2", "p3"))
    assert berth.racks_of("p1", "p2", "p3") == {"r1", "r2"}


def test_pods_that_come_later_stay_in_the_rack_or_at_least_in_the_zone() -> None:
    berth = Racks({"r1": 2, "r2": 3, "r3": 3}, {**ZONES, "r2": "z1"})
    nest(berth, "pg1", 2, "rack", "zone")
    berth.add(*large("p1", "p2"))
    assert berth.racks_of("p1", "p2") == {"r1"}
    berth.add(*large("p3"))
    assert berth.racks_of("p3") == {"r2"}
    berth.add(*large("p4"))
    assert berth.racks_of("p4") == {"r2"}


@pytest.mark.parametrize(("keys", "count"), [("rack", 2), ("rack,zone", 5), ("rack", 3)])
def test_of_many_racks_only_the_winner_is_tried(
    keys: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room of all of them is counted in one pass; also where none takes the group."""
    tried = 0
    place = Cycle._place_group

    def placed(*arguments: Any) -> Any:
        nonlocal tried
        tried += 1
        return place(*arguments)

    monkeypatch.setattr(Cycle, "_place_group", placed)
    zones = {f"r{number}": f"z{number % 10}" for number in range(200)}
    berth = Racks(dict.fromkeys(zones, 1), zones)
    nest(berth, "pg1", count, keys)
    berth.tell(*(PodChanged(pod) for pod in plain(*(f"p{n}" for n in range(count)))))
    berth.settle()
    assert tried == 1
    assert len(berth.bound_names()) == (0 if (keys, count) == ("rack", 3) else count)


@pytest.mark.usefixtures("classes_go_with_their_pods")
def test_a_class_that_is_gone_is_forgotten_for_all_nodes_though_a_group_looks_at_some() -> None:
    berth = Racks({"r1": 1, "r2": 1})
    (pod,) = plain("lone", group="")
    berth.add(pod)
    scorer = berth.scorers[0]
    (class_id,) = scorer.replica.classes
    berth.delete_pod(pod)
    berth.advance(LATE_S)
    berth.settle()
    assert scorer.replica.newly_retired == [class_id]
    berth.constrain("pg1", 2)
    berth.add(*plain("p1", "p2"))
    assert len(berth.racks_of("p1", "p2")) == 1
    assert class_id not in scorer.cycle._engine.evaluations
