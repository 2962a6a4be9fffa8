"""Turns on a core as they are asked of the kernel, in threads that end with the test."""

import ctypes
import os
import platform
import struct
import threading
from collections.abc import Callable

import pytest

from daemon.supervisor.time_slice import SLICE_NS, ask_for_short_turns

SCHED_ATTR = struct.Struct("=IIQiIQQQ")
SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}
KNOWS_SLICES = tuple(int(part) for part in platform.release().split(".")[:2]) >= (6, 12)

pytestmark = pytest.mark.skipif(
    not KNOWS_SLICES or platform.machine() not in SCHED_GETATTR,
    reason="slices of one's own are since Linux 6.12",
)


class Turns:
    """What the kernel says of the thread that makes this."""

    def __init__(self) -> None:
        told = ctypes.create_string_buffer(SCHED_ATTR.size)
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.syscall(SCHED_GETATTR[platform.machine()], 0, told, SCHED_ATTR.size, 0) == 0
        _, self.policy, _, self.nice, _, self.slice_ns, _, _ = SCHED_ATTR.unpack(told.raw)


def in_a_thread(act: Callable[[], Turns]) -> Turns:
    answers: list[Turns] = []
    thread = threading.Thread(target=lambda: answers.append(act()))
    thread.start()
    thread.join()
    (answer,) = answers
    return answer


def asked_and_started_another() -> Turns:
    ask_for_short_turns()
    return in_a_thread(Turns)


def test_what_is_started_after_asking_has_short_turns() -> None:
    before = in_a_thread(Turns)
    after = in_a_thread(asked_and_started_another)
    assert before.slice_ns > SLICE_NS
    assert after.slice_ns == SLICE_NS
    assert (after.policy, after.nice) == (before.policy, before.nice)


def test_a_policy_that_whoever_started_berth_chose_stays() -> None:
    def of_a_batch() -> Turns:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        before = Turns()
        ask_for_short_turns()
        after = Turns()
        assert after.slice_ns == before.slice_ns
        return after

    assert in_a_thread(of_a_batch).policy == os.SCHED_BATCH
