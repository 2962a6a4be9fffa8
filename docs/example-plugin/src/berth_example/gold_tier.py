"""GoldTier: pods of a tier go to nodes of that tier, preferably to those that have few pods.

The fast way: the plugin is given rows of columns and answers for all nodes with one array. At 5,000
nodes a call takes some 20 us.
"""

from typing import Any, ClassVar

import numpy as np

from shared.columns.schema import Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.normalize import DefaultNormalizeScore
from shared.framework.plugin_api import ON_NODE, ON_USAGE, SKIP_FILTER, Dependence, PreFilterResult
from shared.framework.plugin_args import ArgsStruct, parse_args
from shared.framework.pod_info import PodInfo
from shared.framework.status import Code, Verdicts, single_reason


class GoldTierArgs(ArgsStruct):
    """`pluginConfig[].args` in the file; fields are written in camelCase there."""

    label_key: str = "tier"
    tiers: tuple[str, ...] = ("gold",)
    """Pods and nodes of other tiers are none of this plugin's business."""

    def problems(self) -> list[str]:
        """What is wrong although each field is of the right type; with its path from the args on."""
        return [] if self.tiers else ["tiers: name at least one"]


class GoldTier(DefaultNormalizeScore):
    """PreFilter, Filter and Score."""

    NAME: ClassVar[str] = "GoldTier"
    pre_filter_depends: ClassVar[Dependence | None] = None  # On the pod alone.
    filter_depends: ClassVar[Dependence] = ON_NODE  # On the node's own labels.
    score_depends: ClassVar[Dependence] = ON_USAGE  # On what pods take of the node, too.
    is_reversed: ClassVar[bool] = True  # The fewer pods, the nearer to 100.

    def __init__(self, given: dict[str, Any]) -> None:
        self._args = parse_args(self.NAME, GoldTierArgs, given)
        self.reads_labels = frozenset({self._args.label_key})  # Of pods.

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """The state is the pod's tier, handed to `filter`."""
        tier = pod.labels.get(self._args.label_key)
        return PreFilterResult(state=tier) if tier in self._args.tiers else SKIP_FILTER

    def filter(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        """Which of `rows` are not of the pod's tier."""
        column = cluster.nodes.label_column(self._args.label_key)
        if column is None:  # No node has the label.
            failed = np.ones(len(rows), np.bool_)
        else:
            failed = column[rows] != cluster.nodes.find_value_id(state)
        return single_reason(
            failed, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "node(s) were not of the pod's tier"
        )

    def score(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:
        """Raw scores may be as high as they like, as the base brings them into 0..100."""
        return cluster.nodes.pod_count[rows]
