"""Which objects a child has died of."""

from daemon.supervisor.restart_policy import LEFT_OUT_S, Deadly
from shared.limits import DEADLY_OBJECTS_MAX


def test_the_second_death_with_the_same_object_has_it_left_out() -> None:
    deadly = Deadly()
    for in_hand in (7, 8, 0, 0):
        deadly.add(in_hand, 1.0)
    assert deadly.left_out(1.0) == []
    deadly.add(7, 2.0)
    assert deadly.left_out(2.0) == [7]


def test_after_an_hour_it_is_tried_again_and_one_death_is_enough() -> None:
    deadly = Deadly()
    deadly.add(7, 0.0)
    deadly.add(7, 1.0)
    assert deadly.left_out(LEFT_OUT_S) == [7]
    later_s = LEFT_OUT_S + 1.0
    assert deadly.left_out(later_s) == []
    deadly.add(7, later_s)
    assert deadly.left_out(later_s) == [7]


def test_a_death_helps_where_an_object_was_in_hand_and_there_is_room_to_remember_it() -> None:
    deadly = Deadly()
    assert not deadly.add(0, 0.0)
    for number in range(1, DEADLY_OBJECTS_MAX + 1):
        assert deadly.add(number, 0.0)
    assert deadly.add(1, 1.0)
    assert not deadly.add(DEADLY_OBJECTS_MAX + 1, 2.0)
    for number in range(1, DEADLY_OBJECTS_MAX + 2):
        deadly.add(number, 3.0)
    assert len(deadly.left_out(3.0)) <= DEADLY_OBJECTS_MAX
