"""What `clientConnection` comes to in each binder."""

import pytest

from shared.rate_limit import RateLimit
from workers.binder.binder_assembly import BURST, RECORDS_BURST, RECORDS_PER_S, limits_of


def waits(rate: RateLimit | None, count: int) -> list[float]:
    assert rate is not None
    return [rate.reserve(0.0) for _ in range(count)]


def test_without_a_setting_only_conditions_and_events_are_limited() -> None:
    bindings, records = limits_of(0.0, 0, 1)
    assert bindings is None
    first_late = waits(records, RECORDS_BURST + 1)[-1]
    assert first_late == pytest.approx(1 / RECORDS_PER_S)


def test_bindings_have_a_limit_of_their_own_and_the_pool_shares_it() -> None:
    limits = limits_of(100.0, 40, 2)
    for rate in limits:
        assert waits(rate, 22) == pytest.approx([0.0] * 20 + [0.02, 0.04])


def test_a_rate_without_a_burst_has_kube_schedulers() -> None:
    for rate in limits_of(10.0, 0, 1):
        assert waits(rate, BURST + 1) == pytest.approx([0.0] * BURST + [0.1])


def test_a_negative_rate_lifts_every_limit() -> None:
    assert limits_of(-1.0, 10, 3) == (None, None)


def test_there_is_always_room_for_one() -> None:
    assert waits(limits_of(0.1, 0, 8)[1], 1) == [0.0]
