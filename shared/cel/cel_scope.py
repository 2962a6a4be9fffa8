"""What an evaluation of a CEL expression reads and may cost."""

from typing import Any, Protocol

from shared.cel.cel_costs import COST_MAX


class Budget(Protocol):
    """What the caller lets evaluations cost."""

    @property
    def cost_max(self) -> int:
        """Of the next one."""
        ...

    def add_evaluation(self, cost: int) -> None:
        """One has cost so much. Raises what ends the caller's attempt where that is too much."""
        ...

    def exhausted(self) -> Exception:
        """What to raise: the evaluation would cost more than there is."""
        ...


class CancelledError(Exception):
    """The evaluation costs too much. No CelError: nothing in the expression makes good for it."""


class CelScope:
    """The variables of an evaluation, and what it may still cost."""

    __slots__ = ("left", "limit", "more", "variables", "work")

    def __init__(self, variables: dict[str, Any], work: Budget) -> None:
        self.variables = variables
        self.work = work
        self.left = self.limit = min(COST_MAX, work.cost_max)
        self.more = 0
        """Work that is no part of the cost."""

    def charge(self, cost: int = 1) -> None:
        """Ends an evaluation that goes on for too long."""
        self.left -= cost
        if self.left < 0:
            raise CancelledError

    def add(self, work: int) -> None:
        """Notes work that Kubernetes does not count."""
        self.more += work
        if self.more > self.work.cost_max:
            raise self.work.exhausted()
