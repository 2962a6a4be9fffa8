"""NodeResourcesBalancedAllocation: nodes whose resources a pod uses up evenly.

Since v1.36 the change that the pod makes is rated: 50 + (50 + after - before) / 2.

Rules: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go, v1.36.2.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from shared.columns.schema import Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import SKIP_SCORE, PreScoreResult
from shared.framework.pod_info import PodInfo
from shared.plugin_names import NODE_RESOURCES_BALANCED_ALLOCATION
from shared.plugins.resources import one_node, resource_arrays
from shared.plugins.resources.kept_resources import KeptBalance
from shared.plugins.resources.resource_args import NodeResourcesBalancedAllocationArgs
from shared.plugins.resources.resource_score import ResourceScore, ScoringRule


class NodeResourcesBalancedAllocation(ResourceScore):
    """Skips pods that ask for none of its resources: they would all go to the same node."""

    NAME: ClassVar[str] = NODE_RESOURCES_BALANCED_ALLOCATION
    rates_change: ClassVar[bool] = True

    def __init__(self, args: NodeResourcesBalancedAllocationArgs) -> None:
        kept = KeptBalance if len(args.resources) in (0, 2) else None
        rule = ScoringRule(resource_arrays.balance_change, one_node.balance_change, kept)
        super().__init__(args.resources, rule)

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:
        if self.amounts_asked(pod) is None:
            return SKIP_SCORE
        return PreScoreResult(state=self._asked(pod))

    def amounts_asked(self, pod: PodInfo) -> Sequence[int] | None:
        amounts = super().amounts_asked(pod)
        return amounts if amounts and any(amounts) else None

    def requests_of(self, pod: PodInfo) -> Mapping[str, int]:
        return pod.requests.amounts
