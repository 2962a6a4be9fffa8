"""The simulation finds what it must: faults that are planted in the code."""

import os
from itertools import chain

import pytest

from bench.sim.draw import Action
from bench.sim.shrink import shrink
from bench.sim.sim_plan import Plan
from bench.sim.sim_run import play, play_seed
from tests.sim.planting import planted
from tests.sim.plants import PLANTS
from tests.sim.test_stories import node, pod, story

SEEDS_MAX = 1000
"""So many may pass before one finds the fault."""

SEARCHES = os.environ.get("BERTH_SEARCH_PLANTS") == "1"
"""Whether the seed is looked for, where the one that found a fault last does not any more: minutes."""


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_found(name: str) -> None:
    plant = PLANTS[name]
    with planted(plant.module, plant.before, plant.after):
        seeds = chain((plant.found_by,), range(SEEDS_MAX if SEARCHES else 0))
        found_by = next((seed for seed in seeds if play_seed(seed).failure is not None), None)
    assert found_by == plant.found_by
    assert play_seed(plant.found_by).failure is None, "it is the fault that is found"


def test_a_story_is_made_short() -> None:
    """A node, a pod and one refused binding are all that it takes to see that nothing is forgotten."""
    plant = PLANTS["a placement that came to nothing is not forgotten"]
    refused = {"at": "request", "do": "refuse", "code": 500, "method": "POST", "path": "*/binding"}
    actions = [node("n0", "4"), node("n1", "4"), Action(2.0, "api_fault", {**refused, "times": 9})]
    for number in range(4):
        actions.append(pod(3.0 + number, f"p{number}"))
        label = {"namespace": "default", "name": f"p{number}", "labels": {"app": "a"}}
        actions.append(Action(3.5 + number, "label_pod", label))
    whole = story(*actions)._replace(scorer_count=2, binder_count=2)
    with planted(plant.module, plant.before, plant.after):
        failure = play(whole).failure
        assert failure is not None

        def still_fails(plan: Plan) -> bool:
            found = play(plan).failure
            return found is not None and found.kind == failure.kind

        plan = shrink(whole, still_fails)
        assert still_fails(plan)
    assert len(plan.actions) <= 4
    assert plan.scorer_count == plan.binder_count == 1
    assert play(plan).failure is None
