"""InterPodAffinity: pods near to, or apart from, other pods in the same topology.

Terms count in both directions: those of the incoming pod against pods on nodes, and those of pods
on nodes against the incoming one. Counts are kept by topology key and domain
(`shared.plugins.interpod.matched_term_counts`) and follow what comes and goes.

Rules: pkg/scheduler/framework/plugins/interpodaffinity/{plugin,filtering,scoring}.go, v1.36.2.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np

from shared.columns.answer_table import ClassValues
from shared.columns.rows import RowIndex, row_index
from shared.columns.schema import Bools, Int64s, Rows
from shared.columns.topology import NO_DOMAIN, pods_of_classes
from shared.errors import ObjectError, as_one_error
from shared.framework.cluster_event import Action, Resource
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
from shared.framework.queueing_hints import Change, ClusterEventWithHint, PodView
from shared.framework.status import SKIP, SUCCESS, Code, Status, Verdicts, unresolvable
from shared.kube.api.core_v1 import Node
from shared.plugin_names import INTER_POD_AFFINITY
from shared.plugins.interpod.matched_term_counts import (
    NO_SHARES,
    Key,
    MatchedTermCounts,
    Shares,
    by_range,
    crosses_zero,
    summed,
)
from shared.selectors.pod_terms import (
    AFFINITY_GROUP,
    ANTI_AFFINITY_GROUP,
    NO_LABELS,
    PodTerm,
    PodTerms,
    index_of,
    labels_of,
)

REASON_AFFINITY: Final = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
TEXTS: Final = (REASON_AFFINITY, REASON_ANTI_AFFINITY, REASON_EXISTING)
_CODES: Final = np.full(5, Code.UNSCHEDULABLE, np.uint8)
"""By bits of reasons, of which a node has one."""
_CODES[:2] = Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE

NAMESPACES: Final = "namespaces"

AFFINITY, ANTI_AFFINITY, EXISTING, SCORED = range(4)
"""What terms are counted for. Filter: pods that match all affinity terms of the incoming one, pods that
one of its anti-affinity terms means, and such terms of pods on nodes that mean the incoming one."""

Parts = Iterator[tuple[Key, int]]
"""The key and the weight of each term that a pod on a node, or the incoming one, has about the other."""


class TermState(MatchedTermCounts):
    """Of PreScore; follows the cluster."""

    def __init__(
        self,
        parts_of: Callable[[PodInfo], Parts],
        own: tuple[PodTerm, ...],
        pod: PodInfo,
        cluster: ClusterView,
    ) -> None:
        """`parts_of` a pod of another class; `own`: terms of the incoming pod that are among them."""
        super().__init__(cluster.topology)
        self.shares = ClassValues[PodInfo, Shares](lambda each: summed(parts_of(each)), NO_SHARES)
        self._namespace, self._labels, self._own = pod.namespace, pod.labels, own
        found = self.shares.learn(dict(self.classes_concerned(cluster)).items())
        classes, node_rows = pods_of_classes(cluster.pod_tables, list(found), with_terminating=True)
        self.count(found, classes, node_rows.astype(np.intp))

    def classes_concerned(self, cluster: ClusterView) -> Iterator[tuple[int, PodInfo]]:
        """Those that terms of the incoming pod may mean, or whose terms may mean it, some of them
        several times."""
        index = cluster.class_index
        yield from index.with_terms_about(self._namespace, self._labels)
        for term in self._own:
            namespaces = None if term.takes_all_namespaces else term.namespaces
            yield from index.selected(namespaces, term.selector)

    def add_pods(self, cluster: ClusterView, delta: Delta) -> None:
        """Counts what came and went."""
        for class_id, node_row, _, count in delta.pods:
            shares = self.shares.of(class_id, cluster.classes)
            if shares:
                self.add(shares, node_row, count)


class FilterState(TermState):
    """Of PreFilter."""

    def __init__(self, pod: PodInfo, cluster: ClusterView) -> None:
        near, apart = _resolved(cluster, pod.pod_terms.affinity, pod.pod_terms.anti_affinity)
        apart_index = index_of(apart)
        namespace, labels = pod.namespace, pod.labels
        namespace_labels = labels_of(cluster.objects.get(NAMESPACES, namespace))

        def parts_of(other: PodInfo) -> Parts:
            if _mean(near, other):
                for term in near:
                    yield (AFFINITY, term.topology_key), 1
            for term in apart_index.about(other.labels) if apart else ():
                if term.matches(other.namespace, NO_LABELS, other.labels):
                    yield (ANTI_AFFINITY, term.topology_key), 1
            if other.has_pod_terms:
                for term in other.terms_about.anti_affinity.about(labels):
                    if term.matches(namespace, namespace_labels, labels):
                        yield (EXISTING, term.topology_key), 1

        super().__init__(parts_of, (*near, *apart), pod, cluster)
        self.has_own_terms = bool(near or apart)
        self.is_self_matching = _mean(near, pod)
        """It would satisfy its own affinity: it may be the first of its kind."""
        for term in near:  # A node must have each of these labels.
            self.of_key((AFFINITY, term.topology_key))

    @property
    def may_reject(self) -> bool:
        return self.has_own_terms or self.entry_counts[EXISTING] > 0

    @property
    def lets_first_in(self) -> bool:
        """No pod anywhere matches, and the incoming one matches itself."""
        return self.is_self_matching and self.entry_counts[AFFINITY] == 0


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
    reads_labels: ClassVar[frozenset[str]] = frozenset()
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
        of_pods = Action.ADD, Action.DELETE, Action.UPDATE_POD_LABEL
        of_nodes = Action.ADD, Action.UPDATE_NODE_LABEL
        return (
            ClusterEventWithHint(Resource.POD, of_pods, _after_pod_change, classes=_classes_meant),
            ClusterEventWithHint(Resource.NODE, of_nodes, _after_node_change),
        )

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        if pod.pod_terms.errors:
            return PreFilterResult(_unreadable(pod), is_final=True)
        state = FilterState(pod, cluster)
        return PreFilterResult(SUCCESS if state.may_reject else SKIP, state=state)

    def filter(
        self, state: FilterState, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Verdicts:
        return self.filter_without_pods(state, pod, cluster, rows, None)

    def filter_without_pods(
        self,
        state: FilterState,
        pod: PodInfo,
        cluster: ClusterView,
        rows: Rows,
        gone: GonePods | None,
    ) -> Verdicts:
        index = row_index(rows)
        reasons = np.zeros(len(rows), np.int64)
        lost = {} if gone is None else _lost(state, cluster, index, gone)
        may_be_first: Bools | bool = state.lets_first_in
        if gone is not None and state.is_self_matching:
            of_affinity = [weights for key, weights in lost.items() if key[0] == AFFINITY]
            may_be_first = state.entry_counts[AFFINITY] == sum(of_affinity)  # A term weighs 1 here.
        for key, counts in state.by_key.items():
            what = key[0]
            if what != AFFINITY and not state.entry_counts[what]:
                continue
            domains = counts.topology.domain_of_row[index]
            weights = counts.by_domain[domains]
            if key in lost:
                weights -= lost[key]
            if what == AFFINITY:
                is_wrong = np.where(may_be_first, domains == NO_DOMAIN, weights <= 0)
            else:
                is_wrong = weights > 0
            reasons |= is_wrong << what
        reasons &= -reasons  # The first of them is told.
        return Verdicts(_CODES[reasons], reasons, TEXTS)

    def update_filter(
        self, state: FilterState, pod: PodInfo, cluster: ClusterView, delta: Delta
    ) -> Rows | None:
        if len(delta.node_rows) and not state.is_current():
            return None
        might_reject, let_first_in = state.may_reject, state.lets_first_in
        state.add_pods(cluster, delta)
        if state.shares.is_overgrown or state.may_reject is not might_reject:
            return None
        changed = state.settle(crosses_zero)
        return changed if state.lets_first_in is let_first_in else cluster.nodes.present_rows()

    def crowded_domains(
        self, state: FilterState, class_id: int, cluster: ClusterView
    ) -> Sequence[Crowding] | None:
        if state.lets_first_in:
            return None  # All others have to go to where the first one is.
        # What one says of another holds the other way round: both have the same terms.
        apart = [
            state.of_key(key).topology
            for key, _, _ in state.shares.of(class_id, cluster.classes)
            if key[0] == ANTI_AFFINITY
        ]
        return [Crowding(topology.domain_of_row, lambda _: 1) for topology in apart]

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:
        if pod.pod_terms.errors:
            return PreScoreResult(_unreadable(pod), is_final=True)
        if self._ignores_existing and not pod.pod_terms.preferred:
            return NEVER_SCORES
        state = self._score_state(pod, cluster)
        return PreScoreResult(SUCCESS if state.entry_counts[SCORED] else SKIP, state=state)

    def score(self, state: TermState, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:
        return state.sums(row_index(rows), len(rows))

    def normalization(self, state: Any, raw: Int64s) -> tuple[int, int]:
        """The lowest and the highest score."""
        return (int(raw.min()), int(raw.max())) if len(raw) else (0, 0)

    def normalize(self, raw: Int64s, normalization: tuple[int, int]) -> Int64s:
        return by_range(raw, *normalization)

    def update_score(
        self,
        state: TermState,
        pod: PodInfo,
        cluster: ClusterView,
        delta: Delta,
        feasible: Bools,
        flipped: Rows,
    ) -> Rows | None:
        if len(delta.node_rows) and not state.is_current():
            return None
        might_reject = state.entry_counts[SCORED] > 0
        state.add_pods(cluster, delta)
        if state.shares.is_overgrown or (state.entry_counts[SCORED] > 0) is not might_reject:
            return None
        return state.settle(operator.ne)

    def heeded_classes(
        self, state: TermState, class_ids: set[int], cluster: ClusterView
    ) -> set[int]:
        return state.shares.something_among(class_ids, partial(state.classes_concerned, cluster))

    def _score_state(self, pod: PodInfo, cluster: ClusterView) -> TermState:
        (own,) = _resolved(cluster, pod.pod_terms.preferred)
        namespace, labels = pod.namespace, pod.labels
        namespace_labels = labels_of(cluster.objects.get(NAMESPACES, namespace))
        hard_weight, own_terms = self._hard_weight, index_of(own)

        def parts_of(other: PodInfo) -> Parts:
            for term in own_terms.about(other.labels) if own else ():
                if term.matches(other.namespace, NO_LABELS, other.labels):
                    yield (SCORED, term.topology_key), term.weight
            if other.has_pod_terms:
                terms = other.terms_about
                for theirs in terms.affinity.about(labels) if hard_weight else ():
                    if theirs.matches(namespace, namespace_labels, labels):
                        yield (SCORED, theirs.topology_key), hard_weight
                for theirs in terms.preferred.about(labels):
                    if theirs.matches(namespace, namespace_labels, labels):
                        yield (SCORED, theirs.topology_key), theirs.weight

        return TermState(parts_of, own, pod, cluster)


def _unreadable(pod: PodInfo) -> Status:
    problems = [f"{group}: {error}" for group, error in pod.pod_terms.errors.items()]
    return unresolvable(f"parsing pod: {as_one_error(problems)}")


def _mean(terms: tuple[PodTerm, ...], pod: PodInfo | None) -> bool:
    """Whether there are terms, and all of them mean the pod. A namespaceSelector is asked about no
    labels at all: the terms of a state are resolved, and upstream's hint asks so."""
    if pod is None or not terms:
        return False
    return all(term.matches(pod.namespace, NO_LABELS, pod.labels) for term in terms)


def _lost(
    state: FilterState, cluster: ClusterView, index: RowIndex, gone: GonePods
) -> dict[Key, Int64s]:
    """What the pods of each row that are thought to be gone weigh by key, each of shape (n,)."""
    shares = {each: state.shares.of(each, cluster.classes) for each in set(gone.class_ids.tolist())}
    lost: dict[Key, Int64s] = {}
    for key, counts in state.by_key.items():
        worth = {
            class_id: share.weight
            for class_id, of_class in shares.items()
            for share in of_class
            if share.key == key
        }
        lost[key] = gone.sums(cluster.nodes.capacity, worth)[index]
        lost[key] *= counts.topology.domain_of_row[index] != NO_DOMAIN
    return lost


def _resolved(cluster: ClusterView, *each: tuple[PodTerm, ...]) -> list[tuple[PodTerm, ...]]:
    """Terms of the incoming pod with their namespaces named; all namespaces are read only where a term
    asks for their labels."""
    is_asked = any(not t.namespace_selector.selects_nothing for terms in each for t in terms)
    namespaces = cluster.objects.all(NAMESPACES) if is_asked else {}
    labels = {name: found.metadata.labels or {} for name, found in namespaces.items()}
    return [tuple(term.resolved(labels) for term in terms) for terms in each]


def _after_pod_change(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """A pod came that this one wants to be with, or went that it cannot be with.

    All terms together are compared: the plugin looks for one pod that satisfies all of them.
    """
    was, now = change.both(PodView)
    if change.is_of(pod):
        return True
    if any(view is not None and not view.holds_node for view in (was, now)):
        return False
    terms = _readable(pod.info, AFFINITY_GROUP, ANTI_AFFINITY_GROUP)
    had, has = (view and view.info for view in (was, now))
    has_come = _mean(terms.affinity, has) and not _mean(terms.affinity, had)
    has_gone = _mean(terms.anti_affinity, had) and not _mean(terms.anti_affinity, has)
    if has_come or has_gone:
        return True
    if has is not None or had is None:
        return False
    return _mean(_readable(had, ANTI_AFFINITY_GROUP).anti_affinity, pod.info)


def _classes_meant(change: Change, cluster: ClusterView) -> set[int] | None:
    """Those with terms about the pod that came or went, as far as its own do not matter; none, if it
    counts on no node."""
    was, now = change.both(PodView)
    if any(view is not None and not view.holds_node for view in (was, now)):
        return set()
    if now is None and was is not None:
        terms = was.info.pod_terms
        if terms.anti_affinity or ANTI_AFFINITY_GROUP in terms.errors:
            return None
    index = cluster.class_index
    return {
        class_id
        for view in (was, now)
        if view is not None
        for class_id, _ in index.with_terms_about(view.record.namespace, view.info.labels)
    }


def _after_node_change(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """A topology domain that the pod's terms name gained or lost a node.

    Affinity is helped by a node that joins a domain, anti-affinity also by one that leaves it.
    """
    was, now = change.both(Node)
    had, has = labels_of(was), labels_of(now)
    terms = _readable(pod.info, AFFINITY_GROUP, ANTI_AFFINITY_GROUP)
    for term in terms.affinity:
        key = term.topology_key
        if key in has and has[key] != had.get(key):
            return True
    for term in terms.anti_affinity:
        key = term.topology_key
        if was is None or (key in had and had[key] != has.get(key)):
            return True
    return False


def _readable(pod: PodInfo, *groups: str) -> PodTerms:
    """The pod's terms; ObjectError where one of these groups of them cannot be read."""
    terms = pod.pod_terms
    problems = [terms.errors[group] for group in groups if group in terms.errors]
    if problems:
        raise ObjectError("pod affinity", "; ".join(problems))
    return terms
