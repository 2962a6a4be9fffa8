"""Pod affinity terms: parsed once for each pod class, matched against other classes.

A term is read in two ways. As a term of the pod to be placed, its namespaces are worked out before
anything is counted (`resolved`), and no namespace's labels are asked for any more; as a term of a pod
that is on a node, its namespace selector is held against the labels of the incoming pod's namespace.

Rules: `AffinityTerm` in pkg/scheduler/framework/types.go and `mergeAffinityTermNamespacesIfNotEmpty`
in pkg/scheduler/framework/plugins/interpodaffinity/plugin.go, v1.36.2. matchLabelKeys and
mismatchLabelKeys are not read here: the API server has merged them into the selector.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from shared.kube.api.core_v1 import Affinity, Namespace, Node, PodAffinityTerm
from shared.selectors.label_selector import (
    NOTHING,
    Labels,
    Selector,
    SelectorError,
    SelectorIndex,
    parse_label_selector,
)

NO_LABELS: Final[Labels] = {}


def labels_of(found: Node | Namespace | None) -> Labels:
    """What is not there has none."""
    return NO_LABELS if found is None else found.metadata.labels or NO_LABELS


class PodTerm(NamedTuple):
    """Pods of some namespaces that a selector picks, in a topology."""

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector
    weight: int = 0
    """Of a preferred term; negative for anti-affinity."""

    def matches(self, namespace: str, namespace_labels: Labels, labels: Labels) -> bool:
        if namespace not in self.namespaces and not self.namespace_selector.matches(
            namespace_labels
        ):
            return False
        return self.selector.matches(labels)

    @property
    def takes_all_namespaces(self) -> bool:
        """By a selector that holds for no labels at all (NotIn, DoesNotExist, empty). It takes every
        namespace, whatever its labels: kube-scheduler goes on asking it with none."""
        return self.namespace_selector.matches(NO_LABELS)

    def resolved(self, namespace_labels: Mapping[str, Labels]) -> "PodTerm":
        """The term with its namespaces named, which `matches` with NO_LABELS of any namespace;
        `namespace_labels` holds all namespaces' labels."""
        selector = self.namespace_selector
        if selector.selects_nothing or self.takes_all_namespaces:
            return self
        more = (name for name, labels in namespace_labels.items() if selector.matches(labels))
        return self._replace(namespaces=self.namespaces.union(more), namespace_selector=NOTHING)


def index_of(terms: Iterable[PodTerm]) -> SelectorIndex[PodTerm]:
    """The terms by whom they may mean."""
    index = SelectorIndex[PodTerm]()
    for term in terms:
        index.add(term.selector, term)
    return index


class TermsAbout(NamedTuple):
    """The terms of a pod on a node, for whoever comes."""

    affinity: SelectorIndex[PodTerm]
    anti_affinity: SelectorIndex[PodTerm]
    preferred: SelectorIndex[PodTerm]


AFFINITY_GROUP: Final = "requiredAffinityTerms"
ANTI_AFFINITY_GROUP: Final = "requiredAntiAffinityTerms"


class PodTerms(NamedTuple):
    """All terms of a pod. A group with an unreadable term is empty, and `errors` says why."""

    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred: tuple[PodTerm, ...] = ()
    """Preferred affinity, then preferred anti-affinity with negative weights."""
    errors: Mapping[str, str] = {}
    """By group."""

    @property
    def all(self) -> tuple[PodTerm, ...]:
        return self.affinity + self.anti_affinity + self.preferred


def parse_pod_terms(namespace: str, affinity: Affinity | None) -> PodTerms:
    """The terms of a pod in `namespace`."""
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return PodTerms()
    errors: dict[str, str] = {}
    near, apart = affinity.pod_affinity, affinity.pod_anti_affinity
    required: list[tuple[PodTerm, ...]] = []
    preferred: list[tuple[PodTerm, ...]] = []
    for group, sign, name in ((near, 1, "Affinity"), (apart, -1, "AntiAffinity")):
        hard = group.required_during_scheduling_ignored_during_execution if group else None
        soft = group.preferred_during_scheduling_ignored_during_execution if group else None
        needed = ((term, 0) for term in hard or ())
        wished = ((each.pod_affinity_term, sign * each.weight) for each in soft or ())
        required.append(_group(namespace, needed, f"required{name}Terms", errors))
        preferred.append(_group(namespace, wished, f"preferred{name}Terms", errors))
    return PodTerms(required[0], required[1], preferred[0] + preferred[1], errors)


def _group(
    namespace: str, terms: Iterable[tuple[PodAffinityTerm, int]], name: str, errors: dict[str, str]
) -> tuple[PodTerm, ...]:
    """`terms`: with their weights."""
    try:
        return tuple(_term(namespace, term, weight) for term, weight in terms)
    except SelectorError as error:
        errors[name] = str(error)
        return ()


def _term(namespace: str, term: PodAffinityTerm, weight: int) -> PodTerm:
    named = frozenset(term.namespaces or ())
    if not named and term.namespace_selector is None:
        named = frozenset((namespace,))
    return PodTerm(
        term.topology_key,
        parse_label_selector(term.label_selector),
        named,
        parse_label_selector(term.namespace_selector),
        weight,
    )
