"""The log of pods against a table of what was there."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.columns.journal import ENTRIES_MAX, PodLog, pod_code
from shared.columns.pod_table import NEVER_STARTED, PodTable
from shared.columns.schema import NO_NODE

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(("write", "clear", "write_rows", "clear_all")),
        st.integers(0, 5),  # Row.
        st.integers(1, 3),  # Class.
        st.integers(0, 2),  # Node.
        st.booleans(),  # Terminating.
    ),
    max_size=30,
)


def contents(*tables: PodTable) -> Counter[tuple[int, int, bool]]:
    return Counter(
        (
            table.class_id.item(row),
            table.node_row.item(row),
            table.is_terminating.item(row),
        )
        for table in tables
        for row in table.used_rows().tolist()
    )


def apply(table: PodTable, operation: tuple[str, int, int, int, bool]) -> None:
    what, row, class_id, node_row, is_terminating = operation
    table.reserve(row + 2)
    match what:
        case "write":
            table.write(row, class_id, node_row, NEVER_STARTED, is_terminating=is_terminating)
        case "clear":
            table.clear(row)
        case "write_rows":
            table.write_rows(
                np.array([row, row + 1], np.intp),
                np.array([class_id, class_id], np.int64),
                np.array([node_row, NO_NODE], np.int32),
                np.array([is_terminating, False]),
                np.array([0, 0], np.int64),
            )
        case _:
            assert what == "clear_all"
            table.clear_all()


@given(OPERATIONS, OPERATIONS)
def test_the_log_tells_the_difference_between_then_and_now(
    before: list[tuple[str, int, int, int, bool]], after: list[tuple[str, int, int, int, bool]]
) -> None:
    first = PodTable()
    second = PodTable(first.log)
    for number, operation in enumerate(before):
        apply((first, second)[number % 2], operation)
    then, position = contents(first, second), first.log.position
    for number, operation in enumerate(after):
        apply((first, second)[number % 2], operation)
    changes = first.log.since(position, 1000)
    assert changes is not None
    now = Counter(then)
    for class_id, node_row, is_terminating, difference in changes:
        assert difference, "what cancels out is no change"
        now[class_id, node_row, is_terminating] += difference
    assert +now == contents(first, second)
    assert -now == Counter()
    assert len({change[:3] for change in changes}) == len(changes)


def test_a_reader_who_is_too_far_behind_is_told_so() -> None:
    log = PodLog()
    for _ in range(10):
        log.append(pod_code(1, 1, False))
    assert log.since(0, 9) is None
    assert log.since(0, 10) == [(1, 1, False, 10)]
    for _ in range(ENTRIES_MAX):
        log.append(pod_code(1, 1, False))
    assert log.since(0, 1 << 30) is None
    assert log.since(log.position, 0) == []


def test_large_numbers_survive() -> None:
    log = PodLog()
    log.append(-pod_code((1 << 30) - 1, (1 << 32) - 1, True))
    columns = np.array([(1 << 30) - 1]), np.array([(1 << 31) - 1], np.int32), np.array([False])
    PodTable(log).write_rows(np.array([0]), *columns)
    assert log.since(0, 9) == [
        ((1 << 30) - 1, (1 << 32) - 1, True, -1),
        ((1 << 30) - 1, (1 << 31) - 1, False, 1),
    ]
