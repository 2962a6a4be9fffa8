"""A second opinion on every placement: one pod, one node, from nothing, as plainly as it can be said.

It shares no code with the scheduler and keeps no state: a cluster is a list of nodes and a list of pods
as the API shows them. What it does not know of (scores, images) no decision may hang on; a rule that
generated pods cannot touch is not here.

Rules: pkg/scheduler/framework/plugins, v1.36.2.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

import msgspec

from bench.apiserver.quantities import parse_quantity
from bench.sim import slow_topology as slow

Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class OraclePod:
    """A pod; `node` is empty for one that waits."""

    uid: str
    name: str
    namespace: str
    labels: Json
    spec: Json
    node: str = ""
    is_terminating: bool = False

    @property
    def priority(self) -> int:
        priority: int = self.spec.get("priority") or 0
        return priority


@dataclass(frozen=True, eq=False)
class OracleNode:
    name: str
    labels: Json
    spec: Json
    allocatable: Json


@dataclass
class OracleCluster:
    """Everything that a decision may depend on."""

    nodes: list[OracleNode]
    pods: list[OraclePod]
    """On nodes."""
    namespaces: dict[str, Json] = field(default_factory=dict)

    def without(self, gone: Iterable[OraclePod]) -> "OracleCluster":
        uids = {pod.uid for pod in gone}
        return replace(self, pods=[pod for pod in self.pods if pod.uid not in uids])

    def beside(self, more: Iterable[OraclePod]) -> "OracleCluster":
        return replace(self, pods=[*self.pods, *more])

    def on(self, node: OracleNode) -> list[OraclePod]:
        return [pod for pod in self.pods if pod.node == node.name]

    def node(self, name: str) -> OracleNode | None:
        return next((node for node in self.nodes if node.name == name), None)


def pod_of(found: Json) -> OraclePod:
    """Of an object of the API."""
    meta, spec = found["metadata"], found["spec"]
    return OraclePod(
        uid=meta["uid"],
        name=meta["name"],
        namespace=meta["namespace"],
        labels=meta.get("labels") or {},
        spec=spec,
        node=spec.get("nodeName") or "",
        is_terminating="deletionTimestamp" in meta,
    )


def node_of(found: Json) -> OracleNode:
    """Of an object of the API."""
    meta = found["metadata"]
    room = found.get("status", {}).get("allocatable") or {}
    return OracleNode(meta["name"], meta.get("labels") or {}, found.get("spec") or {}, room)


def cluster_of(
    nodes: Sequence[Json], pods: Sequence[Json], namespaces: Sequence[Json]
) -> OracleCluster:
    """Of objects of the API; pods that wait or have finished are left out."""
    placed = [
        pod_of(pod) for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")
    ]
    return OracleCluster(
        [node_of(node) for node in nodes],
        [pod for pod in placed if pod.node],
        {each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in namespaces},
    )


# The verdict --------------------------------------------------------------------------------------


def why_not(pod: OraclePod, node: OracleNode, cluster: OracleCluster) -> str:
    """What keeps the pod from the node; empty where nothing does."""
    beside = cluster.on(node)
    return (
        _taint(pod, node)
        or _node_affinity(pod, node)
        or _ports(pod, beside)
        or _room(pod, node, beside)
        or _topology(pod, node, cluster)
    )


def where_it_fits(pod: OraclePod, cluster: OracleCluster) -> list[str]:
    """The names of all nodes that take the pod."""
    return [node.name for node in cluster.nodes if not why_not(pod, node, cluster)]


def where_room_can_be_made(pod: OraclePod, cluster: OracleCluster) -> list[str]:
    """Nodes that take the pod once all pods that matter less are gone from them."""
    if pod.spec.get("preemptionPolicy") == "Never":
        return []
    found = []
    for node in cluster.nodes:
        lesser = [other for other in cluster.on(node) if other.priority < pod.priority]
        if lesser and not why_not(pod, node, cluster.without(lesser)):
            found.append(node.name)
    return found


def overcommitted(cluster: OracleCluster) -> list[tuple[str, str]]:
    """(node, what there is too much of)"""
    found = []
    for node in cluster.nodes:
        pods = cluster.on(node)
        for name, wanted in _sum(pods).items():
            if wanted > _quantity(node.allocatable.get(name, "0")):
                found.append((node.name, f"{wanted} of {name} are asked for"))
        ports = [port for pod in pods for port in _host_ports(pod)]
        if len(ports) != len(set(ports)):
            found.append((node.name, "a host port is used twice"))
        if len(pods) > _quantity(node.allocatable.get("pods", "0")):
            found.append((node.name, f"{len(pods)} pods"))
    return found


# Rules, one by one --------------------------------------------------------------------------------


def _taint(pod: OraclePod, node: OracleNode) -> str:
    tolerations = pod.spec.get("tolerations") or []
    taints = list(node.spec.get("taints") or [])
    if node.spec.get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    for taint in taints:
        if taint["effect"] == "PreferNoSchedule":
            continue
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            return f"taint {taint['key']}"
    return ""


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    is_equal: bool = toleration.get("value", "") == taint.get("value", "")
    return is_equal and bool(toleration.get("key"))


def _node_affinity(pod: OraclePod, node: OracleNode) -> str:
    wanted = pod.spec.get("nodeSelector") or {}
    if any(node.labels.get(key) != value for key, value in wanted.items()):
        return "node selector"
    return ""


def _host_ports(pod: OraclePod) -> list[int]:
    containers = pod.spec.get("containers") or []
    ports = [port for each in containers for port in each.get("ports") or []]
    return [port["hostPort"] for port in ports if port.get("hostPort")]


def _ports(pod: OraclePod, beside: Sequence[OraclePod]) -> str:
    wanted = set(_host_ports(pod))
    taken = {port for other in beside for port in _host_ports(other)}
    return "host port" if wanted & taken else ""


@lru_cache(4096)
def _quantity(text: str) -> Decimal:
    found = parse_quantity(text)
    assert found is not None, f"{text} is no quantity"
    return found


def _sum(pods: Iterable[OraclePod]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for pod in pods:
        for container in pod.spec.get("containers") or []:
            requests = (container.get("resources") or {}).get("requests") or {}
            for name, text in requests.items():
                total[name] = total.get(name, Decimal(0)) + _quantity(text)
    return total


def _room(pod: OraclePod, node: OracleNode, beside: Sequence[OraclePod]) -> str:
    if len(beside) + 1 > _quantity(node.allocatable.get("pods", "0")):
        return "number of pods"
    taken = _sum(beside)
    for name, wanted in _sum([pod]).items():
        there = _quantity(node.allocatable.get(name, "0"))
        if wanted and wanted + taken.get(name, Decimal(0)) > there:
            return name
    return ""


def _topology(pod: OraclePod, node: OracleNode, cluster: OracleCluster) -> str:
    seen = slow.SlowCluster(
        [
            slow.SlowNode(each.name, each.labels, each.spec.get("taints") or [])
            for each in cluster.nodes
        ],
        [_slow(each) for each in cluster.pods],
        cluster.namespaces,
    )
    for verdicts in (slow.spread_filter(_slow(pod), seen), slow.interpod_filter(_slow(pod), seen)):
        if verdicts is not None and node.name in verdicts:
            return verdicts[node.name]
    return ""


def _slow(pod: OraclePod) -> slow.SlowPod:
    return slow.SlowPod(
        pod.namespace, pod.labels, pod.spec, node=pod.node, is_terminating=pod.is_terminating
    )


# What a scheduler holds ---------------------------------------------------------------------------


def pod_of_template(
    uid: str, key: str, template: bytes, node: str, *, is_terminating: bool
) -> OraclePod:
    """Of what is left of a pod once it was split into record and template."""
    namespace, _, name = key.partition("/")
    labels, spec = _template(template)
    return OraclePod(uid, name, namespace, labels, spec, node, is_terminating)


@lru_cache(4096)
def _template(template: bytes) -> tuple[Json, Json]:
    decoded = msgspec.msgpack.decode(template)
    for constraint in decoded["spec"].get("topologySpreadConstraints") or []:
        constraint.setdefault("maxSkew", 1)  # What is as usual is left out of templates.
    return decoded.get("labels") or {}, decoded["spec"]
