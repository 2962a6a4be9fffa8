"""YAML as Kubernetes' programs read it: go-yaml's version 2, and what JSON makes of that.

Apart from what the files mean, so that all of them are read alike. It is YAML 1.1 with changes of its
own: `1e1` is 10, `0o17` and `017` are 15, `1:30` and dates are texts, a tag that nobody knows is passed
over. All goes through JSON there, where 16.0 is 16, and keys are texts. Of several documents of a
configuration the first counts.

Rules: resolve.go and decode.go of go.yaml.in/yaml/v2, and sigs.k8s.io/yaml, as of Kubernetes v1.36.2.
"""

import math
import re
from collections.abc import Hashable, Iterator
from typing import Any, ClassVar, Final

import yaml
from yaml.constructor import SafeConstructor

from shared.limits import YAML_VALUES_MAX

_TAG: Final = "tag:yaml.org,2002:"
NULL_TAG: Final = f"{_TAG}null"
_MERGE_TAG: Final = f"{_TAG}merge"
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
"""As an escape it can stand in a document; it can be written nowhere."""

_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **{
        spelt: word in ("y", "yes", "true", "on")
        for word in ("y", "yes", "true", "on", "n", "no", "false", "off")
        for spelt in (word, word.capitalize(), word.upper())
    },
}
_INTEGER: Final = re.compile(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))"
)
_BASES: Final = (16, 2, 8, 10)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_UINT64_END, _INT64_END, _PLAIN_END = 2**64, 2**63, 1e21
"""From the last on JSON writes an exponent, and no whole number is read from that."""
_DIGITS_MAX: Final = 70
"""Sixty-four bits, in twos."""
_KINDS: Final = {type(None): "null", bool: "bool", int: "int", float: "float", str: "str"}


def _plain(text: str) -> None | bool | int | float | str:
    """What stands there without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if _INFINITE.fullmatch(text):
        return math.nan
    digits = text if text.startswith((".", "_")) else text.replace("_", "")
    whole = _INTEGER.fullmatch(digits)
    if whole is not None and len(digits) <= _DIGITS_MAX:
        sign, *in_bases = whole.groups()
        number = next(int(each, base) for each, base in zip(in_bases, _BASES, strict=True) if each)
        if number < (_INT64_END if sign else _UINT64_END) or (sign, number) == ("-", _INT64_END):
            return -number if sign == "-" else number
    if _FLOAT.fullmatch(digits):
        real = float(digits)
        if math.isfinite(real):
            return int(real) if real.is_integer() and abs(real) < _PLAIN_END else real
    return text


class _Loader(yaml.SafeLoader):
    def scan_to_next_token(self) -> None:
        """A tab parts a value from its key as a space does; only lines do not begin with one."""
        super().scan_to_next_token()
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        if kind is not yaml.ScalarNode or not implicit[0]:
            tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call] # Stubs.
            return tag
        return _MERGE_TAG if value == "<<" else _TAG + _KINDS[type(_plain(value))]


class _Constructor(SafeConstructor):
    def __init__(self, *, is_strict: bool) -> None:
        super().__init__()
        self._is_strict = is_strict

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Hashable, Any]:
        made: dict[Hashable, Any] = {}
        for key_node, value_node in members(node):
            key = key_of_member(key_node)
            if self._is_strict and key in made:
                raise _wrong("a key stands twice", key_node)
            made[key] = self.construct_object(value_node, deep=deep)
        return made

    def scalar(self, node: yaml.Node) -> Any:
        wanted, given = node.tag.removeprefix(_TAG), _plain(node.value)
        if wanted == "float" and type(given) is int:
            return given
        if _KINDS[type(given)] != wanted:
            raise _wrong(f"is not of its tag, {wanted}", node)
        if isinstance(given, float) and math.isnan(given):
            raise _wrong("must be a number that JSON has", node)
        return given

    def other(self, node: yaml.Node) -> Any:
        """What a tag says that nobody knows is passed over."""
        match node:
            case yaml.MappingNode():
                return self.construct_mapping(node, deep=True)
            case yaml.SequenceNode():
                return self.construct_sequence(node, deep=True)
            case _:
                return node.value

    yaml_constructors: ClassVar[Any] = {
        **SafeConstructor.yaml_constructors,
        **dict.fromkeys((f"{_TAG}{kind}" for kind in ("null", "bool", "int", "float")), scalar),
        **dict.fromkeys((f"{_TAG}{kind}" for kind in ("timestamp", "set", "omap", "pairs")), other),
        _MERGE_TAG: other,
        None: other,
    }


class _Dumper(yaml.SafeDumper):
    def represent_str(self, data: str) -> yaml.ScalarNode:
        """In quotes if go-yaml takes it for something else; what YAML 1.1 does is in quotes anyway."""
        is_text = isinstance(_plain(data), str)
        return self.represent_scalar(f"{_TAG}str", data, style=None if is_text else "'")

    yaml_representers: ClassVar[Any] = {**yaml.SafeDumper.yaml_representers, str: represent_str}


def dumped(document: Any, *, sorts_keys: bool = False) -> str:
    """Plain data as text that means the same here, for Kubernetes' programs and by YAML 1.1."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=sorts_keys)


def _wrong(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def value_of(node: yaml.Node, *, is_strict: bool = True) -> Any:
    """A node as plain data; raises what `YAML_FAULTS` names. `is_strict`: a key that stands twice is a
    fault, and not the later one's."""
    return _Constructor(is_strict=is_strict).construct_document(node)


def members(node: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Keys and values of a mapping, with those that a merge key (`<<`) takes from others where it
    stands."""
    if not isinstance(node, yaml.MappingNode):
        raise _wrong("a merge key (<<) takes a mapping, or a list of them", node)
    for key_node, value_node in node.value:
        if key_node.tag != _MERGE_TAG:
            yield key_node, value_node
        elif isinstance(value_node, yaml.SequenceNode):
            for each in reversed(value_node.value):
                yield from members(each)
        else:
            yield from members(value_node)


def key_of_member(node: yaml.Node) -> str:
    """A key as JSON has it."""
    if node.tag == f"{_TAG}str" and isinstance(node, yaml.ScalarNode):
        return str(node.value)
    key = value_of(node) if isinstance(node, yaml.ScalarNode) else None
    if key is None:
        raise _wrong("is no key", node)
    return str(key).lower() if isinstance(key, bool) else str(key)


def composed(text: str) -> yaml.Node | None:
    """The nodes of the first document, which may be constructed; raises what `YAML_FAULTS` names."""
    return next(documents(text), None)


def loaded(text: str, *, is_strict: bool = True) -> Any:
    """The first document as plain data, None if there is none; as `value_of`."""
    node = composed(text)
    return None if node is None else value_of(node, is_strict=is_strict)


def documents(text: str) -> Iterator[yaml.Node]:
    """Those of each document, in order; raises the same."""
    loader = _Loader(text)
    try:
        while loader.check_node() and (node := loader.get_node()):
            _count_values(node, {})
            yield node
    finally:
        loader.dispose()


def _count_values(node: yaml.Node, counts: dict[int, int]) -> int:
    """How many values a node stands for, with what its aliases repeat. `counts`: of those before, by
    identity; 0 for those that are not finished."""
    if id(node) in counts:
        count = counts[id(node)]
        if not count:
            raise _wrong("an alias of itself", node)
        return count
    counts[id(node)] = 0
    count = 1
    if isinstance(node, yaml.MappingNode):
        count += sum(_count_values(each, counts) for pair in node.value for each in pair)
    elif isinstance(node, yaml.SequenceNode):
        count += sum(_count_values(each, counts) for each in node.value)
    elif _HALF_CHARACTER.search(node.value):
        raise _wrong("half of a character", node)
    if count > YAML_VALUES_MAX:
        raise _wrong("too many values", node)
    counts[id(node)] = count
    return count


YAML_FAULTS: Final = (
    yaml.YAMLError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
)
"""What reading YAML raises: `!!binary` and the like raise what Python makes of them."""

_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_TOKEN: Final = re.compile(r"'(<[a-z ]+>|.{1,2})'")


def yaml_problem(error: Exception) -> str:
    """What is wrong and where, on one line, and nothing of what stands there: it may be a token. The
    parser's own text shows the line, and names aliases and tags, which a password may begin like."""
    if not isinstance(error, yaml.MarkedYAMLError):
        if isinstance(error, yaml.YAMLError):  # A character that YAML does not know: its code.
            return " ".join(str(error).split())
        return f"a value is not what its tag says, or lies too deep ({type(error).__name__})"
    mark = error.problem_mark or error.context_mark
    where = "" if mark is None else f" in line {mark.line + 1}, column {mark.column + 1}"
    problem = error.problem or error.context or "it cannot be understood"
    return _QUOTED.sub(lambda m: m[0] if _TOKEN.fullmatch(m[0]) else "'...'", problem) + where
