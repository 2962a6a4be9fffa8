"""Which pods a group has, and which of them have a node: upstream's cases by name.

They mirror podgroupstate_test.go and the pod groups of cache_test.go in pkg/scheduler/backend/cache, and
the hints of framework/plugins/gangscheduling/gangscheduling_test.go, v1.36.2.
"""

from typing import Any, NamedTuple

import pytest

from daemon.core.cluster_changes import LATE_S
from shared.columns.pod_table import group_id
from shared.kube.pod_record import PodRecord
from shared.messages.to_owner import AdapterMessage, ObjectDeleted, PodChanged, PodDeleted
from tests.support.builders import make_node
from tests.unit.daemon.core.test_pod_groups import Gangs, gang, lone, member, names

KEY = "default/pg1"


class Counts(NamedTuple):
    """Of a group's pods."""

    unscheduled: int = 0
    assumed: int = 0
    assigned: int = 0


class Members(Gangs):
    """Pods of groups of which nobody has made the object: they wait until it is there."""

    def all_pods(self, key: str = KEY) -> set[str]:
        return {self._name(uid) for uid in self.state.groups.uids(key)}

    def scheduled(self, key: str = KEY) -> set[str]:
        return {self._name(uid) for uid in self.state.cache.grouped.get(key, {})}

    def assumed(self, key: str = KEY) -> set[str]:
        cache = self.state.cache
        return {self._name(uid) for uid in cache.grouped.get(key, {}) if cache.is_assumed_pod(uid)}

    def counts(self, key: str = KEY) -> Counts:
        scheduled, assumed = self.scheduled(key), self.assumed(key)
        assert scheduled <= self.all_pods(key)
        assert self.state.groups.scheduled_count(key) == len(scheduled)
        unscheduled = self.all_pods(key) - scheduled
        return Counts(len(unscheduled), len(assumed), len(scheduled - assumed))

    def group_count(self) -> int:
        return len({*self.state.groups._pods, *self.state.cache.grouped})

    def on_the_copy(self, key: str = KEY) -> int:
        """Pods of the group that a worker knows on nodes, once it has read everything."""
        self.advance(LATE_S)
        scorer = self.scorers[0]
        while scorer.inbox:
            self.step_scorer(0)
        tables = scorer.replica.view.pod_tables
        return sum(int((each.group_id[each.used_rows()] == group_id(key)).sum()) for each in tables)

    def assume(self, *pods: PodRecord) -> None:
        """Up to the order of their bindings."""
        for pod in pods:
            self.add_pod(pod)
        self.tell_group("pg1")
        while len(self.orders) != len(pods):
            assert self.step_owner() or self.step_scorer(0)


def pod(name: str = "p1", node: str = "", group: str = "pg1", **more: Any) -> PodRecord:
    return member(name, group, uid=f"uid-{name}", node_name=node, **more)


# TestPodGroupState_* -----------------------------------------------------------------------------


def test_pod_group_state_assume_forget() -> None:
    berth = Members()
    berth.add_pod(pod())
    assert berth.counts() == Counts(unscheduled=1)
    berth.assume(pod())
    assert berth.counts() == Counts(assumed=1)
    berth.step_binder(fails=True)
    berth.step_owner()
    assert berth.counts() == Counts(unscheduled=1)


def test_pod_group_state_pod_counts() -> None:
    berth = Members()
    assert berth.counts() == Counts()
    berth.add_pod(pod("p3", "node"))
    berth.assume(pod("p1"), pod("p2"))
    assert berth.counts() == Counts(assumed=2, assigned=1)
    # One comes back, and the other's node is confirmed; a pod that is gone counts no more.
    berth.step_binder(fails=True)
    berth.step_owner()
    assert berth.counts() == Counts(unscheduled=1, assumed=1, assigned=1)
    berth.add_pod(pod("p2", "node"))
    assert berth.counts() == Counts(unscheduled=1, assigned=2)
    berth.delete_pod(pod("p1"))
    berth.delete_pod(pod("p3", "node"))
    assert berth.counts() == Counts(assigned=1)


def test_pod_group_state_scheduled_pods() -> None:
    """Assumed and assigned ones together, where they are; also on a worker's copy."""
    berth = Members()
    berth.add_node(make_node("node2", cpu="0", pods=0))
    berth.add_pod(pod("p3", "node2"))
    berth.assume(pod("p2"))
    berth.add_pod(pod("p1"))
    held = berth.state.cache.grouped[KEY].values()
    assert {each.record.name: each.node_name for each in held} == {"p2": "node", "p3": "node2"}
    assert berth.on_the_copy() == 2


# Test_AddPodGroupMember, Test_UpdatePodGroupMember, Test_RemovePodGroupMember ---------------------


@pytest.mark.parametrize(
    ("added", "is_on", "expected"),
    [
        pytest.param(pod(), False, Counts(), id="generic workload disabled"),
        pytest.param(lone("p1", "1"), True, Counts(), id="pod with no pod group name"),
        pytest.param(
            pod(), True, Counts(unscheduled=1), id="unscheduled pod with a pod group name"
        ),
        pytest.param(
            pod(node="node"), True, Counts(assigned=1), id="assigned pod with a pod group name"
        ),
    ],
)
def test_add_pod_group_member(added: PodRecord, is_on: bool, expected: Counts) -> None:
    berth = Members(is_on=is_on)
    berth.add_pod(added)
    assert berth.counts() == expected
    assert berth.group_count() == sum(expected)


@pytest.mark.parametrize(
    ("old", "new", "is_on", "expected"),
    [
        pytest.param(
            pod(), pod(labels={"foo": "bar"}), False, Counts(),
            id="updating a pod with genericWorkload disabled should be a no-op",
        ),
        pytest.param(
            lone("p1", "1"), lone("p1", "2"), True, Counts(),
            id="update a pod with no pod group name should be a no-op",
        ),
        pytest.param(
            pod(), pod(labels={"foo": "bar"}), True, Counts(unscheduled=1), id="update a pod"
        ),
        pytest.param(
            pod(), pod(node="node"), True, Counts(assigned=1), id="update a pod, move to assigned"
        ),
    ],
)  # fmt: skip
def test_update_pod_group_member(
    old: PodRecord, new: PodRecord, is_on: bool, expected: Counts
) -> None:
    berth = Members(is_on=is_on)
    berth.add_pod(old)
    berth.add_pod(new)
    assert berth.counts() == expected
    held = berth.state.queue.get(new.uid) or berth.state.cache.get_pod(new.uid)
    assert held is not None
    assert held.record.template == new.template


@pytest.mark.parametrize(
    ("there", "is_on", "group_count"),
    [
        pytest.param(
            [pod(), pod("p2", "node")], True, 1, id="remove a pod from a group with multiple pods"
        ),
        pytest.param([pod()], True, 0, id="remove a last pod from a group"),
        pytest.param([], True, 0, id="remove a non-existent pod from a group should be a no-op"),
        pytest.param(
            [pod()], False, 0, id="remove a pod while generic workload disabled should be a no-op"
        ),
    ],
)
def test_remove_pod_group_member(there: list[PodRecord], is_on: bool, group_count: int) -> None:
    berth = Members(is_on=is_on)
    for each in there:
        berth.add_pod(each)
    berth.delete_pod(pod())
    assert berth.group_count() == group_count
    assert "p1" not in berth.all_pods()


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("operation", ["AddPod", "AssumePod", "ForgetPod", "RemovePod"])
def test_pod_group_pod_operations(operation: str, is_on: bool) -> None:
    berth = Members(is_on=is_on)
    if operation in ("AddPod", "RemovePod"):
        berth.add_pod(pod(node="node"))
    else:
        berth.assume(pod())
    if operation == "ForgetPod":
        berth.step_binder(fails=True)
        berth.step_owner()
    if operation == "RemovePod":
        berth.delete_pod(pod(node="node"))
    expected = {
        "AddPod": Counts(assigned=1),
        "AssumePod": Counts(assumed=1),
        "ForgetPod": Counts(unscheduled=1),
        "RemovePod": Counts(),
    }
    assert berth.counts() == (expected[operation] if is_on else Counts())


def test_binding_pod_group_member() -> None:
    berth = Members()
    berth.assume(pod())
    assert berth.counts() == Counts(assumed=1)
    berth.step_binder()
    berth.step_owner()
    berth.add_pod(pod(node="node"))
    assert berth.counts() == Counts(assigned=1)


def test_update_pod_group_state_snapshot() -> None:
    """Workers' copies have pods on nodes alone: what is counted there is who is in which group."""
    berth = Members()
    first, second, third = pod(node="node"), pod("p2", "node"), pod("p3", "node", "pg2")
    other = "default/pg2"
    steps: list[tuple[AdapterMessage, set[str], set[str]]] = [
        (PodChanged(first), {"p1"}, set()),
        (PodChanged(third), {"p1"}, {"p3"}),
        (PodDeleted(first), set(), {"p3"}),
        (PodChanged(second), {"p2"}, {"p3"}),
    ]
    for message, mine, others in steps:
        berth.tell(message)
        assert berth.scheduled() == berth.all_pods() == mine
        assert berth.scheduled(other) == berth.all_pods(other) == others
        assert (berth.on_the_copy(), berth.on_the_copy(other)) == (len(mine), len(others))
        assert berth.group_count() == bool(mine) + bool(others)


def test_a_pod_that_waits_for_its_finalizers_is_of_the_group_until_it_is_gone() -> None:
    """It is passed over, and held nowhere else meanwhile (RemovePodGroupMember when it is deleted)."""
    berth = Members()
    berth.tell_group("pg1")
    going = pod(deleted="2026-01-01T00:00:00Z")
    berth.add_pod(going)
    assert berth.state.queue.get(going.uid) is None
    assert berth.all_pods() == {"p1"}
    berth.tell(PodDeleted(going))
    assert berth.group_count() == 0


def test_add_update_and_remove_multiple_pods_with_scheduling_group() -> None:
    berth = Members()
    for number in range(3):
        berth.add_pod(pod(f"p{number}", "node", f"pg-{number}"))
    berth.add_pod(pod("p0", "node", "pg-0", labels={"foo": "bar"}))
    berth.delete_pod(pod("p1", "node", "pg-1"))
    keys = [f"default/pg-{number}" for number in range(3)]
    assert [berth.counts(key).assigned for key in keys] == [1, 0, 1]
    assert [berth.on_the_copy(key) for key in keys] == [1, 0, 1]


# Test_isSchedulableAfterPodAdded, Test_isSchedulableAfterPodGroupAdded, TestMatchingSchedulingGroup ---


@pytest.mark.parametrize(
    ("group", "namespace", "is_let_in"),
    [
        pytest.param(
            "pg1", "default", True, id="add a newPod which matches the pod's scheduling group"
        ),
        pytest.param(
            "pg1", "foo", False, id="add a newPod which doesn't match the pod's namespace"
        ),
        pytest.param(
            "pg2", "default", False, id="add a newPod which doesn't match the pod's pod group name"
        ),
        pytest.param("", "default", False, id="different pods, only one with schedulingGroup"),
    ],
)
def test_is_schedulable_after_pod_added(group: str, namespace: str, is_let_in: bool) -> None:
    berth = Gangs()
    for name in ("pg1", "pg2"):
        berth.add_group(name, 2)
    berth.add(pod())
    assert berth.gated() == {"p1"}
    berth.add(pod("p2", group=group, namespace=namespace))
    assert ("p1" in berth.bound_names()) == is_let_in
    assert ("p1" in berth.gated()) == (not is_let_in)


@pytest.mark.parametrize(
    ("name", "namespace", "is_let_in"),
    [
        pytest.param(
            "pg1", "default", True, id="add a pod group which matches the pod's pod group name"
        ),
        pytest.param(
            "pg2", "default", False,
            id="add a pod group which doesn't match the pod's scheduling group name",
        ),
        pytest.param(
            "pg1", "ns2", False,
            id="add a pod group which doesn't match the pod's scheduling group namespace",
        ),
    ],
)  # fmt: skip
def test_is_schedulable_after_pod_group_added(name: str, namespace: str, is_let_in: bool) -> None:
    berth = Gangs()
    berth.add(pod(), lone("lone", "1"))
    assert berth.gated() == {"p1"}
    policy = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    meta = {"name": name, "namespace": namespace, "uid": "u"}
    berth.tell_object("podgroups", f"{namespace}/{name}", {"metadata": meta, "spec": policy})
    berth.settle()
    assert berth.bound_names() == ({"p1", "lone"} if is_let_in else {"lone"})


# What is berth's own -----------------------------------------------------------------------------


@pytest.mark.parametrize("has_placements", [False, True])
@pytest.mark.parametrize("is_out", [False, True])
def test_a_gang_whose_object_is_gone_is_not_placed_whatever_it_wanted(
    has_placements: bool, is_out: bool
) -> None:
    """Permit's and the generator's lister do not find it; by the next attempt PreEnqueue keeps its pods
    out until it is there again."""
    berth = Gangs(has_placements=has_placements)
    berth.add_group("pg1", 3)
    pods = gang("p1", "p2", "p3", nominated_node_name="node")
    gone = ObjectDeleted("podgroups", "default/pg1")
    if is_out:
        for each in pods:
            berth.add_pod(each)
        berth.tell(gone)
    else:
        berth.tell(*(PodChanged(each) for each in pods), gone)
    berth.settle()
    assert berth.gated() == names(pods)
    assert berth.nominated == {each.uid: "" for each in pods}
    missing = 'podgroup.scheduling.k8s.io "pg1" not found'
    permit = (
        f'running Permit plugin "GangScheduling": failed to get podGroup default/pg1: {missing}'
    )
    if has_placements and not is_out:
        assert {berth.told(each.name) for each in pods} == {missing}
    else:
        assert berth.told("p1") == permit
        assert berth.told("p2") == f"failed to schedule other pod from a pod group: {permit}"
    berth.add_group("pg1", 3)
    berth.wait()
    assert berth.bound_names() == names(pods)
