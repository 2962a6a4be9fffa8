"""TaintToleration: taints keep pods off nodes, or make nodes less welcome, unless tolerated.

Rules: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go, v1.36.2.
"""

from functools import partial
from typing import ClassVar, Final

import numpy as np

from shared.columns.answer_table import AnswerTable
from shared.columns.rows import row_index
from shared.columns.schema import Int64s, Rows
from shared.columns.table import TaintTuple
from shared.feature_gates import TAINT_TOLERATION_COMPARISON_OPERATORS, FeatureGates
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.normalize import DefaultNormalizeScore
from shared.framework.plugin_api import ON_NODE, Dependence, PreFilterResult, PreScoreResult
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
from shared.plugin_names import TAINT_TOLERATION
from shared.selectors.tolerations import (
    TolerationRule,
    is_repelled,
    toleration_rules,
    unwelcome_count,
)

REASON: Final = "node(s) had untolerated taint(s)"

Taints = tuple[TaintTuple, ...]


class TaintToleration(DefaultNormalizeScore):
    """Nodes share few distinct sets of taints: each set is judged once per pod class."""

    NAME: ClassVar[str] = TAINT_TOLERATION
    ignores_requests: ClassVar[bool] = True
    pre_filter_depends: ClassVar[Dependence | None] = None
    filter_depends: ClassVar[Dependence] = ON_NODE
    pre_score_depends: ClassVar[Dependence | None] = None
    score_depends: ClassVar[Dependence] = ON_NODE
    is_reversed: ClassVar[bool] = True

    def __init__(self, gates: FeatureGates) -> None:
        self._has_comparison = gates[TAINT_TOLERATION_COMPARISON_OPERATORS]

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        return PreFilterResult(state=self._repelled(pod))

    def filter(
        self, state: AnswerTable[Taints] | None, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Verdicts:
        nodes = cluster.nodes
        repelled = (state or self._repelled(pod)).covering(nodes.taints.values)
        failed = repelled[nodes.taints_id[row_index(rows)]]
        return single_reason(failed, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:
        return PreScoreResult(state=self._unwelcome(pod))

    def score(
        self, state: AnswerTable[Taints] | None, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Int64s:
        nodes = cluster.nodes
        counts = (state or self._unwelcome(pod)).covering(nodes.taints.values)
        found: Int64s = counts[nodes.taints_id[row_index(rows)]]
        return found

    # Events ----------------------------------------------------------------------------------------

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
        """The node became one that the pod tolerates."""
        was, now = change.both(Node)
        is_welcome = now is not None and not self._repels(now, pod.info)
        return queue_if(is_welcome and (was is None or self._repels(was, pod.info)))

    def _after_own_toleration(
        self, pod: PodView, change: Change, cluster: ClusterView
    ) -> QueueingHint:
        return queue_if(change.is_of(pod))

    def _repels(self, node: Node, pod: PodInfo) -> bool:
        taints = [(taint.key, taint.value, taint.effect) for taint in node.spec.taints or ()]
        return bool(taints) and is_repelled(taints, self._rules(pod))

    # Answers by set of taints ----------------------------------------------------------------------

    def _repelled(self, pod: PodInfo) -> AnswerTable[Taints]:
        return AnswerTable(partial(is_repelled, rules=self._rules(pod)), np.bool_)

    def _unwelcome(self, pod: PodInfo) -> AnswerTable[Taints]:
        return AnswerTable(partial(unwelcome_count, rules=self._rules(pod)), np.int64)

    def _rules(self, pod: PodInfo) -> tuple[TolerationRule, ...]:
        return toleration_rules(pod.spec.tolerations, has_comparison=self._has_comparison)
