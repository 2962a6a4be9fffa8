"""The model of more cores: what can be worked out by hand is found, and costs are found again."""

import pytest

from bench.perf.scale_costs import Measured, StageCosts, calibrate
from bench.perf.scale_model import BATCH_PODS, Shape, best_shape, outlook
from shared.errors import ConfigurationError

PODS = 40 * BATCH_PODS
COSTS = StageCosts(
    feeder_us=20.0,
    owner_us=30.0,
    owner_delta_us=0.0,
    scorer_us=200.0,
    scorer_delta_us=0.0,
    binder_us=10.0,
    others_us=0.0,
    refused_per_thousand_others=0.0,
)


def rate(shape: Shape, costs: StageCosts = COSTS) -> float:
    return outlook(shape, costs, PODS, seed=0).pods_per_s


def test_on_one_core_a_pod_takes_the_sum_of_all_stages() -> None:
    assert rate(Shape(1, 1, 1)) == pytest.approx(1e6 / (20 + 30 + 200 + 10), rel=1e-6)


def test_with_cores_for_all_the_slowest_stage_is_the_rate() -> None:
    one = outlook(Shape(8, 1, 1), COSTS, PODS, seed=0)
    assert one.pods_per_s == pytest.approx(1e6 / 200, rel=0.03)
    assert one.bottleneck == "scorer"
    assert one.busy["scorer"] > 0.97
    assert one.core_use == pytest.approx((20 + 30 + 200 + 10) / 200 / 8, rel=0.05)


def test_scorers_add_up_until_the_owner_is_the_bottleneck() -> None:
    assert rate(Shape(16, 3, 1)) == pytest.approx(3 * 1e6 / 200, rel=0.1)
    many = outlook(Shape(64, 40, 1), COSTS, PODS, seed=0)
    assert many.bottleneck == "owner"
    assert many.pods_per_s == pytest.approx(1e6 / 30, rel=0.1)


def test_following_all_placements_bounds_what_scorers_can_add() -> None:
    # However many scorers there are, each has to follow each pod.
    costs = COSTS._replace(scorer_delta_us=100.0, owner_us=1.0)
    assert rate(Shape(64, 40, 1), costs) < 1e6 / 100
    # With two, a pod costs each half an evaluation and one placement followed.
    assert rate(Shape(8, 2, 1), costs) == pytest.approx(1e6 / (200 / 2 + 100), rel=0.1)


def test_telling_every_scorer_costs_the_owner() -> None:
    costs = COSTS._replace(owner_delta_us=10.0)
    told = outlook(Shape(64, 20, 1), costs, PODS, seed=0)
    assert told.bottleneck == "owner"
    assert told.pods_per_s == pytest.approx(1e6 / (30 + 20 * 10), rel=0.1)


def test_refused_pods_are_placed_again_and_the_same_seed_says_the_same() -> None:
    costs = COSTS._replace(refused_per_thousand_others=0.1)
    first = outlook(Shape(16, 4, 1), costs, PODS, seed=3)
    assert first == outlook(Shape(16, 4, 1), costs, PODS, seed=3)
    assert 0.0 < first.refused_share < 0.2
    assert first.pods_per_s < rate(Shape(16, 4, 1))
    assert outlook(Shape(16, 1, 1), costs, PODS, seed=3).refused_share == 0.0


def test_two_cores_are_the_bottleneck_themselves() -> None:
    assert outlook(Shape(2, 2, 1), COSTS, PODS, seed=0).bottleneck == "cores"


@pytest.mark.parametrize("cores", [2, 8, 32])
def test_the_spread_that_is_chosen_is_no_worse_than_its_neighbours(cores: int) -> None:
    costs = COSTS._replace(binder_us=90.0)
    best = best_shape(cores, costs, PODS, seed=0)
    _, scorers, binders = best.shape
    assert cores == 2 or scorers + binders + 2 <= cores
    for more in (Shape(cores, scorers + 1, binders), Shape(cores, scorers, binders + 1)):
        if sum(more[1:]) + 2 <= cores:
            assert rate(more, costs) < 1.1 * best.pods_per_s


def made(scorers: int, costs: StageCosts, refused: float = 0.0) -> Measured:
    """What a run with these costs would show."""
    return Measured(
        "w",
        "decisions",
        scorers,
        1,
        2,
        1000.0,
        {
            "feeder": costs.feeder_us,
            "owner": costs.owner_us + scorers * costs.owner_delta_us,
            "scorer": costs.scorer_us / (1 - refused) + scorers * costs.scorer_delta_us,
            "binder": costs.binder_us,
            "others": costs.others_us,
        },
        refused,
    )


@pytest.mark.parametrize("scorers", [2, 3])
def test_costs_are_found_again_in_what_they_would_have_shown(scorers: int) -> None:
    costs = COSTS._replace(owner_delta_us=3.0, scorer_delta_us=40.0, others_us=5.0)
    refused = 0.05
    found = calibrate(made(1, costs), made(scorers, costs, refused), out_per_scorer=500)
    wanted = costs._replace(refused_per_thousand_others=1000 * refused / (500 * (scorers - 1)))
    assert found == pytest.approx(wanted)


def test_noise_makes_no_cost_negative() -> None:
    cheaper = COSTS._replace(scorer_us=150.0, owner_us=20.0)
    found = calibrate(made(1, COSTS), made(2, cheaper), out_per_scorer=500)
    assert (found.scorer_delta_us, found.owner_delta_us) == (0.0, 0.0)


def test_the_owner_costs_what_it_does_where_it_is_busiest() -> None:
    busier = COSTS._replace(owner_us=20.0)
    assert calibrate(made(1, COSTS), made(2, busier), out_per_scorer=500).owner_us == 20.0
    assert calibrate(made(1, busier), made(2, COSTS), out_per_scorer=500).owner_us == 10.0


def test_results_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="run it with --workers 1 and 2"):
        calibrate(made(2, COSTS), made(2, COSTS), 500)
    with pytest.raises(ConfigurationError, match=r"are of w \(decisions\) and of other"):
        calibrate(made(1, COSTS), made(2, COSTS)._replace(workload="other"), 500)
