"""Values by class that are worked out once."""

from shared.columns import answer_table
from shared.columns.answer_table import ClassValues


def test_a_value_is_worked_out_once_and_outlives_its_class() -> None:
    asked: list[str] = []

    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    values = ClassValues(length, 0)
    assert values.learn([(1, "ab"), (2, "")]) == {1: 2}
    assert values.of(1, {}) == 2
    assert values.of(3, {3: "abc"}) == 3
    assert values.of(3, {}) == 3
    assert asked == ["ab", "", "abc"]


def test_a_class_that_is_gone_and_was_never_asked_for_is_nothing() -> None:
    values = ClassValues(len, 0)
    assert values.of(1, {}) == 0
    assert values.of(1, {1: "abc"}) == 3, "it was not remembered as nothing"


def test_of_many_classes_only_those_are_worked_out_that_may_be_something() -> None:
    asked: list[str] = []

    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    values = ClassValues(length, 0)
    values.learn([(1, "ab"), (2, "")])
    may_be = [(1, "ab"), (3, "abc"), (4, ""), (3, "abc"), (9, "of no matter now")]
    assert values.something_among({1, 2, 3, 4, 5}, lambda: may_be) == {1, 3}
    assert values.something_among({1, 3, 9}, list) == {1, 3}, "as they were counted, though gone"
    assert asked == ["ab", "", "abc", ""]


def test_too_many_classes_are_noticed() -> None:
    values = ClassValues(len, 0)
    values.learn((i, "x") for i in range(10))
    classes = dict.fromkeys(range(100, 100 + answer_table.REMEMBERED_MAX + 10), "")
    for class_id in classes:
        values.of(class_id, classes)
    assert not values.is_overgrown
    values.of(1 << 20, {1 << 20: "x"})
    assert values.is_overgrown
