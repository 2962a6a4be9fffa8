"""Node selectors (nodeSelector, node affinity terms): parsed once, asked of single nodes.

Apart from `node_selector.py`, which asks whole columns, because a binder asks too, which has no
columns. A parsed selector keeps strings, not ids, so it stays right while dictionaries grow.

Rules: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go and
apimachinery's pkg/labels/selector.go, v1.36. Of a term that cannot be parsed (a Gt with "-5", an In
without values) upstream says that it matches nothing; who must refuse it looks at `errors`.
"""

from typing import Final, NamedTuple

from shared.kube.api.core_v1_parts import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from shared.kube.api.meta_v1 import ObjectMeta
from shared.selectors.requirement import Requirement, invalid, read_requirement, unsupported

NAME_FIELD: Final = "metadata.name"
_OF_NAMES: Final = ("In", "NotIn")


class NameRequirement(NamedTuple):
    """A requirement on metadata.name, the only field that a node has."""

    name: str
    is_equal: bool


class Term(NamedTuple):
    """All requirements must hold. With errors, the term matches nothing."""

    labels: tuple[Requirement, ...]
    names: tuple[NameRequirement, ...]
    errors: tuple[str, ...]


Terms = tuple[Term, ...]


def parse_selector(selector: NodeSelector, path: str = "") -> Terms:
    """The terms of a selector, of which one must match; empty terms match nothing and are left out."""
    terms = selector.node_selector_terms or ()
    return tuple(
        parse_term(term, f"{path}nodeSelectorTerms[{i}]")
        for i, term in enumerate(terms)
        if not is_empty(term)
    )


def is_empty(term: NodeSelectorTerm) -> bool:
    """Whether the term has no requirement at all; such a term matches nothing."""
    return not term.match_expressions and not term.match_fields


def parse_term(term: NodeSelectorTerm, path: str) -> Term:
    """One term; what is wrong with it is listed in its errors, each with its path."""
    labels: list[Requirement] = []
    names: list[NameRequirement] = []
    errors: list[str] = []
    for i, requirement in enumerate(term.match_expressions or ()):
        label = read_requirement(requirement)
        if isinstance(label, list):
            errors += (f"{path}.matchExpressions[{i}].{problem}" for problem in label)
        else:
            labels.append(label)
    for i, requirement in enumerate(term.match_fields or ()):
        name = _parse_name(requirement)
        if isinstance(name, str):
            errors.append(f"{path}.matchFields[{i}].{name}")
        else:
            names.append(name)
    return Term(tuple(labels), tuple(names), tuple(errors))


def of_labels_alone(terms: Terms) -> Terms:
    """The same without what they say of the node's name: who asks about a volume (CheckNodeAffinity in
    component-helpers' storage/volume/pv_helpers.go) tells the labels, and of a name that nobody told
    nothing is asked."""
    return tuple(term._replace(names=()) for term in terms)


def _parse_name(requirement: NodeSelectorRequirement) -> NameRequirement | str:
    values = requirement.values or ()
    if requirement.operator not in _OF_NAMES:
        return unsupported(requirement.operator, _OF_NAMES)
    if len(values) != 1:
        return invalid("values", requirement.values, "must have one element")
    is_in = requirement.operator == "In"
    if requirement.key == NAME_FIELD:
        return NameRequirement(values[0], is_in)
    # A field that no node has is empty, which no name is: this holds for all nodes, or for none.
    return NameRequirement("", is_equal=(values[0] == "") is not is_in)


def selects_node(terms: Terms, node: ObjectMeta) -> bool:
    """Whether one of the terms picks a node that is in no table, by its metadata."""
    labels = node.labels or {}
    return any(
        not term.errors
        and all(each.holds(labels.get(each.key)) for each in term.labels)
        and all((node.name == name.name) is name.is_equal for name in term.names)
        for term in terms
    )
