"""Room for a group as a whole, through real processes: victims, their conditions and events.

Mirrors cases of TestPodGroupPreemption in
test/integration/scheduler/preemption/podgrouppreemption_test.go, v1.36.2, by name; all of them are
mirrored without processes in tests/unit/daemon/core/test_preemption_by_groups.py.
"""

import pytest

from tests.integration.upstream.test_pod_groups import GATES, GROUPS, add
from tests.support.live import LiveBerth, configuration, profile

pytestmark = pytest.mark.integration


def start_berth() -> LiveBerth:
    config = configuration(profile("default-scheduler"), podMaxBackoffSeconds=1)
    gates = f"{GATES},WorkloadAwarePreemption=true"
    admission = frozenset({"Priority"})
    return LiveBerth(config, feature_gates=gates, disabled_admission=admission)


def add_group(live: LiveBerth, name: str, min_count: int, priority: int, mode: str) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": min_count}}}
    more = {"priority": priority, "disruptionMode": mode}
    live.create(GROUPS, "PodGroup", {"metadata": {"name": name}, "spec": {**spec, **more}})


def test_preempt_the_whole_pod_group_even_if_a_single_pod_would_suffice(live: LiveBerth) -> None:
    live.add_node("n1", cpu="3")
    add_group(live, "pg2", 3, 10, "PodGroup")
    add(live, "low-1", "low-2", "low-3", group="pg2", priority=10)
    for name in ("low-1", "low-2", "low-3"):
        live.bound(name)
    add_group(live, "pg1", 2, 100, "Pod")
    add(live, "high-1", "high-2", priority=100)
    for name in ("low-1", "low-2", "low-3"):
        live.gone(name)
    assert {live.bound(name) for name in ("high-1", "high-2")} == {"n1"}
