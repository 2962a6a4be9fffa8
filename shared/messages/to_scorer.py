"""What the owner tells scoring workers.

Snapshots go to all workers over PUB; the rest goes to one worker over ROUTER. Work names the least
generation it may be done at: a worker that is behind first waits for the deltas.
"""

import msgspec


class _Message(msgspec.Struct, array_like=True, frozen=True):
    """Base: positional on the wire, immutable in hand."""


class SnapshotFull(_Message, frozen=True, tag="sF"):
    """The whole cluster at `generation`; for `body` and its buffers see `shared.columns.delta`."""

    epoch: int
    sequence: int
    """Of the PUB channel: the next delta to apply is sequence + 1."""
    generation: int
    settled: dict[int, int]
    """As in `SnapshotDelta`."""
    body: msgspec.Raw


class SnapshotDelta(_Message, frozen=True, tag="sD"):
    """All rows that changed after `base_generation` up to `generation`."""

    epoch: int
    sequence: int
    base_generation: int
    generation: int
    settled: dict[int, int]
    """Worker index -> the last proposal sequence whose verdicts this delta contains. A worker drops
    its own tentative placements up to there: they are either in the rows, or rejected."""
    body: msgspec.Raw


class PodTask(msgspec.Struct, array_like=True, frozen=True):
    """One pod to place."""

    ticket: int
    """The attempt, numbered by the owner within its epoch; the answer carries it back."""
    class_id: int
    uid: str = ""
    """Of a pod that is nominated to a node; empty for all others."""


class SchedulePods(_Message, frozen=True, tag="sP"):
    """Work. Tasks are in queue order and must be placed in this order, each on top of the last."""

    epoch: int
    batch_id: int
    min_sequence: int
    """The PUB sequence that the worker's copy must have reached; it then knows all classes."""
    tasks: list[PodTask]


class Drain(_Message, frozen=True, tag="sX"):
    """Finish what is in hand, then exit."""


ToScorer = SchedulePods | SnapshotFull | Drain
"""Over ROUTER/DEALER. `SnapshotFull` here answers a `ResyncRequest`."""

Published = SnapshotDelta
"""Over PUB/SUB."""
