"""Differences between what was decided and what kube-scheduler decided.

Nothing is passed over in silence: what cannot be compared because a plugin is not built, or because
the evaluator cannot see it, is counted by field and plugin (`LeftOut`) and printed by the runner.
Left out for a plugin that is not built is only what says that it had no say: PreFilter `Skip`, its
being skipped by PreScore, its weight, and of DynamicResources the score of 0 that it gives every
node. Anything else that it did stays in the comparison and fails it.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from bench.conformance.evaluator import UNSEEN, Outcome
from bench.conformance.scenario import Expected
from shared import plugin_names

LeftOut = Counter[str]
"""What was not compared and why -> how often."""

NEEDS_PLUGIN: Final[Mapping[str, str]] = {
    "post_filter": plugin_names.DEFAULT_PREEMPTION,
    "nominated_node": plugin_names.DEFAULT_PREEMPTION,
    "claims": plugin_names.DYNAMIC_RESOURCES,
    "pre_bind": plugin_names.DYNAMIC_RESOURCES,
}
"""Field of a decision -> the plugin that is all there is to it."""

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
    missing = outcome.missing_plugins
    found: list[Difference] = []
    weights = {name: w for name, w in expected.weights.items() if name not in missing}
    left_out.update(f"weights: {name} is not built" for name in expected.weights if name in missing)
    found += _diff("weights", weights, outcome.weights)
    if len(expected.decisions) != len(outcome.decisions):
        found.append(
            Difference("decisions", len(expected.decisions), f"{len(outcome.decisions)} of them")
        )
    for number, (wanted, got) in enumerate(
        zip(expected.decisions, outcome.decisions, strict=False)
    ):
        path = f"decisions[{number}] {wanted['pod']}"
        wanted = _without_missing(wanted, missing, left_out)
        if plugin_names.DEFAULT_PREEMPTION in missing:
            wanted, got = _before_preemption(wanted, got, left_out)
        wanted, got = _observed(wanted, got, observes, left_out)
        found += _diff(path, wanted, got)
    wanted_nodes = {name: _without_zero_scalars(node) for name, node in expected.nodes.items()}
    got_nodes = {name: _without_zero_scalars(node) for name, node in outcome.nodes.items()}
    found += _diff("nodes", wanted_nodes, got_nodes)
    return found


# What is left out -----------------------------------------------------------------------------------


def _without_missing(
    decision: dict[str, Any], missing: frozenset[str], left_out: LeftOut
) -> dict[str, Any]:
    """The decision without what plugins that are not built would have said about themselves."""
    kept = dict(decision)
    for field, plugin in NEEDS_PLUGIN.items():
        if field in kept and plugin in missing:
            del kept[field]
            left_out[f"{field}: {plugin} is not built"] += 1
    if "pre_filter" in kept:
        kept["pre_filter"] = _without(
            kept["pre_filter"], missing, "pre_filter Skip", left_out, _is_skip
        )
    if "scores" in kept:
        kept["scores"] = _scores_without(kept["scores"], missing, left_out)
    return kept


def _before_preemption(
    wanted: dict[str, Any], got: dict[str, Any], left_out: LeftOut
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Messages as far as they go before PostFilter adds its part at their end.

    Compact decisions hold the whole message only, so of them its beginning is compared.
    """
    ours = got.get("message_without_preemption")
    if ours is None or "message" not in wanted:
        return wanted, got
    left_out[f"message, its end: {plugin_names.DEFAULT_PREEMPTION} is not built"] += 1
    got = {field: value for field, value in got.items() if field != "message"}
    whole = wanted["message"]
    wanted = {field: value for field, value in wanted.items() if field != "message"}
    if "message_without_preemption" not in wanted:
        wanted["message_without_preemption"] = ours if whole.startswith(ours) else whole
    return wanted, got


def _scores_without(
    scores: dict[str, Any], missing: frozenset[str], left_out: LeftOut
) -> dict[str, Any]:
    skipped = scores.get("skipped", [])
    left_out.update(f"scores.skipped: {name} is not built" for name in skipped if name in missing)
    zero = missing & {plugin_names.DYNAMIC_RESOURCES}
    return {
        **scores,
        "plugins": _without(scores["plugins"], zero, "scores of 0", left_out, _is_zero),
        "skipped": [name for name in skipped if name not in missing],
    }


def _without(
    entries: dict[str, Any],
    missing: frozenset[str],
    what: str,
    left_out: LeftOut,
    has_no_say: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    dropped = {name for name, entry in entries.items() if name in missing and has_no_say(entry)}
    left_out.update(f"{what}: {name} is not built" for name in dropped)
    return {name: entry for name, entry in entries.items() if name not in dropped}


def _is_skip(status: dict[str, Any]) -> bool:
    return bool(status == {"code": "Skip"})


def _is_zero(score: dict[str, Any]) -> bool:
    return not any(score["raw"].values()) and not any(score["normalized"].values())


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
    if "pre_filter" in got:
        statuses = got["pre_filter"]
        own = {n: s for n, s in statuses.items() if n not in WITHOUT_UPSTREAM_PRE_FILTER}
        got = {**got, "pre_filter": own}
    return wanted, got


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
