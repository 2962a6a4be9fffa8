"""PodTopologySpread: pods that are alike are spread over the values of a node label.

Counts are kept by constraint and domain (`spread_counts.py`) and follow what comes and goes.

Rules: pkg/scheduler/framework/plugins/podtopologyspread/{plugin,common,filtering,scoring}.go,
v1.36.2.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar, Final, Generic, TypeVar

import numpy as np

from shared.columns.answer_table import ClassValues
from shared.columns.rows import row_index
from shared.columns.schema import NO_ROWS, Bools, Int64s, Rows
from shared.columns.topology import NO_DOMAIN, pods_of_classes
from shared.feature_gates import MATCH_LABEL_KEYS_IN_POD_TOPOLOGY_SPREAD
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import (
    NEVER_FILTERS,
    NEVER_SCORES,
    SKIP_FILTER,
    SKIP_SCORE,
    UNRATED,
    Crowding,
    Delta,
    Dependence,
    GonePods,
    PreFilterResult,
    PreScoreResult,
    Reads,
    Scope,
)
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import Change, ClusterEventWithHint, PodView
from shared.framework.status import Code, Status, Verdicts
from shared.kube.api.core_v1 import Node, TopologySpreadConstraint
from shared.kube.resources import CONTROLLER_KINDS
from shared.plugin_names import POD_TOPOLOGY_SPREAD
from shared.plugins.spread.spread_constraints import (
    HARD,
    HOST_NAME,
    SERVICES,
    SOFT,
    SYSTEM_DEFAULTS,
    PodTopologySpreadArgs,
    SpreadConstraints,
    default_selector,
    own_constraints,
    parsed,
)
from shared.plugins.spread.spread_counts import (
    HardCounts,
    SoftDomains,
    SoftNodes,
    by_range,
    rounded,
)
from shared.plugins.spread.spread_inclusion import Inclusion
from shared.selectors.label_selector import SelectorError
from shared.selectors.pod_terms import labels_of

REASON_SKEW: Final = "node(s) didn't match pod topology spread constraints"
REASON_LABEL: Final = REASON_SKEW + " (missing required label)"
TEXTS: Final = (REASON_SKEW, REASON_LABEL)
SKEW_BIT, LABEL_BIT = 1, 2
_CODE_OF_BIT: Final = np.array(
    [Code.SUCCESS, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE], np.uint8
)
"""Preemption may help against skew, and not where the label is missing."""

Counts = TypeVar("Counts", bound=HardCounts | SoftDomains | SoftNodes)


class SpreadState(Generic[Counts]):
    """Of PreFilter, or of PreScore; follows the cluster."""

    def __init__(
        self,
        constraints: SpreadConstraints,
        pod: PodInfo,
        cluster: ClusterView,
        inclusion: Inclusion,
        counts_of: Callable[[int, Rows], Counts],
    ) -> None:
        """`counts_of` a constraint, of which the node of each pod is given that it matches."""
        self.inclusion = inclusion
        self._namespace = pod.namespace
        # An empty selector matches the pod itself and no other, as upstream's counting does.
        selectors = [None if c.selector.is_empty else c.selector for c in constraints]
        self._of_all = sum(1 << i for i, selector in enumerate(selectors) if selector is None)
        """Bit i: the selector of constraint i is empty. It counts no pod that is there, but each of the
        pod's namespace that is only thought to come or go."""

        def matching(other: PodInfo) -> int:
            if other.namespace != pod.namespace:
                return 0
            return sum(
                1 << i
                for i, selector in enumerate(selectors)
                if selector is not None and selector.matches(other.labels)
            )

        self.matches = ClassValues(matching, 0)
        """Class -> bit i: pods of it count for constraint i."""
        self._selectors = dict.fromkeys(filter(None, selectors))
        found = self.matches.learn(dict(self.classes_concerned(cluster)).items())
        self.counts: list[Counts] = []
        for i in range(len(constraints)):
            ids = [class_id for class_id, bits in found.items() if bits >> i & 1]
            _, node_rows = pods_of_classes(cluster.pod_tables, ids, with_terminating=False)
            self.counts.append(counts_of(i, node_rows.astype(np.intp)))

    def classes_concerned(self, cluster: ClusterView) -> Iterator[tuple[int, PodInfo]]:
        """Those that some selector may select, some of them several times."""
        for selector in self._selectors:
            yield from cluster.class_index.selected((self._namespace,), selector)

    def add_pods(self, cluster: ClusterView, delta: Delta) -> bool:
        """Counts what came and went; says whether any of it matters."""
        is_changed = False
        of_all = self._of_all if delta.is_what_if else 0
        for class_id, node_row, is_terminating, count in delta.pods:
            bits = self.matches.of(class_id, cluster.classes)
            if of_all and cluster.classes[class_id].namespace == self._namespace:
                bits |= of_all
            if bits and not is_terminating:
                is_changed = True
                for i, counts in enumerate(self.counts):
                    if bits >> i & 1:
                        counts.add(node_row, count)
        return is_changed


HardState = SpreadState[HardCounts]
SoftState = SpreadState[SoftDomains | SoftNodes]


class PodTopologySpread:
    """A pod without constraints of its own has those of the profile, or the system's."""

    NAME: ClassVar[str] = POD_TOPOLOGY_SPREAD
    reads_labels: ClassVar[frozenset[str]] = frozenset()
    ignores_requests: ClassVar[bool] = True
    object_kinds: ClassVar[frozenset[str]] = frozenset({SERVICES, *CONTROLLER_KINDS.values()})
    pre_filter_depends: ClassVar[Dependence | None] = Dependence(
        Reads.NODE | Reads.PODS | Reads.OBJECTS, Scope.CLUSTER
    )
    filter_depends: ClassVar[Dependence] = Dependence(Reads.NODE | Reads.PODS, Scope.CLUSTER)
    # Which nodes are feasible counts as well, and so whatever filters read.
    pre_score_depends: ClassVar[Dependence | None] = Dependence(
        Reads.NODE | Reads.USAGE | Reads.PODS | Reads.OBJECTS, Scope.CLUSTER
    )
    score_depends: ClassVar[Dependence] = Dependence(
        Reads.NODE | Reads.USAGE | Reads.PODS, Scope.CLUSTER
    )
    scores_within_range: ClassVar[bool] = True

    def __init__(self, args: PodTopologySpreadArgs) -> None:
        self._is_system_defaulted = args.is_system_defaulting
        self._defaults: Sequence[TopologySpreadConstraint] = (
            SYSTEM_DEFAULTS if args.is_system_defaulting else args.default_constraints
        )

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        try:
            constraints = self._constraints(pod, cluster, HARD)
        except SelectorError as error:
            return PreFilterResult(
                _unreadable("get constraints from pod", "hard", error), is_final=True
            )
        if constraints:
            return PreFilterResult(state=self._hard_state(constraints, pod, cluster))
        return SKIP_FILTER if self._asks_objects(pod, HARD) else NEVER_FILTERS

    def filter(self, state: HardState, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        index = row_index(rows)
        are_full = [counts.is_full[counts.topology.domain_of_row[index]] for counts in state.counts]
        return _verdicts(state, rows, are_full)

    def filter_without_pods(
        self, state: HardState, pod: PodInfo, cluster: ClusterView, rows: Rows, gone: GonePods
    ) -> Verdicts:
        are_full = []
        bits = {
            each: state.matches.of(each, cluster.classes) for each in set(gone.class_ids.tolist())
        }
        for i, counts in enumerate(state.counts):
            worth = {class_id: bits_of >> i & 1 for class_id, bits_of in bits.items()}
            matching = gone.sums(cluster.nodes.capacity, worth)
            are_full.append(counts.is_full_without(rows, matching[rows]))
        return _verdicts(state, rows, are_full)

    def update_filter(
        self, state: HardState | None, pod: PodInfo, cluster: ClusterView, delta: Delta
    ) -> Rows | None:
        if state is None:
            return NO_ROWS
        if len(delta.node_rows) and not state.inclusion.is_current(cluster, delta.node_rows):
            return None
        if not state.add_pods(cluster, delta):
            return NO_ROWS
        if state.matches.is_overgrown:
            return None
        flipped = [
            counts.topology.rows_of_all(domains)
            for counts in state.counts
            if (domains := counts.settle())
        ]
        return np.concatenate(flipped) if flipped else NO_ROWS

    def crowded_domains(
        self, state: HardState, class_id: int, cluster: ClusterView
    ) -> Sequence[Crowding]:
        """A pod that raises the lowest count makes no domain fuller."""
        bits = state.matches.of(class_id, cluster.classes)
        return [
            Crowding(counts.topology.domain_of_row, counts.room_in)
            for i, counts in enumerate(state.counts)
            if bits & 1 << i
        ]

    def _hard_state(
        self, constraints: SpreadConstraints, pod: PodInfo, cluster: ClusterView
    ) -> HardState:
        inclusion = Inclusion(constraints, cluster, pod, requires_all_keys=True)

        def counts_of(i: int, node_rows: Rows) -> HardCounts:
            constraint, topology = constraints[i], inclusion.topologies[i]
            self_match = constraint.selector.matches(pod.labels)
            eligible = inclusion.eligible[i]
            return HardCounts(constraint, topology, eligible, node_rows, self_match=self_match)

        return SpreadState(constraints, pod, cluster, inclusion, counts_of)

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:
        try:
            constraints = self._constraints(pod, cluster, SOFT)
        except SelectorError as error:
            return PreScoreResult(_unreadable("calculating preScoreState", "soft", error))
        if constraints:
            return PreScoreResult(state=self._soft_state(constraints, pod, cluster, feasible))
        return SKIP_SCORE if self._asks_objects(pod, SOFT) else NEVER_SCORES

    def score(self, state: SoftState, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:
        index = row_index(rows)
        first, *others = state.counts
        if others:
            total = first.parts(index)
            for counts in others:
                total += counts.parts(index)
            scores = rounded(total)
        else:
            scores = first.scores(index)
        if state.inclusion.leaves_out_nodes:
            scores[~state.inclusion.has_all_keys[index]] = UNRATED
        return scores

    def normalization(self, state: SoftState | None, raw: Int64s) -> tuple[int, int, bool]:
        """The lowest and the highest score of the nodes that are rated, and whether all are."""
        highest = max(int(raw.max(initial=0)), 0)
        lowest = int(raw.min(initial=highest))
        if lowest != UNRATED:
            return lowest, highest, True
        return int(raw.min(where=raw != UNRATED, initial=highest)), highest, False

    def normalize(self, raw: Int64s, normalization: tuple[int, int, bool]) -> Int64s:
        lowest, highest, are_all_rated = normalization
        scores = by_range(raw, lowest, highest)
        if not are_all_rated:
            scores[raw == UNRATED] = 0
        return scores

    def update_score(
        self,
        state: SoftState | None,
        pod: PodInfo,
        cluster: ClusterView,
        delta: Delta,
        feasible: Bools,
        flipped: Rows,
    ) -> Rows | None:
        if state is None:
            return NO_ROWS
        inclusion = state.inclusion
        if len(delta.node_rows) and not inclusion.is_current(cluster, delta.node_rows):
            return None
        is_changed = state.add_pods(cluster, delta)
        if state.matches.is_overgrown:
            return None
        if len(flipped):
            flipped = flipped[inclusion.has_all_keys[flipped]]
            signs = np.where(feasible[flipped], 1, -1)
            for counts in state.counts:
                counts.flip(flipped, signs)
            is_changed = True
        if not is_changed:
            return NO_ROWS
        changed = [rows for counts in state.counts if (rows := counts.settle()) is not None]
        if len(changed) < len(state.counts):
            return cluster.nodes.present_rows()
        return changed[0] if len(changed) == 1 else np.concatenate(changed)

    def heeded_classes(
        self, state: HardState | SoftState | None, class_ids: set[int], cluster: ClusterView
    ) -> set[int]:
        if state is None:
            return set()
        return state.matches.something_among(class_ids, partial(state.classes_concerned, cluster))

    def _soft_state(
        self, constraints: SpreadConstraints, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> SoftState:
        # With the system's constraints, a node without a zone is still rated by its host name.
        requires_all_keys = bool(own_constraints(pod)) or not self._is_system_defaulted
        inclusion = Inclusion(constraints, cluster, pod, requires_all_keys=requires_all_keys)
        rated = feasible[inclusion.has_all_keys[feasible]]

        def counts_of(i: int, node_rows: Rows) -> SoftDomains | SoftNodes:
            topology, max_skew = inclusion.topologies[i], constraints[i].max_skew
            if constraints[i].key == HOST_NAME:
                return SoftNodes(topology, node_rows, len(rated), max_skew=max_skew)
            eligible = inclusion.eligible[i]
            return SoftDomains(topology, eligible, node_rows, rated, max_skew=max_skew)

        return SpreadState(constraints, pod, cluster, inclusion, counts_of)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Of hard constraints, as soft ones reject no pod."""
        of_pods = Action.ADD, Action.DELETE, Action.UPDATE_POD_LABEL, Action.UPDATE_POD_TOLERATION
        of_nodes = Action.ADD, Action.DELETE, Action.UPDATE_NODE_LABEL, Action.UPDATE_NODE_TAINT
        return (
            ClusterEventWithHint(
                Resource.POD, of_pods, self._after_pod_change, classes=_classes_involved
            ),
            ClusterEventWithHint(Resource.NODE, of_nodes, self._after_node_change),
        )

    def _after_pod_change(self, pod: PodView, change: Change, cluster: ClusterView) -> bool:
        """A pod that a constraint counts came, went or changed sides."""
        was, now = change.both(PodView)
        if any(view is not None and not _is_involved(view, pod) for view in (was, now)):
            return False
        constraints = self._constraints(pod.info, cluster, HARD)
        if was is not None and now is not None:
            return _may_help(constraints, was, now, is_self=change.is_of(pod))
        view = now or was
        assert view is not None, "an event has an object"
        return any(c.selector.matches(view.info.labels) for c in constraints)

    def _after_node_change(self, pod: PodView, change: Change, cluster: ClusterView) -> bool:
        """A node with all topology keys came, went, or moved to another domain or taint."""
        was, now = change.both(Node)
        keys = [constraint.key for constraint in self._constraints(pod.info, cluster, HARD)]
        had, has = labels_of(was), labels_of(now)
        was_counted = was is not None and all(key in had for key in keys)
        is_counted = now is not None and all(key in has for key in keys)
        if was is None or now is None or was_counted != is_counted:
            return was_counted or is_counted
        has_moved = any(had.get(key) != has.get(key) for key in keys)
        has_other_taints = (was.spec.taints or []) != (now.spec.taints or [])
        return is_counted and (has_moved or has_other_taints)

    def _constraints(self, pod: PodInfo, cluster: ClusterView, action: str) -> SpreadConstraints:
        """Those of a pod with this whenUnsatisfiable, its own or its profile's. Raises SelectorError."""
        own = own_constraints(pod)
        if own:
            has_keys = cluster.gates[MATCH_LABEL_KEYS_IN_POD_TOPOLOGY_SPREAD]
            those = (c for c in own if c.when_unsatisfiable == action)
            return tuple(parsed(c, pod, has_keys=has_keys) for c in those)
        defaults = [c for c in self._defaults if c.when_unsatisfiable == action]
        if not defaults:
            return ()
        selector = default_selector(pod, cluster)
        if selector.is_empty:
            return ()
        own_selector = (parsed(c, pod, has_keys=False) for c in defaults)
        return tuple(each._replace(selector=selector) for each in own_selector)

    def _asks_objects(self, pod: PodInfo, action: str) -> bool:
        """Whether services and controllers have a say in what constraints there are."""
        return not own_constraints(pod) and any(
            c.when_unsatisfiable == action for c in self._defaults
        )


def _unreadable(what_for: str, sort: str, error: SelectorError) -> Status:
    text = f"{what_for}: obtaining pod's {sort} topology spread constraints: {error}"
    return Status(Code.ERROR, (text,))


def _verdicts(state: HardState, rows: Rows, are_full: list[Bools]) -> Verdicts:
    """`are_full`: by constraint, whether the domain of each row is."""
    reasons = np.zeros(len(rows), np.int64)
    index = row_index(rows)
    for counts, is_full in zip(state.counts, are_full, strict=True):
        # The first constraint that a node fails is the one that is named.
        found = is_full * np.int64(SKEW_BIT)
        found[counts.topology.domain_of_row[index] == NO_DOMAIN] = LABEL_BIT
        reasons = np.where(reasons == 0, found, reasons)
    return Verdicts(_CODE_OF_BIT[reasons], reasons, TEXTS)


def _is_involved(view: PodView, pod: PodView) -> bool:
    if view.record.uid == pod.record.uid:
        return True
    return view.holds_node and view.record.namespace == pod.record.namespace


def _classes_involved(change: Change, cluster: ClusterView) -> tuple[int, ...] | None:
    """None of them, if the pod that came or went counts on no node; of its own changes a pod is asked
    by itself."""
    views = change.both(PodView)
    return () if any(view is not None and not view.holds_node for view in views) else None


def _may_help(constraints: SpreadConstraints, was: PodView, now: PodView, *, is_self: bool) -> bool:
    """Whether a pod tolerates more now, or counts for other constraints than before."""
    if (
        is_self
        and was.info.spec.tolerations != now.info.spec.tolerations
        and any(constraint.honors_taints for constraint in constraints)
    ):
        return True
    had, has = was.info.labels, now.info.labels
    return had != has and any(
        c.selector.matches(had) != c.selector.matches(has) for c in constraints
    )
