"""Pod groups from their pods' arrival to bindings: upstream's cases by name, then what is berth's own.

The first part mirrors TestPodGroupScheduling in test/integration/scheduler/podgroup/podgroup_test.go,
v1.36.2: the same steps, with the owner's core and scorers in one process.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
import pytest

from daemon.core.cached_nodes import CachedPod
from daemon.core.events import Event
from daemon.core.owner_counts import Count
from daemon.core.pod_groups import GroupSettings, Unit
from daemon.core.queue.queued_pod import Place, QueuedPod
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import PermitResult
from shared.framework.pod_info import PodInfo
from shared.framework.status import SUCCESS, Code, Status
from shared.kube.api.core_v1 import Node
from shared.kube.api.scheduling_v1alpha2 import PodGroup
from shared.kube.pod_record import PodRecord
from shared.kube.resources import KINDS_BY_PLURAL
from shared.messages.to_binder import StatusPatch
from shared.messages.to_owner import ObjectChanged, ObjectDeleted, PodChanged
from shared.transport.heard import Said
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline

NO_QUORUM: Final = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)


def encoded(body: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.msgpack.encode(body))


def group_object(name: str, min_count: int = 0, **spec: Any) -> PodGroup:
    policy: dict[str, Any] = {"gang": {"minCount": min_count}} if min_count else {"basic": {}}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1}
    body = {
        "metadata": {**meta, "annotations": spec.pop("annotations", {})},
        "spec": {"schedulingPolicy": policy, **spec},
    }
    return msgspec.convert(body, PodGroup)


def member(name: str, group: str, cpu: str = "1", priority: int = 0, **more: Any) -> PodRecord:
    spec = {"schedulingGroup": {"podGroupName": group}, **more.pop("spec", {})}
    return make_pod(name, cpu=cpu, memory=None, priority=priority, spec=spec, **more)


class Gangs(Pipeline):
    """A pipeline with the gates on, and what upstream's steps wait for."""

    def __init__(
        self,
        nodes: list[Node] | None = None,
        worker_count: int = 1,
        schedulers: tuple[str, ...] = ("default-scheduler",),
        has_placements: bool = False,
        places: bool = True,
        preempting: frozenset[str] | None = None,
        are_foreign: bool = False,
        reservation_s: float = 0.0,
        is_on: bool = True,
        has_gates: bool = True,
        has_quorums: bool = True,
        **more: Any,
    ) -> None:
        placing = frozenset(schedulers if places else ()) if has_placements else None
        settings = GroupSettings(
            frozenset(schedulers if has_gates else ()),
            frozenset(schedulers if has_quorums else ()),
            placing,
            preempting,
            are_foreign=are_foreign,
            reservation_s=reservation_s,
            is_on=is_on,
        )
        super().__init__(worker_count, groups=settings, schedulers=schedulers, **more)
        self.sync([make_node("node", cpu="4")] if nodes is None else nodes, [])
        self.run_until_quiet()

    def add_group(self, name: str, min_count: int = 0, **spec: Any) -> None:
        self.tell_group(name, min_count, **spec)
        self.run_until_quiet()

    def tell_group(self, name: str, min_count: int = 0, **spec: Any) -> None:
        group = group_object(name, min_count, **spec)
        self.tell(ObjectChanged("podgroups", f"default/{name}", encoded(group)))

    def tell_object(self, kind: str, key: str, body: dict[str, Any]) -> None:
        value = msgspec.convert(body, KINDS_BY_PLURAL[kind].struct_type)
        self.tell(ObjectChanged(kind, key, encoded(value)))

    def add(self, *pods: PodRecord) -> None:
        for pod in pods:
            self.add_pod(pod)
        self.settle()

    def run_until_quiet(self, steps_max: int = 500) -> None:
        super().run_until_quiet(steps_max)

    def settle(self) -> None:
        self.run_until_quiet()
        self.check()

    def wait(self) -> None:
        """Longer than any back-off."""
        self.advance(11.0)
        self.handle()
        self.settle()

    def _is_found_on_the_newest(self, event: Event) -> bool:
        """A pod that was deleted meanwhile may cost its group the quorum."""
        is_newest = super()._is_found_on_the_newest(event)
        scorer = self.state.scorers.get(event.peer) if isinstance(event, Said) else None
        attempts = () if scorer is None else scorer.attempts.values()
        return is_newest and all(each.place is Place.IN_FLIGHT for each in attempts)

    def bound_names(self) -> set[str]:
        return {self._name(uid) for uid in self.bound}

    def gated(self) -> set[str]:
        return {pod.record.name for pod in self.state.queue if pod.gated_by == "GangScheduling"}

    def waiting(self) -> set[str]:
        """Pods that were tried and are pending."""
        return {pod.record.name for pod in self.state.queue if pod.place is Place.BACKOFF}

    def attempts(self) -> dict[str, int]:
        """To place groups, by result, as the metrics have them."""
        counted = self.state.counters.measured().counts
        return {each.labels[0]: each.count for each in counted if each.name == "podgroup_attempts"}

    def told(self, name: str) -> str:
        """What was last said of a pod or group."""
        return self._verdicts(name)[-1].message

    def condition(self, group: str) -> tuple[bool, str, str]:
        """As upstream tells it."""
        last = [each for each in self._verdicts(group) if each.is_group][-1]
        return last.is_scheduled, last.reason, last.message.partition("; ")[0]

    def lack(self, group: str) -> str:
        """What berth adds to that."""
        last = [each for each in self._verdicts(group) if each.is_group][-1]
        return last.message.partition("; ")[2]

    def _verdicts(self, name: str) -> list[StatusPatch]:
        return [v for v in self.verdicts if v.name == name]

    @staticmethod
    def _name(uid: str) -> str:
        return uid.removeprefix("uid-")


def gang(*names: str, group: str = "pg1", **more: Any) -> list[PodRecord]:
    return [member(name, group, uid=f"uid-{name}", **more) for name in names]


def lone(name: str, cpu: str, priority: int = 100) -> PodRecord:
    return make_pod(name, uid=f"uid-{name}", cpu=cpu, memory=None, priority=priority)


def names(pods: Iterable[PodRecord]) -> set[str]:
    return {pod.name for pod in pods}


# Upstream's cases --------------------------------------------------------------------------------


def test_gang_schedules_when_pod_group_and_resources_are_available() -> None:
    berth = Gangs()
    berth.add_group("pg1", 3)
    berth.add(*gang("p1", "p2", "p3", priority=100))
    assert berth.bound_names() == {"p1", "p2", "p3"}
    assert berth.condition("pg1") == (True, "Scheduled", "")


def test_gang_waits_for_quorum_to_start_then_schedules() -> None:
    berth = Gangs()
    berth.add_group("pg1", 3)
    berth.add(*gang("p1", "p2"))
    assert berth.gated() == {"p1", "p2"}
    berth.add(*gang("p3"))
    assert berth.bound_names() == {"p1", "p2", "p3"}


def test_gang_waits_for_pod_group_then_for_resources_then_schedules() -> None:
    berth = Gangs()
    blocker = lone("blocker", "2")
    berth.add(blocker)
    assert berth.bound_names() == {"blocker"}
    berth.add(*gang("p1", "p2", "p3"))
    assert berth.gated() == {"p1", "p2", "p3"}
    berth.add_group("pg1", 3)
    assert berth.waiting() == {"p1", "p2", "p3"}
    assert berth.told("p1") == NO_QUORUM
    assert berth.told("p3").startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert berth.condition("pg1") == (False, "Unschedulable", "pod group is unschedulable")
    berth.delete_pod(blocker)
    berth.wait()
    assert berth.bound_names() >= {"p1", "p2", "p3"}
    assert berth.condition("pg1") == (True, "Scheduled", "")


def test_min_count_is_scheduled_but_one_pod_remains_until_the_blocked_resources_are_released() -> (
    None
):
    berth = Gangs()
    blocker = lone("small-blocker", "1")
    berth.add(blocker)
    berth.add(*gang("p1", "p2", "p3", "p4"))
    berth.add_group("pg1", 3)
    scheduled = berth.bound_names() - {"small-blocker"}
    assert len(scheduled) == 3
    assert berth.waiting() == {"p1", "p2", "p3", "p4"} - scheduled
    berth.delete_pod(blocker)
    berth.wait()
    assert berth.bound_names() >= {"p1", "p2", "p3", "p4"}


@pytest.mark.parametrize("is_reversed", [True, False])
def test_two_gangs_competing_for_the_same_resources_should_not_deadlock(is_reversed: bool) -> None:
    berth = Gangs()
    berth.add_group("pg1", 3)
    berth.add_group("pg2", 3)
    mine = gang("p1", "p2", "p3", priority=100)
    others = gang("other-p1", "other-p2", "other-p3", group="pg2", priority=100)
    pods = [pod for pair in zip(mine, others, strict=True) for pod in pair]
    for pod in reversed(pods) if is_reversed else pods:
        berth.add_pod(pod)
    berth.settle()
    winners, losers = (others, mine) if is_reversed else (mine, others)
    assert berth.bound_names() == names(winners)
    assert berth.waiting() == names(losers)


def test_gang_schedules_with_preemption() -> None:
    berth = Gangs()
    berth.add(lone("low-priority-blocker", "2", priority=10))
    berth.add_group("pg1", 3)
    berth.add(*gang("p1", "p2", "p3", "p4", priority=100))
    assert berth.evicted == {"uid-low-priority-blocker"}
    berth.wait()
    assert berth.bound_names() == {"p1", "p2", "p3", "p4"}
    assert berth.condition("pg1") == (True, "Scheduled", "")


def test_basic_group_schedules_without_gang_enforcement() -> None:
    berth = Gangs()
    berth.add_group("pg1")
    berth.add(*gang("p1"))
    assert berth.bound_names() == {"p1"}
    berth.add(*gang("p2", "p3"))
    assert berth.bound_names() == {"p1", "p2", "p3"}


def test_basic_group_waits_for_pod_group_part_of_it_waits_for_resources_then_schedules() -> None:
    berth = Gangs()
    blocker = lone("blocker", "2")
    berth.add(blocker)
    berth.add(*gang("p1", "p2", "p3"))
    assert berth.gated() == {"p1", "p2", "p3"}
    berth.add_group("pg1")
    assert len(berth.bound_names()) == 3
    assert len(berth.waiting()) == 1
    berth.delete_pod(blocker)
    berth.wait()
    assert berth.bound_names() >= {"p1", "p2", "p3"}


def test_basic_group_schedules_with_preemption() -> None:
    berth = Gangs()
    berth.add(*(lone(f"low-p{n}", "1", priority=10) for n in range(4)))
    berth.add_group("pg1")
    berth.add(*gang("p1", "p2", "p3", priority=100))
    berth.wait()
    assert berth.bound_names() >= {"p1", "p2", "p3"}
    assert len(berth.evicted) == 3


# What is berth's own -----------------------------------------------------------------------------


def test_with_the_gate_off_pods_are_placed_one_by_one_whatever_group_they_name() -> None:
    berth = Pipeline()
    berth.sync([make_node("node", cpu="4")], gang("p1", "p2"))
    berth.run_until_quiet()
    assert set(berth.bound) == {"uid-p1", "uid-p2"}


def test_a_group_without_room_for_all_leaves_no_trace_for_those_that_come_after() -> None:
    berth = Gangs([make_node("n1", cpu="4"), make_node("n2", cpu="4")])
    berth.add_group("pg1", 9)
    berth.add_group("pg2", 8)
    berth.add(*gang(*(f"a{n}" for n in range(9))), *gang(*(f"b{n}" for n in range(8)), group="pg2"))
    assert berth.bound_names() == {f"b{n}" for n in range(8)}


def test_several_workers_never_place_half_a_gang() -> None:
    berth = Gangs([make_node(f"n{n}", cpu="4") for n in range(6)], worker_count=3)
    groups = {f"pg{g}": [f"g{g}p{n}" for n in range(7)] for g in range(6)}
    for name in groups:
        berth.add_group(name, 7)
    for name, pods in groups.items():
        for pod in gang(*pods, group=name):
            berth.add_pod(pod)
    berth.settle()
    placed = [g for g, pods in groups.items() if set(pods) & berth.bound_names()]
    assert len(placed) == 3
    for name in placed:
        assert set(groups[name]) <= berth.bound_names()


def test_a_worker_that_dies_with_a_group_in_hand_loses_none_of_it() -> None:
    berth = Gangs(worker_count=1)
    berth.add_group("pg1", 3)
    for pod in gang("p1", "p2", "p3"):
        berth.add_pod(pod)
    berth.lose_scorer(0)
    berth.add_pod(gang("p4")[0])
    while berth.step_owner():
        pass
    berth.start_scorer(0)
    berth.settle()
    assert berth.bound_names() == {"p1", "p2", "p3", "p4"}


def test_a_pod_that_comes_while_its_group_is_out_is_tried_when_that_is_settled() -> None:
    berth = Gangs()
    berth.add_group("pg1", 2)
    for pod in gang("p1", "p2"):
        berth.add_pod(pod)
    late = gang("p3")[0]
    berth.add_pod(late)
    queued = berth.state.queue.get(late.uid)
    assert queued is not None
    assert queued.place is Place.IN_FLIGHT
    berth.settle()
    assert berth.bound_names() == {"p1", "p2", "p3"}


def test_a_binding_that_fails_for_one_member_is_tried_again_and_the_rest_is_not_stranded() -> None:
    berth = Gangs()
    berth.add_group("pg1", 3)
    for pod in gang("p1", "p2", "p3"):
        berth.add_pod(pod)
    while not berth.orders:
        berth.step_owner()
        berth.step_scorer(0)
    berth.step_binder(fails=True)
    berth.settle()
    assert len(berth.bound_names()) == 2
    berth.wait()
    assert berth.bound_names() == {"p1", "p2", "p3"}


def test_a_group_is_tried_in_the_order_of_priority_and_first_attempt() -> None:
    """TestPodGroupInfoForPod and TestSkipPodGroupPodSchedule in schedule_one_podgroup_test.go: pods that
    are not in the queue, or being deleted, are left out."""
    berth = Gangs([make_node("node", cpu="3")])
    early, late = gang("p1", "p2", priority=10), gang("p3", "p4", priority=100)
    gated = gang("p5", spec={"schedulingGates": [{"name": "wait"}]}, priority=1000)
    (ended,) = gang("p6", priority=1000, deleted="2026-01-01T00:00:00Z")
    berth.add(*early, *late, *gated, ended)
    berth.add_group("pg1", 2)
    assert berth.bound_names() == {"p3", "p4", "p1"}
    assert berth.waiting() == {"p2"}


class Lingering(Gangs):
    """Victims do not go."""

    def step_victim(self, *, fails: bool = False, lingers: bool = False) -> bool:
        return False


def test_a_pod_that_is_refused_its_room_beside_others_of_its_group_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At once it would have the others tried with it, whose back-off would be void, and whose room may
    be what keeps it from its own: each refused in turn, for ever. More would have to go for the second
    on top of room for the first, which is not made, than without."""
    berth = Lingering()
    berth.add_group("pg1", 2)
    berth.add(*(member(f"low{i}", "", uid=f"low{i}", node_name="node") for i in range(4)))
    confirmed = berth.state.preemptions._confirmed

    def but_for_one(pod: QueuedPod, *how: Any) -> list[CachedPod] | None:
        return None if pod.record.name == "p1" else confirmed(pod, *how)

    monkeypatch.setattr(berth.state.preemptions, "_confirmed", but_for_one)
    berth.tell(*(PodChanged(pod) for pod in gang("p1", "p2", priority=100)))
    berth.settle()
    counters = berth.state.counters
    assert counters[Count.PREEMPTIONS] == 0
    assert counters[Count.PREEMPTIONS_REJECTED] == 2
    assert counters[Count.ATTEMPTS_REPEATED] == 0
    assert {pod.place for pod in berth.state.queue} == {Place.BACKOFF}


def test_pods_of_a_group_with_several_scheduler_names_are_told_so_the_most_important_ones_first() -> (
    None
):
    berth = Gangs(schedulers=("default-scheduler", "other"))
    berth.add_group("pg1", 2)
    berth.add(*gang("p1"), *gang("p2", priority=9, spec={"schedulerName": "other"}))
    berth.add(*gang("p3"))
    assert not berth.bound
    told = "all pods in a single pod group should have the same .spec.schedulerName set, got: "
    assert berth.told("p3") == f'{told}"other" and "default-scheduler"'


def test_a_gang_that_comes_to_want_more_than_a_worker_found_takes_no_room_on_its_copy() -> None:
    berth = Gangs([make_node("n1", cpu="2"), make_node("n2", cpu="1")])
    berth.add_group("pg1", 3)
    (bound,) = gang("p0", node_name="n2")
    berth.add(bound)
    for pod in gang("p1", "p2"):
        berth.add_pod(pod)
    while berth.step_scorer(0):
        pass
    berth.delete_pod(bound)
    berth.settle()
    assert not berth.bound
    copy, nodes = berth.scorers[0].replica.nodes, berth.state.cache.nodes
    assert np.array_equal(copy.requested[:, :2], nodes.requested[:, :2])


def test_where_gang_scheduling_has_no_permit_a_gang_that_is_there_is_placed_as_far_as_it_fits() -> (
    None
):
    berth = Gangs([make_node("node", cpu="1")], has_quorums=False)
    berth.add_group("pg1", 2)
    berth.add(*gang("p1"))
    assert berth.gated() == {"p1"}
    berth.add(*gang("p2"))
    assert len(berth.bound_names()) == 1


def test_where_gang_scheduling_has_no_pre_enqueue_a_gang_is_tried_and_waits_for_its_quorum() -> (
    None
):
    berth = Gangs(has_gates=False)
    berth.add_group("pg1", 2)
    berth.add(*gang("p1"))
    assert berth.waiting() == {"p1"}
    assert berth.told("p1") == NO_QUORUM
    berth.add(*gang("p2"))
    assert berth.bound_names() == {"p1", "p2"}


def test_a_group_that_is_gone_leaves_nothing_behind() -> None:
    berth = Gangs()
    berth.add_group("pg1", 3)
    pods = gang("p1", "p2")
    berth.add(*pods)
    for pod in pods:
        berth.delete_pod(pod)
    berth.tell(ObjectDeleted("podgroups", "default/pg1"))
    berth.settle()
    assert not berth.state.groups.is_used
    assert len(berth.state.queue) == 0


@pytest.mark.parametrize("full", ["abcd", "abc"])
def test_a_member_makes_room_near_another_that_is_nominated(full: str) -> None:
    """Whether that one fits, or has somebody go itself."""
    zones = {"a": "1", "b": "2", "c": "1", "d": "2"}
    berth = Gangs([make_node(n, cpu="1", labels={"zone": zone}) for n, zone in zones.items()])
    berth.add(*(msgspec.structs.replace(lone(f"low-{n}", "1", 1), node_name=n) for n in full))
    term = {"labelSelector": {"matchLabels": {"app": "lead"}}, "topologyKey": "zone"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    berth.add_group("pg1", 2)
    berth.add(
        *gang("lead", priority=101, labels={"app": "lead"}, nominated_node_name="a"),
        *gang("worker", priority=100, spec={"affinity": near}),
    )
    for _ in range(3):
        berth.wait()
    used = [berth.bound[f"uid-{name}"][-1] for name in ("lead", "worker")]
    assert len({zones[node] for node in used}) == 1
    assert berth.evicted == {f"uid-low-{node}" for node in used if node in full}


@pytest.mark.parametrize("is_async", [True, False])
def test_a_member_that_fits_takes_nobodys_nomination(is_async: bool) -> None:
    berth = Gangs([make_node(name, cpu="1") for name in "ab"], preempts_async=is_async)
    berth.add(msgspec.structs.replace(lone("victim", "1", 1), node_name="b"))
    berth.add(make_pod("low", uid="uid-low", priority=2, spec={"nodeSelector": {"no": "node"}}))
    berth.state.queue.nominator.nominate("uid-low", "a")
    berth.add_group("pg1", 2)
    berth.add(*gang("p1", "p2", priority=100))
    assert set(berth.nominated.values()) == {"a", "b"}
    assert berth.state.queue.nominator.node_of("uid-low") == "a"


def test_a_member_that_fits_keeps_its_place_though_it_never_preempts() -> None:
    berth = Gangs([make_node(name, cpu="1", labels={"kind": name}) for name in "ab"])
    berth.add(msgspec.structs.replace(lone("victim", "1", 1), node_name="a"))
    berth.add_group("pg1", 2)
    never = {"nodeSelector": {"kind": "b"}, "preemptionPolicy": "Never"}
    pods = gang("p1", priority=100, spec={"nodeSelector": {"kind": "a"}})
    pods += gang("p2", priority=100, spec=never)
    berth.tell(*(PodChanged(pod) for pod in pods))
    while berth.step_owner() or berth.step_scorer(0):
        pass
    assert berth.nominated == {"uid-p1": "a", "uid-p2": "b"}


def test_nobody_goes_for_two_members_that_want_one_port() -> None:
    berth = Gangs([make_node("n1", cpu="6")])
    low = make_pod("low", uid="uid-low", cpu="5", memory=None, host_port=81)
    berth.add(msgspec.structs.replace(low, node_name="n1"))
    berth.add_group("pg1", 2)
    berth.add(*gang("p1", "p2", priority=10, host_port=81))
    assert not berth.evicted
    assert berth.waiting() == {"p1", "p2"}


@pytest.mark.parametrize("provisioner", ["kubernetes.io/no-provisioner", "csi.example.com"])
def test_nobody_goes_for_two_members_that_want_one_volume(provisioner: str) -> None:
    """That is there already, or that the node can attach beside none."""
    berth = Gangs([make_node("n1", cpu="6")])
    storage = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    berth.tell_object("storageclasses", "late", {"metadata": {"name": "late"}, **storage})
    asked = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late"}
    volume = {"metadata": {"name": "v"}, "spec": {**asked, "capacity": {"storage": "1Gi"}}}
    berth.tell_object("persistentvolumes", "v", {**volume, "status": {"phase": "Available"}})
    driver = {"name": "csi.example.com", "nodeID": "n1", "allocatable": {"count": 1}}
    csi_node = {"metadata": {"name": "n1"}, "spec": {"drivers": [driver]}}
    berth.tell_object("csinodes", "n1", csi_node)
    members = []
    for name in ("p1", "p2"):
        meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        spec = {**asked, "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
        berth.tell_object("persistentvolumeclaims", f"default/{name}", claim)
        wanted = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}
        members += gang(name, priority=10, spec=wanted)
    low = make_pod("low", uid="uid-low", cpu="6", memory=None)
    berth.add(msgspec.structs.replace(low, node_name="n1"))
    berth.add_group("pg1", 2)
    berth.add(*members)
    assert not berth.evicted
    assert berth.waiting() == {"p1", "p2"}


def test_victims_stay_where_the_group_could_not_be_placed_even_without_them() -> None:
    berth = Gangs()
    berth.add(lone("low", "2", priority=10), lone("high", "1", priority=1000))
    berth.add_group("pg1", 4)
    berth.add(*gang("p1", "p2", "p3", "p4", priority=100))
    assert not berth.evicted
    assert berth.waiting() == {"p1", "p2", "p3", "p4"}


def test_a_group_waits_out_its_back_off_though_there_is_nothing_else_to_try() -> None:
    berth = Gangs()
    berth.add_group("pg1", 5)
    berth.add(*gang("p1", "p2", "p3", "p4", "p5"))
    tried = [pod.attempts for pod in berth.state.queue]
    assert tried == [1] * 5
    berth.handle()
    berth.settle()
    assert [pod.attempts for pod in berth.state.queue] == tried
    berth.wait()
    assert [pod.attempts for pod in berth.state.queue] == [2] * 5


class Refuses:
    """Permit for all but these pods."""

    NAME: ClassVar[str] = "Refuses"

    def __init__(self, *names: str) -> None:
        self._names = names

    def permit(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Any:
        if record.name in self._names:
            return PermitResult(Status(Code.UNSCHEDULABLE, ("not p2",), self.NAME), 0.0)
        return PermitResult(SUCCESS, 0.0)


class NotReserved:
    """Reserve for all but one pod."""

    NAME: ClassVar[str] = "NotReserved"

    def __init__(self, code: Code) -> None:
        self._refusal = Status(code, ("not p2",), self.NAME)

    def reserves_for(self, pod: PodInfo) -> bool:
        return True

    def reserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Status:
        return self._refusal if record.name == "p2" else SUCCESS

    def unreserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> None:
        return


def test_a_pod_that_a_permit_plugin_refuses_goes_back_alone() -> None:
    berth = Gangs(permit=[Refuses("p2")])
    berth.add_group("pg1", 2)
    berth.add(*gang("p1", "p2", "p3"))
    assert berth.bound_names() == {"p1", "p3"}
    assert berth.waiting() == {"p2"}


def test_a_pod_that_had_no_room_beside_those_that_permit_refuses_has_it_then() -> None:
    berth = Gangs(permit=[Refuses("p1", "p2")])
    for pod in (*gang("p1", "p2", cpu="3", priority=1), *gang("p3", cpu="3")):
        berth.add_pod(pod)
    berth.tell_group("pg1")  # So that all are tried together.
    berth.settle()
    assert berth.bound_names() == {"p3"}
    assert berth.waiting() == {"p1", "p2"}


@pytest.mark.parametrize("code", [Code.UNSCHEDULABLE, Code.ERROR])
def test_a_gang_that_reserve_refuses_one_of_waits(code: Code) -> None:
    berth = Gangs(reserve=[NotReserved(code)])
    berth.add_group("pg1", 2)
    berth.add(*gang("p1", "p2"))
    assert not berth.bound
    assert berth.told("p1") == NO_QUORUM
    assert "not p2" in berth.told("p2")
    assert berth.state.counters[Count.ATTEMPTS_REPEATED] == 1


def test_members_are_tried_in_the_same_order_each_time() -> None:
    """Whichever of them is woken first: one may count on another for which room was made."""
    berth = Gangs()
    berth.add_group("pg1", 2)
    berth.tell(*(PodChanged(pod) for pod in gang("p1", "p2", "p3", cpu="8")))
    berth.settle()
    waiting = sorted(berth.state.queue, key=lambda pod: pod.record.name, reverse=True)
    assert len({pod.initial_attempt_s for pod in waiting}) == 1
    unit = Unit(waiting, "default/pg1")
    berth.state.groups.begin(unit)
    assert [pod.record.name for pod in unit.pods] == ["p1", "p2", "p3"]


def test_the_condition_says_what_a_gang_lacks() -> None:
    berth = Gangs([make_node("n1", cpu="4"), make_node("n2", cpu="2")])
    berth.add_group("pg1", 4)
    berth.add(*gang("p1", "p2", cpu="1500m"), *gang("p3", "p4", cpu="3", priority=-1))
    assert berth.condition("pg1")[2] == "pod group is unschedulable"
    assert berth.lack("pg1") == "2 of 4 members fit; 2 need 3 cpu each"


def test_groups_of_other_schedulers_are_placed_and_their_status_is_left_to_them() -> None:
    berth = Gangs(are_foreign=True)
    berth.add_group("pg1", 3)
    berth.add(*gang("p1", "p2", "p3"))
    assert berth.bound_names() == {"p1", "p2", "p3"}
    assert not [v for v in berth.verdicts if v.is_group]


def test_a_pod_that_comes_to_name_another_group_completes_that_one() -> None:
    """Pod groups of others are named by labels, which may change."""
    berth = Gangs()
    berth.add_group("pg1", 2)
    berth.add_group("pg2", 2)
    berth.add(*gang("p1"), *gang("p2", group="pg2"))
    assert berth.gated() == {"p1", "p2"}
    berth.add(*gang("p2"))
    assert berth.bound_names() == {"p1", "p2"}
    berth.add(*gang("p3", group="pg2"))
    assert berth.gated() == {"p3"}


def test_a_pod_on_a_node_that_comes_to_name_another_group_counts_for_that_one() -> None:
    berth = Gangs()
    berth.add_group("pg1", 2)
    berth.add_group("pg2", 2)
    berth.add(*gang("p1", node_name="node"), *gang("p2", group="pg2"))
    assert berth.gated() == {"p2"}
    berth.add(*gang("p1", group="pg2", node_name="node"))
    assert berth.bound_names() == {"p2"}
    berth.add(*gang("p3"))
    assert berth.gated() == {"p3"}
