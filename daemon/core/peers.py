"""Who is connected in one role, and since when nothing was heard of each."""

from collections.abc import Iterator
from typing import ClassVar, Generic, TypeVar

import msgspec


class Peer(msgspec.Struct, eq=False):
    peer: bytes
    index: int
    """Which of the pool; a process that is started again has the same, and another `peer`."""
    last_heard_s: float


P = TypeVar("P", bound=Peer)


class Peers(Generic[P]):
    """By the identity of the connection."""

    SILENCE_MAX_S: ClassVar[float]
    """Who has been silent for so long is stuck, or its host is gone. Nobody wakes for that: there is a
    turn each QUIET_S (`shared/limits.py`) at least."""

    def __init__(self) -> None:
        self._by_peer: dict[bytes, P] = {}

    def __iter__(self) -> Iterator[P]:
        return iter(self._by_peer.values())

    def get(self, peer: bytes) -> P | None:
        return self._by_peer.get(peer)

    def replaced_by(self, peer: bytes, index: int) -> list[bytes]:
        """Those that are gone if this one is there: a process greets again, or was started again."""
        same = (each.peer for each in self if each.index == index)
        return list(dict.fromkeys((peer, *same)))

    def heard(self, peer: bytes, now_s: float) -> P | None:
        """The process said something; None if it is not known."""
        found = self._by_peer.get(peer)
        if found is not None:
            found.last_heard_s = now_s
        return found

    def silent(self, now_s: float) -> list[bytes]:
        """Those that have been for too long."""
        deadline_s = now_s - self.SILENCE_MAX_S
        return [each.peer for each in self if each.last_heard_s < deadline_s]
