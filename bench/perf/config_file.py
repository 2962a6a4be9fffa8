"""performance-config.yaml: test cases, each with operations and workloads that fill in parameters.

Read unchanged from upstream (test/integration/scheduler_perf, v1.36). A workload is named
CASE/NAME; what it comes to (`Plan`) has every `$parameter` resolved, every feature gate judged and
every path made absolute. Errors name the file, the case and the remedy.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from bench.perf.operations import (
    CreateAny,
    CreatePods,
    CreatePodSets,
    Operation,
    Sleep,
    UpdateAny,
)
from shared.durations import parse_duration
from shared.errors import ConfigurationError
from shared.yaml_fields import YAML_FAULTS, yaml_problem

Params = Mapping[str, Any]


class Workload(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    """One set of parameters for a test case."""

    name: str
    params: dict[str, Any] = {}
    labels: list[str] = []
    threshold: float | dict[str, float] = 0.0
    """Average pods/s below which upstream's CI fails; by topic where several share the file."""
    threshold_metric_selector: dict[str, Any] | None = None
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
    default_threshold_metric_selector: dict[str, Any] | None = None
    scheduler_config_path: str = ""


class Plan(NamedTuple):
    """A workload, ready to be run."""

    file: Path
    case: Case
    workload: Workload
    operations: tuple[Operation, ...]
    notes: tuple[str, ...]
    """What a reader of the result has to know."""

    @property
    def name(self) -> str:
        return f"{self.case.name}/{self.workload.name}"

    @property
    def topic(self) -> str:
        return self.file.parent.name

    @property
    def threshold(self) -> float:
        """0: none is stated."""
        stated = self.workload.threshold
        return stated.get(self.topic, 0.0) if isinstance(stated, dict) else float(stated)

    def path(self, relative: str) -> Path:
        """A path of the file, which counts from the file's own folder."""
        return (self.file.parent / relative).resolve()


def read_cases(file: Path) -> list[Case]:
    """The test cases of a file; ConfigurationError if it cannot be used."""
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
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


def plan_of(file: Path, case: Case, workload: Workload) -> Plan:
    """The workload with its parameters filled in; ConfigurationError if it cannot be run."""
    place = f"{file}: {case.name}/{workload.name}"
    gates = {**case.feature_gates, **workload.feature_gates}
    problems, notes = _judge_gates(gates)
    if case.scheduler_config_path:
        problems.append("schedulerConfigPath: give the file to --scheduler-config instead")
    used: set[str] = set()
    operations = []
    for index, operation in enumerate(case.workload_template):
        try:
            operations.append(_resolved(operation, workload.params, used))
        except ConfigurationError as error:
            problems.extend(f"operation {index}: {problem}" for problem in error.problems)
    unused = sorted(set(workload.params) - used)
    if unused and not problems:
        problems.append(f"parameters that no operation uses: {', '.join(unused)}")
    if problems:
        raise ConfigurationError(place, problems)
    return Plan(file, case, workload, tuple(operations), tuple(notes))


# Feature gates ------------------------------------------------------------------------------------

_ALWAYS: Final[Mapping[str, str]] = {
    "SchedulerQueueingHints": "queueing hints are always on in berth",
    "SchedulerAsyncAPICalls": "API calls are always asynchronous in berth",
    "SchedulerAsyncPreemption": "preemption is always asynchronous in berth",
    "NodeInclusionPolicyInPodTopologySpread": "node inclusion policies are always obeyed by berth",
    "NodeDeclaredFeatures": "NodeDeclaredFeatures is part of berth's default profile",
    "DynamicResourceAllocation": "dynamic resources are part of the default profile (GA upstream)",
}
"""Gates of which berth has one side only. The other side is accepted where it changes how upstream
works and not what it decides; the note is kept with the result."""

_MUST_BE_ON: Final = frozenset(
    {"NodeInclusionPolicyInPodTopologySpread", "DynamicResourceAllocation"}
)
_MUST_BE_OFF: Final = frozenset({"DRAExtendedResource"})


def _judge_gates(gates: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    """(problems, notes)"""
    problems, notes = [], []
    for gate, is_on in sorted(gates.items()):
        if gate in _MUST_BE_OFF and not is_on:
            continue
        if gate in _MUST_BE_OFF or (gate in _MUST_BE_ON and not is_on):
            side = "on" if is_on else "off"
            problems.append(f"featureGates.{gate}: berth cannot decide as with this gate {side}")
        elif gate in _ALWAYS:
            if not is_on:
                notes.append(f"{gate}: false in the workload; {_ALWAYS[gate]}")
        else:
            problems.append(f"featureGates.{gate}: berth does not know this gate")
    return problems, notes


# Parameters ---------------------------------------------------------------------------------------

_PARAMETERS: Final[Mapping[str, str]] = {
    "count_param": "count",
    "steady_state_param": "steady_state",
    "duration_param": "duration",
}


def _resolved(operation: Operation, params: Params, used: set[str]) -> Operation:
    """The operation with the values of its parameters in place of their names."""
    changes: dict[str, Any] = {}
    for by_name, field in _PARAMETERS.items():
        name = getattr(operation, by_name, "")
        if name:
            changes[field] = _parameter(name, params, used)
    template_params = getattr(operation, "template_params", None)
    if template_params:
        changes["template_params"] = {
            key: _parameter(value, params, used)
            if isinstance(value, str) and value.startswith("$")
            else value
            for key, value in template_params.items()
        }
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


def _check(operation: Operation) -> None:
    problems = []
    count = getattr(operation, "count", None)
    is_optional = isinstance(operation, CreateAny | UpdateAny)
    if hasattr(operation, "count") and not (is_optional and count is None):
        is_number = isinstance(count, int) and not isinstance(count, bool) and count >= 0
        if not is_number:
            problems.append(f"count {count!r}: must be a number, 0 or more")
    if isinstance(operation, Sleep) and not operation.duration:
        problems.append("duration or durationParam must be given")
    if isinstance(operation, CreatePods):
        if operation.collect_metrics and operation.skip_wait_to_completion:
            problems.append("collectMetrics and skipWaitToCompletion exclude one another")
        if operation.steady_state and not operation.duration:
            problems.append("steadyState needs a duration")
        if operation.persistent_volume_template_path:
            problems.append("persistentVolumeTemplatePath is not supported yet")
    if problems:
        raise ConfigurationError("operation", problems)


def duration_s(text: str) -> float:
    """Of an operation; ConfigurationError if it is none."""
    try:
        return parse_duration(text.strip())
    except ValueError as error:
        raise ConfigurationError("duration", [str(error)]) from error
