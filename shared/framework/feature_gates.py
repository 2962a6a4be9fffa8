"""Kubernetes feature gates that change what is decided or written, with their defaults in v1.36.

Only gates that something here obeys are listed. Asking for another value of any other gate is
refused rather than ignored: the caller would get decisions that the gate says it should not get.
"""

from collections.abc import Mapping
from typing import Final

from shared.errors import ConfigurationError

TAINT_TOLERATION_COMPARISON_OPERATORS: Final = "TaintTolerationComparisonOperators"
STORAGE_CAPACITY_SCORING: Final = "StorageCapacityScoring"
NOMINATED_NODE_NAME_FOR_EXPECTATION: Final = "NominatedNodeNameForExpectation"

DEFAULTS: Final[Mapping[str, bool]] = {
    TAINT_TOLERATION_COMPARISON_OPERATORS: False,
    STORAGE_CAPACITY_SCORING: False,
    NOMINATED_NODE_NAME_FOR_EXPECTATION: True,
}

_BOOLEANS: Final[Mapping[str, bool]] = {"true": True, "false": False}


class FeatureGates:
    """Which gates are on."""

    def __init__(self, changed: Mapping[str, bool] | None = None) -> None:
        unknown = sorted(set(changed or ()) - set(DEFAULTS))
        if unknown:
            known = ", ".join(DEFAULTS)
            problems = [f"{gate}: berth does not obey this gate, only {known}" for gate in unknown]
            raise ConfigurationError("featureGates", problems)
        self._gates = {**DEFAULTS, **(changed or {})}

    def __getitem__(self, name: str) -> bool:
        return self._gates[name]


def parse_feature_gates(text: str) -> FeatureGates:
    """Reads `Name=true,Name=false`, as kube-scheduler's --feature-gates; empty: all as by default."""
    changed: dict[str, bool] = {}
    problems: list[str] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = entry.partition("=")
        if value.lower() not in _BOOLEANS:
            problems.append(f"{entry}: write {name or 'Name'}=true or {name or 'Name'}=false")
        changed[name] = _BOOLEANS.get(value.lower(), False)
    if problems:
        raise ConfigurationError("--feature-gates", problems)
    return FeatureGates(changed)
