"""Arguments of NodeResourcesFit and NodeResourcesBalancedAllocation.

Shapes and rules: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go, v1.36.2.
"""

from typing import Final

import msgspec

from shared.framework.normalize import UtilizationShapePoint, shape_problems
from shared.framework.plugin_args import QUALIFIED_NAME, WEIGHT_MAX, ArgsStruct

STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


class ResourceSpec(ArgsStruct):
    name: str = ""
    weight: int = 0
    """0: not stated, which counts as 1."""


class RequestedToCapacityRatioParam(ArgsStruct):
    shape: list[UtilizationShapePoint] = msgspec.field(default_factory=list)


class ScoringStrategy(ArgsStruct):
    type: str = ""
    """Has to be stated where anything is."""
    resources: list[ResourceSpec] = msgspec.field(default_factory=list)
    """Empty: cpu and memory, each with weight 1."""
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(ArgsStruct):
    ignored_resources: list[str] = msgspec.field(default_factory=list)
    """Extended resources that the filter does not look at."""
    ignored_resource_groups: list[str] = msgspec.field(default_factory=list)
    """The same by what stands before the slash of their names."""
    scoring_strategy: ScoringStrategy | None = None


class NodeResourcesBalancedAllocationArgs(ArgsStruct):
    resources: list[ResourceSpec] = msgspec.field(default_factory=list)
    """Empty: cpu and memory. Weights must be 1."""


def fit_problems(args: NodeResourcesFitArgs) -> list[str]:
    """What is wrong with NodeResourcesFit's arguments."""
    problems = []
    for i, name in enumerate(args.ignored_resources):
        if QUALIFIED_NAME.fullmatch(name) is None:
            problems.append(f"ignoredResources[{i}]: {name!r} cannot be the name of a resource")
    for i, group in enumerate(args.ignored_resource_groups):
        if "/" in group or QUALIFIED_NAME.fullmatch(group) is None:
            problems.append(
                f"ignoredResourceGroups[{i}]: {group!r} cannot stand before the slash of a name"
            )
    if args.scoring_strategy is not None:
        problems += _strategy_problems(args.scoring_strategy)
    return problems


def _strategy_problems(strategy: ScoringStrategy) -> list[str]:
    path = "scoringStrategy"
    problems = []
    if strategy.type not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        problems.append(f"{path}.type: {strategy.type!r} is not one of {known}")
    for i, resource in enumerate(strategy.resources):
        if not 0 <= resource.weight <= WEIGHT_MAX:
            problems.append(
                f"{path}.resources[{i}].weight: {resource.weight} is not in 1..{WEIGHT_MAX}"
            )
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type == "RequestedToCapacityRatio":
        if ratio is None:
            problems.append(f"{path}.requestedToCapacityRatio: needed by this type")
        else:
            problems += shape_problems(ratio.shape, f"{path}.requestedToCapacityRatio.shape")
    elif ratio is not None:
        problems.append(
            f"{path}.requestedToCapacityRatio: only for type RequestedToCapacityRatio; remove it"
        )
    return problems


def balanced_problems(args: NodeResourcesBalancedAllocationArgs) -> list[str]:
    """What is wrong with NodeResourcesBalancedAllocation's arguments."""
    problems = []
    seen: set[str] = set()
    for i, resource in enumerate(args.resources):
        if resource.name in seen:
            problems.append(f"resources[{i}].name: {resource.name!r} stands there twice")
        seen.add(resource.name)
        if resource.weight not in (0, 1):
            problems.append(f"resources[{i}].weight: {resource.weight} must be 1")
    return problems
