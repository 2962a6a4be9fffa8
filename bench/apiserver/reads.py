"""GET: one object, and lists with selectors, pages and versions.

The rules of resourceVersion, resourceVersionMatch, limit and continue are those of
staging/src/k8s.io/apiserver/pkg/storage (v1.36): no version reads the newest state, 0 any state
(and ignores the limit, as the watch cache does), Exact the state at that version.
"""

import heapq
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from bench.apiserver import api_status as status
from bench.apiserver.api_cluster import Cluster
from bench.apiserver.paging import Continuation, decode_continue, encode_continue
from bench.apiserver.representation import Representation, representation_of
from bench.apiserver.selection import Selection, parse_fields, parse_labels
from bench.apiserver.served_resources import Resource
from bench.apiserver.store import HistoryGoneError, StoredObject, Table

_EXACT: Final = "Exact"
_NOT_OLDER: Final = "NotOlderThan"
_TRUE_WORDS: Final = frozenset(["1", "true", "True", "TRUE", "t", "T"])
_CONTINUE_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class Answer(NamedTuple):
    """A whole answer: everything but the headers that all answers have."""

    code: int
    body: bytes
    content_type: bytes = b"application/json"
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The query of a list, watch or deletecollection, parsed."""

    selection: Selection
    limit: int = 0
    continue_token: str = ""
    version_text: str = ""
    version_match: str = ""
    watches: bool = False
    allows_bookmarks: bool = False
    sends_initial_events: bool | None = None
    timeout_s: int | None = None


def parse_list_options(
    resource: Resource, namespace: str | None, name: str | None, query: Mapping[str, str]
) -> ListOptions:
    """Read the query of a request on a collection, or raise a 400."""
    fields = parse_fields(query.get("fieldSelector", ""), resource)
    if name is not None:
        fields += parse_fields(f"metadata.name={name}", resource)
    initial_events = query.get("sendInitialEvents")
    timeout = query.get("timeoutSeconds")
    return ListOptions(
        Selection(namespace, parse_labels(query.get("labelSelector", "")), fields),
        limit=_number(query, "limit"),
        continue_token=query.get("continue", ""),
        version_text=query.get("resourceVersion", ""),
        version_match=query.get("resourceVersionMatch", ""),
        watches=is_true(query.get("watch")),
        allows_bookmarks=is_true(query.get("allowWatchBookmarks")),
        sends_initial_events=None if initial_events is None else is_true(initial_events),
        timeout_s=_number(query, "timeoutSeconds") if timeout else None,
    )


def is_true(text: str | None) -> bool:
    """Read a boolean of a query."""
    return text in _TRUE_WORDS


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "")
    if not text:
        return 0
    try:
        return int(text)
    except ValueError:
        raise status.bad_request(
            f'strconv.ParseInt: parsing "{text}": invalid syntax (query parameter {name})'
        ) from None


def parse_version(text: str) -> int:
    """Read a resourceVersion, or raise the 500 that kube-apiserver answers to a bad one."""
    if text.isascii() and text.isdigit():
        return int(text)
    raise status.internal(
        f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": '
        "invalid syntax"
    )


def get_object(
    cluster: Cluster, resource: Resource, namespace: str, name: str, *, metadata_only: bool
) -> Answer:
    """Answer GET of one object."""
    stored = cluster.store.table(resource).get(namespace, name)
    if stored is None:
        raise status.not_found(resource.qualified, name)
    shown = representation_of(resource, metadata_only=metadata_only)
    return Answer(200, shown.object_bytes(stored.item) + b"\n")


def list_objects(
    cluster: Cluster, resource: Resource, options: ListOptions, *, metadata_only: bool
) -> Answer:
    """Answer GET of a collection."""
    table = cluster.store.table(resource)
    continuation = None
    if options.continue_token:
        if options.version_text not in ("", "0"):
            raise status.bad_request(
                "specifying resource version is not allowed when using continue"
            )
        continuation = decode_continue(options.continue_token, options.selection.namespace)
    version, limit = _version_and_limit(cluster, options, continuation)
    try:
        was = table.differences_since(version)
    except HistoryGoneError:
        raise _list_expired(options, continuation) from None
    page = _page(table, options.selection, was, continuation, limit)
    shown = representation_of(resource, metadata_only=metadata_only)
    return Answer(200, _list_body(shown, page, version, options.selection))


def _version_and_limit(
    cluster: Cluster, options: ListOptions, continuation: Continuation | None
) -> tuple[int, int]:
    newest = cluster.store.version
    if continuation is not None:
        return (newest if continuation.version < 0 else continuation.version), options.limit
    _check_version_match(options)
    if options.version_text in ("", "0"):
        # The watch cache answers "any version" whole.
        return newest, 0 if options.version_text == "0" else options.limit
    version = parse_version(options.version_text)
    if version > newest:
        raise status.too_large_version(version, newest)
    if options.version_match == _NOT_OLDER:
        return newest, options.limit
    # A limit without a match means Exact, for clients from before resourceVersionMatch.
    is_exact = options.version_match == _EXACT or options.limit > 0
    return (version if is_exact else newest), options.limit


def _check_version_match(options: ListOptions) -> None:
    match_word = options.version_match
    if not match_word:
        return
    if not options.version_text:
        detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif match_word == _EXACT and options.version_text == "0":
        detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    elif match_word not in (_EXACT, _NOT_OLDER):
        detail = f'unsupported value "{match_word}": supported values: "Exact", "NotOlderThan"'
    else:
        return
    cause = status.Cause("resourceVersionMatch", "FieldValueForbidden", f"Forbidden: {detail}")
    raise status.invalid("ListOptions", "meta.k8s.io", "", [cause])


def _list_expired(options: ListOptions, continuation: Continuation | None) -> status.ApiError:
    if continuation is None:
        return status.expired("The resourceVersion for the provided list is too old.")
    namespace = options.selection.namespace
    # start_key already ends with the zero that encode_continue adds.
    last_key = continuation.start_key.removesuffix("\0")
    return status.expired(_CONTINUE_TOO_OLD, encode_continue(-1, last_key, namespace))


class _Page(NamedTuple):
    objects: list[StoredObject]
    last_key: str
    remaining_count: int


def _page(
    table: Table,
    selection: Selection,
    was: Mapping[str, StoredObject | None],
    continuation: Continuation | None,
    limit: int,
) -> _Page:
    start_key = continuation.start_key if continuation is not None else ""
    keys = _in_range(table.sorted_keys(), selection.namespace, start_key)
    if was:
        # Objects that are gone now were there; what was created since is left out again.
        gone = sorted(key for key, stored in was.items() if stored and key not in table.objects)
        keys = list(heapq.merge(keys, _in_range(gone, selection.namespace, start_key)))
        keys = [key for key in keys if was.get(key, _PRESENT) is not None]
    objects: list[StoredObject] = []
    is_everything = not selection.has_selectors
    current = table.objects
    for index, key in enumerate(keys):
        stored = was[key] if key in was else current[key]
        assert stored is not None
        if is_everything or selection.matches(stored):
            objects.append(stored)
            if limit and len(objects) == limit:
                return _Page(objects, key, len(keys) - index - 1)
    return _Page(objects, "", 0)


_PRESENT: Final = object()


def _in_range(keys: list[str], namespace: str | None, start_key: str) -> list[str]:
    first, end = 0, len(keys)
    if namespace is not None:
        # "0" follows "/" in ASCII, so this is the end of the keys with that prefix.
        first, end = bisect_left(keys, f"{namespace}/"), bisect_left(keys, f"{namespace}0")
    if start_key:
        first = max(first, bisect_left(keys, start_key))
    return keys[first:end] if (first, end) != (0, len(keys)) else keys


def _list_body(shown: Representation, page: _Page, version: int, selection: Selection) -> bytes:
    more = b""
    if page.remaining_count:
        token = encode_continue(version, page.last_key, selection.namespace)
        more = b',"continue":"%b"' % token.encode()
        if not selection.has_selectors:
            more += b',"remainingItemCount":%d' % page.remaining_count
    items = b",".join([shown.list_item(stored.item) for stored in page.objects])
    return b'%b"metadata":{"resourceVersion":"%d"%b},"items":[%b]}\n' % (
        shown.list_head,
        version,
        more,
        items,
    )
