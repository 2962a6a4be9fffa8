"""Which nodes take a pod, and what makes them take it after all, through real processes.

Mirrors test/integration/scheduler/filters/filters_test.go of kube-scheduler, v1.36: each test names its
test there, each case is called as it is there. Beyond what upstream checks, a pod that does not fit
has to say which rule kept it, and one that fits has to be on a node where it may be.

Left out are cases with a feature gate switched off that is on for good here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest

from tests.integration.upstream import topology
from tests.integration.upstream.queueing_cases import CLAIMS, VOLUMES, uses
from tests.integration.upstream.topology import (
    FOO,
    Expression,
    Spread,
    add_spread,
    allowed,
    four_nodes,
    selector,
)
from tests.support.live import Json, LiveBerth, configuration, profile
from tests.support.live_cluster import LiveCluster

pytestmark = pytest.mark.integration

TEAMS: Final = {"ns1": "team1", "ns2": "team1", "ns3": "team2"}
UNSCHEDULABLE: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def start_berth() -> LiveBerth:
    # Pods say their priority themselves.
    admission = frozenset({"Priority"})
    config = configuration(profile("default-scheduler"))
    return LiveBerth(config, disabled_admission=admission, before=_add_namespaces)


def _add_namespaces(cluster: LiveCluster) -> None:
    for name, team in TEAMS.items():
        metadata = {"name": name, "labels": {"team": team}}
        cluster.create("/api/v1/namespaces", "Namespace", {"metadata": metadata})


# Affinity between pods ----------------------------------------------------------------------------

NOT_NEAR: Final = "node(s) didn't match pod affinity rules"
TOO_NEAR: Final = "node(s) didn't match pod anti-affinity rules"
UNWANTED: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
FULL: Final = "Insufficient memory"

SCAN: Final = {"service": "securityscan"}
S1: Final = {"security": "S1"}


def term(topology: str, *expressions: Expression, **more: object) -> Json:
    return {"topologyKey": topology, "labelSelector": selector(*expressions), **more}


def wants(near: Sequence[Json] = (), far: Sequence[Json] = ()) -> Json:
    """The spec of a pod that has to be near some pods and far from others."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    kinds = {"podAffinity": near, "podAntiAffinity": far}
    return {"affinity": {kind: {required: list(terms)} for kind, terms in kinds.items() if terms}}


@dataclass(frozen=True)
class Affinity:
    name: str
    pod: Json
    """Arguments of `LiveBerth.add_pod`."""
    others: Sequence[Json]
    """Pods that are there already, on testnode-0 unless they say other."""
    why_not: str = ""
    """What is said of a pod that does not fit."""
    on: frozenset[str] = frozenset({"testnode-0", "anothernode-0"})
    """Where it may be if it fits."""


NEAR_SCAN: Final = term("region", ("service", "In", "securityscan", "value2"))
FAR_VIRUS: Final = term("node", ("service", "In", "antivirusscan", "value2"))
BIG: Final = {"memory": "1G"}
FOO_A: Final = {"foo": "", "bar": "a"}


def keyed(topology: str, **keys: Sequence[str]) -> Json:
    return term(topology, ("foo", "Exists"), **keys)


def with_bar(*values: str) -> list[Json]:
    return [{"labels": {"foo": "", "bar": value}} for value in values]


AFFINITIES: Final = [
    Affinity(
        "validates that a pod with an invalid podAffinity is rejected because of the "
        "LabelSelectorRequirement is invalid",
        {"labels": S1, "spec": wants([term("region", ("security", "DoesNotExist"))])},
        [], NOT_NEAR,
    ),
    Affinity(
        "validates that Inter-pod-Affinity is respected if not matching",
        {"labels": S1, "spec": wants([term("region", ("security", "In", "securityscan"))])},
        [], NOT_NEAR,
    ),
    Affinity(
        "validates that InterPodAffinity is respected if matching. required in PodAffinity using In "
        "operator that matches the existing pod",
        {"labels": S1, "spec": wants([NEAR_SCAN])}, [{"labels": SCAN}],
    ),
    Affinity(
        "validates that InterPodAffinity is respected if matching. required in PodAffinity using not "
        "in operator in labelSelector that matches the existing pod",
        {"labels": S1,
         "spec": wants([term("region", ("service", "NotIn", "securityscan3", "value3"))])},
        [{"labels": SCAN}],
    ),
    Affinity(
        "validates that inter-pod-affinity is respected when pods have different Namespaces",
        {"labels": S1, "spec": wants([{**NEAR_SCAN, "namespaces": ["diff-namespace"]}])},
        [{"labels": SCAN, "namespace": "ns2"}], NOT_NEAR,
    ),
    Affinity(
        "Doesn't satisfy the PodAffinity because of unmatching labelSelector with the existing pod",
        {"labels": SCAN,
         "spec": wants([term("region", ("service", "In", "antivirusscan", "value2"))])},
        [{"labels": SCAN}], NOT_NEAR,
    ),
    Affinity(
        "validates that InterPodAffinity is respected if matching with multiple affinities",
        {"labels": S1, "spec": wants([
            term("region", ("service", "Exists"), ("wrongkey", "DoesNotExist")),
            term("region", ("service", "In", "securityscan"), ("service", "NotIn", "WrongValue")),
        ])},
        [{"labels": SCAN}],
    ),
    Affinity(
        "The labelSelector requirements(items of matchExpressions) are ANDed, the pod cannot schedule "
        "onto the node because one of the matchExpression items doesn't match.",
        {"labels": S1, "spec": wants([
            term("region", ("service", "Exists"), ("wrongkey", "DoesNotExist")),
            term("region", ("service", "In", "securityscan2"), ("service", "NotIn", "WrongValue")),
        ])},
        [{"labels": SCAN}], NOT_NEAR,
    ),
    Affinity(
        "validates that InterPod Affinity and AntiAffinity is respected if matching",
        {"labels": S1, "spec": wants([NEAR_SCAN], [FAR_VIRUS])}, [{"labels": SCAN}],
    ),
    Affinity(
        "satisfies the PodAffinity and PodAntiAffinity and PodAntiAffinity symmetry with the existing "
        "pod",
        {"labels": S1, "spec": wants([NEAR_SCAN], [FAR_VIRUS])},
        [{"labels": SCAN, "spec": wants(far=[FAR_VIRUS])}],
    ),
    Affinity(
        "satisfies the PodAffinity but doesn't satisfies the PodAntiAffinity with the existing pod",
        {"labels": S1, "spec": wants([NEAR_SCAN], [{**NEAR_SCAN, "topologyKey": "zone"}])},
        [{"labels": SCAN}], TOO_NEAR,
    ),
    Affinity(
        "satisfies the PodAffinity and PodAntiAffinity but doesn't satisfies PodAntiAffinity symmetry "
        "with the existing pod",
        {"labels": SCAN, "spec": wants([NEAR_SCAN], [FAR_VIRUS])},
        [{"labels": SCAN,
          "spec": wants(far=[term("zone", ("service", "In", "securityscan", "value3"))])}],
        UNWANTED,
    ),
    Affinity(
        "pod matches its own Label in PodAffinity and that matches the existing pod Labels",
        {"labels": SCAN,
         "spec": wants([term("region", ("service", "NotIn", "securityscan", "value2"))])},
        [{"labels": SCAN, "node": "machine2"}], NOT_NEAR,
    ),
    Affinity(
        "Verify that PodAntiAffinity of an existing pod is respected when PodAntiAffinity symmetry is "
        "not satisfied with the existing pod",
        {"labels": SCAN},
        [{"labels": SCAN, "spec": wants(far=[{**NEAR_SCAN, "topologyKey": "zone"}])}], UNWANTED,
    ),
    Affinity(
        "Verify that PodAntiAffinity from existing pod is respected when pod statisfies "
        "PodAntiAffinity symmetry with the existing pod",
        {"labels": SCAN},
        [{"labels": SCAN,
          "spec": wants(far=[term("zone", ("service", "NotIn", "securityscan", "value2"))])}],
    ),
    Affinity(
        "nodes[0] and nodes[1] have same topologyKey and label value. nodes[0] has an existing pod "
        "that matches the inter pod affinity rule. The new pod can not be scheduled onto either of "
        "the two nodes.",
        {"spec": {"nodeSelector": {"region": "r1"},
                  **wants(far=[term("region", ("foo", "In", "abc"))])}},
        [{"labels": {"foo": "abc"}}], TOO_NEAR,
    ),
    Affinity(
        "anti affinity: matchLabelKeys is merged into LabelSelector with In operator",
        {"labels": FOO_A, "spec": wants(far=[keyed("zone", matchLabelKeys=["bar"])])},
        with_bar("fuga", "hoge"),
    ),
    Affinity(
        "anti affinity: mismatchLabelKeys is merged into LabelSelector with NotIn operator",
        {"labels": FOO_A, "spec": wants(far=[keyed("zone", mismatchLabelKeys=["bar"])])},
        with_bar("a", "a"),
    ),
    Affinity(
        "affinity: matchLabelKeys is merged into LabelSelector with In operator",
        {"labels": FOO_A, **BIG, "spec": wants([keyed("node", matchLabelKeys=["bar"])])},
        [{"labels": FOO_A, **BIG, "node": "anothernode-0"}, *with_bar("hoge", "fuga")], FULL,
    ),
    Affinity(
        "affinity: mismatchLabelKeys is merged into LabelSelector with NotIn operator",
        {"labels": FOO_A, **BIG, "spec": wants([keyed("node", mismatchLabelKeys=["bar"])])},
        [{**with_bar("fuga")[0], **BIG, "node": "anothernode-0"}, *with_bar("a", "a")], FULL,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", AFFINITIES, ids=lambda case: case.name)
def test_inter_pod_affinity(live: LiveBerth, case: Affinity) -> None:
    """TestInterPodAffinity, the case of the same name."""
    for name, node in (("testnode-0", "n1"), ("anothernode-0", "n2")):
        live.add_node(name, memory="1G", labels={"region": "r1", "zone": "z11", "node": node})
    for index, other in enumerate(case.others):
        live.add_pod(f"other-{index}", **{"namespace": "ns1", "node": "testnode-0", **other})
    live.add_pod("pod", namespace="ns1", **case.pod)
    if case.why_not:
        assert live.unschedulable("pod", namespace="ns1", contains=case.why_not)
    else:
        assert live.bound("pod", "ns1") in case.on


@pytest.mark.parametrize(
    ("namespace", "fits"),
    [
        pytest.param("ns2", True, id="MatchingNamespaces"),
        pytest.param("ns3", False, id="MismatchingNamespaces"),
    ],
)
def test_inter_pod_affinity_with_namespace_selector(
    live: LiveBerth, namespace: str, fits: bool
) -> None:
    """TestInterPodAffinityWithNamespaceSelector, the case of the same name."""
    live.add_nodes("testnode-0", "testnode-1", labels={"region": "r1", "zone": "z11"})
    live.add_pod("other", namespace=namespace, labels=SCAN, node="testnode-0")
    teams = selector(("team", "In", "team1"))
    near = term("region", ("service", "In", "securityscan"), namespaceSelector=teams)
    live.add_pod("pod", namespace="ns1", spec=wants([near]))
    if fits:
        assert live.bound("pod", "ns1")
    else:
        assert live.unschedulable("pod", namespace="ns1", contains=NOT_NEAR)


def test_pod_affinity_match_label_key_enablement(live: LiveBerth) -> None:
    """TestPodAffinityMatchLabelKeyEnablement with the gate on, as it is for good; and the scheduler,
    which reads the expression alone, keeps to it."""
    live.add_nodes("n1", "n2", labels={})
    live.add_pod("other", labels=with_bar("hoge")[0]["labels"], node="n1")
    near = keyed("kubernetes.io/hostname", matchLabelKeys=["bar"])
    made = live.add_pod("pod", labels=FOO_A, spec=wants([near]))
    (kept,) = made["spec"]["affinity"]["podAffinity"].popitem()[1]
    assert kept["labelSelector"] == selector(("foo", "Exists"), ("bar", "In", "a"))
    live.add_pod("pod-2", labels={"foo": "", "bar": "b"}, spec=wants(far=[near]))
    assert live.bound("pod")  # The first of its series: it matches itself.
    assert live.bound("pod-2")


# Taints -------------------------------------------------------------------------------------------


def taint(number: int) -> Json:
    key, value = f"example.com/taint{number}", f"value{number}"
    return {"key": key, "value": value, "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taints", "tolerated", "fits"),
    [
        pytest.param([1], [1], True, id="Pod tolerates node taint"),
        pytest.param([1], [], False, id="Pod does not tolerate node taint"),
        pytest.param([1, 2], [1], False, id="Pod tolerates some but not all node taints"),
        pytest.param([1, 2], [1, 2], True, id="Pod tolerates all node taints"),
        pytest.param(
            [1], [1, 2], True,
            id="Node has one taint, pod has multiple tolerations and tolerates all node taints",
        ),
        pytest.param([], [1], True, id="Node has no taint, pod has one toleration"),
    ],
)  # fmt: skip
def test_taint_toleration_filter(
    live: LiveBerth, taints: list[int], tolerated: list[int], fits: bool
) -> None:
    """TestTaintTolerationFilter, the case of the same name."""
    live.add_node("node", taints=[taint(number) for number in taints])
    live.add_pod("pod", spec={"tolerations": [taint(number) for number in tolerated]})
    if fits:
        assert live.bound("pod") == "node"
    else:
        assert live.unschedulable("pod", contains="had untolerated taint")


# Spreading ----------------------------------------------------------------------------------------

UNEVEN: Final = "node(s) didn't match pod topology spread constraints"


even: Final = partial(topology.even, must=True)


def node_affinity(key: str, operator: str, value: str) -> Json:
    terms = {"nodeSelectorTerms": [selector((key, operator, value))]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


THREE_NODES: Final = {"affinity": node_affinity("node", "NotIn", "node-0")}
"""Leaves node-0 out: a cluster of three."""
ON_FOO: Final = {"nodeSelector": FOO}
ALL_BUT_3: Final = (1, 2, 4)
IGNORE_AFFINITY: Final[Json] = {"nodeAffinityPolicy": "Ignore"}
HONOR_TAINTS: Final[Json] = {"nodeTaintsPolicy": "Honor"}

SPREADS: Final = [
    Spread("place pod on a 1/1/0/1 cluster with MaxSkew=1, node-2 is the only fit",
           [even("node")], "013", "2"),
    Spread("place pod on a 2/0/0/1 cluster with MaxSkew=2, node-{1,2,3} are good fits",
           [even("node", 2)], "003", "123"),
    Spread("pod is required to be placed on zone0, so only node-1 fits",
           [even("node")], "03", "1", spec={"affinity": node_affinity("zone", "In", "zone-0")}),
    Spread("two constraints: pod can only be placed to zone-1/node-2",
           [even("zone"), even("node")], "0133", "2"),
    Spread("pod cannot be placed onto any node",
           [even("zone"), even("node")], "11223", "", spec=THREE_NODES),
    Spread("high priority pod can preempt others",
           [even("zone"), even("node")], "11223", "123", spec=THREE_NODES, priority=100),
    Spread("pods spread across nodes as 2/2/1, maxSkew is 2, and the number of domains < minDomains, "
           "then the third node fits",
           [even("node", 2, minDomains=4)], "11223", "3", spec=THREE_NODES),
    Spread("pods spread across nodes as 2/2/1, maxSkew is 2, and the number of domains > minDomains, "
           "then the all nodes fit",
           [even("node", 2, minDomains=2)], "11223", "123", spec=THREE_NODES),
    Spread("pods spread across zone as 2/1, maxSkew is 2 and the number of domains < minDomains, then "
           "the third and fourth nodes fit",
           [even("zone", 2, minDomains=3)], "012", "23"),
    Spread("pods spread across zone as 2/1, maxSkew is 2 and the number of domains < minDomains, then "
           "the all nodes fit",
           [even("zone", 2, minDomains=1)], "123", "0123"),
    Spread("NodeAffinityPolicy honored with labelSelectors, pods spread across zone as 2/1",
           [even("zone")], "1234", "4", four_nodes(1, ALL_BUT_3), ON_FOO),
    Spread("NodeAffinityPolicy ignored with nodeAffinity, pods spread across zone as 1/~2~",
           [even("zone", **IGNORE_AFFINITY)], "134", "12", four_nodes(1, ALL_BUT_3),
           {"affinity": node_affinity("foo", "In", "")}),
    Spread("NodeTaintsPolicy honored, pods spread across zone as 2/1",
           [even("zone", **HONOR_TAINTS)], "1234", "4",
           four_nodes(1, ALL_BUT_3, {3: UNSCHEDULABLE})),
    Spread("NodeTaintsPolicy ignored, pods spread across zone as 2/2",
           [even("zone")], "1234", "124", four_nodes(1, ALL_BUT_3, {3: UNSCHEDULABLE})),
    Spread("two node inclusion Constraints, zone: honor/ignore, node: honor/ignore",
           [even("zone"), even("node")], "1234", "4",
           four_nodes(1, ALL_BUT_3, {2: UNSCHEDULABLE}), ON_FOO),
    Spread("two node inclusion Constraints, zone: ignore/ignore, node: honor/honor",
           [even("zone", **IGNORE_AFFINITY), even("node", **HONOR_TAINTS)], "1234", "14",
           four_nodes(1, ALL_BUT_3, {2: UNSCHEDULABLE}), ON_FOO),
    Spread("matchLabelKeys ANDed with LabelSelector when LabelSelector isn't empty, pods spread across "
           "zone as 0/1",
           [even("zone", matchLabelKeys=["bar"])], "012", "01", labels={**FOO, "bar": ""},
           bars="--b"),
    Spread("matchLabelKeys ANDed with LabelSelector when LabelSelector is empty, pods spread across "
           "zone as 2/1",
           [even("zone", matchLabelKeys=["foo"], labelSelector={})], "012", "23"),
]  # fmt: skip


@pytest.mark.parametrize("case", SPREADS, ids=lambda case: case.name)
def test_pod_topology_spread_filter(live: LiveBerth, case: Spread) -> None:
    """TestPodTopologySpreadFilter, the case of the same name."""
    add_spread(live, case)
    if case.on:
        assert live.bound("pod") in allowed(case)
    else:
        assert live.unschedulable("pod", contains=UNEVEN)


# What makes a pod schedulable ---------------------------------------------------------------------


@dataclass(frozen=True)
class Rescue:
    name: str
    before: Callable[[LiveBerth], object]
    pod: Json
    rescue: Callable[[LiveBerth], object]
    on: str


def with_affinity() -> Json:
    terms = {"topologyKey": "region", "labelSelector": {"matchLabels": {"near": "true"}}}
    return {"spec": wants([terms])}


def bound_volume(live: LiveBerth, name: str, *values: str, key: str = "") -> None:
    """A volume with node affinity and a claim that is bound to it."""
    size = {"storage": "1Mi"}
    of_both: Json = {"accessModes": ["ReadWriteOncePod"], "storageClassName": ""}
    spec = {**of_both, "capacity": size, "hostPath": {"path": "/tmp"}}
    if key:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [selector((key, "In", *values))]}}
    live.create(VOLUMES, "PersistentVolume", {"metadata": {"name": f"pv-{name}"}, "spec": spec})
    metadata = {"name": name, "annotations": {"pv.kubernetes.io/bind-completed": "true"}}
    spec = {**of_both, "volumeName": f"pv-{name}", "resources": {"requests": size}}
    live.create(CLAIMS, "PersistentVolumeClaim", {"metadata": metadata, "spec": spec})


def run_first(live: LiveBerth, **pod: Any) -> None:
    live.add_pod("first", **pod)
    live.bound("first")


def tainted_node(live: LiveBerth) -> None:
    live.add_node("node", taints=[{"key": "test", "value": "test", "effect": "NoSchedule"}])


def node_for_one(live: LiveBerth) -> None:
    live.add_node("node", pods=1)
    run_first(live)


def node_in_region(live: LiveBerth) -> None:
    live.add_node("node", labels={"region": "test"})


def node_in_region_with_pod(live: LiveBerth) -> None:
    node_in_region(live)
    run_first(live)


def volume_for_one(live: LiveBerth) -> None:
    live.add_node("node")
    bound_volume(live, "claim")
    run_first(live, **uses("claim"))


def volume_elsewhere(live: LiveBerth) -> None:
    live.add_node("other")  # Without any node the pod is not even filtered, but tried every second.
    bound_volume(live, "claim", "node", "non-existing", key="kubernetes.io/hostname")


def volume_of_other_label(live: LiveBerth) -> None:
    live.add_node("node", labels={"foo": "foo"})
    bound_volume(live, "claim", "bar", key="foo")


RESCUES: Final = [
    Rescue("node gets added", lambda _: None, {}, lambda live: live.add_node("node"), "node"),
    Rescue("node gets taint removed", tainted_node, {},
           lambda live: live.update_node("node", lambda node: node["spec"].pop("taints")), "node"),
    Rescue("other pod gets deleted", node_for_one, {},
           lambda live: live.delete_pod("first"), "node"),
    Rescue("pod with pod-affinity gets added", node_in_region, with_affinity(),
           lambda live: live.add_pod("near", labels={"near": "true"}), "node"),
    Rescue("scheduled pod gets updated to match affinity", node_in_region_with_pod, with_affinity(),
           lambda live: live.update_pod(
               "first", lambda pod: pod["metadata"].update(labels={"near": "true"})), "node"),
    Rescue("scheduled pod uses read-write-once-pod pvc", volume_for_one, uses("claim"),
           lambda live: live.delete_pod("first"), "node"),
    Rescue("pod with pvc has node-affinity to non-existent/illegal nodes", volume_elsewhere,
           uses("claim"), lambda live: live.add_node("node"), "node"),
    Rescue("pod with pvc got scheduled after node updated it's label", volume_of_other_label,
           uses("claim"),
           lambda live: live.update_node(
               "node", lambda node: node["metadata"]["labels"].update(foo="bar")), "node"),
]  # fmt: skip


@pytest.mark.parametrize("case", RESCUES, ids=lambda case: case.name.replace("/", " or "))
def test_unschedulable_pod_becomes_schedulable(live: LiveBerth, case: Rescue) -> None:
    """TestUnschedulablePodBecomesSchedulable, the case of the same name."""
    case.before(live)
    live.add_pod("pod", **case.pod)
    live.unschedulable("pod")
    case.rescue(live)
    assert live.bound("pod") == case.on
    live.queue(lambda pods: not pods, "nothing is left in the queue")
