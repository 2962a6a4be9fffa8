"""CEL for device selectors: what upstream's own cases and cel-go's rules say."""

import contextlib
from typing import Any

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from shared.cel.cel_costs import COSTS
from shared.cel.cel_selector import Expression, compile_selector
from shared.cel.cel_semver import parse_semver
from shared.cel.cel_values import CelCompileError, CelError, CelQuantity, DefaultMap
from shared.dra.search_work import Work, WorkError
from shared.kube.quantity import parse
from shared.limits import CEL_ERROR_LETTERS_MAX

D = 'device.attributes["dra.example.com"]'


def a_device() -> dict[str, Any]:
    version = parse_semver("1.9.3")
    attributes = {
        "name": "fish", "flag": True, "index": 2, "version": version, "names": ["fish", "bird"],
    }  # fmt: skip
    capacity = {"memory": CelQuantity(parse("40Gi"))}
    return {
        "driver": "dra.example.com",
        "attributes": DefaultMap({"dra.example.com": attributes}),
        "capacity": DefaultMap({"dra.example.com": capacity}),
        "allowMultipleAllocations": False,
    }


def evaluate(source: str) -> bool:
    compiled = compile_selector(source)
    assert isinstance(compiled, Expression), compiled
    return compiled.matches(a_device(), Work())


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
        ('isSemver("1+a.b", true)', False),
        ('semver("18446744073709551615.0.0").major() == -1', True),
        ('sign(quantity("-1")) == -1', True),
        ('quantity("500m").add(quantity("500m")).isInteger()', False),
        ('quantity("0.5").sub(quantity("0.5")).add(2).isInteger()', True),
        ('device.capacity["dra.example.com"].memory.compareTo(quantity("40Gi")) >= 0', True),
        ('device.capacity["dra.example.com"].memory.isLessThan(quantity("41G"))', False),
        ('quantity("1").add(1).sub(quantity("500m")) == quantity("1.5")', True),
        ('quantity("50k").asInteger() == 50000', True),
        (f'int("-{"0" * 5000}5") == -5 && uint("{"0" * 5000}5") == 5u', True),
        ('isQuantity("1Mo")', False),
        (f"{D}.names.exists(n, n == 'bird')", True),
        (f"{D}.names.all(n, n.size() == 4)", True),
        (f"{D}.names.exists_one(n, n.startsWith('f'))", True),
        (f"{D}.names.map(n, n.upperAscii()).join('-') == 'FISH-BIRD'", True),
        (f"{D}.names.filter(n, n > 'c').size() == 1", True),
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
        (r"""r"\" == "\\" && rb'\d' == b'\\d' && b'\xff\101é' != b'' """, True),
        ("b'\\xff€'.size() == 4 && string(bytes('é')) == 'é'", True),
        ("string(1000000.0) == '1e+06' && string(0.5) == '0.5' && string(100.0) == '100'", True),
        ("string(double('inf')) == '+Inf' && 1.0 / -0.0 == double('-inf')", True),
        ("'baac'.findAll('a*') == ['', 'aa', '']", True),
        ("'é€'.findAll('') == ['', '', ''] && 'aXbX'.findAll('X', 1) == ['X']", True),
        ("'v12'.find('[0-9]+') == '12' && 'a gpu'.matches('(?i)GPU$')", True),
        ("'ab'.indexOf('b', 7) == -1", True),
        (r""" '\U0001F600'.size() == 1 && '\X41' == 'A' && '\U0001F600' != '\u0001F600' """, True),
        ("[1, 2].exists_one(i, x, x > 1) && !{1: 1, 2: 2}.exists_one(k, v, k == v)", True),
        ("[1, 2].first().value() == 1 && [1, 2].last() == optional.of(2)", True),
        ("[].first().hasValue() || [].last().hasValue()", False),
        ("[optional.of(1), optional.none()].unwrapOpt() == [1]", True),
        ("optional.unwrap([optional.none(), optional.of(2)]) == [2]", True),
        (r"""strings.quote('a"\\\n\té') == r'"a\"\\\n\té"' """, True),
        (
            "[1, 2, 3].slice(1, 3) == [2, 3] && [1, 2].slice(2, 2) == [] && [1, 2].reverse() == [2, 1]",
            True,
        ),
        ("quantity('700m').asApproximateFloat() == 0.7000000000000001", True),
        ("quantity('300m').asApproximateFloat() == 0.3", True),
        ("quantity('1.5').asApproximateFloat() == 1.5", True),
        ("quantity('0.7').asApproximateFloat() == 0.7000000000000001", True),
        ("quantity('0.7').add(quantity('1m')).asApproximateFloat() == 0.7010000000000001", True),
        ("quantity('1.1Ki').asApproximateFloat() == 1126.4", True),
        ("quantity('3k').asApproximateFloat() == 3000.0", True),
        ("[1][?dyn(5.0)].hasValue()", False),
        ("9007199254740993 == dyn(9007199254740992.0)", True),
        (
            "9007199254740993 > 9007199254740992.0 || 9223372036854775807 < 9223372036854775808.0",
            False,
        ),
        ("double('0x1p-2') == 0.25 && double('-0X.8P1') == -1.0", True),
        ("double('1_0.5_0') == 10.5 && double('0x_1_0p-2') == 4.0", True),
        ("'''a\r\nb\rc''' == 'a\\nb\\nc' && r'''\r\n''' == '\\n'", True),
        (f"int('-{'0' * 5000}1') == -1 && uint('{'0' * 5000}1') == 1u", True),
        ("isQuantity('1ki') || isSemver('1.0.0-99999999999999999999999')", False),
        ("has(dyn(device).foo) || 'foo' in dyn(device)", False),
        ("dyn(device).size() == 4 && quantity('1e400').asApproximateFloat() > 1.0", True),
        ("dyn(semver('1.0.0')) != 'a'", True),
        ("dyn('a') == semver('1.0.0')", False),
        ("[dyn(semver('1.0.0'))] == ['a']", True),
        ("has(dyn(1).a)", False),
        ("dyn(1).orValue(2) == 1", True),
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
        ('quantity("abc").isInteger()', "quantities must match the regular expression"),
        ('quantity("1ki").isInteger()', "unable to parse quantity's suffix"),
        ('quantity("1.0").asInteger() == 1', "cannot convert value to integer"),
        ('semver("1.0.é_").major() == 1', 'Invalid character(s) found in patch number "é_"'),
        ('semver("1.2-a", true).major() == 1', "short version cannot contain PreRelease"),
        ('"a".matches("(")', "error parsing regexp"),
        (r""""a".matches("\\C")""", "invalid escape sequence"),
        ("dyn(device).foo == 1", "no such key: foo"),
        ("dyn(device)[[1]] == 1", "no such key: list"),
        ('[1][dyn(double("NaN"))] == 1', "unsupported index type 'double' in list"),
        ("[1][dyn(1.0 / 0.0)] == 1", "unsupported index type 'double' in list"),
        ("[?dyn([1])] == []", "no such overload"),
        (f'semver("{"1" * 4400}.0.0").major() > 1', "strconv.ParseUint: parsing"),
        ("string(b'\\xff') == ''", "invalid UTF-8 in bytes"),
        ("1.0 < double('NaN')", "NaN values cannot be ordered"),
        ("dyn(double('NaN')) >= dyn(true)", "NaN values cannot be ordered"),
        *(
            (f"double('{text}') > 0.0", "type conversion error from 'string' to 'double'")
            for text in ("_1", "1_", "1__0", "1_.0", "1e_5", "0_x1p2")
        ),
        ("int('1_0') == 10", "type conversion error"),
        ("double('1e400') > 1.0", "type conversion error"),
        ("int(1e30) > 1", "integer overflow"),
        ("int(-9223372036854775808.0) < 1", "integer overflow"),
        ("int(double('nan')) < 1", "integer overflow"),
        ("double('0x1p9999') > 1.0", "type conversion error"),
        ("[1].slice(-1, 0) == []", "cannot slice(-1, 0), negative indexes not supported"),
        ("[1].slice(1, 0) == []", "start index must be less than or equal to end index"),
        ("[1].slice(0, 2) == []", "cannot slice(0, 2), list is length 1"),
        ("[dyn(1)].unwrapOpt() == []", "is not optional"),
        ("dyn('a').reverse() == 'a'", "no such overload: reverse(string)"),
        ("'a'.split(',', dyn(1u)) == []", "no such overload: split(string, string, uint)"),
        ("dyn(semver('1.0.0')) == 'a'", "no such overload"),
        ("dyn(quantity('1')) == 1", "no such overload"),
        ("dyn(semver('1.0.0')) in ['a']", "hash of unhashable type cel.Semver"),
        ("dyn(b'a') in ['a']", "hash of unhashable type types.Bytes"),
        ("dyn(1).isGreaterThan(semver('1.0.0'))", "isGreaterThan(int, kubernetes.Semver)"),
        ("dyn(true) + 1 == 2", "no such overload: _+_"),
        ("dyn(1).a == 1", "no such key: a"),
        ("has(dyn([1]).a)", "unsupported index type 'string' in list"),
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
        (f'{D}.name.includes("fish")', "undeclared reference to 'includes'"),
        ("[1].all(x + 1, true)", "simple name"),
        ("(" * 300 + "true" + ")" * 300, "recursion limit"),
        ("1" + "+1" * 300 + " == 1", "chain limit"),
        ("'abc", "Syntax error"),
        ("bytes('\ud800') == b''", "invalid UTF-8 at position 7"),
        ("if", "reserved identifier"),
        ("9" * 5000 + " == 1", "invalid int literal"),
        ("1e400 > 1.0", "invalid double literal"),
        ("b'\\u00e9' == b''", "invalid escape in bytes"),
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


@pytest.mark.parametrize(
    "source",
    [
        # Each is little to write, and much to do.
        f"'{'a' * 3000}'.replace('a', '{'b' * 3000}').replace('b', '{'c' * 3000}') == ''",
        "cel.bind(a, 'aaaaaaaaaaaaaaaa', " + "cel.bind(a, a + a, " * 40 + "a == ''" + ")" * 41,
        "cel.bind(a, [1, 2], " + "cel.bind(a, a + a, " * 40 + "a == []" + ")" * 41,
        "cel.bind(a, [1, 2], " + "cel.bind(a, [a, a], " * 40 + "a == a" + ")" * 41,
        "cel.bind(a, [1, 2], " + "cel.bind(a, [a, a], " * 40 + "a in [a]" + ")" * 41,
        "cel.bind(a, [1, 2], " + "cel.bind(a, [a, a], " * 40 + "sets.contains([a], [a])" + ")" * 41,
        f"{[1] * 100}.all(a, {[1] * 100}.all(b, !'{'x' * 5000}'.contains('{'x' * 900}y')))",
    ],
)  # fmt: skip
def test_what_grows_is_paid_for_by_its_size(source: str) -> None:
    compiled = compile_selector(source)
    assert isinstance(compiled, Expression)
    with pytest.raises(CelError, match="cost limit exceeded"):
        compiled.matches(a_device(), Work())


V = "semver('1.0.0-' + c.replace('1', 'x'))"


def _with_text(text: str, body: str) -> str:
    """An expression in which c is the text, a hundred times with points between."""
    many = "+'.'+".join
    return f"cel.bind(a, '{text}', cel.bind(b, {many('a' * 10)}, cel.bind(c, {many('b' * 10)}, {body})))"


@pytest.mark.parametrize(
    ("body", "least"),
    [
        ("double(c) == 1.0", 1_000),
        ("int(c) == 1", 1_000),
        ("uint(c) == 1u", 1_000),
        ("c.split('').reverse() == []", 10_000),
        ("c.split('').slice(0, 9000) == []", 9_000),
        ("strings.quote(c) == ''", 1_000),
        ("[optional.of(c)].map(o, c.split('').map(l, o)).all(l, l.unwrapOpt() == [])", 10_000),
        ("c.lastIndexOf('ab' + b) == 1", 100_000),
        ("c.findAll('') == []", 10_000),
        ("c.findAll('1') == []", 10_000),
        ("'x' in c.split('')", 10_000),
        ("c.split('').join() == ''", 10_000),
        ("c.split('').isSorted()", 10_000),
        ("c.split('').max() == ''", 10_000),
        ("c.split('').indexOf('x') == -1", 10_000),
        ("sets.contains(['x'], c.split(''))", 10_000),
        ("c.split('') == c.split('')", 10_000),
        (f"{V}.compareTo({V}) == 0", 9_900),
        (f"{V} == {V}", 8_900),
        (f"[{V}] == [{V}]", 8_900),
    ],
)
def test_a_text_is_paid_for_wherever_it_is_gone_through(body: str, least: int) -> None:
    assert _spent(_with_text("1" * 100, body)) - _spent(_with_text("1" * 100, "c == ''")) >= least


def _spent(source: str) -> int:
    work = _Spent()
    compiled = compile_selector(source)
    assert isinstance(compiled, Expression), compiled
    with contextlib.suppress(CelError):
        compiled.matches(a_device(), work)
    return work.cost


class _Spent(Work):
    cost = 0

    def add_evaluation(self, cost: int) -> None:
        self.cost += cost
        super().add_evaluation(cost)


@pytest.mark.parametrize(
    ("source", "least"),
    [
        (f"[1, 1].all(a, {[1] * 1000} != [])", 200),
        (f"[1, 1].all(a, {'false || ' * 1000} true)", 200),
        ("[1, 1].all(a, cel.bind(b, 1, cel.bind(c, 1, cel.bind(d, 1, true))))", 22),
        ("false || " * 1000 + "true", 80),
    ],
)
def test_what_kubernetes_does_not_count_is_not_for_nothing(source: str, least: int) -> None:
    assert _spent(source) >= least


@pytest.mark.parametrize("function", ["_==_", "_!=_", "sets.contains", "sets.intersects"])
def test_the_larger_of_two_values_is_not_gone_through_to_tell_the_cost(function: str) -> None:
    class Seen(list[Any]):
        walks = 0

        def __iter__(self) -> Any:
            Seen.walks += 1
            return super().__iter__()

    value: list[Any] = Seen()
    for _ in range(12):
        value = [value, value]
    assert COSTS[function]([], value) <= 1
    assert COSTS[function](value, []) <= 3
    assert Seen.walks <= 2


def test_no_side_of_an_alternative_makes_good_for_costing_too_much() -> None:
    many = "[" + ",".join(["1"] * 120) + "]"
    nested = f"{many}.all(a, {many}.all(b, {many}.all(c, a + b + c > 0)))"
    with pytest.raises(CelError, match="cost limit exceeded"):
        evaluate(f"{nested} || true")


def test_a_pattern_that_makes_others_backtrack_for_ever_costs_what_it_does() -> None:
    assert not evaluate(f"'{'a' * 300}b'.matches('(a+)+$')")
    compiled = compile_selector(f"'{'a' * 4000}'.matches('(a?){{1000}}a{{1000}}b')")
    assert isinstance(compiled, Expression)
    work = Work()
    with pytest.raises(WorkError):
        list(map(compiled.matches, [a_device()] * 1000, [work] * 1000))


def test_patterns_are_paid_for_once_each_and_as_if_nobody_had_compiled_them() -> None:
    alike = "[1, 2].all(x, 'a'.matches('PATTERN') || true)"
    one = alike.replace("PATTERN", r"\\pL{3}")
    each = one.replace("{3}'", "{3}' + string(x)")
    assert _spent(one) == _spent(one) > 1_000
    assert _spent(each) > 2 * _spent(one) - 100
    too_large = alike.replace("PATTERN", r"\\pL{1000}")
    assert 100_000 < _spent(too_large) < 200_000
    many = f"{list(range(65))}.all(x, 'a'.matches('a{{50}}' + string(x)) || true)"
    twice = f"[1, 2].all(y, {many})"
    assert _spent(twice) > 1.9 * _spent(many)


def test_a_pattern_that_cannot_be_compiled_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def compiled(pattern: bytes, options: object) -> None:
        tried.append(pattern)
        raise re2.error("no argument for repetition operator: ?")

    monkeypatch.setattr("shared.cel.cel_regex.re2.compile", compiled)
    for _ in range(3):
        with pytest.raises(CelError, match="error parsing regexp: no argument"):
            evaluate("'a'.matches('?never seen')")
    assert tried == [b"?never seen"]


def test_an_error_says_a_bounded_part_of_what_it_is_about() -> None:
    with pytest.raises(CelError) as raised:
        evaluate(f"{{'a': 1}}['{'x' * 9000}'] == 1")
    assert len(str(raised.value)) <= CEL_ERROR_LETTERS_MAX + 3


@given(st.text(max_size=40))
def test_any_text_compiles_or_is_refused(source: str) -> None:
    compiled = compile_selector(source)
    if isinstance(compiled, Expression):
        with contextlib.suppress(CelError):  # Refused while running is as good.
            compiled.matches(a_device(), Work())


@given(st.integers(-(2**31), 2**31), st.integers(-(2**31), 2**31))
def test_arithmetic_is_that_of_go(a: int, b: int) -> None:
    assert evaluate(f"{a} + {b} == {a + b} && {a} - {b} == {a - b} && {a} * {b} == {a * b}")
    if b:
        quotient = int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
        assert evaluate(f"{a} / {b} == {quotient} && {a} % {b} == {a - quotient * b}")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (f"type({D}.index) == int", True),
        (f"type({D}.name) == string && type({D}.flag) != string", True),
        ("type(1u) == uint && type(1.0) == double && type([]) == list && type({}) == map", True),
        ("type(null) == null_type && type(int) == type && type(b'') == bytes", True),
        ("type(optional.none()) == optional_type", True),
        (f'type({D}.version) == type(semver("1.0.0"))', True),
        ("[int, string].exists(t, t == type(1))", True),
        ('quantity("1") == quantity("3").sub(2) && quantity("1") in [quantity("3").sub(2)]', True),
        (f"{D}.nope in []", False),
        (f"{D}.?name.?more.hasValue()", False),
        ("{1.5: true}[1.5]", True),
        (f'cel.bind(v, {D}.nope, device.driver == "another" && v == 1)', False),
        ("cel.bind(v, 1 / 0, true || v == 1)", True),
        (f"cel.bind(v, {D}.index, [1, 2].exists(i, i == v))", True),
        ("cel.bind(i, 1 / 0, [1].all(i, i == 1))", True),
        (f"cel.bind(v, {D}.index, cel.bind(w, v + 1, w == 3 && v == 2))", True),
    ],
)
def test_types_and_what_is_not_asked_for(source: str, expected: bool) -> None:
    assert evaluate(source) is expected


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ('"abc".substring(9, 1) == ""', "invalid substring range. start: 9, end: 1"),
        ('"abc".substring(9) == ""', "index out of range: 9"),
        ("-9223372036854775808 % -1 == 0", "integer overflow"),
        ("cel.bind(v, 1 / 0, v == 1)", "division by zero"),
        (
            "optional.none().orValue([1])",
            "CEL result of type list could not be converted to bool: type conversion error from "
            "list to 'bool'",
        ),
        (
            "optional.none().orValue(1.5)",
            "CEL result of type double could not be converted to bool: type conversion error from "
            "Double to 'bool'",
        ),
    ],
)
def test_errors_have_cel_gos_words(source: str, told: str) -> None:
    with pytest.raises(CelError) as caught:
        evaluate(source)
    assert str(caught.value) == told
