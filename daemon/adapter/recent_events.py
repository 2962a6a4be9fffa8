"""What one kind's watch has told lately, to notice when it tells it again.

A watch never repeats itself, but servers behind load balancers, proxies and reconnections do: an event
that comes twice does no harm, one that comes late takes the object back to how it was. Versions are
opaque, so nothing is compared but equality: an event is a repetition if its uid came with the same
version before, or if its uid has been deleted.

A kubelet reports at least every five minutes, and 5,000 of them make 17 events a second in which nothing
is new but times that nobody reads. So of a node a digest of what is read of it is kept, too.

What is remembered is bounded; a new list begins anew.
"""

from collections import OrderedDict
from hashlib import blake2b
from typing import Final

import msgspec

from shared.kube.api.core_v1 import Node
from shared.limits import RECENT_DELETIONS_MAX, RECENT_EVENTS_MAX, TOLD_NODES_MAX

_DIGEST_BYTES: Final = 8

_encoder: Final = msgspec.msgpack.Encoder(order="sorted")


class RecentEvents:
    """The events of one kind since its last list."""

    def __init__(self) -> None:
        self._events: OrderedDict[tuple[str, str, bool], None] = OrderedDict()
        self._deleted: OrderedDict[str, None] = OrderedDict()

    def is_repetition(self, uid: str, version: str, *, is_deletion: bool) -> bool:
        """Whether this was told before, or cannot be any more; remembers it otherwise."""
        event = (uid, version, is_deletion)
        if event in self._events or uid in self._deleted:
            return True
        self._events[event] = None
        if len(self._events) > RECENT_EVENTS_MAX:
            self._events.popitem(last=False)
        return False

    def has_gone(self, uid: str) -> None:
        """An object was deleted for good: its uid never comes back."""
        self._deleted[uid] = None
        if len(self._deleted) > RECENT_DELETIONS_MAX:
            self._deleted.popitem(last=False)


class ToldNodes:
    """The nodes since the last list; of any beyond the bound everything is told."""

    def __init__(self) -> None:
        self._digests: dict[str, int] = {}

    def is_known(self, node: Node) -> bool:
        """Whether it was told just so, but for the version; remembers it otherwise."""
        name, digest = node.metadata.name, _digest_of(node)
        if self._digests.get(name) == digest:
            return True
        if name in self._digests or len(self._digests) < TOLD_NODES_MAX:
            self._digests[name] = digest
        return False

    def has_gone(self, name: str) -> None:
        """What comes by that name is another node."""
        self._digests.pop(name, None)


def _digest_of(node: Node) -> int:
    version, node.metadata.resource_version = node.metadata.resource_version, ""
    content = _encoder.encode(node)
    node.metadata.resource_version = version
    return int.from_bytes(blake2b(content, digest_size=_DIGEST_BYTES).digest())
