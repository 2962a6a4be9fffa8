"""NodeAffinity: nodeSelector, required and preferred node affinity, and the profile's own.

Rules: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go, v1.36.2.
"""

from typing import ClassVar, Final

import numpy as np

from shared.columns.schema import Int64s, Rows
from shared.errors import ObjectError, as_one_error
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.normalize import DefaultNormalizeScore
from shared.framework.plugin_api import (
    ON_NODE,
    SKIP_FILTER,
    SKIP_SCORE,
    Dependence,
    PreFilterResult,
    PreScoreResult,
)
from shared.framework.plugin_args import ArgsStruct
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import Change, ClusterEventWithHint, PodView
from shared.framework.status import Code, Status, Verdicts, unresolvable
from shared.kube.api.core_v1 import Node, PreferredSchedulingTerm
from shared.kube.api.core_v1 import NodeAffinity as NodeAffinitySpec
from shared.kube.api.core_v1_parts import NodeSelectorTerm
from shared.plugin_names import NODE_AFFINITY
from shared.selectors.node_selector import SelectedColumns, match_all, match_any
from shared.selectors.node_terms import (
    NAME_FIELD,
    Term,
    is_empty,
    parse_selector,
    parse_term,
    selects_node,
)

REASON_POD: Final = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED: Final = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT: Final = "pod affinity terms conflict"
TEXTS: Final = (REASON_ENFORCED, REASON_POD)

WeightedTerms = tuple[tuple[int, Term], ...]


class NodeAffinityArgs(ArgsStruct):
    added_affinity: NodeAffinitySpec | None = None
    """Applies to every pod of the profile, beside the pod's own."""

    def problems(self) -> list[str]:
        added, problems = self.added_affinity or NodeAffinitySpec(), list[str]()
        required = added.required_during_scheduling_ignored_during_execution
        if required is not None:
            path = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution."
            for term in parse_selector(required, path):
                problems += term.errors
        preferred = added.preferred_during_scheduling_ignored_during_execution or []
        path = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[{}].preference"
        return problems + _parse_preferences(preferred, path)[1]


class NodeAffinity(DefaultNormalizeScore):
    """`args.addedAffinity` holds for every pod of the profile."""

    NAME: ClassVar[str] = NODE_AFFINITY
    reads_labels: ClassVar[frozenset[str]] = frozenset()
    ignores_requests: ClassVar[bool] = True
    pre_filter_depends: ClassVar[Dependence | None] = None
    filter_depends: ClassVar[Dependence] = ON_NODE
    pre_score_depends: ClassVar[Dependence | None] = None
    refuses_in_pre_score: ClassVar[bool] = True
    """A preference that makes no sense is an error also where nobody scores by it."""
    score_depends: ClassVar[Dependence] = ON_NODE

    def __init__(self, args: NodeAffinityArgs) -> None:
        added = args.added_affinity or NodeAffinitySpec()
        required = added.required_during_scheduling_ignored_during_execution
        self._added_terms = None if required is None else parse_selector(required)
        preferred = added.preferred_during_scheduling_ignored_during_execution or []
        self._added_preferences, errors = _parse_preferences(preferred)
        self._has_added_preferences = bool(preferred)
        assert not errors, "checked when the arguments were read"

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        affinity = _node_affinity(pod)
        selector = affinity.required_during_scheduling_ignored_during_execution
        if selector is None and self._added_terms is None and pod.spec.node_selector is None:
            return SKIP_FILTER
        names = None if selector is None else _named_nodes(selector.node_selector_terms or [])
        if names is not None and not names:
            return PreFilterResult(unresolvable(REASON_CONFLICT))
        return PreFilterResult(node_names=names)

    def filter(self, state: None, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        columns = SelectedColumns(cluster.nodes, rows)
        reasons = np.zeros(len(rows), np.int64)
        reasons[~match_all(pod.required_nodes, columns)] = 2
        if self._added_terms is not None:
            reasons[~match_any(self._added_terms, columns)] = 1
        codes = (reasons != 0) * np.uint8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        return Verdicts(codes, reasons, TEXTS)

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:
        preferred = _node_affinity(pod).preferred_during_scheduling_ignored_during_execution
        if preferred is None and not self._has_added_preferences:
            return SKIP_SCORE
        terms, errors = _parse_preferences(preferred or [])
        if errors:
            return PreScoreResult(Status(Code.ERROR, (as_one_error(errors),)))
        return PreScoreResult(state=self._added_preferences + terms)

    def score(self, state: WeightedTerms, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:
        columns = SelectedColumns(cluster.nodes, rows)
        total = np.zeros(len(rows), np.int64)
        for weight, term in state:
            matched = columns.matched(term)
            if matched is not None:
                total += matched * np.int64(weight)
        return total

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (
            ClusterEventWithHint(
                Resource.NODE, (Action.ADD, Action.UPDATE_NODE_LABEL), self._after_node_change
            ),
        )

    def _after_node_change(self, pod: PodView, change: Change, cluster: ClusterView) -> bool:
        """The node became one that the pod selects."""
        was, now = change.both(Node)
        if now is None or (
            self._added_terms is not None and not selects_node(self._added_terms, now.metadata)
        ):
            return False
        if not _wants(pod.info, now):
            return False
        return was is None or not _wants(pod.info, was)


def _wants(pod: PodInfo, node: Node) -> bool:
    """Whether nodeSelector and required node affinity let the pod on the node."""
    for terms in pod.required_nodes:
        if not selects_node(terms, node.metadata):
            problems = [problem for term in terms for problem in term.errors]
            if problems:
                raise ObjectError("required node affinity", "; ".join(problems))
            return False
    return True


def _node_affinity(pod: PodInfo) -> NodeAffinitySpec:
    affinity = pod.spec.affinity
    return (affinity and affinity.node_affinity) or _NO_AFFINITY


_NO_AFFINITY: Final = NodeAffinitySpec()


def _named_nodes(terms: list[NodeSelectorTerm]) -> frozenset[str] | None:
    """The nodes that the terms name by metadata.name; None where some term names none.

    Terms are alternatives, so one without a name opens the search to all nodes; the names within a
    term must agree. An empty set says that every term contradicts itself.
    """
    if not terms:
        return None
    names: set[str] = set()
    for term in terms:
        named = [
            set(requirement.values or ())
            for requirement in term.match_fields or ()
            if requirement.key == NAME_FIELD and requirement.operator == "In"
        ]
        if not named:
            return None
        names |= set.intersection(*named)
    return frozenset(names)


def _parse_preferences(
    preferred: list[PreferredSchedulingTerm], path: str = "[{}]"
) -> tuple[WeightedTerms, list[str]]:
    """Terms with their weights, and what is wrong with them, `path` being that of each; empty and
    weightless ones drop out."""
    found: list[tuple[int, Term]] = []
    errors: list[str] = []
    for i, entry in enumerate(preferred):
        if entry.weight == 0 or is_empty(entry.preference):
            continue
        term = parse_term(entry.preference, path.format(i))
        found.append((entry.weight, term))
        errors += term.errors
    return tuple(found), errors
