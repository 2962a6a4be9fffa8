"""What the owner hears on its channels, without how it came: apart from the sockets, as deciding code
reads it."""

import msgspec

from shared.messages.admin import AdminRequest
from shared.messages.from_binder import FromBinder
from shared.messages.from_scorer import FromScorer
from shared.messages.to_owner import AdapterBatch
from shared.transport.channels import Channel


class Said(msgspec.Struct, frozen=True):
    peer: bytes
    """Identity of the connection. A restarted process has another one."""
    message: AdapterBatch | FromScorer | FromBinder | AdminRequest
    key_name: str = ""
    """Of the key by which a worker of another host was let in; empty for all of this host."""


class PeerGone(msgspec.Struct, frozen=True):
    """The connection is closed (only of scorers is that heard), or would not take a message."""

    channel: Channel
    peer: bytes
