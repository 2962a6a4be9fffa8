"""Who is connected in one role, and since when nothing was heard of each."""

import math
from typing import Generic, TypeVar

import msgspec


class Peer(msgspec.Struct, eq=False):
    peer: bytes
    index: int
    """Which of the pool; a process that is started again has the same, and another `peer`."""
    last_heard_s: float


P = TypeVar("P", bound=Peer)


class Peers(Generic[P]):
    """By the identity of the connection."""

    def __init__(self) -> None:
        self._by_peer: dict[bytes, P] = {}

    def get(self, peer: bytes) -> P | None:
        return self._by_peer.get(peer)

    def peers(self) -> list[bytes]:
        return list(self._by_peer)

    def replaced_by(self, peer: bytes, index: int) -> list[bytes]:
        """Those that are gone if this one is there: a process greets again, or was started again."""
        same = (each.peer for each in self._by_peer.values() if each.index == index)
        return list(dict.fromkeys((peer, *same)))

    def heard(self, peer: bytes, now_s: float) -> bool:
        """Says whether the process is known."""
        found = self._by_peer.get(peer)
        if found is not None:
            found.last_heard_s = now_s
        return found is not None

    def silent_since(self, deadline_s: float) -> list[bytes]:
        return [p.peer for p in self._by_peer.values() if p.last_heard_s < deadline_s]

    def oldest_heard_s(self) -> float:
        """When the most silent process was last heard; infinite if none is there."""
        return min((each.last_heard_s for each in self._by_peer.values()), default=math.inf)
