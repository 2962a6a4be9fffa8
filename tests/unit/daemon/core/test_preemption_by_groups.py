"""Room for a group as a whole: upstream's cases by name, then what is berth's own.

The first part mirrors TestPodGroupPreemption in
test/integration/scheduler/preemption/podgrouppreemption_test.go of v1.36.2: pods ask for 1 cpu if
nothing else is said, nodes have what upstream's have. The second mirrors
TestRunWorkloadAwarePreemption in pkg/scheduler/schedule_one_podgroup_test.go.
"""

import random
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import pytest

from daemon.core.pod_groups import NO_PREEMPTION, NOT_WITH_CONSTRAINTS
from daemon.core.queue.queued_pod import Place
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import PermitResult, PreScoreResult
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.profiles import PluginSet
from shared.framework.status import SUCCESS, Code, Status
from shared.kube.pod_group_rules import ELASTIC
from shared.kube.pod_record import PodRecord
from shared.messages.to_owner import ObjectDeleted, PodChanged, PodDeleted
from shared.plugin_names import DEFAULT_PREEMPTION
from shared.plugins.resources.node_resources_fit import NodeResourcesFit
from tests.support.builders import make_node
from tests.unit.daemon.core.test_faults_of_one_pod import BAD
from tests.unit.daemon.core.test_pod_groups import Gangs, gang, lone, member
from tests.unit.daemon.core.test_waiting_pods import Asks
from workers.scorer.group_cycle import NO_PLACEMENTS

PREEMPTING: Final = frozenset({"default-scheduler"})
WHOLE: Final = {"disruptionMode": "PodGroup"}
FAILED: Final = "pod group is unschedulable"
FOO: Final = {"app": "foo"}


class Preempting(Gangs):
    """With the gate WorkloadAwarePreemption."""

    def __init__(self, *cpus: str, **more: Any) -> None:
        nodes = [make_node(f"node{number}", cpu=cpu) for number, cpu in enumerate(cpus, 1)]
        super().__init__(nodes, preempting=more.pop("preempting", PREEMPTING), **more)
        self.ordered: list[tuple[str, str, bool]] = []

    def group(self, name: str, min_count: int, priority: int, **spec: Any) -> None:
        self.add_group(name, min_count, priority=priority, **spec)

    def add_at_once(self, *pods: PodRecord) -> None:
        self.tell(*(PodChanged(pod) for pod in pods))
        self.settle()

    def step_victim(self, *, fails: bool = False, lingers: bool = False) -> bool:
        if self.victims:
            order = self.victims[0]
            self.ordered.append((order.name, order.preemptor_uid, order.is_for_group))
        return super().step_victim(fails=fails, lingers=lingers)

    def until_ordered(self) -> None:
        """Somebody is to go."""
        while not self.victims:
            assert self.step_owner() or self.step_scorer(0)

    def kept_out(self) -> set[str]:
        """Pods that are not tried while victims are asked to go."""
        return {pod.record.name for pod in self.state.queue if pod.gated_by == DEFAULT_PREEMPTION}

    def gone(self) -> set[str]:
        return {self._name(uid) for uid in self.evicted}

    def until_placed(self, *names: str) -> None:
        for _ in range(6):
            self.wait()
        assert set(names) <= self.bound_names()


def low(*names: str, priority: int = 10, cpu: str = "1", **more: Any) -> list[PodRecord]:
    return [member(n, "", cpu=cpu, uid=f"uid-{n}", priority=priority, **more) for n in names]


def high(*names: str, cpu: str = "1", priority: int = 100) -> list[PodRecord]:
    return gang(*names, cpu=cpu, priority=priority)


HIGHS: Final = ("high-1", "high-2", "high-3")
LOWS: Final = ("low-1", "low-2", "low-3")


# Upstream's cases --------------------------------------------------------------------------------


@pytest.mark.parametrize("min_count", [3, 0])
def test_full_pod_group_preemption_also_for_basic_policy(min_count: int) -> None:
    berth = Preempting("3")
    berth.group("pg1", min_count, 100)
    berth.add(*low(*LOWS))
    berth.add_at_once(*high(*HIGHS))
    # With the basic policy one pod that finds room is enough: one goes at a time.
    assert len(berth.gone()) == (3 if min_count else 1)
    berth.until_placed(*HIGHS)
    assert berth.gone() == set(LOWS)


def test_partial_preemption() -> None:
    berth = Preempting("2", "2")
    berth.group("pg1", 3, 100)
    berth.add(*low("low-1", cpu="2", node_name="node1"), *low("low-2", node_name="node2"))
    berth.add_at_once(*high(*HIGHS))
    assert berth.gone() == {"low-1"}
    berth.until_placed(*HIGHS)
    assert berth.ordered == [("low-1", "uid-pg1", True)]


def test_pdb_violation_handling_reprieve() -> None:
    berth = Preempting("3")
    berth.group("pg1", 2, 100)
    berth.add(*low("low-1", "low-2", labels=FOO), *low("low-3"))
    budget = {
        "metadata": {"name": "foo-pdb", "namespace": "default"},
        "spec": {"selector": {"matchLabels": FOO}},
        "status": {"disruptionsAllowed": 0},
    }
    berth.tell_object("poddisruptionbudgets", "default/foo-pdb", budget)
    berth.add_at_once(*high("high-1", "high-2", cpu="500m"))
    assert berth.gone() == {"low-3"}
    berth.until_placed("high-1", "high-2")


def test_multi_node_preemption() -> None:
    berth = Preempting("2", "2")
    berth.group("pg1", 4, 100)
    berth.add(*low("low-1", "low-2", node_name="node1"), *low("low-3", "low-4", node_name="node2"))
    berth.add_at_once(*high(*HIGHS, "high-4"))
    assert berth.gone() == {*LOWS, "low-4"}
    berth.until_placed(*HIGHS, "high-4")


def test_insufficient_resources_no_preemption() -> None:
    berth = Preempting("3")
    berth.group("pg1", 3, 100)
    berth.add(*low("mid-1", priority=500), *low("low-1", "low-2"))
    berth.add_at_once(*high(*HIGHS))
    berth.wait()
    assert not berth.gone()
    assert berth.waiting() == set(HIGHS)
    assert berth.condition("pg1") == (False, "Unschedulable", f"{FAILED}, {FAILED}")


def test_priority_based_victim_selection() -> None:
    berth = Preempting("3")
    berth.group("pg1", 2, 100)
    berth.add(*low("mid-1", priority=50), *low("low-1", "low-2"))
    berth.add_at_once(*high("high-1", "high-2"))
    assert berth.gone() == {"low-1", "low-2"}
    berth.until_placed("high-1", "high-2", "mid-1")


@pytest.mark.parametrize("min_count", [3, 0])
def test_preempt_the_whole_pod_group_even_if_a_single_pod_would_suffice(min_count: int) -> None:
    berth = Preempting("3")
    berth.group("pg1", 1, 100)
    berth.group("pg2", min_count, 10, **WHOLE)
    berth.add_at_once(*gang(*LOWS, group="pg2", priority=10))
    berth.add(*high("high-1"))
    assert berth.gone() == set(LOWS)
    berth.until_placed("high-1")


def test_priority_divergence_preemptor_group_has_higher_priority_than_the_victim_group() -> None:
    berth = Preempting("3")
    berth.group("pg1", 1, 100)
    berth.group("pg2", 3, 10, **WHOLE)
    berth.add_at_once(*gang(*HIGHS, group="pg2", priority=100))
    berth.add(*high("low-1", priority=10))
    assert berth.gone() == set(HIGHS)
    berth.until_placed("low-1")


def test_priority_divergence_preemptor_group_has_too_low_priority() -> None:
    berth = Preempting("3")
    berth.group("pg1", 1, 10)
    berth.group("pg2", 3, 100, **WHOLE)
    berth.add_at_once(*gang(*LOWS, group="pg2", priority=10))
    berth.add(*high("high-1"))
    assert not berth.gone()
    assert berth.condition("pg1") == (
        False,
        "Unschedulable",
        f"{FAILED}, No preemption victims found for incoming preemptor",
    )


def test_preemptor_pod_without_pod_group_does_not_respect_the_disruption_mode() -> None:
    berth = Preempting("3")
    berth.group("pg1", 1, 10, **WHOLE)
    for number, name in enumerate(LOWS):
        berth.add(member(name, "pg1", uid=f"uid-{name}", priority=30 - 10 * number))
    berth.add(lone("high-1", "1"))
    assert berth.gone() == {"low-3"}
    assert berth.ordered == [("low-3", "uid-high-1", False)]


# TestRunWorkloadAwarePreemption ------------------------------------------------------------------


def test_no_pod_group_post_filter_plugin_is_registered() -> None:
    berth = Preempting("1", preempting=frozenset())
    berth.group("pg1", 1, 100)
    berth.add(*low("low-1"))
    berth.add(*high("high-1"))
    assert not berth.gone()
    assert berth.condition("pg1")[2] == f"{FAILED}, {NO_PREEMPTION}"


@pytest.mark.parametrize("preempting", [PREEMPTING, frozenset()])
def test_error_when_pod_group_is_not_found(preempting: frozenset[str]) -> None:
    """But where no plugin is registered: that is asked first."""
    berth = Preempting("1", preempting=preempting)
    berth.group("pg1", 1, 100)
    berth.add(*low("low-1"))
    berth.add_pod(high("high-1")[0])
    berth.tell(ObjectDeleted("podgroups", "default/pg1"))
    berth.settle()
    assert not berth.gone()
    told = 'failed to get pod group object: podgroup.scheduling.k8s.io "pg1" not found'
    assert (berth.told("high-1") == told) == bool(preempting)


def test_pod_group_has_scheduling_constraints() -> None:
    berth = Preempting("1", has_placements=True)
    berth.group("pg1", 1, 100, schedulingConstraints={"topology": [{"key": "rack"}]})
    berth.add_node(make_node("racked", cpu="1", labels={"rack": "r1"}))
    berth.add(*low("low-1", "low-2"))
    berth.add(*high("high-1"))
    assert not berth.gone()
    first = "0/1 placements are available, first placement status"
    assert berth.condition("pg1")[2] == f"{first}: {FAILED}, {NOT_WITH_CONSTRAINTS}"


@pytest.mark.parametrize("key", ["", "rack"])
def test_with_placements_what_is_said_of_preemption_is_added_to_what_is_said_of_them(
    key: str,
) -> None:
    """Twice, where they take the group even without its victims no more than before; pods that were
    not looked at are told as much."""
    topology = [{"key": key}] if key else []
    berth = Preempting("1", has_placements=True)
    berth.group("pg1", 2, 100, schedulingConstraints={"topology": topology})
    berth.add(*low("low-1"))
    berth.add_at_once(*high("high-1", "high-2"))
    none_fit = f"0/1 placements are available, first placement status: {FAILED}"
    no_rack = f"{NO_PLACEMENTS}, {NOT_WITH_CONSTRAINTS}"
    assert berth.condition("pg1")[2] == (no_rack if key else f"{none_fit}, {none_fit}")
    assert (berth.told("high-1") == no_rack) == bool(key)
    assert not berth.gone()


def test_a_pod_that_never_preempts_keeps_its_whole_group_from_it() -> None:
    berth = Preempting("2")
    berth.group("pg1", 2, 100)
    berth.add(*low("low-1", "low-2"))
    never = member(
        "high-2", "pg1", uid="uid-high-2", priority=100, spec={"preemptionPolicy": "Never"}
    )
    berth.add_at_once(*high("high-1"), never)
    assert not berth.gone()
    assert berth.condition("pg1")[2] == f"{FAILED}, not eligible due to preemptionPolicy=Never."


# Pods with a SchedulingGroup in TestPostFilter, plugins/defaultpreemption/default_preemption_test.go ---

ALONE: Final = [("low-1", "uid-high-1", False)]
TOGETHER: Final = [("low-1", "uid-pg1", True)]
PLACED: Final = "preemption: not eligible due to placement-based pod group scheduling limitation"
BY_GROUP: Final = "preemption: not eligible due to workload aware preemption enabled"
ON_A_RACK: Final = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}


@pytest.mark.parametrize(
    ("gates", "spec", "ordered", "told"),
    [
        pytest.param(
            "TAS", ON_A_RACK, [], PLACED, id="TAS with scheduling constraint should not preempt"
        ),
        pytest.param(
            "TAS, WAP",
            ON_A_RACK,
            [],
            PLACED,
            id="TAS with scheduling constraint should not preempt even when WAP is enabled",
        ),
        pytest.param(
            "TAS", {}, ALONE, "", id="TAS without scheduling constraint enabled should preempt"
        ),
        pytest.param("TAS, WAP", {}, TOGETHER, BY_GROUP, id="TAS with WAP should not preempt"),
        pytest.param("WAP", {}, TOGETHER, BY_GROUP, id="WAP enabled should not preempt"),
        pytest.param("", {}, ALONE, "", id="TAS and WAP disabled should preempt"),
    ],
)
def test_pod_with_scheduling_group(
    gates: str, spec: dict[str, Any], ordered: list[tuple[str, str, bool]], told: str
) -> None:
    """Those that do not preempt are still pods for which their group may."""
    preempting = PREEMPTING if "WAP" in gates else None
    berth = Preempting(preempting=preempting, has_placements="TAS" in gates)
    berth.add_node(make_node("node1", cpu="1", labels={"rack": "r1"}))
    berth.group("pg1", 1, 100, **spec)
    berth.add(*low("low-1"))
    berth.add(*high("high-1"))
    assert berth.ordered == ordered
    assert berth.told("high-1").endswith(told)


# TestPreEnqueue beside it ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_async", "is_whole", "group", "is_kept_out"),
    [
        pytest.param(False, True, "pg1", False, id="AsyncPreemption disabled, returns nil"),
        pytest.param(True, True, "pg1", True, id="WAP enabled, pod in same PodGroup"),
        pytest.param(True, False, "pg1", False, id="WAP disabled, pod in same PodGroup"),
        pytest.param(True, True, "pg2", False, id="WAP enabled, pod in different PodGroup"),
        pytest.param(True, True, "", False, id="AsyncPreemption enabled, different pod"),
        pytest.param(True, True, "missing", False, id="WAP enabled, pod group not found"),
    ],
)
def test_pre_enqueue(is_async: bool, is_whole: bool, group: str, is_kept_out: bool) -> None:
    berth = Preempting("1", preempting=PREEMPTING if is_whole else None, preempts_async=is_async)
    for name in ("pg1", "pg2"):
        berth.group(name, 1, 100)
    berth.add(*low("low-1"))
    berth.add_pod(high("high-1")[0])
    berth.until_ordered()
    berth.add_pod(member("other", group, uid="uid-other", priority=100))
    queued = berth.state.queue.get("uid-other")
    assert queued is not None
    assert (queued.gated_by == DEFAULT_PREEMPTION) == is_kept_out


@pytest.mark.parametrize("gates", ["TAS", "TAS, WAP", ""])
def test_nobody_goes_for_a_pod_of_a_group_that_is_not_there_where_groups_have_placements(
    gates: str,
) -> None:
    """No plugin looks at the group before: GangScheduling and TopologyPlacementGenerator are off."""
    off: dict[str, Any] = {"has_gates": False, "has_quorums": False, "places": False}
    preempting = PREEMPTING if "WAP" in gates else None
    berth = Preempting("1", preempting=preempting, has_placements="TAS" in gates, **off)
    berth.add(*low("low-1"))
    berth.add_at_once(*high("high-1"))
    if not gates:
        assert berth.gone() == {"low-1"}
        return
    assert not berth.gone()
    told = "preemption: pod group for pod not found"
    if "WAP" in gates:
        told = 'failed to get pod group object: podgroup.scheduling.k8s.io "pg1" not found'
    assert berth.told("high-1").endswith(told)


def test_who_is_not_kept_out_by_default_preemption_is_tried_while_its_victims_go() -> None:
    off = {"preEnqueue": PluginSet(disabled=[DEFAULT_PREEMPTION])}
    berth = Preempting("1", plugins=off)
    berth.group("pg1", 1, 100)
    berth.add(*low("low-1"))
    berth.add_pod(high("high-1")[0])
    berth.until_ordered()
    assert not berth.kept_out()


# framework/preemption/executor_test.go -----------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "is_running"),
    [
        pytest.param("none", False, id="preemptor not in preemptingSet"),
        pytest.param("there", True, id="victim in lastVictimSet and in PodLister"),
        pytest.param("gone", False, id="victim in lastVictimSet, not in PodLister"),
        pytest.param("going", False, id="victim in PodLister with deletion timestamp"),
    ],
)
def test_is_pod_group_running_preemption(state: str, is_running: bool) -> None:
    """Before the binder has said that it asked the last of two victims to go."""
    berth = Preempting("2")
    berth.group("pg1", 2, 100)
    victims = low("low-1", "low-2", node_name="node1")
    berth.add(*victims)
    pods = high("high-1", "high-2")
    berth.tell(*(PodChanged(pod) for pod in pods))
    if state != "none":
        berth.until_ordered()
        berth.step_victim()
        while berth.step_owner():
            pass
        (order,) = berth.victims
        (last,) = (victim for victim in victims if victim.uid == order.uid)
        going = msgspec.structs.replace(last, deleted="2026-01-01T00:00:00Z")
        if state == "gone":
            berth.tell(PodDeleted(last))
        elif state == "going":
            berth.tell(PodChanged(going))
    evictions = berth.state.evictions
    assert [evictions.holds_back(pod) for pod in pods] == [is_running] * 2


def test_failure_with_a_single_victim_for_pod_group() -> None:
    """TestAsyncPreemptionFailure: all of its pods are let in again; here after a back-off."""
    berth = Preempting("1")
    berth.group("pg1", 1, 100)
    berth.add(*low("low-1"))
    berth.tell(*(PodChanged(pod) for pod in high("high-1", "high-2", cpu="500m")))
    berth.until_ordered()
    assert berth.kept_out() == {"high-1", "high-2"}
    berth.step_victim(fails=True)
    berth.step_owner()
    assert {pod.place for pod in berth.state.queue} == {Place.BACKOFF}
    assert not berth.gone()
    berth.until_placed("high-1", "high-2")


class LowsWait(Asks):
    """A Permit plugin that lets pods of low priority wait."""

    def permit(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Any:
        return self.answer if pod.priority < 100 else PermitResult(SUCCESS)


@pytest.mark.parametrize(
    "is_waiting",
    [
        pytest.param(True, id="victim is in waiting pods, it should be rejected"),
        pytest.param(False, id="victim is not in waiting/preBind pods, pod should be deleted"),
    ],
)
def test_preempt_pod(is_waiting: bool) -> None:
    """TestPreemptPod with a pod group: who waits on Permit goes back to the queue, and the API server
    is asked for nothing (`is_given_up`)."""
    berth = Preempting("2", permit=[LowsWait("waits")])
    berth.group("pg1", 2, 100)
    berth.add_at_once(*low("low-1", "low-2", node_name="" if is_waiting else "node1"))
    assert berth.state.cache.is_assumed_pod("uid-low-1") == is_waiting
    berth.tell(*(PodChanged(pod) for pod in high("high-1", "high-2")))
    berth.until_ordered()
    orders = sorted((order.name, order.is_given_up) for order in berth.victims)
    assert orders == [("low-1", is_waiting), ("low-2", is_waiting)]
    berth.until_placed("high-1", "high-2")
    assert (berth.state.queue.get("uid-low-1") is not None) == is_waiting


# What is berth's own -----------------------------------------------------------------------------


def test_pods_are_told_of_the_group_those_that_found_a_place_are_nominated_to_it() -> None:
    berth = Preempting("2", "2")
    berth.group("pg1", 3, 100)
    berth.add(*low("low-1", cpu="2", node_name="node1"), *low("low-2", node_name="node2"))
    berth.add_at_once(*high(*HIGHS))
    assert berth.condition("pg1") == (False, "Unschedulable", FAILED)
    found = [name for name in HIGHS if berth.told(name) == FAILED]
    assert len(found) == 1
    assert berth.nominated[f"uid-{found[0]}"] == "node2"
    for name in set(HIGHS) - set(found):
        assert berth.told(name).endswith(
            "preemption: not eligible due to workload aware preemption enabled"
        )


@pytest.mark.usefixtures("all_labels_matter")
@pytest.mark.parametrize("order", ["good bad", "bad good"])
@pytest.mark.parametrize("needed", [1, 2])
def test_nobody_goes_where_a_member_fails_once_they_are_gone(
    order: str, needed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate = NodeResourcesFit.pre_score

    def fail(plugin: NodeResourcesFit, pod: PodInfo, *more: Any) -> PreScoreResult:
        is_bad = pod.labels == BAD
        return PreScoreResult(Status(Code.ERROR, ("no",))) if is_bad else rate(plugin, pod, *more)

    monkeypatch.setattr(NodeResourcesFit, "pre_score", fail)
    berth = Preempting("2", "2")
    berth.group("pg1", needed, 100)
    berth.add(*low("low-1", "low-2", cpu="2"))
    labels = {"good": None, "bad": BAD}
    pods = [gang(name, priority=100, labels=labels[name])[0] for name in order.split()]
    berth.tell(*(PodChanged(pod) for pod in pods))
    while berth.step_owner() or berth.step_scorer(0):
        pass
    assert not berth.victims
    _, reason, told = berth.condition("pg1")
    assert reason == "SchedulerError"
    assert told.startswith("failed to schedule other pod from a pod group: ")
    assert [berth.told(name) for name in ("good", "bad")] == [told, told]


def test_a_group_whose_victims_linger_is_not_tried_in_vain() -> None:
    berth = Preempting("3")
    berth.group("pg1", 3, 100)
    berth.add(*low(*LOWS))
    for pod in high(*HIGHS):
        berth.add_pod(pod)
    berth.until_ordered()
    attempts = {pod.record.name: pod.attempts for pod in berth.state.queue}
    berth.advance(30.0)
    berth.handle()
    assert {pod.record.name: pod.attempts for pod in berth.state.queue} == attempts
    berth.settle()
    berth.until_placed(*HIGHS)


def test_a_victim_that_cannot_be_deleted_has_the_group_tried_again() -> None:
    berth = Preempting("1")
    berth.group("pg1", 1, 100)
    berth.add(*low("low-1"))
    berth.add_pod(high("high-1")[0])
    berth.until_ordered()
    berth.step_victim(fails=True)
    berth.settle()
    berth.wait()
    assert berth.gone() == {"low-1"}
    berth.until_placed("high-1")


def test_nobody_goes_when_room_was_taken_since_the_worker_looked() -> None:
    berth = Preempting("2")
    berth.group("pg1", 2, 100)
    berth.add(*low("low-1"))
    for pod in high("high-1", "high-2"):
        berth.add_pod(pod)
    while berth.step_scorer(0):
        pass
    taken = low("foreign", priority=1000, node_name="node1")
    berth.add_pod(taken[0])
    berth.settle()
    assert not berth.gone()


def test_a_group_that_came_meanwhile_is_not_broken_by_who_saw_half_of_it() -> None:
    berth = Preempting("2", "2")
    berth.group("pg1", 1, 100)
    berth.group("pg2", 0, 10, **WHOLE)
    berth.add(*gang("low-1", "low-2", group="pg2", priority=10))
    berth.add_pod(high("high-1", cpu="2")[0])
    while berth.step_scorer(0):
        pass
    berth.add_pod(gang("low-3", group="pg2", priority=10, node_name="node2")[0])
    berth.settle()
    assert berth.gone() in (set(), set(LOWS))


class Counted:
    """Nodes of some cpu with pods of 1, and a gang of equal pods above some of them."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.cpus = [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]
        self.pods: dict[str, tuple[int, int]] = {}
        for node, cpu in enumerate(self.cpus):
            for number in range(rng.randint(0, cpu)):
                self.pods[f"v{node}-{number}"] = (node, rng.choice((10, 20, 500)))
        self.cpu = rng.choice((1, 1, 2))
        self.needed = rng.randint(1, max(1, sum(self.cpus) // self.cpu))

    def room(self, gone: Iterable[str]) -> int:
        left = list(self.cpus)
        for name, (node, _) in self.pods.items():
            left[node] -= name not in set(gone)
        return sum(cpu // self.cpu for cpu in left)

    def gone(self) -> set[str] | None:
        """None: it does not help."""
        if self.room(()) >= self.needed:
            return set()
        gone = {name for name, (_, priority) in self.pods.items() if priority < 100}
        if self.room(gone) < self.needed:
            return None
        lower = [name for name in self.pods if name in gone]
        for name in sorted(lower, key=lambda name: -self.pods[name][1]):
            if self.room(gone - {name}) >= self.needed:
                gone.discard(name)
        return gone


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_generated_gangs_have_those_go_that_counting_says(first: int) -> None:
    preempted_count = 0
    for seed in range(first, first + 20):
        case = Counted(seed)
        berth = Preempting(*map(str, case.cpus))
        berth.group("pg1", case.needed, 100)
        for name, (node, priority) in case.pods.items():
            berth.add_pod(low(name, priority=priority, node_name=f"node{node + 1}")[0])
        names = [f"g{number}" for number in range(case.needed)]
        berth.add_at_once(*high(*names, cpu=str(case.cpu)))
        expected = case.gone()
        assert berth.gone() == (expected or set()), f"seed {seed}"
        if expected is None:
            assert not berth.bound_names() & set(names)
        else:
            berth.until_placed(*names)
        preempted_count += bool(expected)
    assert preempted_count


# Elastic gangs ----------------------------------------------------------------------------------

ELASTIC_GANG: Final = {ELASTIC: "true"}


def training(name: str, *placed: tuple[str, str], priority: int = 10) -> list[PodRecord]:
    """Members on nodes, the oldest first."""
    pods = [
        member(pod, name, uid=f"uid-{pod}", node_name=node, priority=priority)
        for pod, node in placed
    ]
    return [
        msgspec.structs.replace(pod, started=f"2026-01-01T00:00:{age:02}Z")
        for age, pod in enumerate(pods)
    ]


@pytest.mark.parametrize("annotations", [ELASTIC_GANG, {}])
@pytest.mark.parametrize("preempting", [PREEMPTING, None])
def test_what_an_elastic_gang_has_above_its_quorum_goes_before_its_equals(
    annotations: dict[str, str], preempting: frozenset[str] | None
) -> None:
    berth = Preempting("2", "2", preempting=preempting)
    berth.group("train", 2, 10, annotations=annotations)
    berth.group("pg1", 1, 100)
    berth.add(*training("train", ("t1", "node1"), ("t2", "node2"), ("t3", "node1")))
    berth.add(*low("lone", node_name="node2"))  # Of no group, and started last.
    berth.add_at_once(*high("high-1"))
    assert berth.gone() == {"t3" if annotations else "lone"}
    berth.until_placed("high-1")


def test_an_elastic_gang_takes_what_there_is_and_gives_it_back_pod_by_pod() -> None:
    berth = Preempting("4")
    berth.group("train", 2, 10, annotations=ELASTIC_GANG)
    train = gang("t1", "t2", "t3", "t4", "t5", group="train", priority=10)
    berth.add_at_once(*train)
    assert berth.bound_names() == {"t1", "t2", "t3", "t4"}, "as room allows"
    berth.group("pg1", 2, 100)
    berth.add_at_once(*high("high-1", "high-2"))
    assert len(berth.gone()) == 2
    berth.until_placed("high-1", "high-2")
    berth.group("pg2", 1, 100)
    berth.add_at_once(*gang("late", group="pg2", priority=100))
    assert len(berth.gone()) == 3, "nobody else is left to go"
    berth.add_node(make_node("more", cpu="9"))
    berth.until_placed("t5")


def test_who_has_to_go_in_any_case_is_one_that_the_gang_can_do_without_no_more() -> None:
    berth = Preempting("1", "4")
    berth.group("one", 2, 10, annotations=ELASTIC_GANG)
    berth.group("other", 1, 10, annotations=ELASTIC_GANG)
    one = training("one", ("a1", "node1"), ("a2", "node2"), ("a3", "node2"))
    berth.add(*training("other", ("b1", "node2"), ("b2", "node2")), *one)
    berth.group("pg1", 2, 100)
    pinned = {"nodeSelector": {"kubernetes.io/hostname": "node1"}}
    first = member("high-1", "pg1", uid="uid-high-1", priority=200, spec=pinned)
    berth.add_at_once(first, *high("high-2"))
    assert berth.gone() == {"a1", "b2"}, "and not a3, the youngest"


def test_a_gang_that_goes_as_a_whole_is_not_elastic() -> None:
    berth = Preempting("3")
    berth.group("train", 2, 10, annotations=ELASTIC_GANG, **WHOLE)
    berth.add(*training("train", ("t1", "node1"), ("t2", "node1"), ("t3", "node1")))
    berth.group("pg1", 1, 100)
    berth.add_at_once(*high("high-1"))
    assert berth.gone() == {"t1", "t2", "t3"}


# Groups of other schedulers ---------------------------------------------------------------------


def test_groups_of_other_schedulers_are_as_important_as_their_least_important_pod() -> None:
    berth = Preempting("2", are_foreign=True)
    berth.add_group("pg1", 2)
    berth.add(*low("low-1", priority=50), *low("low-2", priority=60))
    (equal,) = high("high-2", priority=60)
    berth.add_at_once(*high("high-1"), equal)
    assert berth.gone() == set(), "who is as important as one of them stays"
    berth.delete_pod(equal)
    berth.add_at_once(*high("high-3", priority=61))
    berth.wait()
    assert berth.gone() == {"low-1", "low-2"}
    berth.until_placed("high-1", "high-3")


def test_a_group_of_kubernetes_that_has_no_priority_has_that_of_nobody() -> None:
    berth = Preempting("2")
    berth.add_group("pg1", 2)
    berth.add(*low("low-1", "low-2"))
    berth.add_at_once(*high("high-1", "high-2"))
    berth.wait()
    assert berth.gone() == set()
