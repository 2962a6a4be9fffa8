"""Arguments of plugins: the `args` of `pluginConfig` entries, checked and with defaults filled in.

Apart from the plugins so that all of them fail in the same words: every problem is reported, each
with its path from the plugin's name on.

Shapes and rules: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go and
pkg/scheduler/apis/config/{v1/defaults.go,validation/validation_pluginargs.go}, v1.36.2.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from shared.durations import parse_duration
from shared.errors import ConfigurationError
from shared.kube.objects import (
    LabelSelector,
    NodeAffinity,
    NodeSelectorTerm,
    TopologySpreadConstraint,
)
from shared.selectors import node_selector

WEIGHT_MAX: Final = 100
PERCENTAGE_MAX: Final = 100
SHAPE_SCORE_MAX: Final = 10
"""MaxCustomPriorityScore upstream: shape scores are 0..10 and are scaled to 0..100."""
UTILIZATION_MAX: Final = 100
SYSTEM_DEFAULTING: Final = "System"
LIST_DEFAULTING: Final = "List"
SPREAD_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")

_QUALIFIED_NAME: Final = re.compile(
    r"(?:(?=.{1,253}/)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
    re.ASCII,
)


class ArgsStruct(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Base of plugin arguments."""


class NoArgs(ArgsStruct):
    """Of a plugin that takes none."""


class ResourceSpec(ArgsStruct):
    name: str
    weight: int = 0
    """0: not stated, which counts as 1."""


class UtilizationShapePoint(ArgsStruct):
    utilization: int
    """Percent of the capacity in use."""
    score: int
    """0..10."""


class RequestedToCapacityRatioParam(ArgsStruct):
    shape: list[UtilizationShapePoint] = []


class ScoringStrategy(ArgsStruct):
    type: str = "LeastAllocated"
    resources: list[ResourceSpec] = []
    """Empty: cpu and memory, each with weight 1."""
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(ArgsStruct):
    ignored_resources: list[str] = []
    """Extended resources that the filter does not look at."""
    ignored_resource_groups: list[str] = []
    """The same by what stands before the slash of their names."""
    scoring_strategy: ScoringStrategy | None = None


class NodeResourcesBalancedAllocationArgs(ArgsStruct):
    resources: list[ResourceSpec] = []
    """Empty: cpu and memory. Weights must be 1."""


class NodeAffinityArgs(ArgsStruct):
    added_affinity: NodeAffinity | None = None
    """Applies to every pod of the profile, beside the pod's own."""


class DefaultPreemptionArgs(ArgsStruct):
    min_candidate_nodes_percentage: int = 10
    """Of the nodes that may help, so many percent are tried ..."""
    min_candidate_nodes_absolute: int = 100
    """... but not fewer than this."""


class DefaultConstraint(ArgsStruct):
    """A topology spread constraint of the profile; its selector follows from each pod."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class PodTopologySpreadArgs(ArgsStruct):
    default_constraints: list[DefaultConstraint] = []
    """For pods that state none. Only with defaultingType List."""
    defaulting_type: str = ""
    """System (or empty): spread over host names and zones, softly. List: `default_constraints`."""

    @property
    def is_system_defaulting(self) -> bool:
        return self.defaulting_type in ("", SYSTEM_DEFAULTING)

    def constraints(self) -> tuple[TopologySpreadConstraint, ...]:
        """The constraints of the list as pods state them."""
        return tuple(
            msgspec.convert(constraint, TopologySpreadConstraint, from_attributes=True)
            for constraint in self.default_constraints
        )


class InterPodAffinityArgs(ArgsStruct):
    hard_pod_affinity_weight: int = 1
    """The score of a required affinity term of a pod on a node that means the incoming pod."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Preferred terms of pods on nodes do not count for a pod without preferred terms."""


class VolumeBindingArgs(ArgsStruct):
    bind_timeout_seconds: int = 600
    """How long the binder waits for the volumes of a pod."""
    shape: list[UtilizationShapePoint] = []
    """Score by how full the storage would be; only with the gate StorageCapacityScoring."""


class DynamicResourcesArgs(ArgsStruct):
    filter_timeout: str = "10s"
    """How long to search devices. Here a search ends after as much work, not time
    (`dra/search_work.py`)."""
    binding_timeout: str = "600s"
    """How long the binder waits for devices to be ready."""


A = TypeVar("A", bound=ArgsStruct)


def parse_args(
    plugin: str, kind: type[A], args: dict[str, Any], check: Callable[[A], list[str]] | None = None
) -> A:
    """The arguments as `kind`; ConfigurationError names every problem with its path."""
    source = f"pluginConfig[{plugin}].args"
    try:
        parsed = msgspec.convert(args, kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(source, [_with_path(str(error))]) from error
    problems = _unknown_fields(parsed, args, "")
    problems += check(parsed) if check is not None else []
    if problems:
        raise ConfigurationError(source, problems)
    return parsed


def _with_path(text: str) -> str:
    """msgspec says "Expected `int`, got `str` - at `$.a.b`"; ours put the path first."""
    what, separator, where = text.partition(" - at `$")
    return f"{where.rstrip('`').lstrip('.')}: {what}" if separator else what


def _unknown_fields(parsed: object, given: object, path: str) -> list[str]:
    """Fields that API structs skip while decoding, and that arguments must not have."""
    if isinstance(parsed, list) and isinstance(given, list):
        return [
            problem
            for i, (item, raw) in enumerate(zip(parsed, given, strict=True))
            for problem in _unknown_fields(item, raw, f"{path}[{i}]")
        ]
    if not isinstance(parsed, msgspec.Struct) or not isinstance(given, dict):
        return []
    fields = dict(zip(parsed.__struct_encode_fields__, parsed.__struct_fields__, strict=True))
    problems: list[str] = []
    for key, raw in given.items():
        where = f"{path}.{key}" if path else str(key)
        if key not in fields:
            problems.append(f"{where}: no such field; there are {', '.join(fields)}")
        else:
            problems += _unknown_fields(getattr(parsed, fields[key]), raw, where)
    return problems


# Checks -------------------------------------------------------------------------------------------


def fit_problems(args: NodeResourcesFitArgs) -> list[str]:
    """What is wrong with NodeResourcesFit's arguments."""
    problems = []
    for i, name in enumerate(args.ignored_resources):
        if _QUALIFIED_NAME.fullmatch(name) is None:
            problems.append(f"ignoredResources[{i}]: {name!r} cannot be the name of a resource")
    for i, group in enumerate(args.ignored_resource_groups):
        if "/" in group or _QUALIFIED_NAME.fullmatch(group) is None:
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
            problems += _shape_problems(ratio.shape, f"{path}.requestedToCapacityRatio.shape")
    elif ratio is not None:
        problems.append(
            f"{path}.requestedToCapacityRatio: only for type RequestedToCapacityRatio; remove it"
        )
    return problems


def _shape_problems(shape: list[UtilizationShapePoint], path: str) -> list[str]:
    if not shape:
        return [f"{path}: at least one point is needed"]
    problems = []
    for i, point in enumerate(shape):
        if i and shape[i - 1].utilization >= point.utilization:
            problems.append(f"{path}[{i}].utilization: must be above that of the point before")
        if not 0 <= point.utilization <= UTILIZATION_MAX:
            problems.append(
                f"{path}[{i}].utilization: {point.utilization} is not in 0..{UTILIZATION_MAX}"
            )
        if not 0 <= point.score <= SHAPE_SCORE_MAX:
            problems.append(f"{path}[{i}].score: {point.score} is not in 0..{SHAPE_SCORE_MAX}")
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


def affinity_problems(args: NodeAffinityArgs) -> list[str]:
    """What is wrong with NodeAffinity's arguments."""
    added = args.added_affinity
    if added is None:
        return []
    problems: list[str] = []
    required = added.required_during_scheduling_ignored_during_execution
    if required is not None:
        path = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution."
        for term in node_selector.parse_selector(required, path):
            problems += term.errors
        for i, stated in enumerate(required.node_selector_terms or ()):
            problems += _key_problems(stated, f"{path}nodeSelectorTerms[{i}]")
    preferred = added.preferred_during_scheduling_ignored_during_execution or ()
    for i, entry in enumerate(preferred):
        path = f"addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[{i}].preference"
        if entry.weight and not node_selector.is_empty(entry.preference):
            problems += node_selector.parse_term(entry.preference, path).errors
        problems += _key_problems(entry.preference, path)
    return problems


def _key_problems(term: NodeSelectorTerm, path: str) -> list[str]:
    return [
        f"{path}.matchExpressions[{i}].key: {each.key!r} cannot be the key of a label"
        for i, each in enumerate(term.match_expressions or ())
        if _QUALIFIED_NAME.fullmatch(each.key) is None
    ]


def preemption_problems(args: DefaultPreemptionArgs) -> list[str]:
    """What is wrong with DefaultPreemption's arguments."""
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    problems = []
    if not 0 <= percentage <= PERCENTAGE_MAX:
        problems.append(f"minCandidateNodesPercentage: {percentage} is not in 0..{PERCENTAGE_MAX}")
    if absolute < 0:
        problems.append(f"minCandidateNodesAbsolute: {absolute} must not be negative")
    if percentage == 0 and absolute == 0:
        problems.append(
            "minCandidateNodesPercentage: this and minCandidateNodesAbsolute cannot both be 0"
        )
    return problems


def spread_problems(args: PodTopologySpreadArgs) -> list[str]:
    """What is wrong with PodTopologySpread's arguments."""
    problems: list[str] = []
    if not args.is_system_defaulting and args.defaulting_type != LIST_DEFAULTING:
        problems.append(
            f"defaultingType: {args.defaulting_type!r} is not one of {LIST_DEFAULTING}, "
            f"{SYSTEM_DEFAULTING}"
        )
    if args.is_system_defaulting and args.default_constraints:
        problems.append(
            f"defaultingType: must be {LIST_DEFAULTING} where defaultConstraints are given"
        )
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(args.default_constraints):
        path = f"defaultConstraints[{i}]"
        problems += _constraint_problems(constraint, path)
        pair = constraint.topology_key, constraint.when_unsatisfiable
        if pair in seen:
            problems.append(f"{path}: {{{', '.join(pair)}}} stands there twice")
        seen.add(pair)
    return problems


def _constraint_problems(constraint: DefaultConstraint, path: str) -> list[str]:
    problems: list[str] = []
    if constraint.max_skew <= 0:
        problems.append(f"{path}.maxSkew: {constraint.max_skew} must be above 0")
    if _QUALIFIED_NAME.fullmatch(constraint.topology_key) is None:
        problems.append(
            f"{path}.topologyKey: {constraint.topology_key!r} cannot be the key of a label"
        )
    if constraint.when_unsatisfiable not in SPREAD_ACTIONS:
        problems.append(
            f"{path}.whenUnsatisfiable: {constraint.when_unsatisfiable!r} is not one of "
            f"{', '.join(SPREAD_ACTIONS)}"
        )
    if constraint.label_selector is not None:
        problems.append(
            f"{path}.labelSelector: must not be stated, it follows from each pod's services and "
            "controller; remove it"
        )
    return problems


def interpod_problems(args: InterPodAffinityArgs) -> list[str]:
    """What is wrong with InterPodAffinity's arguments."""
    weight = args.hard_pod_affinity_weight
    if 0 <= weight <= WEIGHT_MAX:
        return []
    return [f"hardPodAffinityWeight: {weight} is not in 0..{WEIGHT_MAX}"]


def dynamic_resources_problems(args: DynamicResourcesArgs) -> list[str]:
    """What is wrong with DynamicResources' arguments."""
    problems = []
    for name, text, least_s in (
        ("filterTimeout", args.filter_timeout, 0),
        ("bindingTimeout", args.binding_timeout, 1),
    ):
        try:
            if parse_duration(text) < least_s:
                problems.append(f"{name}: must be at least {least_s}s")
        except ValueError as error:
            problems.append(f"{name}: {error}")
    return problems


def volume_binding_problems(args: VolumeBindingArgs, *, scores: bool) -> list[str]:
    """What is wrong with VolumeBinding's arguments; `scores`: StorageCapacityScoring is on."""
    problems = []
    if args.bind_timeout_seconds < 0:
        problems.append(f"bindTimeoutSeconds: {args.bind_timeout_seconds} must not be negative")
    if args.shape and not scores:
        problems.append("shape: remove it, or turn on the feature gate StorageCapacityScoring")
    elif args.shape:
        problems += _shape_problems(args.shape, "shape")
    return problems
