"""What cel-go says of a function that is called with values of types that it does not take."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from shared.cel.cel_values import CelError, type_name

_ADDED: Final = frozenset({"int", "uint", "double", "string", "bytes", "list"})
_COMPUTED: Final = frozenset({"int", "uint", "double", "string"})
_COMPARED: Final = frozenset({"int", "uint", "double", "string", "bytes", "bool"})
_OPERANDS: Final[Mapping[str, frozenset[str]]] = {
    "_+_": _ADDED, "_-_": _COMPUTED, "_*_": _COMPUTED, "_/_": _COMPUTED,
    "_%_": _COMPUTED - {"double"}, "-_": _COMPUTED - {"uint"} | {"bool"},
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _COMPARED), "size": frozenset(),
}  # fmt: skip
"""Operator -> types that have it; where the first operand has not, cel-go names the operator."""
_UNNAMED: Final = frozenset({"_==_", "_!=_", "!_", "@in", "contains", "startsWith", "endsWith",
                             "matches", "find", "findAll"})  # fmt: skip


def overload_error(function: str, values: Sequence[Any]) -> CelError:
    """A function was called with values of types that it does not take: as cel-go tells it."""
    if function in _OPERANDS:
        is_known = type_name(values[0]) in _OPERANDS[function]
        return CelError("no such overload" if is_known else f"no such overload: {function}")
    if function in _UNNAMED:
        return CelError("no such overload")
    types = ", ".join(map(type_name, values))
    return CelError(f"no such overload: {function}({types})")
