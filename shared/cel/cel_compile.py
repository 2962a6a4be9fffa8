"""The nodes of a CEL expression as Python closures."""

from collections.abc import Callable, Sequence
from typing import Any, Final, assert_never

from shared.cel.cel_costs import COSTS, LIST_COST, MAP_COST, CelScope, Cost, fixed
from shared.cel.cel_functions import FUNCTIONS, NAMESPACES, overload_error
from shared.cel.cel_macros import MACROS, Evaluate, Names
from shared.cel.cel_operators import contains_constant
from shared.cel.cel_regex import REGEX_FUNCTIONS, regex_work
from shared.cel.cel_syntax import Call, Ident, Index, ListNode, Literal, MapNode, Node, Select
from shared.cel.cel_values import (
    DEVICE,
    DEVICE_FIELDS,
    TYPES,
    CelCompileError,
    CelError,
    NoOverloadError,
    as_optional,
    key_of,
    member,
    optional_member,
)


def compiled(node: Node, names: Names) -> Evaluate:
    """What a node comes to; CelCompileError where it means nothing with these names."""
    match node:
        case Literal():
            value = node.value
            return lambda scope: value  # noqa: ARG005  # Every closure takes the scope.
        case Ident():
            return _identifier(node.name, names)
        case Select() | Index():
            return _look_up(node, names)
        case Call():
            return _call(node, names)
        case ListNode():
            return _list(node, names)
        case MapNode():
            return _map(node, names)
        case _:
            assert_never(node)


def _identifier(name: str, names: Names) -> Evaluate:
    is_later = names.get(name)
    if is_later is None:
        kind = TYPES.get(name)
        if kind is not None:
            return lambda scope: kind  # noqa: ARG005  # Every closure takes the scope.
        raise CelCompileError(f"undeclared reference to '{name}' (in container '')")

    def evaluate(scope: CelScope) -> Any:
        scope.charge()
        value = scope.variables[name]
        return value.of(scope) if is_later else value

    return evaluate


def _look_up(node: Select | Index, names: Names) -> Evaluate:
    if (
        isinstance(node, Select)
        and node.operand == Ident(DEVICE)
        and node.field not in DEVICE_FIELDS
    ):
        raise CelCompileError(f"undefined field '{node.field}'")
    operand, key = compiled(node.operand, names), compiled(_key(node), names)
    look_up = optional_member if node.is_optional else member

    def evaluate(scope: CelScope) -> Any:
        scope.charge()
        return look_up(operand(scope), key(scope))

    return evaluate


def _key(node: Select | Index) -> Node:
    return Literal(node.field) if isinstance(node, Select) else node.key


def _list(node: ListNode, names: Names) -> Evaluate:
    parts = [(compiled(element, names), optional) for element, optional in node.elements]

    def evaluate(scope: CelScope) -> list[Any]:
        scope.charge(LIST_COST)
        found = []
        for part, is_optional in parts:
            value = part(scope)
            if not is_optional:
                found.append(value)
            elif as_optional(value).is_present:
                found.append(value.value)
        return found

    return evaluate


def _map(node: MapNode, names: Names) -> Evaluate:
    parts = [(compiled(k, names), compiled(v, names), o) for k, v, o in node.entries]

    def evaluate(scope: CelScope) -> dict[Any, Any]:
        scope.charge(MAP_COST)
        found: dict[Any, Any] = {}
        for key_part, value_part, is_optional in parts:
            key, value = key_of(key_part(scope)), value_part(scope)
            if is_optional:
                if not as_optional(value).is_present:
                    continue
                value = value.value
            if key in found:
                raise CelError(f"insert failed: key {key} already exists")
            found[key] = value
        return found

    return evaluate


def _call(node: Call, names: Names) -> Evaluate:
    macro = MACROS.get((node.function, node.target is not None, len(node.args)))
    evaluate = _in_constants(node, names) if macro is None else macro(node, names, compiled)
    if evaluate is not None:
        return evaluate
    function, target = node.function, node.target
    if isinstance(target, Ident) and target.name in NAMESPACES and target.name not in names:
        function, target = f"{target.name}.{function}", None
    implementation = FUNCTIONS.get((function, target is not None, len(node.args)))
    if implementation is None:
        raise CelCompileError(f"undeclared reference to '{function}' (in container '')")
    nodes = node.args if target is None else (target, *node.args)
    return _applied(function, implementation, [compiled(each, names) for each in nodes])


def _in_constants(node: Call, names: Names) -> Evaluate | None:
    """`in` with a list of constants; other containers are left to the general way."""
    container = node.args[1] if node.function == "@in" else None
    if not isinstance(container, ListNode):
        return None
    if not container.elements:  # Nothing is in it, and what might be is not asked for.
        compiled(node.args[0], names)
        return lambda scope: False  # noqa: ARG005  # Every closure takes the scope.
    for element, is_optional in container.elements:
        is_constant = isinstance(element, Literal) and isinstance(element.value, _HASHED)
        if is_optional or not is_constant:
            return None
    return _applied("@in", contains_constant, [compiled(each, names) for each in node.args])


_HASHED: Final = (str, bool, int, float)


def _applied(function: str, implementation: Callable[..., Any], parts: list[Evaluate]) -> Evaluate:
    if function in REGEX_FUNCTIONS:

        def search(scope: CelScope) -> Any:
            values = [part(scope) for part in parts]
            scope.charge(COSTS[function](*values))
            scope.add(regex_work(*values))
            return _called(function, implementation, values)

        return search
    cost: Cost = COSTS.get(function, fixed)

    def many(scope: CelScope) -> Any:
        values = [part(scope) for part in parts]
        scope.charge(cost(*values))
        return _called(function, implementation, values)

    return many


def _called(function: str, implementation: Callable[..., Any], values: Sequence[Any]) -> Any:
    try:
        return implementation(*values)
    except NoOverloadError:
        raise overload_error(function, values) from None
