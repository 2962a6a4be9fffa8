"""What counts as a leak, and what does not."""

import os

import pytest

from bench.soak.memory import MIB, MemoryMeter, Sample, life_figures, slope
from daemon.supervisor.process_list import ProcessEntry, entry_of


def life(*mib: float, warm_up_s: float = 0.0, is_ours: bool = True) -> tuple[bool, float]:
    samples = [Sample(float(i), int(one * MIB), int(one * MIB)) for i, one in enumerate(mib)]
    figures = life_figures("owner", 1, samples, warm_up_s, is_ours=is_ours)
    return figures.has_grown, round(figures.growth, 3)


def test_a_process_that_grows_by_more_than_a_twentieth_leaks() -> None:
    assert life(*[100.0] * 10, *[106.0] * 10) == (True, 0.06)
    assert life(*[100.0] * 10, *[104.0] * 10) == (False, 0.04)


def test_what_comes_and_goes_is_no_leak() -> None:
    assert life(*[100.0, 200.0] * 10) == (False, 0.0)


def test_the_warm_up_does_not_count() -> None:
    grows = [10.0, 50.0, 90.0, 100.0]
    assert life(*grows, *[100.0] * 16, warm_up_s=4.0) == (False, 0.0)
    assert life(*grows, *[100.0] * 16, warm_up_s=0.0) == (False, 0.0)
    assert life(*[10.0] * 10, *[100.0] * 10, warm_up_s=0.0) == (True, 9.0)


def test_a_short_life_and_what_is_not_berth_are_not_judged() -> None:
    assert life(*[100.0] * 4, *[200.0] * 4) == (False, 1.0)
    assert life(*[100.0] * 10, *[200.0] * 10, is_ours=False) == (False, 1.0)


def test_of_lives_that_a_kill_cut_short_only_long_ones_are_judged() -> None:
    def judged(length: int) -> bool:
        samples = [Sample(float(i), 1, 1) for i in range(length)]
        return life_figures("owner", 1, samples, 5.0, 20.0, is_ours=True).is_judged

    assert not judged(25)
    assert judged(26)


@pytest.mark.parametrize(("minutes", "is_judged"), [(1, False), (4, True)])
def test_in_a_short_run_nobody_is_judged(minutes: int, is_judged: bool) -> None:
    meter = MemoryMeter()
    for second in range(0, 60 * minutes, 2):
        meter.sample([entry_of("own", os.getpid())], float(second))
    (figures,) = meter.figures(12.0 * minutes, frozenset())
    assert figures.is_judged == is_judged


def test_the_slope_is_that_of_the_line() -> None:
    assert slope([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]) == 2.0
    assert slope([(1.0, 5.0)]) == 0.0


def test_a_process_that_runs_is_measured_and_one_that_ended_is_not() -> None:
    meter = MemoryMeter()
    own = entry_of("own", os.getpid())
    other_life = ProcessEntry("other", os.getpid(), own.create_time_s - 5, 0)
    meter.sample([own, other_life, ProcessEntry("down", 0, 0.0, 1)], 1.0)
    assert list(meter.latest_mib()) == ["own"]
    assert meter.latest_mib()["own"] > 1
