"""Arguments of NodeResourcesFit and NodeResourcesBalancedAllocation.

Shapes and rules: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go, v1.36.2.
"""

from typing import Final

import msgspec

from shared.framework.normalize import UtilizationShapePoint, shape_problems
from shared.framework.plugin_args import QUALIFIED_NAME, WEIGHT_MAX, ArgsStruct, out_of_range

STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


class ResourceSpec(ArgsStruct):
    name: str = ""
    weight: int = 0
    """0: not stated, which counts as 1."""


class RequestedToCapacityRatioParam(ArgsStruct):
    shape: list[UtilizationShapePoint] = msgspec.field(default_factory=list)

    def problems(self) -> list[str]:
        return shape_problems(self.shape, "shape")


class ScoringStrategy(ArgsStruct):
    type: str = ""
    """Has to be stated where anything is."""
    resources: list[ResourceSpec] = msgspec.field(default_factory=list)
    """Empty: cpu and memory, each with weight 1."""
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    def problems(self) -> list[str]:
        problems = []
        if self.type not in STRATEGIES:
            problems.append(f"type: {self.type!r} is not one of {', '.join(STRATEGIES)}")
        for i, resource in enumerate(self.resources):
            # 0 is not stated.
            problems += out_of_range(f"resources[{i}].weight", resource.weight or 1, 1, WEIGHT_MAX)
        has_ratio = self.requested_to_capacity_ratio is not None
        if self.type == "RequestedToCapacityRatio" and not has_ratio:
            problems.append("requestedToCapacityRatio: needed by this type")
        if self.type != "RequestedToCapacityRatio" and has_ratio:
            problems.append(
                "requestedToCapacityRatio: only for type RequestedToCapacityRatio; remove it"
            )
        return problems


class NodeResourcesFitArgs(ArgsStruct):
    ignored_resources: list[str] = msgspec.field(default_factory=list)
    """Extended resources that the filter does not look at."""
    ignored_resource_groups: list[str] = msgspec.field(default_factory=list)
    """The same by what stands before the slash of their names."""
    scoring_strategy: ScoringStrategy | None = None

    def problems(self) -> list[str]:
        problems = [
            f"ignoredResources[{i}]: {name!r} cannot be the name of a resource"
            for i, name in enumerate(self.ignored_resources)
            if QUALIFIED_NAME.fullmatch(name) is None
        ]
        return problems + [
            f"ignoredResourceGroups[{i}]: {group!r} cannot stand before the slash of a name"
            for i, group in enumerate(self.ignored_resource_groups)
            if "/" in group or QUALIFIED_NAME.fullmatch(group) is None
        ]


class NodeResourcesBalancedAllocationArgs(ArgsStruct):
    resources: list[ResourceSpec] = msgspec.field(default_factory=list)
    """Empty: cpu and memory. Weights must be 1."""

    def problems(self) -> list[str]:
        problems = []
        seen: set[str] = set()
        for i, resource in enumerate(self.resources):
            if resource.name in seen:
                problems.append(f"resources[{i}].name: {resource.name!r} stands there twice")
            seen.add(resource.name)
            if resource.weight not in (0, 1):
                problems.append(f"resources[{i}].weight: {resource.weight} must be 1")
        return problems
