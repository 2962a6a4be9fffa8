"""A CEL expression compiled to Python closures, for device selectors.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, assert_never

from shared.cel.cel_costs import (
    COST_MAX,
    COSTS,
    LIST_COST,
    MAP_COST,
    ROUND_COSTS,
    Budget,
    CancelledError,
    CelScope,
    Cost,
    fixed,
)
from shared.cel.cel_functions import (
    FUNCTIONS,
    NAMESPACES,
    REGEX_FUNCTIONS,
    contains_constant,
    regex_work,
)
from shared.cel.cel_syntax import (
    Call,
    Ident,
    Index,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    parse,
)
from shared.cel.cel_values import (
    DEVICE_FIELDS,
    NONE,
    TYPES,
    CelCompileError,
    CelError,
    DefaultMap,
    NoOverloadError,
    Optional,
    as_optional,
    key_of,
    member,
    optional_member,
    overload_error,
    type_name,
)
from shared.limits import CEL_EXPRESSIONS_MAX

DEVICE: Final = "device"


Evaluate = Callable[[CelScope], Any]


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
            work.add_evaluation(scope.limit - max(scope.left, 0) + scope.more)
        if not isinstance(value, bool):
            raise _no_answer(type_name(value))
        return value


def _no_answer(kind: str) -> CelError:
    """A selector came to something else than true or false."""
    why = _NO_BOOL.get(
        kind, f"type conversion error from '{kind.removeprefix('kubernetes.')}' to 'bool'"
    )
    return CelError(f"CEL result of type {kind} could not be converted to bool: {why}")


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
        compiled = _compiled(node, frozenset((DEVICE,)))
    except CelCompileError as error:
        return error
    except RecursionError:  # Within the limits of each chain and still too deep altogether.
        return CelCompileError("expression recursion limit exceeded")
    result = _static_type(node)
    if result not in ("bool", "dyn"):
        return CelCompileError(f"must evaluate to bool or the unknown type, not {result}")
    return Expression(source, compiled)


_RESULTS: Final[Mapping[str, str]] = {
    "size": "int", "quantity": "kubernetes.Quantity", "semver": "kubernetes.Semver", "int": "int",
    "string": "string", "double": "double", "uint": "uint", "bytes": "bytes", "compareTo": "int",
    "major": "int", "minor": "int", "patch": "int", "asInteger": "int", "sign": "int",
    "lowerAscii": "string", "upperAscii": "string", "trim": "string", "replace": "string",
    "substring": "string", "charAt": "string", "join": "string", "indexOf": "int",
    "lastIndexOf": "int", "asApproximateFloat": "double", "type": "type",
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


# Compiling ------------------------------------------------------------------------------------------


def _compiled(node: Node, names: frozenset[str]) -> Evaluate:
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


def _identifier(name: str, names: frozenset[str]) -> Evaluate:
    if name not in names:
        kind = TYPES.get(name)
        if kind is not None:
            return lambda scope: kind  # noqa: ARG005  # Every closure takes the scope.
        raise CelCompileError(f"undeclared reference to '{name}' (in container '')")
    if _LATER + name in names:
        return lambda scope: scope.variables[name].of(scope)

    def evaluate(scope: CelScope) -> Any:
        scope.charge()
        return scope.variables[name]

    return evaluate


def _look_up(node: Select | Index, names: frozenset[str]) -> Evaluate:
    _need_known(node)
    path = _path(node)
    if path is not None:
        return _along(path, names)
    operand, key = _compiled(node.operand, names), _compiled(_key(node), names)
    look_up = optional_member if node.is_optional else member

    def evaluate(scope: CelScope) -> Any:
        scope.charge()
        return look_up(operand(scope), key(scope))

    return evaluate


def _need_known(node: Select | Index) -> None:
    if (
        isinstance(node, Select)
        and node.operand == Ident(DEVICE)
        and node.field not in DEVICE_FIELDS
    ):
        raise CelCompileError(f"undefined field '{node.field}'")


def _key(node: Select | Index) -> Node:
    return Literal(node.field) if isinstance(node, Select) else node.key


def _path(node: Node) -> list[str] | None:
    """Of a variable and what is looked up from it by text, `a.b["c"]`, the names in order."""
    found: list[str] = []
    while isinstance(node, Select | Index) and not node.is_optional:
        key = _key(node)
        if not isinstance(key, Literal) or not isinstance(key.value, str):
            return None
        found.append(key.value)
        node = node.operand
    return [node.name, *reversed(found)] if isinstance(node, Ident) else None


def _along(path: list[str], names: frozenset[str]) -> Evaluate:
    """The same as one step after the other, which is how most of any selector is spent."""
    first, *keys = path
    variable = _identifier(first, names)
    is_plain = first in names and _LATER + first not in names
    cost = len(path)

    def evaluate(scope: CelScope) -> Any:
        scope.charge(cost)
        value = scope.variables[first] if is_plain else variable(scope)
        for key in keys:
            value = value[key] if type(value) is dict and key in value else member(value, key)
        return value

    return evaluate


def _list(node: ListNode, names: frozenset[str]) -> Evaluate:
    parts = [(_compiled(element, names), optional) for element, optional in node.elements]

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


def _map(node: MapNode, names: frozenset[str]) -> Evaluate:
    parts = [(_compiled(k, names), _compiled(v, names), o) for k, v, o in node.entries]

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


def _call(node: Call, names: frozenset[str]) -> Evaluate:
    special = _SPECIAL.get((node.function, node.target is not None, len(node.args)))
    if special is not None:
        compiled = special(node, names)
        if compiled is not None:
            return compiled
    function, target = node.function, node.target
    if isinstance(target, Ident) and target.name in NAMESPACES and target.name not in names:
        function, target = f"{target.name}.{function}", None
    implementation = FUNCTIONS.get((function, target is not None, len(node.args)))
    if implementation is None:
        raise CelCompileError(f"undeclared reference to '{function}' (in container '')")
    nodes = node.args if target is None else (target, *node.args)
    return _applied(function, implementation, [_compiled(each, names) for each in nodes])


def _applied(function: str, implementation: Callable[..., Any], parts: list[Evaluate]) -> Evaluate:
    if function in REGEX_FUNCTIONS:

        def search(scope: CelScope) -> Any:
            values = [part(scope) for part in parts]
            scope.charge(COSTS[function](*values))
            scope.add(regex_work(*values))
            return _called(function, implementation, values)

        return search
    cost: Cost = COSTS.get(function, fixed)
    if len(parts) == 2:
        first, second = parts

        def two(scope: CelScope) -> Any:
            a, b = first(scope), second(scope)
            scope.charge(cost(a, b))
            return _called(function, implementation, (a, b))

        return two

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


def _membership(node: Call, names: frozenset[str]) -> Evaluate | None:
    """`in` with a list of constants; other containers are left to the general way."""
    container = node.args[1]
    if not isinstance(container, ListNode):
        return None
    if not container.elements:  # Nothing is in it, and what might be is not asked for.
        _compiled(node.args[0], names)
        return lambda scope: False  # noqa: ARG005  # Every closure takes the scope.
    for element, is_optional in container.elements:
        is_constant = isinstance(element, Literal) and isinstance(element.value, _HASHED)
        if is_optional or not is_constant:
            return None
    return _applied("@in", contains_constant, [_compiled(each, names) for each in node.args])


_HASHED: Final = (str, bool, int, float)


# Operators and macros that do not evaluate all of their arguments -------------------------------------


def _logic(node: Call, names: frozenset[str], *, decisive: bool) -> Evaluate:
    """&& and ||: where one side decides, an error of the other does not matter."""
    sides = [_compiled(each, names) for each in _operands(node)]

    def evaluate(scope: CelScope) -> bool:
        return _decided(scope, sides, decisive=decisive)

    return evaluate


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


def _choice(node: Call, names: frozenset[str]) -> Evaluate:
    condition, yes, no = (_compiled(each, names) for each in node.args)

    def evaluate(scope: CelScope) -> Any:
        return yes(scope) if _is_true(condition(scope)) else no(scope)

    return evaluate


def _has(node: Call, names: frozenset[str]) -> Evaluate:
    argument = node.args[0]
    if not isinstance(argument, Select):
        raise CelCompileError("invalid argument to has() macro")
    _need_known(argument)
    operand, field = _compiled(argument.operand, names), argument.field

    def evaluate(scope: CelScope) -> bool:
        value = operand(scope)
        if isinstance(value, Optional):
            if not value.is_present:
                return False
            value = value.value
        if isinstance(value, DefaultMap):
            return True
        return isinstance(value, dict) and field in value

    return evaluate


def _bind(node: Call, names: frozenset[str]) -> Evaluate | None:
    if node.target != Ident("cel"):
        return None
    name = _variable(node.args[0])
    value = _compiled(node.args[1], names)
    body = _compiled(node.args[2], names | {name, _LATER + name})
    return lambda scope: _with(scope, name, _Later(value, scope.variables), body)


_LATER: Final = "cel.bind "
"""Before the name of a variable, among the names: it holds what is evaluated where it is used first, and
does not matter where it is not used."""


class _Later:
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


def _declared(names: frozenset[str], variables: Iterable[str]) -> frozenset[str]:
    """With these, which are not bound by `cel.bind`."""
    variables = frozenset(variables)
    return (names | variables) - {_LATER + name for name in variables}


def _with(scope: CelScope, name: str, value: Any, body: Evaluate) -> Any:
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


def _opt_map(node: Call, names: frozenset[str]) -> Evaluate:
    assert node.target is not None, "looked up as a method"
    target, name = _compiled(node.target, names), _variable(node.args[0])
    body, is_flat = _compiled(node.args[1], _declared(names, [name])), node.function == "optFlatMap"

    def evaluate(scope: CelScope) -> Optional:
        value = as_optional(target(scope))
        if not value.is_present:
            return NONE
        result = _with(scope, name, value.value, body)
        return as_optional(result) if is_flat else Optional(True, result)

    return evaluate


def _alternative(node: Call, names: frozenset[str]) -> Evaluate:
    """or and orValue: the argument is evaluated only where there is no value."""
    assert node.target is not None, "looked up as a method"
    target, other = _compiled(node.target, names), _compiled(node.args[0], names)
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


def _comprehension(node: Call, names: frozenset[str]) -> Evaluate:
    assert node.target is not None, "looked up as a method"
    target = _compiled(node.target, names)
    pair = node.function in _QUANTIFIERS and len(node.args) == 3
    variables = [_variable(each) for each in node.args[: 2 if pair else 1]]
    inner = _declared(names, variables)
    bodies = [_compiled(each, inner) for each in node.args[len(variables) :]]
    run, cost = _RUNS[node.function], ROUND_COSTS[node.function]

    def evaluate(scope: CelScope) -> Any:
        outer = scope.variables
        rounds = _rounds(target(scope), variables, scope, cost)
        scope.variables = dict(outer)
        try:
            return run(scope, rounds, bodies)
        finally:
            scope.variables = outer

    return evaluate


def _rounds(value: Any, variables: list[str], scope: CelScope, cost: int) -> Iterator[Any]:
    """What the first variable stands for in each round, in which all of them stand for something."""
    if not isinstance(value, list | dict):
        raise CelError(f"got '{type_name(value)}', expected iterable type")
    if len(variables) == 1:
        (name,) = variables
        for each in value:
            scope.charge(cost)
            scope.variables[name] = each
            yield each
        return
    name, second = variables
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        scope.charge(cost)
        scope.variables[name], scope.variables[second] = key, each
        yield key


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


_RUNS: Final[Mapping[str, Callable[[CelScope, Rounds, list[Evaluate]], Any]]] = {
    "all": functools.partial(_quantified, decisive=False),
    "exists": functools.partial(_quantified, decisive=True),
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "filter": _filter,
    "map": _mapped,
}
_QUANTIFIERS: Final = frozenset({"all", "exists", "existsOne"})
"""Those that may bind two variables (ext.TwoVarComprehensions)."""

Special = Callable[[Call, frozenset[str]], Evaluate | None]
_SPECIAL: Final[Mapping[tuple[str, bool, int], Special]] = {
    ("_&&_", False, 2): functools.partial(_logic, decisive=False),
    ("_||_", False, 2): functools.partial(_logic, decisive=True),
    ("_?_:_", False, 3): _choice,
    ("@in", False, 2): _membership,
    ("has", False, 1): _has,
    ("bind", True, 3): _bind,
    ("optMap", True, 2): _opt_map,
    ("optFlatMap", True, 2): _opt_map,
    ("or", True, 1): _alternative,
    ("orValue", True, 1): _alternative,
    **{(name, True, 2): _comprehension for name in _RUNS},
    **{(name, True, 3): _comprehension for name in (*_QUANTIFIERS, "map")},
}
