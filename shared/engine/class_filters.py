"""ClassFilters: which nodes take the pods of one class, kept up to date.

Filters fall into three groups by what they depend on. *Fixed* ones read what only an edited Node
changes; *moving* ones read what a placement changes on the row itself; *wide* ones look at pods
elsewhere. A placement asks the moving filters again about its row, and each wide filter about the
rows that it names itself (`UpdatableFilter`), usually few or none. A wide filter that cannot name
them makes the caller start afresh.

Where only a few rows are ever asked about (`passing`), what the fixed filters say of these is all that
is kept; the arrays are filled when somebody wants to know of all rows (`fill`).
"""

from typing import Final, NamedTuple

import numpy as np

from shared.columns.rows import parts_of, row_index, rows_where
from shared.columns.schema import NO_NODE, NO_ROWS, Bools, Rows
from shared.engine.row_states import RowStates
from shared.framework.plugin_api import Delta
from shared.framework.runtime.prepared_pod import PreparedPod, passing_with_nominated

FEW_ROWS: Final = 16
"""Up to so many rows a set is cheaper than a mask."""
ROWS_LIKE_ONE_CALL: Final = 256
"""A call of all fixed filters costs about 25 us, and about 0.1 us for each further row."""
_NOTHING: Final[Bools] = np.zeros(0, np.bool_)


class Refiltered(NamedTuple):
    """What an update of the filters touched."""

    rows: Rows
    """Rows that were filtered again; perhaps several times the same."""
    flipped: Rows
    """Rows, distinct, that take the pod now and did not, or the other way round."""


NOTHING_REFILTERED: Final = Refiltered(NO_ROWS, NO_ROWS)


class ClassFilters:
    """Arrays have the table's capacity."""

    def __init__(self, pod: PreparedPod) -> None:
        self.pod = pod
        """Who is asked about; another one takes its place if plugins say the same of it."""
        self._cluster = cluster = pod.cluster
        self._fixed, self.moving, self._wide = pod.plan.groups
        """Indices of the framework's filters."""
        self._changing = self.moving + self._wide
        self.updatable = pod.framework.updatable_filters(pod.outcome)
        """The plugins that follow changes, with their state."""
        self.static_ok: Bools = np.zeros(cluster.nodes.capacity, np.bool_)
        """Passes the fixed filters."""
        self._known: Bools | None = np.zeros(cluster.nodes.capacity, np.bool_)
        """Rows of which that is known; None: of all, and the other arrays are filled."""
        self._asked_count = 0
        """Calls of the fixed filters since they were last asked about all rows."""
        self.moving_ok: Bools = _NOTHING
        """Passes these and the moving ones."""
        self.wide_ok: Bools = _NOTHING
        """Passes the wide ones; True wherever nobody asked them."""
        self.feasible: Bools = _NOTHING
        """Passes all, with and without nominated pods."""
        self.feasible_count = 0

    @property
    def is_whole(self) -> bool:
        """All rows are known."""
        return self._known is None

    def passing(self, rows: Rows, own_uid: str = "") -> Bools:
        """Shape (n,): the pod may be placed on the row. Rows must be distinct. `own_uid` names a pod
        that is nominated itself."""
        if not self.pod.outcome.status.is_success:
            return np.zeros(len(rows), np.bool_)
        if self._known is not None:
            unknown = rows[~self._known[rows]]
            if len(unknown):
                self._learn(self._known, unknown)
        passes = self.static_ok[rows]
        if np.count_nonzero(passes):
            if self._changing:
                passes &= self.pod.passing_of(self._changing, rows)
            pod = self.pod._replace(own_uid=own_uid) if own_uid else self.pod
            passes = passing_with_nominated(pod, rows, passes)
        return passes

    def _learn(self, known: Bools, rows: Rows) -> None:
        """Asks the fixed filters about `rows`; about all that are left once so many calls were made
        that one about all is cheaper."""
        present = self._cluster.nodes.present
        self._asked_count += 1
        if self._asked_count > len(present) // ROWS_LIKE_ONE_CALL:
            self._asked_count = 0
            wanted = present & ~known
            wanted[rows] = True
            rows = rows_where(wanted)
        self._ask_fixed(rows)
        if self.pod.outcome.node_names is not None:
            self.static_ok[rows] &= np.isin(rows, self.pod.candidate_rows())
        known[rows] = True

    def fill(self, states: RowStates) -> None:
        """Asks about all rows."""
        capacity = self._cluster.nodes.capacity
        self._known = None
        self.moving_ok = np.zeros(capacity, np.bool_)
        self.wide_ok = np.ones(capacity, np.bool_)
        self.feasible = np.zeros(capacity, np.bool_)
        if not self.pod.outcome.status.is_success:
            return
        rows = self.pod.candidate_rows()
        fixed = [self.pod.passing_of(self._fixed, rows[part]) for part in parts_of(len(rows))]
        rows = _picked(rows, np.concatenate(fixed)) if fixed else rows
        self.static_ok[row_index(rows)] = True
        passes = states.passing(self.pod, self.moving, rows)
        rows = _picked(rows, passes)
        self.moving_ok[row_index(rows)] = True
        if self._wide:
            all_rows = np.flatnonzero(self.static_ok)
            self.wide_ok[all_rows] = self.pod.passing_of(self._wide, all_rows)
            rows = _picked(rows, self.wide_ok[rows])
        rows = _picked(rows, passing_with_nominated(self.pod, rows, np.ones(len(rows), np.bool_)))
        self.feasible[row_index(rows)] = True
        self.feasible_count = len(rows)

    def update(self, usage_rows: Rows, delta: Delta) -> Refiltered | None:
        """Brings all arrays up to date; None where that takes a new start."""
        touched = self._update_wide(delta)
        if touched is None:
            return None
        if self._known is not None:
            self._known[delta.node_rows] = False
            return NOTHING_REFILTERED
        if not self.pod.outcome.status.is_success:
            return NOTHING_REFILTERED
        rows = usage_rows
        if len(delta.node_rows):
            rows = np.union1d(usage_rows, delta.node_rows)
            self._ask_fixed(delta.node_rows)
            touched.append(delta.node_rows)
        passes = self.static_ok[rows]
        if np.count_nonzero(passes):
            passes &= self.pod.passing_of(self.moving, rows)
        self.moving_ok[rows] = passes
        return self._concluded(rows, passes, touched)

    def place(self, row: int, *, fits: bool, delta: Delta) -> Refiltered | None:
        """As `update` where a pod of this class came to `row`, of which it is known already what the
        moving filters say now: `fits`. `delta` may leave the pod out if no wide filter depends on it."""
        touched = self._update_wide(delta)
        if touched is None:
            return None
        self.moving_ok[row] = fits
        rows = np.array([row], np.intp)
        if touched or not self.wide_ok.item(row):
            return self._concluded(rows, np.array([fits]), touched)
        # As `_concluded` has it, for less: what nearly every pod comes to.
        if self.feasible.item(row) is fits:
            return Refiltered(rows, NO_ROWS)
        self.feasible[row] = fits
        self.feasible_count += 1 if fits else -1
        return Refiltered(rows, rows)

    def _concluded(self, rows: Rows, passes: Bools, touched: list[Rows]) -> Refiltered:
        """`rows` pass the moving filters, or do not; those of `touched` are to be asked the wide
        ones."""
        if self._wide:
            wide_rows = np.concatenate(touched) if touched else NO_ROWS
            if len(wide_rows):
                self.wide_ok[wide_rows] = self.pod.passing_of(self._wide, wide_rows)
                rows = np.concatenate((rows, wide_rows))
            if len(self._cluster.nominations):
                # Because of a pod elsewhere a wide filter may turn against a row that pods are
                # nominated to without turning against it as it is.
                waiting = self._cluster.nominations.node_row
                rows = np.concatenate((rows, waiting[waiting != NO_NODE]))
            passes = self.moving_ok[rows] & self.wide_ok[rows]
        passes = passing_with_nominated(self.pod, rows, passes)
        return Refiltered(rows, self._flip(rows, passes))

    def _update_wide(self, delta: Delta) -> list[Rows] | None:
        """Rows that the wide filters want to be asked about again."""
        touched: list[Rows] = []
        if not delta.pods and not len(delta.node_rows):
            return touched
        for plugin, state in self.updatable:
            rows = plugin.update_filter(state, self.pod.info, self._cluster, delta)
            if rows is None:
                return None
            if len(rows):
                touched.append(rows)
        return touched

    def _ask_fixed(self, rows: Rows) -> None:
        passes = self.pod.passing_of(self._fixed, rows)
        self.static_ok[rows] = passes & self._cluster.nodes.present[rows]

    def _flip(self, rows: Rows, passes: Bools) -> Rows:
        differs = self.feasible[rows] != passes
        if not np.count_nonzero(differs):
            return NO_ROWS
        self.feasible[rows] = passes
        flipped = self._distinct(rows[differs])
        gained = int(np.count_nonzero(self.feasible[flipped]))
        self.feasible_count += 2 * gained - len(flipped)
        return flipped

    def _distinct(self, rows: Rows) -> Rows:
        """Each row once. A filter may name rows that another one named as well."""
        if len(rows) <= FEW_ROWS:
            return np.array(sorted(set(rows.tolist())), np.intp)
        named = np.zeros(len(self.feasible), np.bool_)
        named[rows] = True
        return np.flatnonzero(named)


def _picked(rows: Rows, passes: Bools) -> Rows:
    return rows if passes.all() else rows[passes]
