"""Taints and tolerations against plain Python."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.columns.answer_table import AnswerTable
from shared.columns.table import Interner
from shared.kube.api.core_v1_parts import Toleration
from shared.selectors.tolerations import is_repelled, tolerates, unwelcome_count
from tests.support import slow_twins

EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
TAINTS = st.lists(
    st.tuples(
        st.sampled_from(("a", "b")), st.sampled_from(("", "1", "2")), st.sampled_from(EFFECTS)
    ),
    max_size=4,
)
TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(("", "a", "b")),
            "operator": st.sampled_from(("", "Equal", "Exists", "Gt")),
            "value": st.sampled_from(("", "1", "2")),
            "effect": st.sampled_from(("", *EFFECTS)),
        }
    ),
    max_size=4,
)


def read(tolerations: list[dict[str, str]]) -> list[Toleration]:
    return msgspec.convert(tolerations, list[Toleration])


@given(TAINTS, TOLERATIONS)
def test_an_untolerated_hard_taint_repels(
    taints: list[slow_twins.Taint], tolerations: list[dict[str, str]]
) -> None:
    wanted = slow_twins.repelling_taint(taints, tolerations)
    assert is_repelled(tuple(taints), read(tolerations)) == wanted


@given(TAINTS, TOLERATIONS)
def test_soft_taints_count_when_no_soft_toleration_covers_them(
    taints: list[slow_twins.Taint], tolerations: list[dict[str, str]]
) -> None:
    wanted = slow_twins.unwelcome_taints(taints, tolerations)
    assert unwelcome_count(tuple(taints), read(tolerations)) == wanted


@pytest.mark.parametrize(
    ("operator", "bound", "value", "is_covered"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "-1", "-2", True),
        ("Lt", "5", "007", False),
        ("Gt", "05", "6", False),
        ("Gt", "5", "x", False),
        ("Gt", "5", "99999999999999999999", False),
        ("Gt", "9" * 5000, "6", False),
        ("Lt", "-" + "9" * 5000, "6", False),
    ],
)
def test_comparing_operators_count_only_with_their_gate(
    operator: str, bound: str, value: str, is_covered: bool
) -> None:
    taint = ("k", value, "NoSchedule")
    toleration = Toleration(key="k", operator=operator, value=bound)
    assert tolerates([toleration], taint, has_comparison=True) is is_covered
    assert not tolerates([toleration], taint)


def test_an_answer_table_answers_each_value_once_and_new_ones_later() -> None:
    asked: list[str] = []

    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    table = AnswerTable(length, np.int64)
    values = Interner(("", "a"))
    assert table.of(values, np.array([1, 0], np.int32)).tolist() == [1, 0]
    values.id_of("abc")
    assert table.of(values, np.arange(3, dtype=np.int32)).tolist() == [0, 1, 3]
    assert table.of(values, np.arange(3, dtype=np.int32)).tolist() == [0, 1, 3]
    assert asked == ["", "a", "abc"]
