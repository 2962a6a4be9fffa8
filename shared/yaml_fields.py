"""Reads a YAML document field by field and collects every problem with its place.

Apart from the configuration files that are read with it, so that those read like their own schema.
Unlike `yaml.safe_load` it knows where each value stood, refuses a key that stands twice, and sees
which keys nobody asked for. Nothing is raised while reading: callers take fallbacks, go on, and
look once at the end at what was wrong.
"""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

from shared.durations import parse_duration
from shared.errors import ConfigurationError
from shared.go_yaml import (
    NULL_TAG,
    YAML_FAULTS,
    composed,
    key_of_member,
    members,
    value_of,
    yaml_problem,
)
from shared.limits import CONFIG_BYTES_MAX

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
FLOAT32_END: Final = 2.0**128


class Field:
    """A value in the document: where it stands, and how to read it as something."""

    def __init__(self, node: yaml.Node | None, path: str, problems: list[str]) -> None:
        """`node` is None for a key that is not in the document; reading it gives the fallback.
        `problems`: all that is wrong with the file, in the order of reading."""
        self._node = None if node is None or node.tag == NULL_TAG else node
        self._path = path
        self._problems = problems

    @property
    def is_present(self) -> bool:
        """False also for `key:` and `key: null`, which mean the default as in Kubernetes."""
        return self._node is not None

    @property
    def where(self) -> str:
        path = self._path or "document"
        return path if self._node is None else f"{path} (line {self._node.start_mark.line + 1})"

    def problem(self, told: str) -> None:
        self._problems.append(f"{self.where}: {told}")

    def text(self, fallback: str, *, is_secret: bool = False) -> str:
        return self._read(str, "text (put it in quotes)", fallback, is_secret=is_secret)

    def whole_number(self, fallback: int, *, least: int = 0, most: int = INT32_MAX) -> int:
        number = self._read(int, "a whole number", fallback)
        if not least <= number <= most:
            self.problem(f"{number} must lie in {least}..{most}")
            return fallback
        return number

    def number(self, fallback: float) -> float:
        number = float(self._read(int | float, "a number", fallback))
        if not abs(number) < FLOAT32_END:
            self.problem("must be a number, and no larger than one can be")
            return fallback
        return number

    def truth(self, fallback: bool) -> bool:
        return self._read(bool, "true or false", fallback)

    def duration_s(self, fallback: float) -> float:
        """Zero is as if it were not stated."""
        try:
            seconds = parse_duration(self.text("0"))
        except ValueError as error:
            self.problem(str(error))
            return fallback
        return seconds or fallback

    def binary(self, fallback: bytes = b"", *, is_secret: bool = False) -> bytes:
        try:
            return decoded_base64(self.text("", is_secret=is_secret)) or fallback
        except ValueError:
            self.problem("must be base64")
            return fallback

    def items(self) -> Iterator["Field"]:
        """The entries of a list; none if the field is absent."""
        if self._node is None:
            return
        if not isinstance(self._node, yaml.SequenceNode):
            self.problem("must be a list")
            return
        for index, node in enumerate(self._node.value):
            yield Field(node, f"{self._path}[{index}]", self._problems)

    def mapping(self) -> "Mapping":
        """The fields of a mapping; an empty one if the field is absent."""
        return Mapping(self._node, self)

    def child(self, key: str, node: yaml.Node | None) -> "Field":
        path = f"{self._path}.{key}" if self._path else key
        return Field(node, path, self._problems)

    def plain(self) -> Any:
        """The value as plain Python data, whatever it is; None if it is absent. Members of mappings
        that are null are left out, as they mean the default."""
        if self._node is None:
            return None
        try:
            return _without_nulls(value_of(self._node))
        except YAML_FAULTS as error:
            self.problem(f"cannot be read: {yaml_problem(error)}")
            return None

    def _read(self, kind: Any, wanted: str, fallback: T, *, is_secret: bool = False) -> T:
        if self._node is None:
            return fallback
        if not isinstance(self._node, yaml.ScalarNode):
            self.problem("must be a single value, not a list or a mapping")
            return fallback
        value = self.plain()
        if value is None:
            return fallback
        if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
            found: T = value
            return found
        given = "" if is_secret else f"{self._node.value!r} "
        self.problem(f"{given}must be {wanted}")
        return fallback


class Mapping:
    """A mapping whose keys are asked for one by one; `finish` reports those that nobody asked for."""

    def __init__(self, node: yaml.Node | None, field: Field) -> None:
        self._field = field
        self._nodes: dict[str, yaml.Node] = {}
        self._asked: set[str] = set()
        if node is None:
            return
        if not isinstance(node, yaml.MappingNode):
            field.problem("must be a mapping (key: value)")
            return
        try:
            for key_node, value_node in members(node):
                key = key_of_member(key_node)
                if key in self._nodes:
                    told = f"stands twice; the second is in line {key_node.start_mark.line + 1}"
                    field.child(key, self._nodes[key]).problem(told)
                else:
                    self._nodes[key] = value_node
        except YAML_FAULTS as error:
            field.problem(f"cannot be read: {yaml_problem(error)}")

    def field(self, key: str) -> Field:
        """The field under `key`, which counts as known from now on."""
        self._asked.add(key)
        return self._field.child(key, self._nodes.get(key))

    def read(self, kind: type[S], **given: Any) -> S:
        """All of it as a struct: each field under its name as the file writes it (`key_of`), by its type
        (numbers that are not whole are durations), with the struct's own default, which is also that of
        an empty text. `given`: those that are read otherwise."""
        for info in msgspec.structs.fields(kind):
            if info.name not in given:
                field = self.field(key_of(info.name))
                given[info.name] = _READERS[info.type](field, info.default)
        self.finish()
        return kind(**given)

    def finish(self) -> None:
        """Every key that nobody asked for is a problem."""
        known = ", ".join(sorted(self._asked))
        for key, node in self._nodes.items():
            if key not in self._asked:
                self._field.child(key, node).problem(f"unknown field; known here: {known}")


_READERS: Final[dict[Any, Callable[[Field, Any], Any]]] = {
    bool: Field.truth,
    int: Field.whole_number,
    float: Field.duration_s,
    bytes: Field.binary,
    str: lambda field, default: field.text(default) or default,
}


def key_of(name: str) -> str:
    """How a file writes the name of a struct's field: `leaseDuration` for `lease_duration_s`."""
    first, *others = name.removesuffix("_s").split("_")
    return first + "".join("HTTPS" if part == "https" else part.capitalize() for part in others)


def as_written(struct: msgspec.Struct) -> dict[str, Any]:
    """A struct as `Mapping.read` takes it."""
    return {
        key_of(name): f"{value:g}s" if isinstance(value, float) else msgspec.to_builtins(value)
        for name, value in msgspec.structs.asdict(struct).items()
    }


def decoded_base64(text: str) -> bytes:
    """As Go reads it, which passes over ends of lines; ValueError if it is none."""
    return base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)


def read_text(path: str) -> str:
    """A configuration file as it stands, empty for an empty path; ConfigurationError if it cannot be
    one."""
    if not path:
        return ""
    try:
        with Path(path).open("rb") as file:
            content = file.read(CONFIG_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise ConfigurationError(path, [f"cannot be read: {error}"]) from error
    if len(content) > CONFIG_BYTES_MAX:
        raise ConfigurationError(path, [f"is larger than {CONFIG_BYTES_MAX} bytes"])
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(path, [f"is not UTF-8 text (byte {error.start})"]) from error


def read_document(text: str, problems: list[str]) -> Field:
    """The root of a document of one YAML (or JSON) file."""
    try:
        return Field(composed(text), "", problems)
    except YAML_FAULTS as error:
        nothing = Field(None, "", problems)
        nothing.problem(f"is not YAML: {yaml_problem(error)}")
        return nothing


def _without_nulls(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_nulls(one) for key, one in value.items() if one is not None}
        case list():
            return [_without_nulls(one) for one in value]
        case _:
            return value
