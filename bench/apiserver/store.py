"""Objects, versions and history: what etcd and the watch cache are to a kube-apiserver.

Pure: no I/O, no clock. One counter gives every write of every resource its resourceVersion. Objects
are kept as JSON bytes, with only the labels and fields that selectors read beside them: a million
objects then cost their bytes and not a tree of dicts each, and a watch event is written from the
bytes without encoding again. Nothing that is stored is ever changed in place.

Each table keeps a bounded history of its changes. What is older than the history answers 410.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

import orjson

from bench.apiserver.json_objects import JsonObject
from bench.apiserver.served_resources import Resource

# A larger write would not fit etcd's default request size either.
OBJECT_BYTES_MAX: Final = 1_536 * 1024
# Rendered frames are kept only of the newest changes: watchers that keep up share those, and
# those far behind render again. At about 1.5 kB a frame this is 6 MB per resource and form.
FRAMES_KEPT: Final = 4096


class ChangeKind(Enum):
    """What happened to an object, in the words of watch events."""

    ADDED = b"ADDED"
    MODIFIED = b"MODIFIED"
    DELETED = b"DELETED"


class StoredObject(NamedTuple):
    """One object at one version."""

    key: str
    namespace: str
    name: str
    uid: str
    version: int
    # The object as JSON without kind and apiVersion, metadata first.
    item: bytes
    labels: Mapping[str, str]
    # The values of the selectable fields, or None where they are read from the item when needed.
    fields: Mapping[str, str] | None

    def decoded(self) -> JsonObject:
        """Decode the object; the caller owns the copy."""
        value: JsonObject = orjson.loads(self.item)
        return value


class Change:
    """One step of a table's history. `now` is None for a deletion, `before` for a creation."""

    __slots__ = ("before", "frames", "kind", "now", "version")

    def __init__(
        self, kind: ChangeKind, version: int, before: StoredObject | None, now: StoredObject | None
    ) -> None:
        assert (before is None) == (kind is ChangeKind.ADDED)
        assert (now is None) == (kind is ChangeKind.DELETED)
        self.kind = kind
        self.version = version
        self.before = before
        self.now = now
        # Rendered watch frames by (view, event type), shared by all watchers.
        self.frames: dict[tuple[str, ChangeKind], bytes] = {}


class HistoryGoneError(LookupError):
    """The history does not reach back to the version asked for."""

    def __init__(self, wanted: int, oldest: int) -> None:
        super().__init__(f"version {wanted} is older than the history, which begins at {oldest}")
        self.wanted = wanted
        self.oldest = oldest


def object_key(namespace: str, name: str) -> str:
    """Return the key of an object in its table; its order is that of lists."""
    return f"{namespace}/{name}" if namespace else name


class Table:
    """The objects of one resource and the history of their changes."""

    def __init__(self, resource: Resource, history_limit: int, version: int) -> None:
        assert history_limit > 0
        self.resource = resource
        self.objects: dict[str, StoredObject] = {}
        # Invariant: every change of this table with a version above this one is in the history.
        self.oldest_version = version
        self.first_sequence = 0
        self._history: deque[Change] = deque()
        self._history_limit = history_limit
        self._sorted_keys: list[str] | None = []

    @property
    def next_sequence(self) -> int:
        """The number that the next change will have."""
        return self.first_sequence + len(self._history)

    @property
    def last_version(self) -> int:
        """The version of the newest change, or where the history begins."""
        return self._history[-1].version if self._history else self.oldest_version

    def get(self, namespace: str, name: str) -> StoredObject | None:
        """Find an object."""
        return self.objects.get(f"{namespace}/{name}" if namespace else name)

    def sorted_keys(self) -> list[str]:
        """Return all keys in list order; the caller must not change the list.

        Sorting is put off until someone lists: the dict is nearly in order, which is cheap to sort.
        """
        if self._sorted_keys is None:
            self._sorted_keys = sorted(self.objects)
        return self._sorted_keys

    def change_at(self, sequence: int) -> Change:
        """Return the change with that number; it must still be in the history."""
        return self._history[sequence - self.first_sequence]

    def sequence_after(self, version: int) -> int:
        """Return the number of the first change after `version`, or raise HistoryGoneError."""
        if version < self.oldest_version:
            raise HistoryGoneError(version, self.oldest_version)
        if version >= self.last_version:
            return self.next_sequence
        offset = bisect_right(self._history, version, key=lambda change: change.version)
        return self.first_sequence + offset

    def differences_since(self, version: int) -> dict[str, StoredObject | None]:
        """Return what each object that changed after `version` was at that version."""
        was: dict[str, StoredObject | None] = {}
        for sequence in range(self.sequence_after(version), self.next_sequence):
            change = self.change_at(sequence)
            subject = change.now or change.before
            assert subject is not None
            was.setdefault(subject.key, change.before)
        return was

    def record(self, change: Change) -> None:
        """Apply one change. Only the Store calls this."""
        if change.now is not None:
            if change.before is None:
                self._sorted_keys = None
            self.objects[change.now.key] = change.now
        else:
            assert change.before is not None
            del self.objects[change.before.key]
            self._sorted_keys = None
        history = self._history
        history.append(change)
        if len(history) > FRAMES_KEPT:
            history[-FRAMES_KEPT].frames = {}
        if len(history) > self._history_limit:
            self.oldest_version = history.popleft().version
            self.first_sequence += 1

    def restore(self, objects: dict[str, StoredObject], version: int) -> None:
        """Hold these objects and no history."""
        self.objects = objects
        self._sorted_keys = None
        self.forget_history(version)

    def forget_history(self, version: int) -> None:
        """Drop all history, as a compaction of etcd and a restart of the server do."""
        self.first_sequence += len(self._history)
        self._history.clear()
        self.oldest_version = version


class Store:
    """All tables under one counter of versions."""

    def __init__(
        self, resources: tuple[Resource, ...], *, history_limit: int, first_version: int = 1
    ) -> None:
        assert first_version > 0, "0 means any version to clients"
        self.version = first_version
        self._tables = {
            resource.qualified: Table(resource, history_limit, first_version)
            for resource in resources
            if resource.stored_as is None
        }
        # Tables that changed since the server last looked.
        self.changed: set[Table] = set()

    def table(self, resource: Resource) -> Table:
        """Return the table behind a resource; views share one."""
        return self._tables[resource.table_name]

    def tables(self) -> list[Table]:
        """Return all tables."""
        return list(self._tables.values())

    def put(
        self,
        table: Table,
        obj: JsonObject,
        before: StoredObject | None,
        fields: Mapping[str, str] | None = None,
    ) -> StoredObject:
        """Write an object under the next version and return it as stored.

        `obj` has no kind and apiVersion; its resourceVersion is set here. `before` must be what the
        table holds now. Raises ValueError when the object is too large.
        """
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "")
        name = metadata["name"]
        key = f"{namespace}/{name}" if namespace else name
        assert table.objects.get(key) is before
        version = self.version + 1
        metadata["resourceVersion"] = str(version)
        # orjson leaves its buffer at 4 kB or more; a copy has just the size of its text.
        item = memoryview(orjson.dumps(obj)).tobytes()
        if len(item) > OBJECT_BYTES_MAX:
            raise ValueError(f"the object has {len(item)} bytes; at most {OBJECT_BYTES_MAX} fit")
        now = StoredObject(
            key,
            namespace,
            name,
            metadata["uid"],
            version,
            item,
            metadata.get("labels") or _NO_LABELS,
            fields,
        )
        kind = ChangeKind.ADDED if before is None else ChangeKind.MODIFIED
        self.version = version
        table.record(Change(kind, version, before, now))
        self.changed.add(table)
        return now

    def remove(self, table: Table, before: StoredObject) -> int:
        """Delete an object under the next version, which is returned."""
        assert table.objects.get(before.key) is before
        self.version += 1
        table.record(Change(ChangeKind.DELETED, self.version, before, None))
        self.changed.add(table)
        return self.version

    def compact(self) -> int:
        """Forget all history up to now and return the version; older ones answer 410 from now."""
        for table in self._tables.values():
            table.forget_history(self.version)
        return self.version

    def restore(self, version: int, contents: list[tuple[Table, dict[str, StoredObject]]]) -> None:
        """Go back to what all tables held at a version, as a backup of etcd does that is played back."""
        self.version = version
        for table, objects in contents:
            table.restore(dict(objects), version)


_NO_LABELS: Final[Mapping[str, str]] = {}


def item_at_version(stored: StoredObject, version: int) -> bytes:
    """Return the stored form with another resourceVersion, as DELETED events carry it."""
    obj = stored.decoded()
    obj["metadata"]["resourceVersion"] = str(version)
    return orjson.dumps(obj)
