"""PreparedPod: a pod of which PreFilter has spoken; every question about nodes begins with it.

`PreFilterExtensions` (AddPod and RemovePod upstream) is what PreFilter would say of it if other pods
came or went: it repeats PreFilter for some plugins after each change that is tried, of victims that
preemption takes away and of nominated pods that are put in their place.

Nominated pods may be there in time or not. So a pod has to pass on a node as it is, and as it would be
with the nominated pods there that are as important as it is or more (RunFilterPluginsWithNominatedPods
in pkg/scheduler/framework/runtime/framework.go, v1.36.2). Everybody who decides whether a node takes a
pod asks here; `Framework` alone knows nothing of nominations.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from shared.columns.journal import PodChange
from shared.columns.schema import NO_ROWS, Bools, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import Delta, GonePods, PreFilterPlugin, UpdatableFilter
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.plans import (
    FilterOutcome,
    FilterPlan,
    PreFilterOutcome,
    Refuser,
    told_of,
)
from shared.framework.runtime.what_if import WhatIf
from shared.framework.status import SUCCESS, Code, ReasonBits


class PreparedPod(NamedTuple):
    """A pod, the plugins of its profile, and what PreFilter said of it on a view of the cluster."""

    framework: Framework
    info: PodInfo
    cluster: ClusterView
    outcome: PreFilterOutcome
    own_uid: str = ""
    """Of a pod that is nominated: its own nomination takes no room from it."""
    among: frozenset[int] | None = None
    """The only filters, as indices, that `run_filters` asks; None: all that have a say."""

    @property
    def plan(self) -> FilterPlan:
        """Which filters have a say."""
        return self.framework.plan(self.outcome)

    @property
    def nominated_row(self) -> int:
        """The node that it is nominated to; -1: to none."""
        return self.cluster.nominations.row_of(self.own_uid)

    @property
    def may_pass(self) -> bool:
        """PreFilter takes the pod, or may take it if other pods were gone."""
        status = self.outcome.status
        return status.is_success or status.code is Code.UNSCHEDULABLE

    def candidate_rows(self) -> Rows:
        """The nodes that Filter has to look at; none where PreFilter rejected the pod."""
        if not self.outcome.status.is_success:
            return NO_ROWS
        return self.framework.candidate_rows(self.outcome, self.cluster)

    @property
    def has_failed(self) -> bool:
        """Whether a filter came to an error on some node, perhaps one that another filter refused
        before it would have been asked; or may come to one there."""
        states = self.outcome.states
        for name in self.framework.may_fail:
            # Asked for each placement: most have no state.
            state = states.get(name)
            if state is not None and state.has_failed:
                return True
        return False

    def run_filters(self, rows: Rows, gone: GonePods | None = None) -> FilterOutcome:
        """Runs the filters in order; each sees only the rows that all before it let pass. Without
        regard to nominated pods. `gone`: wide filters that can are asked about each row apart, as if
        these pods of it were gone."""
        framework, info, cluster, outcome, _, among = self
        if not outcome.status.is_success:
            return self._all_failed(rows)
        refused_by = np.full(len(rows), -1, np.int64)
        codes, reasons = np.zeros(len(rows), np.uint8), np.zeros(len(rows), np.int64)
        refusers: list[Refuser] = []
        left = np.arange(len(rows))
        for index in self.plan.active:
            if not len(left):
                break
            if among is not None and index not in among:
                continue
            plugin = framework.filters[index]
            seen, state = rows[left], outcome.states.get(plugin.NAME)
            apart = None if gone is None else framework.filters_without_pods.get(index)
            if gone is None or apart is None:
                verdict = plugin.filter(state, info, cluster, seen)
            else:
                verdict = apart.filter_without_pods(state, info, cluster, seen, gone)
            passes = verdict.passes
            if passes.all():
                continue
            failed = left[~passes]
            refused_by[failed] = len(refusers)
            codes[failed], reasons[failed] = verdict.codes[~passes], verdict.reasons[~passes]
            refusers.append(Refuser(index, verdict.texts))
            left = left[passes]
        return FilterOutcome(rows, refused_by, codes, reasons, tuple(refusers))

    def _all_failed(self, rows: Rows) -> FilterOutcome:
        """As if the plugin whose PreFilter rejected the pod had rejected it on each row; the first one
        for a plugin without a Filter: whoever asks about rows then asks whether they pass, not who
        rejected them."""
        status, count = self.outcome.status, len(rows)
        names = [plugin.NAME for plugin in self.framework.filters]
        index = names.index(status.plugin) if status.plugin in names else 0
        texts = ReasonBits(status.reasons).texts
        return FilterOutcome(
            rows,
            np.zeros(count, np.int64),
            np.full(count, int(status.code), np.uint8),
            np.full(count, (1 << len(texts)) - 1, np.int64),
            (Refuser(index, texts),),
        )

    def passing_of(self, indices: Sequence[int], rows: Rows) -> Bools:
        """Which rows pass these filters, shape (n,), without regard to nominated pods."""
        framework, info, cluster, outcome, _, _ = self
        ok: Bools | None = None
        for index in indices if len(rows) else ():
            plugin = framework.filters[index]
            verdict = plugin.filter(outcome.states.get(plugin.NAME), info, cluster, rows)
            ok = verdict.passes if ok is None else ok & verdict.passes
        return np.ones(len(rows), np.bool_) if ok is None else ok


def prepared(
    framework: Framework, info: PodInfo, cluster: ClusterView, own_uid: str = ""
) -> PreparedPod:
    """Runs PreFilter."""
    outcome = framework.run_pre_filters(info, cluster)
    return PreparedPod(framework, info, cluster, outcome, own_uid)


@runtime_checkable
class _FollowingFilter(PreFilterPlugin, UpdatableFilter, Protocol): ...


class PreFilterExtensions:
    """What PreFilter would have said of a pod if other pods came or went: states of its own that
    follow each change. A plugin that PreFilter skipped stays skipped, as upstream. To be made before
    the first change."""

    def __init__(self, pod: PreparedPod) -> None:
        self._pod = pod
        self._outcome = pod.outcome
        self._following: list[_FollowingFilter] = []
        self._repeating: list[PreFilterPlugin] = []
        """Those that cannot follow; their state is made again after each change."""
        self._is_stale = False
        """Of `_repeating`."""
        for plugin in pod.plan.pod_counting.values():
            if isinstance(plugin, _FollowingFilter):
                self._following.append(plugin)
                self._ask_again(plugin)  # A state of its own: the given one is others' as well.
            else:
                self._repeating.append(plugin)

    def add_and_remove(self, changes: list[PodChange]) -> None:
        """Pods came or went; the view shows it already."""
        self._is_stale = True
        pod = self._pod
        delta = Delta(NO_ROWS, changes, is_what_if=True)
        for plugin in list(self._following):
            state = self._outcome.states[plugin.NAME]
            if plugin.update_filter(state, pod.info, pod.cluster, delta) is None:
                self._following.remove(plugin)
                self._repeating.append(plugin)

    def outcome(self) -> PreFilterOutcome:
        """As of now; good until the next change."""
        if self._is_stale:
            self._is_stale = False
            for plugin in self._repeating:
                self._ask_again(plugin)
        return self._outcome

    def _ask_again(self, plugin: PreFilterPlugin) -> None:
        result = plugin.pre_filter(self._pod.info, self._pod.cluster)
        each = {**self._outcome.each, plugin.NAME: result.status}
        states = {**self._outcome.states, plugin.NAME: result.state}
        rejection = SUCCESS
        for name, status in each.items():
            if status.code is not Code.SKIP and not status.is_success and not rejection.plugin:
                rejection = status._replace(plugin=name)
        self._outcome = self._outcome._replace(status=rejection, each=each, states=states)


def run_filters_with_nominated(
    pod: PreparedPod, rows: Rows, extensions: PreFilterExtensions | None = None
) -> FilterOutcome:
    """As `PreparedPod.run_filters`, where rows with nominated pods that the pod has to respect must
    pass with these added as well. `extensions`: the pods in the view are not those that PreFilter saw.
    """
    slots = _respected(pod, rows)
    if not len(slots):
        return _as_of_now(pod, extensions).run_filters(rows)
    is_marked = np.isin(rows, pod.cluster.nominations.node_row[slots])
    unmarked = _as_of_now(pod, extensions).run_filters(rows[~is_marked])
    with_them = _run_as_if_there(pod, rows[is_marked], slots, extensions)
    without = _as_of_now(pod, extensions).run_filters(with_them.rows[with_them.passes])
    return told_of(rows, (unmarked, with_them, without))


def counting_own_node(pod: PreparedPod) -> PreparedPod:
    """A nominated pod whose node has refused it, with what PreFilter said of it and its node. That node
    is asked first, also where PreFilter left it out, and what it said counts with what the others say;
    its plugin is even named among those that narrowed the search (`evaluateNominatedNode` in
    pkg/scheduler/schedule_one.go, v1.36.2, which shares its diagnosis with the search)."""
    outcome, nodes, row = pod.outcome, pod.cluster.nodes, pod.nominated_row
    if outcome.node_names is None or not outcome.status.is_success or row < 0:
        return pod
    if not nodes.present[row]:
        return pod
    asked = run_filters_with_nominated(pod, np.array([row], np.intp))
    if asked.codes[0] in (Code.SUCCESS, Code.ERROR):
        return pod
    narrowed_by = set(outcome.narrowed_by)
    if asked.codes[0] != Code.PENDING:
        refuser = asked.refusers[asked.refused_by.item()]
        narrowed_by.add(pod.framework.filters[refuser.filter_index].NAME)
    outcome = outcome._replace(
        node_names=outcome.node_names | {nodes.name_of(row)}, narrowed_by=tuple(sorted(narrowed_by))
    )
    return pod._replace(outcome=outcome)


def passing_with_nominated(pod: PreparedPod, rows: Rows, ok: Bools) -> Bools:
    """`ok`, the rows that pass as they are, less those that would not with the nominated pods that
    the pod must leave room for. Takes `ok` over."""
    slots = _respected(pod, rows)
    if len(slots):
        marked = np.flatnonzero(ok & np.isin(rows, pod.cluster.nominations.node_row[slots]))
        if len(marked):
            slots = _respected(pod, rows[marked])
            ok[marked] = _run_as_if_there(pod, rows[marked], slots).passes
    return ok


def _run_as_if_there(
    pod: PreparedPod, rows: Rows, slots: Rows, extensions: PreFilterExtensions | None = None
) -> FilterOutcome:
    """The filters as if the nominated pods in `slots` were on their nodes already."""
    cluster, plan = pod.cluster, pod.plan
    nominations = cluster.nominations
    if not plan.is_wide:
        with WhatIf(cluster, rows, with_pods=plan.reads_pods) as what_if:
            what_if.put_on(nominations.class_id[slots], nominations.node_row[slots])
            return pod.run_filters(rows)
    extensions = extensions or PreFilterExtensions(pod)
    parts: list[FilterOutcome] = []
    for position in range(len(rows)):
        row = rows[position : position + 1]
        on_row = slots[nominations.node_row[slots] == row[0]]
        with WhatIf(cluster, row, with_pods=True, on_change=extensions.add_and_remove) as what_if:
            what_if.put_on(nominations.class_id[on_row], nominations.node_row[on_row])
            parts.append(_as_of_now(pod, extensions).run_filters(row))
    return told_of(rows, parts)


def _as_of_now(pod: PreparedPod, extensions: PreFilterExtensions | None) -> PreparedPod:
    return pod if extensions is None else pod._replace(outcome=extensions.outcome())


def _respected(pod: PreparedPod, rows: Rows) -> Rows:
    """The nominations to `rows` that a pod must leave room for."""
    nominations = pod.cluster.nominations
    if not nominations or not len(rows) or not pod.may_pass:
        return NO_ROWS
    return nominations.slots_on(rows, pod.info.priority, pod.own_uid)
