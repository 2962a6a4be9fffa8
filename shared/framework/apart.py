"""Filters that look beyond the node, asked about many nodes at a time, each as if its pods were gone.

Taking pods off a node changes what such a filter says of other nodes, so each question would have to
be put by itself, with all counts made to follow. But preemption asks of a node only what its own pods
change, and a filter can work that out for all nodes at once (`ApartFilter`).
"""

from typing import Any, ClassVar, Protocol

import numpy as np

from shared.columns.schema import Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import (
    ApartFilter,
    Dependence,
    FilterPlugin,
    GonePods,
    Scope,
)
from shared.framework.pod_info import PodInfo
from shared.framework.preemption_scope import moving_part
from shared.framework.runtime import FilterOutcome, Framework, PreFilterOutcome
from shared.framework.status import Verdicts


class ApartFramework:
    """A framework's filters for one pod; nobody may be nominated to the nodes that they are asked
    about, as far as the pod would have to respect it."""

    def __init__(
        self,
        framework: Framework,
        pod: PodInfo,
        own_uid: str,
        cluster: ClusterView,
        outcome: PreFilterOutcome,
    ) -> None:
        self._pod = pod
        self._own_uid = own_uid
        self._cluster = cluster
        self._outcome = outcome
        self._gone = _Gone()
        filters = [_apart(plugin, self._gone) for plugin in framework.filters]
        self._all = Framework(framework.profile_name, framework.pre_filters, filters, ())
        self._moving = moving_part(self._all)

    def filter(self, rows: Rows, gone: GonePods, *, moving_only: bool) -> FilterOutcome:
        """`moving_only`: the rows passed all filters before, and would with more pods gone."""
        self._gone.pods = gone
        framework = self._moving if moving_only else self._all
        return framework.run_filters(self._pod, self._cluster, self._outcome, rows, self._own_uid)


def can_be_apart(framework: Framework, outcome: PreFilterOutcome) -> bool:
    """Whether every filter that looks beyond the node can be asked so."""
    if not outcome.status.is_success:
        return False
    counting = {each.filter_index for each in framework.pod_counting(outcome)}
    return all(
        isinstance(framework.filters[index], ApartFilter)
        for index in framework.active_filters(outcome)
        if index in counting or framework.filters[index].filter_depends.scope is not Scope.ROW
    )


class _Gone:
    """What is gone in the question that is being asked."""

    pods = GonePods(np.zeros(0, np.int64), np.zeros(0, np.intp))


class _Apart:
    """A wide filter that is asked about each row apart."""

    NAME: ClassVar[str] = "apart"
    filter_depends: ClassVar[Dependence]

    def __init__(self, plugin: "_WideFilter", gone: _Gone) -> None:
        self.NAME = plugin.NAME  # type: ignore[misc]  # It stands in for another.
        self.filter_depends = plugin.filter_depends  # type: ignore[misc]  # The same.
        self._plugin = plugin
        self._gone = gone

    def filter(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        return self._plugin.filter_apart(state, pod, cluster, rows, self._gone.pods)


class _WideFilter(ApartFilter, FilterPlugin, Protocol):
    """Both."""


def _apart(plugin: FilterPlugin, gone: _Gone) -> FilterPlugin:
    return _Apart(plugin, gone) if isinstance(plugin, ApartFilter) else plugin
