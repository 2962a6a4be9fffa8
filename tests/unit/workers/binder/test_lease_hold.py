"""A binder writes only in the term in which its orders were decided."""

from pathlib import Path

import pytest

from bench.manual_clock import ManualClock
from shared.transport.lease_gate import GATE_NAME, LeaseGate
from workers.binder.fences import Fences


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def gate(tmp_path: Path, clock: ManualClock) -> LeaseGate:
    return LeaseGate(tmp_path / GATE_NAME, clock)


def test_without_an_election_everything_is_allowed() -> None:
    hold = Fences()
    assert hold.take(0)
    assert hold.may_write()
    assert not hold.has_lapsed()


def test_nothing_is_written_before_orders_of_the_open_term_came(gate: LeaseGate) -> None:
    hold = Fences(gate)
    term = gate.begin_term(1010.0)
    assert not hold.may_write()
    assert not hold.take(0), "of an owner that knows nothing of the lease"
    assert hold.take(term)
    assert hold.may_write()


def test_a_lapse_ends_it_and_is_told_once(gate: LeaseGate, clock: ManualClock) -> None:
    hold = Fences(gate)
    hold.take(gate.begin_term(1010.0))
    clock.advance(10.0)
    assert not hold.may_write()
    assert hold.has_lapsed()
    assert not hold.has_lapsed()


def test_orders_of_a_former_term_are_void_though_the_gate_is_open(gate: LeaseGate) -> None:
    hold = Fences(gate)
    old = gate.begin_term(1010.0)
    hold.take(old)
    gate.close()
    new = gate.begin_term(1010.0)
    assert not hold.may_write()
    assert not hold.take(old)
    assert hold.take(new)
    assert hold.may_write()
