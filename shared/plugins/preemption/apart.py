"""Filters that look beyond the node, asked about many nodes at a time, each as if its pods were gone.

Taking pods off a node changes what such a filter says of other nodes, so each question would have to
be put by itself, with all counts made to follow. But preemption asks of a node only what its own pods
change, and a filter can work that out for all nodes at once (`ApartFilter`).
"""

from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np

from shared.columns.schema import Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.outcomes import FilterOutcome, PreFilterOutcome
from shared.framework.plugin_api import ApartFilter, Dependence, FilterPlugin, GonePods
from shared.framework.pod_info import PodInfo
from shared.framework.runtime import Framework
from shared.framework.status import Verdicts
from shared.plugins.preemption.filters_asked_again import moving_part


class ApartFramework:
    """A framework's filters; nobody may be nominated to the nodes that they are asked about, as far as
    the pod would have to respect it."""

    def __init__(self, framework: Framework) -> None:
        self._gone = _Gone()
        filters = [_apart(plugin, self._gone) for plugin in framework.filters]
        self._all = Framework(framework.profile_name, framework.pre_filters, filters, ())
        self._moving = moving_part(self._all)

    def filter(
        self,
        pod: PodInfo,
        cluster: ClusterView,
        outcome: PreFilterOutcome,
        rows: Rows,
        gone: GonePods,
        *,
        moving_only: bool,
    ) -> FilterOutcome:
        """`moving_only`: the rows passed all filters before, and would with more pods gone."""
        self._gone.pods = gone
        framework = self._moving if moving_only else self._all
        return framework.run_filters(pod, cluster, outcome, rows)


@lru_cache(maxsize=64)
def apart_framework(framework: Framework) -> ApartFramework:
    """Of a framework that lives on; to make one takes longer than to ask it."""
    return ApartFramework(framework)


def can_be_apart(framework: Framework, outcome: PreFilterOutcome) -> bool:
    """Whether every filter that looks beyond the node can be asked so."""
    if not outcome.status.is_success:
        return False
    beyond = framework.plan(outcome).beyond
    return all(isinstance(framework.filters[index], ApartFilter) for index in beyond)


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
