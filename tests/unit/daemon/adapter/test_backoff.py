"""Delays after failures."""

import random

from daemon.adapter.kind_watch import FIRST_S, MAX_S, Backoff


def test_delays_double_up_to_a_bound_with_jitter() -> None:
    backoff = Backoff(random.Random(1))
    delays = [backoff.next_s() for _ in range(50)]
    for number, delay_s in enumerate(delays):
        step_s = min(MAX_S, FIRST_S * 2**number)
        assert step_s / 2 <= delay_s <= step_s
    assert len(set(delays)) == len(delays)


def test_progress_begins_anew() -> None:
    backoff = Backoff(random.Random(1))
    for _ in range(10):
        backoff.next_s()
    backoff.reset()
    assert backoff.next_s() <= FIRST_S


def test_the_same_seed_gives_the_same_delays() -> None:
    one, other = Backoff(random.Random("7/pods")), Backoff(random.Random("7/pods"))
    assert [one.next_s() for _ in range(9)] == [other.next_s() for _ in range(9)]


def test_it_never_overflows() -> None:
    backoff = Backoff(random.Random(1))
    for _ in range(5000):
        assert backoff.next_s() <= MAX_S
