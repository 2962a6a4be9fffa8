"""The page that a child and its supervisor share."""

import asyncio
import contextlib
import os
import resource

import pytest

from shared.errors import ConfigurationError
from shared.transport.heartbeat import NOTE_BYTES_MAX, Heartbeat


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
        heartbeat.beat(in_hand=7)
        heartbeat.keep(asyncio.get_running_loop())
        assert heartbeat.in_hand == 7
        return heartbeat.count

    assert asyncio.run(run()) == 2


def test_a_descriptor_that_is_no_page_is_refused() -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(ConfigurationError, match=f"--heartbeat-fd {reading}"):
            Heartbeat(reading)
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("room", [0, 1, 2])
def test_without_descriptors_enough_none_is_kept(room: int) -> None:
    free = os.dup(0)
    os.close(free)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + room, hard))
    try:
        with contextlib.suppress(OSError):
            os.close(Heartbeat.made()[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert os.dup(0) == free
    os.close(free)


def test_a_note_is_read_whole_or_not_at_all() -> None:
    seen, fd = Heartbeat.made()
    child = Heartbeat(fd)
    assert seen.read_note() == (0, b"")
    child.write_note(b"a long note")
    first = seen.read_note()
    child.write_note(b"short")
    second = seen.read_note()
    assert first is not None
    assert second is not None
    assert (first[1], second[1]) == (b"a long note", b"short")
    assert first[0] != second[0]
    child.write_note(b"x" * (NOTE_BYTES_MAX + 1))
    assert seen.read_note() == second
    child._words[2] += 1  # In the middle of writing.
    assert seen.read_note() is None
