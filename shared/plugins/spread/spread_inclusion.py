"""Which nodes count for each topology spread constraint of a pod.

Rules: pkg/scheduler/framework/plugins/podtopologyspread/{common,filtering,scoring}.go, v1.36.2;
`matchNodeInclusionPolicies` of the first for nodeAffinityPolicy and nodeTaintsPolicy. Node affinity
terms that cannot be parsed match no node there, and nobody is told.
"""

from functools import partial

import numpy as np

from shared.columns.answer_table import AnswerTable
from shared.columns.schema import Bools, Rows
from shared.columns.table import NodeTable, TaintTuple
from shared.columns.topology import NO_DOMAIN, Topology
from shared.feature_gates import TAINT_TOLERATION_COMPARISON_OPERATORS
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.plugins.spread.spread_constraints import SpreadConstraints
from shared.selectors.node_selector import SelectedColumns, match_all
from shared.selectors.tolerations import is_repelled

Taints = tuple[TaintTuple, ...]


class Inclusion:
    """Which nodes count for each constraint: those with all keys that the policies let in."""

    __slots__ = ("_affinity", "_constraints", "_repelled", "_requires_all_keys", "eligible",
                 "has_all_keys", "leaves_out_nodes", "topologies")  # fmt: skip

    def __init__(
        self,
        constraints: SpreadConstraints,
        cluster: ClusterView,
        pod: PodInfo,
        *,
        requires_all_keys: bool,
    ) -> None:
        self._constraints = constraints
        self._affinity = pod.required_nodes
        has_comparison = cluster.gates[TAINT_TOLERATION_COMPARISON_OPERATORS]
        repelled = partial(
            is_repelled, tolerations=pod.spec.tolerations, has_comparison=has_comparison
        )
        self._repelled = AnswerTable[Taints](repelled, np.bool_)
        self._requires_all_keys = requires_all_keys
        self.topologies: tuple[Topology, ...] = tuple(cluster.topology(c.key) for c in constraints)
        nodes = cluster.nodes
        has_all_keys, eligible = self._included(nodes, np.arange(nodes.row_count))
        none = np.zeros(nodes.capacity - nodes.row_count, np.bool_)
        self.has_all_keys: Bools = np.append(has_all_keys, none)
        """Shape (capacity,); without `requires_all_keys` simply all present nodes."""
        self.leaves_out_nodes = bool((nodes.present & ~self.has_all_keys).any())
        """Some present node lacks a key."""
        self.eligible: list[Bools] = [np.append(each, none) for each in eligible]
        """By constraint; shape (capacity,)."""

    def is_current(self, cluster: ClusterView, rows: Rows) -> bool:
        """Whether writing the node columns of `rows` has changed nothing here."""
        for topology, constraint in zip(self.topologies, self._constraints, strict=True):
            if cluster.topology(constraint.key) is not topology:
                return False
        has_all_keys, eligible = self._included(cluster.nodes, rows)
        if (has_all_keys != self.has_all_keys[rows]).any():
            return False
        if not self.leaves_out_nodes and (cluster.nodes.present[rows] & ~has_all_keys).any():
            return False
        return all(
            bool((now == before[rows]).all())
            for now, before in zip(eligible, self.eligible, strict=True)
        )

    def _included(self, nodes: NodeTable, rows: Rows) -> tuple[Bools, list[Bools]]:
        """Of `rows`, which have all keys, and by constraint which of them its policies let in."""
        there: Bools = nodes.present[rows]
        if self._requires_all_keys:
            for topology in self.topologies:
                there &= topology.domain_of_row[rows] != NO_DOMAIN
        found: dict[tuple[bool, bool], Bools] = {}
        columns = SelectedColumns(nodes, rows)
        policies = [(c.honors_affinity, c.honors_taints) for c in self._constraints]
        for honors_affinity, honors_taints in policies:
            if (honors_affinity, honors_taints) not in found:
                included = there & match_all(self._affinity if honors_affinity else (), columns)
                if honors_taints:
                    included &= ~self._repelled.of(nodes.taints, nodes.taints_id[columns.index])
                found[honors_affinity, honors_taints] = included
        return there, [found[each] for each in policies]
