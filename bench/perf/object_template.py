"""Object templates: YAML with Go actions in it, to bodies that only differ where they must.

Most templates hold no action: then the object is read once and each copy is its bytes with another
name spliced in, which is what lets a hundred thousand creations be prepared in a second.

A template is a file, as upstream has them, or FILE#NAME: an entry of a file that holds many, where what
they share is said once (by YAML's anchors) and actions stand within strings. Members are found in any
case, as Go's encoding/json finds those of a struct.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, get_args, get_origin

import msgspec
import orjson

from bench.apiserver.served_resources import RESOURCES, Resource
from bench.perf.go_template import Value, has_actions, render
from bench.perf.quick_yaml import read_yaml
from shared.errors import ConfigurationError
from shared.go_yaml import YAML_FAULTS, yaml_problem
from shared.kube.resources import ALL_KINDS

JsonObject = dict[str, Any]

MARK: Final = "berth-stand-in-for-the-name"
"""Stands for an object's name wherever its body says it; no object may be called so."""

_BY_KIND: Final[Mapping[tuple[str, str], Resource]] = {
    (resource.group_version, resource.kind): resource for resource in RESOURCES
}
_SAME_FORM: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("resource.k8s.io/v1beta2", kind): "resource.k8s.io/v1"
        for kind in ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
    }
    | {("resource.k8s.io/v1alpha3", "DeviceTaintRule"): "resource.k8s.io/v1beta2"}
)
"""Older versions of kinds that look as in the newer one, in which they are created."""
_TOP_LEVEL: Final = re.compile(r"^(apiVersion|kind):[ \t]*[\"']?([^\"'\s#]+)", re.MULTILINE)


class Series(NamedTuple):
    """Objects of one kind to be created in one namespace, in order."""

    resource: Resource
    namespace: str
    """Empty for a cluster-scoped kind."""
    names: Sequence[str]
    make: Callable[[int], JsonObject]
    """The object of an index, without a name of its own; MARK stands where its name is said."""
    is_uniform: bool
    """All are equal apart from the name."""
    writes_status: bool = False
    """The status is written after the creation, which drops it."""

    def bodies(self) -> list[bytes]:
        """Request bodies, encoded."""
        if not self.is_uniform:
            return [self.body(index) for index in range(len(self.names))]
        whole = orjson.dumps(named(self.make(0), MARK))
        parts = whole.split(MARK.encode())
        return [name.encode().join(parts) for name in self.names]

    def body(self, index: int) -> bytes:
        """The request body of one."""
        name = self.names[index]
        return orjson.dumps(named(self.make(index), name)).replace(MARK.encode(), name.encode())


def named(body: JsonObject, name: str) -> JsonObject:
    """A copy with the name in its metadata."""
    return {**body, "metadata": {**(body.get("metadata") or {}), "name": name}}


class ObjectTemplate:
    """One template."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entry = _entry_of(path)
        self._text = "" if self._entry is not None else _text_of(path)
        if self._text and not has_actions(self._text):
            self._entry = _object(_read(self._text, path), path)
        self._fixed: JsonObject | None = None
        kind = self._kind()
        if kind not in _BY_KIND:
            raise ConfigurationError(str(path), [f"{kind[0]} {kind[1]}: not a kind that is known"])
        self.resource = _BY_KIND[kind]
        if self._entry is not None and not has_actions(orjson.dumps(self._entry).decode()):
            self._fixed = self._body({})

    def _kind(self) -> tuple[str, str]:
        # Before it is rendered it need not be YAML, and its parameters are not known yet.
        found = self._entry or dict(_TOP_LEVEL.findall(self._text))
        version, kind = found.get("apiVersion", ""), found.get("kind", "")
        return _SAME_FORM.get((version, kind), version), kind

    @property
    def is_uniform(self) -> bool:
        return self._fixed is not None

    def body(self, index: int, count: int) -> JsonObject:
        """The object; not to be changed, it may be shared."""
        if self._fixed is not None:
            return self._fixed
        return self._body({"Index": index, "Count": count})

    def _body(self, fields: Mapping[str, Value]) -> JsonObject:
        if self._entry is not None:
            found = _rendered(self._entry, fields, str(self.path))
        else:
            text = render(self._text, fields, str(self.path))
            found = _object(_read(text, self.path), self.path)
        struct_type = _STRUCTS.get(self.resource.plural)
        body: JsonObject = found if struct_type is None else _as_go_reads(found, struct_type)
        return {**body, "apiVersion": self.resource.group_version}


# Reading --------------------------------------------------------------------------------------------


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        problem = f"cannot be read: {error.strerror}; template paths count from the workload file"
        raise ConfigurationError(str(path), [problem]) from error


def _read(text: str, path: Path) -> Any:
    try:
        return read_yaml(text)
    except YAML_FAULTS as error:
        raise ConfigurationError(str(path), [f"is not YAML: {yaml_problem(error)}"]) from error


def _object(content: Any, path: Path) -> JsonObject:
    if not isinstance(content, dict):
        raise ConfigurationError(str(path), ["is not an object"])
    return content


def _entry_of(path: Path) -> JsonObject | None:
    """None: the whole file is the template."""
    file, mark, name = str(path).rpartition("#")
    if not mark:
        return None
    entries = _entries(Path(file))
    if not isinstance(entries, dict) or not isinstance(entries.get(name), dict):
        raise ConfigurationError(file, [f"has no template {name}"])
    entry: JsonObject = entries[name]
    return entry


@cache
def _entries(file: Path) -> Any:
    return _read(_text_of(file), file)


def _rendered(value: Any, fields: Mapping[str, Value], source: str) -> Any:
    """With the actions of its strings carried out; such a string is then what YAML reads in it."""
    match value:
        case dict():
            return {
                render(key, fields, source): _rendered(each, fields, source)
                for key, each in value.items()
            }
        case list():
            return [_rendered(each, fields, source) for each in value]
        case str() if has_actions(value):
            return read_yaml(render(value, fields, source))
        case _:
            return value


_STRUCTS: Final = {kind.plural: kind.struct_type for kind in ALL_KINDS}


def _as_go_reads(value: Any, kind: Any) -> Any:
    """With the members that `kind` (a type of msgspec's) knows called as it calls them."""
    if isinstance(value, list):
        (item,) = _among(kind, list) or (None,)
        return [_as_go_reads(each, item) for each in value]
    if not isinstance(value, dict):
        return value
    struct_type = next((each for each in (kind, *get_args(kind)) if _is_struct(each)), None)
    if struct_type is None or get_origin(kind) is dict:
        *_, item = _among(kind, dict) or (None,)
        return {key: _as_go_reads(each, item) for key, each in value.items()}
    fields = _fields_of(struct_type)
    read = {}
    for key, each in value.items():
        name, field_type = fields.get(key.lower(), (key, None))
        read[name] = _as_go_reads(each, field_type)
    return read


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _among(kind: Any, container: type) -> tuple[Any, ...]:
    """What a `list[...]` or `dict[...]` holds, be it one of several types; empty where there is none."""
    for each in (kind, *get_args(kind)):
        if get_origin(each) is container:
            return get_args(each)
    return ()


@cache
def _fields_of(struct_type: Any) -> Mapping[str, tuple[str, Any]]:
    """Lower-case name -> name and type."""
    return {
        field.encode_name.lower(): (field.encode_name, field.type)
        for field in msgspec.structs.fields(struct_type)
    }


class Names:
    """Names that are unique in a run: the template's own, or its generateName with a counter.

    The server would draw five random letters. Here the client counts, because it has to know the
    name of a pod before it is created in order to measure from that moment.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def take(self, body: JsonObject) -> str:
        metadata = body.get("metadata") or {}
        if metadata.get("name"):
            return str(metadata["name"])
        prefix = metadata.get("generateName") or f"{str(body.get('kind', 'object')).lower()}-"
        count = self._counts.get(prefix, 0)
        self._counts[prefix] = count + 1
        return f"{prefix}{count:05d}"
