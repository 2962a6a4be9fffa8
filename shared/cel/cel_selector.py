"""A device selector: a CEL expression over one device, compiled once.

cel-go would be the reference; of what PyPI offers, cel-python brings five dependencies (one native),
its own error texts and no Kubernetes types, and common-expression-language is a compiled Rust module
that cannot be taught methods of quantities and versions. A selector is evaluated for each device
and its error text is shown to users, so this is our own: the subset of the language that a device
selector can use, evaluated in a few microseconds.

Not here: static types (the API server checked them when the object was stored; a wrong type is a
runtime error `no such overload`), durations, timestamps, URLs, IP addresses. What is not known does
not compile and says so.

Rules: staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go, v1.36.
"""

import functools
from collections.abc import Mapping
from typing import Any, Final

from shared.cel.cel_compile import Evaluate, compiled
from shared.cel.cel_costs import COST_MAX, Budget, CancelledError, CelScope
from shared.cel.cel_syntax import Call, Ident, ListNode, Literal, MapNode, Node, Select, parse
from shared.cel.cel_values import DEVICE, CelCompileError, CelError, type_name
from shared.limits import CEL_EXPRESSIONS_MAX

_NAMES: Final = frozenset({DEVICE})
_SOURCE_LETTERS: Final = 50
"""So many of an expression cost 1, for what is evaluated of it and not charged for."""


class Expression:
    """A compiled selector."""

    __slots__ = ("_evaluate", "source")

    def __init__(self, source: str, evaluate: Evaluate) -> None:
        self.source = source
        self._evaluate = evaluate

    def matches(self, device: dict[str, Any], work: Budget) -> bool:
        """Whether the device is selected; CelError where that cannot be told. What it costs is added
        to `work`."""
        scope = CelScope({DEVICE: device}, work)
        try:
            value = self._evaluate(scope)
        except RecursionError as error:
            raise CelError("expression recursion limit exceeded") from error
        except CancelledError as error:
            if scope.limit < COST_MAX:
                raise work.exhausted() from error
            raise CelError("operation cancelled: actual cost limit exceeded") from error
        finally:
            # What an evaluation was ended for was not done.
            cost = scope.limit - max(scope.left, 0) + scope.more
            work.add_evaluation(cost + len(self.source) // _SOURCE_LETTERS)
        if not isinstance(value, bool):
            kind = type_name(value)
            other = f"type conversion error from '{kind.removeprefix('kubernetes.')}' to 'bool'"
            why = _NO_BOOL.get(kind, other)
            raise CelError(f"CEL result of type {kind} could not be converted to bool: {why}")
        return value


_NO_BOOL: Final[Mapping[str, str]] = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "type": "type conversion not supported for 'type'",
}


@functools.lru_cache(maxsize=CEL_EXPRESSIONS_MAX)
def compile_selector(source: str) -> Expression | CelCompileError:
    """The compiled expression, or why it is none (a value, so that it is remembered as well)."""
    try:
        node = parse(source)
        evaluate = compiled(node, _NAMES)
    except CelCompileError as error:
        return error
    except RecursionError:  # Within the limits of each chain and still too deep altogether.
        return CelCompileError("expression recursion limit exceeded")
    result = _static_type(node)
    if result not in ("bool", "dyn"):
        return CelCompileError(f"must evaluate to bool or the unknown type, not {result}")
    return Expression(source, evaluate)


_RESULTS: Final[Mapping[str, str]] = {
    "size": "int", "quantity": "kubernetes.Quantity", "semver": "kubernetes.Semver", "int": "int",
    "string": "string", "double": "double", "uint": "uint", "bytes": "bytes", "compareTo": "int",
    "major": "int", "minor": "int", "patch": "int", "asInteger": "int", "sign": "int",
    "lowerAscii": "string", "upperAscii": "string", "trim": "string", "replace": "string",
    "substring": "string", "charAt": "string", "join": "string", "indexOf": "int",
    "lastIndexOf": "int", "asApproximateFloat": "double", "type": "type", "quote": "string",
    "slice": "list", "reverse": "list", "unwrap": "list", "unwrapOpt": "list", "first": "optional_type",
    "last": "optional_type",
}  # fmt: skip


def _static_type(node: Node) -> str:
    """The type of the result as far as it can be told without types of the parts."""
    match node:
        case Literal():
            return type_name(node.value)
        case ListNode():
            return "list"
        case MapNode():
            return "map"
        case Call():
            return _RESULTS.get(node.function, "dyn")
        case Select():
            is_device = node.operand == Ident(DEVICE) and not node.is_optional
            return {"driver": "string", "attributes": "map", "capacity": "map"}.get(
                node.field if is_device else "", "dyn"
            )
        case _:
            return "dyn"
