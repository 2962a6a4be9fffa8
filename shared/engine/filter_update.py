"""What the filters said of all nodes, with a newer answer about some of them put in its place.

Apart from the run of the filters, which knows one moment only. Of a crowd of pods that fit nowhere,
each is told why, node by node; from one to the next the answers about a few nodes change.
"""

import numpy as np

from shared.columns.schema import Bools, Rows
from shared.framework.filter_outcomes import FilterOutcome, FilterVerdicts
from shared.framework.status import Verdicts


def rows_within(outdated: list[Rows], rows: Rows) -> Rows:
    """Those of the rows, which ascend, that are outdated, each once."""
    if not outdated or not len(rows):
        return rows[:0]
    once = np.unique(np.concatenate(outdated))
    at = np.minimum(np.searchsorted(rows, once), len(rows) - 1)
    within: Rows = once[rows[at] == once]
    return within


def refreshed(old: FilterOutcome, new: FilterOutcome) -> FilterOutcome:
    """`old`, in which `new` says of its own rows what holds now; these are rows of `old`, whose rows
    ascend. Verdicts that let a row pass are left out."""
    is_new = np.zeros(int(old.rows.max(initial=0)) + 1, np.bool_)
    is_new[new.rows] = True
    failed_by = old.failed_by.copy()
    failed_by[np.searchsorted(old.rows, new.rows)] = new.failed_by
    alike: dict[tuple[int, tuple[str, ...]], list[FilterVerdicts]] = {}
    for verdicts, are_old in ((old.verdicts, True), (new.verdicts, False)):
        for each in verdicts:
            is_kept = each.verdicts.codes != 0
            if are_old:
                is_kept &= ~is_new[each.rows]
            if is_kept.any():
                kept = _kept(each, is_kept)
                alike.setdefault((each.filter_index, each.verdicts.texts), []).append(kept)
    merged = [_merged(same) for same in alike.values()]
    merged.sort(key=lambda each: each.filter_index)
    return FilterOutcome(old.rows, failed_by, merged)


def _kept(each: FilterVerdicts, is_kept: Bools) -> FilterVerdicts:
    if is_kept.all():
        return each
    codes, reasons, texts = each.verdicts
    verdicts = Verdicts(codes[is_kept], reasons[is_kept], texts)
    return FilterVerdicts(each.filter_index, each.rows[is_kept], verdicts)


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
