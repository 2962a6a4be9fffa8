"""Tables grow by themselves; what they hold goes on, what nobody wrote is unused."""

import numpy as np

from shared.columns.schema import Bools, Int32s, Int64s, Table


class Kept:
    is_there: Bools


class Sample(Table, Kept):
    place: Int32s
    amounts: Int64s

    def __init__(self) -> None:
        super().__init__(2, unused={"place": -1}, amounts=3)


def test_a_table_that_grows_keeps_what_it_holds() -> None:
    table = Sample()
    table.reserve(2)
    table.place[1], table.is_there[1], table.amounts[2, 1] = 7, True, 9
    table.reserve(5)
    assert (table.row_count, table.capacity) == (5, 8)
    assert table.place.tolist() == [-1, 7, *[-1] * 6]
    assert np.flatnonzero(table.is_there).tolist() == [1]
    assert table.amounts.shape == (3, 8)
    assert np.argwhere(table.amounts).tolist() == [[2, 1]]
    assert (table.place.dtype, table.is_there.dtype) == (np.int32, np.bool_)


def test_a_table_that_starts_over_holds_nothing() -> None:
    table = Sample()
    table.reserve(5)
    table.place[:], table.amounts[:] = 3, 3
    table.start_over(4)
    assert (table.row_count, table.capacity) == (0, 4)
    assert table.place.tolist() == [-1] * 4
    assert table.amounts.tolist() == [[0] * 4] * 3


def test_room_for_fewer_rows_changes_nothing() -> None:
    table = Sample()
    table.reserve(2)
    before = table.place
    table.reserve(1)
    assert table.row_count == 2
    assert table.place is before
