"""Everything that can happen to the owner: a closed union.

Messages of other processes come with the identity of the connection (`peer`), which changes when
the process is restarted.
"""

from typing import NamedTuple

from shared.messages.admin import AdminRequest
from shared.messages.from_binder import FromBinder
from shared.messages.from_scorer import FromScorer
from shared.messages.to_owner import AdapterBatch


class AdapterSaid(NamedTuple):
    peer: bytes
    batch: AdapterBatch


class ScorerSaid(NamedTuple):
    peer: bytes
    message: FromScorer
    key_name: str = ""
    """Of the key of a worker of another host; empty for those of this host."""


class ScorerGone(NamedTuple):
    """The connection is closed, or would not take a message."""

    peer: bytes


class BinderSaid(NamedTuple):
    peer: bytes
    message: FromBinder


class BinderGone(NamedTuple):
    """It would not take a message."""

    peer: bytes


class AdapterGone(NamedTuple):
    peer: bytes


class AdminAsked(NamedTuple):
    peer: bytes
    request: AdminRequest


class LeaseTaken(NamedTuple):
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
