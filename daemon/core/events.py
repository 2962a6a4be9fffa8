"""Everything that can happen to the owner: a closed union.

Messages of other processes come with the identity of the connection (`peer`), which changes when
the process is restarted.
"""

import msgspec

from shared.messages.admin import AdminRequest
from shared.messages.from_binder import FromBinder
from shared.messages.from_scorer import FromScorer
from shared.messages.to_owner import AdapterBatch


class AdapterSaid(msgspec.Struct, frozen=True):
    peer: bytes
    batch: AdapterBatch


class ScorerSaid(msgspec.Struct, frozen=True):
    peer: bytes
    message: FromScorer
    key_name: str = ""
    """Of the key of a scorer of another host; empty for those of this host."""


class ScorerGone(msgspec.Struct, frozen=True):
    """The connection is closed, or would not take a message."""

    peer: bytes


class BinderSaid(msgspec.Struct, frozen=True):
    peer: bytes
    message: FromBinder


class BinderGone(msgspec.Struct, frozen=True):
    """It would not take a message."""

    peer: bytes


class AdapterGone(msgspec.Struct, frozen=True):
    peer: bytes


class AdminAsked(msgspec.Struct, frozen=True):
    peer: bytes
    request: AdminRequest


class LeaseTaken(msgspec.Struct, frozen=True):
    """This berth leads from now on. There is no event for the end: the owner's life ends with it."""

    term: int


Event = (
    AdapterSaid
    | ScorerSaid
    | ScorerGone
    | BinderSaid
    | BinderGone
    | AdapterGone
    | AdminAsked
    | LeaseTaken
)
