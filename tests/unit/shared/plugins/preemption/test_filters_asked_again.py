"""Which filters preemption asks again."""

from daemon.core.cache import Cache
from shared.feature_gates import DEFAULT_GATES
from shared.framework.runtime.prepared_pod import prepared
from shared.framework.runtime.profiles import ProfileConfig
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node, make_pod
from tests.support.volumes import put_claim, put_volume

FRAMEWORK = InTreeRegistry().build(ProfileConfig()).framework
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SELECTOR = {"matchLabels": {"app": "a"}}
SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": SELECTOR,
        }
    ]
}
APART = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": SELECTOR, "topologyKey": "zone"}
            ]
        }
    }
}


def test_what_only_a_node_changes_is_not_asked_again() -> None:
    cache = Cache(DEFAULT_GATES)
    spec = {**SPREAD, "affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}}
    info = cache.classes.acquire(make_pod("p", host_port=80, spec=spec)).info
    pod = prepared(FRAMEWORK, info, cache.view)
    again = {FRAMEWORK.filters[index].NAME for index in pod.plan.moved}
    assert {"NodeResourcesFit", "NodePorts", "PodTopologySpread", "InterPodAffinity"} <= again
    assert again.isdisjoint({"NodeName", "TaintToleration", "NodeAffinity", "NodeUnschedulable"})


def test_filters_after_the_first_wide_one_settle_nothing() -> None:
    cache = Cache(DEFAULT_GATES)
    info = cache.classes.acquire(make_pod("p", spec=SPREAD)).info
    pod = prepared(FRAMEWORK, info, cache.view)
    names = [FRAMEWORK.filters[index].NAME for index in pod.plan.active]
    found = [FRAMEWORK.filters[index].NAME for index in sorted(pod.plan.settled)]
    assert found == names[: names.index("PodTopologySpread")]
    assert "NodeResourcesFit" in found


def test_a_filter_whose_pre_filter_counts_pods_settles_nothing() -> None:
    """VolumeRestrictions looks at the row alone, and at what its PreFilter counted everywhere."""
    cache = Cache(DEFAULT_GATES)
    put_claim(cache, "solo", volume="pv", access_modes=["ReadWriteOncePod"])
    put_volume(cache, "pv", claim="solo")
    cache.add_node(make_node("n0"))
    cache.add_pod(make_pod("holder", claim="solo", node_name="n0"))
    info = cache.classes.acquire(make_pod("p", claim="solo", priority=1)).info
    pod = prepared(FRAMEWORK, info, cache.view)
    names = [FRAMEWORK.filters[index].NAME for index in pod.plan.active]
    found = [FRAMEWORK.filters[index].NAME for index in sorted(pod.plan.settled)]
    assert found == names[: names.index("VolumeRestrictions")]


def test_the_usual_pod_has_no_filter_that_looks_at_pods() -> None:
    cache = Cache(DEFAULT_GATES)
    info = cache.classes.acquire(make_pod("p")).info
    assert not prepared(FRAMEWORK, info, cache.view).plan.reads_pods
