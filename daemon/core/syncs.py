"""Which kinds of objects are listed, and what a list under way has shown so far.

A kind is synced by difference: what was held of it and not seen between `SyncStarted` and `SyncFinished`
is gone, which repairs missed deletes.
"""

from collections.abc import Iterable

from shared.kube.resources import ResourceKind


class Syncs:
    def __init__(self, kinds: Iterable[ResourceKind]) -> None:
        self._awaited = {kind.plural for kind in kinds}
        self.is_synced = not self._awaited
        """Every kind was listed whole once, or is known not to be available."""
        self._seen: dict[str, set[str]] = {}
        """Kinds being listed -> uids (pods), names (nodes) or keys seen so far."""
        self.adapter_told_s = 0.0
        self.unavailable: dict[str, str] = {}
        """Kinds that the server did not list, and what it said."""
        self.api_heard_s: dict[str, float] = {}
        """As in `StatusAnswer`."""

    @property
    def awaited_kinds(self) -> list[str]:
        """The kinds that keep `is_synced` from being true."""
        return sorted(self._awaited)

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
        """A list ends: what it showed. None for one that never began here, as of an adapter that was
        replaced meanwhile."""
        return self._seen.pop(kind, None)

    def is_awaited(self, kind: str) -> bool:
        return kind in self._awaited

    def settle(self, kind: str, why_not: str = "") -> None:
        """The kind was listed, or is not available."""
        self._awaited.discard(kind)
        self.is_synced = not self._awaited
        self.unavailable.pop(kind, None)
        if why_not:
            self.unavailable[kind] = why_not
