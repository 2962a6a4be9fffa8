"""CEL for device selectors: what upstream's own cases and cel-go's rules say."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.dra.cel_compile import Expression, compile_selector
from shared.dra.cel_values import (
    CelCompileError,
    CelError,
    CelQuantity,
    DefaultMap,
    DeviceObject,
    parse_semver,
)
from shared.kube.quantity import parse

D = 'device.attributes["dra.example.com"]'


def a_device() -> DeviceObject:
    version = parse_semver("1.9.3")
    attributes = {
        "name": "fish", "flag": True, "index": 2, "version": version, "names": ["fish", "bird"],
    }  # fmt: skip
    capacity = {"memory": CelQuantity(parse("40Gi"))}
    return DeviceObject(
        "dra.example.com",
        DefaultMap({"dra.example.com": attributes}),
        DefaultMap({"dra.example.com": capacity}),
        False,
    )


def evaluate(source: str) -> bool:
    compiled = compile_selector(source)
    assert isinstance(compiled, Expression), compiled
    return compiled.matches(a_device())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("true", True),
        ("false", False),
        ('device.driver == "dra.example.com"', True),
        ('"no-such-domain" in device.attributes', False),
        ('"dra.example.com" in device.attributes', True),
        (f"{D}.flag", True),
        (f'{D}["flag"]', True),
        (f"{D}.index > 0", True),
        (f"{D}.index == 2.0", True),
        (f'{D}.index == "2"', False),
        (f'{D}.name in ["cat", "fish"]', True),
        (f"has({D}.name) && !has({D}.nope)", True),
        (f"cel.bind(dra, {D}, dra.flag && dra.index < 3)", True),
        (f"{D}.?nope.orValue(7) == 7", True),
        (f'{D}.?name.orValue("x") == "fish"', True),
        (f"{D}.?nope.hasValue()", False),
        (f"{D}.?index.optMap(i, i + 1).orValue(0) == 3", True),
        (f'{D}[?"index"].or(optional.of(9)).value() == 2', True),
        (f'{D}.version.isGreaterThan(semver("1.9.0"))', True),
        (f'{D}.version.compareTo(semver("v1.9.3", true)) == 0', True),
        (f"{D}.version.major() == 1 && {D}.version.minor() == 9", True),
        ('semver("1.0.0-rc.1").isLessThan(semver("1.0.0"))', True),
        ('semver("1.0.0-2").isLessThan(semver("1.0.0-10"))', True),
        ('isSemver("1.0")', False),
        ('device.capacity["dra.example.com"].memory.compareTo(quantity("40Gi")) >= 0', True),
        ('device.capacity["dra.example.com"].memory.isLessThan(quantity("41G"))', False),
        ('quantity("1").add(1).sub(quantity("500m")) == quantity("1.5")', True),
        ('quantity("50k").asInteger() == 50000', True),
        ('isQuantity("1Mo")', False),
        (f"{D}.names.exists(n, n == 'bird')", True),
        (f"{D}.names.all(n, n.size() == 4)", True),
        (f"{D}.names.exists_one(n, n.startsWith('f'))", True),
        (f"{D}.names.map(n, n.upperAscii()).join('-') == 'FISH-BIRD'", True),
        (f"{D}.names.filter(n, n > 'c').size() == 1", True),
        (f'{D}.name.includes("fish") && {D}.names.includes("bird")', True),
        (f"{D}.exists(k, v, k == 'index' && v == 2)", True),
        (f'{D}.name.matches("^f.*h$")', True),
        ('"a,b,c".split(",").size() == 3', True),
        ('"tacocat".substring(1, 3) == "ac" && "tacocat".indexOf("cat") == 4', True),
        ('r"a\\b" == "a\\\\b" && "\\u0041" == "A"', True),
        ("[1, 2, 3].sum() == 6 && [3, 1].min() == 1 && [1, 2].isSorted()", True),
        ("sets.intersects([1, 2], [2, 3])", True),
        ("-7 / 2 == -3 && -7 % 2 == -1", True),
        ("1 < 2 ? 3 > 2 : false", True),
        ("{'a': 1}.a == 1 && 'a' in {'a': 1}", True),
        ("0x10 == 16 && 1u + 1u == 2u && 1e3 == 1000.0", True),
        ("device.allowMultipleAllocations", False),
        ("// a comment\n true", True),
    ],
)
def test_a_selector_selects(source: str, expected: bool) -> None:
    assert evaluate(source) is expected


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (f"{D}.nope == 1", "no such key: nope"),
        ('device.attributes["x"].nope.isGreaterThan(quantity("0"))', "no such key: nope"),
        (f"{D}.name > 3", "no such overload"),
        (f"{D}.name", "CEL result of type string could not be converted to bool"),
        (f"{D}.names[2] == ''", "index out of bounds: 2"),
        ("1 / 0 == 1", "division by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        (f"{D}.?nope.value() == 1", "optional.none() dereference"),
        ('quantity("abc").isInteger()', "quantity"),
        ('"a".matches("(")', "error parsing regexp"),
    ],
)
def test_a_runtime_error_says_what_is_wrong(source: str, text: str) -> None:
    with pytest.raises(CelError) as raised:
        evaluate(source)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("?!", "Syntax error"),
        ("", "Syntax error"),
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("device.driver", "not string"),
        ("device.nope", "undefined field 'nope'"),
        ("foo", "undeclared reference to 'foo'"),
        ("device.driver.foo()", "undeclared reference to 'foo'"),
        ('duration("1s") == duration("1s")', "undeclared reference to 'duration'"),
        ("[1].all(x + 1, true)", "simple name"),
        ("(" * 300 + "true" + ")" * 300, "recursion limit"),
        ("1" + "+1" * 300 + " == 1", "chain limit"),
        ("'abc", "Syntax error"),
        ("if", "reserved identifier"),
    ],
)
def test_what_is_no_selector_does_not_compile(source: str, text: str) -> None:
    compiled = compile_selector(source)
    assert isinstance(compiled, CelCompileError)
    assert text in str(compiled)


@pytest.mark.parametrize(
    "source", [f"{D}.nope || true", f"true || {D}.nope", f"!({D}.nope && false)"]
)
def test_an_error_does_not_matter_where_the_other_side_decides(source: str) -> None:
    assert evaluate(source)


def test_a_long_chain_of_alternatives_is_no_problem() -> None:
    assert evaluate(" || ".join(["false"] * 2000 + ["true"]))


def test_an_evaluation_that_goes_on_for_too_long_is_ended() -> None:
    many = "[" + ",".join(["1"] * 120) + "]"
    nested = f"{many}.all(a, {many}.all(b, {many}.all(c, a + b + c > 0)))"
    with pytest.raises(CelError, match="cost limit exceeded"):
        evaluate(nested)


@given(st.text(max_size=40))
def test_any_text_compiles_or_is_refused(source: str) -> None:
    compiled = compile_selector(source)
    if isinstance(compiled, Expression):
        with contextlib.suppress(CelError):  # Refused while running is as good.
            compiled.matches(a_device())


@given(st.integers(-(2**31), 2**31), st.integers(-(2**31), 2**31))
def test_arithmetic_is_that_of_go(a: int, b: int) -> None:
    assert evaluate(f"{a} + {b} == {a + b} && {a} - {b} == {a - b} && {a} * {b} == {a * b}")
    if b:
        quotient = int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
        assert evaluate(f"{a} / {b} == {quotient} && {a} % {b} == {a - quotient * b}")
