"""InterPodAffinity: pods near to, or apart from, other pods in the same topology.

Terms count in both directions: those of the incoming pod against pods on nodes, and those of pods
on nodes against the incoming one. Counts are kept by topology key and domain
(`shared.plugins.interpod.matched_term_counts`) and follow what comes and goes.

Rules: pkg/scheduler/framework/plugins/interpodaffinity/{plugin,filtering,scoring}.go, v1.36.2.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from shared.columns.answer_table import ClassValues
from shared.columns.rows import RowIndex, row_index
from shared.columns.schema import NO_ROWS, Bools, Int64s, Rows
from shared.columns.topology import NO_DOMAIN, pods_of_classes
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import (
    NEVER_SCORES,
    Crowding,
    Delta,
    Dependence,
    GonePods,
    PreFilterResult,
    PreScoreResult,
    Reads,
    Scope,
)
from shared.framework.plugin_args import WEIGHT_MAX, ArgsStruct, out_of_range
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    Verdicts,
    as_one_error,
    unresolvable,
)
from shared.plugin_names import INTER_POD_AFFINITY
from shared.plugins.interpod.affinity_hints import EVENTS
from shared.plugins.interpod.matched_term_counts import (
    NO_SHARES,
    MatchedTermCounts,
    Shares,
    by_range,
    crosses_zero,
    summed,
)
from shared.selectors.label_selector import Labels
from shared.selectors.pod_terms import NO_LABELS, PodTerm, index_of

REASON_AFFINITY: Final = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
TEXTS: Final = (REASON_AFFINITY, REASON_ANTI_AFFINITY, REASON_EXISTING)
_CODES: Final = np.array(
    [
        Code.SUCCESS,
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        Code.UNSCHEDULABLE,
        Code.SUCCESS,  # Never: one reason a node.
        Code.UNSCHEDULABLE,
    ],
    np.uint8,
)
"""By bits of reasons."""

NAMESPACES: Final = "namespaces"


class Incoming:
    """The required terms of the pod to be placed, and whom they are held against."""

    __slots__ = ("_apart_from", "_labels", "_namespace", "_namespace_labels", "affinity",
                 "anti_affinity", "is_self_matching")  # fmt: skip

    def __init__(self, pod: PodInfo, cluster: ClusterView) -> None:
        self._namespace = pod.namespace
        self._labels = pod.labels
        self._namespace_labels = _namespace_labels(cluster, pod.namespace)
        terms = pod.pod_terms
        self.affinity, self.anti_affinity = _resolved(cluster, terms.affinity, terms.anti_affinity)
        self._apart_from = index_of(self.anti_affinity)
        self.is_self_matching = self._matches_all(pod)
        """It would satisfy its own affinity: it may be the first of its kind."""

    def _matches_all(self, other: PodInfo) -> bool:
        return bool(self.affinity) and all(
            term.matches(other.namespace, NO_LABELS, other.labels) for term in self.affinity
        )

    def shares(self, other: PodInfo) -> "FilterShares":
        """What a pod of another class adds to each of the three counts."""
        near = apart = existing = NO_SHARES
        if self.affinity and self._matches_all(other):
            near = summed((term.topology_key, 1) for term in self.affinity)
        if self.anti_affinity:
            apart = summed(
                (term.topology_key, 1)
                for term in self._apart_from.about(other.labels)
                if term.matches(other.namespace, NO_LABELS, other.labels)
            )
        if other.has_pod_terms:
            existing = summed(
                (term.topology_key, 1)
                for term in other.terms_about.anti_affinity.about(self._labels)
                if term.matches(self._namespace, self._namespace_labels, self._labels)
            )
        if near or apart or existing:
            return FilterShares(near, apart, existing)
        return NO_FILTER_SHARES


class FilterShares(NamedTuple):
    """Of one class, for Filter."""

    affinity: Shares
    anti_affinity: Shares
    existing: Shares


NO_FILTER_SHARES: Final = FilterShares(NO_SHARES, NO_SHARES, NO_SHARES)


class FilterState:
    """Of PreFilter; follows the cluster."""

    __slots__ = ("affinity", "anti_affinity", "existing", "incoming", "shares")

    def __init__(self, pod: PodInfo, cluster: ClusterView) -> None:
        self.incoming = Incoming(pod, cluster)
        self.shares = ClassValues(self.incoming.shares, NO_FILTER_SHARES)
        self.affinity = MatchedTermCounts(cluster.topology)
        """Pods that match all affinity terms of the incoming one."""
        self.anti_affinity = MatchedTermCounts(cluster.topology)
        self.existing = MatchedTermCounts(cluster.topology)
        """Anti-affinity terms of pods on nodes that mean the incoming one."""
        own = (*self.incoming.affinity, *self.incoming.anti_affinity)
        found = self.shares.learn(_classes_concerned(cluster, pod, own))
        classes, node_rows = _pods_of(found, cluster)
        for i, counts in enumerate(self.counts):
            counts.count({class_id: s[i] for class_id, s in found.items()}, classes, node_rows)
        for term in self.incoming.affinity:
            self.affinity.of_key(term.topology_key)  # A node must have each of these labels.

    @property
    def counts(self) -> tuple[MatchedTermCounts, MatchedTermCounts, MatchedTermCounts]:
        """In the order of FilterShares."""
        return self.affinity, self.anti_affinity, self.existing

    @property
    def may_reject(self) -> bool:
        own = self.incoming.affinity or self.incoming.anti_affinity
        return bool(own) or self.existing.entry_count > 0

    @property
    def lets_first_in(self) -> bool:
        """No pod anywhere matches, and the incoming one matches itself."""
        return self.incoming.is_self_matching and self.affinity.entry_count == 0


class ScoreState(NamedTuple):
    """Of PreScore; follows the cluster."""

    shares: ClassValues[PodInfo, Shares]
    counts: MatchedTermCounts


class InterPodAffinityArgs(ArgsStruct):
    hard_pod_affinity_weight: int = 1
    """The score of a required affinity term of a pod on a node that means the incoming pod."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Preferred terms of pods on nodes do not count for a pod without preferred terms."""

    def problems(self) -> list[str]:
        return out_of_range("hardPodAffinityWeight", self.hard_pod_affinity_weight, 0, WEIGHT_MAX)


class InterPodAffinity:
    """`args`: what a required affinity of a pod on a node is worth, and whether preferred terms of
    pods on nodes count for a pod that has none."""

    NAME: ClassVar[str] = INTER_POD_AFFINITY
    ignores_requests: ClassVar[bool] = True
    object_kinds: ClassVar[frozenset[str]] = frozenset({NAMESPACES})
    pre_filter_depends: ClassVar[Dependence | None] = Dependence(
        Reads.NODE | Reads.PODS | Reads.OBJECTS, Scope.CLUSTER
    )
    # A domain's rows see its pods; the first pod that matches anywhere ends the rule for the first.
    filter_depends: ClassVar[Dependence] = Dependence(Reads.NODE | Reads.PODS, Scope.CLUSTER)
    pre_score_depends: ClassVar[Dependence | None] = Dependence(
        Reads.NODE | Reads.PODS | Reads.OBJECTS, Scope.CLUSTER
    )
    score_depends: ClassVar[Dependence] = Dependence(Reads.NODE | Reads.PODS, Scope.DOMAIN)
    scores_within_range: ClassVar[bool] = True

    def __init__(self, args: InterPodAffinityArgs) -> None:
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignores_existing = args.ignore_preferred_terms_of_existing_pods

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return EVENTS

    # Filter ----------------------------------------------------------------------------------------

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        if pod.pod_terms.errors:
            return PreFilterResult(_unreadable(pod), is_final=True)
        state = FilterState(pod, cluster)
        return PreFilterResult(SUCCESS if state.may_reject else SKIP, state=state)

    def filter(
        self, state: FilterState, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Verdicts:
        index = row_index(rows)
        reasons = np.zeros(len(rows), np.int64)
        for bit, counts in ((4, state.existing), (2, state.anti_affinity)):
            if counts.entry_count:
                # By key, as a weight is never negative here: more than none in any domain.
                reasons[counts.sums(index, len(rows)) > 0] = bit
        if state.incoming.affinity:
            reasons[_misses_affinity(state, index, len(rows))] = 1
        return Verdicts(_CODES[reasons], reasons, TEXTS)

    def filter_without_pods(
        self, state: FilterState, pod: PodInfo, cluster: ClusterView, rows: Rows, gone: GonePods
    ) -> Verdicts:
        reasons = np.zeros(len(rows), np.int64)
        for bit, which in ((4, 2), (2, 1)):
            by_key, _ = _left(state, which, cluster, rows, gone)
            reasons[sum(by_key.values(), np.zeros(len(rows), np.int64)) > 0] = bit
        if state.incoming.affinity:
            by_key, entry_counts = _left(state, 0, cluster, rows, gone)
            lacks_label = np.zeros(len(rows), np.bool_)
            lacks_pods = np.zeros(len(rows), np.bool_)
            for key, weights in by_key.items():
                lacks_label |= ~state.affinity.has_label(key, rows)
                lacks_pods |= weights <= 0
            is_first = np.bool_(state.incoming.is_self_matching) & (entry_counts == 0)
            reasons[lacks_label | (lacks_pods & ~is_first)] = 1
        return Verdicts(_CODES[reasons], reasons, TEXTS)

    def update_filter(
        self, state: FilterState, pod: PodInfo, cluster: ClusterView, delta: Delta
    ) -> Rows | None:
        if len(delta.node_rows) and not all(counts.is_current() for counts in state.counts):
            return None
        might_reject, let_first_in = state.may_reject, state.lets_first_in
        is_changed = False
        for class_id, node_row, _, count in delta.pods:
            shares = state.shares.of(class_id, cluster.classes)
            if shares is not NO_FILTER_SHARES:
                is_changed = True
                for counts, share in zip(state.counts, shares, strict=True):
                    if share:
                        counts.add(share, node_row, count)
        if not is_changed:
            return None if state.shares.is_overgrown else NO_ROWS
        if state.shares.is_overgrown or state.may_reject is not might_reject:
            return None
        changed = [rows for counts in state.counts for rows in counts.settle(crosses_zero)]
        if state.lets_first_in is not let_first_in:
            return cluster.nodes.present_rows()
        return np.concatenate(changed) if changed else NO_ROWS

    def crowded_domains(
        self, state: FilterState, class_id: int, cluster: ClusterView
    ) -> Sequence[Crowding] | None:
        if state.lets_first_in:
            return None  # All others have to go to where the first one is.
        # What one says of another holds the other way round: both have the same terms.
        apart = state.shares.of(class_id, cluster.classes).anti_affinity
        counts = state.anti_affinity
        topologies = [counts.of_key(share.topology_key).topology for share in apart]
        return [Crowding(topology.domain_of_row, lambda _: 1) for topology in topologies]

    # Score -----------------------------------------------------------------------------------------

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:
        if pod.pod_terms.errors:
            return PreScoreResult(_unreadable(pod), is_final=True)
        if self._ignores_existing and not pod.pod_terms.preferred:
            return NEVER_SCORES
        state = self._score_state(pod, cluster)
        return PreScoreResult(SUCCESS if state.counts.entry_count else SKIP, state=state)

    def score(self, state: ScoreState, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:
        return state.counts.sums(row_index(rows), len(rows))

    def normalization(self, state: Any, raw: Int64s) -> tuple[int, int]:
        """The lowest and the highest score."""
        return (int(raw.min()), int(raw.max())) if len(raw) else (0, 0)

    def normalize(self, raw: Int64s, normalization: tuple[int, int]) -> Int64s:
        return by_range(raw, *normalization)

    def update_score(
        self,
        state: ScoreState,
        pod: PodInfo,
        cluster: ClusterView,
        delta: Delta,
        feasible: Bools,
        flipped: Rows,
    ) -> Rows | None:
        counts = state.counts
        if len(delta.node_rows) and not counts.is_current():
            return None
        might_reject = counts.entry_count > 0
        is_changed = False
        for class_id, node_row, _, count in delta.pods:
            shares = state.shares.of(class_id, cluster.classes)
            if shares:
                is_changed = True
                counts.add(shares, node_row, count)
        if state.shares.is_overgrown or (counts.entry_count > 0) is not might_reject:
            return None
        changed = counts.settle(operator.ne) if is_changed else None
        return np.concatenate(changed) if changed else NO_ROWS

    def depends_on_class(
        self, state: FilterState | ScoreState, class_id: int, cluster: ClusterView
    ) -> bool:
        return state.shares.is_something(class_id, cluster.classes)

    def _score_state(self, pod: PodInfo, cluster: ClusterView) -> ScoreState:
        (own,) = _resolved(cluster, pod.pod_terms.preferred)
        namespace, labels = pod.namespace, pod.labels
        namespace_labels = _namespace_labels(cluster, namespace)
        hard_weight, own_terms = self._hard_weight, index_of(own)

        def parts(other: PodInfo) -> Iterator[tuple[str, int]]:
            for term in own_terms.about(other.labels):
                if term.matches(other.namespace, NO_LABELS, other.labels):
                    yield term.topology_key, term.weight
            if other.has_pod_terms:
                terms = other.terms_about
                for theirs in terms.affinity.about(labels) if hard_weight else ():
                    if theirs.matches(namespace, namespace_labels, labels):
                        yield theirs.topology_key, hard_weight
                for theirs in terms.preferred.about(labels):
                    if theirs.matches(namespace, namespace_labels, labels):
                        yield theirs.topology_key, theirs.weight

        def all_parts(other: PodInfo) -> Shares:
            return summed(parts(other)) if own or other.has_pod_terms else NO_SHARES

        shares = ClassValues[PodInfo, Shares](all_parts, NO_SHARES)
        found = shares.learn(_classes_concerned(cluster, pod, own))
        counts = MatchedTermCounts(cluster.topology)
        counts.count(found, *_pods_of(found, cluster))
        return ScoreState(shares, counts)


def _unreadable(pod: PodInfo) -> Status:
    return unresolvable(f"parsing pod: {as_one_error(list(pod.pod_terms.errors))}")


def _left(
    state: FilterState, which: int, cluster: ClusterView, rows: Rows, gone: GonePods
) -> tuple[dict[str, Int64s], Int64s]:
    """For each row as if its pods that are thought to be gone were gone: one of the three counts
    (`which` as in FilterShares) by topology key, and how many entries it has."""
    counts = state.counts[which]
    by_key = counts.key_sums(rows)
    entry_counts = np.full(len(rows), counts.entry_count, np.int64)
    shares = [
        (class_id, share)
        for class_id in set(gone.class_ids.tolist())
        for share in state.shares.of(class_id, cluster.classes)[which]
    ]
    for key, before in by_key.items():
        worth = {class_id: share.weight for class_id, share in shares if share.topology_key == key}
        lost = gone.sums(cluster.nodes.capacity, worth)[rows]
        lost[~counts.has_label(key, rows)] = 0
        by_key[key] = before - lost
        entry_counts -= lost  # Each term weighs 1 here.
    return by_key, entry_counts


def _misses_affinity(state: FilterState, index: RowIndex, count: int) -> Bools:
    """Rows, shape (count,), where the incoming pod's affinity does not hold."""
    lacks_label = np.zeros(count, np.bool_)
    lacks_pods = np.zeros(count, np.bool_)
    for counts in state.affinity.by_key.values():
        domains = counts.topology.domain_of_row[index]
        lacks_label |= domains == NO_DOMAIN
        lacks_pods |= counts.by_domain[domains] <= 0
    return lacks_label if state.lets_first_in else lacks_label | lacks_pods


def _resolved(cluster: ClusterView, *each: tuple[PodTerm, ...]) -> list[tuple[PodTerm, ...]]:
    """Terms of the incoming pod with their namespaces named; all namespaces are read only where a term
    asks for their labels."""
    is_asked = any(not t.namespace_selector.selects_nothing for terms in each for t in terms)
    namespaces = cluster.objects.all(NAMESPACES) if is_asked else {}
    labels = {name: found.metadata.labels or {} for name, found in namespaces.items()}
    return [tuple(term.resolved(labels) for term in terms) for terms in each]


def _namespace_labels(cluster: ClusterView, name: str) -> Labels:
    """A namespace that nobody has seen yet has no labels."""
    found = cluster.objects.get(NAMESPACES, name)
    return NO_LABELS if found is None else found.metadata.labels or NO_LABELS


def _classes_concerned(
    cluster: ClusterView, pod: PodInfo, own: tuple[PodTerm, ...]
) -> Iterable[tuple[int, PodInfo]]:
    """Classes that terms of the incoming pod may mean, or whose terms may mean it."""
    index = cluster.class_index
    found = dict(index.with_terms_about(pod.namespace, pod.labels))
    for term in own:
        namespaces = None if term.takes_all_namespaces else term.namespaces
        found.update(index.selected(namespaces, term.selector))
    return found.items()


def _pods_of(found: Mapping[int, object], cluster: ClusterView) -> tuple[Int64s, Rows]:
    """Class and node row of each pod of these classes."""
    classes, node_rows = pods_of_classes(cluster.pod_tables, list(found), with_terminating=True)
    return classes, node_rows.astype(np.intp)
