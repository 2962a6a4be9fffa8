"""Plugins with a rule or two: names, cordons, taints, ports, balance, images, features, queue."""

import pytest

from daemon.core.cache import Cache
from shared.feature_gates import (
    NODE_DECLARED_FEATURES,
    TAINT_TOLERATION_COMPARISON_OPERATORS,
    FeatureGates,
)
from shared.framework.runtime.profiles import ProfileConfig
from shared.framework.status import Code
from shared.plugins.binding.default_binder import DefaultBinder
from shared.plugins.gates import PrioritySort, SchedulingGates
from shared.plugins.images.image_locality import ImageLocality
from shared.plugins.in_tree import InTreeRegistry
from shared.plugins.node.node_filters import (
    NodeDeclaredFeatures,
    NodeName,
    NodePorts,
    NodeUnschedulable,
    TaintToleration,
    required_features,
)
from shared.plugins.resources.resource_score import (
    NodeResourcesBalancedAllocation,
    NodeResourcesBalancedAllocationArgs,
)
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, filtered, pod_info, pod_with, rated, rows_of

MEBIBYTE = 1024 * 1024


def test_a_pod_that_names_no_node_is_not_asked_about_names() -> None:
    cache = cluster_of([make_node("n0")])
    assert NodeName().pre_filter(pod_with({}), cache.view).status.code is Code.SKIP
    assert filtered(NodeName(), pod_with({}), cache.view, rows_of(0)).passes.all()


def test_cordoned_nodes_take_pods_that_tolerate_the_cordon() -> None:
    cache = cluster_of([make_node("n0", unschedulable=True), make_node("n1")])
    plugin = NodeUnschedulable()
    toleration = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    tolerant = pod_with({"tolerations": [toleration]})
    assert plugin.pre_filter(tolerant, cache.view).status.code is Code.SKIP
    assert filtered(plugin, tolerant, cache.view, rows_of(0, 1)).passes.all()
    verdicts = filtered(plugin, pod_with({}), cache.view, rows_of(0, 1))
    assert verdicts.passes.tolist() == [False, True]
    assert verdicts.status(0, "x").reasons == ("node(s) were unschedulable",)
    assert verdicts.status(0, "x").code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_without_soft_taints_every_node_gets_the_full_score() -> None:
    cache = cluster_of([make_node("n0"), make_node("n1")])
    plugin = TaintToleration()
    raw = rated(plugin, pod_with({}), cache.view, rows_of(0, 1))
    assert plugin.normalize(raw, plugin.normalization(None, raw)).tolist() == [100, 100]


def test_tolerations_compare_numbers_once_the_gate_is_on() -> None:
    taint = {"key": "rank", "value": "7", "effect": "NoSchedule"}
    node = make_node("n0", taints=[taint])
    toleration = {"key": "rank", "operator": "Gt", "value": "5"}
    pod = pod_with({"tolerations": [toleration]})
    on = FeatureGates({TAINT_TOLERATION_COMPARISON_OPERATORS: True})
    for gates, passes in ((FeatureGates(), False), (on, True)):
        cache = Cache(gates)
        cache.add_node(node)
        verdicts = filtered(TaintToleration(), pod, cache.view, rows_of(0))
        assert verdicts.passes.tolist() == [passes]
    refused = filtered(TaintToleration(), pod, cluster_of([node]).view, rows_of(0))
    assert refused.status(0, "x").reasons == ("node(s) had untolerated taint(s)",)


def test_ports_of_ordinary_init_containers_are_free_to_others() -> None:
    cache = cluster_of([make_node("n0")], [make_pod("a", node_name="n0", host_port=80)])
    wanting = make_pod("p", host_port=80)
    verdicts = filtered(NodePorts(), pod_info(wanting), cache.view, rows_of(0))
    assert verdicts.status(0, "x").code is Code.UNSCHEDULABLE
    ports = [{"hostPort": 80, "containerPort": 80}]
    init = {"name": "i", "image": "i", "ports": ports}
    pod = pod_with({"initContainers": [init]})
    assert NodePorts().pre_filter(pod, cache.view).status.code is Code.SKIP
    sidecar = pod_with({"initContainers": [{**init, "restartPolicy": "Always"}]})
    assert not filtered(NodePorts(), sidecar, cache.view, rows_of(0)).passes.any()


def test_balance_skips_pods_that_ask_for_none_of_its_resources() -> None:
    cache = cluster_of([make_node("n0")])
    plugin = NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs())
    assert plugin.pre_score(pod_with({}), cache.view, rows_of(0)).status.code is Code.SKIP
    pod = pod_info(make_pod("p", cpu="4", memory="0"))
    assert plugin.pre_score(pod, cache.view, rows_of(0)).status.is_success
    # All of the cpu and no memory: deviation 0.5 after, 0 before.
    assert rated(plugin, pod, cache.view, rows_of(0)).tolist() == [50 + (50 + 50 - 100) // 2]


def test_image_sizes_are_shared_out_over_the_nodes() -> None:
    image = {"names": ["app:v1"], "sizeBytes": 1046 * MEBIBYTE}
    cache = cluster_of([make_node("n0", images=[image]), make_node("n1")])
    pod = pod_with({"containers": [{"name": "c", "image": "app:v1"}]})
    expected = 100 * (523 - 23) // (1000 - 23)
    assert rated(ImageLocality(), pod, cache.view, rows_of(0, 1)).tolist() == [expected, 0]
    unknown = pod_with({"containers": [{"name": "c", "image": "app"}]})
    assert rated(ImageLocality(), unknown, cache.view, rows_of(0, 1)).tolist() == [0, 0]


def test_nodes_that_have_an_image_are_counted_as_they_are_now() -> None:
    """Though nothing happened to the node that is rated."""
    image = {"names": ["app:v1"], "sizeBytes": 1046 * MEBIBYTE}
    cache = cluster_of([make_node(f"n{i}", images=[image]) for i in range(2)])
    pod = pod_with({"containers": [{"name": "c", "image": "app:v1"}]})
    assert rated(ImageLocality(), pod, cache.view, rows_of(0)).tolist() == [100]
    cache.add_node(make_node("n1"))
    expected = 100 * (523 - 23) // (1000 - 23)
    assert rated(ImageLocality(), pod, cache.view, rows_of(0)).tolist() == [expected]


def test_images_of_init_containers_and_volumes_count_too() -> None:
    images = [
        {"names": [f"{name}:latest"], "sizeBytes": 300 * MEBIBYTE}
        for name in ("app", "init", "vol")
    ]
    cache = cluster_of([make_node("n0", images=images)])
    spec = {
        "containers": [{"name": "c", "image": "app"}],
        "initContainers": [{"name": "i", "image": "init"}],
        "volumes": [{"name": "v", "image": {"reference": "vol"}}],
    }
    score = rated(ImageLocality(), pod_with(spec), cache.view, rows_of(0))
    assert score.tolist() == [100 * (900 - 23) // (2000 - 23)]


def test_nodes_must_declare_what_a_pod_cannot_do_without() -> None:
    rule = {"action": "RestartAllContainers"}
    container = {"name": "c", "image": "i", "restartPolicyRules": [rule]}
    pod = pod_with({"containers": [container]})
    declaring = make_node("n0")
    declaring.status.declared_features = ["Other", "RestartAllContainersOnContainerExits"]
    cache = cluster_of([declaring, make_node("n1")])
    plugin = NodeDeclaredFeatures()
    state = plugin.pre_filter(pod, cache.view).state
    verdicts = plugin.filter(state, pod, cache.view, rows_of(0, 1))
    assert verdicts.passes.tolist() == [True, False]
    reason = "node(s) didn't match Pod's required features"
    assert verdicts.status(1, "x").reasons == (reason,)
    assert plugin.pre_filter(pod_with({}), cache.view).status.code is Code.SKIP
    hosted = pod_with({"hostNetwork": True, "hostUsers": False})
    assert required_features(hosted.spec) == {"UserNamespacesHostNetworkSupport"}


def test_without_its_gate_nothing_declared_matters() -> None:
    names = "ExtendWebSocketsToKubelet InPlacePodLevelResourcesVerticalScaling"
    names += " InPlacePodVerticalScalingInitContainers RestartAllContainersOnContainerExits"
    gates = FeatureGates(dict.fromkeys((NODE_DECLARED_FEATURES, *names.split()), False))
    hosted = pod_with({"hostNetwork": True, "hostUsers": False})
    cache = cluster_of([make_node("n0")])
    assert NodeDeclaredFeatures().pre_filter(hosted, cache.view).status.is_success
    cache.view.gates = gates
    assert NodeDeclaredFeatures().pre_filter(hosted, cache.view).status.code is Code.SKIP
    built = InTreeRegistry(gates, entry_points=()).build(ProfileConfig())
    assert NODE_DECLARED_FEATURES not in (each.NAME for each in built.plugins_at["filter"])


def test_pods_queue_by_priority_and_then_by_age() -> None:
    key = PrioritySort().queue_key
    assert sorted([key(1, 5.0), key(7, 9.0), key(7, 2.0)]) == [
        key(7, 2.0),
        key(7, 9.0),
        key(1, 5.0),
    ]


@pytest.mark.parametrize(
    ("gates", "reasons"),
    [([], ()), (["b", "a"], ("waiting for scheduling gates: [b a]",))],
)
def test_a_pod_waits_for_its_gates(gates: list[str], reasons: tuple[str, ...]) -> None:
    pod = pod_with({"schedulingGates": [{"name": gate} for gate in gates]})
    status = SchedulingGates().pre_enqueue(pod, cluster_of([]).view)
    assert status.reasons == reasons
    assert status.is_success == (not gates)


def test_the_default_binder_binds_under_its_own_name() -> None:
    assert DefaultBinder().binder_name() == "DefaultBinder"
