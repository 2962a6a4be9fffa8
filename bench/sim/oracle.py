"""A second opinion on every decision: one pod, one node, from nothing, as plainly as it can be said.

It shares no code with the scheduler and keeps no state: a cluster is a list of nodes, a list of pods and
the other objects as the API shows them. It says which filter of the default profile would reject a pod
on a node, and which pods a preemption would have go; scores are not here.

Rules: pkg/scheduler/framework/plugins and pkg/scheduler/framework/preemption, v1.36.2.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from bench.sim import slow_pods, slow_storage
from bench.sim import slow_topology as slow
from bench.sim.door import DOOR, DOORS, SHUT, SimulatedDoor, is_open
from bench.sim.extender import LICENCE, SEAT, is_refused
from bench.sim.slow_claims import backing_class, claims_verdict, shared_devices
from bench.sim.slow_pods import Amounts, Verdict
from bench.sim.slow_storage import Moved, Storage, VolumePod

Json = dict[str, Any]

SPREAD, AFFINITY = "PodTopologySpread", "InterPodAffinity"
FINAL_TOPOLOGY = (slow.NO_LABEL, slow.AFFINITY)


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
    status: Json = field(default_factory=dict)
    """What of it counts as amounts."""
    started: str = ""
    is_preempted: bool = False
    """A scheduler has had it go."""
    were_extenders_asked: bool = True
    """What they have against nodes counts."""
    group: str = ""
    """The key of its PodGroup, where it names one."""

    @property
    def priority(self) -> int:
        priority: int = self.spec.get("priority") or 0
        return priority

    @cached_property
    def requests(self) -> Amounts:
        """What it takes of a node."""
        wanted = slow_pods.requests_of(self.spec, self.status)
        return {name: amount for name, amount in wanted.items() if name not in (LICENCE, SEAT)}

    @cached_property
    def host_ports(self) -> list[slow_pods.Port]:
        return slow_pods.host_ports(self.spec)

    @cached_property
    def anti_affinity(self) -> Json:
        found: Json = (self.spec.get("affinity") or {}).get("podAntiAffinity") or {}
        return found

    @cached_property
    def affinity(self) -> Json:
        found: Json = (self.spec.get("affinity") or {}).get("podAffinity") or {}
        return found

    def on(self, node: str) -> "OraclePod":
        return replace(self, node=node)

    def before_extenders(self) -> "OraclePod":
        return replace(self, were_extenders_asked=False)


@dataclass(frozen=True, eq=False)
class OracleNode:
    name: str
    labels: Json
    spec: Json
    allocatable: Json
    features: tuple[str, ...] = ()


@dataclass
class OracleCluster:
    """Everything that a decision may depend on."""

    nodes: list[OracleNode]
    pods: list[OraclePod]
    """On nodes."""
    namespaces: Mapping[str, Json] = field(default_factory=dict)
    """Their labels."""
    told: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """Objects of other kinds, by kind and key."""
    latest: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """The same with what is assumed on top."""
    nominated: list[OraclePod] = field(default_factory=list)
    """Pods that wait for room that is kept for them."""

    def without(self, gone: Iterable[OraclePod]) -> "OracleCluster":
        uids = {pod.uid for pod in gone}
        return replace(self, pods=[pod for pod in self.pods if pod.uid not in uids])

    def beside(self, more: Sequence[OraclePod]) -> "OracleCluster":
        """With these on their nodes, and so nominated no more."""
        uids = {pod.uid for pod in more}
        nominated = [pod for pod in self.nominated if pod.uid not in uids]
        return replace(self, pods=[*self.pods, *more], nominated=nominated)

    def on(self, node: OracleNode) -> list[OraclePod]:
        return [pod for pod in self.pods if pod.node == node.name]

    def on_nodes(self) -> list[OraclePod]:
        """Without those of a node that is gone (`usedPVCSet` in pkg/scheduler/backend/cache/cache.go,
        v1.36.2)."""
        names = {node.name for node in self.nodes}
        return [pod for pod in self.pods if pod.node in names]

    def node(self, name: str) -> OracleNode | None:
        return next((node for node in self.nodes if node.name == name), None)


def pod_of(found: Json) -> OraclePod:
    """Of an object of the API."""
    meta, spec, status = found["metadata"], found["spec"], found.get("status") or {}
    named = (spec.get("schedulingGroup") or {}).get("podGroupName")
    return OraclePod(
        uid=meta["uid"],
        name=meta["name"],
        namespace=meta["namespace"],
        labels=meta.get("labels") or {},
        spec=spec,
        node=spec.get("nodeName") or "",
        is_terminating="deletionTimestamp" in meta,
        status=status,
        started=status.get("startTime") or "",
        is_preempted="deletionTimestamp" in meta and _has_preempted(status),
        group=f"{meta['namespace']}/{named}" if named else "",
    )


def is_over(found: Json) -> bool:
    """Whether a pod has finished: nobody is told of it any more."""
    return found["status"].get("phase") in ("Succeeded", "Failed")


def _has_preempted(status: Json) -> bool:
    for condition in status.get("conditions") or []:
        if condition.get("type") == "DisruptionTarget":
            return (condition.get("status"), condition.get("reason")) == (
                "True",
                "PreemptionByScheduler",
            )
    return False


def node_of(found: Json) -> OracleNode:
    """Of an object of the API."""
    meta = found["metadata"]
    status = found.get("status") or {}
    features = tuple(status.get("declaredFeatures") or ())
    labels, room = meta.get("labels") or {}, status.get("allocatable") or {}
    return OracleNode(meta["name"], labels, found.get("spec") or {}, room, features)


def cluster_of(
    nodes: Sequence[Json],
    pods: Sequence[Json],
    namespaces: Sequence[Json],
    told: Mapping[str, Mapping[str, Json]] | None = None,
) -> OracleCluster:
    """Of objects of the API; pods that have finished are left out, and those that wait without a
    nomination."""
    left = [pod for pod in pods if not is_over(pod)]
    placed = [pod_of(pod) for pod in left]
    named = [pod["status"].get("nominatedNodeName") for pod in left]
    return OracleCluster(
        [node_of(node) for node in nodes],
        [pod for pod in placed if pod.node],
        {each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in namespaces},
        told or {},
        told or {},
        [pod.on(node) for pod, node in zip(placed, named, strict=True) if node and not pod.node],
    )


# The verdict --------------------------------------------------------------------------------------


def why_not(
    pod: OraclePod,
    node: OracleNode,
    cluster: OracleCluster,
    before: OracleCluster | None = None,
) -> Verdict | None:
    """What keeps the pod from the node, in the order of the profile; None where nothing does. Pods that
    are nominated there and matter as much count first, and then are left out. `before`: the cluster as
    PreFilter saw it, where that is another; a plugin that had nothing to do there is not asked."""
    before = before or cluster
    nominated = [
        other
        for other in cluster.nominated
        if other.node == node.name and other.uid != pod.uid and other.priority >= pod.priority
    ]
    found = _why_not(pod, node, cluster.beside(nominated), before) if nominated else None
    return found or _why_not(pod, node, cluster, before)


def _why_not(
    pod: OraclePod, node: OracleNode, cluster: OracleCluster, before: OracleCluster
) -> Verdict | None:
    beside = cluster.on(node)
    return (
        _early_verdict(pod, node)
        or _ports(pod, beside)
        or _room(pod, node, beside, cluster)
        or _volumes(pod, node, cluster, before)
        or _topology(pod, node, cluster, before)
        or claims_verdict(pod.uid, pod.namespace, pod.spec, pod.status, node, cluster)
        or _features(pod, node)
        or _door(pod, cluster)
        or _extender(pod, node)
    )


def where_it_fits(pod: OraclePod, cluster: OracleCluster) -> list[str]:
    """The names of all nodes that take the pod."""
    return [node.name for node in cluster.nodes if why_not(pod, node, cluster) is None]


def overcommitted(cluster: OracleCluster) -> list[tuple[str, str]]:
    """(node, what there is too much of)"""
    found = []
    for node in cluster.nodes:
        pods = cluster.on(node)
        for name, wanted in _sum(pods).items():
            if wanted > _there(node, name) and not backing_class(name, node, cluster):
                found.append((node.name, f"{wanted} of {name} are asked for"))
        ports = [port for pod in pods for port in pod.host_ports]
        if any(slow_pods.ports_clash(a, b) for i, a in enumerate(ports) for b in ports[:i]):
            found.append((node.name, "a host port is used twice"))
        if len(pods) > _there(node, "pods"):
            found.append((node.name, f"{len(pods)} pods"))
    for _, pool, device in shared_devices(cluster.latest.get("resourceclaims", {}).values()):
        found.append((pool, f"two claims have device {device}"))
    return found


# Rules, one by one --------------------------------------------------------------------------------


def _early_verdict(pod: OraclePod, node: OracleNode) -> Verdict | None:
    """What no other pod has a say in."""
    tolerations = pod.spec.get("tolerations") or []
    cordon = {"key": slow_pods.UNSCHEDULABLE_TAINT, "effect": "NoSchedule"}
    if node.spec.get("unschedulable") and slow_pods.untolerated(tolerations, [cordon]):
        return Verdict("NodeUnschedulable", "node(s) were unschedulable", is_final=True)
    if pod.spec.get("nodeName") and pod.spec["nodeName"] != node.name:
        return Verdict("NodeName", "another node was asked for", is_final=True)
    taint = slow_pods.untolerated(tolerations, node.spec.get("taints") or [])
    if taint is not None:
        return Verdict("TaintToleration", f"taint {taint.get('key')}", is_final=True)
    if not slow_pods.wants_node(pod.spec, node.name, node.labels):
        return Verdict("NodeAffinity", "another kind of node is wanted", is_final=True)
    return None


def _ports(pod: OraclePod, beside: Sequence[OraclePod]) -> Verdict | None:
    wanted = pod.host_ports
    for other in beside if wanted else ():
        for taken in other.host_ports:
            if any(slow_pods.ports_clash(port, taken) for port in wanted):
                return Verdict(slow_pods.PORTS, f"host port {taken[2]}")
    return None


def _there(node: OracleNode, name: str) -> Any:
    """Of a resource; thousandths of cpu are rounded up, as those of requests are."""
    return slow_pods.amount(name, str(node.allocatable.get(name, "0")))


def _sum(pods: Iterable[OraclePod]) -> Amounts:
    total: Amounts = {}
    for pod in pods:
        for name, wanted in pod.requests.items():
            total[name] = total.get(name, 0) + wanted
    return total


def _room(
    pod: OraclePod, node: OracleNode, beside: Sequence[OraclePod], cluster: OracleCluster
) -> Verdict | None:
    wrong, is_final = [], False
    if len(beside) + 1 > _there(node, "pods"):
        wrong.append("Too many pods")
    taken = _sum(beside)
    for name, wanted in pod.requests.items():
        there = _there(node, name)
        if (
            wanted
            and wanted + taken.get(name, 0) > there
            and not backing_class(name, node, cluster)
        ):
            wrong.append(f"Insufficient {name}")
            is_final |= wanted > there
    return Verdict("NodeResourcesFit", ", ".join(wrong), is_final) if wrong else None


def _volume_pod(pod: OraclePod) -> VolumePod:
    return VolumePod(pod.uid, pod.name, pod.namespace, pod.spec)


def _not_among(cluster: OracleCluster, other: OracleCluster) -> list[VolumePod]:
    """Pods that are in one cluster and not in another."""
    if cluster is other:
        return []
    uids = {pod.uid for pod in other.pods}
    return [_volume_pod(pod) for pod in cluster.pods if pod.uid not in uids]


def _volumes(
    pod: OraclePod, node: OracleNode, cluster: OracleCluster, before: OracleCluster
) -> Verdict | None:
    if not pod.spec.get("volumes"):
        return None
    storage = Storage(cluster.told, cluster.latest)
    mine, near = _volume_pod(pod), [_volume_pod(other) for other in cluster.on(node)]
    everywhere = [_volume_pod(other) for other in before.on_nodes()]
    moved = Moved(_not_among(cluster, before), _not_among(before, cluster))
    return (
        slow_storage.restrictions(mine, near, everywhere, storage, moved)
        or slow_storage.limits(mine, node.name, near, storage)
        or slow_storage.binding(mine, node.name, node.labels, storage)
        or slow_storage.zone(mine, node.labels, storage)
    )


def _topology(
    pod: OraclePod, node: OracleNode, cluster: OracleCluster, before: OracleCluster
) -> Verdict | None:
    mine = _slow(pod)
    if pod.spec.get("topologySpreadConstraints"):
        there = {other.uid for other in cluster.pods}
        gone = [_slow(one) for one in before.pods if one.is_terminating and one.uid not in there]
        spread = slow.spread_filter(mine, _seen(cluster), gone=gone)
        if spread is not None and node.name in spread:
            reason = spread[node.name]
            return Verdict(SPREAD, reason, reason in FINAL_TOPOLOGY)
    if not (pod.affinity or pod.anti_affinity or any(o.anti_affinity for o in cluster.pods)):
        return None
    seen = _seen(cluster)
    affinity = slow.interpod_filter(mine, seen)
    if affinity is None or node.name not in affinity:
        return None
    if cluster is not before and slow.interpod_filter(mine, _seen(before)) is None:
        return None
    reason = affinity[node.name]
    return Verdict(AFFINITY, reason, reason in FINAL_TOPOLOGY)


def may_be_the_first(pod: OraclePod, cluster: OracleCluster) -> bool:
    """Whether the pod's required affinity means the pod itself: where no other is meant, it may go."""
    return slow.may_be_the_first(_slow(pod), _seen(cluster))


def _seen(cluster: OracleCluster) -> slow.SlowCluster:
    nodes = [
        slow.SlowNode(each.name, each.labels, each.spec.get("taints") or [])
        for each in cluster.nodes
    ]
    return slow.SlowCluster(nodes, [_slow(each) for each in cluster.pods], cluster.namespaces)


def _features(pod: OraclePod, node: OracleNode) -> Verdict | None:
    """What the node has to know of to run the pod."""
    spec, wanted = pod.spec, set()
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        rules = container.get("restartPolicyRules") or []
        if any(rule.get("action") == "RestartAllContainers" for rule in rules):
            wanted.add("RestartAllContainersOnContainerExits")
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        wanted.add("UserNamespacesHostNetworkSupport")
    if wanted <= set(node.features):
        return None
    return Verdict("NodeDeclaredFeatures", "a feature is not there", is_final=True)


def _door(pod: OraclePod, cluster: OracleCluster) -> Verdict | None:
    name = pod.labels.get(DOOR)
    door = cluster.told.get(DOORS, {}).get(f"{pod.namespace}/{name}")
    return None if name is None or is_open(door) else Verdict(SimulatedDoor.NAME, SHUT)


def _extender(pod: OraclePod, node: OracleNode) -> Verdict | None:
    if pod.were_extenders_asked and is_refused(pod.spec, node.name):
        return Verdict("Extender", "no licence there", is_final=True)
    return None


def _slow(pod: OraclePod) -> slow.SlowPod:
    return slow.SlowPod(
        pod.namespace, pod.labels, pod.spec, node=pod.node, is_terminating=pod.is_terminating
    )


# What a scheduler holds ---------------------------------------------------------------------------


def pod_of_template(
    uid: str,
    key: str,
    template: bytes,
    node: str,
    *,
    is_terminating: bool,
    started: str = "",
    is_preempted: bool = False,
    group: str = "",
) -> OraclePod:
    """Of what is left of a pod once it was split into record and template."""
    namespace, _, name = key.partition("/")
    labels, spec, status = _template(template)
    return OraclePod(
        uid, name, namespace, labels, spec, node, is_terminating, status, started,
        is_preempted and is_terminating, group=group,
    )  # fmt: skip


@lru_cache(4096)
def identity_of(template: bytes) -> tuple[str, str]:
    """Name and uid of the one pod of its kind; empty where there may be more."""
    found = msgspec.msgpack.decode(template).get("own") or {}
    return found.get("name", ""), found.get("uid", "")


@lru_cache(4096)
def _template(template: bytes) -> tuple[Json, Json, Json]:
    decoded = msgspec.msgpack.decode(template)
    for constraint in decoded["spec"].get("topologySpreadConstraints") or []:
        constraint.setdefault("maxSkew", 1)  # What is as usual is left out of templates.
    own = decoded.get("own", {})
    sources = (each.get("persistentVolumeClaim") for each in decoded["spec"].get("volumes") or ())
    of_claims = [source for source in sources if source is not None]
    for source, name in zip(of_claims, own.get("claimNames", ()), strict=True):
        source["claimName"] = name
    status = {**decoded.get("status", {}), **own}
    return decoded.get("labels") or {}, decoded["spec"], status
