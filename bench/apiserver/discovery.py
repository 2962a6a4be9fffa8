"""Discovery, version and health: the paths that say what the server is.

The answers have the form that kube-apiserver v1.36.2 gave; they list only what is served here.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

import orjson

from bench.apiserver import openapi
from bench.apiserver.json_objects import JsonObject
from bench.apiserver.reads import Answer
from bench.apiserver.served_resources import GROUPS, RESOURCES, Resource

_TEXT: Final = b"text/plain; charset=utf-8"
_VERSION: Final = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2+simulated",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_HEALTH_CHECKS: Final = {
    "healthz": ("ping", "log", "store"),
    "livez": ("ping", "log", "store"),
    "readyz": ("ping", "log", "store", "shutdown"),
}
# A resource that is only posted to, and stored nowhere.
_BINDINGS: Final[JsonObject] = {
    "name": "bindings",
    "singularName": "binding",
    "namespaced": True,
    "kind": "Binding",
    "verbs": ["create"],
}
NOT_FOUND: Final = Answer(404, b"404 page not found\n", _TEXT)
# Paths that kube-apiserver answers without credentials (system:public-info-viewer).
PUBLIC_PATHS: Final = frozenset(["/healthz", "/livez", "/readyz", "/version"])


def answer_discovery(path: str, query: Mapping[str, str], server_address: str) -> Answer | None:
    """Answer a path that is no resource, or return None."""
    match path.strip("/").split("/"):
        case ["version"]:
            # kube-apiserver prints this one answer for people, without a newline at the end.
            return Answer(200, orjson.dumps(_VERSION, option=orjson.OPT_INDENT_2))
        case ["healthz" | "livez" | "readyz" as check]:
            return _health(check, "verbose" in query)
        case ["api"]:
            return _json(
                {
                    "kind": "APIVersions",
                    "versions": ["v1"],
                    "serverAddressByClientCIDRs": [
                        {"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}
                    ],
                }
            )
        case ["apis"]:
            groups = [_group(group) for group in GROUPS]
            return _json({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        case ["apis", group] if group in GROUPS:
            return _json({"kind": "APIGroup", "apiVersion": "v1", **_group(group)})
        case ["api", "v1"]:
            return _json(_resource_list("", "v1"))
        case ["apis", group, "v1"] if group in GROUPS:
            return _json(_resource_list(group, "v1"))
        case ["openapi", "v3"]:
            return Answer(200, openapi.index())
        case ["openapi", "v3", *place]:
            found = openapi.document("/".join(place))
            return NOT_FOUND if found is None else Answer(200, found)
        case _:
            return None


def _json(value: JsonObject) -> Answer:
    return Answer(200, orjson.dumps(value) + b"\n")


def _health(check: str, is_verbose: bool) -> Answer:
    if not is_verbose:
        return Answer(200, b"ok", _TEXT)
    lines = [f"[+]{name} ok" for name in _HEALTH_CHECKS[check]]
    return Answer(200, "\n".join([*lines, f"{check} check passed\n"]).encode(), _TEXT)


def _group(group: str) -> JsonObject:
    version = {"groupVersion": f"{group}/v1", "version": "v1"}
    return {"name": group, "versions": [version], "preferredVersion": version}


@cache
def _resource_list(group: str, version: str) -> JsonObject:
    entries: list[JsonObject] = []
    for resource in RESOURCES:
        if (resource.group, resource.version) == (group, version):
            entries += _entries(resource)
    if not group:
        entries.append(_BINDINGS)
    entries.sort(key=lambda entry: str(entry["name"]))
    head: JsonObject = {"kind": "APIResourceList"}
    if group:
        head["apiVersion"] = "v1"
    return {
        **head,
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": entries,
    }


def _entries(resource: Resource) -> list[JsonObject]:
    entry: JsonObject = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.is_namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    entry["storageVersionHash"] = resource.storage_hash
    entries = [entry]
    for sub in resource.subresources:
        below: JsonObject = {
            "name": f"{resource.plural}/{sub.name}",
            "singularName": "",
            "namespaced": resource.is_namespaced,
        }
        if sub.group:
            below |= {"group": sub.group, "version": sub.version}
        entries.append({**below, "kind": sub.kind, "verbs": list(sub.verbs)})
    return entries
