"""FailedNodes: the nodes where making room does not help, and why.

Who wants to know is mostly content with how many nodes there are for each reason; a search may find
thousands of them, so the verdicts themselves are made when somebody asks for them.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

import numpy as np

from shared.columns.schema import Rows
from shared.framework.runtime.diagnosis import filter_error, node_verdicts
from shared.framework.runtime.filter_outcomes import FilterOutcome, NodeVerdict
from shared.framework.runtime.framework import Framework
from shared.framework.status import Code, Status

NO_VICTIMS: Final = "No preemption victims found for incoming pod"


class FailedNodes:
    """Those of one search."""

    def __init__(self) -> None:
        self._parts: list[Callable[[], list[NodeVerdict]]] = []
        self.count = 0
        self.errors: list[str] = []
        """What plugins failed with, in the order of the nodes."""
        self.reasons: Counter[str] = Counter()
        """How many nodes there are for each reason."""

    def add(self, framework: Framework, filtered: FilterOutcome) -> None:
        """Nodes that the pod does not fit even without the others."""
        if not filtered.verdicts:
            return
        self._parts.append(lambda: node_verdicts(framework, filtered))
        for index, _, verdicts in filtered.verdicts:
            self.count += int(np.count_nonzero(verdicts.codes))
            self.reasons += verdicts.reason_counts()
            for at in (verdicts.codes == Code.ERROR).nonzero()[0].tolist():
                name = framework.filters[index].NAME
                self.errors.append(filter_error(name, verdicts.status(at, name).message))

    def add_without_victims(self, rows: Rows) -> None:
        """Nodes without a less important pod."""
        if not len(rows):
            return
        status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (NO_VICTIMS,))
        self._parts.append(lambda: [NodeVerdict(row, status) for row in rows.tolist()])
        self.reasons[NO_VICTIMS] += len(rows)
        self.count += len(rows)

    def add_error(self, row: int, text: str) -> None:
        """A node about which no answer was found."""
        self._parts.append(lambda: [NodeVerdict(row, Status(Code.ERROR, (text,)))])
        self.errors.append(text)
        self.reasons[text] += 1
        self.count += 1

    def verdicts(self) -> list[NodeVerdict]:
        """In the order in which the nodes were added."""
        return [verdict for part in self._parts for verdict in part()]
