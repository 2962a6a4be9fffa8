"""How long a write that failed waits for its next try, and when there is none."""

import asyncio
from unittest.mock import patch

from shared.kube.api_errors import ConnectFailed, TooManyRequests
from tests.unit.workers.binder.fake_api import FakeTime
from workers.binder.retries import Patience, Retries

REFUSED = ConnectFailed("connection refused")
BUSY = TooManyRequests(429, "TooManyRequests", "later", 3.0)


def pauses(patience: Patience, *errors: Exception, spread: float = 1.0) -> tuple[list[float], bool]:
    """Those that were made, and whether each error was followed by one."""
    time = FakeTime()
    retries = Retries(patience, time.clock, spread)

    async def all_of_them() -> bool:
        return all([await retries.pause(error) for error in errors])

    with patch("workers.binder.retries.sleep", time.sleep):
        is_never_given_up = asyncio.run(all_of_them())
    assert retries.count == len(time.sleeps)
    return time.sleeps, is_never_given_up


def test_pauses_double_up_to_the_longest() -> None:
    assert pauses(Patience(0.5, 3.0), *[REFUSED] * 5) == ([0.5, 1.0, 2.0, 3.0, 3.0], True)


def test_no_number_of_failures_makes_a_pause_that_is_no_number() -> None:
    assert Patience(0.5, 30.0).pause(10_000, REFUSED) == 30.0


def test_there_is_an_end_by_number_or_by_time() -> None:
    assert pauses(Patience(1.0, 8.0, pauses_max=2), *[REFUSED] * 3) == ([1.0, 2.0], False)
    assert pauses(Patience(1.0, 8.0, total_s=6.0), *[REFUSED] * 3) == ([1.0, 2.0], False)


def test_the_time_that_the_server_wishes_is_kept_unless_it_is_beyond_ours() -> None:
    assert pauses(Patience(1.0, 2.0, total_s=6.0), BUSY, BUSY, BUSY) == ([3.0, 3.0], False)


def test_who_failed_together_comes_back_apart() -> None:
    assert pauses(Patience(1.0, 2.0), REFUSED, REFUSED, spread=0.75)[0] == [0.75, 1.5]
