"""A plan that fails, made as short as it can be while it still breaks the same rule.

Delta debugging over the list of actions (Zeller and Hildebrandt 2002): leave out halves, quarters and
so on down to single actions, and begin anew after each success. Each action names its objects and each
party draws from a generator of its own, so the rest goes on much as before.
"""

from collections.abc import Callable
from typing import Final

from bench.sim.draw import Action
from bench.sim.sim_plan import Plan

TRIALS_MAX: Final = 400
"""At about a quarter of a second each: two minutes."""


def shrink(plan: Plan, still_fails: Callable[[Plan], bool]) -> Plan:
    """The shortest plan that was found; `still_fails` says whether another breaks the same rule."""
    trials = _Trials(still_fails)
    for count in range(1, plan.scorer_count):
        if trials.fails(plan._replace(scorer_count=count)):
            plan = plan._replace(scorer_count=count)
            break
    if plan.binder_count > 1 and trials.fails(plan._replace(binder_count=1)):
        plan = plan._replace(binder_count=1)
    if plan.berth_count > 1 and trials.fails(plan._replace(berth_count=1)):
        plan = plan._replace(berth_count=1)
    size = max(1, len(plan.actions) // 2)
    while trials.has_more:
        shorter = _without_one_piece(plan, size, trials)
        if shorter is not None:
            plan = shorter
            size = min(size, max(1, len(plan.actions) // 2))
        elif size == 1:
            break
        else:
            size = max(1, size // 2)
    return plan


class _Trials:
    """So many, and no more."""

    def __init__(self, still_fails: Callable[[Plan], bool]) -> None:
        self._still_fails = still_fails
        self._left = TRIALS_MAX

    @property
    def has_more(self) -> bool:
        return self._left > 0

    def fails(self, plan: Plan) -> bool:
        if not self.has_more:
            return False
        self._left -= 1
        return self._still_fails(plan)


def _without_one_piece(plan: Plan, size: int, trials: _Trials) -> Plan | None:
    """The plan without the first piece of that size that it can do without; from its end, as what
    happened last was often without effect."""
    actions = plan.actions
    for begin in range(max(0, len(actions) - size), -size, -size):
        kept: tuple[Action, ...] = actions[: max(0, begin)] + actions[begin + size :]
        shorter = plan._replace(actions=kept)
        if len(kept) < len(actions) and trials.fails(shorter):
            return shorter
    return None
