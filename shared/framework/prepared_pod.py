"""PreparedPod: a pod of which PreFilter has spoken; every question about nodes begins with it.

`PreFilterExtensions` (AddPod and RemovePod upstream) is what PreFilter would say of it if other pods
came or went: it repeats PreFilter for some plugins after each change that is tried, of victims that
preemption takes away and of nominated pods that are put in their place.
"""

from typing import NamedTuple

from shared.columns.pod_log import PodChange
from shared.columns.schema import NO_ROWS, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.filter_outcomes import FilterOutcome, PreFilterOutcome
from shared.framework.plans import FilterPlan, PodCountingFilter
from shared.framework.plugin_api import Delta
from shared.framework.pod_info import PodInfo
from shared.framework.runtime import Framework
from shared.framework.status import SUCCESS, Code


class PreparedPod(NamedTuple):
    """A pod, the plugins of its profile, and what PreFilter said of it on a view of the cluster."""

    framework: Framework
    info: PodInfo
    cluster: ClusterView
    outcome: PreFilterOutcome
    own_uid: str = ""
    """Of a pod that is nominated: its own nomination takes no room from it."""

    @property
    def plan(self) -> FilterPlan:
        """Which filters have a say."""
        return self.framework.plan(self.outcome)

    @property
    def nominated_row(self) -> int:
        """The node that it is nominated to; -1: to none."""
        return self.cluster.nominations.row_of(self.own_uid)

    def candidate_rows(self) -> Rows:
        """The nodes that Filter has to look at; none where PreFilter rejected the pod."""
        if not self.outcome.status.is_success:
            return NO_ROWS
        return self.framework.candidate_rows(self.outcome, self.cluster)

    def run_filters(self, rows: Rows) -> FilterOutcome:
        """Without regard to nominated pods."""
        return self.framework.run_filters(self.info, self.cluster, self.outcome, rows)


def prepared(
    framework: Framework, info: PodInfo, cluster: ClusterView, own_uid: str = ""
) -> PreparedPod:
    """Runs PreFilter."""
    outcome = framework.run_pre_filters(info, cluster)
    return PreparedPod(framework, info, cluster, outcome, own_uid)


class PreFilterExtensions:
    """What PreFilter would have said of a pod if other pods came or went: states of its own that
    follow each change. A plugin that PreFilter skipped stays skipped, as upstream. To be made before
    the first change."""

    def __init__(self, pod: PreparedPod) -> None:
        self._pod = pod
        self._outcome = pod.outcome
        self._following: list[PodCountingFilter] = []
        self._repeating: list[PodCountingFilter] = []
        """Those that cannot follow; their state is made again after each change."""
        self._is_stale = False
        """Of `_repeating`."""
        for plugin in pod.plan.pod_counting:
            if plugin.follower is not None and plugin.what_if is None:
                self._following.append(plugin)
                self._ask_again(plugin)  # A state of its own: the given one is others' as well.
            else:
                self._repeating.append(plugin)

    def add_and_remove(self, changes: list[PodChange]) -> None:
        """Pods came or went; the view shows it already."""
        self._is_stale = True
        pod = self._pod
        delta = Delta(NO_ROWS, changes)
        for plugin in list(self._following):
            assert plugin.follower is not None, "it follows"
            state = self._outcome.states[plugin.name]
            rows = plugin.follower.update_filter(state, pod.info, pod.cluster, delta)
            if rows is None:
                self._following.remove(plugin)
                self._repeating.append(plugin)

    def outcome(self) -> PreFilterOutcome:
        """As of now; good until the next change."""
        if self._is_stale:
            self._is_stale = False
            for plugin in self._repeating:
                self._ask_again(plugin)
        return self._outcome

    def _ask_again(self, plugin: PodCountingFilter) -> None:
        pod = self._pod
        if plugin.what_if is not None:
            state = pod.outcome.states[plugin.name]
            result = plugin.what_if.pre_filter_what_if(state, pod.info, pod.cluster)
        else:
            result = plugin.pre_filter.pre_filter(pod.info, pod.cluster)
        each = {**self._outcome.each, plugin.name: result.status}
        states = {**self._outcome.states, plugin.name: result.state}
        rejection = SUCCESS
        for name, status in each.items():
            if status.code is not Code.SKIP and not status.is_success and not rejection.plugin:
                rejection = status._replace(plugin=name)
        self._outcome = self._outcome._replace(status=rejection, each=each, states=states)
