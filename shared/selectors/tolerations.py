"""Which taints a pod tolerates.

Nodes share few distinct sets of taints, so plugins judge each set once (`answer_table.py`) and a
node costs one look-up.

Rules: staging/src/k8s.io/api/core/v1/toleration.go `ToleratesTaint` and component-helpers'
scheduling/corev1/helpers.go, v1.36. Operators Gt and Lt count only with the feature gate
TaintTolerationComparisonOperators, off by default; with it, numbers are plain decimal int64 without
leading zeros, and what is not such a number tolerates nothing.
"""

import re
from collections.abc import Iterable
from typing import Final

from shared.columns.table import TaintTuple
from shared.kube.api.core_v1_parts import Toleration
from shared.selectors.requirement import parse_int64

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
_DECIMAL: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


Tolerations = Iterable[Toleration] | None


def tolerates(tolerations: Tolerations, taint: TaintTuple, *, has_comparison: bool = False) -> bool:
    """Whether any of the tolerations covers the taint. `has_comparison`, here and below: whether Gt and
    Lt mean anything (the feature gate)."""
    return any(_covers(each, taint, has_comparison) for each in tolerations or ())


def _covers(toleration: Toleration, taint: TaintTuple, has_comparison: bool) -> bool:
    key, value, effect = taint
    if toleration.effect and toleration.effect != effect:
        return False
    if toleration.key and toleration.key != key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == value
        case "Exists":
            return True
        case "Gt" | "Lt":
            bound, number = _decimal(toleration.value), _decimal(value)
            if not has_comparison or bound is None or number is None:
                return False
            return number > bound if toleration.operator == "Gt" else number < bound
        case _:
            return False


def _decimal(text: str) -> int | None:
    return parse_int64(text) if _DECIMAL.fullmatch(text) is not None else None


def is_repelled(
    taints: Iterable[TaintTuple], tolerations: Tolerations, *, has_comparison: bool = False
) -> bool:
    """Whether some taint keeps the pod off the node."""
    keeping = (each for each in taints if each[2] in (NO_SCHEDULE, NO_EXECUTE))
    return not all(tolerates(tolerations, t, has_comparison=has_comparison) for t in keeping)


def unwelcome_count(
    taints: Iterable[TaintTuple], tolerations: Tolerations, *, has_comparison: bool = False
) -> int:
    """How many PreferNoSchedule taints the pod does not tolerate."""
    soft = (each for each in taints if each[2] == PREFER_NO_SCHEDULE)
    return sum(not tolerates(tolerations, t, has_comparison=has_comparison) for t in soft)
