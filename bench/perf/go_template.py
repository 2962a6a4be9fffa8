"""The part of Go's text/template that scheduler_perf's templates use, and no more.

Text with `{{ ... }}` in it: a field (`.Index`, `.Count`, or a template parameter), a literal, or one
of scheduler_perf's functions, with arguments in parentheses where they nest. Anything else (if,
range, pipes, variables) is refused by name rather than rendered wrong. Functions as in
test/integration/scheduler_perf/create.go `getTemplateFuncs`, v1.36.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final

from shared.errors import OperationalError

Value = str | int | float | bool

_ACTION: Final = re.compile(r"\{\{(-?)(.*?)(-?)\}\}", re.DOTALL)
_TOKEN: Final = re.compile(r'\s*(\(|\)|"[^"]*"|[^\s()"]+)')


class TemplateError(OperationalError):
    """A template that cannot be rendered here."""


def has_actions(text: str) -> bool:
    """Whether rendering would change anything."""
    return "{{" in text


def render(text: str, fields: Mapping[str, Value], source: str) -> str:
    """The text with every action replaced; TemplateError names `source`."""

    def replace(match: re.Match[str]) -> str:
        before, action, after = match.groups()
        if before or after:
            raise TemplateError(f"{source}: {match.group()}: trimming is not supported")
        return _shown(_evaluate(action, fields, f"{source}: {match.group()}"))

    return _ACTION.sub(replace, text)


def _evaluate(action: str, fields: Mapping[str, Value], place: str) -> Value:
    tokens = _TOKEN.findall(action)
    value, rest = _expression(tokens, fields, place)
    if rest:
        raise TemplateError(f"{place}: cannot read {' '.join(rest)!r}; no pipes, if or range here")
    return value


def _expression(
    tokens: Sequence[str], fields: Mapping[str, Value], place: str
) -> tuple[Value, Sequence[str]]:
    """A function with its arguments, or a single operand."""
    if not tokens:
        raise TemplateError(f"{place}: nothing to show")
    function = FUNCTIONS.get(tokens[0])
    if function is None:
        return _operand(tokens, fields, place)
    rest = tokens[1:]
    arguments: list[float] = []
    while rest and rest[0] != ")":
        value, rest = _operand(rest, fields, place)
        try:
            arguments.append(float(value))
        except ValueError:
            raise TemplateError(f"{place}: {value!r} is no number") from None
    try:
        return function(arguments), rest
    except (ZeroDivisionError, ValueError, IndexError) as error:
        raise TemplateError(f"{place}: {tokens[0]} of {arguments}: {error}") from None


def _operand(
    tokens: Sequence[str], fields: Mapping[str, Value], place: str
) -> tuple[Value, Sequence[str]]:
    first, rest = tokens[0], tokens[1:]
    if first == "(":
        value, rest = _expression(rest, fields, place)
        if not rest or rest[0] != ")":
            raise TemplateError(f"{place}: a parenthesis is not closed")
        return value, rest[1:]
    if first.startswith("."):
        if first[1:] not in fields:
            raise TemplateError(f"{place}: there is no {first}; known: {', '.join(sorted(fields))}")
        return fields[first[1:]], rest
    if first.startswith('"'):
        return first[1:-1], rest
    try:
        return (float(first) if "." in first else int(first)), rest
    except ValueError:
        raise TemplateError(
            f"{place}: {first!r} is not supported; there are fields, numbers and"
            f" {', '.join(sorted(FUNCTIONS))}"
        ) from None


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value}"


def _subtract(numbers: Sequence[float]) -> float:
    return numbers[0] - numbers[1]


def _divide(numbers: Sequence[float]) -> float:
    return numbers[0] / numbers[1]


def _whole(function: Callable[[Sequence[float]], float]) -> Callable[[Sequence[float]], float]:
    return lambda numbers: int(function(numbers))


def _product(numbers: Sequence[float]) -> float:
    return reduce(lambda a, b: a * b, numbers, 1.0)


def _mod(numbers: Sequence[float]) -> float:
    # Go's % has the sign of the dividend.
    return int(math.fmod(int(numbers[0]), int(numbers[1])))


FUNCTIONS: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "AddFloat": sum,
    "AddInt": _whole(sum),
    "DivideFloat": _divide,
    "DivideInt": _whole(_divide),
    "Mod": _mod,
    "MultiplyFloat": _product,
    "MultiplyInt": _whole(_product),
    "SubtractFloat": _subtract,
    "SubtractInt": _whole(_subtract),
}
