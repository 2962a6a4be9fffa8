"""CandidateSearch: on which nodes room could be made for a pod, tried in order until enough are found.

Nodes are asked about many at a time, and one by one only where their filters demand it. What is found,
and in which order, is as if all had been tried one after the other.
"""

from typing import Final

import numpy as np

from shared.columns.schema import Rows
from shared.engine.dry_runs import DryRuns
from shared.framework.post_filter import NO_CANDIDATES, Candidates, in_order, joined
from shared.plugins.preemption.potential_victims import PotentialVictims
from shared.plugins.preemption.victim_selector import VictimSelector

SIZE_MIN: Final = 32
"""Fewer nodes are not asked about at a time, where it is known of most what comes of it."""


class CandidateSearch:
    """One search for as many candidates as are `wanted`, one of them without violation."""

    def __init__(self, selector: VictimSelector, wanted: int) -> None:
        self._selector = selector
        self._wanted = wanted
        self._found: list[Candidates] = []
        self._keeping_count = 0
        """Candidates that violate no budget."""
        self._count = 0

    def candidates(self) -> Candidates:
        """In the order in which they were found."""
        return joined(self._found)

    def run(self, potential: Rows) -> None:
        """Tries nodes in order until enough candidates are found."""
        start, size = 0, max(self._wanted, 1)
        while start < len(potential) and not self._is_enough:
            victims = self._selector.potential(potential[start : start + size])
            if self._selector.looks_beyond:
                self._try_wide(victims)
            elif len(victims.rows):
                self._take(self._selector.select(victims))
            start += size
            size *= 2

    def run_with(self, dry_runs: DryRuns, potential: Rows) -> None:
        """As `run`, and only tries nodes of which it is not known what comes of that. Only where
        what is found of a node holds until it changes."""
        dry_runs.catch_up()
        start, size, growth = 0, max(self._wanted, 1), 1
        while start < len(potential) and not self._is_enough:
            rows = potential[start : start + size]
            unknown = dry_runs.unknown(rows)
            if len(unknown):
                victims = self._selector.potential(unknown)
                found = self._selector.select(victims) if len(victims.rows) else NO_CANDIDATES
                dry_runs.learn(unknown, found)
            self._take(dry_runs.candidates(rows))
            start += size
            growth *= 2
            size = max(self._wanted - self._count, SIZE_MIN) * growth

    def _try_wide(self, victims: PotentialVictims) -> None:
        """Nodes are asked about together where that can be done, the others one by one."""
        selector = self._selector
        victims = selector.pruned(victims)
        if not len(victims.rows):
            return
        if not selector.can_ask_apart:
            for position in range(len(victims.rows)):
                if not self._is_enough:
                    self._take(selector.select(victims.part(position, position + 1), is_alone=True))
            return
        has_nominated = selector.have_nominated(victims.rows)
        plain = victims.kept(~has_nominated)
        found = [selector.select(plain, are_apart=True)] if len(plain.rows) else []
        enough = self._enough_at(found[0]) if found else -1
        end = len(victims.rows)
        if enough >= 0:
            end = int(np.flatnonzero(victims.rows == found[0].rows[enough])[0])
        found += [
            selector.select(victims.part(position, position + 1), is_alone=True)
            for position in np.flatnonzero(has_nominated[:end]).tolist()
        ]
        self._take(in_order(found, victims.rows))

    @property
    def _is_enough(self) -> bool:
        return self._keeping_count > 0 and self._count >= self._wanted

    def _enough_at(self, found: Candidates) -> int:
        """Which of the candidates is the last one that is wanted; -1: more than these are."""
        keeping = self._keeping_count + np.cumsum(found.violations == 0)
        total = self._count + np.arange(1, len(found.rows) + 1)
        enough = np.flatnonzero((keeping > 0) & (total >= self._wanted))
        return int(enough[0]) if len(enough) else -1

    def _take(self, found: Candidates) -> None:
        """Adds to what was found, as much as is wanted."""
        if not len(found.rows):
            return
        enough = self._enough_at(found)
        if enough >= 0:
            found = found.first(enough + 1)
        self._keeping_count += int(np.count_nonzero(found.violations == 0))
        self._count += len(found.rows)
        self._found.append(found)
