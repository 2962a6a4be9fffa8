"""Framework: the plugins of one profile, in order, and how each extension point is run.

Every run here is complete and remembers nothing; `shared/engine` keeps results from one pod to the next
and calls the same functions on fewer rows. Whether a node takes a pod is more than the filters say:
`prepared_pod.py` asks them. Rules: pkg/scheduler/framework/runtime/framework.go and
pkg/scheduler/schedule_one.go, v1.36.2.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from shared.columns.rows import rows_where
from shared.columns.schema import Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.normalize import SCORE_MAX
from shared.framework.plugin_api import (
    UNRATED,
    FilterPlugin,
    FilterWithoutPods,
    PlacementScorePlugin,
    PreFilterPlugin,
    PreScoreResult,
    Reads,
    ScorePlugin,
    UpdatableFilter,
    UpdatableScore,
)
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.plans import (
    FilterPlan,
    PreFilterOutcome,
    PreparedScores,
    PreScoreError,
    ScoringPlugin,
    as_scoring_plugin,
    filter_plan,
    score_plan,
)
from shared.framework.status import SUCCESS, Code, Status, unresolvable
from shared.kube.term_counts import TermCounts
from shared.plugin_names import (
    IMAGE_LOCALITY,
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    NODE_PORTS,
    POD_TOPOLOGY_SPREAD,
    TAINT_TOLERATION,
)

PLANS_MAX: Final = 1024
"""So many plans are kept; more are made anew."""
_NO_PRE_SCORE: Final = PreScoreResult()
"""As of a plugin without one."""


ADAPTIVE: Final = 0
"""The percentage that falls as the cluster grows."""
ALL: Final = 100


class Sampling(NamedTuple):
    """How a profile chooses the nodes that it scores."""

    percentage: int
    is_compatible: bool = False
    """As kube-scheduler in all cases, 0 and not set included, so that its placements can be compared pod
    by pod; ties then go to whom its heap has first."""


def sampling_of(percentage: int | None, *, is_compatible: bool = False) -> Sampling | None:
    """None: all nodes are scored. 0 and what is not set mean that here, unless `is_compatible`."""
    if is_compatible:
        return Sampling(percentage or ADAPTIVE, is_compatible=True)
    return Sampling(percentage) if percentage is not None and 0 < percentage < ALL else None


class Framework:
    """One profile's plugins. Immutable once made."""

    def __init__(
        self,
        pre_filters: Sequence[PreFilterPlugin],
        filters: Sequence[FilterPlugin],
        scores: Sequence[tuple[ScorePlugin, int]],
        post_filters: Sequence[Any] = (),
        placement_scores: Sequence[tuple[PlacementScorePlugin, int]] = (),
        sampling: Sampling | None = None,
    ) -> None:
        self.sampling = sampling
        """None: all nodes are scored."""
        self.pre_filters = tuple(pre_filters)
        self.filters = tuple(filters)
        self.scores = [as_scoring_plugin(plugin, weight) for plugin, weight in scores]
        self.placement_scores = tuple(placement_scores)
        """With their weights. See `workers/scorer/group_cycle.py`, which runs them."""
        self.post_filters = tuple(post_filters)
        # Looked up once, as what scores can do: to ask a Protocol takes several microseconds.
        self._updatable_filters = [
            plugin for plugin in self.pre_filters if isinstance(plugin, UpdatableFilter)
        ]
        self.may_fail = [f.NAME for f in self.filters if getattr(f, "may_fail", False)]
        self.filters_without_pods = {
            i: plugin
            for i, plugin in enumerate(self.filters)
            if isinstance(plugin, FilterWithoutPods)
        }
        self._filter_plans: dict[tuple[tuple[str, ...], frozenset[str], int], FilterPlan] = {}
        self._score_plans: dict[tuple[bool, ...], tuple[Reads, frozenset[str] | None]] = {}

    @property
    def fails_by_class(self) -> bool:
        """What PostFilter finds for a pod that fits nowhere it finds for all pods of the class."""
        return all(getattr(plugin, "answers_for_class", False) for plugin in self.post_filters)

    def only(self, belongs: Callable[[object], bool]) -> "Framework":
        """With these of its plugins, to filter and score all nodes."""
        return Framework(
            [plugin for plugin in self.pre_filters if belongs(plugin)],
            [plugin for plugin in self.filters if belongs(plugin)],
            [(entry.plugin, entry.weight) for entry in self.scores if belongs(entry.plugin)],
        )

    def run_pre_filters(self, pod: PodInfo, cluster: ClusterView) -> PreFilterOutcome:
        """Runs PreFilter in profile order, up to the first unresolvable rejection or error."""
        refusal = is_too_much(pod, cluster)
        if refusal is not None:
            return PreFilterOutcome(refusal, {refusal.plugin: refusal})
        each: dict[str, Status] = {}
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
            if status.code is Code.UNSCHEDULABLE:
                rejection = status._replace(plugin=plugin.NAME)
                continue
            if not status.is_success:
                is_final = status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
                code = status.code if is_final else Code.ERROR
                rejection = status._replace(plugin=plugin.NAME, code=code)
                break
            states[plugin.NAME] = result.state
            if result.node_names is not None:
                narrowed.append(plugin.NAME)
                names = result.node_names if names is None else names & result.node_names
                if not names:
                    rejection = _no_common_node(narrowed)
                    break
        return PreFilterOutcome(
            rejection or SUCCESS, each, states, names, tuple(narrowed), frozenset(final)
        )

    def plan(self, outcome: PreFilterOutcome) -> FilterPlan:
        """Whom to ask about the rows, and when again. Read only."""
        skipped = tuple([name for name, status in outcome.each.items() if status.code is Code.SKIP])
        key = (skipped, outcome.final, len(outcome.each))
        plan = self._filter_plans.get(key)
        if plan is None:
            if len(self._filter_plans) >= PLANS_MAX:
                self._filter_plans.clear()
            plan = filter_plan(self.pre_filters, self.filters, outcome)
            self._filter_plans[key] = plan
        return plan

    def candidate_rows(self, outcome: PreFilterOutcome, cluster: ClusterView) -> Rows:
        """The rows that Filter has to look at."""
        nodes = cluster.nodes
        if outcome.node_names is None:
            if cluster.placement is not None:
                return cluster.placement
            return rows_where(nodes.present[: nodes.row_count])
        named = (nodes.row_of(name) for name in sorted(outcome.node_names))
        rows = np.array([row for row in named if row >= 0 and nodes.present[row]], np.intp)
        return rows if cluster.placement is None else rows[np.isin(rows, cluster.placement)]

    def updatable_filters(self, outcome: PreFilterOutcome) -> list[tuple[UpdatableFilter, Any]]:
        """The plugins, skipped ones included, that bring their PreFilter state up to date."""
        return [
            (plugin, outcome.states[plugin.NAME])
            for plugin in self._updatable_filters
            if plugin.NAME in outcome.states and plugin.NAME not in outcome.final
        ]

    def prepare_scores(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreparedScores:
        """Runs PreScore. Raises PreScoreError for a pod that a plugin cannot make sense of."""
        active: list[ScoringPlugin] = []
        skipped: list[tuple[UpdatableScore, Any]] = []
        are_final: list[bool] = []
        for scorer in self.scores:
            result = _NO_PRE_SCORE
            if scorer.pre_scorer is not None:
                result = scorer.pre_scorer.pre_score(pod, cluster, feasible)
            are_final.append(result.is_final)
            if result.status.code is Code.SKIP:
                if scorer.follower is not None and not result.is_final:
                    skipped.append((scorer.follower, result.state))
            elif not result.status.is_success:
                raise PreScoreError(scorer.plugin.NAME, result.status)
            elif scorer.weight:
                active.append(scorer._replace(state=result.state))
        key = tuple(are_final)
        if key not in self._score_plans:
            self._score_plans[key] = score_plan(self.scores, key)
        return PreparedScores(active, skipped, *self._score_plans[key])

    def run_scores(
        self, pod: PodInfo, cluster: ClusterView, active: Sequence[ScoringPlugin], rows: Rows
    ) -> tuple[list[Int64s], list[Int64s], Int64s]:
        """Raw scores, normalised scores (one array of shape (n,) a plugin), and weighted totals."""
        raws: list[Int64s] = []
        normalized: list[Int64s] = []
        total = np.zeros(len(rows), np.int64)
        for plugin, weight, state, normalizer, *_ in active:
            raw = plugin.score(state, pod, cluster, rows)
            score = raw
            if normalizer is not None:
                score = normalizer.normalize(raw, normalizer.normalization(state, raw))
            raws.append(np.where(raw == UNRATED, 0, raw))
            normalized.append(score)
            total += score * weight
        return raws, normalized, total


def _no_common_node(narrowed: Sequence[str]) -> Status:
    if len(narrowed) == 1:
        text = f"node(s) didn't satisfy plugin {narrowed[0]}"
    else:
        names = " ".join(sorted(narrowed))
        text = f"node(s) didn't satisfy plugin(s) [{names}] simultaneously"
    return unresolvable(text)


FEW_TERMS: Final = 32
"""A pod with no more is not weighed: only 1,000,000 nodes make 32 terms more than a second."""
WEIGHT_MAX_NS: Final = 1_000_000_000
WEIGHT_MAX_PER_NODE_NS: Final = 4_000
"""Beside it: 100 spread constraints. 1 s at 5,000 nodes, 5 s at 1,000,000, of the 20 s after which a
scorer is taken for one that hangs."""
# Measured at 5,000 nodes with 1,000 classes of pods, 14,000 terms of each kind.
_TERM_NS: Final = 10_000
"""Of any term: arrays are made, whatever their length."""
_NODE_NS: Final = 1
"""A requirement of node affinity, for each node."""
_DOMAIN_NS: Final = 40
"""Spread or pod affinity, for each node: which domain it is in, how many pods that has."""
_CLASS_NS: Final = 500
"""A selector of pods, for each class."""
_REQUIREMENT_NS: Final = 150
"""Of a selector of pods or one of its values, for each class."""
_VALUE_NS: Final = 200
"""A value of a requirement of node affinity: it is looked up."""
_SET_NS: Final = 100
"""A toleration, port or image, for each distinct set of these that nodes have."""


def is_too_much(pod: PodInfo, cluster: ClusterView) -> Status | None:
    """The error with which the attempt ends; None for a pod of bearable size.

    A pod may have as many terms as fit into 1.5 MB, each held against all nodes or all classes of pods:
    one pod could keep a scorer busy for minutes. The work is estimated from counts alone before any is
    done, so it costs nothing and is the same whenever it is asked. What devices cost cannot be foreseen;
    there the work is counted while it is done (`shared/dra/search_work.py`)."""
    counts = pod.term_counts
    if sum(counts) <= FEW_TERMS:
        return None
    node_count = cluster.nodes.row_count
    weights = _weights(counts, cluster)
    weight_max = WEIGHT_MAX_NS + WEIGHT_MAX_PER_NODE_NS * node_count
    if sum(weights.values()) <= weight_max:
        return None
    plugin = max(weights, key=lambda name: weights[name])
    text = (
        f"the pod's terms are too much work: about {sum(weights.values()) / 1e9:.1f} s for "
        f"{sum(counts)} terms, values and the like at {node_count} nodes; "
        f"{weight_max / 1e9:.1f} s is the limit"
    )
    return Status(Code.ERROR, (text,), plugin)


def _weights(counts: TermCounts, cluster: ClusterView) -> dict[str, int]:
    """By plugin, in ns."""
    nodes, class_count = cluster.nodes, len(cluster.classes)
    of_nodes = _TERM_NS + _NODE_NS * nodes.row_count
    of_domains = _TERM_NS + _DOMAIN_NS * nodes.row_count + _CLASS_NS * class_count
    of_selectors = counts.pod_requirements * _REQUIREMENT_NS * class_count
    return {
        NODE_AFFINITY: counts.node_requirements * of_nodes + counts.node_values * _VALUE_NS,
        INTER_POD_AFFINITY: counts.pod_terms * of_domains + of_selectors,
        POD_TOPOLOGY_SPREAD: counts.spread_constraints * of_domains,
        TAINT_TOLERATION: counts.tolerations * _SET_NS * len(nodes.taints.values),
        NODE_PORTS: counts.host_ports * _SET_NS * len(nodes.ports.values),
        IMAGE_LOCALITY: counts.images * _SET_NS * len(nodes.images.values),
    }


INVALID: Final = 1 << 56
"""In place of a score times its weight, of a score beyond 0 to 100. Totals stay below 2^44 (20 plugins,
weights of 31 bits), and a hundred of these within 64 bits.

If some plugin gives a node that takes the pod such a score, the attempt fails, whichever node would have
been the best. To ask that of every node for every pod would cost more than placing it. This number no
total reaches otherwise: it comes to the top by itself, and who takes the best total looks at that alone.
Plugins that cannot leave the range (`scores_within_range`) are not looked at."""


def weighted(plugin: ScorePlugin, scores: Int64s, weight: int) -> Int64s:
    """Scores, normalised, times the weight; INVALID where they are out of range. May be `scores`."""
    found = scores if weight == 1 else scores * weight
    if getattr(plugin, "scores_within_range", False) or _are_within_range(scores):
        return found
    return np.where((scores < 0) | (scores > SCORE_MAX), INVALID, found)


def _are_within_range(scores: Int64s) -> bool:
    if len(scores) == 1:
        return 0 <= scores.item(0) <= SCORE_MAX
    return bool(scores.min(initial=0) >= 0 and scores.max(initial=0) <= SCORE_MAX)


def out_of_range(active: Sequence[ScoringPlugin], scores: Sequence[Int64s]) -> str:
    """Upstream's words for the first score, of each plugin for the nodes that take the pod, that is
    out of range; empty where there is none."""
    for entry, of_plugin in zip(active, scores, strict=True):
        wrong = of_plugin[(of_plugin < 0) | (of_plugin > SCORE_MAX)]
        if len(wrong):
            return (
                f'applying score defaultWeights on Score plugins: plugin "{entry.plugin.NAME}" '
                f"returns an invalid score {wrong.item(0)}, it should in the range of "
                f"[0, {SCORE_MAX}] after normalizing"
            )
    return ""
