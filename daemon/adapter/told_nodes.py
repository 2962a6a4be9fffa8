"""What the nodes said when they were last told, to notice when one only says it again.

A kubelet reports at least every five minutes, and 5,000 of them make 17 events a second in which nothing
is new but times that nobody reads. No node is kept, only a digest of what is read of it, and of so many
nodes at most: of any further one everything is told. A new list begins anew.
"""

from hashlib import blake2b
from typing import Final

import msgspec

from shared.kube.api.core_v1 import Node
from shared.limits import TOLD_NODES_MAX

_DIGEST_BYTES: Final = 8

_encoder: Final = msgspec.msgpack.Encoder(order="sorted")


class ToldNodes:
    """The nodes since the last list."""

    def __init__(self) -> None:
        self._digests: dict[str, int] = {}

    def clear(self) -> None:
        """A new list begins."""
        self._digests.clear()

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
