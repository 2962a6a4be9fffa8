"""The rules of the election, one by one."""

from daemon.leader.election import Election, Follow, LeaseRecord, Look, Write
from shared.runtime_options import LeaderElection

TIMES = LeaderElection(lease_duration_s=15.0, renew_deadline_s=10.0, retry_period_s=2.0)
WALL = "2026-01-01T00:00:00.000000Z"


def record(holder: str, *, duration_s: int = 15, renewed: str = "r", n: int = 3) -> LeaseRecord:
    return LeaseRecord(holder, duration_s, "a", renewed, n)


def leading(since_s: float = 100.0) -> Election:
    election = Election("me", TIMES)
    election.note_seen(None, since_s)
    step = election.next_step(since_s, WALL)
    assert isinstance(step, Write)
    election.note_written(step.record, since_s, since_s + 0.1)
    return election


def test_the_lease_is_read_before_anything_is_written() -> None:
    assert Election("me", TIMES).next_step(0.0, WALL) == Look()


def test_a_lease_that_does_not_exist_is_made() -> None:
    election = Election("me", TIMES)
    election.note_seen(None, 5.0)
    assert election.next_step(5.0, WALL) == Write(LeaseRecord("me", 15, WALL, WALL, 0))
    assert not election.leads(5.0)


def test_who_has_written_leads_from_when_the_write_was_sent() -> None:
    election = leading(100.0)
    assert election.leads(109.9)
    assert not election.leads(110.0)


def test_a_renewal_keeps_the_time_of_taking_and_the_count_of_transitions() -> None:
    election = Election("me", TIMES)
    election.note_seen(record("me"), 1.0)
    assert election.next_step(2.0, WALL) == Write(LeaseRecord("me", 15, "a", WALL, 3))


def test_a_lease_of_another_is_followed_until_it_has_not_changed_for_its_own_duration() -> None:
    election = Election("me", TIMES)
    election.note_seen(record("other", duration_s=30), 100.0)
    assert election.next_step(129.9, WALL) == Follow(130.0)
    # Read again, unchanged: the time runs on from when it was seen first.
    election.note_failed()
    election.note_seen(record("other", duration_s=30), 129.0)
    assert election.next_step(129.9, WALL) == Follow(130.0)
    assert election.next_step(130.0, WALL) == Write(LeaseRecord("me", 15, WALL, WALL, 4))


def test_a_renewed_lease_counts_anew() -> None:
    election = Election("me", TIMES)
    election.note_seen(record("other"), 100.0)
    election.note_failed()
    election.note_seen(record("other", renewed="later"), 114.0)
    assert election.next_step(128.0, WALL) == Follow(129.0)


def test_nobodys_clock_is_believed() -> None:
    election = Election("me", TIMES)
    election.note_seen(record("other", renewed="1999-01-01T00:00:00.000000Z"), 100.0)
    assert isinstance(election.next_step(101.0, WALL), Follow)


def test_a_lease_that_was_given_up_is_taken_at_once() -> None:
    election = Election("me", TIMES)
    election.note_seen(record("", duration_s=1), 100.0)
    assert election.next_step(100.0, WALL) == Write(LeaseRecord("me", 15, WALL, WALL, 4))


def test_after_a_failure_the_lease_is_read_again_and_what_was_held_is_held_until_its_end() -> None:
    election = leading(100.0)
    election.note_failed()
    assert election.next_step(102.0, WALL) == Look()
    assert election.leads(109.0)
    assert not election.leads(110.5)


def test_a_lease_that_shows_another_is_lost_at_once() -> None:
    election = leading(100.0)
    election.note_failed()
    election.note_seen(record("other"), 101.0)
    assert not election.leads(101.0)


def test_an_answer_that_came_after_the_deadline_gives_nothing() -> None:
    election = Election("me", TIMES)
    election.note_seen(None, 100.0)
    step = election.next_step(100.0, WALL)
    assert isinstance(step, Write)
    election.note_written(step.record, 100.0, 111.0)
    assert not election.leads(111.0)


def test_releasing_names_nobody_for_a_second() -> None:
    election = leading(100.0)
    assert election.release(WALL) == LeaseRecord("", 1, WALL, WALL, 0)
    assert not election.leads(100.2)


def test_a_lease_of_another_is_not_released() -> None:
    election = Election("me", TIMES)
    election.note_seen(record("other"), 100.0)
    assert election.release(WALL) is None


def test_a_restarted_process_inherits_what_its_predecessor_had() -> None:
    election = Election("me", TIMES, leads_until_s=107.0)
    assert election.leads(106.0)
    election.note_seen(record("me"), 103.0)
    assert isinstance(election.next_step(103.0, WALL), Write)
    assert election.leads(106.0)
