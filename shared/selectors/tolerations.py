"""Which taints a pod tolerates.

Nodes share few distinct sets of taints, so plugins judge each set once (`answer_table.py`) and a
node costs one look-up.

Rules: staging/src/k8s.io/api/core/v1/toleration.go `ToleratesTaint` and component-helpers'
scheduling/corev1/helpers.go, v1.36. Operators Gt and Lt count only with the feature gate
TaintTolerationComparisonOperators, off by default; with it, numbers are plain decimal int64 without
leading zeros, and what is not such a number tolerates nothing.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from shared.columns.table import TaintTuple
from shared.kube.api.core_v1_parts import Toleration
from shared.selectors.node_terms import parse_int64

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
_DECIMAL: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


class TolerationRule(NamedTuple):
    key: str
    operator: str
    value: str
    effect: str
    has_comparison: bool = False
    """Whether Gt and Lt mean anything (the feature gate)."""


def toleration_rules(
    tolerations: Iterable[Toleration] | None, *, has_comparison: bool = False
) -> tuple[TolerationRule, ...]:
    """The pod's tolerations as plain values."""
    return tuple(
        TolerationRule(t.key, t.operator, t.value, t.effect, has_comparison)
        for t in tolerations or ()
    )


def tolerates(rules: Iterable[TolerationRule], taint: TaintTuple) -> bool:
    """Whether any of the tolerations covers the taint."""
    return any(_covers(rule, taint) for rule in rules)


def _covers(rule: TolerationRule, taint: TaintTuple) -> bool:
    key, value, effect = taint
    if rule.effect and rule.effect != effect:
        return False
    if rule.key and rule.key != key:
        return False
    match rule.operator:
        case "" | "Equal":
            return rule.value == value
        case "Exists":
            return True
        case "Gt" | "Lt":
            bound, number = _decimal(rule.value), _decimal(value)
            if not rule.has_comparison or bound is None or number is None:
                return False
            return number > bound if rule.operator == "Gt" else number < bound
        case _:
            return False


def _decimal(text: str) -> int | None:
    return parse_int64(text) if _DECIMAL.fullmatch(text) is not None else None


def is_repelled(taints: Sequence[TaintTuple], rules: Sequence[TolerationRule]) -> bool:
    """Whether some taint keeps the pod off the node."""
    return any(
        taint[2] in (NO_SCHEDULE, NO_EXECUTE) and not tolerates(rules, taint) for taint in taints
    )


def unwelcome_count(taints: Sequence[TaintTuple], rules: Sequence[TolerationRule]) -> int:
    """How many PreferNoSchedule taints the pod does not tolerate."""
    return sum(taint[2] == PREFER_NO_SCHEDULE and not tolerates(rules, taint) for taint in taints)
