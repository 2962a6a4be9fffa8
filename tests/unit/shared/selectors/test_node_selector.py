"""Node selector terms over label columns, against plain Python over label dictionaries."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.columns.schema import Bools, Rows
from shared.columns.table import NodeTable
from shared.kube.api.core_v1_parts import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from shared.kube.api.meta_v1 import ObjectMeta
from shared.selectors import node_terms
from shared.selectors.node_selector import SelectedColumns, match_any
from shared.selectors.requirement import NO_LABEL_VALUE, parse_int64
from tests.support import slow_twins
from tests.support.builders import table_of

KEYS = ("zone", "disk", "absent")
VALUES = ("a", "b", "", "5", "05", "10", "9223372036854775807", "9223372036854775808", "x7")
NAMES = ("n0", "n1", "n2", "n3", "nobody")

LABELS = st.dictionaries(st.sampled_from(KEYS[:2]), st.sampled_from(VALUES))
CLUSTERS = st.lists(LABELS, min_size=1, max_size=4)

Expression = tuple[str, str, list[str]]
Field = tuple[str, str]


def matched(terms: node_terms.Terms, nodes: NodeTable, rows: Rows) -> Bools:
    return match_any(terms, SelectedColumns(nodes, rows))


@st.composite
def expressions(draw: st.DrawFn) -> Expression:
    key = draw(st.sampled_from(KEYS))
    operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")))
    if operator in ("In", "NotIn"):
        many = [str(i) for i in range(20)]  # More than are compared one by one.
        values = st.lists(st.sampled_from(VALUES), min_size=1, max_size=3)
        return key, operator, draw(st.one_of(values, st.just([*many, "b"])))
    if operator in ("Gt", "Lt"):
        return key, operator, [draw(st.sampled_from(("0", "5", "7", "9223372036854775807")))]
    return key, operator, []


FIELDS = st.tuples(st.sampled_from(("In", "NotIn")), st.sampled_from(NAMES))


def term_of(
    parts: Sequence[tuple[str, str, list[str] | None]], fields: list[Field]
) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=[
            NodeSelectorRequirement(key=k, operator=o, values=v) for k, o, v in parts
        ],
        match_fields=[
            NodeSelectorRequirement(key="metadata.name", operator=o, values=[name])
            for o, name in fields
        ],
    )


@given(
    CLUSTERS,
    st.lists(
        st.tuples(st.lists(expressions(), max_size=3), st.lists(FIELDS, max_size=2)), max_size=3
    ),
)
def test_a_node_matches_if_one_term_holds_as_a_whole(
    labels: list[dict[str, str]], terms: list[tuple[list[Expression], list[Field]]]
) -> None:
    nodes = table_of(labels)
    selector = NodeSelector(node_selector_terms=[term_of(*term) for term in terms])
    parsed = node_terms.parse_selector(selector)
    rows = np.arange(len(labels))
    got = matched(parsed, nodes, rows)
    wanted = [
        any(slow_twins.term_matches(f"n{row}", own, *term) for term in terms)
        for row, own in enumerate(labels)
    ]
    assert got.tolist() == wanted
    for row in rows.tolist():
        alone = np.array([row])
        assert matched(parsed, nodes, alone).tolist() == [wanted[row]]


@pytest.mark.parametrize("count", [1, 20])
def test_values_that_no_node_has_match_nothing(count: int) -> None:
    nodes = table_of([{}, {"zone": "a"}, {"zone": "b"}])
    unknown = [f"x{i}" for i in range(count)]
    for values, wanted in ((unknown, []), ([*unknown, "a"], [1]), (["a", *unknown, "b"], [1, 2])):
        for operator in ("In", "NotIn"):
            term = node_terms.parse_term(term_of([("zone", operator, values)], []), "t")
            got = np.flatnonzero(matched((term,), nodes, np.arange(3))).tolist()
            others = [row for row in range(3) if row not in wanted]
            assert got == (wanted if operator == "In" else others)


def test_many_nodes_with_many_values_compare_as_numbers() -> None:
    labels = [{"disk": str(i)} for i in range(40)] + [{"disk": "many"}, {}]
    nodes = table_of(labels)
    for operator, bound, wanted in (("Gt", "36", [37, 38, 39]), ("Lt", "2", [0, 1])):
        term = node_terms.parse_term(term_of([("disk", operator, [bound])], []), "t")
        got = matched((term,), nodes, np.arange(42))
        assert np.flatnonzero(got).tolist() == wanted
        assert matched((term,), nodes, np.array([41])).tolist() == [False], (
            "a missing label is none"
        )


def test_a_parsed_selector_sees_values_that_come_later() -> None:
    nodes = table_of([{"zone": "a"}])
    parsed = node_terms.parse_term(term_of([("zone", "In", ["new"])], []), "t")
    assert matched((parsed,), nodes, np.arange(1)).tolist() == [False]
    nodes.reserve(2)
    nodes.write_labels(np.array([1]), [{"zone": "new"}])
    assert matched((parsed,), nodes, np.arange(2)).tolist() == [False, True]


@pytest.mark.parametrize(
    ("operator", "values", "problem"),
    [
        ("Gt", ["-5"], 'values[0][zone]: Invalid value: "-5": a valid label must be'),
        ("Gt", ["5.0"], "must be an integer"),
        ("Lt", ["9223372036854775808"], "must be an integer"),
        (
            "Lt",
            ["1", "2"],
            """values: Invalid value: ["1","2"]: for 'Gt', 'Lt' operators, exactly one value is """
            "required",
        ),
        (
            "Gt",
            None,
            "values: Invalid value: null: for 'Gt', 'Lt' operators, exactly one value is required",
        ),
        (
            "In",
            None,
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            "NotIn",
            [],
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
        ("NotIn", ["a", "-"], 'values[1][zone]: Invalid value: "-": a valid label must be'),
        ("In", ["v" * 64], "must be no more than 63 bytes"),
        (
            "Exists",
            ["b", "a"],
            'values: Invalid value: ["b","a"]: values set must be empty for exists and does not exist',
        ),
        (
            "Near",
            ["a"],
            'operator: Unsupported value: "Near": supported values: "In", "NotIn", "Exists", '
            '"DoesNotExist", "Gt", "Lt"',
        ),
    ],
)
def test_a_term_that_makes_no_sense_matches_nothing_and_says_why(
    operator: str, values: list[str] | None, problem: str
) -> None:
    nodes = table_of([{"zone": "5"}])
    term = term_of([("absent", "DoesNotExist", []), ("zone", operator, values)], [])
    parsed = node_terms.parse_selector(NodeSelector(node_selector_terms=[term]), "required.")
    assert parsed[0].errors[0].startswith("required.nodeSelectorTerms[0].matchExpressions[1].")
    assert problem in parsed[0].errors[0]
    assert not matched(parsed, nodes, np.arange(1)).any()


def test_a_key_that_no_label_can_have_makes_the_term_unreadable() -> None:
    for key in ("", "a b", "Upper.Case/a", "a/b/c", "k" * 64):
        parsed = node_terms.parse_term(term_of([(key, "NotIn", ["v"])], []), "t")
        (problem,) = parsed.errors
        assert problem.startswith("t.matchExpressions[0].key: Invalid value: ")
        assert not matched((parsed,), table_of([{}]), np.arange(1)).any()


def test_all_that_is_wrong_with_a_number_is_told() -> None:
    term = term_of([("zone", "Gt", ["<&>", "+2", "3"])], [])
    assert node_terms.parse_term(term, "t").errors == (
        r't.matchExpressions[0].values: Invalid value: ["\u003c\u0026\u003e","+2","3"]: '
        "for 'Gt', 'Lt' operators, exactly one value is required",
        't.matchExpressions[0].values[0]: Invalid value: "<&>": '
        "for 'Gt', 'Lt' operators, the value must be an integer",
        f't.matchExpressions[0].values[0][zone]: Invalid value: "<&>": {NO_LABEL_VALUE}',
        f't.matchExpressions[0].values[1][zone]: Invalid value: "+2": {NO_LABEL_VALUE}',
    )


@pytest.mark.parametrize(
    ("key", "operator", "values", "problem"),
    [
        ("metadata.namespace", "In", ["a", "b"], "must have one element"),
        (
            "metadata.name",
            "Exists",
            [],
            'operator: Unsupported value: "Exists": supported values: "In", "NotIn"',
        ),
        (
            "metadata.name",
            "In",
            ["a", "b"],
            'values: Invalid value: ["a","b"]: must have one element',
        ),
        ("metadata.name", "NotIn", None, "values: Invalid value: null: must have one element"),
    ],
)
def test_fields_are_asked_for_one_value(
    key: str, operator: str, values: list[str] | None, problem: str
) -> None:
    requirement = NodeSelectorRequirement(key=key, operator=operator, values=values)
    parsed = node_terms.parse_term(NodeSelectorTerm(match_fields=[requirement]), "t")
    assert problem in parsed.errors[0]
    assert parsed.errors[0].startswith("t.matchFields[0].")


@pytest.mark.parametrize(
    ("operator", "value", "holds"),
    [("In", "", True), ("In", "a", False), ("NotIn", "", False), ("NotIn", "a", True)],
)
def test_a_field_that_nodes_do_not_have_is_empty(operator: str, value: str, holds: bool) -> None:
    requirement = NodeSelectorRequirement(
        key="metadata.namespace", operator=operator, values=[value]
    )
    parsed = node_terms.parse_term(NodeSelectorTerm(match_fields=[requirement]), "t")
    assert not parsed.errors
    assert matched((parsed,), table_of([{}, {}]), np.arange(2)).tolist() == [holds] * 2
    assert node_terms.selects_node((parsed,), ObjectMeta(name="n0")) is holds


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5), ("+5", 5), ("-5", -5), ("007", 7), ("", None), ("5 ", None), ("1_0", None),
     ("٣", None), ("0x5", None), ("-9223372036854775808", -(2**63)), ("-", None),
     ("-9223372036854775809", None), ("9" * 5000, None), ("-" + "0" * 5000 + "5", -5),
     ("0" * 5000, 0)],
)  # fmt: skip
def test_integers_are_read_as_go_reads_them(text: str, number: int | None) -> None:
    assert parse_int64(text) == number == slow_twins.go_int64(text)
