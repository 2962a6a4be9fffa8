"""When a dead child is started again."""

from daemon.supervisor.restart_policy import (
    ATTEMPTS_MAX,
    DELAY_S_MAX,
    STABLE_S,
    Exit,
    GiveUp,
    exit_text,
    next_step,
)
from shared import exit_codes


def test_the_first_death_is_answered_at_once() -> None:
    assert next_step([Exit(-9, 3.0)]) == 0.0


def test_pauses_grow_with_each_quick_death_up_to_a_bound() -> None:
    exits = [Exit(1, 0.1)] * (ATTEMPTS_MAX - 1)
    steps = [next_step(exits[:count]) for count in range(1, len(exits) + 1)]
    pauses = [step for step in steps if isinstance(step, float)]
    assert pauses == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, DELAY_S_MAX]


def test_it_gives_up_after_too_many_quick_deaths_and_says_how_the_last_was() -> None:
    step = next_step([Exit(1, 0.1)] * (ATTEMPTS_MAX - 1) + [Exit(-11, 0.1)])
    assert isinstance(step, GiveUp)
    assert f"{ATTEMPTS_MAX} times in a row" in step.reason
    assert "signal 11" in step.reason


def test_a_child_that_ran_well_before_it_died_starts_a_new_story() -> None:
    exits = [Exit(1, 0.1)] * (ATTEMPTS_MAX - 1) + [Exit(1, STABLE_S)]
    assert next_step(exits) == 0.0
    assert next_step([*exits, Exit(1, 0.1)]) == 0.0
    assert next_step([*exits, Exit(1, 0.1), Exit(1, 0.1)]) == 0.5


def test_a_child_that_cannot_use_its_arguments_is_not_started_again() -> None:
    assert isinstance(next_step([Exit(exit_codes.UNUSABLE, 0.1)]), GiveUp)


def test_an_end_that_nobody_asked_for_counts_as_a_death_whatever_its_code() -> None:
    assert next_step([Exit(exit_codes.OK, 0.1)] * 2) == 0.5


def test_exit_codes_are_told_in_words() -> None:
    assert exit_text(-9) == "signal 9"
    assert exit_text(3) == "exit code 3"


def test_an_owner_that_lost_the_lease_begins_anew_at_once_and_has_not_died() -> None:
    lost = Exit(exit_codes.LEASE_LOST, 0.1)
    assert next_step([lost] * 20) == 0.0
    assert next_step([*[lost] * 20, Exit(1, 0.1)]) == 0.0


def test_an_optional_child_is_never_given_up() -> None:
    step = next_step([Exit(exit_codes.UNUSABLE, 0.1)] * 2000, is_optional=True)
    assert step == DELAY_S_MAX


def test_deaths_of_objects_have_pauses_but_are_no_reason_to_give_up() -> None:
    exits = [Exit(1, 0.1, is_of_an_object=True)] * (2 * ATTEMPTS_MAX)
    assert next_step(exits) == DELAY_S_MAX
    assert isinstance(next_step([*exits, *[Exit(1, 0.1)] * ATTEMPTS_MAX]), GiveUp)


def test_a_file_that_cannot_be_read_just_now_has_pauses_and_is_no_reason_to_give_up() -> None:
    exits = [Exit(exit_codes.FILE_UNUSABLE, 0.1)] * (2 * ATTEMPTS_MAX)
    assert next_step(exits[:1]) == 0.0
    assert next_step(exits) == DELAY_S_MAX
    assert isinstance(next_step([*exits, *[Exit(1, 0.1)] * ATTEMPTS_MAX]), GiveUp)
