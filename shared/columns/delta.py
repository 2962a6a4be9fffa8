"""Deltas and full snapshots: the rows that changed, as raw arrays, and the dictionaries' news.

A delta holds three groups of rows: those of nodes whose usage changed, those whose node columns
changed (`schema.py`), and those of pods (`pod_table.py`). It carries absolute values, so applying one
twice is harmless and a full snapshot is simply the delta of all rows. Ids are interned by the owner;
what was interned since the last delta travels in front.

On the wire: `DeltaBody` as msgpack, then one buffer a column and group, in the order of `make_delta`.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from shared.columns.journal import Changes
from shared.columns.nomination_columns import Nomination
from shared.columns.pod_table import PodTable
from shared.columns.schema import (
    NO_ROWS,
    Int32s,
    Int64s,
    NodeColumns,
    PodColumns,
    Rows,
    Table,
    UsageColumns,
    names_of,
)
from shared.columns.table import Interner, NodeTable, PortTuple, TaintTuple
from shared.errors import UNDECODABLE, FrameError
from shared.limits import NODES_MAX, PODS_MAX


class Dictionaries(msgspec.Struct, array_like=True, frozen=True):
    """What was interned from `first` (ids) on, per dictionary."""

    first: list[int]
    """One id for each list below, in this order, which are called as the table's dictionaries."""
    resources: list[str]
    label_keys: list[str]
    label_values: list[str]
    names: list[str]
    taints: list[tuple[TaintTuple, ...]]
    features: list[frozenset[str]]


class ClassDefinition(msgspec.Struct, array_like=True, frozen=True):
    """A pod class: what its pods have in common."""

    class_id: int
    namespace: str
    profile: str
    """schedulerName"""
    template: bytes
    """A `PodTemplate` as msgpack."""


class DeltaBody(msgspec.Struct, array_like=True, frozen=True):
    """All of a delta but its arrays."""

    row_count: int
    usage_row_count: int
    node_row_count: int
    pod_row_count: int
    pods_used_count: int
    """`row_count` of the pod table."""
    dictionaries: Dictionaries
    port_sets: list[frozenset[PortTuple]]
    """Sets of used host ports; the usage rows' `ports_id` on the wire are indices of this list.
    They are not interned for all: scorers make sets of their own by tentative placements."""
    image_sets: list[frozenset[str]]
    """The same for the node rows' `images_id`: kubelets report ever new lists, and sets that nobody
    has any more can only be dropped where ids are private."""
    image_sizes: dict[str, int]
    """Images whose size is new."""
    classes: list[ClassDefinition]
    """Pod classes that are new."""
    retired_classes: list[int]
    """Classes without pods; they will not be named again."""
    objects: list[tuple[str, str, bytes]]
    """(kind, key, object as msgpack) of the kinds other than pods and nodes; no bytes: deleted."""
    nominations: list[Nomination]
    """Those that are new, or have ended (no node)."""


_NAMES: Final = Dictionaries.__struct_fields__[1:]
Marks = tuple[int, ...]
"""How far each dictionary was already sent."""
NOTHING_SENT: Final[Marks] = (0,) * len(_NAMES)
_NODE_COLUMNS: Final = ("generation", *(n for n in names_of(NodeColumns) if n != "images_id"))
_USAGE_COLUMNS: Final = ("generation", *(n for n in names_of(UsageColumns) if n != "ports_id"))
_POD_COLUMNS: Final = names_of(PodColumns)
AnyArray = NDArray[Any]
Buffer = bytes | bytearray | memoryview

_body_encoder = msgspec.msgpack.Encoder(order="deterministic")  # Of sets.
_body_decoder = msgspec.msgpack.Decoder(DeltaBody)


def make_delta(
    table: NodeTable,
    pods: PodTable,
    changes: Changes,
    marks: Marks,
    *,
    image_sizes: dict[str, int] | None = None,
    classes: Sequence[ClassDefinition] = (),
    retired_classes: Sequence[int] = (),
    objects: Sequence[tuple[str, str, bytes]] = (),
    nominations: Sequence[Nomination] = (),
) -> tuple[bytes, list[Buffer], Marks]:
    """The encoded body, the buffers after it, and the marks for the next delta."""
    usage_rows, node_rows, pod_rows = changes
    dictionaries, new_marks = _dictionaries_since(table, marks)
    port_ids, port_indices = _sets_in_use(table.ports_id[usage_rows])
    image_ids, image_indices = _sets_in_use(table.images_id[node_rows])
    body = DeltaBody(
        row_count=table.row_count,
        usage_row_count=len(usage_rows),
        node_row_count=len(node_rows),
        pod_row_count=len(pod_rows),
        pods_used_count=pods.row_count,
        dictionaries=dictionaries,
        port_sets=[table.ports.values[port_id] for port_id in port_ids],
        image_sets=[table.images.values[image_id] for image_id in image_ids],
        image_sizes=image_sizes or {},
        classes=list(classes),
        retired_classes=list(retired_classes),
        objects=list(objects),
        nominations=list(nominations),
    )
    resources = len(table.resources)
    buffers: list[AnyArray] = []
    if len(usage_rows):
        buffers += _rows_of(usage_rows, _columns(table, _USAGE_COLUMNS))
        buffers += port_indices.astype(np.int32), table.requested[:resources, usage_rows]
    if len(node_rows):
        buffers += _rows_of(node_rows, _columns(table, _NODE_COLUMNS))
        buffers += image_indices.astype(np.int32), table.allocatable[:resources, node_rows]
        buffers.append(table.labels[: len(table.label_keys), node_rows])
    if len(pod_rows):
        buffers += _rows_of(pod_rows, _columns(pods, _POD_COLUMNS))
    return (_body_encoder.encode(body), [np.ascontiguousarray(b).data for b in buffers], new_marks)


def _columns(table: Table, names: Sequence[str]) -> list[AnyArray]:
    return [getattr(table, name) for name in names]


def _rows_of(rows: Rows, columns: Sequence[AnyArray]) -> list[AnyArray]:
    """The rows, then what the columns hold there."""
    return [rows.astype(np.int64), *(column[rows] for column in columns)]


def decode_delta(body: bytes | msgspec.Raw) -> DeltaBody:
    """FrameError for what is none."""
    try:
        return _body_decoder.decode(body)
    except UNDECODABLE as error:
        raise FrameError(f"snapshot delta: {error}") from error


def apply_delta(
    table: NodeTable, pods: PodTable, delta: DeltaBody, buffers: Sequence[Buffer]
) -> tuple[Changes, Int64s]:
    """Writes the columns of a delta into a copy. Says which rows it has, and what pods took of the
    usage rows before (`NodeTable.usage_of`). FrameError when it and the buffers do not agree."""
    reader = _BufferReader(buffers)
    _extend_dictionaries(table, delta.dictionaries)
    # Room is made for what a cluster can have, and for what the dictionaries name.
    if not (0 <= delta.row_count <= NODES_MAX and 0 <= delta.pods_used_count <= PODS_MAX):
        raise FrameError("snapshot delta: counts of what cannot be")
    table.reserve(delta.row_count)
    table.reserve_resources(len(table.resources))
    table.reserve_lines("labels", len(table.label_keys))
    table.image_sizes.update(delta.image_sizes)
    usage_rows, before = _read_usage(table, delta, reader)
    node_rows = _read_nodes(table, delta, reader)
    pod_rows = _read_pods(pods, delta, reader)
    reader.assert_empty()
    return Changes(usage_rows, node_rows, pod_rows), before


def _read_usage(table: NodeTable, delta: DeltaBody, reader: "_BufferReader") -> tuple[Rows, Int64s]:
    count = delta.usage_row_count
    if not count:
        return NO_ROWS, table.usage_of(NO_ROWS)
    rows = reader.take_rows(count, delta.row_count)
    before = table.usage_of(rows)
    reader.take_into(rows, *_columns(table, _USAGE_COLUMNS))
    port_ids = table.ports.ids_of(delta.port_sets)
    table.ports_id[rows] = _chosen(port_ids, reader.take(np.int32, (count,)))
    reader.take_into(rows, table.requested[: len(table.resources)])
    return rows, before


def _read_nodes(table: NodeTable, delta: DeltaBody, reader: "_BufferReader") -> Rows:
    count = delta.node_row_count
    if not count:
        return NO_ROWS
    rows = reader.take_rows(count, delta.row_count)
    labels = table.labels[: len(table.label_keys)]
    names, before, labels_before = table.name_id[rows], _order_of(table, rows), labels[:, rows]
    reader.take_into(rows, *_columns(table, _NODE_COLUMNS))
    image_ids = table.images.ids_of(delta.image_sets)
    table.images_id[rows] = _chosen(image_ids, reader.take(np.int32, (count,)))
    reader.take_into(rows, table.allocatable[: len(table.resources)], labels)
    after, same_labels = _order_of(table, rows), np.array_equal(labels_before, labels[:, rows])
    if not same_labels or not np.array_equal(before[0], after[0]):
        table.topology_version += 1
    if not np.array_equal(before, after):
        table.forget_order()
    table.reindex_names(rows, names)
    return rows


def _order_of(table: NodeTable, rows: Rows) -> AnyArray:
    """What the order of nodes depends on, first of all which there are."""
    return np.array((table.present[rows], table.zone_number[rows], table.zone_place[rows]))


def _read_pods(pods: PodTable, delta: DeltaBody, reader: "_BufferReader") -> Rows:
    pods.reserve(delta.pods_used_count)
    count = delta.pod_row_count
    if not count:
        return NO_ROWS
    rows = reader.take_rows(count, delta.pods_used_count)
    columns = _columns(pods, _POD_COLUMNS)
    pods.write_rows(rows, *(reader.take(column.dtype, (count,)) for column in columns))
    return rows


def _sets_in_use(ids: Int32s) -> tuple[list[int], AnyArray]:
    """The different ids, and for each row which of them it has."""
    if not ids.any():  # Nearly always: the empty set alone.
        return [0], ids
    found, indices = np.unique(ids, return_inverse=True)
    return found.tolist(), indices


def _chosen(ids: list[int], indices: Int32s) -> Int32s:
    try:
        return np.array(ids, np.int32)[indices]
    except IndexError as error:
        raise FrameError(f"snapshot delta: {error}") from error


class _BufferReader:
    """Takes one buffer after the other as an array of a known type and shape."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self._buffers = list(buffers)
        self._next = 0

    def take(self, dtype: object, shape: tuple[int, ...]) -> AnyArray:
        if self._next >= len(self._buffers):
            raise FrameError("snapshot delta: a buffer is missing")
        buffer = self._buffers[self._next]
        self._next += 1
        try:
            flat: AnyArray = np.frombuffer(buffer, dtype)  # type: ignore[call-overload] # any dtype
        except ValueError as error:
            raise FrameError(f"snapshot delta: {error}") from error
        if flat.size != math.prod(shape):
            raise FrameError(f"snapshot delta: buffer {self._next - 1} is not of shape {shape}")
        return flat.reshape(shape)

    def take_rows(self, count: int, row_count: int) -> Rows:
        """As many rows of a table of `row_count`."""
        rows: Rows = self.take(np.int64, (count,)).astype(np.intp)
        if rows.view(np.uintp).max() >= row_count:  # Unsigned, what is below 0 is far above.
            raise FrameError(f"snapshot delta: a row that is none of {row_count}")
        return rows

    def take_into(self, rows: Rows, *arrays: AnyArray) -> None:
        """Writes these rows of columns, and of all lines of matrices."""
        for array in arrays:
            array[..., rows] = self.take(array.dtype, (*array.shape[:-1], len(rows)))

    def assert_empty(self) -> None:
        if self._next != len(self._buffers):
            raise FrameError("snapshot delta: buffers left over")


def _sent_dictionaries(table: NodeTable) -> list[Interner[Any]]:
    return [getattr(table, name) for name in _NAMES]


def _dictionaries_since(table: NodeTable, marks: Marks) -> tuple[Dictionaries, Marks]:
    firsts = zip(_NAMES, _sent_dictionaries(table), marks, strict=True)
    news = {name: interner.values[first:] for name, interner, first in firsts}
    return Dictionaries(first=list(marks), **news), dictionary_marks(table)


def dictionary_marks(table: NodeTable) -> Marks:
    """Of one who has everything that is interned now."""
    return tuple([len(interner) for interner in _sent_dictionaries(table)])


def _extend_dictionaries(table: NodeTable, news: Dictionaries) -> None:
    if len(news.first) != len(_NAMES):
        raise FrameError("snapshot delta: another number of dictionaries")
    _, *values = msgspec.structs.astuple(news)
    try:
        known = _sent_dictionaries(table)
        for interner, first, more in zip(known, news.first, values, strict=True):
            interner.extend(first, more)
    except ValueError as error:
        raise FrameError(f"snapshot delta: {error}") from error
