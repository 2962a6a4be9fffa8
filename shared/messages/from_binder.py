"""What binders report to the owner."""

import enum
from typing import Final

import msgspec

from shared.messages.codec import Codec, Message
from shared.telemetry.metrics import NOTHING, Measured


class BindFailureReason(enum.StrEnum):
    """Why a binding failed. Metrics and logs use the same words."""

    CONFLICT = "conflict"
    """The API server refused: bound already elsewhere, gated, or being deleted."""
    GONE = "gone"
    """The pod does not exist any more, or is another one (UID)."""
    REJECTED = "rejected"
    """A Permit or PreBind plugin, or the API server, said no."""
    TIMEOUT = "timeout"
    """The answer never came, and nor was the pod bound while the request could be carried out."""
    UNREACHABLE = "unreachable"
    """No answer and no GET either; the outcome is unknown and the pod must be looked up again."""


class BinderHello(Message, frozen=True, tag="vh"):
    """First message of a binder's life, and again when it sees another epoch of the owner."""

    binder_index: int


class BinderReady(Message, frozen=True, tag="vr"):
    """Orders of `epoch` are welcome. Said again when nothing of before is in flight any more."""

    epoch: int
    in_flight_count: int = 0
    """Bindings and deletions that were ordered before, and may yet be carried out."""


class BindFailed(msgspec.Struct, array_like=True, frozen=True):
    ticket: int
    """As in the order."""
    reason: BindFailureReason
    message: str
    was_announced: bool = False
    """The pod's status.nominatedNodeName was written, or may have been, as the order wanted."""
    claims_left: tuple[str, ...] = ()
    """Keys of resource claims that were allocated for the pod and stay so, as somebody else bound it."""


class VictimDone(msgspec.Struct, array_like=True, frozen=True):
    order_id: int
    problem: str = ""
    """Empty: the deletion was accepted, or the pod is gone anyway."""


class BindReport(Message, frozen=True, tag="vb"):
    """Outcomes since the last report."""

    epoch: int
    finished: list[int]
    """Tickets, as in the orders, of pods that are bound."""
    failed: list[BindFailed]
    victims: list[VictimDone] = []
    """Of preemption, that were dealt with."""
    held_s: float = 0.0
    """How long ago those that finished did so, on average."""


class BinderHeartbeat(Message, frozen=True, tag="vH"):
    binder_index: int
    measured: Measured = NOTHING
    """Since the last heartbeat."""


FromBinder = BinderHello | BinderReady | BindReport | BinderHeartbeat

FROM_BINDER: Final[Codec[FromBinder]] = Codec("binders", FromBinder)
