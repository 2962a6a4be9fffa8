"""NodeDeclaredFeatures: nodes must declare the features that a pod cannot run without.

Rules: pkg/scheduler/framework/plugins/nodedeclaredfeatures/nodedeclaredfeatures.go and
staging/src/k8s.io/component-helpers/nodedeclaredfeatures/features/, v1.36. Of the features there,
these are inferred when a pod is scheduled; the others concern only resizes of running pods.
"""

from functools import partial
from typing import ClassVar, Final

import numpy as np

from shared.columns.answer_table import AnswerTable
from shared.columns.rows import row_index
from shared.columns.schema import Rows
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ON_NODE, SKIP_FILTER, Dependence, PreFilterResult
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import (
    Change,
    ClusterEventWithHint,
    PodView,
    QueueingHint,
    queue_if,
)
from shared.framework.status import Code, Verdicts, single_reason
from shared.kube.api.core_v1 import Node, PodSpec
from shared.plugin_names import NODE_DECLARED_FEATURES

REASON: Final = "node(s) didn't match Pod's required features"
RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"

FeatureSet = frozenset[str]


class NodeDeclaredFeatures:
    """Skips pods that need nothing special."""

    NAME: ClassVar[str] = NODE_DECLARED_FEATURES
    ignores_requests: ClassVar[bool] = True
    pre_filter_depends: ClassVar[Dependence | None] = None
    filter_depends: ClassVar[Dependence] = ON_NODE

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        required = required_features(pod.spec)
        return PreFilterResult(state=_lacking(required)) if required else SKIP_FILTER

    def filter(
        self, state: AnswerTable[FeatureSet] | None, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Verdicts:
        nodes = cluster.nodes
        lacking = (state or _lacking(required_features(pod.spec))).covering(nodes.features.values)
        failed = lacking[nodes.features_id[row_index(rows)]]
        return single_reason(failed, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (
            ClusterEventWithHint(
                Resource.NODE,
                (Action.ADD, Action.UPDATE_NODE_DECLARED_FEATURE),
                self._after_node_change,
            ),
            ClusterEventWithHint(Resource.POD, (Action.UPDATE,), self._after_own_update),
        )

    def _after_node_change(
        self, pod: PodView, change: Change, cluster: ClusterView
    ) -> QueueingHint:
        """The node is new or declares other features."""
        was, now = change.both(Node)
        if was is None or now is None:
            return QueueingHint.QUEUE
        return queue_if(
            (was.status.declared_features or []) != (now.status.declared_features or [])
        )

    def _after_own_update(self, pod: PodView, change: Change, cluster: ClusterView) -> QueueingHint:
        """The pod itself needs other features than before."""
        was, now = change.both(PodView)
        if was is None or now is None or not change.is_of(pod):
            return QueueingHint.SKIP
        return queue_if(required_features(was.info.spec) != required_features(now.info.spec))


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


def _lacking(required: FeatureSet) -> AnswerTable[FeatureSet]:
    return AnswerTable(partial(_lacks, required), np.bool_)


def _lacks(required: FeatureSet, declared: FeatureSet) -> bool:
    return not required <= declared
