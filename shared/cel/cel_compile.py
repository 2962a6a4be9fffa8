"""The nodes of a CEL expression as Python closures; macros, and operators that do not evaluate all of
their operands, among them."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, assert_never

from shared.cel.cel_costs import COSTS, LEAVES, LIST_COST, MAP_COST, CelScope
from shared.cel.cel_functions import FUNCTIONS, NAMESPACES, overload_error
from shared.cel.cel_operators import contains_constant
from shared.cel.cel_regex import REGEX_FUNCTIONS, compile_work, regex_work
from shared.cel.cel_syntax import Call, Ident, ListNode, Literal, MapNode, Node, Select
from shared.cel.cel_values import (
    DEVICE,
    DEVICE_FIELDS,
    NONE,
    TYPES,
    CelCompileError,
    CelError,
    NoOverloadError,
    Optional,
    as_optional,
    key_of,
    member,
    optional_member,
    type_name,
)

Evaluate = Callable[[CelScope], Any]
Names = frozenset[str]
"""Variables that may be named."""


def compiled(node: Node, names: Names) -> Evaluate:
    """What a node comes to; CelCompileError where it means nothing with these names."""
    match node:
        case Literal():
            value = node.value
            return lambda scope: value  # noqa: ARG005  # Every closure takes the scope.
        case Ident():
            return _identifier(node.name, names)
        case Select():
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
    if name not in names:
        kind = TYPES.get(name)
        if kind is not None:
            return lambda scope: kind  # noqa: ARG005  # Every closure takes the scope.
        raise CelCompileError(f"undeclared reference to '{name}' (in container '')")

    def evaluate(scope: CelScope) -> Any:
        scope.charge()
        value = scope.variables[name]
        return value.of(scope) if isinstance(value, _Later) else value

    return evaluate


def _look_up(node: Select, names: Names) -> Evaluate:
    if node.field and node.operand == Ident(DEVICE) and node.field not in DEVICE_FIELDS:
        raise CelCompileError(f"undefined field '{node.field}'")
    operand, key = compiled(node.operand, names), compiled(node.key, names)
    look_up = optional_member if node.is_optional else member

    def evaluate(scope: CelScope) -> Any:
        scope.charge()
        return look_up(operand(scope), key(scope))

    return evaluate


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
    evaluate = None if macro is None else macro(node, names)
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


def _applied(function: str, implementation: Callable[..., Any], parts: list[Evaluate]) -> Evaluate:
    cost, is_search = COSTS.get(function), function in REGEX_FUNCTIONS

    def evaluate(scope: CelScope) -> Any:
        values = [part(scope) for part in parts]
        scope.charge(1 if cost is None else cost(*values))
        if is_search:
            _note_search(scope, *values)
        try:
            return implementation(*values)
        except NoOverloadError:
            raise overload_error(function, values) from None

    return evaluate


def _note_search(scope: CelScope, text: Any, pattern: Any, *_: Any) -> None:
    if isinstance(text, str) and isinstance(pattern, str):
        scope.add_pattern(pattern, compile_work(pattern))
        scope.add(regex_work(text, pattern))


# Macros ---------------------------------------------------------------------------------------------


def _in_list(node: Call, names: Names) -> Evaluate | None:
    """`in` with a list of constants; other containers are left to the general way."""
    element, container = node.args
    if not isinstance(container, ListNode):
        return None
    if not container.elements:  # Nothing is in it, and what might be is not asked for.
        compiled(element, names)
        return lambda scope: False  # noqa: ARG005  # Every closure takes the scope.
    for each, is_optional in container.elements:
        is_constant = isinstance(each, Literal) and isinstance(each.value, str | int | float)
        if is_optional or not is_constant:
            return None
    return _applied("@in", contains_constant, [compiled(each, names) for each in node.args])


def _logic(node: Call, names: Names, *, decisive: bool) -> Evaluate:
    """&& and ||: where one side decides, an error of the other does not matter."""
    sides = [compiled(each, names) for each in _operands(node)]
    return lambda scope: _decided(scope, sides, decisive=decisive)


def _decided(scope: CelScope, sides: Iterable[Evaluate], *, decisive: bool) -> bool:
    failed: CelError | None = None
    for side in sides:
        try:
            value = side(scope)
        except CelError as error:
            failed = failed or error
            continue
        if value is decisive:
            return decisive
        if not isinstance(value, bool):
            failed = failed or NoOverloadError()
    if failed is not None:
        raise failed
    return not decisive


def _operands(node: Call) -> list[Node]:
    """Those of a whole chain (a && b && c), which leans to the left."""
    found: list[Node] = []
    left: Node = node
    while isinstance(left, Call) and left.function == node.function and left.target is None:
        left, right = left.args
        found.append(right)
    found.append(left)
    return found[::-1]


def _choice(node: Call, names: Names) -> Evaluate:
    condition, yes, no = (compiled(each, names) for each in node.args)
    return lambda scope: yes(scope) if _is_true(condition(scope)) else no(scope)


def _has(node: Call, names: Names) -> Evaluate:
    argument = node.args[0]
    if not isinstance(argument, Select) or not argument.field:
        raise CelCompileError("invalid argument to has() macro")
    if argument.operand == Ident(DEVICE):
        compiled(argument, names)  # It has the field, or nothing has.
    operand, field = compiled(argument.operand, names), argument.field
    return lambda scope: optional_member(operand(scope), field).is_present


def _bind(node: Call, names: Names) -> Evaluate | None:
    if node.target != Ident("cel"):
        return None
    name = _variable(node.args[0])
    value = compiled(node.args[1], names)
    body = compiled(node.args[2], names | {name})
    return lambda scope: _with(scope, name, _Later(value, scope.variables), body)


class _Later:
    """What is evaluated where it is used first, and does not matter where it is not used."""

    __slots__ = ("_evaluate", "_failed", "_value", "_variables")

    def __init__(self, evaluate: Evaluate, variables: dict[str, Any]) -> None:
        self._evaluate: Evaluate | None = evaluate
        self._variables = variables
        self._value: Any = None
        self._failed: CelError | None = None

    def of(self, scope: CelScope) -> Any:
        evaluate, self._evaluate = self._evaluate, None
        if evaluate is not None:
            inner, scope.variables = scope.variables, self._variables
            try:
                self._value = evaluate(scope)
            except CelError as error:
                self._failed = error
            finally:
                scope.variables = inner
        if self._failed is not None:
            raise self._failed
        return self._value


def _with(scope: CelScope, name: str, value: Any, body: Evaluate) -> Any:
    scope.charge()
    outer = scope.variables
    scope.variables = {**outer, name: value}
    try:
        return body(scope)
    finally:
        scope.variables = outer


def _variable(node: Node) -> str:
    if not isinstance(node, Ident):
        raise CelCompileError("argument must be a simple name")
    return node.name


def _opt_map(node: Call, names: Names) -> Evaluate:
    assert node.target is not None, "looked up as a method"
    target, name = compiled(node.target, names), _variable(node.args[0])
    body, is_flat = compiled(node.args[1], names | {name}), node.function == "optFlatMap"

    def evaluate(scope: CelScope) -> Optional:
        value = as_optional(target(scope))
        if not value.is_present:
            return NONE
        result = _with(scope, name, value.value, body)
        return as_optional(result) if is_flat else Optional(True, result)

    return evaluate


def _alternative(node: Call, names: Names) -> Evaluate:
    """or and orValue: the argument is evaluated only where there is no value."""
    assert node.target is not None, "looked up as a method"
    target, other = compiled(node.target, names), compiled(node.args[0], names)
    is_value = node.function == "orValue"

    def evaluate(scope: CelScope) -> Any:
        value = target(scope)
        if not isinstance(value, Optional):
            return value  # Of a value that is only known at run time; cel-go takes it as it is.
        if not value.is_present:
            return other(scope) if is_value else as_optional(other(scope))
        return value.value if is_value else value

    return evaluate


# Comprehensions ---------------------------------------------------------------------------------------


def _comprehension(node: Call, names: Names) -> Evaluate:
    assert node.target is not None, "looked up as a method"
    target = compiled(node.target, names)
    pair = node.function in _QUANTIFIERS and len(node.args) == 3
    variables = [_variable(each) for each in node.args[: 2 if pair else 1]]
    inner = names.union(variables)
    bodies = [compiled(each, inner) for each in node.args[len(variables) :]]
    run, cost = _RUNS[node.function]
    cost += _leaves(node.args) // LEAVES

    def evaluate(scope: CelScope) -> Any:
        outer = scope.variables
        rounds = _rounds(target(scope), variables, scope, cost)
        scope.variables = dict(outer)
        try:
            return run(scope, rounds, bodies)
        finally:
            scope.variables = outer

    return evaluate


def _leaves(nodes: Sequence[Node]) -> int:
    """How many constants and names there are in parts of an expression. By them all is bounded that an
    evaluation does without being charged for it."""
    count, left = 0, list[Any](nodes)
    while left:
        each = left.pop()
        if isinstance(each, Literal | Ident):
            count += 1
        elif isinstance(each, tuple):
            left += each
    return count


def _rounds(value: Any, variables: list[str], scope: CelScope, cost: int) -> Iterator[Any]:
    """What the first variable stands for in each round, in which all of them stand for something."""
    if not isinstance(value, list | dict):
        raise CelError(f"got '{type_name(value)}', expected iterable type")
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for each in pairs if len(variables) == 2 else zip(value, strict=True):
        scope.charge(cost)
        scope.variables.update(zip(variables, each, strict=True))
        yield each[0]


Rounds = Iterator[Any]


def _quantified(scope: CelScope, rounds: Rounds, bodies: list[Evaluate], *, decisive: bool) -> bool:
    # Each round sets the variable that the body reads.
    return _decided(scope, (bodies[0] for _ in rounds), decisive=decisive)


def _exists_one(scope: CelScope, rounds: Rounds, bodies: list[Evaluate]) -> bool:
    return sum(_is_true(bodies[0](scope)) for _ in rounds) == 1


def _filter(scope: CelScope, rounds: Rounds, bodies: list[Evaluate]) -> list[Any]:
    return [each for each in rounds if _is_true(bodies[0](scope))]


def _mapped(scope: CelScope, rounds: Rounds, bodies: list[Evaluate]) -> list[Any]:
    *conditions, body = bodies
    return [body(scope) for _ in rounds if all(_is_true(each(scope)) for each in conditions)]


def _is_true(value: Any) -> bool:
    if not isinstance(value, bool):
        raise NoOverloadError
    return value


_RUNS: Final[Mapping[str, tuple[Callable[[CelScope, Rounds, list[Evaluate]], Any], int]]] = {
    "all": (functools.partial(_quantified, decisive=False), 3),
    "exists": (functools.partial(_quantified, decisive=True), 4),
    "exists_one": (_exists_one, 2),
    "existsOne": (_exists_one, 2),
    "filter": (_filter, 13),
    "map": (_mapped, 12),
}
"""With what a round costs beside what is evaluated in it: upstream writes macros out as expressions that
look at the round's result and add to a list."""
_QUANTIFIERS: Final = frozenset({"all", "exists", "exists_one", "existsOne"})
"""Those that may bind two variables (ext.TwoVarComprehensions)."""

MACROS: Final[Mapping[tuple[str, bool, int], Callable[[Call, Names], Evaluate | None]]] = {
    ("@in", False, 2): _in_list,
    ("_&&_", False, 2): functools.partial(_logic, decisive=False),
    ("_||_", False, 2): functools.partial(_logic, decisive=True),
    ("_?_:_", False, 3): _choice,
    ("has", False, 1): _has,
    ("bind", True, 3): _bind,
    ("optMap", True, 2): _opt_map,
    ("optFlatMap", True, 2): _opt_map,
    ("or", True, 1): _alternative,
    ("orValue", True, 1): _alternative,
    **{(name, True, 2): _comprehension for name in _RUNS},
    **{(name, True, 3): _comprehension for name in (*_QUANTIFIERS, "map")},
}
"""By name, whether it is called as a method, and count of arguments without the target. None: this call
is none of it after all."""
