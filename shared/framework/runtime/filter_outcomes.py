"""What PreFilter, Filter and PreScore came to, as values.

Apart from the run of the extension points (`framework.py`), since those who look at results run nothing.
"""

from typing import Any, NamedTuple, Self

import numpy as np

from shared.columns.schema import Bools, Int64s, Rows
from shared.errors import OperationalError
from shared.framework.plugin_api import NormalizeScorePlugin, Reads, ScorePlugin, UpdatableScore
from shared.framework.status import Codes, Status, Verdicts


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


class FilterVerdicts(NamedTuple):
    """What one filter said; it may have been asked several times, about different rows."""

    filter_index: int
    rows: Rows
    verdicts: Verdicts

    def kept(self, is_kept: Bools) -> Self:
        """Of these of its rows."""
        if is_kept.all():
            return self
        codes, reasons, texts = self.verdicts
        verdicts = Verdicts(codes[is_kept], reasons[is_kept], texts)
        return self._replace(rows=self.rows[is_kept], verdicts=verdicts)


class FilterOutcome(NamedTuple):
    """What Filter said of `rows`; arrays of shape (n,)."""

    rows: Rows
    failed_by: Int64s
    """Index into the framework's filters of the first one that failed; -1 where all passed."""
    verdicts: list[FilterVerdicts]
    """Of the filters that had something against some row, in the order in which they ran."""

    @property
    def passes(self) -> Bools:
        passed: Bools = self.failed_by < 0
        return passed

    def overruled(self, rows: Rows) -> "FilterOutcome":
        """The same, as if these rows had been asked about as well and had all passed."""
        everywhere = np.union1d(self.rows, rows).astype(np.intp)
        failed_by = np.full(len(everywhere), -1, np.int64)
        failed_by[np.searchsorted(everywhere, self.rows)] = self.failed_by
        failed_by[np.isin(everywhere, rows)] = -1
        verdicts = [each.kept(~np.isin(each.rows, rows)) for each in self.verdicts]
        return FilterOutcome(everywhere, failed_by, verdicts)

    def refreshed(self, new: "FilterOutcome") -> "FilterOutcome":
        """The same, in which `new` says of its own rows what holds now; these are some of ours, which
        ascend. Verdicts that let a row pass are left out."""
        is_new = np.zeros(int(self.rows.max(initial=0)) + 1, np.bool_)
        is_new[new.rows] = True
        failed_by = self.failed_by.copy()
        failed_by[np.searchsorted(self.rows, new.rows)] = new.failed_by
        alike: dict[tuple[int, tuple[str, ...]], list[FilterVerdicts]] = {}
        for verdicts, are_old in ((self.verdicts, True), (new.verdicts, False)):
            for each in verdicts:
                is_kept = each.verdicts.codes != 0
                if are_old:
                    is_kept &= ~is_new[each.rows]
                if is_kept.any():
                    same = alike.setdefault((each.filter_index, each.verdicts.texts), [])
                    same.append(each.kept(is_kept))
        merged = [_merged(same) for same in alike.values()]
        merged.sort(key=lambda each: each.filter_index)
        return FilterOutcome(self.rows, failed_by, merged)

    def codes(self) -> Codes:
        """`Code` of the first filter that failed for each row, shape (n,); 0 where all passed."""
        codes = np.zeros(len(self.rows), np.uint8)
        at = np.full(int(self.rows.max(initial=0)) + 1, 0, np.intp)
        at[self.rows] = np.arange(len(self.rows))
        for _, seen, verdict in self.verdicts:
            failed = verdict.codes != 0
            codes[at[seen[failed]]] = verdict.codes[failed]
        return codes


class NodeVerdict(NamedTuple):
    """Why one node does not take the pod."""

    row: int
    status: Status


class ActiveScore(NamedTuple):
    """A score plugin that PreScore did not skip."""

    plugin: ScorePlugin
    weight: int
    state: Any
    normalizer: NormalizeScorePlugin | None
    """The same plugin, if it normalises."""
    follower: UpdatableScore | None
    """The same, if it can bring its state up to date."""


class PreparedScores(NamedTuple):
    """What PreScore said of a pod."""

    active: list[ActiveScore]
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


def _merged(same: list[FilterVerdicts]) -> FilterVerdicts:
    """Verdicts of one filter with the same texts, as one."""
    if len(same) == 1:
        return same[0]
    verdicts = Verdicts(
        np.concatenate([each.verdicts.codes for each in same]),
        np.concatenate([each.verdicts.reasons for each in same]),
        same[0].verdicts.texts,
    )
    rows = np.concatenate([each.rows for each in same])
    return FilterVerdicts(same[0].filter_index, rows, verdicts)
