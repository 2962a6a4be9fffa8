"""A call that is asked for with several delays, on the event loop that a binder has."""

import asyncio
import time

import uvloop

from shared.soonest_call import SoonestCall


def called_after_s(*delays_s: float) -> float:
    """From when it was asked for with these delays, one after the other, to the call."""

    async def run() -> float:
        loop = asyncio.get_running_loop()
        called: asyncio.Future[float] = loop.create_future()
        soonest = SoonestCall(loop, lambda: called.set_result(time.monotonic()))
        begun_s = time.monotonic()
        for delay_s in delays_s:
            soonest.within(delay_s)
        after_s = await called - begun_s
        assert not soonest.is_to_come
        return after_s

    after_s: float = uvloop.run(run())
    return after_s


def test_it_never_comes_too_early_for_who_asks_the_time_again() -> None:
    early = [us for us in range(100, 3100, 150) if called_after_s(us / 1e6) < us / 1e6]
    assert early == []


def test_the_soonest_of_several_counts_whichever_was_asked_for_first() -> None:
    assert called_after_s(1000.0, 0.002, 500.0) >= 0.002


def test_without_a_delay_it_comes_at_once() -> None:
    assert called_after_s(1000.0, 0.0) >= 0.0
