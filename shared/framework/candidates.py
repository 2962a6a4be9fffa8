"""Candidates of a preemption: nodes, and the pods that would have to go there."""

from typing import Final, NamedTuple

import numpy as np

from shared.columns.schema import Int64s, Rows


class Candidate(NamedTuple):
    """A node on which the pod would fit if the victims were gone."""

    row: int
    victims: tuple[int, ...]
    """Rows of the pod table, the most important first; at least one."""
    pdb_violations: int


class Candidates(NamedTuple):
    """Many of them, as columns of shape (n,)."""

    rows: Rows
    violations: Int64s
    counts: Int64s
    """Victims of each."""
    victims: Rows
    """Of all, one node's after the other's."""

    def at(self, position: int) -> Candidate:
        first = int(self.counts[:position].sum())
        victims: list[int] = self.victims[first : first + int(self.counts[position])].tolist()
        return Candidate(int(self.rows[position]), tuple(victims), int(self.violations[position]))

    def first(self, count: int) -> "Candidates":
        """The first so many."""
        if count == len(self.rows):
            return self
        victim_count = int(self.counts[:count].sum())
        return Candidates(
            self.rows[:count],
            self.violations[:count],
            self.counts[:count],
            self.victims[:victim_count],
        )

    def all(self) -> list[Candidate]:
        return [self.at(position) for position in range(len(self.rows))]


NO_ROWS: Final[Rows] = np.zeros(0, np.intp)
_NO_COUNTS: Final[Int64s] = np.zeros(0, np.int64)
NO_CANDIDATES: Final = Candidates(NO_ROWS, _NO_COUNTS, _NO_COUNTS, NO_ROWS)


def in_order(parts: list[Candidates], rows: Rows) -> Candidates:
    """All of them, in the order in which `rows` names their nodes."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return NO_CANDIDATES
    found = Candidates(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    position = np.zeros(int(rows.max()) + 1, np.int64)
    position[rows] = np.arange(len(rows))
    order = np.argsort(position[found.rows])
    of_victim = np.repeat(position[found.rows], found.counts)
    return Candidates(
        found.rows[order],
        found.violations[order],
        found.counts[order],
        found.victims[np.argsort(of_victim, kind="stable")],
    )
