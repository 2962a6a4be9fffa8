"""Lists as tables of text, as `kubectl get` asks for them: what a person wants to see of pods and nodes.

Made of the answer as it would be otherwise, and of these two kinds only; of the others kubectl shows
name and age by itself. Watches are not told so.
"""

from typing import Any, Final, NamedTuple

import orjson

from bench.apiserver.json_objects import JsonObject
from bench.apiserver.served_resources import NODES, PODS, Resource

_TABLE: Final = "as=Table"
_OBJECT: Final = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}


class _Shape(NamedTuple):
    columns: tuple[str, ...]
    cells: Any


def _pod_cells(pod: JsonObject) -> list[object]:
    meta, status = pod["metadata"], pod.get("status") or {}
    shown = status.get("phase", "Pending")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            shown = "SchedulingGated"
    if meta.get("deletionTimestamp"):
        shown = "Terminating"
    node = pod["spec"].get("nodeName") or "<none>"
    return [meta["name"], shown, node, meta.get("creationTimestamp", "<unknown>")]


def _node_cells(node: JsonObject) -> list[object]:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = [each.get("status") for each in conditions if each.get("type") == "Ready"]
    shown = {"True": "Ready", "False": "NotReady"}.get(ready[0], "Unknown") if ready else "Unknown"
    if (node.get("spec") or {}).get("unschedulable"):
        shown += ",SchedulingDisabled"
    meta = node["metadata"]
    return [meta["name"], shown, meta.get("creationTimestamp", "<unknown>")]


_SHAPES: Final = {
    PODS: _Shape(("Name", "Status", "Node", "Created"), _pod_cells),
    NODES: _Shape(("Name", "Status", "Created"), _node_cells),
}


def wants_table(accept: str, resource: Resource) -> bool:
    """Whether an Accept header asks for a table first, of a kind that has one."""
    parameters = [part.strip() for part in accept.partition(",")[0].split(";")]
    return resource in _SHAPES and _TABLE in parameters and "v=v1" in parameters


def as_table(resource: Resource, body: bytes) -> bytes:
    """The answer with an object, or a list of them, as a table."""
    answer = orjson.loads(body)
    shape = _SHAPES[resource]
    objects = answer.get("items", [answer])
    table = {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": answer["metadata"] if "items" in answer else {},
        "columnDefinitions": [
            {"name": name, "type": "string", "format": "name" if name == "Name" else "",
             "description": name, "priority": 0}
            for name in shape.columns
        ],
        "rows": [
            {"cells": shape.cells(each), "object": {**_OBJECT, "metadata": each["metadata"]}}
            for each in objects
        ],
    }  # fmt: skip
    return orjson.dumps(table) + b"\n"
