"""Arguments of plugins: defaults, and errors that name the path."""

from typing import Any

import pytest

from shared.errors import ConfigurationError
from shared.framework.plugin_args import parse_args
from shared.plugins.node.node_affinity import NodeAffinityArgs
from shared.plugins.resources.node_resources_fit import NodeResourcesFitArgs
from shared.plugins.resources.resource_score import NodeResourcesBalancedAllocationArgs

FIT = ("NodeResourcesFit", NodeResourcesFitArgs)
BALANCED = ("NodeResourcesBalancedAllocation", NodeResourcesBalancedAllocationArgs)
AFFINITY = ("NodeAffinity", NodeAffinityArgs)
RATIO = {"type": "RequestedToCapacityRatio"}


def shaped(*points: tuple[int, int]) -> dict[str, Any]:
    shape = [{"utilization": u, "score": s} for u, s in points]
    return {"scoringStrategy": {**RATIO, "requestedToCapacityRatio": {"shape": shape}}}


@pytest.mark.parametrize(
    ("kind", "given", "problem"),
    [
        (FIT, {"scoringStrategie": {}}, "unknown field `scoringStrategie`"),
        (FIT, {"scoringStrategy": {"type": "Least"}}, "scoringStrategy.type: 'Least' is not one"),
        (FIT, {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
         "scoringStrategy.resources[0].weight: 101"),
        (FIT, {"scoringStrategy": {"resources": [{"name": "cpu", "weight": "x"}]}},
         "scoringStrategy.resources[0].weight: Expected `int`"),
        (FIT, {"scoringStrategy": RATIO}, "scoringStrategy.requestedToCapacityRatio: needed"),
        (FIT, shaped(), "shape: at least one point"),
        (FIT, shaped((10, 1), (10, 2)), "shape[1].utilization: must be above"),
        (FIT, shaped((10, 1), (101, 2)), "shape[1].utilization: 101 is not in 0..100"),
        (FIT, shaped((0, 11)), "shape[0].score: 11 is not in 0..10"),
        (FIT, {"scoringStrategy": {"requestedToCapacityRatio": {"shape": []}}}, "remove it"),
        (FIT, {"ignoredResources": ["a b"]}, "ignoredResources[0]: 'a b'"),
        (FIT, {"ignoredResourceGroups": ["a.io/x"]}, "ignoredResourceGroups[0]: 'a.io/x'"),
        (BALANCED, {"resources": [{"name": "cpu"}, {"name": "cpu"}]}, "resources[1].name: 'cpu'"),
        (BALANCED, {"resources": [{"name": "cpu", "weight": 2}]}, "resources[0].weight: 2"),
        (AFFINITY, {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}}},
         "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
         'matchExpressions[0].operator: Unsupported value: "Near": supported values: "In", "NotIn", '
         '"Exists", "DoesNotExist", "Gt", "Lt"'),
        (AFFINITY, {"addedAffinity": {"requiredDuringScheduling": {}}},
         "addedAffinity.requiredDuringScheduling: no such field"),
        (AFFINITY, {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchFields": [{"key": "x", "operator": "In"}]}}]}},
         "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference."
         "matchFields[0].values: Invalid value: null: must have one element"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_path(kind: Any, given: Any, problem: str) -> None:
    plugin, struct = kind
    with pytest.raises(ConfigurationError) as caught:
        parse_args(plugin, struct, given)
    assert caught.value.source == f"pluginConfig[{plugin}].args"
    assert any(problem in found for found in caught.value.problems), caught.value.problems


def test_all_problems_are_reported_at_once() -> None:
    given = {"ignoredResources": ["-"], "scoringStrategy": {"type": "Least"}}
    with pytest.raises(ConfigurationError) as caught:
        parse_args(*FIT, given)
    assert len(caught.value.problems) == 2


def test_valid_arguments_pass() -> None:
    plugin, struct = FIT
    given = {"ignoredResources": ["a.io/x", "plain"], "ignoredResourceGroups": ["a.io"],
             **shaped((0, 0), (100, 10))}  # fmt: skip
    parsed = parse_args(plugin, struct, given)
    assert parsed.scoring_strategy is not None


def test_a_number_that_a_shape_leaves_out_is_0() -> None:
    plugin, struct = FIT
    shape = [{}, {"utilization": 100, "score": 10}]
    ratio = {**RATIO, "requestedToCapacityRatio": {"shape": shape}, "resources": [{"weight": 2}]}
    parsed = parse_args(plugin, struct, {"scoringStrategy": ratio})
    assert parsed.scoring_strategy is not None
    given = parsed.scoring_strategy.requested_to_capacity_ratio
    assert given is not None
    assert (given.shape[0].utilization, given.shape[0].score) == (0, 0)
