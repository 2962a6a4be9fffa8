"""PATCH: JSON merge patch, strategic merge patch and JSON patch over plain JSON.

Strategic merge follows staging/src/k8s.io/apimachinery/pkg/util/strategicpatch (v1.36): lists whose
type carries a patchMergeKey are merged by that key, all others are replaced. Server-side apply is
not served. Each function may change and return the document that it is given.
"""

from typing import Any, Final

from bench.apiserver import api_status as status
from bench.apiserver.json_objects import JsonObject

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"

# (field above, field) -> patchMergeKey, from the tags in staging/src/k8s.io/api (v1.36). What has
# no tag there, as tolerations and taints, is replaced as a whole.
_CONTAINER_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")
_MERGE_KEYS: Final[dict[tuple[str, str], str]] = {
    ("metadata", "ownerReferences"): "uid",
    ("spec", "containers"): "name",
    ("spec", "ephemeralContainers"): "name",
    ("spec", "hostAliases"): "ip",
    ("spec", "imagePullSecrets"): "name",
    ("spec", "initContainers"): "name",
    ("spec", "ports"): "port",
    ("spec", "resourceClaims"): "name",
    ("spec", "schedulingGates"): "name",
    ("spec", "topologySpreadConstraints"): "topologyKey",
    ("spec", "volumes"): "name",
    ("status", "addresses"): "type",
    ("status", "conditions"): "type",
    ("status", "hostIPs"): "ip",
    ("status", "podIPs"): "ip",
    ("status", "reservedFor"): "uid",
    ("status", "resourceClaimStatuses"): "name",
} | {
    (containers, field): key
    for containers in _CONTAINER_LISTS
    for field, key in (
        ("env", "name"),
        ("ports", "containerPort"),
        ("volumeDevices", "devicePath"),
        ("volumeMounts", "mountPath"),
    )
}
_MERGED_PRIMITIVES: Final = {("metadata", "finalizers"), ("spec", "podCIDRs")}

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE_PRIMITIVES: Final = "$deleteFromPrimitiveList/"


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Apply an RFC 7386 merge patch."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = apply_merge_patch(target.get(key), value)
    return target


def apply_strategic_patch(target: JsonObject, patch: JsonObject, above: str = "") -> JsonObject:
    """Apply a strategic merge patch to an object; `above` is the field that holds it."""
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        replacement: JsonObject = _without_directives(patch)
        return replacement
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise status.bad_request(f"Unknown patch directive: {directive}")
    retained = patch.get(_RETAIN_KEYS)
    if retained is not None:
        target = {key: value for key, value in target.items() if key in retained}
    for key, value in patch.items():
        if key.startswith(_DELETE_PRIMITIVES):
            _delete_primitives(target, key.removeprefix(_DELETE_PRIMITIVES), value)
        elif not key.startswith("$"):
            _merge_field(target, key, value, above)
    for key, value in patch.items():
        if key.startswith(_ORDER):
            _reorder(target, key.removeprefix(_ORDER), value, above)
    return target


def _merge_field(target: JsonObject, key: str, value: Any, above: str) -> None:
    match value:
        case None:
            target.pop(key, None)
        case dict():
            current = target.get(key)
            base = current if isinstance(current, dict) else {}
            target[key] = apply_strategic_patch(base, value, key)
        case list() if (above, key) in _MERGE_KEYS:
            current = target.get(key)
            base_list = current if isinstance(current, list) else []
            target[key] = _merge_list(base_list, value, _MERGE_KEYS[above, key], key)
        case list() if (above, key) in _MERGED_PRIMITIVES:
            merged = list(target.get(key) or ())
            merged.extend(each for each in value if each not in merged)
            target[key] = merged
        case _:
            target[key] = value


def _merge_list(current: list[Any], patch: list[Any], merge_key: str, field: str) -> list[Any]:
    if any(isinstance(each, dict) and each.get(_DIRECTIVE) == "replace" for each in patch):
        return [_without_directives(each) for each in patch if _DIRECTIVE not in each]
    merged = list(current)
    for element in patch:
        if not isinstance(element, dict) or merge_key not in element:
            raise status.bad_request(
                f"map: {element} does not contain declared merge key: {merge_key}"
            )
        index = _index_by_key(merged, merge_key, element[merge_key])
        if element.get(_DIRECTIVE) == "delete":
            if index is not None:
                del merged[index]
        elif index is None:
            merged.append(apply_strategic_patch({}, element, field))
        else:
            merged[index] = apply_strategic_patch(merged[index], element, field)
    return merged


def _index_by_key(elements: list[Any], merge_key: str, value: Any) -> int | None:
    for index, element in enumerate(elements):
        if isinstance(element, dict) and element.get(merge_key) == value:
            return index
    return None


def _delete_primitives(target: JsonObject, key: str, unwanted: list[Any]) -> None:
    if isinstance(target.get(key), list):
        target[key] = [each for each in target[key] if each not in unwanted]


def _reorder(target: JsonObject, key: str, order: list[Any], above: str) -> None:
    elements = target.get(key)
    if not isinstance(elements, list):
        return
    merge_key = _MERGE_KEYS.get((above, key))
    wanted = [each[merge_key] if merge_key and isinstance(each, dict) else each for each in order]

    def rank(element: Any) -> int:
        name = element.get(merge_key) if merge_key and isinstance(element, dict) else element
        return wanted.index(name) if name in wanted else len(wanted)

    elements.sort(key=rank)


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_directives(member)
            for key, member in value.items()
            if not key.startswith("$") and member is not None
        }
    if isinstance(value, list):
        return [_without_directives(member) for member in value]
    return value


def apply_json_patch(document: Any, operations: Any) -> Any:
    """Apply an RFC 6902 patch, or raise the 422 of an operation that does not fit."""
    if not isinstance(operations, list):
        raise status.bad_request("error decoding patch: the body is not a list of operations")
    for operation in operations:
        try:
            document = _apply_operation(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise status.ApiError(
                422,
                "the server rejected our request due to an error in our request: "
                f"{operation}: {error}",
                reason="Invalid",
                details={},
            ) from None
    return document


def _apply_operation(document: Any, operation: JsonObject) -> Any:
    path = _pointer(operation["path"])
    match operation["op"]:
        case "add":
            return _json_add(document, path, operation["value"])
        case "remove":
            _json_remove(document, path)
            return document
        case "replace":
            if not path:
                return operation["value"]
            _json_get(document, path)
            _json_set(document, path, operation["value"])
            return document
        case "test":
            if _json_get(document, path) != operation["value"]:
                raise ValueError("testing value failed")
            return document
        case "copy":
            return _json_add(document, path, _json_get(document, _pointer(operation["from"])))
        case "move":
            moved = _json_remove(document, _pointer(operation["from"]))
            return _json_add(document, path, moved)
        case unknown:
            raise ValueError(f"unknown operation {unknown}")


def _pointer(path: str) -> list[str]:
    if path == "":
        return []
    if not path.startswith("/"):
        raise ValueError(f"the path {path!r} does not begin with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def _step(container: Any, part: str) -> Any:
    return container[int(part)] if isinstance(container, list) else container[part]


def _json_get(document: Any, path: list[str]) -> Any:
    for part in path:
        document = _step(document, part)
    return document


def _json_set(document: Any, path: list[str], value: Any) -> None:
    container = _json_get(document, path[:-1])
    if isinstance(container, list):
        container[int(path[-1])] = value
    else:
        container[path[-1]] = value


def _json_add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    container = _json_get(document, path[:-1])
    if isinstance(container, list):
        index = len(container) if path[-1] == "-" else int(path[-1])
        if not 0 <= index <= len(container):
            raise IndexError(f"index {index} is out of bounds")
        container.insert(index, value)
    else:
        container[path[-1]] = value
    return document


def _json_remove(document: Any, path: list[str]) -> Any:
    container = _json_get(document, path[:-1])
    if isinstance(container, list):
        return container.pop(int(path[-1]))
    return container.pop(path[-1])
