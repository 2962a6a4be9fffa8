"""What one kind's watch has told lately, to notice when it tells it again.

A watch never repeats itself, but servers behind load balancers, proxies and reconnections do: an event
that comes twice does no harm, one that comes late takes the object back to how it was. Versions are
opaque, so nothing is compared but equality: an event is a repetition if its uid came with the same
version before, or if its uid has been deleted.

A kubelet reports at least every five minutes, and 5,000 of them make 17 events a second in which nothing
is new but times that nobody reads; a ReplicaSet's status is written several times for each of its pods.
Each would make void what is known of all pods whose placement depends on such objects. So a digest of
what is read of these is kept, too (`ResourceKind.is_told_by_content`).

What is remembered is bounded; a new list begins anew.
"""

from collections import OrderedDict
from hashlib import blake2b
from typing import Final

import msgspec

from shared.kube.api.meta_v1 import NamedObject
from shared.limits import RECENT_DELETIONS_MAX, RECENT_EVENTS_MAX, TOLD_OBJECTS_MAX

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


class ToldObjects:
    """Those of one kind since the last list; of any beyond the bound everything is told."""

    def __init__(self) -> None:
        self._digests: dict[str, int] = {}

    def is_known(self, item: NamedObject) -> bool:
        """Whether it was told just so, but for the version; remembers it otherwise."""
        key, digest = item.metadata.key, _digest_of(item)
        if self._digests.get(key) == digest:
            return True
        if key in self._digests or len(self._digests) < TOLD_OBJECTS_MAX:
            self._digests[key] = digest
        return False

    def has_gone(self, key: str) -> None:
        """What comes by that key is another object."""
        self._digests.pop(key, None)


def _digest_of(item: NamedObject) -> int:
    meta = item.metadata
    version, generation = meta.resource_version, meta.generation
    meta.resource_version, meta.generation = "", 0  # What a new spec has for us is decoded.
    content = _encoder.encode(item)
    meta.resource_version, meta.generation = version, generation
    return int.from_bytes(blake2b(content, digest_size=_DIGEST_BYTES).digest())
