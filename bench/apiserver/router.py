"""From a request to its outcome: which verb on which resource, in which representation.

Pure, like everything below it: `respond` takes the request as it was parsed and the time, and
returns a whole answer or the start of a watch. All refusals become `Status` answers here.
"""

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

import orjson

from bench.apiserver import api_status as status
from bench.apiserver.api_cluster import Cluster
from bench.apiserver.binding import bind, bind_by_body, evict
from bench.apiserver.deletion import delete_collection, delete_object, read_delete_options
from bench.apiserver.discovery import NOT_FOUND, answer_discovery
from bench.apiserver.reads import Answer, get_object, is_true, list_objects, parse_list_options
from bench.apiserver.served_resources import BY_PATH, NAMESPACES, PODS, Resource
from bench.apiserver.tables import as_table, wants_table
from bench.apiserver.watching import WatchStart, start_watch
from bench.apiserver.writes import create, patch, replace

_log = logging.getLogger(__name__)

_JSON: Final = "application/json"
_OFFERED: Final = (_JSON,)
_CREATED_BELOW: Final = {"binding": bind, "eviction": evict}
_NAMESPACE_SUBRESOURCES: Final = ("status", "finalize")
_BINDINGS: Final = ("", "v1", "bindings")
_PARTIAL_KINDS: Final = ("PartialObjectMetadata", "PartialObjectMetadataList")
_NO_QUERY: Final[Mapping[str, str]] = {}
# Accept headers are few; clients repeat theirs with every request.
_ACCEPTS_KEPT_MAX: Final = 256


class Request(NamedTuple):
    """A request as parsed; header values are as sent."""

    method: str
    target: str
    accept: str
    content_type: str
    authorization: str
    body: bytes
    keeps_alive: bool


class Target(NamedTuple):
    """What a path means."""

    resource: Resource
    # None: across all namespaces, or a resource without them.
    namespace: str | None
    name: str | None
    subresource: str


def respond(
    cluster: Cluster, request: Request, now_s: float, server_address: str
) -> Answer | WatchStart:
    """Carry a request out. Never raises for what a client may send.

    An object of a shape that no check foresaw must not end the server, so what such shapes raise
    becomes a 500, as kube-apiserver recovers from a panic of a handler. Writes come last in every
    handler, so nothing is half done then. Broken assertions are bugs and end the process.
    """
    try:
        return _dispatch(cluster, request, now_s, server_address)
    except status.ApiError as error:
        return _refusal(error)
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        _log.exception("%s %s failed", request.method, request.target)
        return _refusal(status.internal(f"Internal error occurred: {error!r}"))


def _refusal(error: status.ApiError) -> Answer:
    return Answer(error.code, error.body(), retry_after_s=error.retry_after_s)


def _dispatch(
    cluster: Cluster, request: Request, now_s: float, server_address: str
) -> Answer | WatchStart:
    path, _, query_text = request.target.partition("?")
    query = _NO_QUERY
    if query_text:
        query = dict(parse_qsl(query_text, keep_blank_values=True))
        if query.get("dryRun"):
            raise status.bad_request("dryRun is not served by the simulated API server")
    target = parse_path(path)
    if target is None:
        return _answer_other(cluster, request, path, query, now_s, server_address)
    if target.subresource and target.resource.subresource(target.subresource) is None:
        return NOT_FOUND
    match request.method:
        case "POST":
            return _post(cluster, target, request, now_s)
        case "GET":
            return _get(cluster, target, request, query)
        case "PATCH":
            return _patch(cluster, target, request, now_s)
        case "PUT":
            return _put(cluster, target, request, now_s)
        case "DELETE":
            return _delete(cluster, target, request, query, now_s)
        case _:
            raise status.method_not_allowed()


def parse_path(path: str) -> Target | None:
    """Read `/api/v1/...` and `/apis/GROUP/VERSION/...`; None for every other path."""
    if "%" in path:
        path = unquote(path)
    parts = path.split("/")
    if len(parts) > 3 and parts[1] == "api":
        group, version, rest = "", parts[2], parts[3:]
    elif len(parts) > 4 and parts[1] == "apis":
        group, version, rest = parts[2], parts[3], parts[4:]
    else:
        return None
    if rest[-1] == "":
        rest.pop()
    namespace = None
    if (
        len(rest) > 2
        and rest[0] == "namespaces"
        and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES)
    ):
        namespace = rest[1]
        rest = rest[2:]
    if not 1 <= len(rest) <= 3:
        return None
    resource = BY_PATH.get((group, version, rest[0]))
    if resource is None or (namespace is not None and not resource.is_namespaced):
        return None
    name = rest[1] if len(rest) > 1 else None
    if resource.is_namespaced and namespace is None and name is not None:
        return None
    return Target(resource, namespace, name, rest[2] if len(rest) > 2 else "")


def _answer_other(
    cluster: Cluster,
    request: Request,
    path: str,
    query: Mapping[str, str],
    now_s: float,
    server_address: str,
) -> Answer:
    if request.method == "GET":
        answer = answer_discovery(path, query, server_address)
        if answer is not None:
            return answer
    parts = path.split("/")
    match parts:
        case ["", "api", "v1", "namespaces", namespace, "bindings"] if request.method == "POST":
            return bind_by_body(cluster, unquote(namespace), _body(request), now_s)
        case ["", "simulation", "compact"] if request.method == "POST":
            version = cluster.store.compact()
            return Answer(200, orjson.dumps({"resourceVersion": str(version)}) + b"\n")
    return NOT_FOUND


@lru_cache(maxsize=_ACCEPTS_KEPT_MAX)
def wants_metadata_only(accept: str) -> bool:
    """Choose the representation for an Accept header, or raise a 406.

    The first media type that the server has wins; protobuf and YAML are passed over, and so is Table,
    which is made of the answer (`tables.py`).
    """
    if not accept:
        return False
    for media_range in accept.split(","):
        media_type, *parameters = (part.strip() for part in media_range.split(";"))
        if media_type not in (_JSON, "*/*", "application/*"):
            continue
        shown_as = next(
            (each.removeprefix("as=") for each in parameters if each.startswith("as=")), None
        )
        if shown_as is None:
            return False
        if shown_as in _PARTIAL_KINDS and "v=v1" in parameters:
            return True
    raise status.not_acceptable(_OFFERED)


def _body(request: Request) -> bytes:
    content_type = request.content_type.partition(";")[0].strip()
    if content_type not in ("", _JSON):
        raise status.unsupported_body_type(_OFFERED)
    return request.body


def _post(cluster: Cluster, target: Target, request: Request, now_s: float) -> Answer:
    wants_metadata_only(request.accept)
    if target.name is None:
        if target.resource.is_namespaced and target.namespace is None:
            raise status.method_not_allowed()
        body = _body(request)
        return create(cluster, target.resource, target.namespace or "", body, now_s)
    handler = _CREATED_BELOW.get(target.subresource)
    if handler is None or target.resource is not PODS or target.namespace is None:
        raise status.method_not_allowed()
    return handler(cluster, target.namespace, target.name, _body(request), now_s)


def _get(
    cluster: Cluster, target: Target, request: Request, query: Mapping[str, str]
) -> Answer | WatchStart:
    answer = _read(cluster, target, request, query)
    if isinstance(answer, Answer) and wants_table(request.accept, target.resource):
        return answer._replace(body=as_table(target.resource, answer.body))
    return answer


_PARTS: Final = ("", "status", "resize")
"""What is read and patched: the object, or that part of it."""


def _read(
    cluster: Cluster, target: Target, request: Request, query: Mapping[str, str]
) -> Answer | WatchStart:
    metadata_only = wants_metadata_only(request.accept)
    resource = target.resource
    watches = is_true(query.get("watch"))
    if target.subresource not in _PARTS:
        raise status.method_not_allowed()
    if target.name is not None and not watches:
        namespace = target.namespace or ""
        return get_object(cluster, resource, namespace, target.name, metadata_only=metadata_only)
    options = parse_list_options(resource, target.namespace, target.name, query)
    if watches:
        return start_watch(cluster, resource, options, metadata_only=metadata_only)
    return list_objects(cluster, resource, options, metadata_only=metadata_only)


def _put(cluster: Cluster, target: Target, request: Request, now_s: float) -> Answer:
    if target.name is None or target.subresource in ("binding", "eviction"):
        raise status.method_not_allowed()
    wants_metadata_only(request.accept)
    # The namespace controller's subresource; here an update like any other.
    is_finalize = target.resource is NAMESPACES and target.subresource == "finalize"
    return replace(
        cluster,
        target.resource,
        target.namespace or "",
        target.name,
        "" if is_finalize else target.subresource,
        _body(request),
        now_s,
    )


def _patch(cluster: Cluster, target: Target, request: Request, now_s: float) -> Answer:
    if target.name is None or target.subresource not in _PARTS:
        raise status.method_not_allowed()
    wants_metadata_only(request.accept)
    return patch(
        cluster,
        target.resource,
        target.namespace or "",
        target.name,
        target.subresource,
        request.content_type.partition(";")[0].strip(),
        request.body,
        now_s,
    )


def _delete(
    cluster: Cluster, target: Target, request: Request, query: Mapping[str, str], now_s: float
) -> Answer:
    wants_metadata_only(request.accept)
    resource = target.resource
    options = read_delete_options(query, _body(request))
    if target.name is not None:
        if target.subresource:
            raise status.method_not_allowed()
        namespace = target.namespace or ""
        return delete_object(cluster, resource, namespace, target.name, options, now_s)
    has_namespace = target.namespace is not None or not resource.is_namespaced
    if "deletecollection" not in resource.verbs or not has_namespace:
        raise status.method_not_allowed()
    list_options = parse_list_options(resource, target.namespace, None, query)
    return delete_collection(cluster, resource, list_options, options, now_s)
