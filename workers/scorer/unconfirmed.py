"""Less important pods that a worker placed itself: they may have to go, and nobody can be told so yet.

A worker's own placements have no row in the table of pods until the owner has confirmed them, so no
proposal can name them as victims. A search that finds nobody else must not be the last word then: the
pod would stay parked, with a pod in its place that matters less, and no event would ever wake it.
"""

import numpy as np

from shared.columns.schema import Bools, Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.nominated_pods import run_filters_with_nominated
from shared.framework.outcomes import PreFilterOutcome
from shared.framework.pod_info import PodInfo
from shared.framework.pod_shift import PodShift
from shared.framework.runtime import Framework
from shared.framework.what_if import WhatIf


def unconfirmed_would_do(
    framework: Framework,
    pod: PodInfo,
    own_uid: str,
    cluster: ClusterView,
    outcome: PreFilterOutcome,
    potential: Rows,
) -> bool:
    """Whether the pod passes on one of these nodes if all less important pods are gone from it, and
    some of these are this worker's own placements."""
    tentative = cluster.tentative
    own = tentative.used_rows()
    if not len(own) or not len(potential):
        return False
    own = own[_are_lower(pod, cluster, tentative.class_id[own])]
    own = own[np.isin(tentative.node_row[own], potential)]
    if not len(own):
        return False
    rows = np.unique(tentative.node_row[own]).astype(np.intp)
    shift = PodShift(framework, pod, cluster, outcome) if framework.plan(outcome).is_wide else None
    # Where pods elsewhere count, each question is about one node alone.
    stretches = [rows] if shift is None else np.split(rows, len(rows))
    for stretch in stretches:
        with WhatIf(
            cluster, stretch, with_pods=True, on_change=None if shift is None else shift.move
        ) as what_if:
            what_if.take_off(_less_important(pod, cluster, stretch))
            what_if.take_off_unconfirmed(own[np.isin(tentative.node_row[own], stretch)])
            filtered = run_filters_with_nominated(
                framework, pod, cluster, outcome, stretch, own_uid, shift
            )
        if filtered.passes.any():
            return True
    return False


def _less_important(pod: PodInfo, cluster: ClusterView, node_rows: Rows) -> Rows:
    pods = cluster.pods
    is_asked = np.zeros(cluster.nodes.capacity + 1, np.bool_)  # Last: pods on no node.
    is_asked[node_rows] = True
    found = np.flatnonzero(is_asked[pods.node_row[: pods.row_count]])
    rows: Rows = found[_are_lower(pod, cluster, pods.class_id[found])]
    return rows


def _are_lower(pod: PodInfo, cluster: ClusterView, class_ids: Int64s) -> Bools:
    are_lower: Bools = cluster.usages.priorities(class_ids) < pod.priority
    return are_lower
