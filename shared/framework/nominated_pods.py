"""The filters with the pods that are nominated to nodes.

These may be there in time or not. So a pod has to pass on a node as it is, and as it would be with the
nominated pods there that are as important as it is or more (RunFilterPluginsWithNominatedPods in
pkg/scheduler/framework/runtime/framework.go, v1.36.2). Everybody who decides whether a node takes a pod
asks here; `Framework` alone knows nothing of nominations.
"""

from typing import Final

import numpy as np

from shared.columns.schema import Bools, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.outcomes import FilterOutcome, FilterVerdicts, PreFilterOutcome
from shared.framework.pod_info import PodInfo
from shared.framework.pod_shift import PodShift
from shared.framework.runtime import Framework
from shared.framework.status import Code
from shared.framework.what_if import WhatIf


def run_filters_with_nominated(
    framework: Framework,
    pod: PodInfo,
    cluster: ClusterView,
    outcome: PreFilterOutcome,
    rows: Rows,
    own_uid: str = "",
    shift: PodShift | None = None,
) -> FilterOutcome:
    """As `Framework.run_filters`, where rows with nominated pods that the pod has to respect
    (`own_uid` is none of them) must pass with these added as well.

    `shift`: the pods in the view are not those that PreFilter saw.
    """
    shifted = outcome if shift is None else shift.outcome()
    slots = _respected(pod, cluster, rows, own_uid)
    if not len(slots):
        return framework.run_filters(pod, cluster, shifted, rows)
    is_marked = np.isin(rows, cluster.nominations.node_row[slots])
    unmarked = framework.run_filters(pod, cluster, shifted, rows[~is_marked])
    with_them = _run_as_if_there(framework, pod, cluster, outcome, rows[is_marked], slots, shift)
    if shift is not None:
        shifted = shift.outcome()
    without = framework.run_filters(pod, cluster, shifted, with_them.rows[with_them.passes])
    failed_by = np.full(len(rows), -1, np.int64)
    failed_by[~is_marked] = unmarked.failed_by
    marked_failed_by = with_them.failed_by.copy()
    marked_failed_by[with_them.passes] = without.failed_by
    failed_by[is_marked] = marked_failed_by
    verdicts = [*unmarked.verdicts, *with_them.verdicts, *without.verdicts]
    verdicts.sort(key=lambda item: item.filter_index)
    return FilterOutcome(rows, failed_by, verdicts)


def counting_own_node(
    framework: Framework,
    pod: PodInfo,
    cluster: ClusterView,
    outcome: PreFilterOutcome,
    own_uid: str,
) -> PreFilterOutcome:
    """What PreFilter said to a nominated pod whose node has refused it. That node is asked first, also
    where PreFilter left it out, and what it said counts with what the others say; its plugin is even
    named among those that narrowed the search (`evaluateNominatedNode` in
    pkg/scheduler/schedule_one.go, v1.36.2, which shares its diagnosis with the search)."""
    row = cluster.nominations.row_of(own_uid)
    if outcome.node_names is None or not outcome.status.is_success or row < 0:
        return outcome
    if not cluster.nodes.present[row]:
        return outcome
    rows = np.array([row], np.intp)
    asked = run_filters_with_nominated(framework, pod, cluster, outcome, rows, own_uid)
    failed_by = int(asked.failed_by[0])
    if failed_by < 0 or asked.codes()[0] == Code.ERROR:
        return outcome
    narrowed_by = set(outcome.narrowed_by)
    if asked.codes()[0] != Code.PENDING:
        narrowed_by.add(framework.filters[failed_by].NAME)
    return outcome._replace(
        node_names=outcome.node_names | {cluster.nodes.name_of(row)},
        narrowed_by=tuple(sorted(narrowed_by)),
    )


def passing(
    framework: Framework,
    pod: PodInfo,
    cluster: ClusterView,
    outcome: PreFilterOutcome,
    rows: Rows,
    own_uid: str = "",
) -> Bools:
    """Which rows pass all filters, with the nominated pods and without; shape (n,)."""
    ok = framework.passing_of(framework.plan(outcome).active, pod, cluster, outcome, rows)
    return passing_with_nominated(framework, pod, cluster, outcome, rows, ok, own_uid)


def passing_with_nominated(
    framework: Framework,
    pod: PodInfo,
    cluster: ClusterView,
    outcome: PreFilterOutcome,
    rows: Rows,
    ok: Bools,
    own_uid: str = "",
) -> Bools:
    """`ok`, the rows that pass as they are, less those that would not with the nominated pods that
    the pod must leave room for. Takes `ok` over."""
    slots = _respected(pod, cluster, rows, own_uid)
    if len(slots):
        marked = np.flatnonzero(ok & np.isin(rows, cluster.nominations.node_row[slots]))
        if len(marked):
            slots = _respected(pod, cluster, rows[marked], own_uid)
            there = _run_as_if_there(framework, pod, cluster, outcome, rows[marked], slots)
            ok[marked] = there.passes
    return ok


def _run_as_if_there(
    framework: Framework,
    pod: PodInfo,
    cluster: ClusterView,
    outcome: PreFilterOutcome,
    rows: Rows,
    slots: Rows,
    shift: PodShift | None = None,
) -> FilterOutcome:
    """The filters as if the nominated pods in `slots` were on their nodes already."""
    nominations = cluster.nominations
    plan = framework.plan(outcome)
    if not plan.is_wide:
        with WhatIf(cluster, rows, with_pods=plan.reads_pods) as what_if:
            what_if.put_on(nominations.class_id[slots], nominations.node_row[slots])
            return framework.run_filters(pod, cluster, outcome, rows)
    shift = shift or PodShift(framework, pod, cluster, outcome)
    failed_by = np.full(len(rows), -1, np.int64)
    verdicts: list[FilterVerdicts] = []
    for position in range(len(rows)):
        row = rows[position : position + 1]
        on_row = slots[nominations.node_row[slots] == row[0]]
        with WhatIf(cluster, row, with_pods=True, on_change=shift.move) as what_if:
            what_if.put_on(nominations.class_id[on_row], nominations.node_row[on_row])
            alone = framework.run_filters(pod, cluster, shift.outcome(), row)
        failed_by[position] = alone.failed_by[0]
        verdicts += alone.verdicts
    return FilterOutcome(rows, failed_by, verdicts)


def _respected(pod: PodInfo, cluster: ClusterView, rows: Rows, own_uid: str) -> Rows:
    """The nominations to `rows` that a pod must leave room for."""
    if not cluster.nominations or not len(rows):
        return _NONE
    return cluster.nominations.slots_on(rows, pod.priority, own_uid)


_NONE: Final[Rows] = np.zeros(0, np.intp)
