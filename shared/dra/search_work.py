"""How much work the search of devices for one pod may be, over all nodes, and with what it ends where it
is not simply "no".

A claim is anybody's, and a search can be made to take for ever: by selectors, each within Kubernetes'
cost limit but asked of every device, or by combinations of devices that never fit. kube-scheduler
gives up after filterTimeout (ten seconds) a node. Here work is counted, so that the same search always
ends at the same place, and it is the attempt that ends; filterTimeout says how much it may be.

What any sensible claim needs is free; it grows with the devices there are and takes microseconds each.
That has a bound, too, which a hostile claim meets in a large cluster.
"""

from math import inf, log2
from typing import Final

from shared.errors import OperationalError
from shared.framework.cluster_view import ClusterView

WORK_MAX: Final = 1_500_000
"""Beyond what is free, at filterTimeout's default; more than any one selector may cost. A unit is a unit
of CEL's cost, up to 0.6 us, so this is about a second."""
DEFAULT_TIMEOUT_S: Final = 10.0
TIMEOUT_S_MAX: Final = 60.0
"""More work than this allows, some six seconds, nobody is given: other pods wait. 0, which is no limit
upstream, is this."""
FREE_COST: Final = 1_000
"""Of evaluating a selector for a device. Selectors of real classes and claims cost 5 to 50."""
FREE_STEPS: Final = 2_000
"""Devices tried on a node. A pod that takes the last devices of a node with 128 tries 128."""
FREE_MAX: Final = 3_000_000
"""Of all that is free: two seconds or so, with what TIMEOUT_S_MAX allows eight. On a machine that is
busy with other things that is twice as long, and a scorer may be silent for 20. Two selectors that cost
25 each, asked of 50,000 devices, none of which is like another, come to 2,500,000; what they say is
known from then on, so that a later attempt goes further."""
STEP_WORK: Final = 12
"""A step takes about 5 us."""
TRIES_PER_S: Final = 500_000
"""Ways to take devices that kube-scheduler tries, roughly. Those that are seen to be in vain are not
tried here, but filterTimeout has to be long enough for them, as there."""
BATCH_STEPS_MAX: Final = 100_000
"""Devices tried for pods of one batch, after which a scorer says what it has found: half a second."""


class AllocationError(OperationalError):
    """Something is wrong with a claim, a class or a device: the attempt is an error, wherever the pod
    might otherwise go."""


class NodeAllocationError(OperationalError):
    """Something is wrong with what this node offers: the pod does not fit here, and this is why."""


class WorkError(AllocationError):
    """The search takes too long."""

    def __init__(self) -> None:
        super().__init__("timed out trying to allocate devices")


class StepsTried:
    """What all searches of a view come to. By itself: it is known where devices cannot be read."""

    def __init__(self, _: ClusterView) -> None:
        self.count = 0

    def catch_up(self) -> None:
        pass


class Work:
    """What one attempt may still do."""

    __slots__ = ("_free", "_left", "_skipped_max", "step_count")

    def __init__(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """`timeout_s`: as filterTimeout has it."""
        is_limited = 0 < timeout_s < TIMEOUT_S_MAX
        allowed_s = timeout_s if is_limited else TIMEOUT_S_MAX
        self._left = round(WORK_MAX * allowed_s / DEFAULT_TIMEOUT_S)
        self._free = FREE_MAX
        self.step_count = 0
        """Devices tried so far."""
        self._skipped_max = log2(max(timeout_s * TRIES_PER_S, 1)) if is_limited else inf

    @property
    def cost_max(self) -> int:
        """Of the next selector."""
        return min(FREE_COST, self._free) + max(self._left, 0)

    @property
    def is_over(self) -> bool:
        """Nothing further is to be searched, not even what would be free."""
        return self._left < 0

    def exhausted(self) -> WorkError:
        """The end of all work."""
        self._left = -1
        return WorkError()

    def add(self, work: int) -> None:
        """Raises WorkError where it is too much."""
        self._left -= work
        if self._left < 0:
            raise self.exhausted()

    def add_free(self, work: int) -> None:
        """The same for what costs nothing as long as all of that together is not too much."""
        self._free -= work
        if self._free < 0:
            self._free, missing = 0, -self._free
            self.add(missing)

    def skip(self, bits: float) -> None:
        """So many ways, as a power of two, were seen to be in vain: as many as there are to take some
        of that many devices."""
        if bits > self._skipped_max:
            raise self.exhausted()

    def add_evaluation(self, cost: int) -> None:
        """A selector was asked about a device."""
        self.add_free(min(cost, FREE_COST))
        if cost > FREE_COST:
            self.add(cost - FREE_COST)
