"""What scorers tell the owner."""

from typing import Final

import msgspec

from shared.messages.codec import Codec, Message
from shared.telemetry.metrics import NOTHING, Measured

FORESEEN_MAX: Final = 64
"""Pods in one forecast: a sixtieth of a wake a pod is not worth saving."""


class ScorerHello(Message, frozen=True, tag="wh"):
    """First message of a scorer's life; asks for a full snapshot by itself."""

    worker_index: int
    instance: str
    configuration: str = ""
    """Digest of what a scorer of another host was configured with (`shared/config.py`); empty of
    those that the owner's own supervisor started."""


class ResyncRequest(Message, frozen=True, tag="wr"):
    """The scorer's copy has a hole or is of another epoch; it proposes nothing until it is whole."""

    reason: str


class Placements(msgspec.Struct, array_like=True, frozen=True):
    """The scorer's choices in task order, as two columns: an object for each would cost more than to
    check it."""

    tickets: list[int]
    node_rows: list[int]
    """As long as `tickets`."""


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
    plugins: list[str] = []
    """unschedulable_plugins: who rejected the pod."""
    pending_plugins: list[str] = []
    is_error: bool = False
    """A plugin failed; the reason is SchedulerError, not Unschedulable."""
    preemption: PreemptionProposal | None = None
    """Only with a single ticket."""
    ends_nomination: bool = False
    """Nothing helps, so what the pods were nominated to is void."""
    freed_claims: list[str] = []
    """Keys of resource claims that nobody uses and that keep the pod from fitting."""
    was_room_sought: bool = False
    """Preemption was tried, with whatever result."""


class GroupRoom(msgspec.Struct, array_like=True, frozen=True):
    """How room can be made for a pod group that has none."""

    victims: list[int]
    """Rows of the pod table, as of the generation of the copy; the most important first."""
    placements: Placements
    """Where enough of its pods would go then."""
    is_awaited: bool = False
    """Nobody is asked to go: the places are held until the victims have gone by themselves."""


class Proposals(Message, frozen=True, tag="wp"):
    epoch: int
    batch_id: int
    proposal_sequence: int
    """Counts this scorer's `Proposals`; comes back in `SnapshotDelta.settled`."""
    generation: int
    """Of the copy on which the placements were made."""
    placements: Placements
    failures: list[Failure]
    skipped: list[int]
    """Tickets that were not tried: the class was retired before the scorer came to them (their pods
    are gone or changed), room would have to be made for more pods than one answer should wait for, or
    pods that this scorer placed itself are in the way and would have to go."""
    group_message: str = ""
    """Of a group that has no place: what its condition says, where that is more than that."""
    group_room: GroupRoom | None = None
    """Of a group that has no place: who would have to go."""


class Forecast(Message, frozen=True, tag="wf"):
    """Where the next pods of a class would go, each on top of those before, found while the scorer had
    nothing to do. In the very state that it was found in, it is what the scorer would answer; in any
    other it is void."""

    epoch: int
    sequence: int
    """Of the copy; it had no placements of the scorer's own."""
    ticket: int
    """What the first would answer to, the others follow: ties are broken by it."""
    class_id: int
    node_rows: list[int]
    took_s: float
    """To find one of them."""


class AskForPods(Message, frozen=True, tag="wn"):
    """Who are the pods on these nodes? Answered by `PodsOnNodes`."""

    epoch: int
    request_id: int
    generation: int
    """Of the copy: pods that came after it are left out, their rows may have been others'."""
    node_rows: list[int]


class ScorerHeartbeat(Message, frozen=True, tag="wb"):
    generation: int
    measured: Measured = NOTHING
    """Since the last heartbeat."""


FromScorer = ScorerHello | ResyncRequest | Proposals | Forecast | AskForPods | ScorerHeartbeat

FROM_SCORER: Final[Codec[FromScorer]] = Codec("scorers", FromScorer)
