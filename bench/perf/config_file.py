"""performance-config.yaml: test cases, each with operations and workloads that fill in parameters.

Read unchanged from upstream (test/integration/scheduler_perf, v1.36.2). A workload is named
CASE/NAME; what it comes to (`Plan`) has every `$parameter` resolved, every set of pods unrolled and
every feature gate judged. What is obeyed by halves or not at all is in the plan's notes, which stay with
the result. Errors name the file, the case and the remedy.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from bench.perf.operations import (
    Churn,
    CreateAny,
    CreateNodes,
    CreatePods,
    CreatePodSets,
    CreateResourceClaims,
    Operation,
    StartCollectingMetrics,
    UpdateAny,
)
from bench.perf.quick_yaml import read_yaml
from shared.durations import parse_duration
from shared.errors import ConfigurationError
from shared.feature_gates import NEEDED_BY, FeatureGates
from shared.go_yaml import YAML_FAULTS, yaml_problem

Params = Mapping[str, Any]


class MetricSelector(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    """Which of the result's data items a threshold is for."""

    name: str = "SchedulingThroughput"
    labels: dict[str, str] = {}
    data_bucket: str = "Average"
    expect_lower: bool = False
    """The threshold is what must not be reached, instead of what must be exceeded."""


class Workload(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    """One set of parameters for a test case."""

    name: str
    params: dict[str, Any] = {}
    labels: list[str] = []
    threshold: float | dict[str, float] = 0.0
    """Average pods/s below which a run fails; by topic where several share the file."""
    threshold_metric_selector: MetricSelector | None = None
    feature_gates: dict[str, bool] = {}


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """Operations in order, and the workloads that they are run with."""

    name: str
    workload_template: list[Operation]
    workloads: list[Workload]
    default_pod_template_path: str = ""
    feature_gates: dict[str, bool] = {}
    labels: list[str] = []
    metrics_collector_config: dict[str, Any] | None = None
    default_threshold_metric_selector: MetricSelector | None = None
    scheduler_config_path: str = ""


class Plan(NamedTuple):
    """A workload, ready to be run."""

    file: Path
    case: Case
    workload: Workload
    operations: tuple[Operation, ...]
    notes: tuple[str, ...]
    """What a reader of the result has to know."""
    feature_gates: str = ""
    """As on the command line; without those that berth cannot be told."""
    declared_features: int = 0
    """How many features each node declares."""

    @property
    def name(self) -> str:
        return f"{self.case.name}/{self.workload.name}"

    @property
    def topic(self) -> str:
        return topic_of(self.file)

    @property
    def threshold(self) -> float:
        """0: none is stated."""
        stated = self.workload.threshold
        return stated.get(self.topic, 0.0) if isinstance(stated, dict) else float(stated)

    @property
    def threshold_metric(self) -> MetricSelector:
        return (
            self.workload.threshold_metric_selector
            or self.case.default_threshold_metric_selector
            or MetricSelector()
        )

    def path(self, relative: str) -> Path:
        """A path of the file, which counts from the file's own folder."""
        return (self.file.parent / relative).resolve()


def topic_of(file: Path) -> str:
    """Upstream has a folder for each topic, with one file; ours is a file for each."""
    return file.parent.name if file.name == "performance-config.yaml" else file.stem


def read_cases(file: Path) -> list[Case]:
    """The test cases of a file; ConfigurationError if it cannot be used."""
    try:
        content = read_yaml(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(str(file), [f"cannot be read: {error.strerror}"]) from error
    except YAML_FAULTS as error:
        raise ConfigurationError(str(file), [f"is not YAML: {yaml_problem(error)}"]) from error
    if not isinstance(content, list):
        raise ConfigurationError(str(file), ["is not a list of test cases"])
    cases, problems = [], []
    for index, one in enumerate(content):
        named = one.get("name", index) if isinstance(one, dict) else index
        try:
            cases.append(msgspec.convert(one, Case))
        except msgspec.ValidationError as error:
            problems.append(f"test case {named}: {error}")
    if problems:
        raise ConfigurationError(str(file), problems)
    return cases


def matching(cases: list[Case], names: str, labels: str) -> Iterator[tuple[Case, Workload]]:
    """Workloads by name (CASE/NAME, or CASE for all of it; empty: all) and by labels.

    `labels` is upstream's filter: comma-separated, `+x` or `x` must be there, `-x` must not.
    """
    wanted = [one.strip() for one in labels.split(",") if one.strip()]
    for case in cases:
        for workload in case.workloads:
            has = {*case.labels, *workload.labels}
            is_labelled = all(
                (one[1:] not in has) if one.startswith("-") else (one.removeprefix("+") in has)
                for one in wanted
            )
            if is_labelled and names in ("", case.name, f"{case.name}/{workload.name}"):
                yield case, workload


OUR_FILES: Final = tuple(sorted((Path(__file__).parent / "workloads").glob("*.yaml")))
"""The workloads that come with berth, a file for each topic."""


def chosen(files: Iterable[Path], names: str, labels: str) -> Iterator[tuple[Path, Case, Workload]]:
    """The same over several files."""
    for file in files:
        for case, workload in matching(read_cases(file), names, labels):
            yield file.absolute(), case, workload


def plan_of(file: Path, case: Case, workload: Workload) -> Plan:
    """The workload with its parameters filled in; ConfigurationError if it cannot be run."""
    place = f"{file}: {case.name}/{workload.name}"
    gates, problems, notes = _judged({**case.feature_gates, **workload.feature_gates})
    if case.metrics_collector_config is not None:
        notes.append("metricsCollectorConfig: has no effect, what is measured is always the same")
    used: set[str] = set()
    operations: list[Operation] = []
    for index, operation in enumerate(case.workload_template):
        try:
            operations += _unrolled(_resolved(operation, workload.params, used))
        except ConfigurationError as error:
            problems.extend(f"operation {index}: {problem}" for problem in error.problems)
    features = 0
    if DECLARED_FEATURES in workload.params:
        used.add(DECLARED_FEATURES)
        features = int(workload.params[DECLARED_FEATURES])
        notes.append(
            f"{DECLARED_FEATURES}: nodes declare so many features; no pod requires them, as upstream's"
            " program has them do by features that exist in it alone"
        )
    unused = sorted(set(workload.params) - used)
    if unused and not problems:
        problems.append(f"parameters that no operation uses: {', '.join(unused)}")
    if problems:
        raise ConfigurationError(place, problems)
    notes.extend(dict.fromkeys(note for each in operations for note in _notes_on(each)))
    return Plan(file, case, workload, tuple(operations), tuple(notes), gates, features)


DECLARED_FEATURES: Final = "numNodeDeclaredFeatures"
"""A parameter that no operation uses: it is for the program of the topic nodedeclaredfeatures
(nodedeclaredfeatures/node_declared_features_test.go)."""


def _notes_on(operation: Operation) -> Iterator[str]:
    """Fields that are without effect, as upstream."""
    match operation:
        case CreateNodes(node_allocatable_strategy=strategy) if strategy is not None:
            if strategy.node_allocatable:
                yield (
                    "nodeAllocatableStrategy.nodeAllocatable: has no effect, as upstream: a patch of a"
                    " node leaves its status alone"
                )
        case CreatePods() if not operation.persistent_volume_claim_template_path:
            if operation.persistent_volume_template_path:
                yield (
                    "persistentVolumeTemplatePath: has no effect without"
                    " persistentVolumeClaimTemplatePath"
                )
        case _:
            pass


# Feature gates ------------------------------------------------------------------------------------

_WITHOUT: Final[Mapping[str, str]] = {
    "SchedulerQueueingHints": "queueing hints are always on in berth",
    "SchedulerAsyncAPICalls": "API calls are always asynchronous in berth",
}
"""Gates that change how upstream works and not what it decides. Of the first, v1.36 itself has one side
only, and upstream's suite runs as v1.33 for the other."""


def _judged(gates: Mapping[str, bool]) -> tuple[str, list[str], list[str]]:
    """(for the command line, problems, notes). A gate that is turned off takes those with it that need
    it: scheduler_perf does not look for them."""
    notes = [
        f"{gate}: false in the workload; {_WITHOUT[gate]}"
        for gate, is_on in sorted(gates.items())
        if gate in _WITHOUT and not is_on
    ]
    told = {gate: is_on for gate, is_on in sorted(gates.items()) if gate not in _WITHOUT}
    needing: dict[str, bool] = {}
    for needed, names in NEEDED_BY.items():
        if (told | needing).get(needed) is False:
            needing |= dict.fromkeys(set(names.split()) - told.keys(), False)
    try:
        without_effect = set(FeatureGates(told | needing).without_effect)
    except ConfigurationError as error:
        return "", [f"featureGates.{problem}" for problem in error.problems], notes
    settings = {f"{gate}={str(is_on).lower()}" for gate, is_on in told.items()}
    notes += [f"{setting}: has no effect in berth" for setting in settings & without_effect]
    passed_on = {*(settings - without_effect), *(f"{gate}=false" for gate in needing)}
    return ",".join(sorted(passed_on)), [], sorted(notes)


# Parameters ---------------------------------------------------------------------------------------

_PARAMETERS: Final[Mapping[str, str]] = {
    "count_param": "count",
    "steady_state_param": "steady_state",
    "duration_param": "duration",
    "max_claims_per_node_param": "max_claims_per_node",
}


def _resolved(operation: Operation, params: Params, used: set[str]) -> Operation:
    """The operation with the values of its parameters in place of their names."""
    changes: dict[str, Any] = {}
    for by_name, field in _PARAMETERS.items():
        name = getattr(operation, by_name, "")
        if name:
            changes[field] = _parameter(name, params, used)
    if isinstance(operation, CreatePodSets):
        changes["create_pods_op"] = _resolved(operation.create_pods_op, params, used)
    try:
        changed = msgspec.convert(msgspec.structs.asdict(operation) | changes, dict[str, Any])
        fields = {name: changed[name] for name in operation.__struct_fields__}
        made: Operation = type(operation)(**fields)
    except (TypeError, msgspec.ValidationError) as error:
        raise ConfigurationError("operation", [str(error)]) from error
    _check(made)
    return made


def _parameter(name: str, params: Params, used: set[str]) -> Any:
    key = name.removeprefix("$")
    if not name.startswith("$"):
        raise ConfigurationError("parameter", [f"{name}: a parameter is written ${name}"])
    if key not in params:
        raise ConfigurationError("parameter", [f"{name} is not among the workload's params"])
    used.add(key)
    return params[key]


def _unrolled(operation: Operation) -> list[Operation]:
    """Pods for each of so many namespaces are so many operations."""
    if not isinstance(operation, CreatePodSets):
        return [operation]
    return [
        msgspec.structs.replace(
            operation.create_pods_op, namespace=f"{operation.namespace_prefix}-{number}"
        )
        for number in range(operation.count)
    ]


def _check(operation: Operation) -> None:
    problems = []
    for field in ("count", "max_claims_per_node"):
        number = getattr(operation, field, 0)
        is_unset = number is None and isinstance(operation, CreateAny | UpdateAny)
        is_number = isinstance(number, int) and not isinstance(number, bool) and number >= 0
        if not is_number and not is_unset:
            problems.append(f"{field} {number!r}: must be a number, 0 or more")
    problems.extend(
        f"{field}: must be set"
        for field in ("template_path", "driver_name", "nodes")
        if not getattr(operation, field, True)
    )
    problems.extend(
        f"{field} {getattr(operation, field)}: must not be negative"
        for field in ("update_per_second", "delete_pods_per_second", "number")
        if getattr(operation, field, 0) < 0
    )
    match operation:
        case CreateResourceClaims() if not operation.namespace:
            problems.append("namespace: must be set")
        case StartCollectingMetrics() if not operation.namespaces:
            problems.append("namespaces must be given")
        case Churn() if operation.mode == "recreate" and not operation.number:
            problems.append("recreate needs a number")
        case Churn() if not operation.template_paths:
            problems.append("templatePaths must be given")
        case CreatePods():
            problems.extend(_problems_of_pods(operation))
        case _:
            pass
    if problems:
        raise ConfigurationError("operation", problems)


def _problems_of_pods(operation: CreatePods) -> Iterator[str]:
    if operation.collect_metrics and operation.skip_wait_to_completion:
        yield "collectMetrics and skipWaitToCompletion exclude one another"
    if operation.steady_state and operation.skip_wait_to_completion:
        yield "steadyState and skipWaitToCompletion exclude one another"
    if operation.steady_state and not duration_s(operation.duration):
        yield "steadyState needs a duration"
    volume = operation.persistent_volume_template_path
    if operation.persistent_volume_claim_template_path and not volume:
        yield "persistentVolumeClaimTemplatePath needs persistentVolumeTemplatePath"


def duration_s(text: str) -> float:
    """Of an operation; 0 where none is stated, ConfigurationError if it is none."""
    try:
        return parse_duration(text.strip()) if text else 0.0
    except ValueError as error:
        raise ConfigurationError("duration", [str(error)]) from error
