"""What `clientConnection` comes to in each binder."""

import pytest

from workers.binder.binder_limits import RECORDS_BURST, RECORDS_PER_S, limits_of


def test_without_a_setting_only_conditions_and_events_are_limited() -> None:
    limits = limits_of(0.0, 0, 1)
    assert limits.bindings is None
    assert (limits.records_per_s, limits.records_burst) == (RECORDS_PER_S, RECORDS_BURST)


def test_bindings_have_a_limit_of_their_own_and_the_pool_shares_it() -> None:
    limits = limits_of(100.0, 40, 2)
    assert limits.bindings is not None
    waits = [limits.bindings.reserve(0.0) for _ in range(22)]
    assert waits == pytest.approx([0.0] * 20 + [0.02, 0.04])
    assert (limits.records_per_s, limits.records_burst) == (50.0, 20)


def test_a_negative_rate_lifts_every_limit() -> None:
    limits = limits_of(-1.0, 10, 3)
    assert limits.bindings is None
    assert limits.records_per_s == 0.0


def test_there_is_always_room_for_one() -> None:
    assert limits_of(0.1, 0, 8).records_burst == 1
