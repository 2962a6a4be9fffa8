"""Which filters preemption asks again, and whose pods they mind."""

import numpy as np
import pytest

from daemon.core.cache import Cache
from shared.framework.prepared_pod import prepared
from shared.framework.profiles import ProfileConfig
from shared.kube.pod_record import PodRecord
from shared.plugins.in_tree import InTreeRegistry
from shared.plugins.preemption.filters_asked_again import (
    RelevantClasses,
    moving_part,
    row_filters_read_pods,
    settled_by_row,
)
from tests.support.builders import make_node, make_pod
from tests.support.volumes import put_claim, put_volume

FRAMEWORK = InTreeRegistry().build(ProfileConfig()).framework
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


def relevant(preemptor: PodRecord) -> dict[str, bool]:
    """App -> whether its pods are relevant."""
    cache = Cache()
    cache.add_node(make_node("n", labels={"zone": "z"}))
    classes = {}
    for app in "ab":
        record = make_pod(app, node_name="n", labels={"app": app})
        cache.add_pod(record)
        held = cache.get_pod(record.uid)
        assert held is not None
        classes[app] = held.pod_class.class_id
    info = cache.classes.acquire(preemptor).info
    asked = RelevantClasses(prepared(FRAMEWORK, info, cache.view))
    found = asked.are_relevant(np.array(list(classes.values()), np.int64))
    return dict(zip(classes, found.tolist(), strict=True))


@pytest.mark.parametrize("spec", [SPREAD, APART])
def test_pods_that_a_constraint_selects_are_relevant_and_no_others(spec: dict[str, object]) -> None:
    assert relevant(make_pod("p", spec=spec)) == {"a": True, "b": False}


def test_whoever_is_rejected_before_filters_minds_everybody() -> None:
    claim = make_pod("p", claim="missing")
    assert relevant(claim) == {"a": True, "b": True}


def test_what_only_a_node_changes_is_not_asked_again() -> None:
    again = {plugin.NAME for plugin in moving_part(FRAMEWORK).filters}
    assert {"NodeResourcesFit", "NodePorts", "PodTopologySpread", "InterPodAffinity"} <= again
    assert again.isdisjoint({"NodeName", "TaintToleration", "NodeAffinity", "NodeUnschedulable"})


def test_filters_after_the_first_wide_one_settle_nothing() -> None:
    cache = Cache()
    info = cache.classes.acquire(make_pod("p", spec=SPREAD)).info
    pod = prepared(FRAMEWORK, info, cache.view)
    names = [FRAMEWORK.filters[index].NAME for index in pod.plan.active]
    found = [plugin.NAME for plugin in settled_by_row(pod).filters]
    assert found == names[: names.index("PodTopologySpread")]
    assert "NodeResourcesFit" in found


def test_a_filter_whose_pre_filter_counts_pods_settles_nothing() -> None:
    """VolumeRestrictions looks at the row alone, and at what its PreFilter counted everywhere."""
    cache = Cache()
    put_claim(cache, "solo", volume="pv", access_modes=["ReadWriteOncePod"])
    put_volume(cache, "pv", claim="solo")
    cache.add_node(make_node("n0"))
    cache.add_pod(make_pod("holder", claim="solo", node_name="n0"))
    info = cache.classes.acquire(make_pod("p", claim="solo", priority=1)).info
    pod = prepared(FRAMEWORK, info, cache.view)
    names = [FRAMEWORK.filters[index].NAME for index in pod.plan.active]
    found = [plugin.NAME for plugin in settled_by_row(pod).filters]
    assert found == names[: names.index("VolumeRestrictions")]


def test_the_usual_pod_has_no_filter_that_looks_at_pods() -> None:
    cache = Cache()
    info = cache.classes.acquire(make_pod("p")).info
    assert not row_filters_read_pods(prepared(FRAMEWORK, info, cache.view))
