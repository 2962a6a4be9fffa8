"""The lease gate: open for a time, in a term."""

from pathlib import Path

import pytest

from bench.manual_clock import ManualClock
from shared.transport.lease_gate import GATE_NAME, LeaseGate


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def gate(tmp_path: Path, clock: ManualClock) -> LeaseGate:
    return LeaseGate(tmp_path / GATE_NAME, clock)


def test_a_new_gate_is_closed(gate: LeaseGate) -> None:
    assert gate.open_term() == 0
    assert gate.lapsed_s() == 0.0


def test_it_closes_by_time_alone(gate: LeaseGate, clock: ManualClock) -> None:
    term = gate.begin_term(1010.0)
    assert gate.open_term() == term == 1
    clock.advance(9.9)
    assert gate.open_term() == term
    clock.advance(0.1)
    assert gate.open_term() == 0
    clock.advance(5.0)
    assert gate.lapsed_s() == pytest.approx(5.0)


def test_another_view_of_the_same_file_sees_it(
    gate: LeaseGate, clock: ManualClock, tmp_path: Path
) -> None:
    other = LeaseGate(tmp_path / GATE_NAME, clock)
    gate.begin_term(1010.0)
    assert other.open_term() == 1
    gate.extend(1020.0)
    clock.advance(15.0)
    assert other.open_term() == 1
    gate.close()
    assert other.open_term() == 0
    assert other.lapsed_s() == 0.0, "closed in order"


def test_every_term_has_a_number_of_its_own(gate: LeaseGate) -> None:
    first = gate.begin_term(1010.0)
    gate.close()
    assert gate.begin_term(1010.0) == first + 1


def test_the_number_survives_the_process(
    gate: LeaseGate, clock: ManualClock, tmp_path: Path
) -> None:
    gate.begin_term(1010.0)
    assert LeaseGate(tmp_path / GATE_NAME, clock).begin_term(1010.0) == 2


def test_numbers_begin_anew_without_ever_being_0(gate: LeaseGate) -> None:
    terms = {gate.begin_term(1010.0) for _ in range(1 << 20)}
    assert 0 not in terms
    assert len(terms) == (1 << 20) - 1


def test_the_file_of_the_gate_has_no_hole(tmp_path: Path) -> None:
    """On a disk that has become full, writing to one would end the process by a signal."""
    path = tmp_path / "gate"
    LeaseGate(path, ManualClock(0.0))
    assert path.stat().st_blocks > 0
