"""Which filters preemption has to ask again, and about how many nodes at a time.

The simple way asks every filter about every node after every pod that is taken off or put back. But
what only a Node object changes is settled by the first answer; and where a filter looks beyond the node
(spread, affinity), nodes can be asked about together if it works out for many of them at once what would
be if each one's pods were gone (`FilterWithoutPods`). Else each question is put by itself, with all
counts made to follow.

Callers may rely on: nothing here changes an answer, only how many questions lead to it.
"""

from typing import Any, ClassVar, Protocol

import numpy as np

from shared.columns.schema import NO_ROWS, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.filter_outcomes import FilterOutcome
from shared.framework.plans import MOVING
from shared.framework.plugin_api import (
    Dependence,
    FilterPlugin,
    FilterWithoutPods,
    GonePods,
    Reads,
    Scope,
)
from shared.framework.pod_info import PodInfo
from shared.framework.prepared_pod import PreparedPod
from shared.framework.runtime import Framework
from shared.framework.status import Verdicts


def moving_part(framework: Framework) -> Framework:
    """The same without the filters that no pod moves. It passes the rows that the whole framework
    passed before, and passes now; its reasons are not those of the whole."""
    filters = [
        plugin
        for plugin in framework.filters
        if plugin.filter_depends.reads & MOVING or plugin.filter_depends.scope is not Scope.ROW
    ]
    return Framework(framework.profile_name, framework.pre_filters, filters, ())


def settled_by_row(pod: PreparedPod) -> Framework:
    """The active filters up to the first that looks beyond the row, in Filter or in PreFilter: whoever
    fails one of them fails for that reason, whatever is elsewhere."""
    plan = pod.plan
    wide = tuple(counting.filter_index for counting in plan.pod_counting)
    return pod.framework.derived(_before_any_wide, tuple(plan.active), wide)


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


def row_filters_read_pods(pod: PreparedPod) -> bool:
    """Whether some filter that looks at the node alone looks at the pods themselves, and not only at
    what they take."""
    depends = [pod.framework.filters[i].filter_depends for i in pod.plan.active]
    return any(each.scope is Scope.ROW and each.reads & Reads.PODS for each in depends)


class ApartFramework:
    """A framework's filters; nobody may be nominated to the nodes that they are asked about, as far as
    the pod would have to respect it."""

    def __init__(self, framework: Framework) -> None:
        self._gone = _Gone()
        filters = [_apart(plugin, self._gone) for plugin in framework.filters]
        self._all = Framework(framework.profile_name, framework.pre_filters, filters, ())
        self._moving = moving_part(self._all)

    def filter(
        self, pod: PreparedPod, rows: Rows, gone: GonePods, *, moving_only: bool
    ) -> FilterOutcome:
        """`moving_only`: the rows passed all filters before, and would with more pods gone."""
        self._gone.pods = gone
        framework = self._moving if moving_only else self._all
        return pod._replace(framework=framework).run_filters(rows)


def can_be_apart(pod: PreparedPod) -> bool:
    """Whether every filter that looks beyond the node can be asked so."""
    if not pod.outcome.status.is_success:
        return False
    return all(
        isinstance(pod.framework.filters[index], FilterWithoutPods) for index in pod.plan.beyond
    )


class _Gone:
    """What is gone in the question that is being asked."""

    pods = GonePods(np.zeros(0, np.int64), NO_ROWS)


class _WithoutPods:
    """A wide filter that is asked about each row apart."""

    NAME: ClassVar[str] = "apart"
    filter_depends: ClassVar[Dependence]

    def __init__(self, plugin: "_WideFilter", gone: _Gone) -> None:
        self.NAME = plugin.NAME  # type: ignore[misc]  # It stands in for another.
        self.filter_depends = plugin.filter_depends  # type: ignore[misc]  # The same.
        self._plugin = plugin
        self._gone = gone

    def filter(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        return self._plugin.filter_without_pods(state, pod, cluster, rows, self._gone.pods)


class _WideFilter(FilterWithoutPods, FilterPlugin, Protocol):
    """Both."""


def _apart(plugin: FilterPlugin, gone: _Gone) -> FilterPlugin:
    return _WithoutPods(plugin, gone) if isinstance(plugin, FilterWithoutPods) else plugin
