"""The token bucket."""

import pytest

from shared.rate_limit import RateLimit


def test_a_burst_then_the_rate() -> None:
    limit = RateLimit(per_s=10.0, burst=3)
    waits = [limit.reserve(100.0) for _ in range(5)]
    assert waits == pytest.approx([0.0, 0.0, 0.0, 0.1, 0.2])
    # Two have been promised a place; the next comes after them.
    assert limit.wait_s(100.2) == pytest.approx(0.1)


def test_a_pause_fills_the_bucket_and_not_more() -> None:
    limit = RateLimit(per_s=10.0, burst=2)
    for _ in range(2):
        limit.reserve(0.0)
    assert limit.wait_s(0.1) == 0.0
    assert [limit.reserve(1000.0) for _ in range(3)] == pytest.approx([0.0, 0.0, 0.1])


def test_over_a_long_time_the_rate_is_kept() -> None:
    limit = RateLimit(per_s=50.0, burst=100)
    now_s = 7.0
    for _ in range(1100):
        now_s += limit.reserve(now_s)
    assert now_s == pytest.approx(7.0 + 1000 / 50.0)
