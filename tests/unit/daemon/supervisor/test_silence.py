"""When a child is silent for too long."""

from daemon.supervisor.restart_policy import OWN_PAUSE_S, Silence, Use
from shared.limits import LOOK_PERIOD_S

BOUND_S = 20.0


class Watched:
    """A child that is looked at, as the supervisor does."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.count = 1
        self.use: Use | None = Use(cpu_s=3.0, is_waiting=False)
        self.silence = Silence(BOUND_S, self.now_s)

    def look(self, *, after_s: float = LOOK_PERIOD_S) -> bool:
        self.now_s += after_s
        return self.silence.look(self.count, self.now_s, lambda: self.use)

    def looks_until_it_hangs(self, *, cpu_s: float = 0.0, looks_max: int = 1000) -> int:
        for number in range(1, looks_max + 1):
            if self.use is not None:
                self.use = self.use._replace(cpu_s=self.use.cpu_s + cpu_s)
            if self.look():
                return number
        return 0


def test_one_that_sleeps_without_a_beat_hangs_after_the_bound() -> None:
    watched = Watched()
    assert watched.looks_until_it_hangs() == BOUND_S / LOOK_PERIOD_S + 1


def test_one_that_beats_never_hangs_and_is_not_measured() -> None:
    watched = Watched()
    for _ in range(1000):
        watched.count += 1
        watched.now_s += LOOK_PERIOD_S
        assert not watched.silence.look(watched.count, watched.now_s, never)


def never() -> Use:
    raise AssertionError


def test_a_beat_begins_the_count_anew() -> None:
    watched = Watched()
    looks = round(BOUND_S / LOOK_PERIOD_S)
    for _ in range(looks - 1):
        assert not watched.look()
    watched.count += 1
    assert watched.looks_until_it_hangs() == looks + 1


def test_one_that_is_starved_does_not_hang() -> None:
    watched = Watched()
    watched.use = Use(3.0, is_waiting=True)
    assert watched.looks_until_it_hangs(cpu_s=0.0) == 0


def test_of_one_that_works_the_time_counts_that_it_got() -> None:
    watched = Watched()
    watched.use = Use(3.0, is_waiting=True)
    # A fifth of the bound is nobody's to explain. Then an eighth of a core: eight times as long, but for
    # the first and the fourth look, which have nothing to compare with.
    free_looks = BOUND_S / 5 / LOOK_PERIOD_S
    looks = BOUND_S * 4 / 5 / 0.25
    assert watched.looks_until_it_hangs(cpu_s=0.25) == free_looks + looks + 2


def test_what_cannot_be_told_is_no_silence() -> None:
    watched = Watched()
    watched.use = None
    assert watched.looks_until_it_hangs() == 0
    watched.use = Use(3.0, is_waiting=False)
    assert watched.looks_until_it_hangs() > 0


def test_after_our_own_pause_everybody_begins_anew() -> None:
    watched = Watched()
    looks = round(BOUND_S / LOOK_PERIOD_S)
    for _ in range(looks):
        assert not watched.look()
    assert not watched.look(after_s=OWN_PAUSE_S + 3600)
    assert watched.looks_until_it_hangs() == looks
