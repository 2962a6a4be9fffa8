"""Watches: a cursor over a table's history, and the frames that it gives a client.

A watcher has no queue of its own. It has a position in the history, which all watchers share, and
is given frames when its connection takes them; the frames are bytes that were made once. So a slow
watcher costs nothing until it falls out of the history (or lags further than it may), and is then
dropped, as kube-apiserver drops a watcher that does not keep up.
"""

from collections import deque
from typing import Final, NamedTuple

from bench.apiserver import api_status as status
from bench.apiserver.api_cluster import Cluster
from bench.apiserver.reads import ListOptions, parse_version
from bench.apiserver.representation import Representation, error_frame, representation_of
from bench.apiserver.selection import Selection
from bench.apiserver.served_resources import Resource
from bench.apiserver.store import Change, ChangeKind, HistoryGoneError, StoredObject, Table

_FORBIDDEN_MATCH: Final = (
    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
)
_NEEDS_MATCH: Final = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"


class WatchStart(NamedTuple):
    """What a watch request turns into: a cursor, or the reason why the stream ends at once."""

    cursor: "WatchCursor | None"
    # A ready ERROR frame when there is no cursor.
    error_frame: bytes
    allows_bookmarks: bool
    timeout_s: int | None


class WatchCursor:
    """One watcher's place in the history."""

    def __init__(
        self,
        table: Table,
        shown: Representation,
        selection: Selection,
        *,
        start_version: int,
        next_sequence: int,
        ignore_until_version: int,
        initial: deque[StoredObject],
        end_bookmark_version: int | None,
    ) -> None:
        self.table = table
        self.shown = shown
        self.selection = selection
        self._start_version = start_version
        self.next_sequence = next_sequence
        # Set when the client asked for a version that does not exist yet.
        self._ignore_until_version = ignore_until_version
        self._initial = initial
        self._end_bookmark_version = end_bookmark_version
        self._sees_all = selection.is_everything

    @property
    def lag_count(self) -> int:
        """How many changes the watcher is behind."""
        return self.table.next_sequence - self.next_sequence

    @property
    def is_lost(self) -> bool:
        """Whether the history no longer holds what comes next."""
        return self.next_sequence < self.table.first_sequence

    @property
    def is_live(self) -> bool:
        """Whether the initial events are all given out."""
        return not self._initial and self._end_bookmark_version is None

    @property
    def is_current(self) -> bool:
        """Whether there is nothing to give out."""
        return self.is_live and self.next_sequence == self.table.next_sequence

    @property
    def has_news(self) -> bool:
        """Whether the resource has changed since the version that the watch began from."""
        return self.table.last_version > self._start_version

    @property
    def shares_frames(self) -> bool:
        """Whether this watcher gets what every such watcher at the same place gets."""
        return self._sees_all and self.is_live and not self._ignore_until_version

    def take(self, bytes_max: int) -> bytes:
        """Return the next frames, about `bytes_max` of them, and move on."""
        assert not self.is_lost
        frames: list[bytes] = []
        size = 0
        while self._initial and size < bytes_max:
            frame = self.shown.added(self._initial.popleft())
            frames.append(frame)
            size += len(frame)
        if not self._initial and self._end_bookmark_version is not None:
            version = self._end_bookmark_version
            frames.append(self.shown.bookmark(version, ends_initial_events=True))
            self._end_bookmark_version = None
        if self.is_live:
            self._take_changes(frames, bytes_max - size)
        return b"".join(frames)

    def _take_changes(self, frames: list[bytes], bytes_max: int) -> None:
        table, shown = self.table, self.shown
        size = 0
        sequence, end = self.next_sequence, table.next_sequence
        while sequence < end and size < bytes_max:
            change = table.change_at(sequence)
            sequence += 1
            kind = change.kind if self._sees_all else self._kind_seen(change)
            if kind is None or change.version <= self._ignore_until_version:
                continue
            frame = shown.frame(change, kind)
            frames.append(frame)
            size += len(frame)
        self.next_sequence = sequence

    def _kind_seen(self, change: Change) -> ChangeKind | None:
        """Return what a change is to this watcher: entering the selection adds, leaving deletes."""
        matches = self.selection.matches
        is_in = change.now is not None and matches(change.now)
        was_in = change.before is not None and matches(change.before)
        if is_in:
            return ChangeKind.MODIFIED if was_in else ChangeKind.ADDED
        return ChangeKind.DELETED if was_in else None


def start_watch(
    cluster: Cluster, resource: Resource, options: ListOptions, *, metadata_only: bool
) -> WatchStart:
    """Begin a watch, or raise the refusal of its options."""
    _check_initial_events(options)
    table = cluster.store.table(resource)
    shown = representation_of(resource, metadata_only=metadata_only)
    newest = cluster.store.version
    is_any = options.version_text in ("", "0")
    version = 0 if is_any else parse_version(options.version_text)
    sends_initial = options.sends_initial_events
    if sends_initial and version > newest:
        raise status.too_large_version(version, newest)
    if sends_initial is None:
        # Without a version a watch begins with what there is (the old way of asking for it).
        sends_initial = is_any
        end_bookmark_version = None
    else:
        wants_bookmark = sends_initial and options.allows_bookmarks
        end_bookmark_version = newest if wants_bookmark else None
    initial: deque[StoredObject] = deque()
    if sends_initial:
        initial = _matching(table, options.selection)
        version = newest
    elif is_any:
        version = newest
    try:
        next_sequence = table.sequence_after(min(version, newest))
    except HistoryGoneError as error:
        gone = status.expired(f"too old resource version: {error.wanted} ({error.oldest})")
        return WatchStart(
            None, error_frame(gone.as_object()), options.allows_bookmarks, options.timeout_s
        )
    cursor = WatchCursor(
        table,
        shown,
        options.selection,
        start_version=version,
        next_sequence=next_sequence,
        ignore_until_version=version if version > newest else 0,
        initial=initial,
        end_bookmark_version=end_bookmark_version,
    )
    return WatchStart(cursor, b"", options.allows_bookmarks, options.timeout_s)


def _matching(table: Table, selection: Selection) -> deque[StoredObject]:
    objects = table.objects
    if selection.is_everything:
        return deque(objects[key] for key in table.sorted_keys())
    return deque(stored for key in table.sorted_keys() if selection.matches(stored := objects[key]))


def _check_initial_events(options: ListOptions) -> None:
    """Refuse combinations of options (ValidateListOptions in apimachinery's meta, v1.36)."""
    if options.sends_initial_events is None:
        if not options.version_match:
            return
        field, detail = "resourceVersionMatch", _FORBIDDEN_MATCH
    elif options.version_match != "NotOlderThan":
        field, detail = "resourceVersionMatch", _NEEDS_MATCH
    else:
        return
    cause = status.Cause(field, "FieldValueForbidden", f"Forbidden: {detail}")
    raise status.invalid("ListOptions", "meta.k8s.io", "", [cause])
