"""Pod disruption budgets as preemption sees them: which victims would violate one.

Budgets may be violated; victims that violate none are preferred. Counted per node, since only one
node's victims go: each victim takes one from every budget that selects it, the most important first.

Rules: `filterPodsWithPDBViolation` in
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, v1.36.2.
"""

from typing import NamedTuple

import numpy as np

from shared.columns.pods import name_hash
from shared.columns.schema import Bools, Rows
from shared.framework.cluster_view import ClusterView
from shared.kube.objects import PodDisruptionBudget
from shared.selectors.label_selector import NOTHING, Selector, SelectorError, parse_label_selector

BUDGETS = "poddisruptionbudgets"


class _Budget(NamedTuple):
    namespace: str
    selector: Selector
    allowed: int
    let_go: frozenset[int]
    """Hashes of the names of pods that the API server has already counted."""


class Budgets:
    """The budgets of one view at one moment."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        found = cluster.objects.all(BUDGETS)
        self._budgets = [_parsed(found[key]) for key in sorted(found)]
        self._by_class: dict[int, list[int]] = {}

    def violations(self, pod_rows: Rows, starts: Rows) -> Bools:
        """Which pods violate a budget if all go, shape (m,). `starts` (n + 1) says where each node's
        pods begin; they are in order of importance."""
        violates = np.zeros(len(pod_rows), np.bool_)
        if not self._budgets or not len(pod_rows):
            return violates
        pods = self._cluster.pods
        class_ids = pods.class_id[pod_rows]
        counted = [c for c in np.unique(class_ids).tolist() if self._of_class(c)]
        if not counted:
            return violates
        node = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        left: list[int] = []
        last_node = -1
        for place in np.flatnonzero(np.isin(class_ids, counted)).tolist():
            if node[place] != last_node:
                last_node = int(node[place])
                left = [budget.allowed for budget in self._budgets]
            name = int(pods.name_hash[pod_rows[place]])
            for index in self._of_class(int(class_ids[place])):
                if name in self._budgets[index].let_go:
                    continue
                left[index] -= 1
                if left[index] < 0:
                    violates[place] = True
        return violates

    def _of_class(self, class_id: int) -> list[int]:
        """The budgets that select the pods of a class."""
        found = self._by_class.get(class_id)
        if found is None:
            info = self._cluster.classes[class_id]
            found = [
                i
                for i, budget in enumerate(self._budgets)
                if budget.namespace == info.namespace
                and info.labels
                and budget.selector.matches(info.labels)
            ]
            self._by_class[class_id] = found
        return found


def _parsed(budget: PodDisruptionBudget) -> _Budget:
    """A budget whose selector is empty or cannot be read protects nothing."""
    try:
        selector = parse_label_selector(budget.spec.selector)
    except SelectorError:
        selector = NOTHING
    return _Budget(
        budget.metadata.namespace,
        NOTHING if selector.is_empty else selector,
        budget.status.disruptions_allowed,
        frozenset(name_hash(name) for name in budget.status.disrupted_pods or ()),
    )
