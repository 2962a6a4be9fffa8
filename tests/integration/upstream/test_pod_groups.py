"""Pod groups through real processes: the API server's PodGroups, gates, bindings and conditions.

Mirrors cases of test/integration/scheduler/podgroup/podgroup_test.go, v1.36.2, by name; all of them are
mirrored without processes in tests/unit/daemon/core/test_pod_groups.py.
"""

from typing import Any

import pytest

from tests.support.live import LiveBerth, configuration, profile

pytestmark = pytest.mark.integration

GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"


def start_berth() -> LiveBerth:
    config = configuration(profile("default-scheduler"), podMaxBackoffSeconds=1)
    admission = frozenset({"Priority"})
    return LiveBerth(config, feature_gates=GATES, disabled_admission=admission)


def add_group(live: LiveBerth, name: str, min_count: int, **spec: Any) -> None:
    policy = {"gang": {"minCount": min_count}}
    body = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy, **spec}}
    live.create(GROUPS, "PodGroup", body)


def add(
    live: LiveBerth, *names: str, group: str = "pg1", cpu: str = "1", priority: int = 0
) -> None:
    for name in names:
        member = {"schedulingGroup": {"podGroupName": group}}
        live.add_pod(name, cpu=cpu, priority=priority, spec=member)


def condition(live: LiveBerth, group: str, status: str) -> tuple[str, str]:
    """Reason and message as upstream tells it, once it has this status."""
    found = live.wait(
        f"{GROUPS}/{group}",
        lambda g: [c for c in g["status"]["conditions"] or () if c["status"] == status],
        f"has a condition that is {status}",
    )
    (told,) = found["status"]["conditions"]
    assert told["type"] == "PodGroupScheduled"
    return told["reason"], told["message"].partition("; ")[0]


def gated(live: LiveBerth, *names: str) -> None:
    """Waits until GangScheduling keeps these pods out."""
    live.queue(
        lambda pods: all(pods[name].gated_by == "GangScheduling" for name in names),
        f"{names} are gated",
    )


def test_gang_schedules_when_pod_group_and_resources_are_available(live: LiveBerth) -> None:
    live.add_node("n1", cpu="4")
    add_group(live, "pg1", 3)
    add(live, "p1", "p2", "p3")
    assert {live.bound(name) for name in ("p1", "p2", "p3")} == {"n1"}
    assert condition(live, "pg1", "True") == ("Scheduled", "")


def test_gang_waits_for_pod_group_then_for_resources_then_schedules(live: LiveBerth) -> None:
    live.add_node("n1", cpu="4")
    live.add_pod("blocker", cpu="2")
    live.bound("blocker")
    add(live, "p1", "p2", "p3")
    gated(live, "p1", "p2", "p3")
    add_group(live, "pg1", 3)
    told = "0/1 placements are available, first placement status: pod group is unschedulable"
    assert condition(live, "pg1", "False") == ("Unschedulable", told)
    for name in ("p1", "p2", "p3"):
        live.unschedulable(name)
        assert not live.pod(name)["spec"]["nodeName"]
    live.delete_pod("blocker")
    assert {live.bound(name) for name in ("p1", "p2", "p3")} == {"n1"}
    assert condition(live, "pg1", "True") == ("Scheduled", "")


def test_gang_schedules_with_preemption(live: LiveBerth) -> None:
    live.add_node("n1", cpu="4")
    live.add_pod("low-priority-blocker", cpu="2", priority=10)
    live.bound("low-priority-blocker")
    add_group(live, "pg1", 3)
    add(live, "p1", "p2", "p3", "p4", priority=100)
    live.gone("low-priority-blocker")
    assert {live.bound(name) for name in ("p1", "p2", "p3", "p4")} == {"n1"}


def test_gang_schedules_on_a_single_rack(live: LiveBerth) -> None:
    for rack, count in (("r1", 1), ("r2", 2), ("r3", 3)):
        for number in range(count):
            live.add_node(f"{rack}n{number}", cpu="2", labels={"rack": rack})
    add_group(live, "pg1", 3, schedulingConstraints={"topology": [{"key": "rack"}]})
    add(live, "p1", "p2", "p3")
    assert {live.bound(name)[:2] for name in ("p1", "p2", "p3")} == {"r2"}
