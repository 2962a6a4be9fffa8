"""What PreFilter, Filter and PreScore came to, as values.

Apart from the run of the extension points (`framework.py`), since those who look at results run nothing.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from shared.columns.schema import Bools, Int64s, Rows
from shared.errors import OperationalError
from shared.framework.plugin_api import (
    NormalizeScorePlugin,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    UpdatableScore,
)
from shared.framework.status import Codes, Status


class PreFilterOutcome(NamedTuple):
    """What PreFilter said of a pod."""

    status: Status
    """SUCCESS, or the rejection (or error) that counts, with its plugin."""
    each: dict[str, Status]
    """Plugin -> its status, for those that ran."""
    states: dict[str, Any]
    node_names: frozenset[str] | None
    """The intersection of what the plugins narrowed the search to; None: all nodes."""
    narrowed_by: tuple[str, ...]
    """The plugins that narrowed it."""
    final: frozenset[str] = frozenset()
    """The plugins that will not change their mind about this pod, whatever happens."""


class Refuser(NamedTuple):
    """A filter that had something against some row, and the texts that bits of `reasons` stand for."""

    filter_index: int
    texts: tuple[str, ...]


class FilterOutcome(NamedTuple):
    """What Filter said of `rows`, which are distinct; arrays of shape (n,)."""

    rows: Rows
    refused_by: Int64s
    """Index into `refusers` of the first one that failed; -1 where all passed."""
    codes: Codes
    """`Code` of that; 0 where all passed."""
    reasons: Int64s
    """As of `Verdicts`, in its texts."""
    refusers: tuple[Refuser, ...]

    @property
    def passes(self) -> Bools:
        passed: Bools = self.codes == 0
        return passed

    @property
    def failed_by(self) -> Int64s:
        """Index into the framework's filters of the first one that failed; -1 where all passed."""
        return np.array([*(each.filter_index for each in self.refusers), -1])[self.refused_by]

    def reason_counts(self) -> Counter[str]:
        """How many rows each reason applies to."""
        counts: Counter[str] = Counter()
        for number, (_, texts) in enumerate(self.refusers):
            told = self.reasons[self.refused_by == number]
            for bit, text in enumerate(texts):
                counts[text] += int(np.count_nonzero(told >> bit & 1))
        return +counts


def told_of(rows: Rows, parts: Iterable[FilterOutcome]) -> FilterOutcome:
    """What the parts say of some of the rows each; a later one prevails, and who is in none passes."""
    place = np.zeros(int(rows.max(initial=0)) + 1, np.intp)
    place[rows] = np.arange(len(rows))
    refused_by = np.full(len(rows), -1, np.int64)
    codes, reasons = np.zeros(len(rows), np.uint8), np.zeros(len(rows), np.int64)
    refusers: dict[Refuser, int] = {}
    for part in parts:
        places = place[part.rows]
        numbers = [refusers.setdefault(each, len(refusers)) for each in part.refusers]
        refused_by[places] = np.array([*numbers, -1])[part.refused_by]
        codes[places], reasons[places] = part.codes, part.reasons
    return FilterOutcome(rows, refused_by, codes, reasons, tuple(refusers))


class NodeVerdict(NamedTuple):
    """Why one node does not take the pod."""

    row: int
    status: Status


class ScoringPlugin(NamedTuple):
    """A score plugin, and the same again for each other thing that it can do."""

    plugin: ScorePlugin
    weight: int
    """0: it takes part in PreScore alone."""
    state: Any
    """What its PreScore said of the pod."""
    normalizer: NormalizeScorePlugin | None
    follower: UpdatableScore | None
    """If it can bring its state up to date."""
    pre_scorer: PreScorePlugin | None


class PreparedScores(NamedTuple):
    """What PreScore said of a pod."""

    active: list[ScoringPlugin]
    """Those that did not skip it, with their state."""
    skipped_updatable: list[tuple[UpdatableScore, Any]]
    """Plugins that have no say and may come to have one, with their state."""
    stale_by: Reads
    """Changes after which PreScore would have to run again for those that cannot follow."""
    object_kinds: frozenset[str] | None
    """Kinds of objects of which a change makes PreScore run again; None: all."""


class PreScoreError(OperationalError):
    """A pod that cannot be rated; the attempt is an error and no refusal, its text the message."""

    def __init__(self, plugin: str, status: Status) -> None:
        super().__init__(f'running PreScore plugin "{plugin}": {status.message}')
