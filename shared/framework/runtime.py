"""Framework: the plugins of one profile, in order, and how each extension point is run.

Every run here is complete and remembers nothing; `engine.py` keeps results from one pod to the next
and calls the same functions on fewer rows. Rules: pkg/scheduler/framework/runtime/framework.go and
pkg/scheduler/schedule_one.go, v1.36.2.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

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
    ScorePlugin,
)
from shared.framework.pod_info import PodInfo
from shared.framework.status import SUCCESS, Code, Status, Verdicts


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


class FilterOutcome(NamedTuple):
    """What Filter said of `rows`; arrays of shape (n,)."""

    rows: Rows
    failed_by: Int64s
    """Index into the framework's filters of the first one that failed; -1 where all passed."""
    verdicts: dict[int, tuple[Rows, Verdicts]]
    """Filter index -> the rows that it saw and what it said of them."""


class Framework:
    """One profile's plugins. Immutable once made."""

    def __init__(
        self,
        profile_name: str,
        pre_filters: Sequence[PreFilterPlugin],
        filters: Sequence[FilterPlugin],
        scores: Sequence[ScoreEntry],
    ) -> None:
        self.profile_name = profile_name
        self.pre_filters = tuple(pre_filters)
        self.filters = tuple(filters)
        self.scores = tuple(scores)
        self.has_dependent_pre_filter = any(
            plugin.pre_filter_depends is not None for plugin in self.pre_filters
        )
        """PreFilter says something else when the cluster changes."""
        # Looked up once: asking a Protocol what an object can do takes several microseconds.
        self._pre_scorers = [_as_pre_scorer(entry.plugin) for entry in self.scores]
        self._normalizers = [_as_normalizer(entry.plugin) for entry in self.scores]

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
        self, pod: PodInfo, cluster: ClusterView, outcome: PreFilterOutcome, rows: Rows
    ) -> FilterOutcome:
        """Runs the filters in order; each sees only the rows that all before it let pass."""
        failed_by = np.full(len(rows), -1, np.int64)
        verdicts: dict[int, tuple[Rows, Verdicts]] = {}
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
            verdicts[index] = (seen, verdict)
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
    ) -> Bools:
        """Which rows pass, shape (n,), by all filters, or those that do (or do not) read some facts."""
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


def _as_pre_scorer(plugin: ScorePlugin) -> PreScorePlugin | None:
    return plugin if isinstance(plugin, PreScorePlugin) else None


def _as_normalizer(plugin: ScorePlugin) -> NormalizeScorePlugin | None:
    return plugin if isinstance(plugin, NormalizeScorePlugin) else None
