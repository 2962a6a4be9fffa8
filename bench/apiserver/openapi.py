"""As much of OpenAPI v3 as kubectl needs to create and apply: that objects can be patched, and that the
server itself looks after unknown fields (`fieldValidation`), so that kubectl need not know any schema.

Which it does not: unknown fields are kept as they come. There are no schemas here, so `kubectl explain`
has nothing to say. What kubectl looks for: cli-runtime/pkg/resource/query_param_verifier_v3.go, v1.36.
"""

from functools import cache
from typing import Final

import orjson

from bench.apiserver.json_objects import JsonObject
from bench.apiserver.served_resources import RESOURCES, Resource

ROOT: Final = "/openapi/v3"


@cache
def index() -> bytes:
    """Where the document of each group and version is."""
    places = sorted({_place(resource) for resource in RESOURCES})
    paths = {place: {"serverRelativeURL": f"{ROOT}/{place}?hash=1"} for place in places}
    return orjson.dumps({"paths": paths})


@cache
def document(place: str) -> bytes | None:
    """The document of `api/v1` or `apis/GROUP/VERSION`; None for what is not served."""
    paths = {
        f"/{place}/{_scope(resource)}{resource.plural}/{{name}}": {"patch": _patch(resource)}
        for resource in RESOURCES
        if _place(resource) == place
    }
    if not paths:
        return None
    info = {"title": "Kubernetes", "version": "v1.36.2+simulated"}
    return orjson.dumps({"openapi": "3.0.0", "info": info, "paths": paths})


def _place(resource: Resource) -> str:
    group, version = resource.group, resource.version
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _scope(resource: Resource) -> str:
    return "namespaces/{namespace}/" if resource.is_namespaced else ""


def _patch(resource: Resource) -> JsonObject:
    return {
        "parameters": [
            {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}},
        ],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "kind": resource.kind,
            "version": resource.version,
        },
    }
