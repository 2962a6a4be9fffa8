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
    UNRATED,
    Dependence,
    FailingFilter,
    FilterPlugin,
    NormalizeScorePlugin,
    ObjectReader,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Scope,
    ScorePlugin,
    UpdatableFilter,
    UpdatableScore,
    WhatIfPlugin,
)
from shared.framework.pod_info import PodInfo
from shared.framework.pod_shift import PodShift
from shared.framework.status import SUCCESS, Code, Codes, Status, Verdicts
from shared.framework.what_if import WhatIf
from shared.kernels.rows import rows_where

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
    final: frozenset[str] = frozenset()
    """The plugins that will not change their mind about this pod, whatever happens."""


class FilterGroups(NamedTuple):
    """The filters that PreFilter did not skip, as indices, by what makes them change their mind."""

    fixed: list[int]
    """An edited Node object, or an object of another kind."""
    moving: list[int]
    """A pod that comes to the row, or leaves it."""
    wide: list[int]
    """Pods elsewhere."""


class PreparedScores(NamedTuple):
    """What PreScore said of a pod."""

    active: list["ActiveScore"]
    updatable: list[UpdatableScore | None]
    """The same plugins, where they can bring their state up to date."""
    skipped: list[str]
    """Names of the plugins that have no say."""
    skipped_updatable: list[tuple[UpdatableScore, Any]]
    """Those of them that may come to have one, with their state."""
    stale_by: Reads
    """Changes after which PreScore would have to run again for those that cannot follow."""
    object_kinds: frozenset[str] | None
    """Kinds of objects of which a change makes PreScore run again; None: all."""


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


class PodCountingFilter(NamedTuple):
    """A filter whose PreFilter depends on which pods are where, and what it can do about changes."""

    filter_index: int
    name: str
    pre_filter: PreFilterPlugin
    follower: UpdatableFilter | None
    what_if: WhatIfPlugin | None


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


class _FilterPlan(NamedTuple):
    """What is asked of the filters of pods of which the same plugins have something to say."""

    active: list[int]
    groups: FilterGroups
    stale_by: Reads
    object_kinds: frozenset[str] | None


PLANS_MAX: Final = 1024


class Framework:
    """One profile's plugins. Immutable once made."""

    def __init__(
        self,
        profile_name: str,
        pre_filters: Sequence[PreFilterPlugin],
        filters: Sequence[FilterPlugin],
        scores: Sequence[ScoreEntry],
        post_filters: Sequence[Any] = (),
        percentage_of_nodes_to_score: int | None = None,
    ) -> None:
        self.profile_name = profile_name
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        """See `node_sample.py`."""
        self.pre_filters = tuple(pre_filters)
        self.filters = tuple(filters)
        self.scores = tuple(scores)
        self.post_filters = tuple(post_filters)
        """See `post_filter.py`, which runs them."""
        # Looked up once: asking a Protocol what an object can do takes several microseconds.
        self._pre_scorers = [_as_pre_scorer(entry.plugin) for entry in self.scores]
        self._normalizers = [_as_normalizer(entry.plugin) for entry in self.scores]
        self._pod_counting = [
            counting
            for index, plugin in enumerate(self.filters)
            if (counting := _as_pod_counting(index, plugin)) is not None
        ]
        self._updatable_filters = [
            plugin for plugin in self.pre_filters if isinstance(plugin, UpdatableFilter)
        ]
        self._failing_filters = [f for f in self.filters if isinstance(f, FailingFilter)]
        self._updatable_scores = [_as_updatable_score(entry.plugin) for entry in self.scores]
        self._plans: dict[tuple[tuple[str, ...], frozenset[str], int], _FilterPlan] = {}
        self._dependences: dict[tuple[bool, ...], tuple[Reads, frozenset[str] | None]] = {}

    # PreFilter and Filter ----------------------------------------------------------------

    def run_pre_filters(self, pod: PodInfo, cluster: ClusterView) -> PreFilterOutcome:
        """Runs PreFilter in profile order, up to the first unresolvable rejection or error."""
        each: dict[str, Status] = {}
        each_names: dict[str, frozenset[str]] = {}
        states: dict[str, Any] = {}
        names: frozenset[str] | None = None
        narrowed: list[str] = []
        rejection: Status | None = None
        final: set[str] = set()
        for plugin in self.pre_filters:
            result = plugin.pre_filter(pod, cluster)
            status = result.status
            each[plugin.NAME] = status
            if result.is_final:
                final.add(plugin.NAME)
            if status.code is Code.SKIP:
                states[plugin.NAME] = result.state
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
            rejection or SUCCESS, each, each_names, states, names, tuple(narrowed), frozenset(final)
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
            return rows_where(nodes.present[: nodes.row_count])
        rows = (nodes.row_of(name) for name in sorted(outcome.node_names))
        return np.array([row for row in rows if row >= 0 and nodes.present[row]], np.intp)

    def active_filters(self, outcome: PreFilterOutcome) -> list[int]:
        """Indices of the filters that PreFilter did not skip. Read only."""
        return self._plan(outcome).active

    def filter_groups(self, outcome: PreFilterOutcome) -> FilterGroups:
        """The active filters by what makes them change their mind. Read only."""
        return self._plan(outcome).groups

    def _plan(self, outcome: PreFilterOutcome) -> "_FilterPlan":
        """What follows from which plugins have a say: worked out once for all pods of a kind."""
        skipped = tuple([name for name, status in outcome.each.items() if status.code is Code.SKIP])
        key = (skipped, outcome.final, len(outcome.each))
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            plan = self._plans[key] = self._make_plan(outcome)
        return plan

    def _make_plan(self, outcome: PreFilterOutcome) -> "_FilterPlan":
        active = [
            index
            for index, plugin in enumerate(self.filters)
            if outcome.each.get(plugin.NAME, SUCCESS).code is not Code.SKIP
        ]
        groups = FilterGroups([], [], [])
        for index in active:
            depends = self.filters[index].filter_depends
            if not depends.reads & MOVING:
                groups.fixed.append(index)
            elif depends.scope is Scope.ROW:
                groups.moving.append(index)
            else:
                groups.wide.append(index)
        stale_by = self._stale_by(outcome, active)
        return _FilterPlan(active, groups, stale_by, self._object_kinds(outcome, active))

    def updatable_filters(self, outcome: PreFilterOutcome) -> list[tuple[UpdatableFilter, Any]]:
        """The plugins, skipped ones included, that bring their PreFilter state up to date."""
        return [
            (plugin, outcome.states[plugin.NAME])
            for plugin in self._updatable_filters
            if plugin.NAME in outcome.states and plugin.NAME not in outcome.final
        ]

    def has_failed(self, outcome: PreFilterOutcome) -> bool:
        """Whether a filter came to an error on some node, perhaps one that another filter refused
        before it would have been asked."""
        return any(
            plugin.NAME in outcome.states and plugin.has_failed(outcome.states[plugin.NAME])
            for plugin in self._failing_filters
        )

    def filters_stale_by(self, outcome: PreFilterOutcome) -> Reads:
        """Changes after which PreFilter, or a wide filter, would have to start anew for the plugins
        that cannot follow."""
        return self._plan(outcome).stale_by

    def filters_object_kinds(self, outcome: PreFilterOutcome) -> frozenset[str] | None:
        """Kinds of objects of which a change may make a filter, or PreFilter, say something else;
        None: all."""
        return self._plan(outcome).object_kinds

    def _stale_by(self, outcome: PreFilterOutcome, active: Sequence[int]) -> Reads:
        reads = Reads(0)
        follows = {plugin.NAME for plugin in self._updatable_filters}
        for plugin in self.pre_filters:
            depends = plugin.pre_filter_depends
            if depends is None or plugin.NAME in outcome.final or plugin.NAME not in outcome.each:
                continue
            if plugin.NAME not in follows:
                reads |= depends.reads
        for index in active:
            filter_plugin = self.filters[index]
            if filter_plugin.filter_depends.scope is Scope.ROW:
                continue
            if filter_plugin.NAME not in follows:
                reads |= filter_plugin.filter_depends.reads
        return reads

    def _object_kinds(
        self, outcome: PreFilterOutcome, active: Sequence[int]
    ) -> frozenset[str] | None:
        readers: list[PreFilterPlugin | FilterPlugin] = [
            plugin
            for plugin in self.pre_filters
            if plugin.NAME not in outcome.final and _reads_objects(plugin.pre_filter_depends)
        ]
        filters = (self.filters[index] for index in active)
        readers += [plugin for plugin in filters if _reads_objects(plugin.filter_depends)]
        return _kinds_read(readers)

    def run_filters(
        self,
        pod: PodInfo,
        cluster: ClusterView,
        outcome: PreFilterOutcome,
        rows: Rows,
        own_uid: str = "",
        shift: PodShift | None = None,
    ) -> FilterOutcome:
        """Runs the filters in order; each sees only the rows that all before it let pass.

        `shift`: the pods in the view are not those that PreFilter saw.

        Rows with nominated pods that the pod has to respect (`own_uid` is none of them) must pass
        with these added, and without: they may be there in time or not
        (RunFilterPluginsWithNominatedPods upstream).
        """
        shifted = outcome if shift is None else shift.outcome()
        slots = _respected(pod, cluster, rows, own_uid)
        if not len(slots):
            return self._run_filters(pod, cluster, shifted, rows)
        is_marked = np.isin(rows, cluster.nominations.node_row[slots])
        unmarked = self._run_filters(pod, cluster, shifted, rows[~is_marked])
        with_them = self._run_with_nominated(pod, cluster, outcome, rows[is_marked], slots, shift)
        if shift is not None:
            shifted = shift.outcome()
        without = self._run_filters(pod, cluster, shifted, with_them.rows[with_them.passes])
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
        shift: PodShift | None = None,
    ) -> FilterOutcome:
        """The filters as if the nominated pods in `slots` were on their nodes already."""
        nominations = cluster.nominations
        if not self.is_wide(outcome):
            with WhatIf(cluster, rows, with_pods=self.reads_pods(outcome)) as what_if:
                what_if.put_on(nominations.class_id[slots], nominations.node_row[slots])
                return self._run_filters(pod, cluster, outcome, rows)
        shift = shift or PodShift(self, pod, cluster, outcome)
        failed_by = np.full(len(rows), -1, np.int64)
        verdicts: list[FilterVerdicts] = []
        for position in range(len(rows)):
            row = rows[position : position + 1]
            on_row = slots[nominations.node_row[slots] == row[0]]
            with WhatIf(cluster, row, with_pods=True, on_change=shift.move) as what_if:
                what_if.put_on(nominations.class_id[on_row], nominations.node_row[on_row])
                alone = self._run_filters(pod, cluster, shift.outcome(), row)
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
        return bool(self.pod_counting(outcome))

    def reads_pods(self, outcome: PreFilterOutcome) -> bool:
        """Whether some filter looks at the pods themselves, and not only at what they take."""
        return any(
            self.filters[index].filter_depends.reads & Reads.PODS
            for index in self.active_filters(outcome)
        )

    def pod_counting(self, outcome: PreFilterOutcome) -> list[PodCountingFilter]:
        """The active filters whose PreFilter looked at pods."""
        active = set(self.active_filters(outcome))
        return [
            plugin
            for plugin in self._pod_counting
            if plugin.filter_index in active and plugin.name not in outcome.final
        ]

    def _run_filters(
        self, pod: PodInfo, cluster: ClusterView, outcome: PreFilterOutcome, rows: Rows
    ) -> FilterOutcome:
        if not outcome.status.is_success:
            return _all_failed(rows, self._index_of(outcome.status.plugin), outcome.status)
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

    def _index_of(self, plugin_name: str) -> int:
        """Of a plugin whose PreFilter rejected the pod; 0 for one without a Filter: whoever asks
        about rows then asks whether they pass, not who rejected them."""
        names = [plugin.NAME for plugin in self.filters]
        return names.index(plugin_name) if plugin_name in names else 0

    def passing(
        self,
        pod: PodInfo,
        cluster: ClusterView,
        outcome: PreFilterOutcome,
        rows: Rows,
        own_uid: str = "",
    ) -> Bools:
        """Which rows pass all filters, shape (n,). Nominated pods count as in `run_filters`."""
        ok = self.passing_of(self.active_filters(outcome), pod, cluster, outcome, rows)
        return self.passing_with_nominated(pod, cluster, outcome, rows, ok, own_uid)

    def passing_of(
        self,
        indices: Sequence[int],
        pod: PodInfo,
        cluster: ClusterView,
        outcome: PreFilterOutcome,
        rows: Rows,
    ) -> Bools:
        """Which rows pass these filters, shape (n,), without regard to nominated pods."""
        ok = np.ones(len(rows), np.bool_)
        if not len(rows):
            return ok
        for index in indices:
            plugin = self.filters[index]
            verdict = plugin.filter(outcome.states.get(plugin.NAME), pod, cluster, rows)
            ok &= verdict.codes == 0
        return ok

    def passing_with_nominated(
        self,
        pod: PodInfo,
        cluster: ClusterView,
        outcome: PreFilterOutcome,
        rows: Rows,
        ok: Bools,
        own_uid: str = "",
    ) -> Bools:
        """`ok`, the rows that pass as they are, less those that would not with the nominated pods
        that the pod must leave room for. Takes `ok` over."""
        slots = _respected(pod, cluster, rows, own_uid)
        if len(slots):
            marked = np.flatnonzero(ok & np.isin(rows, cluster.nominations.node_row[slots]))
            if len(marked):
                slots = _respected(pod, cluster, rows[marked], own_uid)
                there = self._run_with_nominated(pod, cluster, outcome, rows[marked], slots)
                ok[marked] = there.passes
        return ok

    # Score ----------------------------------------------------------------

    def run_pre_score(
        self, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> tuple[list[ActiveScore], list[str]]:
        """The score plugins that have a say, and the names of those that PreScore skipped.

        Raises PreScoreError for a pod that a plugin cannot make sense of.
        """
        prepared = self.prepare_scores(pod, cluster, feasible)
        return prepared.active, prepared.skipped

    def prepare_scores(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreparedScores:
        """Runs PreScore. Raises PreScoreError for a pod that a plugin cannot make sense of."""
        prepared = PreparedScores([], [], [], [], Reads(0), None)
        finals: list[bool] = []
        for i, (plugin, weight) in enumerate(self.scores):
            state = None
            updatable = self._updatable_scores[i]
            pre_scorer = self._pre_scorers[i]
            if pre_scorer is not None:
                result = pre_scorer.pre_score(pod, cluster, feasible)
                state = result.state
                finals.append(result.is_final)
                if result.status.code is Code.SKIP:
                    prepared.skipped.append(plugin.NAME)
                    if updatable is not None and not result.is_final:
                        prepared.skipped_updatable.append((updatable, state))
                    continue
                if not result.status.is_success:
                    raise PreScoreError(plugin.NAME, result.status)
            else:
                finals.append(False)
            prepared.active.append(ActiveScore(plugin, weight, state, self._normalizers[i]))
            prepared.updatable.append(updatable)
        stale_by, object_kinds = self._scores_depend(tuple(finals))
        return prepared._replace(stale_by=stale_by, object_kinds=object_kinds)

    def _scores_depend(self, finals: tuple[bool, ...]) -> tuple[Reads, frozenset[str] | None]:
        """`stale_by` and `object_kinds` of prepared scores, by whether each PreScore was final."""
        found = self._dependences.get(finals)
        if found is not None:
            return found
        stale_by = Reads(0)
        readers: list[ScorePlugin] = []
        for i, is_final in enumerate(finals):
            plugin, pre_scorer = self.scores[i].plugin, self._pre_scorers[i]
            depends = None if pre_scorer is None else pre_scorer.pre_score_depends
            if self._updatable_scores[i] is None:
                stale_by |= _wide_reads(plugin.score_depends)
                if depends is not None and not is_final:
                    stale_by |= depends.reads
            is_reader = _reads_objects(plugin.score_depends) or _reads_objects(depends)
            if is_reader and not is_final:
                readers.append(plugin)
        found = self._dependences[finals] = stale_by, _kinds_read(readers)
        return found

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
            raws.append(np.where(raw == UNRATED, 0, raw))
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


def _as_pod_counting(index: int, plugin: FilterPlugin) -> PodCountingFilter | None:
    """The same plugin, if what its PreFilter says depends on which pods are where."""
    if not isinstance(plugin, PreFilterPlugin):
        return None
    depends = plugin.pre_filter_depends
    if depends is None or not depends.reads & MOVING:
        return None
    return PodCountingFilter(
        index,
        plugin.NAME,
        plugin,
        plugin if isinstance(plugin, UpdatableFilter) else None,
        plugin if isinstance(plugin, WhatIfPlugin) else None,
    )


def _as_pre_scorer(plugin: ScorePlugin) -> PreScorePlugin | None:
    return plugin if isinstance(plugin, PreScorePlugin) else None


def _as_normalizer(plugin: ScorePlugin) -> NormalizeScorePlugin | None:
    return plugin if isinstance(plugin, NormalizeScorePlugin) else None


def _as_updatable_score(plugin: ScorePlugin) -> UpdatableScore | None:
    return plugin if isinstance(plugin, UpdatableScore) else None


def _wide_reads(depends: Dependence) -> Reads:
    return Reads(0) if depends.scope is Scope.ROW else depends.reads


def _reads_objects(depends: Dependence | None) -> bool:
    return depends is not None and bool(depends.reads & Reads.OBJECTS)


def _kinds_read(plugins: Sequence[object]) -> frozenset[str] | None:
    kinds: frozenset[str] = frozenset()
    for plugin in plugins:
        if not isinstance(plugin, ObjectReader):
            return None
        kinds |= plugin.object_kinds
    return kinds
