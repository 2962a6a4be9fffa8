"""Framework: the plugins of one profile, in order, and how each extension point is run.

Every run here is complete and remembers nothing; `engine.py` keeps results from one pod to the next
and calls the same functions on fewer rows. Rules: pkg/scheduler/framework/runtime/framework.go and
pkg/scheduler/schedule_one.go, v1.36.2.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from shared.columns.schema import Bools, Int64s, Rows
from shared.errors import OperationalError
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import (
    FilterPlugin,
    NormalizeScorePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Scope,
    ScorePlugin,
)
from shared.framework.pod_info import PodInfo
from shared.framework.status import SUCCESS, Code, Codes, Status, Verdicts
from shared.framework.what_if import WhatIf

MOVING: Final = Reads.USAGE | Reads.PODS
"""What a placement changes."""


class ScoreEntry(NamedTuple):
    plugin: ScorePlugin
    weight: int


class PreFilterOutcome(NamedTuple):
    """What PreFilter said of a pod."""

    status: Status
    """SUCCESS, or the rejection (or error) that counts, with its plugin."""
    each: dict[str, Status]
    """Plugin -> its status, for those that ran."""
    each_node_names: dict[str, frozenset[str]]
    states: dict[str, Any]
    node_names: frozenset[str] | None
    """The intersection of what the plugins narrowed the search to; None: all nodes."""
    narrowed_by: tuple[str, ...]
    """The plugins that narrowed it."""


class PreScoreError(OperationalError):
    """A pod that cannot be rated; the attempt is an error and no refusal, its text the message."""

    def __init__(self, plugin: str, status: Status) -> None:
        super().__init__(f'running PreScore plugin "{plugin}": {status.message}')


class ActiveScore(NamedTuple):
    """A score plugin that PreScore did not skip."""

    plugin: ScorePlugin
    weight: int
    state: Any
    normalizer: NormalizeScorePlugin | None
    """The same plugin, if it normalises."""


class NodeVerdict(NamedTuple):
    """Why one node does not take the pod."""

    row: int
    status: Status


class FilterVerdicts(NamedTuple):
    """What one filter said; it may have been asked several times, about different rows."""

    filter_index: int
    rows: Rows
    verdicts: Verdicts


class FilterOutcome(NamedTuple):
    """What Filter said of `rows`; arrays of shape (n,)."""

    rows: Rows
    failed_by: Int64s
    """Index into the framework's filters of the first one that failed; -1 where all passed."""
    verdicts: list[FilterVerdicts]
    """Of the filters that had something against some row, in the order in which they ran."""

    @property
    def passes(self) -> Bools:
        passed: Bools = self.failed_by < 0
        return passed

    def codes(self) -> Codes:
        """`Code` of the first filter that failed for each row, shape (n,); 0 where all passed."""
        codes = np.zeros(len(self.rows), np.uint8)
        at = np.full(int(self.rows.max(initial=0)) + 1, 0, np.intp)
        at[self.rows] = np.arange(len(self.rows))
        for _, seen, verdict in self.verdicts:
            failed = verdict.codes != 0
            codes[at[seen[failed]]] = verdict.codes[failed]
        return codes


class Framework:
    """One profile's plugins. Immutable once made."""

    def __init__(
        self,
        profile_name: str,
        pre_filters: Sequence[PreFilterPlugin],
        filters: Sequence[FilterPlugin],
        scores: Sequence[ScoreEntry],
        post_filters: Sequence[Any] = (),
    ) -> None:
        self.profile_name = profile_name
        self.pre_filters = tuple(pre_filters)
        self.filters = tuple(filters)
        self.scores = tuple(scores)
        self.post_filters = tuple(post_filters)
        """See `post_filter.py`, which runs them."""
        self.has_dependent_pre_filter = any(
            plugin.pre_filter_depends is not None for plugin in self.pre_filters
        )
        """PreFilter says something else when the cluster changes."""
        # Looked up once: asking a Protocol what an object can do takes several microseconds.
        self._pre_scorers = [_as_pre_scorer(entry.plugin) for entry in self.scores]
        self._normalizers = [_as_normalizer(entry.plugin) for entry in self.scores]
        self._refreshes = [_pre_filter_of_pods(plugin) for plugin in self.filters]

    # PreFilter and Filter ----------------------------------------------------------------

    def run_pre_filters(self, pod: PodInfo, cluster: ClusterView) -> PreFilterOutcome:
        """Runs PreFilter in profile order, up to the first unresolvable rejection or error."""
        each: dict[str, Status] = {}
        each_names: dict[str, frozenset[str]] = {}
        states: dict[str, Any] = {}
        names: frozenset[str] | None = None
        narrowed: list[str] = []
        rejection: Status | None = None
        for plugin in self.pre_filters:
            result = plugin.pre_filter(pod, cluster)
            status = result.status
            each[plugin.NAME] = status
            if status.code is Code.SKIP:
                continue
            if status.is_rejected:
                rejection = status._replace(plugin=plugin.NAME)
                if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    break
                continue
            if not status.is_success:
                rejection = status._replace(plugin=plugin.NAME)
                break
            states[plugin.NAME] = result.state
            if result.node_names is not None:
                each_names[plugin.NAME] = result.node_names
                narrowed.append(plugin.NAME)
                names = result.node_names if names is None else names & result.node_names
                if not names:
                    rejection = self._no_common_node(tuple(narrowed))
                    break
        return PreFilterOutcome(
            rejection or SUCCESS, each, each_names, states, names, tuple(narrowed)
        )

    @staticmethod
    def _no_common_node(narrowed: tuple[str, ...]) -> Status:
        if len(narrowed) == 1:
            text = f"node(s) didn't satisfy plugin {narrowed[0]}"
        else:
            names = " ".join(sorted(narrowed))
            text = f"node(s) didn't satisfy plugin(s) [{names}] simultaneously"
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))

    def candidate_rows(self, outcome: PreFilterOutcome, cluster: ClusterView) -> Rows:
        """The rows that Filter has to look at."""
        nodes = cluster.nodes
        if outcome.node_names is None:
            return nodes.present_rows()
        rows = (nodes.row_of(name) for name in sorted(outcome.node_names))
        return np.array([row for row in rows if row >= 0 and nodes.present[row]], np.intp)

    def active_filters(self, outcome: PreFilterOutcome) -> list[int]:
        """Indices of the filters that PreFilter did not skip."""
        return [
            index
            for index, plugin in enumerate(self.filters)
            if outcome.each.get(plugin.NAME, SUCCESS).code is not Code.SKIP
        ]

    def run_filters(
        self,
        pod: PodInfo,
        cluster: ClusterView,
        outcome: PreFilterOutcome,
        rows: Rows,
        own_uid: str = "",
        *,
        is_hypothetical: bool = False,
    ) -> FilterOutcome:
        """Runs the filters in order; each sees only the rows that all before it let pass.

        `is_hypothetical`: the pods in the view are not those that PreFilter saw.

        Rows with nominated pods that the pod has to respect (`own_uid` is none of them) must pass
        with these added, and without: they may be there in time or not
        (RunFilterPluginsWithNominatedPods upstream).
        """
        run = self._run_refreshed if is_hypothetical else self._run_filters
        slots = _respected(pod, cluster, rows, own_uid)
        if not len(slots):
            return run(pod, cluster, outcome, rows)
        is_marked = np.isin(rows, cluster.nominations.node_row[slots])
        unmarked = run(pod, cluster, outcome, rows[~is_marked])
        with_them = self._run_with_nominated(pod, cluster, outcome, rows[is_marked], slots)
        without = run(pod, cluster, outcome, with_them.rows[with_them.passes])
        failed_by = np.full(len(rows), -1, np.int64)
        failed_by[~is_marked] = unmarked.failed_by
        marked_failed_by = with_them.failed_by.copy()
        marked_failed_by[with_them.passes] = without.failed_by
        failed_by[is_marked] = marked_failed_by
        verdicts = [*unmarked.verdicts, *with_them.verdicts, *without.verdicts]
        verdicts.sort(key=lambda item: item.filter_index)
        return FilterOutcome(rows, failed_by, verdicts)

    def _run_with_nominated(
        self,
        pod: PodInfo,
        cluster: ClusterView,
        outcome: PreFilterOutcome,
        rows: Rows,
        slots: Rows,
    ) -> FilterOutcome:
        """The filters as if the nominated pods in `slots` were on their nodes already."""
        nominations = cluster.nominations
        if not self.is_wide(outcome):
            with WhatIf(cluster, rows, with_pods=False) as what_if:
                what_if.put_on(nominations.class_id[slots], nominations.node_row[slots])
                return self._run_filters(pod, cluster, outcome, rows)
        failed_by = np.full(len(rows), -1, np.int64)
        verdicts: list[FilterVerdicts] = []
        for position in range(len(rows)):
            row = rows[position : position + 1]
            on_row = slots[nominations.node_row[slots] == row[0]]
            with WhatIf(cluster, row, with_pods=True) as what_if:
                what_if.put_on(nominations.class_id[on_row], nominations.node_row[on_row])
                alone = self._run_refreshed(pod, cluster, outcome, row)
            failed_by[position] = alone.failed_by[0]
            verdicts += alone.verdicts
        return FilterOutcome(rows, failed_by, verdicts)

    def is_wide(self, outcome: PreFilterOutcome) -> bool:
        """Whether pods elsewhere count for what some filter says of a row: then one cannot ask about
        changes on many rows at a time, as each question is about one change alone."""
        for index in self.active_filters(outcome):
            plugin = self.filters[index]
            if (
                plugin.filter_depends.scope is not Scope.ROW
                and plugin.filter_depends.reads & MOVING
            ):
                return True
            if self._refreshes[index]:
                return True
        return False

    def _run_refreshed(
        self, pod: PodInfo, cluster: ClusterView, outcome: PreFilterOutcome, rows: Rows
    ) -> FilterOutcome:
        """The filters on pods that are not those PreFilter saw: what counts pods counts again.

        A plugin that PreFilter skipped stays skipped, as upstream.
        """
        each, states = dict(outcome.each), dict(outcome.states)
        for index in self.active_filters(outcome):
            plugin = self._refreshes[index]
            if plugin is None:
                continue
            result = plugin.pre_filter(pod, cluster)
            each[plugin.NAME] = result.status
            states[plugin.NAME] = result.state
            if not result.status.is_success and result.status.code is not Code.SKIP:
                return _all_failed(rows, index, result.status)
        refreshed = outcome._replace(each=each, states=states)
        return self._run_filters(pod, cluster, refreshed, rows)

    def _run_filters(
        self, pod: PodInfo, cluster: ClusterView, outcome: PreFilterOutcome, rows: Rows
    ) -> FilterOutcome:
        failed_by = np.full(len(rows), -1, np.int64)
        verdicts: list[FilterVerdicts] = []
        left = np.arange(len(rows))
        for index in self.active_filters(outcome):
            if not len(left):
                break
            plugin = self.filters[index]
            seen = rows[left]
            verdict = plugin.filter(outcome.states.get(plugin.NAME), pod, cluster, seen)
            passes = verdict.passes
            if passes.all():
                continue
            verdicts.append(FilterVerdicts(index, seen, verdict))
            failed_by[left[~passes]] = index
            left = left[passes]
        return FilterOutcome(rows, failed_by, verdicts)

    def passing(
        self,
        pod: PodInfo,
        cluster: ClusterView,
        outcome: PreFilterOutcome,
        rows: Rows,
        *,
        reading: Reads | None = None,
        excluding: Reads | None = None,
        own_uid: str = "",
    ) -> Bools:
        """Which rows pass, shape (n,), by all filters, or those that do (or do not) read some facts.

        Nominated pods count as in `run_filters`.
        """
        ok = self._passing(pod, cluster, outcome, rows, reading=reading, excluding=excluding)
        if excluding is not None and MOVING in excluding:
            return ok
        slots = _respected(pod, cluster, rows, own_uid)
        if len(slots):
            marked = np.flatnonzero(ok & np.isin(rows, cluster.nominations.node_row[slots]))
            if len(marked):
                slots = _respected(pod, cluster, rows[marked], own_uid)
                there = self._run_with_nominated(pod, cluster, outcome, rows[marked], slots)
                ok[marked] = there.passes
        return ok

    def _passing(
        self,
        pod: PodInfo,
        cluster: ClusterView,
        outcome: PreFilterOutcome,
        rows: Rows,
        *,
        reading: Reads | None,
        excluding: Reads | None,
    ) -> Bools:
        ok = np.ones(len(rows), np.bool_)
        for index in self.active_filters(outcome):
            plugin = self.filters[index]
            reads = plugin.filter_depends.reads
            if reading is not None and not reads & reading:
                continue
            if excluding is not None and reads & excluding:
                continue
            verdict = plugin.filter(outcome.states.get(plugin.NAME), pod, cluster, rows)
            ok &= verdict.codes == 0
        return ok

    # Score ----------------------------------------------------------------

    def run_pre_score(
        self, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> tuple[list[ActiveScore], list[str]]:
        """The score plugins that have a say, and the names of those that PreScore skipped.

        Raises PreScoreError for a pod that a plugin cannot make sense of.
        """
        active: list[ActiveScore] = []
        skipped: list[str] = []
        for i, (plugin, weight) in enumerate(self.scores):
            state = None
            pre_scorer = self._pre_scorers[i]
            if pre_scorer is not None:
                result = pre_scorer.pre_score(pod, cluster, feasible)
                if result.status.code is Code.SKIP:
                    skipped.append(plugin.NAME)
                    continue
                if not result.status.is_success:
                    raise PreScoreError(plugin.NAME, result.status)
                state = result.state
            active.append(ActiveScore(plugin, weight, state, self._normalizers[i]))
        return active, skipped

    def run_scores(
        self, pod: PodInfo, cluster: ClusterView, active: Sequence[ActiveScore], rows: Rows
    ) -> tuple[list[Int64s], list[Int64s], Int64s]:
        """Raw scores, normalised scores (one array of shape (n,) a plugin), and weighted totals."""
        raws: list[Int64s] = []
        normalized: list[Int64s] = []
        total = np.zeros(len(rows), np.int64)
        for plugin, weight, state, normalizer in active:
            raw = plugin.score(state, pod, cluster, rows)
            score = raw
            if normalizer is not None:
                score = normalizer.normalize(raw, normalizer.normalization(state, raw))
            raws.append(raw)
            normalized.append(score)
            total += score * weight
        return raws, normalized, total


def _respected(pod: PodInfo, cluster: ClusterView, rows: Rows, own_uid: str) -> Rows:
    """The nominations to `rows` that a pod must leave room for."""
    if not cluster.nominations or not len(rows):
        return _NONE
    return cluster.nominations.slots_on(rows, pod.priority, own_uid)


def _all_failed(rows: Rows, index: int, status: Status) -> FilterOutcome:
    count = len(rows)
    codes = np.full(count, int(status.code), np.uint8)
    reasons = np.full(count, (1 << len(status.reasons)) - 1, np.int64)
    verdict = FilterVerdicts(index, rows, Verdicts(codes, reasons, status.reasons))
    return FilterOutcome(rows, np.full(count, index, np.int64), [verdict])


_NONE: Final[Rows] = np.zeros(0, np.intp)


def _pre_filter_of_pods(plugin: FilterPlugin) -> PreFilterPlugin | None:
    """The same plugin, if what its PreFilter says depends on which pods are where."""
    if not isinstance(plugin, PreFilterPlugin):
        return None
    depends = plugin.pre_filter_depends
    return plugin if depends is not None and depends.reads & MOVING else None


def _as_pre_scorer(plugin: ScorePlugin) -> PreScorePlugin | None:
    return plugin if isinstance(plugin, PreScorePlugin) else None


def _as_normalizer(plugin: ScorePlugin) -> NormalizeScorePlugin | None:
    return plugin if isinstance(plugin, NormalizeScorePlugin) else None
