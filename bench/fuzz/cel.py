"""Device selectors that nobody would write: whatever the text, CEL answers or raises its own errors.

Expressions grow from the grammar, with every function and macro there is and with arguments of any
type, or are real selectors with pieces cut, doubled and exchanged. `fuzz` is for long runs; the test
suite draws from the same generators.
"""

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench.fuzz.harness import Story, Surface, Target
from shared.cel.cel_selector import Expression, compile_selector
from shared.cel.cel_semver import parse_semver
from shared.cel.cel_values import CelCompileError, CelError, CelQuantity, DefaultMap
from shared.dra.search_work import Work, WorkError
from shared.kube.quantity import parse

DEPTH_MAX: Final = 4
"""Of expressions that grow: enough for any three functions, macros and operators."""
SURPRISES: Final = 0.1
"""So much of what a call gets is of any type."""
REAL: Final = (
    'device.driver == "gpu.example.com"',
    'device.attributes["gpu.example.com"].model == "A100" && device.driver.endsWith(".com")',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.2.0"))',
    "cel.bind(d, device.attributes['gpu.example.com'], d.?index.orValue(7) in [1, 2, 3] || d.flag)",
    'device.attributes["gpu.example.com"].model.matches("^A[0-9]{2,3}(-SXM)?$")',
    'device.attributes["gpu.example.com"].names.exists(n, n.lowerAscii().startsWith("f"))',
    '"gpu.example.com" in device.attributes && has(device.attributes["gpu.example.com"].model)',
    "device.attributes['gpu.example.com'].names.map(n, n.size()).all(s, s > 1 && s % 2 == 0)",
    'isSemver("1.0.0") ? isQuantity("1Ki") : b"\\x00a" == bytes("a") || r"\\d" != "\\u00e9"',
)
_SLOT: Final = re.compile(r"<([a-z]+)>")
_GRAMMAR: Final[Mapping[str, Sequence[str]]] = {
    "bool": (
        "true", "false", "(<any> == <any>)", "(<any> != <any>)", "(<int> < <double>)", "!<bool>",
        "(<int> <= <uint>)", "(<text> > <text>)", "(<bytes> >= <bytes>)", "(<any> in <list>)",
        "(<bool> && <bool>)", "(<bool> || <bool>)", "(<text> in <map>)", "bool(<text>)", "bool(<bool>)",
        "<text>.contains(<text>)", "<text>.startsWith(<text>)", "<text>.endsWith(<text>)",
        "<text>.matches(<pattern>)", "matches(<text>, <pattern>)", "<list>.isSorted()",
        "<version>.isGreaterThan(<version>)", "isSemver(<text>, <bool>)",
        "<quantity>.isLessThan(<quantity>)", "<quantity>.isInteger()", "<optional>.hasValue()",
        "isQuantity(<text>)", "isSemver(<text>)", "sets.contains(<list>, <list>)",
        "sets.intersects(<list>, <list>)", "sets.equivalent(<list>, <list>)", "has(<map>.a)",
        "<list>.all(x, x == <any>)", "<map>.exists(x, <bool>)", "<list>.exists_one(x, <bool>)",
        "<map>.all(i, x, i == x || <bool>)", "<list>.existsOne(x, x)", "<map>.exists_one(i, x, i == x)",
        "has(<map>[<text>].foo)",
        "has(<any>.driver)", "device.allowMultipleAllocations", "(type(<any>) == type(<any>))",
        "(type(<any>) == int)", "(type(<list>) in [list, map])",
    ),
    "int": (
        "0", "1", "-1", "2", "9223372036854775807", "-9223372036854775808", "0x7f", "(<int> + <int>)",
        "(<int> - <int>)", "(<int> * <int>)", "(<int> / <int>)", "(<int> % <int>)", "-<int>",
        "size(<text>)", "<list>.size()", "<map>.size()", "<bytes>.size()", "int(<text>)",
        "int(<double>)", "int(<uint>)", "<text>.indexOf(<text>)", "<text>.indexOf(<text>, <int>)",
        "<text>.lastIndexOf(<text>)", "<text>.lastIndexOf(<text>, <int>)", "<list>.indexOf(<any>)",
        "<list>.lastIndexOf(<any>)", "<version>.compareTo(<version>)", "<quantity>.sign()",
        "<quantity>.compareTo(<quantity>)", "<quantity>.asInteger()", "<version>.major()",
        "<version>.minor()", "<version>.patch()", "<list>.sum()", "(<bool> ? <int> : <int>)",
    ),
    "uint": ("1u", "0u", "18446744073709551615u", "uint(<text>)", "uint(<double>)", "(<uint> - <uint>)",
             "(<uint> / <uint>)", "(<uint> % <uint>)", "uint(<int>)"),
    "double": ("0.5", "-0.0", "1e308", 'double("NaN")', 'double("-inf")', "(<double> * <double>)",
               "(<double> / <double>)", "-<double>", "double(<text>)", "double(<int>)",
               "<quantity>.asApproximateFloat()", "(<double> + <double>)"),
    "text": (
        '""', '"a"', "'é€😀'", 'r"\\"', '"1ki"', '"1e400"', '"1Gi"', '"1.2.3"', '"v1.2"', '"1.2.3-4.x"',
        '"NaN"', '"٣"', '"1_0"', '" 1"', "device.driver", "(<text> + <text>)", "<text>.charAt(<int>)",
        "<text>.lowerAscii()", "<text>.upperAscii()", "<text>.trim()", "strings.quote(<text>)",
        "<text>.replace(<text>, <text>)", "<text>.replace(<text>, <text>, <int>)",
        "<text>.substring(<int>)", "<text>.substring(<int>, <int>)", "<list>.join()",
        "<list>.join(<text>)", "<text>.find(<pattern>)", "string(<double>)", "string(<bytes>)",
        "string(<any>)", "<list>.max()", "<optional>.orValue(<text>)", '"%s"' % ("9" * 4400),
        "<map>[<any>]", "<list>[<int>]", "<map>.a",
    ),
    "pattern": ('"(a+)+$"', '"a{²}"', '"[[:alpha:]"', '"\\\\C"', '"(?i)a*"', '"(a?){100}a{100}"', '"^"',
                '"\\\\pL|"', '"(?P<N>.)"', '"*"', '"(?:)"', "<text>"),
    "bytes": ('b"\\xff"', "b'a€'", "bytes(<text>)", "bytes(<bytes>)", "(<bytes> + <bytes>)", "rb'\\d'"),
    "list": (
        "[]", "[1]", "[dyn(1), dyn('a')]", "[<any>]", "[<int>, <int>]", "[<text>, <text>]",
        "[?<optional>]",
        "(<list> + <list>)", "<text>.split(<text>)", "<text>.split(<text>, <int>)",
        "<text>.findAll(<pattern>)", "<text>.findAll(<pattern>, <int>)", "<list>.map(x, [x, <any>])",
        "<list>.filter(x, <bool>)", "<map>.map(x, x)", "<list>.map(x, <bool>, x)", "[<double>, <uint>]",
        "[<quantity>, <version>]", "<list>.reverse()", "<list>.slice(<int>, <int>)",
        "<list>.unwrapOpt()", "optional.unwrap([<optional>, <any>])",
    ),
    "map": ("{}", "{'a': <any>}", "{<int>: <any>}", "{<any>: 1}", "{?'a': <optional>}", "device",
            "device.attributes", 'device.attributes["gpu.example.com"]', "device.capacity"),
    "quantity": ('quantity("1e400")', "quantity(<text>)", "<quantity>.add(<quantity>)",
                 "<quantity>.add(<int>)", "<quantity>.sub(<int>)", "<quantity>.sub(<quantity>)",
                 'device.capacity["gpu.example.com"].memory', 'quantity("-1n")'),
    "version": ('semver("1.2.3")', "semver(<text>)", "semver(<text>, <bool>)",
                'device.attributes["gpu.example.com"].version', 'semver("1.0.0-1.a")'),
    "optional": (
        "optional.none()", "optional.of(<any>)", "optional.ofNonZeroValue(<any>)", "<map>.?a",
        "<map>[?<any>]", "<list>[?<int>]", "<list>.first()", "<list>.last()",
        "<optional>.or(<optional>)", "<optional>[?<any>]",
        "<optional>.optMap(x, [x, <any>])", "<optional>.optFlatMap(x, <optional>)", "<optional>.?foo",
    ),
    "other": ("null", "<optional>.value()", "<list>.min()", "dyn(device)", "dyn(<any>).foo",
              "<any>[<any>]", "cel.bind(x, <any>, [x, x])", "cel.bind(x, <list>, x + x)",
              "(<bool> ? <any> : <any>)",
              "<text>.<any>", "size(<any>)", "-<any>", "type(<any>)", "kubernetes.Quantity"),
}  # fmt: skip
"""Type -> expressions of it. What is in angle brackets is grown in turn."""
_PIECES: Final = (
    "(", ")", "[", "]", "{", "}", "?", ".", ",", ":", "'", '"', '"""', "\\", "\\U0010ffff", chr(0xD800),
    "\x00", " in ", "&&", "dyn(", "[?", ".?", "9" * 30, "9" * 5000, "1e999", "0x" + "f" * 40, "!", "-",
    "r'", "b'", "//", "\n", "cel.bind(x, ", "has(", "null", "@", "`",
)  # fmt: skip


def a_device() -> dict[str, Any]:
    """With a value of every kind that a device may have."""
    attributes = {
        "model": "A100", "flag": True, "index": 2, "version": parse_semver("1.9.3"),
        "names": ["fish", "bird"],
    }  # fmt: skip
    domain = "gpu.example.com"
    return {
        "driver": domain,
        "attributes": DefaultMap({domain: attributes}),
        "capacity": DefaultMap({domain: {"memory": CelQuantity(parse("40Gi"))}}),
        "allowMultipleAllocations": False,
    }


def grown(random: random.Random) -> str:
    """An expression that mostly compiles and mostly means nothing."""
    return _expression(random, random.choice(("bool", "bool", "any")), DEPTH_MAX)


def mutated(random: random.Random) -> str:
    """A real selector, damaged."""
    text = random.choice(REAL)
    for _ in range(random.randrange(1, 5)):
        at, other = random.randrange(len(text) + 1), random.randrange(len(text) + 1)
        low, high = min(at, other), max(at, other)
        match random.randrange(5):
            case 0:
                text = text[:low] + text[high:]
            case 1:
                text = text[:at] + random.choice(_PIECES) + text[at:]
            case 2:
                text = text[:at] + text[low:high] + text[at:]
            case 3:
                text = text[:at] + random.choice(REAL)[other:]
            case _:
                text = text[:low] + _expression(random, "any", 2) + text[high:]
    return text


def _story(rng: random.Random) -> Story:
    source = rng.choice((grown, mutated))(rng)
    return [source.encode("utf-8", "surrogatepass")]


def _start() -> Target:
    return Target(_take)


def _take(data: bytes) -> None:
    compiled = compile_selector.__wrapped__(data.decode("utf-8", "surrogatepass"))
    if isinstance(compiled, Expression):
        compiled.matches(_DEVICE, Work())
    else:
        assert isinstance(compiled, CelCompileError)


# Growing ----------------------------------------------------------------------------------------------


def _expression(random: random.Random, kind: str, depth: int) -> str:
    is_surprise = random.random() < SURPRISES
    if kind == "any" or is_surprise:
        kind = random.choice(_KINDS)
    shapes = _GRAMMAR[kind] if depth > 0 else _LEAVES[kind]
    text = random.choice(shapes)
    text = _SLOT.sub(lambda slot: _expression(random, slot[1], depth - 1), text)
    # What is of another type than the place wants gets there as `dyn` alone.
    return f"dyn({text})" if is_surprise else text


_KINDS: Final = tuple(_GRAMMAR)
_LEAVES: Final = {
    kind: [text for text in texts if _SLOT.search(text) is None] or ["null"]
    for kind, texts in _GRAMMAR.items()
}

_DEVICE: Final = a_device()
SURFACE: Final = Surface(
    about="selectors of devices in CEL",
    story=_story,
    start=_start,
    refusals=(CelError, WorkError),
)
