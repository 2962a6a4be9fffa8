"""What the owner tells scorers.

Snapshots go to all scorers over PUB; the rest goes to one scorer over ROUTER. Work names the least
generation it may be done at: a scorer that is behind first waits for the deltas.
"""

from typing import Annotated, Final, NamedTuple

import msgspec

from shared.limits import RUN_PODS_MAX, TICKET_MAX
from shared.messages.codec import Codec, Drain, Message

Ticket = Annotated[int, msgspec.Meta(ge=0, le=TICKET_MAX)]
"""Of an attempt. A scorer counts on from it, and says which one it has in hand."""


class _Snapshot(Message, frozen=True):
    epoch: int
    sequence: int
    """Of the PUB channel."""
    generation: int
    settled: dict[int, int]
    """Scorer index -> the last proposal sequence whose verdicts this contains. A scorer drops its own
    tentative placements up to there: they are either in the rows, or rejected."""
    body: msgspec.Raw
    """For this and its buffers see `shared.columns.delta`."""
    next_ticket: Ticket
    """Of the next pod that is handed out to whomever, if nothing else happens."""


class SnapshotFull(_Snapshot, frozen=True, tag="sF"):
    """The whole cluster at `generation`; the next delta to apply is `sequence` + 1."""


class SnapshotDelta(_Snapshot, frozen=True, tag="sD"):
    """All rows that changed since the delta before, up to `generation`. Over PUB/SUB."""


class TaskRun(msgspec.Struct, array_like=True, frozen=True):
    """Pods of one class, one after the other."""

    class_id: int
    count: Annotated[int, msgspec.Meta(ge=1, le=RUN_PODS_MAX)]
    uid: str = ""
    """Of a pod that is nominated to a node, which makes a run of its own; empty for all others."""


class PodTask(NamedTuple):
    ticket: int
    class_id: int
    uid: str
    """As in `TaskRun`."""
    is_single: bool = False
    """Pods wait beside it, none of its class."""


class TopologyLevel(msgspec.Struct, array_like=True, frozen=True):
    """All pods of a group to nodes with one value of this label."""

    key: str
    required_domain: str | None = None
    """The value on the nodes of pods that are placed already; None: there are none."""


class PlacementTask(msgspec.Struct, array_like=True, frozen=True):
    """Where a group may go: with the gate TopologyAwareWorkloadScheduling."""

    levels: list[TopologyLevel] = []
    """The narrowest first: the first that has room for the group, which is within all that follow; the
    last has to be. None: anywhere."""
    scheduled_count: int = 0
    """Pods of the group that are placed already."""


class GroupPreemption(msgspec.Struct, array_like=True, frozen=True):
    """Who may have to go for a group, with the gate WorkloadAwarePreemption."""

    refusal: str = ""
    """Why nobody has to; else empty, and the rest says who may."""
    priority: int = 0
    """Of the group, whatever its pods have."""


class GroupTask(msgspec.Struct, array_like=True, frozen=True):
    """The batch is what is to be placed of one pod group: as a whole, or not at all."""

    needed: int
    """So many of its pods, at least one, have to find a node."""
    placements: PlacementTask | None = None
    preemption: GroupPreemption | None = None
    """Who may have to go for all of it."""
    hold: GroupPreemption | None = None
    """Whom it may wait for, if it has no place: room is held for it where they are."""
    forbidden: str = ""
    """Why none of its pods may have others go by itself; empty: each may."""


class ExtendedTask(msgspec.Struct, array_like=True, frozen=True):
    """One pod that extenders are asked about; they want to know which it is."""

    ticket: Ticket
    class_id: int
    is_nominated: bool
    namespace: str
    name: str
    uid: str


class SchedulePods(Message, frozen=True, tag="sP"):
    """Work. Runs are in queue order and must be placed in this order, each pod on top of the last."""

    epoch: int
    batch_id: int
    min_sequence: int
    """The PUB sequence that the scorer's copy must have reached; it then knows all classes."""
    first_ticket: Ticket
    """Tickets number the attempts within an epoch; those of a batch are consecutive, in the order of
    its pods. The answer carries them back."""
    runs: list[TaskRun]
    group: GroupTask | None = None
    asked: list[ExtendedTask] = []
    """Of a group: those of its pods that extenders are asked about. It waits for others then, as pods of
    `ScheduleExtended` do."""
    names: list[str] = []
    """Of its pods, in their order, where each attempt is logged; else empty."""

    @property
    def pod_count(self) -> int:
        return sum(run.count for run in self.runs)


class ScheduleExtended(Message, frozen=True, tag="sE"):
    """Work that waits for others: each pod is answered by itself, whenever its extenders have been
    heard."""

    epoch: int
    min_sequence: int
    """As in `SchedulePods`."""
    tasks: list[ExtendedTask]


class PodOnNode(msgspec.Struct, array_like=True, frozen=True):
    """The names of one row of the pod table."""

    pod_row: int
    node_row: int
    namespace: str
    name: str
    uid: str


class PodsOnNodes(Message, frozen=True, tag="sN"):
    """Answers `AskForPods`: extenders speak of victims by name, scorers know rows only."""

    epoch: int
    request_id: int
    pods: list[PodOnNode]


class GreetAgain(Message, frozen=True, tag="sG"):
    """The owner does not know this scorer (any more): it was silent for too long, or its message came
    before its Hello. What it had in hand is void."""


class ScorerRefused(Message, frozen=True, tag="sR"):
    """This scorer cannot work for this owner; it ends, and says why."""

    problem: str


ToScorer = (
    SchedulePods
    | ScheduleExtended
    | PodsOnNodes
    | SnapshotFull
    | Drain
    | GreetAgain
    | ScorerRefused
)
"""Over ROUTER/DEALER. `SnapshotFull` here answers a `ResyncRequest`."""

TO_SCORER: Final[Codec[ToScorer]] = Codec("scorers", ToScorer)
SNAPSHOTS: Final[Codec[SnapshotDelta]] = Codec("snapshots", SnapshotDelta)
