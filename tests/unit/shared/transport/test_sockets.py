"""Counting of damaged messages."""

import logging

import pytest

from shared.errors import FrameError
from shared.transport.sockets import DamageLog


def test_every_damage_is_counted_and_only_some_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    damage = DamageLog()
    with caplog.at_level(logging.WARNING):
        for number in range(1, 101):
            damage.add(FrameError(f"damage {number}"))
    assert damage.count == 100
    assert [r.getMessage() for r in caplog.records] == [
        f"message dropped ({n} so far): damage {n}" for n in (1, 2, 4, 8, 16, 32, 64)
    ]
