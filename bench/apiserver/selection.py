"""Label and field selectors: which objects a list or watch is about.

Grammar of labels.Parse and fields.ParseSelector (staging/src/k8s.io/apimachinery/pkg, v1.36).
A selector is parsed once per request; `Selection.matches` is what runs per object.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from bench.apiserver import api_status as status
from bench.apiserver.json_objects import JsonObject, child
from bench.apiserver.served_resources import CORE_EVENTS, EVENTS, NAMESPACES, NODES, PODS, Resource
from bench.apiserver.store import StoredObject

_TOKEN: Final = re.compile(r"\s*(!=|==|=|!|\(|\)|,|<|>|[^\s!=(),<>]+)\s*")
_LABEL_KEY: Final = re.compile(
    r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
# Reads the selectable fields that are no metadata from an object.
FieldsReader = Callable[[JsonObject], Mapping[str, str]]

_POD_FIELDS: Final = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
# A few states of the pods of some ten thousand nodes; at about 0.5 kB each.
_POD_FIELDS_KEPT_MAX: Final = 65_536
_METADATA_FIELDS: Final = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """One comma-separated part of a label selector."""

    key: str
    operator: str
    values: frozenset[str]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether an object's labels satisfy this part."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case _:
                return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        (bound,) = self.values
        try:
            left, right = int(value), int(bound)
        except ValueError:
            return False
        return left > right if self.operator == ">" else left < right


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One comma-separated part of a field selector."""

    path: str
    value: str
    is_equal: bool
    read: FieldsReader

    def matches(self, stored: StoredObject) -> bool:
        """Tell whether an object's field satisfies this part."""
        if self.path == "metadata.name":
            actual = stored.name
        elif self.path == "metadata.namespace":
            actual = stored.namespace
        else:
            fields = stored.fields if stored.fields is not None else self.read(stored.decoded())
            actual = fields.get(self.path, "")
        return (actual == self.value) is self.is_equal


@dataclass(frozen=True, slots=True)
class Selection:
    """What a list or watch asks for; `namespace` is None for all of them."""

    namespace: str | None = None
    labels: tuple[LabelRequirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()

    @property
    def has_selectors(self) -> bool:
        """Whether anything but the namespace narrows the selection."""
        return bool(self.labels or self.fields)

    @property
    def is_everything(self) -> bool:
        """Whether every object of the resource is meant."""
        return self.namespace is None and not self.has_selectors

    def matches(self, stored: StoredObject) -> bool:
        """Tell whether an object is meant."""
        if self.namespace is not None and stored.namespace != self.namespace:
            return False
        for label in self.labels:
            if not label.matches(stored.labels):
                return False
        return all(field.matches(stored) for field in self.fields)


def parse_labels(text: str) -> tuple[LabelRequirement, ...]:
    """Parse a label selector or raise a 400."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != re.sub(r"\s", "", text):
        raise status.bad_request(f"unable to parse requirement: unexpected text in {text!r}")
    requirements = []
    position = 0
    while position < len(tokens):
        requirement, position = _parse_label(tokens, position)
        requirements.append(requirement)
        if position < len(tokens):
            if tokens[position] != ",":
                raise _unparsable(tokens[position], "',' or 'end of string'")
            position += 1
            if position == len(tokens):
                raise _unparsable("", "identifier after ','")
    return tuple(requirements)


def _parse_label(tokens: list[str], position: int) -> tuple[LabelRequirement, int]:
    if tokens[position] == "!":
        key = _label_key(_token(tokens, position + 1))
        return LabelRequirement(key, "!", frozenset()), position + 2
    key = _label_key(tokens[position])
    operator = _token(tokens, position + 1)
    if operator in ("", ","):
        return LabelRequirement(key, "exists", frozenset()), position + 1
    if operator in ("in", "notin"):
        values, end = _parse_values(tokens, position + 2)
        return LabelRequirement(key, operator, values), end
    if operator in ("=", "==", "!=", "<", ">"):
        value = _token(tokens, position + 2)
        has_value = value not in ("", ",")
        word = {"=": "in", "==": "in", "!=": "notin"}.get(operator, operator)
        end = position + 3 if has_value else position + 2
        return LabelRequirement(key, word, frozenset([value if has_value else ""])), end
    raise _unparsable(operator, "in, notin, =, ==, !=, gt, lt")


def _parse_values(tokens: list[str], position: int) -> tuple[frozenset[str], int]:
    if _token(tokens, position) != "(":
        raise _unparsable(_token(tokens, position), "'('")
    values = set()
    position += 1
    while (word := _token(tokens, position)) != ")":
        if not word:
            raise _unparsable("", "',' or ')'")
        if word != ",":
            values.add(word)
        position += 1
    return frozenset(values or {""}), position + 1


def _token(tokens: list[str], position: int) -> str:
    return tokens[position] if position < len(tokens) else ""


def _label_key(text: str) -> str:
    if not _LABEL_KEY.match(text):
        raise _unparsable(text, "identifier")
    return text


def _unparsable(found: str, expected: str) -> status.ApiError:
    return status.bad_request(f"unable to parse requirement: found '{found}', expected: {expected}")


def parse_fields(text: str, resource: Resource) -> tuple[FieldRequirement, ...]:
    r"""Parse a field selector or raise a 400; `\,`, `\=` and `\\` stand for themselves."""
    requirements = []
    read = _READERS.get(resource.table_name, _no_fields)
    for part in re.split(r"(?<!\\),", text):
        if not part:
            continue
        match = re.match(r"^((?:[^=!\\]|\\.)*?)(!=|==|=)(.*)$", part, re.DOTALL)
        if match is None:
            raise status.bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        path, operator, value = match.groups()
        _check_field(path, resource)
        plain = re.sub(r"\\([\\,=])", r"\1", value)
        requirements.append(FieldRequirement(path, plain, operator != "!=", read))
    return tuple(requirements)


def _check_field(path: str, resource: Resource) -> None:
    if path in _METADATA_FIELDS or path in _FIELD_NAMES.get(resource.qualified, ()):
        return
    if resource.qualified in _FIELD_NAMES:
        raise status.bad_request(f"field label not supported: {path}")
    raise status.bad_request(
        f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def kept_fields(resource: Resource, obj: JsonObject) -> Mapping[str, str] | None:
    """Read the selectable fields that are kept with an object; None: read from it when needed.

    Pods are selected by node and phase all the time, and every create looks at its namespace.
    """
    if resource is PODS:
        return _pod_fields(obj)
    if resource is NAMESPACES:
        return _namespace_fields(obj)
    return None


def _pod_fields(pod: JsonObject) -> Mapping[str, str]:
    spec = child(pod, "spec")
    pod_status = child(pod, "status")
    return _shared_pod_fields(
        spec.get("nodeName", ""),
        spec.get("restartPolicy", ""),
        spec.get("schedulerName", ""),
        spec.get("serviceAccountName", ""),
        "true" if spec.get("hostNetwork") else "false",
        pod_status.get("phase", ""),
        pod_status.get("podIP", ""),
        pod_status.get("nominatedNodeName", ""),
    )


@lru_cache(maxsize=_POD_FIELDS_KEPT_MAX)
def _shared_pod_fields(*values: str) -> Mapping[str, str]:
    # Pods on the same node mostly agree in all of these, so they share one mapping.
    return dict(zip(_POD_FIELDS, values, strict=True))


def _node_fields(node: JsonObject) -> Mapping[str, str]:
    return {"spec.unschedulable": "true" if child(node, "spec").get("unschedulable") else "false"}


def _namespace_fields(namespace: JsonObject) -> Mapping[str, str]:
    return {"status.phase": child(namespace, "status").get("phase", "")}


def _event_fields(event: JsonObject) -> Mapping[str, str]:
    regarding = child(event, "regarding")
    source = child(event, "deprecatedSource").get("component", "")
    fields = {
        "reason": event.get("reason", ""),
        "type": event.get("type", ""),
        "reportingController": event.get("reportingController", ""),
        "reportingComponent": event.get("reportingController", ""),
        "source": source or event.get("reportingController", ""),
    }
    for name in _REGARDING:
        fields[f"involvedObject.{name}"] = fields[f"regarding.{name}"] = regarding.get(name, "")
    return fields


def _slice_fields(resource_slice: JsonObject) -> Mapping[str, str]:
    spec = child(resource_slice, "spec")
    return {"spec.nodeName": spec.get("nodeName", ""), "spec.driver": spec.get("driver", "")}


def _no_fields(_: JsonObject) -> Mapping[str, str]:
    return _NO_FIELDS


_NO_FIELDS: Final[Mapping[str, str]] = {}
_REGARDING: Final = (
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
)
_SLICES: Final = "resourceslices.resource.k8s.io"
_READERS: Final[dict[str, FieldsReader]] = {
    PODS.qualified: _pod_fields,
    NODES.qualified: _node_fields,
    NAMESPACES.qualified: _namespace_fields,
    EVENTS.qualified: _event_fields,
    _SLICES: _slice_fields,
}
# Which paths a field selector of each resource may name, from what the readers return.
_FIELD_NAMES: Final = {qualified: frozenset(read({})) for qualified, read in _READERS.items()} | {
    CORE_EVENTS.qualified: frozenset(_event_fields({}))
}


def label_selector_matches(selector: JsonObject, labels: Mapping[str, str]) -> bool:
    """Tell whether a LabelSelector object (matchLabels, matchExpressions) selects these labels."""
    for key, value in child(selector, "matchLabels").items():
        if labels.get(key) != value:
            return False
    words = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    for expression in selector.get("matchExpressions") or ():
        requirement = LabelRequirement(
            expression["key"],
            words[expression["operator"]],
            frozenset(expression.get("values") or ()),
        )
        if not requirement.matches(labels):
            return False
    return True
