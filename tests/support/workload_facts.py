"""What workload files come to, whoever wrote them: a form in which equal workloads are equal.

Names that decide nothing (of containers and images, and what generated names begin with) are left out,
and members that are empty.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson

from bench.perf.config_file import Case, Plan, Workload, plan_of, read_cases
from bench.perf.object_template import ObjectTemplate
from bench.perf.operations import Operation

INDICES: Final = (0, 1, 26)
COUNT: Final = 30
_REPLACED: Final = ("generateName", "volumeID")
OURS_ALONE: Final = frozenset(
    {"PreemptionBasic/5000Nodes", "SchedulingWithResourceClaimTemplate/10000pods_5000nodes"}
)


def facts_of(files: Iterable[Path]) -> dict[str, bytes]:
    """CASE/NAME -> digest of all that the workload says, thresholds included."""
    found = {}
    for file in files:
        for case in read_cases(file):
            for workload in case.workloads:
                if (name := f"{case.name}/{workload.name}") not in OURS_ALONE:
                    told = orjson.dumps(_facts(file, case, workload), option=orjson.OPT_SORT_KEYS)
                    found[name] = hashlib.blake2b(told, digest_size=4).digest()
    return found


def digest_of(facts: Mapping[str, bytes]) -> str:
    """Of all workloads, whatever file and order they are in."""
    told = b"".join(name.encode() + facts[name] for name in sorted(facts))
    return hashlib.blake2b(told, digest_size=8).hexdigest()


def _facts(file: Path, case: Case, workload: Workload) -> dict[str, Any]:
    plan = plan_of(file, case, workload)
    config = case.scheduler_config_path
    threshold = workload.threshold
    if isinstance(threshold, dict):
        # Several topics share a folder upstream: each file has thresholds of one.
        (threshold,) = threshold.values()
    return {
        "labels": sorted([*case.labels, *workload.labels]),
        "gates": {**case.feature_gates, **workload.feature_gates},
        "params": workload.params,
        "threshold": threshold,
        "config": msgspec.yaml.decode(plan.path(config).read_bytes()) if config else None,
        "operations": [_operation(plan, each) for each in plan.operations],
        "pod": _objects(plan, case.default_pod_template_path),
        "features": plan.declared_features,
    }


def _operation(plan: Plan, operation: Operation) -> dict[str, Any]:
    told = msgspec.to_builtins(operation)
    return {key: _member(plan, key, value) for key, value in told.items()}


def _member(plan: Plan, key: str, value: Any) -> Any:
    if key == "templatePaths":
        return [_objects(plan, each) for each in value]
    return _objects(plan, value) if key.endswith("emplatePath") else value


def _objects(plan: Plan, path: str) -> list[Any]:
    if not path:
        return []
    template = ObjectTemplate(plan.path(path))
    return [_plain(template.body(index, COUNT)) for index in INDICES]


def _plain(value: Any) -> Any:
    match value:
        case {"containers": list(containers), **others}:
            plain = [
                _plain({k: v for k, v in c.items() if k not in ("name", "image")})
                for c in containers
            ]
            return {**_plain(others), "containers": plain}
        case dict():
            members = {k: _plain(v) for k, v in value.items() if k not in _REPLACED}
            return {k: v for k, v in members.items() if v not in (None, {})}
        case list():
            return [_plain(each) for each in value]
        case _:
            return value
