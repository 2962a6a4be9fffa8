"""What a call in a CEL expression costs, by the sizes of what it is called with.

In units of Kubernetes' estimator, which ends an evaluation that costs too much. Costs are known before
the call, so that nothing large is made first and counted then. Where upstream counts less than the
call does here (lists that are added are copied, equal lists are compared whole, a replacement may be
longer than what it replaces), the call costs what it does: it matters to hostile expressions alone.

Rules: google/cel-go interpreter/runtimecost.go and ext/sets.go;
staging/src/k8s.io/apiserver/pkg/cel/library/cost.go, v1.36.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from shared.cel.cel_values import Optional

COST_MAX: Final = 1_000_000
"""Of one evaluation (CELSelectorExpressionMaxCost upstream)."""
LIST_COST: Final = 10
MAP_COST: Final = 30
"""Of making one, beside its parts."""
_LETTERS: Final = 10
"""So many characters cost 1 where a text is gone through once."""
_PATTERN_LETTERS: Final = 4
"""So many characters of a regular expression cost 1 for each unit that the text costs."""


def _units(letters: int) -> int:
    return -(-letters // _LETTERS)


def _size(value: Any) -> int:
    if isinstance(value, Optional):
        value = value.value
    return len(value) if isinstance(value, _SIZED) else 1


_SIZED: Final = (str, bytes, list, dict)
_WITH_PARTS: Final = (list, dict, Optional)


def _whole(value: Any, *_: Any) -> int:
    """Of going through a value with all that is in it. What is shared counts each time; the count
    ends where it is too much for any evaluation."""
    cost, left = 0, [value]
    while left and cost <= COST_MAX:
        each = left.pop()
        if isinstance(each, Optional):
            each = each.value
        cost += len(each) // _LETTERS if isinstance(each, str | bytes) else 1
        if isinstance(each, list):
            left += each
        elif isinstance(each, dict):
            left += each.keys()
            left += each.values()
    return cost


def _once(text: Any, *_: Any) -> int:
    return _units(_size(text))


def _shorter(a: Any, b: Any) -> int:
    return _units(min(_size(a), _size(b)))


def _equality(a: Any, b: Any) -> int:
    if type(a) is str and type(b) is str:
        return (min(len(a), len(b)) + _LETTERS - 1) // _LETTERS
    return min(_whole(a), _whole(b)) if isinstance(a, _WITH_PARTS) else _shorter(a, b)


def _matching(text: Any, pattern: Any, *_: Any) -> int:
    return _units(1 + _size(text)) * -(-_size(pattern) // _PATTERN_LETTERS)


def _joining(parts: Any, separator: Any = "") -> int:
    if not isinstance(parts, list):
        return 1
    return _units(2 * (sum(map(_size, parts)) + len(parts) * _size(separator)))


def _replacing(text: Any, old: Any, new: Any, *_: Any) -> int:
    size, count = _size(text), _size(text) + 1
    if isinstance(text, str) and isinstance(old, str):
        count = text.count(old)
    return _units(2 * max(size, size + count * (_size(new) - _size(old))))


def _sets(a: Any, b: Any) -> int:
    return 1 + _size(a) * _whole(b)


COSTS: Final[Mapping[str, Callable[..., int]]] = {
    "_==_": _equality, "_!=_": _equality,
    "_+_": lambda a, b: _units(_size(a) + _size(b)),
    "@in": lambda _, container: _whole(container) if isinstance(container, list) else 1,
    "contains": lambda text, part: _units(_size(text)) * _units(_size(part)),
    "replace": _replacing, "split": lambda text, *_: _units(2 * _size(text)), "join": _joining,
    "sets.contains": _sets, "sets.intersects": _sets,
    "sets.equivalent": lambda a, b: _sets(a, b) + _size(b) * _whole(a),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _shorter),
    **dict.fromkeys(("matches", "find", "findAll"), _matching),
    **dict.fromkeys(("isSorted", "sum", "min", "max", "indexOf", "lastIndexOf"), _whole),
    **dict.fromkeys(
        ("startsWith", "endsWith", "string", "bytes", "lowerAscii", "upperAscii", "substring", "trim",
         "quantity", "isQuantity", "semver", "isSemver"), _once
    ),
}  # fmt: skip
"""By name of the function, from what it is called with, which may be of any types; every other call
costs 1."""


class Budget(Protocol):
    """What the caller lets evaluations cost."""

    @property
    def cost_max(self) -> int:
        """Of the next one."""

    def add_evaluation(self, cost: int) -> None:
        """One has cost so much. Raises what ends the caller's attempt where that is too much."""

    def exhausted(self) -> Exception:
        """What to raise: the evaluation would cost more than there is."""


class CancelledError(Exception):
    """The evaluation costs too much. No CelError: nothing in the expression makes good for it."""


class CelScope:
    """The variables of an evaluation, and what it may still cost."""

    __slots__ = ("left", "limit", "more", "variables", "work")

    def __init__(self, variables: dict[str, Any], work: Budget) -> None:
        self.variables = variables
        self.work = work
        self.left = self.limit = min(COST_MAX, work.cost_max)
        self.more = 0
        """Work that is no part of the cost."""

    def charge(self, cost: int = 1) -> None:
        """Ends an evaluation that goes on for too long."""
        self.left -= cost
        if self.left < 0:
            raise CancelledError

    def add(self, work: int) -> None:
        """Notes work that Kubernetes does not count."""
        self.more += work
        if self.more > self.work.cost_max:
            raise self.work.exhausted()
