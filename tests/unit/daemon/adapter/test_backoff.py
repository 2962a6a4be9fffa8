"""Delays after failures."""

import random

from daemon.adapter.kind_watch import FIRST_S, MAX_S, pause_s


def test_delays_double_up_to_a_bound_with_jitter() -> None:
    rng = random.Random(1)
    delays = [pause_s(failures_before, rng) for failures_before in range(50)]
    for number, delay_s in enumerate(delays):
        step_s = min(MAX_S, FIRST_S * 2**number)
        assert step_s / 2 <= delay_s <= step_s
    assert len(set(delays)) == len(delays)


def test_the_same_seed_gives_the_same_delays() -> None:
    one, other = random.Random("7/pods"), random.Random("7/pods")
    assert [pause_s(n, one) for n in range(9)] == [pause_s(n, other) for n in range(9)]


def test_it_never_overflows() -> None:
    rng = random.Random(1)
    for failures_before in range(5000):
        assert pause_s(failures_before, rng) <= MAX_S
