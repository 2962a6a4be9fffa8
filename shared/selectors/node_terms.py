"""Node selectors (nodeSelector, node affinity terms): parsed once, asked of single nodes.

Apart from `node_selector.py`, which asks whole columns, because a binder asks too, which has no
columns. A parsed selector keeps strings, not ids, so it stays right while dictionaries grow.

Rules: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go and
apimachinery's pkg/labels/selector.go, v1.36. Of a term that cannot be parsed (a Gt with "-5", an In
without values) upstream says that it matches nothing; who must refuse it looks at `errors`.
"""

import json
import re
from enum import Enum
from typing import Final, NamedTuple, assert_never

from shared.kube.api.core_v1_parts import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from shared.kube.api.meta_v1 import INT64_MAX, ObjectMeta

NAME_FIELD: Final = "metadata.name"
LABEL_VALUE_LENGTH_MAX: Final = 63
LABEL_VALUE: Final = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
NO_LABEL_VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character "
    "(e.g. 'MyValue',  or 'my_value',  or '12345', "
    f"regex used for validation is '{LABEL_VALUE}')"
)
_LABEL_VALUE: Final = re.compile(LABEL_VALUE, re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


class Operator(Enum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class LabelRequirement(NamedTuple):
    key: str
    operator: Operator
    values: tuple[str, ...]
    bound: int = 0
    """The number that Gt and Lt compare with."""


class NameRequirement(NamedTuple):
    """A requirement on metadata.name, the only field that can be selected by."""

    name: str
    is_equal: bool


class Term(NamedTuple):
    """All requirements must hold. With errors, the term matches nothing."""

    labels: tuple[LabelRequirement, ...]
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
    labels: list[LabelRequirement] = []
    names: list[NameRequirement] = []
    errors: list[str] = []
    for i, requirement in enumerate(term.match_expressions or ()):
        label = _parse_label(requirement)
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


def _parse_label(requirement: NodeSelectorRequirement) -> LabelRequirement | list[str]:
    """All that is wrong with it, where it is none."""
    values = tuple(requirement.values or ())
    try:
        operator = Operator(requirement.operator)
    except ValueError:
        known = ", ".join(o.value for o in Operator)
        return [f"operator: {requirement.operator!r} is not one of {known}"]
    is_number = operator in (Operator.GREATER, Operator.LESS)
    is_named = operator in (Operator.IN, Operator.NOT_IN)
    if is_number and len(values) != 1:
        return [f"values: {operator.value} needs exactly one"]
    if is_named and not values:
        return [f"values: {operator.value} needs at least one"]
    if values and not (is_number or is_named):
        return [f"values: {operator.value} takes none"]
    problems: list[str] = []
    bound = parse_int64(values[0]) if is_number else 0
    if bound is None:
        told = "for 'Gt', 'Lt' operators, the value must be an integer"
        problems.append(_invalid("values[0]", values[0], told))
    for i, value in enumerate(values):
        is_long = len(value.encode()) > LABEL_VALUE_LENGTH_MAX
        wrong = [f"must be no more than {LABEL_VALUE_LENGTH_MAX} bytes"] if is_long else []
        if _LABEL_VALUE.fullmatch(value) is None:
            wrong.append(NO_LABEL_VALUE)
        if wrong:
            path = f"values[{i}][{requirement.key}]"
            problems.append(_invalid(path, value, "; ".join(wrong)))
    return problems or LabelRequirement(requirement.key, operator, values, bound or 0)


def _invalid(path: str, value: str, told: str) -> str:
    """As upstream's field errors; the value as Go's %q shows letters that can be printed."""
    return f"{path}: Invalid value: {json.dumps(value, ensure_ascii=False)}: {told}"


def _parse_name(requirement: NodeSelectorRequirement) -> NameRequirement | str:
    values = requirement.values or ()
    if requirement.key != NAME_FIELD:
        return f"key: {requirement.key!r} is not {NAME_FIELD}, the only field there is"
    if requirement.operator not in ("In", "NotIn"):
        return f"operator: {requirement.operator!r} is not one of In, NotIn"
    if len(values) != 1:
        return "values: exactly one is needed"
    return NameRequirement(values[0], requirement.operator == "In")


def parse_int64(text: str) -> int | None:
    """As Go's strconv.ParseInt(text, 10, 64); None where that fails."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None


def selects_node(terms: Terms, node: ObjectMeta) -> bool:
    """Whether one of the terms picks a node that is in no table, by its metadata."""
    return any(_picks(term, node) for term in terms)


def _picks(term: Term, node: ObjectMeta) -> bool:
    if term.errors:
        return False
    labels = node.labels or {}
    return all(
        _holds(requirement, labels.get(requirement.key)) for requirement in term.labels
    ) and all((node.name == name.name) is name.is_equal for name in term.names)


def _holds(requirement: LabelRequirement, value: str | None) -> bool:
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
            number = parse_int64(value or "")
            if number is None:
                return False
            is_greater = requirement.operator is Operator.GREATER
            return number > requirement.bound if is_greater else number < requirement.bound
        case _:
            assert_never(requirement.operator)
