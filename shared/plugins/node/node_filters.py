"""What a node by itself has against a pod: NodeName, NodeUnschedulable, TaintToleration, NodePorts and
NodeDeclaredFeatures.

Nodes share few distinct sets of taints, used ports and declared features: each set is judged once per
pod class.

Rules: pkg/scheduler/framework/plugins/{nodename,nodeunschedulable,tainttoleration,nodeports,
nodedeclaredfeatures}, `HostPortInfo.CheckConflict` in
staging/src/k8s.io/kube-scheduler/framework/types.go and
staging/src/k8s.io/component-helpers/nodedeclaredfeatures/features/, v1.36.2. Of the features there,
those here are inferred when a pod is scheduled; the others concern only resizes of running pods.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np

from shared.columns.answer_table import AnswerTable
from shared.columns.rows import row_index
from shared.columns.schema import Int64s, Rows
from shared.columns.table import PortTuple, TaintTuple
from shared.feature_gates import NODE_DECLARED_FEATURES as DECLARED_FEATURES_GATE
from shared.feature_gates import TAINT_TOLERATION_COMPARISON_OPERATORS
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.normalize import DefaultNormalizeScore
from shared.framework.plugin_api import (
    ON_NODE,
    SKIP_FILTER,
    Dependence,
    PreFilterResult,
    PreScoreResult,
    Reads,
    Scope,
)
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import Change, ClusterEventWithHint, PodView, as_kind
from shared.framework.status import Code, Verdicts, single_reason
from shared.kube.api.core_v1 import Node, PodSpec
from shared.plugin_names import (
    NODE_DECLARED_FEATURES,
    NODE_NAME,
    NODE_PORTS,
    NODE_UNSCHEDULABLE,
    TAINT_TOLERATION,
)
from shared.selectors.tolerations import NO_SCHEDULE, is_repelled, tolerates, unwelcome_count

REASON_NAME: Final = "node(s) didn't match the requested node name"
REASON_UNSCHEDULABLE: Final = "node(s) were unschedulable"
REASON_TAINTS: Final = "node(s) had untolerated taint(s)"
REASON_PORTS: Final = "node(s) didn't have free ports for the requested pod ports"
REASON_FEATURES: Final = "node(s) didn't match Pod's required features"

UNSCHEDULABLE_TAINT: Final[TaintTuple] = ("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)
ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  # An API value, nothing is bound to it here.
RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"

Taints = tuple[TaintTuple, ...]
PortSet = frozenset[PortTuple]
FeatureSet = frozenset[str]


class _OfNode:
    """What all of them promise and depend on; NodePorts reads something else."""

    reads_labels: ClassVar[frozenset[str]] = frozenset()
    ignores_requests: ClassVar[bool] = True
    pre_filter_depends: ClassVar[Dependence | None] = None
    filter_depends: ClassVar[Dependence] = ON_NODE


class NodeName(_OfNode):
    """A pod that names its node goes there or nowhere. Those that reach a scheduler name none, so this
    usually skips."""

    NAME: ClassVar[str] = NODE_NAME

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        return PreFilterResult() if pod.spec.node_name else SKIP_FILTER

    def filter(self, state: None, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        nodes = cluster.nodes
        failed = nodes.name_id[rows] != nodes.names.find(pod.spec.node_name)
        return single_reason(failed, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON_NAME)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (ClusterEventWithHint(Resource.NODE, (Action.ADD,)),)


class _ByTolerations(_OfNode):
    """A node takes the pods that tolerate something about it."""

    def _repels(self, node: Node, pod: PodInfo, cluster: ClusterView) -> bool:
        """Whether the node does not take a pod that was rejected before."""
        raise NotImplementedError

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        of_nodes, of_pods = (Action.ADD, Action.UPDATE_NODE_TAINT), (Action.UPDATE_POD_TOLERATION,)
        return (
            ClusterEventWithHint(Resource.NODE, of_nodes, self._after_node_change),
            ClusterEventWithHint(Resource.POD, of_pods, self._after_own_toleration),
        )

    def _after_node_change(self, pod: PodView, change: Change, cluster: ClusterView) -> bool:
        """The node is new, or repelled the pod, and does not now."""
        was, now = change.both(Node)
        is_welcome = now is not None and not self._repels(now, pod.info, cluster)
        return is_welcome and (was is None or self._repels(was, pod.info, cluster))

    def _after_own_toleration(self, pod: PodView, change: Change, cluster: ClusterView) -> bool:
        return change.is_of(pod)


def _by_tolerations(
    answer: Callable[..., Any], pod: PodInfo, cluster: ClusterView
) -> Callable[..., Any]:
    has_comparison = cluster.gates[TAINT_TOLERATION_COMPARISON_OPERATORS]
    return partial(answer, tolerations=pod.spec.tolerations, has_comparison=has_comparison)


class NodeUnschedulable(_ByTolerations):
    """Cordoned nodes take only pods that tolerate their taint; those are skipped."""

    NAME: ClassVar[str] = NODE_UNSCHEDULABLE

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        return SKIP_FILTER if _tolerates_cordons(pod, cluster) else PreFilterResult()

    def filter(self, state: None, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        failed = cluster.nodes.unschedulable[row_index(rows)]
        return single_reason(failed, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON_UNSCHEDULABLE)

    def _repels(self, node: Node, pod: PodInfo, cluster: ClusterView) -> bool:
        return node.spec.unschedulable

    def _after_own_toleration(self, pod: PodView, change: Change, cluster: ClusterView) -> bool:
        """The pod itself tolerates unschedulable nodes now."""
        return change.is_of(pod) and _tolerates_cordons(pod.info, cluster)


def _tolerates_cordons(pod: PodInfo, cluster: ClusterView) -> bool:
    is_tolerated: bool = _by_tolerations(tolerates, pod, cluster)(taint=UNSCHEDULABLE_TAINT)
    return is_tolerated


class TaintToleration(_ByTolerations, DefaultNormalizeScore):
    """Taints keep pods off nodes, or make nodes less welcome, unless tolerated."""

    NAME: ClassVar[str] = TAINT_TOLERATION
    pre_score_depends: ClassVar[Dependence | None] = None
    score_depends: ClassVar[Dependence] = ON_NODE
    is_reversed: ClassVar[bool] = True
    scores_within_range: ClassVar[bool] = True

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        is_refused = _by_tolerations(is_repelled, pod, cluster)
        return PreFilterResult(state=AnswerTable[Taints](is_refused, np.bool_))

    def filter(
        self, state: AnswerTable[Taints], pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Verdicts:
        nodes = cluster.nodes
        failed = state.of(nodes.taints, nodes.taints_id[row_index(rows)])
        return single_reason(failed, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON_TAINTS)

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:
        count = _by_tolerations(unwelcome_count, pod, cluster)
        return PreScoreResult(state=AnswerTable[Taints](count, np.int64))

    def score(
        self, state: AnswerTable[Taints], pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Int64s:
        nodes = cluster.nodes
        return state.of(nodes.taints, nodes.taints_id[row_index(rows)])

    def _repels(self, node: Node, pod: PodInfo, cluster: ClusterView) -> bool:
        taints = [(taint.key, taint.value, taint.effect) for taint in node.spec.taints or ()]
        return bool(_by_tolerations(is_repelled, pod, cluster)(taints))


class NodePorts(_OfNode):
    """The host ports that a pod wants must be free on its node."""

    NAME: ClassVar[str] = NODE_PORTS
    filter_depends: ClassVar[Dependence] = Dependence(Reads.USAGE, Scope.ROW)

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        if not pod.host_ports:
            return SKIP_FILTER
        conflict = partial(conflicts, tuple(pod.host_ports))
        return PreFilterResult(state=AnswerTable[PortSet](conflict, np.bool_))

    def filter(
        self, state: AnswerTable[PortSet], pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Verdicts:
        nodes = cluster.nodes
        failed = state.of(nodes.ports, nodes.ports_id[row_index(rows)])
        return single_reason(failed, Code.UNSCHEDULABLE, REASON_PORTS)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (
            ClusterEventWithHint(Resource.NODE, (Action.ADD,)),
            ClusterEventWithHint(Resource.POD, (Action.DELETE,), self._after_pod_deleted),
        )

    def _after_pod_deleted(self, pod: PodView, change: Change, cluster: ClusterView) -> bool:
        """It held a host port that this pod wants."""
        deleted = as_kind(PodView, change.old)
        if deleted is None or not deleted.holds_node:
            return False
        return conflicts(pod.info.host_ports, deleted.info.host_ports)


def conflicts(wanted: Iterable[PortTuple], used: PortSet) -> bool:
    """Whether a wanted port is taken: same protocol and number, and one IP or either is any."""
    return any(_is_taken(port, used) for port in wanted)


def _is_taken(port: PortTuple, used: PortSet) -> bool:
    ip, protocol, number = port
    if number <= 0:
        return False
    if ip == ANY_ADDRESS:
        return any(p[1] == protocol and p[2] == number for p in used)
    return port in used or (ANY_ADDRESS, protocol, number) in used


class NodeDeclaredFeatures(_OfNode):
    """Nodes must declare the features that a pod cannot run without; most pods need nothing special."""

    NAME: ClassVar[str] = NODE_DECLARED_FEATURES

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        required = required_features(pod.spec)
        if not (required and cluster.gates[DECLARED_FEATURES_GATE]):
            return SKIP_FILTER
        return PreFilterResult(state=AnswerTable[FeatureSet](lambda d: not required <= d, np.bool_))

    def filter(
        self, state: AnswerTable[FeatureSet], pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Verdicts:
        nodes = cluster.nodes
        failed = state.of(nodes.features, nodes.features_id[row_index(rows)])
        return single_reason(failed, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON_FEATURES)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        of_nodes = Action.ADD, Action.UPDATE_NODE_DECLARED_FEATURE
        return (
            ClusterEventWithHint(Resource.NODE, of_nodes, self._after_node_change),
            ClusterEventWithHint(Resource.POD, (Action.UPDATE,), self._after_own_update),
        )

    def _after_node_change(self, pod: PodView, change: Change, cluster: ClusterView) -> bool:
        """The node is new or declares other features."""
        was, now = change.both(Node)
        if was is None or now is None:
            return True
        return (was.status.declared_features or []) != (now.status.declared_features or [])

    def _after_own_update(self, pod: PodView, change: Change, cluster: ClusterView) -> bool:
        """The pod itself needs other features than before."""
        was, now = change.both(PodView)
        if was is None or now is None or not change.is_of(pod):
            return False
        return required_features(was.info.spec) != required_features(now.info.spec)


def required_features(spec: PodSpec) -> FeatureSet:
    """The features that the pod's spec asks for."""
    found: set[str] = set()
    for container in (*spec.containers, *(spec.init_containers or ())):
        rules = container.restart_policy_rules or ()
        if any(rule.action == "RestartAllContainers" for rule in rules):
            found.add(RESTART_ALL_CONTAINERS)
    if spec.host_network and spec.host_users is False:
        found.add(USER_NAMESPACES_HOST_NETWORK)
    return frozenset(found)
