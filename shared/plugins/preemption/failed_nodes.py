"""FailedNodes: the nodes where making room does not help, and why.

Who wants to know is mostly content with how many nodes there are for each reason; a search may find
thousands of them, so the verdicts themselves are made when somebody asks for them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, overload

import numpy as np

from shared.columns.schema import Rows
from shared.framework.runtime.diagnosis import filter_error, node_verdicts
from shared.framework.runtime.filter_outcomes import FilterOutcome, NodeVerdict
from shared.framework.runtime.framework import Framework
from shared.framework.status import Code, Status

NO_VICTIMS: Final = "No preemption victims found for incoming pod"


class FailedNodes(Sequence[NodeVerdict]):
    """In the order in which they were added."""

    def __init__(self) -> None:
        self._parts: list[Callable[[], list[NodeVerdict]]] = []
        self._made: list[NodeVerdict] | None = None
        self.errors: list[str] = []
        """What plugins failed with, in the order of the nodes here."""
        self._reasons: Counter[str] = Counter()
        self._size = 0

    def add(self, framework: Framework, filtered: FilterOutcome) -> None:
        """Nodes that the pod does not fit even without the others."""
        if not filtered.verdicts:
            return
        self._parts.append(lambda: node_verdicts(framework, filtered))
        for index, _, verdicts in filtered.verdicts:
            self._size += int(np.count_nonzero(verdicts.codes))
            self._reasons += verdicts.reason_counts()
            for at in (verdicts.codes == Code.ERROR).nonzero()[0].tolist():
                name = framework.filters[index].NAME
                self.errors.append(filter_error(name, verdicts.status(at, name).message))

    def add_without_victims(self, rows: Rows) -> None:
        """Nodes without a less important pod."""
        if not len(rows):
            return
        status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (NO_VICTIMS,))
        self._parts.append(lambda: [NodeVerdict(row, status) for row in rows.tolist()])
        self._reasons[NO_VICTIMS] += len(rows)
        self._size += len(rows)

    def add_error(self, row: int, text: str) -> None:
        """A node about which no answer was found."""
        self._parts.append(lambda: [NodeVerdict(row, Status(Code.ERROR, (text,)))])
        self.errors.append(text)
        self._reasons[text] += 1
        self._size += 1

    def reasons(self) -> Counter[str]:
        """How many nodes there are for each reason."""
        return self._reasons.copy()

    def _all(self) -> list[NodeVerdict]:
        if self._made is None:
            self._made = [verdict for part in self._parts for verdict in part()]
        return self._made

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> NodeVerdict: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[NodeVerdict]: ...

    def __getitem__(self, index: int | slice) -> NodeVerdict | Sequence[NodeVerdict]:
        return self._all()[index]
