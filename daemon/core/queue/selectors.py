"""Selectors against the labels of one object: what hints need, where plugins work on columns.

Rules: apimachinery pkg/apis/meta/v1/helpers.go LabelSelectorAsSelector and component-helpers
scheduling/corev1/nodeaffinity, v1.36.
"""

from collections.abc import Mapping
from typing import assert_never

from shared.errors import ObjectError
from shared.kube.objects import LabelSelector, LabelSelectorRequirement, Node
from shared.selectors.node_selector import LabelRequirement, Operator, Term, Terms, parse_int64

Labels = Mapping[str, str]


def selects(selector: LabelSelector | None, labels: Labels) -> bool:
    """Whether the selector picks an object with these labels. An absent one picks nothing, an empty
    one everything."""
    if selector is None:
        return False
    wanted = selector.match_labels or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_holds(requirement, labels) for requirement in selector.match_expressions or ())


def selects_node(terms: Terms, node: Node) -> bool:
    """Whether one of the terms picks the node; a term with errors picks none."""
    return any(_picks(term, node) for term in terms)


def _holds(requirement: LabelSelectorRequirement, labels: Labels) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in (requirement.values or ())
        case "NotIn":
            return value is None or value not in (requirement.values or ())
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case unknown:
            problem = f"{unknown!r} is not one of In, NotIn, Exists, DoesNotExist"
            raise ObjectError(f"selector on {requirement.key}: operator", problem)


def _picks(term: Term, node: Node) -> bool:
    if term.errors:
        return False
    labels = node.metadata.labels or {}
    return all(_holds_on_node(requirement, labels) for requirement in term.labels) and all(
        (node.metadata.name == name.name) is name.is_equal for name in term.names
    )


def _holds_on_node(requirement: LabelRequirement, labels: Labels) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case Operator.IN:
            return value in requirement.values
        case Operator.NOT_IN:
            return value not in requirement.values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
        case Operator.GREATER | Operator.LESS:
            number = parse_int64(value) if value is not None else None
            if number is None:
                return False
            if requirement.operator is Operator.GREATER:
                return number > requirement.bound
            return number < requirement.bound
        case _:
            assert_never(requirement.operator)
