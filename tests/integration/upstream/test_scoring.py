"""Which of several nodes that take a pod is the best, through real processes.

Mirrors test/integration/scheduler/scoring/priorities_test.go of kube-scheduler, v1.36: each test names
its test there, each case is called as it is there. As there, a profile scores with one plugin alone.

Equal nodes are taken by name here, so a test that a plugin decides has its best node where the name
would not lead, or there is a second case that asks for another.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pytest

from tests.integration.upstream import topology
from tests.integration.upstream.topology import (
    FOO,
    Spread,
    add_spread,
    allowed,
    four_nodes,
    selector,
)
from tests.support.live import Json, LiveBerth, configuration, profile
from tests.support.live_cluster import LiveCluster

pytestmark = pytest.mark.integration

GPU: Final = "example.com/gpu"
ZONE: Final = "topology.kubernetes.io/zone"
SERVICE: Final = "test-service"

PLUGINS: Final = (
    "NodeAffinity", "InterPodAffinity", "TaintToleration", "ImageLocality", "PodTopologySpread",
)  # fmt: skip


def _profiles() -> list[Json]:
    everything = {"disabled": [{"name": "*"}]}
    alone = [
        profile(name, {
            "preScore": {**everything, "enabled": [{"name": name}] * (name != "ImageLocality")},
            "score": {**everything, "enabled": [{"name": name, "weight": 1}]},
        })
        for name in PLUGINS
    ]  # fmt: skip
    packing = {
        "scoringStrategy": {
            "type": "MostAllocated",
            "resources": [
                {"name": name, "weight": weight}
                for name, weight in (("cpu", 1), ("memory", 1), (GPU, 2))
            ],
        }
    }
    packs = profile("gpu-binpacking-scheduler", NodeResourcesFit=packing)
    return [profile("default-scheduler"), *alone, packs]


def start_berth() -> LiveBerth:
    return LiveBerth(configuration(*_profiles()), before=_prepare)


def _prepare(cluster: LiveCluster) -> None:
    for name in ("ns1", "ns2"):
        metadata = {"name": name, "labels": {"team": "team1"}}
        cluster.create("/api/v1/namespaces", "Namespace", {"metadata": metadata})
    spec = {"selector": {"service": SERVICE}, "ports": [{"port": 80, "targetPort": 80}]}
    body = {"metadata": {"name": SERVICE}, "spec": spec}
    cluster.create("/api/v1/namespaces/default/services", "Service", body)


def preferred(kind: str, *terms: Json) -> Json:
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


# Resources, labels, images, taints ----------------------------------------------------------------


@pytest.mark.parametrize("first", ["cpu", "gpu"])
def test_node_resources_scoring(live: LiveBerth, first: str) -> None:
    """TestNodeResourcesScoring; either pod may come first, so that no order of names decides."""
    sizes: dict[str, Json] = {
        "cpu": {"cpu": 2, "memory": "4G", "requests": {GPU: "1"}},
        "gpu": {"cpu": 1, "memory": "2G", "requests": {GPU: "2"}},
    }
    second = "gpu" if first == "cpu" else "cpu"
    live.add_nodes("testnode-0", "testnode-1", cpu=8, memory="16G", extra={GPU: "4"})
    live.add_pod(f"{first}bound1", **sizes[first])
    live.add_pod(f"{second}bound1", **sizes[second])
    assert live.bound("cpubound1") != live.bound("gpubound1")
    live.add_pod("cpubound2", scheduler="gpu-binpacking-scheduler", **sizes["cpu"])
    assert live.bound("cpubound2") == live.bound("gpubound1")


def test_node_affinity_scoring(live: LiveBerth) -> None:
    """TestNodeAffinityScoring."""
    key, value = "kubernetes.io/node-topologyKey", "topologyvalue"
    names = [f"testnode-{number}" for number in range(5)]
    for name in names:
        live.add_node(name, labels={key: value} if name == "testnode-2" else {})
    wish = preferred("nodeAffinity", {"weight": 20, "preference": selector((key, "In", value))})
    live.add_pod("pod", scheduler="NodeAffinity", spec=wish)
    assert live.bound("pod") == "testnode-2"


def test_image_locality_scoring(live: LiveBerth) -> None:
    """TestImageLocalityScoring."""
    image = "fake-large-image:v1"
    for number in range(10):
        live.add_node(f"testnode-{number}")
    live.add_node(
        "testnode-5-large-image", images=[{"names": [image], "sizeBytes": 3000 * 1024 * 1024}]
    )
    container = {"name": "fake-large-image-v1-container", "image": image}
    live.add_pod("pod", scheduler="ImageLocality", spec={"containers": [container]})
    assert live.bound("pod") == "testnode-5-large-image"


@pytest.mark.parametrize(
    ("tainted", "tolerated", "on"),
    [
        pytest.param("", "", {"node-1", "node-2"}, id="no taints or tolerations"),
        pytest.param(
            # Upstream allows node-2, too; here, of equal nodes, it is the first.
            "node-1",
            "example",
            {"node-1"},
            id="pod with toleration for node's taint",
        ),
        pytest.param("node-1", "other", {"node-2"}, id="pod without toleration for node's taint"),
        pytest.param(
            "node-2", "other", {"node-1"}, id="pod without toleration for node's taint, other node"
        ),
    ],
)
def test_taint_toleration_scoring(
    live: LiveBerth, tainted: str, tolerated: str, on: set[str]
) -> None:
    """TestTaintTolerationScoring, the case of the same name; the last is ours, so that no order of
    names can satisfy both."""

    def of(who: str) -> list[Json]:
        found = {"key": f"{who}-key", "value": f"{who}-value", "effect": "PreferNoSchedule"}
        return [found] if who else []

    for name in ("node-1", "node-2"):
        live.add_node(name, taints=of("example" if name == tainted else ""))
    live.add_pod("pod", scheduler="TaintToleration", spec={"tolerations": of(tolerated)})
    assert live.bound("pod") in on


# Affinity between pods ----------------------------------------------------------------------------

TOPOLOGY: Final = "node-topologykey"
ATTRACTED: Final = {
    "topologyKey": TOPOLOGY, "labelSelector": selector(("service", "In", "S1", "S3")),
}  # fmt: skip
FOO_A: Final = {"foo": "", "bar": "a"}


@dataclass(frozen=True)
class Affinity:
    name: str
    kind: str
    terms: Mapping[int, Json]
    """By weight."""
    others: Sequence[tuple[str, Json]]
    """(node, labels)."""
    nodes: Sequence[tuple[str, str]]
    """(name, value of the topology)."""
    on: frozenset[str]
    labels: Mapping[str, str] = field(default_factory=lambda: FOO_A)
    namespace: str = "ns1"


def keyed(**keys: Sequence[str]) -> Json:
    return {"topologyKey": TOPOLOGY, "labelSelector": selector(("foo", "Exists")), **keys}


def pairs(count: int, *, twice: bool) -> list[tuple[str, str]]:
    """So many nodes, each in a topology of its own, or two in each."""
    total = count * 2 if twice else count
    return [(f"node{number + 1}", f"value{number % count}") for number in range(total)]


def bars(*values: str) -> list[tuple[str, Json]]:
    return [
        (f"node{number}", {"foo": "", "bar": value}) for number, value in enumerate(values, start=1)
    ]


TEN_NODES: Final = [*pairs(5, twice=True), ("other-node1", ""), ("other-node2", "")]
HOGE: Final = {"topologyKey": TOPOLOGY, "labelSelector": selector(("bar", "In", "hoge"))}
WEAKER_A: Final = {"topologyKey": TOPOLOGY, "labelSelector": selector(("bar", "In", "a"))}

AFFINITIES: Final = [
    Affinity("pod affinity", "podAffinity", {50: ATTRACTED}, [("node2", {"service": "S1"})],
             TEN_NODES, frozenset({"node2", "node7"}), {}),
    Affinity("pod affinity with namespace selector", "podAffinity",
             {50: {**ATTRACTED, "namespaceSelector": {}}}, [("node2", {"service": "S1"})],
             TEN_NODES, frozenset({"node2", "node7"}), {}, "ns2"),
    Affinity("anti affinity: matchLabelKeys is merged into LabelSelector with In operator",
             "podAntiAffinity", {50: keyed(matchLabelKeys=["bar"])}, bars("fuga", "a"),
             pairs(2, twice=False), frozenset({"node1"})),
    Affinity("anti affinity: mismatchLabelKeys is merged into LabelSelector with NotIn operator",
             "podAntiAffinity", {50: keyed(mismatchLabelKeys=["bar"])}, bars("fuga", "a"),
             pairs(2, twice=False), frozenset({"node2"})),
    Affinity("affinity: matchLabelKeys is merged into LabelSelector with In operator",
             "podAffinity", {50: keyed(matchLabelKeys=["bar"]), 10: HOGE},
             bars("hoge", "hoge", "a"), pairs(3, twice=True), frozenset({"node3", "node6"})),
    Affinity("affinity: mismatchLabelKeys is merged into LabelSelector with NotIn operator",
             "podAffinity", {50: keyed(mismatchLabelKeys=["bar"]), 10: WEAKER_A},
             bars("a", "a", "hoge"), pairs(3, twice=True), frozenset({"node3", "node6"})),
]  # fmt: skip


@pytest.mark.parametrize("case", AFFINITIES, ids=lambda case: case.name)
def test_pod_affinity_scoring(live: LiveBerth, case: Affinity) -> None:
    """TestPodAffinityScoring, the case of the same name."""
    for name, value in case.nodes:
        live.add_node(name, labels={TOPOLOGY: value} if value else {})
    for index, (node, labels) in enumerate(case.others):
        live.add_pod(f"other-{index}", namespace="ns1", labels=labels, node=node)
    terms = [{"weight": weight, "podAffinityTerm": term} for weight, term in case.terms.items()]
    spec = preferred(case.kind, *terms)
    given: Json = {"labels": dict(case.labels), "spec": spec, "namespace": case.namespace}
    live.add_pod("pod", scheduler="InterPodAffinity", **given)
    assert live.bound("pod", case.namespace) in case.on


# Spreading ----------------------------------------------------------------------------------------


even: Final = partial(topology.even, must=False)
KEEP_OFF: Final = {"key": "k1", "value": "v1", "effect": "NoSchedule"}
RATHER_NOT: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "PreferNoSchedule"}
spread: Final = partial(Spread, nodes=four_nodes(0, taints={0: KEEP_OFF}))
SELECTED: Final = {"nodeSelector": FOO}
POLICIES: Final[Json] = {"nodes": four_nodes(1, (1, 2, 3), {2: RATHER_NOT}), "spec": SELECTED}

SPREADS: Final = [
    spread("place pod on a ~0~/1/2/3 cluster with MaxSkew=1, node-1 is the preferred fit",
           [even("node")], "122333", "1"),
    spread("place pod on a ~0~/2/1/3 cluster with MaxSkew=1, node-2 is the preferred fit (ours)",
           [even("node")], "112333", "2"),
    spread("combined with hardSpread constraint on a ~4~/0/1/2 cluster",
           [even("node"), even("zone", must=True)], "0000233", "2"),
    spread("soft constraint with two node inclusion Constraints, zone: honor/ignore, node: "
           "honor/ignore",
           [even("zone"), even("node")], "1224", "3", **POLICIES),
    spread("soft constraint with two node inclusion Constraints, zone: ignore/ignore, node: "
           "honor/honor",
           [even("zone", nodeAffinityPolicy="Ignore"), even("node", nodeTaintsPolicy="Honor")],
           "1224", "3", **POLICIES),
    spread("matchLabelKeys ANDed with LabelSelector when LabelSelector isn't empty, node-2 is the "
           "preferred fit",
           [even("node", matchLabelKeys=["bar"])], "122333", "2", bars="b--bb-",
           labels={**FOO, "bar": ""}),
    spread("matchLabelKeys ANDed with LabelSelector when LabelSelector is empty, node-1 is the "
           "preferred fit",
           [even("node", matchLabelKeys=["foo"], labelSelector={})], "122333", "1"),
]  # fmt: skip


@pytest.mark.parametrize("case", SPREADS, ids=lambda case: case.name)
def test_pod_topology_spread_scoring(live: LiveBerth, case: Spread) -> None:
    """TestPodTopologySpreadScoring, the case of the same name."""
    add_spread(live, case, "PodTopologySpread")
    assert {live.bound("pod")} == allowed(case)


NODES_IN_ZONES: Final = 60


@pytest.mark.parametrize("counts", [(3, 9, 15)], ids=["3-pods, 12-pods and 27-pods"])
def test_default_pod_topology_spread_scoring(live: LiveBerth, counts: tuple[int, ...]) -> None:
    """TestDefaultPodTopologySpreadScoring: pods of a Service, by the constraints that hold for all."""
    for number in range(NODES_IN_ZONES):
        zone = {ZONE: f"zone-{number // (NODES_IN_ZONES // 3)}"}
        live.add_node(f"node-{number:02}", labels=zone, settle=False)
    live.until(lambda s: s.node_count == NODES_IN_ZONES, "the owner knows all nodes")
    total = 0
    for count in counts:
        for _ in range(count):
            live.add_pod(f"p-{total}", scheduler="PodTopologySpread", labels={"service": SERVICE})
            total += 1
        nodes = [live.bound(f"p-{number}") for number in range(total)]
        zones = Counter(int(node[-2:]) // (NODES_IN_ZONES // 3) for node in nodes)
        assert zones == dict.fromkeys(range(3), total // 3)
