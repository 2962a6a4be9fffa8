"""PostFilter: what is tried for a pod that fits nowhere, and what may come of it.

Apart from the run of the other extension points because a plugin here is given everything, the
framework itself included: it asks what the filters would say if things were different. A search over
the nodes is the scorer's (`Preempt`), what it goes by the plugin's.

Rules: `RunPostFilterPlugins` in pkg/scheduler/framework/runtime/framework.go, v1.36.2.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, NamedTuple, Protocol

import numpy as np

from shared.columns.schema import NO_ROWS, Bools, Int64s, Rows
from shared.framework.runtime.plans import FilterOutcome, NodeVerdict
from shared.framework.runtime.prepared_pod import PreparedPod
from shared.framework.status import Code, Status


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

    def only(self, is_wanted: Bools) -> "Candidates":
        if is_wanted.all():
            return self
        return self.picked(is_wanted, np.repeat(is_wanted, self.counts))

    def picked(self, which: Bools | Rows, whose: Bools | Rows) -> "Candidates":
        """By place in the columns of rows, and `whose` in that of victims."""
        rows, violations, counts, victims = self
        return Candidates(rows[which], violations[which], counts[which], victims[whose])

    def all(self) -> list[Candidate]:
        return [self.at(position) for position in range(len(self.rows))]


_NO_COUNTS: Final[Int64s] = np.zeros(0, np.int64)
NO_CANDIDATES: Final = Candidates(NO_ROWS, _NO_COUNTS, _NO_COUNTS, NO_ROWS)


def joined(parts: list[Candidates]) -> Candidates:
    """All of them, one part after the other."""
    if not parts:
        return NO_CANDIDATES
    return Candidates(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def in_order(parts: list[Candidates], rows: Rows) -> Candidates:
    """All of them, in the order in which `rows` names their nodes."""
    found = joined(parts)
    if len(parts) <= 1:
        return found
    position = np.zeros(int(rows.max()) + 1, np.int64)
    position[rows] = np.arange(len(rows))
    place = position[found.rows]
    of_victims = np.repeat(place, found.counts)
    return found.picked(np.argsort(place), np.argsort(of_victims, kind="stable"))


class Preemption(NamedTuple):
    """What preemption came to."""

    status: Status
    """Success: `best` is to be carried out. Otherwise why not, as PostFilter reports it."""
    ineligible_reason: str = ""
    potential: Rows = NO_ROWS
    """Nodes that were worth a try, in the order of trying."""
    candidates: Candidates = NO_CANDIDATES
    failed: Callable[[], Sequence[NodeVerdict]] = tuple
    """Asked for by few: nodes where it does not help, and why; where it helps on some node, those that
    were tried now."""
    best: Candidate | None = None
    tied: tuple[int, ...] = ()
    """Rows of the candidates as good as the best, if there are several."""
    ends_nomination: bool = False
    """Nothing helps: what the pod was nominated to is void as well."""
    is_open: bool = False
    """Nothing helps as long as this scorer's own placements cannot be victims; with them gone it
    would: to be asked again once the owner has confirmed them."""


Preempt = Callable[["FailedAttempt", Callable[[int], int]], Preemption]
"""Searches the nodes for the best way to make room. What it is given beside the attempt says of how many
nodes are worth a try after how many candidates the search may end."""


class FailedAttempt(NamedTuple):
    """A pod that fits nowhere, and how that came out."""

    pod: PreparedPod
    filtered: FilterOutcome
    """What the filters said of all candidate nodes; of none, where PreFilter rejected the pod."""
    preempt: Preempt
    refused: Rows = NO_ROWS
    """Nodes that pass the filters, and were refused by an extender for a reason that may go."""
    forbidden: str = ""
    """Why nobody has to go for the pod, whatever it is; empty: somebody may."""


class PostFilterResult(NamedTuple):
    """Success: something was found that makes room; `preemption` says what."""

    status: Status
    preemption: Preemption | None = None
    freed_claims: tuple[str, ...] = ()
    """Keys of resource claims that nobody uses and whose devices the pod could use."""
    said_before: tuple[str, ...] = ()
    """What the plugins that were asked before had found in vain: it is told as well if this does not
    come about."""


class PostFilterPlugin(Protocol):
    """May find a way to make room. Asked for each pod that fits nowhere, with what PreFilter says of
    that pod alone; where all PostFilter plugins of the profile have `answers_for_class = True`, once for
    pods of a class in a batch for which nothing is found."""

    NAME: ClassVar[str]

    def post_filter(self, attempt: FailedAttempt) -> PostFilterResult: ...


def run_post_filters(
    plugins: Sequence[PostFilterPlugin], attempt: FailedAttempt
) -> PostFilterResult:
    """Asks in order, until one succeeds or fails; what the others said is collected."""
    preemption: Preemption | None = None
    reasons: list[str] = []
    rejected_by = ""
    freed: tuple[str, ...] = ()
    for plugin in plugins:
        result = plugin.post_filter(attempt)
        status = result.status
        preemption = result.preemption or preemption
        freed += result.freed_claims
        if status.is_success:
            return PostFilterResult(status, result.preemption, freed, tuple(reasons))
        if status.code is not Code.UNSCHEDULABLE:
            return PostFilterResult(status._replace(plugin=plugin.NAME), preemption, freed)
        reasons += status.reasons
        rejected_by = rejected_by or plugin.NAME
    status = Status(Code.UNSCHEDULABLE, tuple(reasons), rejected_by)
    return PostFilterResult(status, preemption, freed)
