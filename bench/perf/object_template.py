"""Object templates: YAML files with Go actions in them, to bodies that only differ where they must.

Most templates hold no action: then the object is read once and each copy is its bytes with another
name spliced in, which is what lets a hundred thousand creations be prepared in a second.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
import yaml

from bench.apiserver.resources import RESOURCES, Resource
from bench.perf.go_template import Value, has_actions, render
from shared.errors import ConfigurationError
from shared.yaml_fields import YAML_FAULTS, yaml_problem

JsonObject = dict[str, Any]

MARK: Final = "@@berth-name@@"
"""Stands for the name until it is known; no Kubernetes object may be called so."""

_BY_KIND: Final[Mapping[tuple[str, str], Resource]] = {
    (resource.group_version, resource.kind): resource for resource in RESOURCES
}


_TOP_LEVEL: Final = re.compile(r"^(apiVersion|kind):[ \t]*[\"']?([^\"'\s#]+)", re.MULTILINE)


class Series(NamedTuple):
    """Objects of one kind to be created in one namespace, in order."""

    resource: Resource
    namespace: str
    """Empty for a cluster-scoped kind."""
    names: Sequence[str]
    make: Callable[[int], JsonObject]
    """The object of an index, without a name of its own."""
    is_uniform: bool
    """All are equal apart from the name."""
    name_labels: tuple[str, ...] = ()
    """Label keys whose value is the object's name."""

    def bodies(self) -> list[bytes]:
        """Request bodies, encoded."""
        if not self.is_uniform:
            return [
                orjson.dumps(named(self.make(index), name, self.name_labels))
                for index, name in enumerate(self.names)
            ]
        whole = orjson.dumps(named(self.make(0), MARK, self.name_labels))
        parts = whole.split(MARK.encode())
        return [name.encode().join(parts) for name in self.names]


def named(body: JsonObject, name: str, name_labels: Sequence[str] = ()) -> JsonObject:
    """A copy with the name in its metadata, and under the labels that repeat it."""
    metadata = {**(body.get("metadata") or {}), "name": name}
    if name_labels:
        metadata["labels"] = {**(metadata.get("labels") or {}), **dict.fromkeys(name_labels, name)}
    return {**body, "metadata": metadata}


class ObjectTemplate:
    """One template file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._text = path.read_text(encoding="utf-8")
        except OSError as error:
            problem = (
                f"cannot be read: {error.strerror}; template paths count from the workload file"
            )
            raise ConfigurationError(str(path), [problem]) from error
        self._fixed = None if has_actions(self._text) else self._parsed(self._text)
        kind = self._kind()
        if kind not in _BY_KIND:
            raise ConfigurationError(str(path), [f"{kind[0]} {kind[1]}: not a kind that is known"])
        self.resource = _BY_KIND[kind]

    def _kind(self) -> tuple[str, str]:
        if self._fixed is not None:
            return self._fixed.get("apiVersion", ""), self._fixed.get("kind", "")
        # Before it is rendered it need not be YAML, and its parameters are not known yet.
        found = dict(_TOP_LEVEL.findall(self._text))
        return found.get("apiVersion", ""), found.get("kind", "")

    @property
    def is_uniform(self) -> bool:
        return self._fixed is not None

    def body(self, index: int, count: int, params: Mapping[str, Value]) -> JsonObject:
        """The object; not to be changed, it may be shared."""
        if self._fixed is not None:
            return self._fixed
        fields: dict[str, Value] = {**params, "Index": index, "Count": count}
        return self._parsed(render(self._text, fields, str(self.path)))

    def _parsed(self, text: str) -> JsonObject:
        try:
            body = yaml.load(text, _LOADER)  # noqa: S506 # A safe loader, of either make.
        except YAML_FAULTS as error:
            raise ConfigurationError(
                str(self.path), [f"is not YAML: {yaml_problem(error)}"]
            ) from error
        if not isinstance(body, dict):
            raise ConfigurationError(str(self.path), ["is not an object"])
        return body


_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where PyYAML was built with it: ten times as fast."""


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
