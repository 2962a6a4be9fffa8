"""PodShift: what PreFilter would say of a pod if other pods came or went.

Apart from the run of the extension points, which it repeats for some plugins after each change that
is tried: of victims that preemption takes away, and of nominated pods that are put in their place.
"""

import numpy as np

from shared.columns.pod_log import PodChange
from shared.columns.schema import Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.outcomes import PreFilterOutcome
from shared.framework.plans import PodCountingFilter
from shared.framework.plugin_api import Delta
from shared.framework.pod_info import PodInfo
from shared.framework.runtime import Framework
from shared.framework.status import SUCCESS, Code

_NONE: Rows = np.zeros(0, np.intp)


class PodShift:
    """What PreFilter would have said of a pod if other pods came or went: states of its own that
    follow each change. A plugin that PreFilter skipped stays skipped, as upstream (AddPod and
    RemovePod of the PreFilter extensions). To be made before the first change."""

    def __init__(
        self,
        framework: Framework,
        pod: PodInfo,
        cluster: ClusterView,
        outcome: PreFilterOutcome,
    ) -> None:
        self._pod = pod
        self._cluster = cluster
        self._original = self._shifted = outcome
        self._following: list[PodCountingFilter] = []
        self._repeating: list[PodCountingFilter] = []
        """Those that cannot follow; their state is made again after each change."""
        self._is_stale = False
        """Of `_repeating`."""
        for plugin in framework.plan(outcome).pod_counting:
            if plugin.follower is not None and plugin.what_if is None:
                self._following.append(plugin)
                self._ask_again(plugin)  # A state of its own: the given one is others' as well.
            else:
                self._repeating.append(plugin)

    def move(self, changes: list[PodChange]) -> None:
        """Pods came or went; the view shows it already."""
        self._is_stale = True
        delta = Delta(_NONE, changes)
        for plugin in list(self._following):
            assert plugin.follower is not None, "it follows"
            state = self._shifted.states[plugin.name]
            rows = plugin.follower.update_filter(state, self._pod, self._cluster, delta)
            if rows is None:
                self._following.remove(plugin)
                self._repeating.append(plugin)

    def outcome(self) -> PreFilterOutcome:
        """As of now; good until the next change."""
        if self._is_stale:
            self._is_stale = False
            for plugin in self._repeating:
                self._ask_again(plugin)
        return self._shifted

    def _ask_again(self, plugin: PodCountingFilter) -> None:
        if plugin.what_if is not None:
            state = self._original.states[plugin.name]
            result = plugin.what_if.pre_filter_what_if(state, self._pod, self._cluster)
        else:
            result = plugin.pre_filter.pre_filter(self._pod, self._cluster)
        each = {**self._shifted.each, plugin.name: result.status}
        states = {**self._shifted.states, plugin.name: result.state}
        rejection = SUCCESS
        for name, status in each.items():
            if status.code is not Code.SKIP and not status.is_success and not rejection.plugin:
                rejection = status._replace(plugin=name)
        self._shifted = self._shifted._replace(status=rejection, each=each, states=states)
