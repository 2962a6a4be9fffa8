"""How much work the search of devices for one pod may be, over all nodes.

A claim is anybody's, and a search can be made to take for ever: by selectors, each within Kubernetes'
cost limit but asked of every device, or by combinations of devices that never fit. kube-scheduler
gives up after ten seconds a node. Here work is counted, so that the same search always ends at the
same place, and it is the attempt that ends.

What any sensible claim needs is free; it grows with the devices there are and takes microseconds each.
"""

from typing import Final

from shared.dra.errors import AllocationError

WORK_MAX: Final = 1_500_000
"""Beyond what is free; more than any one selector may cost. A unit is a unit of CEL's cost, up to
0.6 us, so this is about a second."""
FREE_COST: Final = 1_000
"""Of evaluating a selector for a device. Selectors of real classes and claims cost 5 to 50."""
FREE_STEPS: Final = 2_000
"""Devices tried on a node. A pod that takes the last devices of a node with 128 tries 128."""
STEP_WORK: Final = 12
"""A step takes about 5 us."""


class WorkError(AllocationError):
    """The search takes too long."""

    def __init__(self) -> None:
        super().__init__(
            f"timed out trying to allocate devices: more than {WORK_MAX} units of work; simplify the "
            "CEL selectors and constraints of the pod's claims"
        )


class Work:
    """What one attempt may still do."""

    __slots__ = ("_left", "cost_max")

    def __init__(self) -> None:
        self._left = WORK_MAX
        self.cost_max = FREE_COST + WORK_MAX
        """Of the next selector."""

    @property
    def is_over(self) -> bool:
        """Nothing further is to be searched, not even what would be free."""
        return self._left < 0

    def exhausted(self) -> WorkError:
        """The end of all work."""
        self._left, self.cost_max = -1, FREE_COST
        return WorkError()

    def add(self, work: int) -> None:
        """Raises WorkError where it is too much."""
        self._left -= work
        self.cost_max -= work
        if self._left < 0:
            raise self.exhausted()

    def add_evaluation(self, cost: int) -> None:
        """A selector was asked about a device."""
        if cost > FREE_COST:
            self.add(cost - FREE_COST)

    def add_step(self, number: int) -> None:
        """So many devices were tried on the node."""
        if number > FREE_STEPS:
            self.add(STEP_WORK)
