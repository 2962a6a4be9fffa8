"""CPU time and peak memory of the processes of a run, between two moments."""

from collections.abc import Sequence

from daemon.supervisor.process_list import ProcessEntry, measure
from shared.clock import Clock


class UseMeter:
    """Adds up what processes used while it was on, by name; a restarted one counts on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start_s: dict[tuple[str, int], float] = {}
        self.cpu_s: dict[str, float] = {}
        self.rss_peak_bytes: dict[str, int] = {}
        """Over a process's life so far."""

    def begin(self, entries: Sequence[ProcessEntry]) -> None:
        """CPU time counts from now on."""
        now_s = self._clock.wall_s()
        self._start_s = {(e.name, e.pid): measure(e, now_s).cpu_s for e in entries}

    def end(self, entries: Sequence[ProcessEntry]) -> None:
        """Until now. Twice in a row adds nothing."""
        self.look(entries)
        now_s = self._clock.wall_s()
        for entry in entries:
            since_s = self._start_s.get((entry.name, entry.pid), 0.0)
            used_s = max(0.0, measure(entry, now_s).cpu_s - since_s)
            self.cpu_s[entry.name] = self.cpu_s.get(entry.name, 0.0) + used_s
        self.begin(entries)

    def look(self, entries: Sequence[ProcessEntry]) -> None:
        """Only at the memory."""
        now_s = self._clock.wall_s()
        for entry in entries:
            peak = max(measure(entry, now_s).rss_peak_bytes, self.rss_peak_bytes.get(entry.name, 0))
            self.rss_peak_bytes[entry.name] = peak
