"""Which kinds of objects are listed, and what a list under way has shown so far.

A kind is synced by difference: what was held of it and not seen between `SyncStarted` and `SyncFinished`
is gone, which repairs missed deletes.
"""

from collections.abc import Iterable

from shared.kube.resources import ResourceKind


class Syncs:
    def __init__(self, kinds: Iterable[ResourceKind]) -> None:
        self.awaited = {kind.plural for kind in kinds}
        """The kinds that keep `is_synced` from being true."""
        self.is_synced = not self.awaited
        """Every kind was listed whole once, or is known not to be available."""
        self._seen: dict[str, set[str]] = {}
        """Kinds being listed -> uids (pods), names (nodes) or keys seen so far."""
        self.adapter_told_s = 0.0
        self.unavailable: dict[str, str] = {}
        """Kinds that the server did not list, and what it said."""
        self.api_heard_s: dict[str, float] = {}
        """As in `StatusAnswer`."""

    def start(self, kind: str) -> None:
        self._seen[kind] = set()

    def is_listed(self, kind: str) -> bool:
        """A list is under way, which has to be told what is there."""
        return kind in self._seen

    def see(self, kind: str, key: str) -> None:
        if self._seen and kind in self._seen:
            self._seen[kind].add(key)

    def unsee(self, kind: str, key: str) -> None:
        if self._seen and kind in self._seen:
            self._seen[kind].discard(key)

    def seen(self, kind: str) -> set[str] | None:
        """A list ends: what it showed. None if it never began here (its adapter was replaced)."""
        return self._seen.pop(kind, None)

    def settle(self, kind: str, why_not: str = "") -> None:
        """The kind was listed, or is not available."""
        self.awaited.discard(kind)
        self.is_synced = not self.awaited
        self.unavailable.pop(kind, None)
        if why_not:
            self.unavailable[kind] = why_not
