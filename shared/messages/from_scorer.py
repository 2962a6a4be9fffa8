"""What scoring workers tell the owner."""

import msgspec


class _Message(msgspec.Struct, array_like=True, frozen=True):
    """Base: positional on the wire, immutable in hand."""


class ScorerHello(_Message, frozen=True, tag="wh"):
    """First message of a worker's life; asks for a full snapshot by itself."""

    protocol_version: int
    worker_index: int
    instance: str


class ResyncRequest(_Message, frozen=True, tag="wr"):
    """The worker's copy has a hole or is of another epoch; it proposes nothing until it is whole."""

    worker_index: int
    reason: str


class Placement(msgspec.Struct, array_like=True, frozen=True):
    """The worker's choice for one task."""

    ticket: int
    node_row: int
    score: int
    feasible_count: int
    evaluated_count: int


class PreemptionProposal(msgspec.Struct, array_like=True, frozen=True):
    """How room can be made for one pod."""

    node_row: int
    victims: list[int]
    """Rows of the pod table, as of the generation of the copy."""


class Failure(msgspec.Struct, array_like=True, frozen=True):
    """One pod class that fits nowhere: the FitError of every ticket in it."""

    tickets: list[int]
    message: str
    """As in the PodScheduled condition: "0/5000 nodes are available: ..."."""
    plugins: list[str]
    """unschedulable_plugins: who rejected the pod."""
    pending_plugins: list[str]
    is_error: bool
    """A plugin failed; the reason is SchedulerError, not Unschedulable."""
    preemption: PreemptionProposal | None = None
    """Only with a single ticket."""
    ends_nomination: bool = False
    """Nothing helps, so what the pods were nominated to is void."""


class Proposals(_Message, frozen=True, tag="wp"):
    """The answer to a batch, whole or in part (the last part has `is_last`)."""

    worker_index: int
    epoch: int
    batch_id: int
    proposal_sequence: int
    """Counts this worker's `Proposals`; comes back in `SnapshotDelta.settled`."""
    generation: int
    """Of the copy on which the placements were made."""
    is_last: bool
    placements: list[Placement]
    failures: list[Failure]
    skipped: list[int]
    """Tickets that were not tried: the class was retired before the worker came to them (their pods
    are gone or changed), or room would have to be made for more pods than one answer should wait for."""


class ScorerHeartbeat(_Message, frozen=True, tag="wb"):
    worker_index: int
    sequence: int
    generation: int


FromScorer = ScorerHello | ResyncRequest | Proposals | ScorerHeartbeat
