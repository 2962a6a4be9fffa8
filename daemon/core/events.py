"""Everything that can happen to the owner, and everything that it can ask of the outside: two closed
unions.

Effects are carried out in the order in which they stand. That order matters: a delta is published
before the work that relies on it is sent.
"""

from collections.abc import Sequence

import msgspec

from shared.columns.delta import Buffer
from shared.messages.admin import AdminAnswer
from shared.messages.to_binder import ToBinder
from shared.messages.to_owner import ToAdapter
from shared.messages.to_scorer import SnapshotDelta, ToScorer
from shared.transport.channels import Channel
from shared.transport.heard import PeerGone, Said


class LeaseTaken(msgspec.Struct, frozen=True):
    """This berth leads from now on. There is no event for the end: the owner's life ends with it."""

    term: int


Event = Said | PeerGone | LeaseTaken


class Tell(msgspec.Struct, frozen=True):
    """A message to one process. One that cannot be sent comes back as `PeerGone`."""

    channel: Channel
    peer: bytes
    message: ToAdapter | ToScorer | ToBinder | AdminAnswer
    buffers: Sequence[Buffer] = ()


class Publish(msgspec.Struct, frozen=True):
    """To all scorers."""

    message: SnapshotDelta
    buffers: list[Buffer]


class Note(msgspec.Struct, frozen=True):
    """Something a person may want to know: one line of the log."""

    event: str
    fields: dict[str, object]
    is_warning: bool = False
    is_detail: bool = False
    """Only for who asks for everything."""


Effect = Tell | Publish | Note
