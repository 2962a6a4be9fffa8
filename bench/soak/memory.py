"""Does a process's memory grow? Samples of each life of each process, and what they say.

What counts is the memory that is the process's own (USS): pages that it shares with others are neither
its growth nor its fault. After the warm-up the time is cut in two halves; the most that was seen in the
second may be a little more than the most of the first, and no more.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
import psutil

from daemon.supervisor.process_list import ProcessEntry

GROWTH_MAX: Final = 0.05
SAMPLES_LEAST: Final = 10
"""Fewer say nothing: the process lived too short after the warm-up."""
LIFE_S_LEAST: Final = 120.0
"""After its warm-up. In less, with processes killed beside it, caches still fill."""
MIB: Final = 2.0**20


class Sample(NamedTuple):
    at_s: float
    uss_bytes: int
    pss_bytes: int


class MemoryFigures(msgspec.Struct, frozen=True):
    """One life of a process."""

    process: str
    pid: int
    sample_count: int
    """After the warm-up."""
    first_half_mib: float
    """The most own memory (USS) in the first half of the time after the warm-up."""
    second_half_mib: float
    pss_mib: float
    """The most, shared pages counted by their share."""
    slope_mib_per_hour: float
    is_judged: bool
    """Its life was long enough, and it is one of berth's."""

    @property
    def growth(self) -> float:
        """Share by which the second half's most is above the first's."""
        return self.second_half_mib / self.first_half_mib - 1 if self.first_half_mib else 0.0

    @property
    def has_grown(self) -> bool:
        return self.is_judged and self.growth > GROWTH_MAX


class MemoryMeter:
    """Takes samples."""

    def __init__(self) -> None:
        self._samples: dict[tuple[str, int], list[Sample]] = {}

    def sample(self, entries: Iterable[ProcessEntry], now_s: float) -> None:
        """Looks at each process that runs."""
        for entry in entries:
            if not entry.pid:
                continue
            try:
                process = psutil.Process(entry.pid)
                if process.create_time() != entry.create_time_s:
                    continue
                memory = process.memory_full_info()
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            taken = Sample(now_s, memory.uss, memory.pss)
            self._samples.setdefault((entry.name, entry.pid), []).append(taken)

    def latest_mib(self) -> dict[str, float]:
        """Process -> own memory at the last look."""
        return {name: taken[-1].uss_bytes / MIB for (name, _), taken in self._samples.items()}

    def figures(self, warm_up_s: float, not_judged: frozenset[str]) -> list[MemoryFigures]:
        """Of each life. A life that begins later warms up as long as the first ones did, and is judged
        only if it lasted half as long as one may, and LIFE_S_LEAST: in one cut short by a kill, caches
        still fill."""
        start_s = min((taken[0].at_s for taken in self._samples.values()), default=0.0)
        end_s = max((taken[-1].at_s for taken in self._samples.values()), default=0.0)
        least_s = max(LIFE_S_LEAST, (end_s - start_s - warm_up_s) / 2)
        return [
            life_figures(name, pid, taken, warm_up_s, least_s, is_ours=name not in not_judged)
            for (name, pid), taken in self._samples.items()
            if taken[-1].at_s >= start_s + warm_up_s
        ]


def life_figures(
    name: str,
    pid: int,
    samples: Sequence[Sample],
    warm_up_s: float,
    least_s: float = 0.0,
    *,
    is_ours: bool,
) -> MemoryFigures:
    """What one life's samples say; `least_s`: a shorter one, without its warm-up, is not judged."""
    warm_s = samples[0].at_s + warm_up_s
    warm = [one for one in samples if one.at_s >= warm_s]
    is_long = len(warm) >= SAMPLES_LEAST and warm[-1].at_s - warm[0].at_s >= least_s
    middle = len(warm) // 2
    first = max((one.uss_bytes for one in warm[:middle]), default=0)
    second = max((one.uss_bytes for one in warm[middle:]), default=0)
    return MemoryFigures(
        process=name,
        pid=pid,
        sample_count=len(warm),
        first_half_mib=first / MIB,
        second_half_mib=second / MIB,
        pss_mib=max((one.pss_bytes for one in samples), default=0) / MIB,
        slope_mib_per_hour=slope([(one.at_s, one.uss_bytes / MIB) for one in warm]) * 3600,
        is_judged=is_ours and is_long,
    )


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the straight line through the points that fits best (least squares)."""
    if len(points) < 2:
        return 0.0
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
