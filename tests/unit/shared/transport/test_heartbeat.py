"""The page that a child and its supervisor share."""

import asyncio
import os

import pytest

from shared.errors import ConfigurationError
from shared.transport.heartbeat import Heartbeat


def test_what_the_child_says_is_seen_and_outlives_it() -> None:
    seen, fd = Heartbeat.made()
    child = Heartbeat(fd)
    assert (seen.count, seen.in_hand) == (0, 0)
    child.beat(in_hand=2**40)
    child.beat(in_hand=2**41)
    del child
    assert (seen.count, seen.in_hand) == (2, 2**41)


def test_a_turn_without_anything_in_hand_says_so() -> None:
    heartbeat = Heartbeat()
    heartbeat.beat(in_hand=7)
    heartbeat.beat()
    assert heartbeat.in_hand == 0


def test_an_event_loop_beats() -> None:
    async def run() -> int:
        heartbeat = Heartbeat()
        heartbeat.keep(asyncio.get_running_loop())
        return heartbeat.count

    assert asyncio.run(run()) == 1


def test_a_descriptor_that_is_no_page_is_refused() -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(ConfigurationError, match=f"--heartbeat-fd {reading}"):
            Heartbeat(reading)
    finally:
        os.close(reading)
        os.close(writing)
