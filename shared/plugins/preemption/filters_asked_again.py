"""Which filters preemption has to ask again, about which nodes at a time.

The simple way asks every filter about every node after every pod that is taken off or put back. But
what only a Node object changes is settled by the first answer; and a filter that looks beyond the node
(spread, affinity) minds few classes of pods: where none of a node's candidates is one of them, it says
the same whoever goes, so that such nodes can be asked about together.

Callers may rely on: nothing here changes an answer, only how many questions lead to it.
"""

from functools import lru_cache

import numpy as np

from shared.columns.schema import Bools, Int64s
from shared.framework.cluster_view import ClusterView
from shared.framework.outcomes import PreFilterOutcome
from shared.framework.plans import MOVING
from shared.framework.plugin_api import ClassDiscerning, Reads, Scope
from shared.framework.runtime import Framework


@lru_cache(maxsize=64)
def moving_only(framework: Framework) -> Framework:
    """`moving_part`, of a framework that lives on."""
    return moving_part(framework)


def moving_part(framework: Framework) -> Framework:
    """The same without the filters that no pod moves. It passes the rows that the whole framework
    passed before, and passes now; its reasons are not those of the whole."""
    filters = [
        plugin
        for plugin in framework.filters
        if plugin.filter_depends.reads & MOVING or plugin.filter_depends.scope is not Scope.ROW
    ]
    return Framework(framework.profile_name, framework.pre_filters, filters, ())


def settled_by_row(framework: Framework, outcome: PreFilterOutcome) -> Framework:
    """The active filters up to the first that looks beyond the row, in Filter or in PreFilter: whoever
    fails one of them fails for that reason, whatever is elsewhere."""
    plan = framework.plan(outcome)
    wide = tuple(counting.filter_index for counting in plan.pod_counting)
    return _before_any_wide(framework, tuple(plan.active), wide)


@lru_cache(maxsize=256)
def _before_any_wide(
    framework: Framework, active: tuple[int, ...], wide: tuple[int, ...]
) -> Framework:
    filters = []
    for index in active:
        plugin = framework.filters[index]
        if plugin.filter_depends.scope is not Scope.ROW or index in wide:
            break
        filters.append(plugin)
    return Framework(framework.profile_name, framework.pre_filters, filters, ())


def row_filters_read_pods(framework: Framework, outcome: PreFilterOutcome) -> bool:
    """Whether some filter that looks at the node alone looks at the pods themselves, and not only at
    what they take."""
    depends = [framework.filters[i].filter_depends for i in framework.plan(outcome).active]
    return any(each.scope is Scope.ROW and each.reads & Reads.PODS for each in depends)


class MindedClasses:
    """Which classes of pods the filters mind that look beyond the node."""

    def __init__(
        self, framework: Framework, cluster: ClusterView, outcome: PreFilterOutcome
    ) -> None:
        self._cluster = cluster
        plugins = [framework.filters[index] for index in framework.plan(outcome).beyond]
        self._discerning = [plugin for plugin in plugins if isinstance(plugin, ClassDiscerning)]
        is_rejected = not outcome.status.is_success
        self._is_all = is_rejected or len(self._discerning) < len(plugins)
        """Somebody minds every pod, or cannot tell, or a PreFilter may change its mind."""
        self._states = outcome.states
        self._known: dict[int, bool] = {}

    def are_minded(self, class_ids: Int64s) -> Bools:
        """Shape (n,): pods of these classes may change what is said of other nodes."""
        if self._is_all:
            return np.ones(len(class_ids), np.bool_)
        once, inverse = np.unique(class_ids, return_inverse=True)
        minded = np.array([self._is_minded(class_id) for class_id in once.tolist()], np.bool_)
        found: Bools = minded[inverse]
        return found

    def _is_minded(self, class_id: int) -> bool:
        known = self._known.get(class_id)
        if known is None:
            known = self._known[class_id] = any(
                plugin.minds(self._states.get(plugin.NAME), class_id, self._cluster)
                for plugin in self._discerning
            )
        return known
