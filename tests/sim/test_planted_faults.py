"""The simulation finds what it must: faults that are planted in the code."""

from itertools import chain

import pytest

from bench.sim.plan import Plan, make_plan
from bench.sim.run import play, play_seed
from bench.sim.shrink import shrink
from tests.sim.planting import planted
from tests.sim.plants import PLANTS

SEEDS_MAX = 1000
"""So many may pass before one finds the fault."""


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_found(name: str) -> None:
    plant = PLANTS[name]
    with planted(plant.module, plant.before, plant.after):
        # First the seed that found it last, so that the search is short while little has changed.
        seeds = chain((plant.found_by,), range(SEEDS_MAX))
        assert any(play_seed(seed).failure is not None for seed in seeds)


def test_a_story_is_made_short() -> None:
    """One refused binding is all that it takes to see that nothing is forgotten."""
    plant = PLANTS["a placement that came to nothing is not forgotten"]

    def still_fails(plan: Plan) -> bool:
        failure = play(plan).failure
        return failure is not None and failure.kind == "contradiction"

    with planted(plant.module, plant.before, plant.after):
        plan = shrink(make_plan(plant.found_by), still_fails)
        assert still_fails(plan)
    assert len(plan.actions) <= 5
    assert plan.scorer_count == plan.binder_count == 1
    assert play(plan).failure is None
