"""What a call in a CEL expression costs, by the sizes of what it is called with.

In units of Kubernetes' estimator, which ends an evaluation that costs too much. Costs are known before
the call, so that nothing large is made first and counted then. Where upstream counts less than the
call does here (lists that are added are copied, equal lists are compared whole, a replacement may be
longer than what it replaces, a text is read as a number, a short text in a list is looked at, too), the
call costs what it does: it matters to hostile expressions alone.

Rules: google/cel-go interpreter/runtimecost.go and ext/sets.go;
staging/src/k8s.io/apiserver/pkg/cel/library/cost.go, v1.36.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from shared.cel.cel_values import Optional, Semver
from shared.limits import CEL_PATTERNS_MAX

COST_MAX: Final = 1_000_000
"""Of one evaluation (CELSelectorExpressionMaxCost upstream)."""
LIST_COST: Final = 10
MAP_COST: Final = 30
"""Of making one, beside its parts."""
_LETTERS: Final = 10
"""So many characters cost 1 where a text is gone through once."""
_PATTERN_LETTERS: Final = 4
"""So many characters of a regular expression cost 1 for each unit that the text costs."""
_FOUND_COST: Final = 6
"""Of a match that is handed out, of which there may be one for each character: some 3.5 us."""
LEAVES: Final = 10
"""So many constants and names cost 1, in all that Kubernetes does not count: 60 ns each."""


def _units(letters: int) -> int:
    return -(-letters // _LETTERS)


def _size(value: Any) -> int:
    if isinstance(value, Optional):
        value = value.value
    return len(value) if isinstance(value, _SIZED) else 1


_SIZED: Final = (str, bytes, list, dict)
_WITH_PARTS: Final = (list, dict, Optional, Semver)


def _walk(value: Any) -> Iterator[int]:
    """Goes through a value with all that is in it: what that has cost, at each of its parts. What is
    shared counts each time."""
    cost, left = 0, [value]
    while left:
        each = left.pop()
        cost += max(len(each) // _LETTERS, 1) if isinstance(each, str | bytes) else 1
        if isinstance(each, list):
            left += each
        elif isinstance(each, dict):
            left += each.keys()
            left += each.values()
        elif isinstance(each, Optional):
            left.append(each.value)
        elif isinstance(each, Semver):
            left += each.pre
        yield cost


def _whole(value: Any, *_: Any) -> int:
    """Of the whole walk, which ends where it is too much for any evaluation."""
    cost = 0
    for cost in _walk(value):
        if cost > COST_MAX:
            break
    return cost


def _smaller(a: Any, b: Any) -> int:
    """The lesser of two whole walks: whichever has cost less goes on, so that nothing is gone through
    that is not compared."""
    costs, walks = [0, 0], (_walk(a), _walk(b))
    while costs[0] <= COST_MAX or costs[1] <= COST_MAX:
        less = int(costs[1] < costs[0])
        cost = next(walks[less], None)
        if cost is None:
            break
        costs[less] = cost
    return min(costs)


def _once(text: Any, *_: Any) -> int:
    return _units(_size(text))


def _shorter(a: Any, b: Any) -> int:
    return _units(min(_size(a), _size(b)))


def _equality(a: Any, b: Any) -> int:
    if type(a) is str and type(b) is str:
        return (min(len(a), len(b)) + _LETTERS - 1) // _LETTERS
    return _smaller(a, b) if isinstance(a, _WITH_PARTS) else _shorter(a, b)


def _matching(text: Any, pattern: Any, *_: Any) -> int:
    return _units(1 + _size(text)) * max(-(-_size(pattern) // _PATTERN_LETTERS), 1)


def _containing(text: Any, part: Any) -> int:
    return _units(_size(text)) * _units(_size(part))


def _last_place(target: Any, wanted: Any, *_: Any) -> int:
    # Python looks for a text from behind by comparing it at each place.
    return _containing(target, wanted) if isinstance(target, str) else _whole(target)


def _joining(parts: Any, separator: Any = "") -> int:
    if not isinstance(parts, list):
        return 1
    return _units(2 * (sum(map(_size, parts)) + len(parts) * _size(separator))) + len(parts)


def _replacing(text: Any, old: Any, new: Any, *_: Any) -> int:
    size, count = _size(text), _size(text) + 1
    if isinstance(text, str) and isinstance(old, str):
        count = text.count(old)
    return _units(2 * max(size, size + count * (_size(new) - _size(old))))


def _copying(values: Any, *_: Any) -> int:
    return 1 + LIST_COST + _size(values)


def _sets(a: Any, b: Any) -> int:
    size = _size(a)
    return 1 + (size and size * _whole(b))


def _ordering(a: Any, b: Any) -> int:
    return _whole(a) + _whole(b) - 1


COSTS: Final[Mapping[str, Callable[..., int]]] = {
    "_==_": _equality, "_!=_": _equality,
    "_+_": lambda a, b: _units(_size(a) + _size(b)),
    "@in": lambda _, container: _whole(container) if isinstance(container, list) else 1,
    "contains": _containing, "lastIndexOf": _last_place,
    "replace": _replacing, "split": lambda text, *_: _units(2 * _size(text)), "join": _joining,
    "sets.contains": _sets, "sets.intersects": _sets,
    "sets.equivalent": lambda a, b: _sets(a, b) + _size(b) * _whole(a),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _shorter),
    **dict.fromkeys(("matches", "find"), _matching),
    "findAll": lambda text, *others: _matching(text, *others) + _FOUND_COST * _size(text),
    **dict.fromkeys(("reverse", "slice", "unwrapOpt", "optional.unwrap"), _copying),
    **dict.fromkeys(("isSorted", "sum", "min", "max", "indexOf"), _whole),
    **dict.fromkeys(("isGreaterThan", "isLessThan", "compareTo"), _ordering),
    **dict.fromkeys(
        ("startsWith", "endsWith", "string", "bytes", "lowerAscii", "upperAscii", "substring", "trim",
         "quantity", "isQuantity", "semver", "isSemver", "int", "uint", "double", "strings.quote"), _once
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

    __slots__ = ("left", "limit", "more", "patterns", "variables", "work")

    def __init__(self, variables: dict[str, Any], work: Budget) -> None:
        self.variables = variables
        self.work = work
        self.left = self.limit = min(COST_MAX, work.cost_max)
        self.more = 0
        """Work that is no part of the cost."""
        self.patterns: set[str] = set()
        """Regular expressions that are taken to be compiled."""

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

    def add_pattern(self, pattern: str, work: int) -> None:
        """Notes what compiling takes, also where it was done before: what some process happens to keep
        must not decide where a search ends. Of those noted since `patterns` was last empty all are
        kept."""
        if pattern in self.patterns:
            return
        if len(self.patterns) == CEL_PATTERNS_MAX:
            self.patterns.clear()
        self.patterns.add(pattern)
        self.add(work)
