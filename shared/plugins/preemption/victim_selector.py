"""VictimSelector: which pods have to go from each of some nodes so that a pod fits there.

All less important pods are taken off; if the pod then passes the filters, they are put back one by one,
the most important first, as long as the pod still passes. What cannot be put back are the victims.

This dry run is done on the real columns (`what_if.py`), of all nodes at once: the number of passes is
the number of pods on one node, not in the cluster. What only a Node object changes is settled by the
first answer. Where a filter looks beyond the node (spread, affinity), nodes can be asked about together
if it works out for many of them at once what would be if each one's pods were gone
(`FilterWithoutPods`); else each is tried by itself, with all counts made to follow.

Rules: `SelectVictimsOnNode` in
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, v1.36.2.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

import numpy as np

from shared.columns.schema import NO_ROWS, Bools, Rows
from shared.framework.plugin_api import GonePods
from shared.framework.post_filter import Candidates
from shared.framework.runtime.diagnosis import node_verdicts, status_of
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.plans import FilterOutcome, NodeVerdict
from shared.framework.runtime.prepared_pod import (
    PreFilterExtensions,
    PreparedPod,
    run_filters_with_nominated,
)
from shared.framework.runtime.what_if import WhatIf
from shared.framework.status import Code, Status, unresolvable
from shared.plugins.preemption.potential_victims import (
    Budgets,
    PotentialVictims,
    VictimGroups,
    potential_victims_on,
)

NO_VICTIMS: Final = unresolvable("No preemption victims found for incoming pod")


class FailedNodes:
    """The nodes where making room does not help, and why. Who wants to know is mostly content with how
    many nodes there are for each reason; a search may find thousands of them, so the verdicts themselves
    are made when somebody asks for them."""

    def __init__(self) -> None:
        self._parts: list[Callable[[], list[NodeVerdict]]] = []
        self.count = 0
        self.errors: list[str] = []
        """What plugins failed with, in the order of the nodes."""
        self.reasons: Counter[str] = Counter()
        """How many nodes there are for each reason."""

    def add(self, framework: Framework, filtered: FilterOutcome) -> None:
        """Nodes that the pod does not fit even without the others."""
        if filtered.passes.all():
            return
        self._parts.append(lambda: node_verdicts(framework, filtered))
        self.count += int(np.count_nonzero(filtered.codes))
        self.reasons += filtered.reason_counts()
        failed = (filtered.codes == Code.ERROR).nonzero()[0].tolist()
        self.errors += [status_of(framework, filtered, at).message for at in failed]

    def add_alike(self, rows: Rows, status: Status) -> None:
        """Nodes that have the same against the pod."""
        if not len(rows):
            return
        self._parts.append(lambda: [NodeVerdict(row, status) for row in rows.tolist()])
        self.reasons[status.message] += len(rows)
        self.count += len(rows)
        if status.code is Code.ERROR:
            self.errors += [status.message] * len(rows)

    def verdicts(self) -> list[NodeVerdict]:
        """In the order in which the nodes were added."""
        return [verdict for part in self._parts for verdict in part()]


class VictimSelector:
    """For one preemptor, at one moment."""

    def __init__(self, pod: PreparedPod) -> None:
        self._pod = pod
        self._reads_pods = pod.plan.reads_pods
        self._extensions = PreFilterExtensions(pod) if pod.plan.is_wide else None
        """Where some filter looks beyond the node."""
        self._budgets = Budgets(pod.cluster)
        self.failed = FailedNodes()
        """Where it does not help."""

    @property
    def looks_beyond(self) -> bool:
        """Whether some filter looks beyond the node."""
        return self._extensions is not None

    @property
    def holds_until_changed(self) -> bool:
        """Whether what is found of a node holds, for any pod of the class, until that node changes."""
        is_alone = not self.looks_beyond and not self._pod.own_uid
        groups = self._pod.cluster.derived(VictimGroups)
        is_alone &= not len(groups.elastic)  # Theirs are elsewhere, too.
        return is_alone and self._pod.outcome.status.is_success

    @property
    def can_be_independent(self) -> bool:
        """Whether every filter that looks beyond the node can be asked about many nodes, of each as if
        pods went from it alone."""
        can_ask = self._pod.framework.filters_without_pods.keys() >= set(self._pod.plan.beyond)
        return can_ask and self._pod.outcome.status.is_success

    def potential(self, rows: Rows) -> PotentialVictims:
        """The less important pods on some nodes; nodes without any are done with at once."""
        pod = self._pod
        found, without = potential_victims_on(pod.cluster, self._budgets, rows, pod.info.priority)
        self.failed.add_alike(without, NO_VICTIMS)
        return found

    def have_nominated(self, rows: Rows) -> Bools:
        """Whether there are pods nominated to the nodes that the preemptor has to respect."""
        pod, nominations = self._pod, self._pod.cluster.nominations
        slots = nominations.slots_on(rows, pod.info.priority, pod.own_uid)
        return np.isin(rows, nominations.node_row[slots])

    def pruned(self, potential: PotentialVictims) -> PotentialVictims:
        """Without the nodes that fail a filter that looks at the node alone even when all pods that
        could go are gone. Nodes with nominated pods are left for a closer look."""
        settled = self._pod.plan.settled
        # Perhaps no more, with the pods gone.
        is_rejected = not self._pod.outcome.status.is_success
        if not len(potential.rows) or not settled or is_rejected:
            return potential
        is_plain = ~self.have_nominated(potential.rows)
        with WhatIf(self._pod.cluster, potential.rows, with_pods=self._reads_pods) as what_if:
            what_if.take_off(potential.pods)
            pod = self._pod._replace(among=settled)
            filtered = pod.run_filters(potential.rows[is_plain])
        if filtered.passes.all():
            return potential
        self.failed.add(pod.framework, filtered)
        is_kept = ~is_plain
        is_kept[is_plain] = filtered.passes
        return potential.at(np.flatnonzero(is_kept))

    def select(
        self, potential: PotentialVictims, *, is_alone: bool = False, are_independent: bool = False
    ) -> Candidates:
        """The victims on each node. `is_alone`: it is a single node, and whoever goes from it may
        change what filters say of others. `are_independent`: of each it is asked as if pods
        went from it alone; to none of them a pod is nominated."""
        is_victim = np.ones(len(potential.pods), np.bool_)
        extensions = self._extensions
        with WhatIf(
            self._pod.cluster,
            potential.rows,
            with_pods=is_alone or self._reads_pods,
            on_change=extensions.add_and_remove if is_alone and extensions is not None else None,
        ) as what_if:
            what_if.take_off(potential.pods)
            gone = self._gone(potential, is_victim) if are_independent else None
            filtered = self._filter(potential.rows, gone, self._pod)
            fits = filtered.passes
            self.failed.add(self._pod.framework, filtered)
            counts, moved = potential.counts, self._pod._replace(among=self._pod.plan.moved)
            for rank in range(int(counts[fits].max(initial=0))):
                asked = np.flatnonzero(fits & (counts > rank))
                places = potential.starts[asked] + rank
                what_if.put_back(potential.pods[places], one_each=True)
                is_victim[places] = False
                rows = potential.rows[asked]
                gone = self._gone(potential, is_victim) if are_independent else None
                still_fits = self._filter(rows, gone, moved).passes
                is_victim[places] = ~still_fits
                what_if.take_off(potential.pods[places[~still_fits]], one_each=True)
        return self._with_victims(potential, fits, is_victim)

    def _filter(self, rows: Rows, gone: GonePods | None, pod: PreparedPod) -> FilterOutcome:
        """`gone`: the nodes are independent. All filters are asked at first, those that no pod moves
        not again: they pass the rows that they passed before."""
        if gone is not None:
            return pod.run_filters(rows, gone)
        return run_filters_with_nominated(pod, rows, self._extensions)

    def _gone(self, potential: PotentialVictims, is_gone: Bools) -> GonePods:
        node_of_pod = np.repeat(potential.rows, potential.counts)
        class_ids = self._pod.cluster.pods.class_id[potential.pods[is_gone]]
        return GonePods(class_ids, node_of_pod[is_gone])

    def _with_victims(
        self, potential: PotentialVictims, fits: Bools, is_victim: Bools
    ) -> Candidates:
        spans = potential.starts[:-1]
        counts = np.add.reduceat(is_victim, spans, dtype=np.int64)
        violations = np.add.reduceat(is_victim & potential.violates, spans, dtype=np.int64)
        for node in np.flatnonzero(fits & (counts == 0)).tolist():
            row = potential.rows[node : node + 1]
            name = self._pod.cluster.nodes.name_of(row.item())
            text = f'expected at least one victim pod on node "{name}"'
            self.failed.add_alike(row, Status(Code.ERROR, (text,)))
        chosen = np.flatnonzero(fits & (counts > 0))
        is_chosen = np.zeros(len(potential.rows), np.bool_)
        is_chosen[chosen] = True
        node_of_pod = np.repeat(np.arange(len(potential.rows)), potential.counts)
        places = np.flatnonzero(is_victim & is_chosen[node_of_pod])
        if violations.any():
            places = places[np.lexsort((potential.importance[places], node_of_pod[places]))]
        return Candidates(
            potential.rows[chosen], violations[chosen], counts[chosen], potential.pods[places]
        )


def fits_without(pod: PreparedPod, row: int, victims: Rows) -> bool:
    """Whether the pod passes every filter on one node once these pods of it are gone."""
    if not pod.may_pass:
        return False
    extensions, rows = PreFilterExtensions(pod), np.array([row], np.intp)
    with WhatIf(pod.cluster, rows, with_pods=True, on_change=extensions.add_and_remove) as what_if:
        what_if.take_off(victims)
        return bool(run_filters_with_nominated(pod, rows, extensions).passes[0])


def victims_on(pod: PreparedPod, row: int) -> Rows:
    """Rows of the pods that a search would have go from one node; none where it would not choose the
    node."""
    if not pod.may_pass:
        return NO_ROWS
    selector = VictimSelector(pod)
    potential = selector.potential(np.array([row], np.intp))
    if not len(potential.rows):
        return NO_ROWS
    return selector.select(potential, is_alone=selector.looks_beyond).victims
