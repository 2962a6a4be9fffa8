"""The pod that found no room: whether it may make some now, and on which nodes that is worth a try.

Rules: `PodEligibleToPreemptOthers` in
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, `nodesWherePreemptionMightHelp`
in pkg/scheduler/framework/preemption/preemption.go, v1.36.2.
"""

from typing import Final, NamedTuple

import numpy as np

from shared.columns.schema import Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.outcomes import FilterOutcome, PreFilterOutcome
from shared.framework.pod_info import PodInfo
from shared.framework.status import Code

NEVER: Final = "Never"
"""The preemptionPolicy of pods that make nobody go."""
NEVER_POLICY: Final = "not eligible due to preemptionPolicy=Never."
VICTIMS_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."


class Preemptor(NamedTuple):
    """The pod that found no room."""

    info: PodInfo
    uid: str = ""
    nominated_row: int = -1
    """The node that it is nominated to; -1: to none, or to one that is gone."""
    is_nominated: bool = False
    """Its status names a node."""


def ineligible_reason(
    preemptor: Preemptor, cluster: ClusterView, outcome: PreFilterOutcome, filtered: FilterOutcome
) -> str:
    """Why the pod may not preempt now; empty if it may."""
    if preemptor.info.spec.preemption_policy == NEVER:
        return NEVER_POLICY
    row = preemptor.nominated_row
    if not preemptor.is_nominated or row < 0 or not cluster.nodes.present[row]:
        return ""
    if _code_of(row, outcome, filtered) == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    pods = cluster.pods
    going = pods.rows_on(row)
    going = going[pods.is_preempted[going]]
    is_lower = cluster.usages.priorities(pods.class_id[going]) < preemptor.info.priority
    return VICTIMS_TERMINATING if is_lower.any() else ""


def _code_of(row: int, outcome: PreFilterOutcome, filtered: FilterOutcome) -> int:
    """The code of one node; nodes that were not looked at have that of PreFilter."""
    if not outcome.status.is_success:
        return outcome.status.code
    at = np.flatnonzero(filtered.rows == row)
    if not len(at):
        return Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return int(filtered.codes()[at[0]])


def potential_rows(
    cluster: ClusterView, outcome: PreFilterOutcome, filtered: FilterOutcome, refused: Rows
) -> Rows:
    """Nodes that refuse the pod and might not if pods were gone, in the order of the nodes. `refused`
    are nodes that others refuse, for now."""
    order = cluster.nodes.order
    if not outcome.status.is_success:
        return order if outcome.status.code is Code.UNSCHEDULABLE else order[:0]
    is_potential = np.zeros(cluster.nodes.capacity, np.bool_)
    is_potential[filtered.rows[filtered.codes() == Code.UNSCHEDULABLE]] = True
    is_potential[refused] = True
    rows: Rows = order[is_potential[order]]
    return rows


def is_above_any(cluster: ClusterView, preemptor: Preemptor) -> bool:
    """Whether a pod on some node is less important; where all are alike there is nothing to try."""
    pods = cluster.pods
    placed = np.flatnonzero(pods.node_row[: pods.row_count] >= 0)
    priority = cluster.usages.priorities(pods.class_id[placed])
    return bool((priority < preemptor.info.priority).any())
