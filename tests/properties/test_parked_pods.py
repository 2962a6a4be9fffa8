"""No pod stays parked that would fit: the hints of all plugins against a search that knows no hints.

After each change of a small cluster everything is brought to rest. Then each pod that is parked as
unschedulable is filtered anew, over all nodes, on a cache that is made from scratch out of what the
cluster holds. A node that takes it means that an event should have woken it and did not.

kube-scheduler has gaps of its own, where a change helps and no hint says so; berth has the same, for
its answers are compared with kube-scheduler's (family hints of the corpus). `shared_gap` knows those
that this machine meets, and the tests at the end show each. Such a pod waits for another event, five
minutes at most.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bench.conformance.one_by_one import rows_without_verdict
from bench.sim.slow_topology import HOST_NAME, REQUIRED, ZONE
from daemon.core.cache import Cache
from daemon.core.queue.queued_pod import Place, QueuedPod
from shared.feature_gates import DEFAULT_GATES
from shared.framework.runtime.diagnosis import filter_candidates
from shared.framework.runtime.prepared_pod import prepared
from shared.kube.api.core_v1 import ApiObject, Node
from shared.kube.pod_record import PodRecord
from shared.kube.resources import KINDS_BY_PLURAL
from shared.messages.to_owner import ObjectChanged
from shared.plugin_names import INTER_POD_AFFINITY
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline

PROFILE = "default-scheduler"
MAX_BACKOFF_S = 11.0
ROUNDS_MAX = 60
"""Of moving, confirming and waiting; far more than 14 pods need."""
NODE_NAMES = [f"n{i}" for i in range(4)]
NAMESPACES = ["default", "prod"]
TAINTS: list[list[dict[str, str]]] = [
    [],
    [],
    [{"key": "k", "value": "v", "effect": "NoSchedule"}],
    [{"key": "other", "value": "", "effect": "NoExecute"}],
]
TOLERATIONS: list[list[dict[str, str]]] = [[], [{"key": "k", "operator": "Exists"}]]
EVERYTHING = [{"operator": "Exists"}]
WEB = {"matchLabels": {"app": "web"}}
LABELS: list[dict[str, str]] = [{}, {"app": "web"}, {"app": "db"}]
TERM = {"labelSelector": WEB}


def spread(key: str, **others: Any) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": WEB, **others}]}


def affinity(kind: str, key: str) -> dict[str, Any]:
    return {"affinity": {kind: {REQUIRED: [{**TERM, "topologyKey": key}]}}}


def node_affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": [each]} for each in expressions]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


SPECS: list[dict[str, Any]] = [
    {},
    {},
    {"nodeSelector": {"disk": "ssd"}},
    node_affinity({"key": ZONE, "operator": "In", "values": ["a"]}),
    node_affinity({"key": "disk", "operator": "DoesNotExist"}),
    {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    ]}}}},
    affinity("podAffinity", ZONE),
    affinity("podAntiAffinity", HOST_NAME),
    affinity("podAntiAffinity", ZONE),
    spread(ZONE),
    spread(HOST_NAME),
    spread(ZONE, minDomains=3),
    spread(HOST_NAME, nodeTaintsPolicy="Honor"),
]  # fmt: skip


@dataclass(frozen=True)
class NodeIs:
    """What can change of a node."""

    cpu: int = 2
    zone: str = "a"
    is_ssd: bool = False
    taints: int = 0
    is_closed: bool = False

    def made(self, name: str) -> Node:
        labels = {"disk": "ssd"} if self.is_ssd else {}
        if self.zone:
            labels[ZONE] = self.zone
        return make_node(
            name,
            cpu=str(self.cpu),
            labels=labels,
            taints=TAINTS[self.taints],
            unschedulable=self.is_closed,
        )


@dataclass(frozen=True)
class PodIs:
    """What a pod asks for, and what can change of it."""

    name: str
    namespace: str = "default"
    cpu_milli: int = 500
    labels: int = 0
    tolerations: int = 0
    spec: int = 0
    host_port: int = 0
    claim: str = ""
    is_gated: bool = False
    tolerates_all: bool = False
    """Added later: the API lets tolerations be added only."""
    node: str = ""
    version: int = field(default=1, compare=False)

    @property
    def has_pod_affinity(self) -> bool:
        kinds = SPECS[self.spec].get("affinity", {})
        return "podAffinity" in kinds or "podAntiAffinity" in kinds

    def made(self) -> PodRecord:
        tolerations = TOLERATIONS[self.tolerations] + (EVERYTHING if self.tolerates_all else [])
        spec = {**SPECS[self.spec], "tolerations": tolerations}
        if self.is_gated:
            spec["schedulingGates"] = [{"name": "wait"}]
        return make_pod(
            self.name,
            namespace=self.namespace,
            node_name=self.node,
            cpu=f"{self.cpu_milli}m",
            memory=None,
            host_port=self.host_port,
            claim=self.claim,
            labels=LABELS[self.labels],
            spec=spec,
            resource_version=str(self.version),
        )

    def changed(self, **fields: Any) -> "PodIs":
        return replace(self, version=self.version + 1, **fields)


THEMES: dict[str, range] = {
    "resources": range(1),
    "ports": range(1),
    "taints": range(1),
    "volumes": range(1),
    "node affinity": range(1, 6),
    "pod affinity": range(6, 9),
    "spread": range(9, len(SPECS)),
    "all": range(len(SPECS)),
}
"""Theme -> the specs of its pods. A pod that is refused for three reasons at once hides all of their
hints but one, so most runs are about one reason."""


def node_of(theme: str, node: NodeIs) -> NodeIs:
    """Without what the theme is not about."""
    if theme not in ("resources", "all"):
        node = replace(node, cpu=3)
    if theme not in ("taints", "all"):
        node = replace(node, taints=0, is_closed=False)
    return node


def pod_of(theme: str, pod: PodIs, name: str) -> PodIs:
    """Without what the theme is not about."""
    specs = THEMES[theme]
    pod = replace(pod, name=name, spec=specs[pod.spec % len(specs)])
    if theme not in ("resources", "all"):
        pod = replace(pod, cpu_milli=100)
    if theme != "ports" and theme != "all":
        pod = replace(pod, host_port=0)
    if theme != "volumes" and theme != "all":
        pod = replace(pod, claim="")
    return pod


NODES = st.builds(
    NodeIs,
    cpu=st.integers(1, 3),
    zone=st.sampled_from(["a", "b", ""]),
    is_ssd=st.booleans(),
    taints=st.integers(0, len(TAINTS) - 1),
    is_closed=st.integers(0, 3).map(lambda n: n == 0),
)
PODS = st.builds(
    PodIs,
    name=st.just(""),
    namespace=st.sampled_from(["default", "default", "prod"]),
    cpu_milli=st.sampled_from([100, 500, 1000, 2000, 2500]),
    labels=st.integers(0, len(LABELS) - 1),
    tolerations=st.integers(0, len(TOLERATIONS) - 1),
    spec=st.integers(0, len(SPECS) - 1),
    host_port=st.sampled_from([0, 8080]),
    claim=st.sampled_from(["", "shared", "alone"]),
    is_gated=st.integers(0, 9).map(lambda n: n == 0),
)


def volume_body(zone: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
    }
    if zone:
        here = {"key": ZONE, "operator": "In", "values": [zone]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    return {"metadata": {"name": "v"}, "spec": spec, "status": {"phase": "Bound"}}


def claim_body(name: str, *, is_bound: bool) -> dict[str, Any]:
    done = {"pv.kubernetes.io/bind-completed": "yes"} if is_bound else {}
    mode = "ReadWriteOncePod" if name == "alone" else "ReadWriteMany"
    spec = {
        "accessModes": [mode],
        "volumeName": "v" if is_bound else "",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": done}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Bound" if is_bound else "Pending"}}


class Cluster:
    """A cluster as its API server holds it, a berth that watches it, and the search without hints."""

    def __init__(self) -> None:
        self.pipeline = Pipeline()
        self.nodes: dict[str, NodeIs] = {}
        self.pods: dict[str, PodIs] = {}
        self.objects: dict[tuple[str, str], ApiObject] = {}
        self.last_change = ""
        self.pipeline.sync([], [])
        for name in NAMESPACES:
            self.put("namespaces", name, {"metadata": {"name": name}})

    # Changes -------------------------------------------------------------------------------------

    def set_node(self, name: str, node: NodeIs) -> None:
        self.last_change = "node"
        self.nodes[name] = node
        self.pipeline.add_node(node.made(name))

    def remove_node(self, name: str) -> None:
        self.last_change = "node"
        del self.nodes[name]
        self.pipeline.remove_node(name)

    def set_pod(self, pod: PodIs) -> None:
        self.last_change = "pod"
        self.pods[pod.name] = pod
        self.pipeline.add_pod(pod.made())

    def delete_pod(self, name: str) -> None:
        self.last_change = "pod"
        pod = self.pods.pop(name)
        self.pipeline.delete_pod(pod.made())

    def put(self, kind: str, key: str, body: dict[str, Any]) -> None:
        self.last_change = "object"
        value = msgspec.convert(body, KINDS_BY_PLURAL[kind].struct_type)
        self.objects[kind, key] = value
        self.pipeline.tell(ObjectChanged(kind, key, msgspec.Raw(msgspec.msgpack.encode(value))))

    # Rest ----------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Until nothing moves, all bindings are confirmed and no back-off is under way."""
        for _ in range(ROUNDS_MAX):
            self.pipeline.run_until_quiet()
            if self._confirm():
                continue
            # Without a node every attempt is an error, as upstream, and pods back off for ever.
            if not self._in(Place.BACKOFF) or not self.nodes:
                return
            self.pipeline.advance(MAX_BACKOFF_S)
        raise AssertionError(f"{self._in(Place.BACKOFF)} are tried again and again")

    def _confirm(self) -> bool:
        """The watch shows what was bound."""
        bound = self.pipeline.bound
        found = [pod for pod in self.pods.values() if not pod.node and pod.made().uid in bound]
        for pod in found:
            (node,) = bound[pod.made().uid]
            self.pods[pod.name] = pod.changed(node=node)
            self.pipeline.add_pod(self.pods[pod.name].made())
        return bool(found)

    def _in(self, place: Place) -> list[str]:
        return [pod.record.name for pod in self.pipeline.state.queue if pod.place is place]

    def parked(self) -> list[QueuedPod]:
        """Pods that wait for an event; gated ones wait for their gates."""
        held = [pod for pod in self.pipeline.state.queue if pod.place is Place.UNSCHEDULABLE]
        return [pod for pod in held if not self.pods[pod.record.name].is_gated]

    def shared_gap(self, pod: QueuedPod) -> str:
        """The gap of kube-scheduler's hints that the last change fell into; empty: none."""
        is_by_pods = INTER_POD_AFFINITY in pod.unschedulable_plugins
        has_terms = self.pods[pod.record.name].has_pod_affinity
        if self.last_change == "node" and is_by_pods and not has_terms:
            # interpodaffinity/plugin.go isSchedulableAfterNodeChange, v1.36
            return "nodes are compared with the pod's own terms, not with those of other pods"
        return ""

    # The search without hints --------------------------------------------------------------------

    def nodes_that_take(self, name: str) -> list[str]:
        """Every filter over every node, on a cache that nothing has happened to."""
        cache = Cache(DEFAULT_GATES)
        for node_name, node in self.nodes.items():
            cache.add_node(node.made(node_name))
        for pod in self.pods.values():
            if pod.node:
                cache.add_pod(pod.made())
        for (kind, key), value in self.objects.items():
            cache.objects.put(kind, key, value)
        info = cache.classes.acquire(self.pods[name].made()).info
        asking = prepared(self.pipeline.frameworks[PROFILE], info, cache.view)
        filtered = filter_candidates(asking)
        return [cache.nodes.name_of(int(row)) for row in rows_without_verdict(filtered)]


class ParkedPodsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.count = 0
        self.theme = "all"
        self.excused: dict[str, int] = {}
        """Pods that a shared gap left parked, until their next attempt -> attempts."""

    def pick(self, number: int, *, is_placed: bool) -> PodIs | None:
        found = [pod for pod in self.cluster.pods.values() if bool(pod.node) is is_placed]
        return found[number % len(found)] if found else None

    @initialize(
        theme=st.sampled_from(sorted(THEMES)),
        nodes=st.lists(NODES, min_size=2, max_size=3),
        pods=st.lists(PODS, min_size=4, max_size=9),
    )
    def begin(self, theme: str, nodes: list[NodeIs], pods: list[PodIs]) -> None:
        self.theme = theme
        for name, node in zip(NODE_NAMES, nodes, strict=False):
            self.cluster.set_node(name, node_of(theme, node))
        self.create(pods)

    # Pods ----------------------------------------------------------------------------------------

    @rule(pods=st.lists(PODS, min_size=1, max_size=3))
    def create_pods(self, pods: list[PodIs]) -> None:
        self.create(pods)

    def create(self, pods: list[PodIs]) -> None:
        for pod in pods:
            if len(self.cluster.pods) < 14:
                self.count += 1
                self.cluster.set_pod(pod_of(self.theme, pod, f"p{self.count}"))

    @rule(pod=PODS, node=st.sampled_from(NODE_NAMES))
    @precondition(lambda self: len(self.cluster.pods) < 14)
    def somebody_else_binds_one(self, pod: PodIs, node: str) -> None:
        self.count += 1
        theirs = pod_of(self.theme, pod, f"p{self.count}")
        self.cluster.set_pod(replace(theirs, node=node, is_gated=False))

    @rule(number=st.integers(0, 99))
    def delete_placed(self, number: int) -> None:
        pod = self.pick(number, is_placed=True)
        if pod is not None:
            self.cluster.delete_pod(pod.name)

    @rule(number=st.integers(0, 99))
    def delete_any(self, number: int) -> None:
        names = list(self.cluster.pods)
        if names:
            self.cluster.delete_pod(names[number % len(names)])

    @rule(number=st.integers(0, 99), labels=st.integers(0, len(LABELS) - 1), placed=st.booleans())
    def label_pod(self, number: int, labels: int, placed: bool) -> None:
        pod = self.pick(number, is_placed=placed)
        if pod is not None:
            self.cluster.set_pod(pod.changed(labels=labels))

    @rule(number=st.integers(0, 99), placed=st.sampled_from([True, True, False]))
    def scale_down(self, number: int, placed: bool) -> None:
        pod = self.pick(number, is_placed=placed)
        if pod is not None:
            self.cluster.set_pod(pod.changed(cpu_milli=100))

    @rule(number=st.integers(0, 99))
    def tolerate_everything(self, number: int) -> None:
        pod = self.pick(number, is_placed=False)
        if pod is not None:
            self.cluster.set_pod(pod.changed(tolerates_all=True))

    @rule(number=st.integers(0, 99))
    def open_gates(self, number: int) -> None:
        gated = [pod for pod in self.cluster.pods.values() if pod.is_gated]
        if gated:
            self.cluster.set_pod(gated[number % len(gated)].changed(is_gated=False))

    # Nodes ---------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NODE_NAMES), node=NODES)
    def node_comes_or_changes(self, name: str, node: NodeIs) -> None:
        self.cluster.set_node(name, node_of(self.theme, node))

    @rule(name=st.sampled_from(NODE_NAMES), aspect=st.sampled_from(
        ["cpu", "zone", "is_ssd", "taints", "is_closed"]), node=NODES)  # fmt: skip
    def node_changes_in_one_way(self, name: str, aspect: str, node: NodeIs) -> None:
        held = self.cluster.nodes.get(name)
        if held is not None:
            changed = replace(held, **{aspect: getattr(node, aspect)})
            self.cluster.set_node(name, node_of(self.theme, changed))

    @rule(name=st.sampled_from(NODE_NAMES))
    def node_goes(self, name: str) -> None:
        if name in self.cluster.nodes:
            self.cluster.remove_node(name)

    # Volumes -------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(["shared", "alone"]), is_bound=st.sampled_from([True, True, False]))
    def claim_comes_or_changes(self, name: str, is_bound: bool) -> None:
        key = f"default/{name}"
        self.cluster.put("persistentvolumeclaims", key, claim_body(name, is_bound=is_bound))

    @rule(zone=st.sampled_from(["", "a", "b"]))
    def volume_comes_or_moves(self, zone: str) -> None:
        self.cluster.put("persistentvolumes", "v", volume_body(zone))

    # What must hold ------------------------------------------------------------------------------

    @invariant()
    def every_parked_pod_fits_nowhere(self) -> None:
        cluster = self.cluster
        cluster.settle()
        cluster.pipeline.check()
        assert not [note for note in cluster.pipeline.notes if note.event == "object_left_out"]
        held = {pod.record.name for pod in cluster.pipeline.state.queue}
        assert held == {pod.name for pod in cluster.pods.values() if not pod.node}
        for pod in cluster.parked():
            name = pod.record.name
            takers = cluster.nodes_that_take(name)
            if takers and cluster.shared_gap(pod):
                self.excused[name] = pod.attempts
            is_excused = self.excused.get(name) == pod.attempts
            assert not takers or is_excused, f"{cluster.pods[name]} would fit on {takers}"


ParkedPodsMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=30)
TestParkedPods = ParkedPodsMachine.TestCase


def test_gap_of_both_a_node_that_leaves_the_domain_of_anothers_anti_affinity() -> None:
    """Nobody may join the first pod's zone; when a node leaves that zone, no hint says so."""
    cluster = Cluster()
    cluster.set_node("n0", NodeIs(zone="b"))
    cluster.set_pod(PodIs("alone", spec=SPECS.index(affinity("podAntiAffinity", ZONE)), node="n0"))
    cluster.set_pod(PodIs("waits", labels=LABELS.index({"app": "web"})))
    cluster.set_node("n1", NodeIs(zone="b"))
    cluster.settle()
    assert [pod.record.name for pod in cluster.parked()] == ["waits"]
    cluster.set_node("n1", NodeIs(zone=""))
    cluster.settle()
    (parked,) = cluster.parked()
    assert cluster.nodes_that_take("waits") == ["n1"]
    assert cluster.shared_gap(parked)
    # Any event that a hint does see ends the wait.
    cluster.delete_pod("alone")
    cluster.settle()
    assert cluster.parked() == []
