"""NodeUnschedulable: cordoned nodes take only pods that tolerate being there.

Rule: pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go, v1.36.2.
"""

from typing import ClassVar, Final

from shared.columns.rows import row_index
from shared.columns.schema import Rows
from shared.columns.table import TaintTuple
from shared.feature_gates import TAINT_TOLERATION_COMPARISON_OPERATORS, FeatureGates
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
from shared.kube.api.core_v1 import Node
from shared.plugin_names import NODE_UNSCHEDULABLE
from shared.selectors.tolerations import NO_SCHEDULE, tolerates, toleration_rules

REASON: Final = "node(s) were unschedulable"
TAINT: Final[TaintTuple] = ("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


class NodeUnschedulable:
    """Skips pods that tolerate the taint of cordoned nodes."""

    NAME: ClassVar[str] = NODE_UNSCHEDULABLE
    ignores_requests: ClassVar[bool] = True
    pre_filter_depends: ClassVar[Dependence | None] = None
    filter_depends: ClassVar[Dependence] = ON_NODE

    def __init__(self, gates: FeatureGates) -> None:
        self._has_comparison = gates[TAINT_TOLERATION_COMPARISON_OPERATORS]

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        return SKIP_FILTER if self._tolerates(pod) else PreFilterResult(state=False)

    def filter(
        self,
        state: bool | None,
        pod: PodInfo,
        cluster: ClusterView,
        rows: Rows,
    ) -> Verdicts:
        failed = cluster.nodes.unschedulable[row_index(rows)]
        if state is None and self._tolerates(pod):
            failed = failed & False
        return single_reason(failed, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (
            ClusterEventWithHint(
                Resource.NODE, (Action.ADD, Action.UPDATE_NODE_TAINT), self._after_node_change
            ),
            ClusterEventWithHint(
                Resource.POD, (Action.UPDATE_POD_TOLERATION,), self._after_own_toleration
            ),
        )

    def _after_node_change(
        self, pod: PodView, change: Change, cluster: ClusterView
    ) -> QueueingHint:
        """The node is new, or was unschedulable, and is schedulable now."""
        was, now = change.both(Node)
        was_closed = was is None or was.spec.unschedulable
        return queue_if(was_closed and now is not None and not now.spec.unschedulable)

    def _after_own_toleration(
        self, pod: PodView, change: Change, cluster: ClusterView
    ) -> QueueingHint:
        """The pod itself tolerates unschedulable nodes now."""
        return queue_if(change.is_of(pod) and self._tolerates(pod.info))

    def _tolerates(self, pod: PodInfo) -> bool:
        rules = toleration_rules(pod.spec.tolerations, has_comparison=self._has_comparison)
        return tolerates(rules, TAINT)
