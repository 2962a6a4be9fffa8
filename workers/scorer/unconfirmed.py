"""Less important pods that a worker placed itself: they may have to go, and nobody can be told so yet.

A worker's own placements have no row in the table of pods until the owner has confirmed them, so no
proposal can name them as victims. A search that finds nobody else must not be the last word then: the
pod would stay parked, with a pod in its place that matters less, and no event would ever wake it.
"""

import numpy as np

from shared.columns.schema import Bools, Int64s, Rows
from shared.framework.nominated_pods import run_filters_with_nominated
from shared.framework.prepared_pod import PodShift, PreparedPod
from shared.framework.what_if import WhatIf


def unconfirmed_would_do(pod: PreparedPod, potential: Rows) -> bool:
    """Whether the pod passes on one of these nodes if all less important pods are gone from it, and
    some of these are this worker's own placements."""
    tentative = pod.cluster.tentative
    own = tentative.used_rows()
    own = own[_are_lower(pod, tentative.class_id[own])]
    own = own[np.isin(tentative.node_row[own], potential)]
    if not len(own):
        return False
    rows = np.unique(tentative.node_row[own]).astype(np.intp)
    shift = PodShift(pod) if pod.plan.is_wide else None
    on_change = None if shift is None else shift.move
    # Where pods elsewhere count, each question is about one node alone.
    for asked in [rows] if shift is None else np.split(rows, len(rows)):
        with WhatIf(pod.cluster, asked, with_pods=True, on_change=on_change) as what_if:
            what_if.take_off(_less_important(pod, asked))
            what_if.take_off_unconfirmed(own[np.isin(tentative.node_row[own], asked)])
            filtered = run_filters_with_nominated(pod, asked, shift)
        if filtered.passes.any():
            return True
    return False


def _less_important(pod: PreparedPod, node_rows: Rows) -> Rows:
    pods = pod.cluster.pods
    is_asked = np.zeros(pod.cluster.nodes.capacity + 1, np.bool_)  # Last: pods on no node.
    is_asked[node_rows] = True
    found = np.flatnonzero(is_asked[pods.node_row[: pods.row_count]])
    rows: Rows = found[_are_lower(pod, pods.class_id[found])]
    return rows


def _are_lower(pod: PreparedPod, class_ids: Int64s) -> Bools:
    are_lower: Bools = pod.cluster.usages.priorities(class_ids) < pod.info.priority
    return are_lower
