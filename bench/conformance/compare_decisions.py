"""Differences between what was decided and what kube-scheduler decided.

Nothing is passed over in silence: what cannot be compared because the evaluator cannot see it is
counted by field (`LeftOut`) and printed by the runner.
"""

from collections import Counter
from typing import Any, Final, NamedTuple

from bench.conformance.corpus_evaluator import UNSEEN, Outcome
from bench.conformance.scenario import Expected
from shared import plugin_names

LeftOut = Counter[str]
"""What was not compared and why -> how often."""

WITHOUT_UPSTREAM_PRE_FILTER: Final = frozenset(
    {plugin_names.NODE_NAME, plugin_names.NODE_UNSCHEDULABLE, plugin_names.TAINT_TOLERATION}
)
"""Plugins that prepare in PreFilter here and have no PreFilter in kube-scheduler."""


class Difference(NamedTuple):
    """One field that came out otherwise."""

    path: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected!r}, got {self.actual!r}"


class Absent:
    """Stands for a field that is not there."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = Absent()


def differences(
    expected: Expected, outcome: Outcome, observes: frozenset[str], left_out: LeftOut
) -> list[Difference]:
    """Everything that differs in one scenario."""
    found = _diff("weights", expected.weights, outcome.weights)
    if len(expected.decisions) != len(outcome.decisions):
        found.append(
            Difference("decisions", len(expected.decisions), f"{len(outcome.decisions)} of them")
        )
    for number, (wanted, got) in enumerate(
        zip(expected.decisions, outcome.decisions, strict=False)
    ):
        path = f"decisions[{number}] {wanted['pod']}"
        wanted, got = _observed(wanted, got, observes, left_out)
        found += _diff(path, wanted, got)
    wanted_nodes = {name: _without_zero_scalars(node) for name, node in expected.nodes.items()}
    got_nodes = {name: _without_zero_scalars(node) for name, node in outcome.nodes.items()}
    found += _diff("nodes", wanted_nodes, got_nodes)
    return found


# What is left out -----------------------------------------------------------------------------------


def _observed(
    wanted: dict[str, Any], got: dict[str, Any], observes: frozenset[str], left_out: LeftOut
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both without the fields that the evaluator cannot tell or the corpus does not record."""
    left_out.update(
        f"{field}: not seen by this evaluator" for field in wanted if field not in observes
    )
    wanted = {field: value for field, value in wanted.items() if field in observes}
    unseen = {field for field, value in got.items() if value is UNSEEN}
    if unseen:
        left_out.update(f"{field}: not seen by this evaluator" for field in unseen & wanted.keys())
        wanted = {field: value for field, value in wanted.items() if field not in unseen}
        got = {field: value for field, value in got.items() if field not in unseen}
    return wanted, as_upstream_shows(got)


def as_upstream_shows(decision: dict[str, Any]) -> dict[str, Any]:
    """A decision without the PreFilter of plugins that have none upstream."""
    if "pre_filter" not in decision:
        return decision
    statuses = decision["pre_filter"]
    own = {n: s for n, s in statuses.items() if n not in WITHOUT_UPSTREAM_PRE_FILTER}
    return {**decision, "pre_filter": own}


def _without_zero_scalars(node: dict[str, Any]) -> dict[str, Any]:
    """Columns do not tell a scalar resource of 0 from one that is not there."""
    kept = dict(node)
    for field in ("requested", "allocatable"):
        if field in kept:
            scalars = {k: v for k, v in kept[field].get("scalar", {}).items() if v}
            kept[field] = {k: v for k, v in kept[field].items() if k != "scalar"}
            kept[field]["scalar"] = scalars
    return kept


# Comparing ------------------------------------------------------------------------------------------


def _diff(path: str, expected: Any, actual: Any) -> list[Difference]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        found: list[Difference] = []
        for key in sorted(expected.keys() | actual.keys()):
            found += _diff(f"{path}.{key}", expected.get(key, ABSENT), actual.get(key, ABSENT))
        return found
    return [] if expected == actual else [Difference(path, expected, actual)]
