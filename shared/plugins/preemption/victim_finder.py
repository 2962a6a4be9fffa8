"""VictimFinder: which pods have to go from each of some nodes so that a pod fits there.

All less important pods are taken off; if the pod then passes the filters, they are put back one by one,
the most important first, as long as the pod still passes. What cannot be put back are the victims.

This is done on the real columns (`what_if.py`), of all nodes of a stretch at once: the number of passes
is the number of pods on one node, not in the cluster. Where a filter looks beyond the node (spread,
affinity) and minds one of the pods that could go, the node has to be a stretch by itself, unless the
filters can be asked apart (`apart.py`).

Rules: `SelectVictimsOnNode` in
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, v1.36.2.
"""

import numpy as np

from shared.columns.schema import Bools, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.nominated_pods import run_filters_with_nominated
from shared.framework.outcomes import FilterOutcome, PreFilterOutcome
from shared.framework.plugin_api import GonePods
from shared.framework.pod_shift import PodShift
from shared.framework.post_filter import Candidates, Preemptor
from shared.framework.runtime import Framework
from shared.framework.status import Code
from shared.framework.what_if import WhatIf
from shared.plugins.preemption.apart import ApartFramework, apart_framework, can_be_apart
from shared.plugins.preemption.budgets import Budgets
from shared.plugins.preemption.failed_nodes import FailedNodes
from shared.plugins.preemption.filters_asked_again import (
    MindedClasses,
    moving_only,
    row_filters_read_pods,
    settled_by_row,
)
from shared.plugins.preemption.stretch import Stretch, stretch_of


class VictimFinder:
    """For one preemptor, at one moment."""

    def __init__(
        self,
        framework: Framework,
        preemptor: Preemptor,
        cluster: ClusterView,
        outcome: PreFilterOutcome,
    ) -> None:
        self._framework = framework
        self._preemptor = preemptor
        self._cluster = cluster
        self._outcome = outcome
        self._reads_pods = row_filters_read_pods(framework, outcome)
        self._shift: PodShift | None = None
        """Where some filter looks beyond the node; so are the next two."""
        self._minded: MindedClasses | None = None
        self._apart: ApartFramework | None = None
        if framework.plan(outcome).is_wide:
            self._shift = PodShift(framework, preemptor.info, cluster, outcome)
            self._minded = MindedClasses(framework, cluster, outcome)
            if can_be_apart(framework, outcome):
                self._apart = apart_framework(framework)
        self._budgets = Budgets(cluster)
        self.failed = FailedNodes()
        """Where it does not help."""

    @property
    def looks_beyond(self) -> bool:
        """Whether some filter looks beyond the node."""
        return self._shift is not None

    @property
    def holds_until_changed(self) -> bool:
        """Whether what is found of a node holds, for any pod of the class, until that node changes."""
        is_alone = not self.looks_beyond and not self._preemptor.is_nominated
        return is_alone and self._outcome.status.is_success

    @property
    def can_ask_apart(self) -> bool:
        """Whether `find_apart` may be called."""
        return self._apart is not None

    def stretch(self, rows: Rows) -> Stretch:
        """The less important pods on some nodes; nodes without any are done with at once."""
        priority = self._preemptor.info.priority
        stretch, without = stretch_of(self._cluster, self._budgets, rows, priority)
        self.failed.add_without_victims(without)
        return stretch

    def are_marked(self, rows: Rows) -> Bools:
        """Whether there are pods nominated to the nodes that the preemptor has to respect."""
        nominations, preemptor = self._cluster.nominations, self._preemptor
        slots = nominations.slots_on(rows, preemptor.info.priority, preemptor.uid)
        return np.isin(rows, nominations.node_row[slots])

    def are_loud(self, stretch: Stretch) -> Bools:
        """Whether filters that look beyond the node mind some pod of it, shape (n,)."""
        assert self._minded is not None, "the caller asked before"
        is_minded = self._minded.are_minded(self._cluster.pods.class_id[stretch.pods])
        loud: Bools = np.logical_or.reduceat(is_minded, stretch.starts[:-1])
        return loud

    def pruned(self, stretch: Stretch) -> Stretch:
        """Without the nodes that fail a filter that looks at the node alone even when all pods that
        could go are gone. Marked nodes are left for a closer look."""
        cluster, preemptor = self._cluster, self._preemptor
        framework = settled_by_row(self._framework, self._outcome)
        is_rejected = not self._outcome.status.is_success  # Perhaps no more, with the pods gone.
        if not len(stretch.rows) or not framework.filters or is_rejected:
            return stretch
        is_plain = ~self.are_marked(stretch.rows)
        with WhatIf(cluster, stretch.rows, with_pods=self._reads_pods) as what_if:
            what_if.take_off_all(stretch.pods, stretch.starts[:-1])
            filtered = framework.run_filters(
                preemptor.info, cluster, self._outcome, stretch.rows[is_plain]
            )
        if filtered.passes.all():
            return stretch
        self.failed.add(framework, filtered)
        is_kept = np.ones(len(stretch.rows), np.bool_)
        is_kept[np.flatnonzero(is_plain)[~filtered.passes]] = False
        return stretch.kept(is_kept)

    def find(self, stretch: Stretch, *, is_loud: bool = False) -> Candidates:
        """The victims on each node. `is_loud`: it is a single node, and loud or marked."""
        return self._find(stretch, is_loud=is_loud, apart=None)

    def find_apart(self, stretch: Stretch) -> Candidates:
        """The same with each node asked about apart; none of them is marked."""
        assert self._apart is not None, "the caller asked before"
        return self._find(stretch, is_loud=False, apart=self._apart)

    def _find(self, stretch: Stretch, *, is_loud: bool, apart: ApartFramework | None) -> Candidates:
        is_victim = np.ones(len(stretch.pods), np.bool_)
        shift = self._shift
        with WhatIf(
            self._cluster,
            stretch.rows,
            with_pods=is_loud or self._reads_pods,
            on_change=shift.move if is_loud and shift is not None else None,
        ) as what_if:
            what_if.take_off_all(stretch.pods, stretch.starts[:-1])
            filtered = self._filter(stretch, is_victim, stretch.rows, apart, is_first=True)
            fits = filtered.passes
            self.failed.add(self._framework, filtered)
            counts = stretch.counts
            for rank in range(int(counts[fits].max(initial=0))):
                asked = np.flatnonzero(fits & (counts > rank))
                places = stretch.starts[asked] + rank
                what_if.put_back(stretch.pods[places], one_each=True)
                is_victim[places] = False
                again = self._filter(stretch, is_victim, stretch.rows[asked], apart, is_first=False)
                still_fits = again.passes
                is_victim[places] = ~still_fits
                what_if.take_off(stretch.pods[places[~still_fits]], one_each=True)
        return self._with_victims(stretch, fits, is_victim)

    def _filter(
        self,
        stretch: Stretch,
        is_gone: Bools,
        rows: Rows,
        apart: ApartFramework | None,
        *,
        is_first: bool,
    ) -> FilterOutcome:
        """Some rows of a stretch with some of its pods gone. All filters are asked at first."""
        pod, cluster, outcome = self._preemptor.info, self._cluster, self._outcome
        if apart is not None:
            pods = stretch.pods[is_gone]
            node_of_pod = np.repeat(stretch.rows, stretch.counts)
            gone = GonePods(cluster.pods.class_id[pods], node_of_pod[is_gone])
            return apart.filter(pod, cluster, outcome, rows, gone, moving_only=not is_first)
        framework = self._framework if is_first else moving_only(self._framework)
        uid = self._preemptor.uid
        return run_filters_with_nominated(framework, pod, cluster, outcome, rows, uid, self._shift)

    def _with_victims(self, stretch: Stretch, fits: Bools, is_victim: Bools) -> Candidates:
        """The nodes with victims."""
        spans = stretch.starts[:-1]
        counts = np.add.reduceat(is_victim, spans, dtype=np.int64)
        violations = np.add.reduceat(is_victim & stretch.violates, spans, dtype=np.int64)
        for node in np.flatnonzero(fits & (counts == 0)).tolist():
            row = int(stretch.rows[node])
            name = self._cluster.nodes.name_of(row)
            text = f'expected at least one victim pod on node "{name}"'
            self.failed.add_error(row, text)
        chosen = np.flatnonzero(fits & (counts > 0))
        is_chosen = np.zeros(len(stretch.rows), np.bool_)
        is_chosen[chosen] = True
        node_of_pod = np.repeat(np.arange(len(stretch.rows)), stretch.counts)
        places = np.flatnonzero(is_victim & is_chosen[node_of_pod])
        if violations.any():
            places = places[np.lexsort((stretch.importance[places], node_of_pod[places]))]
        return Candidates(
            stretch.rows[chosen], violations[chosen], counts[chosen], stretch.pods[places]
        )


def fits_without(
    framework: Framework, preemptor: Preemptor, cluster: ClusterView, row: int, victims: Rows
) -> bool:
    """Whether the pod passes every filter on one node once these pods of it are gone."""
    info = preemptor.info
    outcome = framework.run_pre_filters(info, cluster)
    if not outcome.status.is_success and outcome.status.code is not Code.UNSCHEDULABLE:
        return False  # Else PreFilter may change its mind, with the victims gone.
    shift = PodShift(framework, info, cluster, outcome)
    rows = np.array([row], np.intp)
    with WhatIf(cluster, rows, with_pods=True, on_change=shift.move) as what_if:
        what_if.take_off(victims)
        filtered = run_filters_with_nominated(
            framework, info, cluster, outcome, rows, preemptor.uid, shift
        )
        return bool(filtered.passes[0])


def victims_on(
    framework: Framework, preemptor: Preemptor, cluster: ClusterView, row: int
) -> frozenset[int]:
    """Rows of the pods that a search would have go from one node; none where it would not choose the
    node."""
    outcome = framework.run_pre_filters(preemptor.info, cluster)
    if not outcome.status.is_success and outcome.status.code is not Code.UNSCHEDULABLE:
        return frozenset()
    finder = VictimFinder(framework, preemptor, cluster, outcome)
    stretch = finder.stretch(np.array([row], np.intp))
    if not len(stretch.rows):
        return frozenset()
    return frozenset(finder.find(stretch, is_loud=finder.looks_beyond).victims.tolist())
