"""What holds for all filters and scores alike, on a cluster where each of them has a say."""

from typing import Any

import numpy as np
import pytest

from daemon.core.cache import Cache
from shared.framework.plugin_api import Delta
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.prepared_pod import prepared
from shared.framework.runtime.profiles import PluginSet, ProfileConfig
from shared.framework.status import Code
from shared.plugin_names import VOLUME_BINDING
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, pod_info, rows_of

GPU = "example.com/gpu"


def rich_cluster() -> Cache:
    nodes = [
        make_node("n0", labels={"zone": "a", "size": "4"}, extra={GPU: "2"}),
        make_node("n1", labels={"zone": "b", "size": "9"}, cpu="1", unschedulable=True),
        make_node(
            "n2", memory="4Gi", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}], pods=1
        ),
        make_node(
            "n3",
            labels={"zone": "a", "size": "x"},
            taints=[{"key": "soft", "effect": "PreferNoSchedule"}],
            images=[{"names": ["img:latest"], "sizeBytes": 500_000_000}],
            extra={GPU: "1", "ephemeral-storage": "10Gi"},
        ),
        make_node("n4", memory="0", cpu="0"),
    ]
    pods = [
        make_pod("a", node_name="n0", cpu="3", memory="30Gi", host_port=80, labels={"app": "web"}),
        make_pod("b", node_name="n2", cpu=None, memory=None),
        make_pod("c", node_name="n3", cpu="500m", memory="1Gi", spec=gpu_spec()),
    ]
    return cluster_of(nodes, pods)


def gpu_spec() -> dict[str, Any]:
    requests = {"cpu": "1500m", "memory": "2Gi", GPU: "1"}
    ports = [{"hostPort": 80, "containerPort": 80}]
    container = {"name": "c", "image": "img", "resources": {"requests": requests}, "ports": ports}
    return {"containers": [container]}


def demanding_pod() -> PodInfo:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    preference = {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["3"]}]}
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 7, "preference": preference}
        ],
    }
    rules = [{"action": "RestartAllContainers"}]
    spec = gpu_spec()
    spec["containers"][0]["restartPolicyRules"] = rules
    spec["nodeName"] = "n3"
    web = {"matchLabels": {"app": "web"}}
    term_of_pods = {"topologyKey": "zone", "labelSelector": web}
    pod_affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": [term_of_pods],
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 3, "podAffinityTerm": term_of_pods}
        ],
    }
    spec["affinity"] = {"nodeAffinity": affinity, "podAffinity": pod_affinity}
    constraints = (("zone", "DoNotSchedule"), ("kubernetes.io/hostname", "ScheduleAnyway"))
    spec["topologySpreadConstraints"] = [
        {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": when, "labelSelector": web}
        for key, when in constraints
    ]
    record = make_pod("p", spec=spec, labels={"app": "web"})
    info = pod_info(record)
    info.spec.node_name = "n3"  # As of a pod that reaches a scheduler by mistake.
    return info


def framework() -> Framework:
    return InTreeRegistry(entry_points=()).build(ProfileConfig()).framework


SILENT = [
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "DynamicResources",
]
"""Skip a pod without volumes and claims; their own tests give them some."""
FILTERS = [plugin.NAME for plugin in framework().filters if plugin.NAME not in SILENT]
SCORES = [entry.plugin.NAME for entry in framework().scores if entry.plugin.NAME != VOLUME_BINDING]
"""VolumeBinding scores only with the gate StorageCapacityScoring; see its own test."""


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_says_of_a_row_what_it_says_of_all(name: str) -> None:
    cache, pod = rich_cluster(), demanding_pod()
    fw = framework()
    plugin = next(p for p in fw.filters if name == p.NAME)
    state = fw.run_pre_filters(pod, cache.view).states[name]
    rows = rows_of(3, 0, 4, 2, 1)
    together = plugin.filter(state, pod, cache.view, rows)
    for position in range(len(rows)):
        alone = plugin.filter(state, pod, cache.view, rows[position : position + 1])
        assert alone.status(0, name) == together.status(position, name)
        assert alone.codes.dtype == np.uint8
    assert plugin.filter(state, pod, cache.view, rows_of()).codes.shape == (0,)
    assert not together.passes.all(), "this cluster gives the filter nothing to refuse"


@pytest.mark.parametrize("name", SCORES)
def test_a_score_rates_a_row_as_it_rates_all(name: str) -> None:
    cache, pod = rich_cluster(), demanding_pod()
    rows = rows_of(3, 0, 4, 2, 1)
    active = framework().prepare_scores(pod, cache.view, rows).active
    entry = next(a for a in active if name == a.plugin.NAME)
    together = entry.plugin.score(entry.state, pod, cache.view, rows)
    assert together.dtype == np.int64
    for position in range(len(rows)):
        row = rows[position : position + 1]
        assert entry.plugin.score(entry.state, pod, cache.view, row)[0] == together[position]
    assert entry.plugin.score(entry.state, pod, cache.view, rows_of()).shape == (0,)
    assert (len(set(together.tolist())) > 1) == (name not in SILENT), (
        "this cluster gives the score nothing to tell apart"
    )


@pytest.mark.parametrize("name", SCORES)
def test_a_score_has_what_its_pre_score_found_where_that_is_disabled_too(name: str) -> None:
    cache, pod = rich_cluster(), demanding_pod()
    rows = cache.nodes.present_rows()
    disabling = ProfileConfig(plugins={"preScore": PluginSet(disabled=["*"])})
    found = []
    for fw in (framework(), InTreeRegistry().build(disabling).framework):
        entry = next(
            a for a in fw.prepare_scores(pod, cache.view, rows).active if name == a.plugin.NAME
        )
        found.append(entry.plugin.score(entry.state, pod, cache.view, rows).tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_has_what_its_pre_filter_found_where_that_is_disabled_too(name: str) -> None:
    cache, pod = rich_cluster(), demanding_pod()
    rows = cache.nodes.present_rows()
    disabling = ProfileConfig(plugins={"preFilter": PluginSet(disabled=["*"])})
    found = []
    for fw in (framework(), InTreeRegistry().build(disabling).framework):
        state = fw.run_pre_filters(pod, cache.view).states[name]
        plugin = next(p for p in fw.filters if name == p.NAME)
        found.append(plugin.filter(state, pod, cache.view, rows).codes.tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("name", SILENT)
def test_a_filter_of_claims_skips_a_pod_without_any_also_where_its_pre_filter_is_disabled(
    name: str,
) -> None:
    disabling = ProfileConfig(plugins={"preFilter": PluginSet(disabled=["*"])})
    for fw in (framework(), InTreeRegistry().build(disabling).framework):
        outcome = fw.run_pre_filters(demanding_pod(), rich_cluster().view)
        assert outcome.each[name].code is Code.SKIP


@pytest.mark.parametrize("name", FILTERS)
def test_a_state_stays_right_while_dictionaries_grow(name: str) -> None:
    cache, pod = rich_cluster(), demanding_pod()
    fw = framework()
    plugin = next(p for p in fw.filters if name == p.NAME)
    outcome = fw.run_pre_filters(pod, cache.view)
    state, position = outcome.states[name], cache.view.pods.log.position
    plugin.filter(state, pod, cache.view, cache.nodes.present_rows())
    cache.add_node(
        make_node(
            "late",
            labels={"zone": "new", "rack": "7"},
            taints=[{"key": "late", "effect": "NoExecute"}],
            images=[{"names": ["late:1"], "sizeBytes": 1}],
            extra={"example.com/late": "1"},
        )
    )
    cache.add_pod(make_pod("late", node_name="late", host_port=8080))
    row = rows_of(cache.nodes.row_of("late"))
    fresh = fw.run_pre_filters(pod, cache.view).states[name]
    pods = cache.view.pods.log.since(position, 100)
    assert pods is not None
    followers = [(u, of_it) for u, of_it in fw.updatable_filters(outcome) if name == u.NAME]
    for updatable, of_it in followers:
        if updatable.update_filter(of_it, pod, cache.view, Delta(row, pods)) is None:
            state = fresh
    old_verdict = plugin.filter(state, pod, cache.view, row).status(0, name)
    assert old_verdict == plugin.filter(fresh, pod, cache.view, row).status(0, name)


def test_nothing_here_writes_the_columns() -> None:
    cache, pod = rich_cluster(), demanding_pod()
    fw = framework()
    rows = cache.nodes.present_rows()
    before = [c.copy() for c in (cache.nodes.requested, cache.nodes.allocatable)]
    masks = cache.nodes.unschedulable.copy(), cache.nodes.taints_id.copy()
    prepared(fw, pod, cache.view).run_filters(rows)
    active = fw.prepare_scores(pod, cache.view, rows).active
    fw.run_scores(pod, cache.view, active, rows)
    assert (before[0] == cache.nodes.requested).all()
    assert (before[1] == cache.nodes.allocatable).all()
    assert (masks[0] == cache.nodes.unschedulable).all()
    assert (masks[1] == cache.nodes.taints_id).all()
