"""Everything the owner can ask of the outside: a closed union.

Effects are carried out in the order in which they stand. That order matters: a delta is published
before the work that relies on it is sent.
"""

from collections.abc import Sequence

import msgspec

from shared.columns.delta import Buffer
from shared.messages.admin import AdminAnswer
from shared.messages.to_binder import ToBinder
from shared.messages.to_owner import ToAdapter
from shared.messages.to_scorer import Published, ToScorer


class TellScorer(msgspec.Struct, frozen=True):
    """A message that cannot be sent comes back as `ScorerGone`."""

    peer: bytes
    message: ToScorer
    buffers: Sequence[Buffer] = ()


class Publish(msgspec.Struct, frozen=True):
    """To all scorers."""

    message: Published
    buffers: list[Buffer]


class TellBinder(msgspec.Struct, frozen=True):
    """A message that cannot be sent comes back as `BinderGone`."""

    peer: bytes
    message: ToBinder


class TellAdapter(msgspec.Struct, frozen=True):
    peer: bytes
    message: ToAdapter


class AnswerAdmin(msgspec.Struct, frozen=True):
    peer: bytes
    answer: AdminAnswer


class Note(msgspec.Struct, frozen=True):
    """Something a person may want to know: one line of the log."""

    event: str
    fields: dict[str, object]
    is_warning: bool = False
    is_detail: bool = False
    """Only for who asks for everything."""


Effect = TellScorer | Publish | TellBinder | TellAdapter | AnswerAdmin | Note
