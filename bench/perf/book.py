"""What became of each pod of a run: when it was put in, bound, said to be unschedulable.

Pure: times come in. Waits are futures that the book resolves itself, so that nobody polls.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, Literal

Stage = Literal["Scheduled", "Attempted"]

_NO_LABELS: Final[Mapping[str, str]] = {}


class NamespaceBook:
    """The pods of one namespace, by name. Times are monotonic seconds."""

    def __init__(self) -> None:
        self.created_s: dict[str, float] = {}
        self.bound_s: dict[str, float] = {}
        self.refused: dict[str, str] = {}
        """Pods without a node whose PodScheduled condition is False, and its message."""
        self.labels: dict[str, Mapping[str, str]] = {}
        self.live: set[str] = set()
        """Created and not deleted."""

    def count(self, stage: Stage) -> int:
        bound = len(self.bound_s)
        return bound if stage == "Scheduled" else bound + len(self.refused)


class PodBook:
    """All pods of one run."""

    def __init__(self) -> None:
        self.namespaces: dict[str, NamespaceBook] = {}
        self.double_binds: list[str] = []
        """Pods that were bound to a second node; more than none is a fault."""
        self.nodes: dict[tuple[str, str], str] = {}
        self._waits: list[tuple[str, Stage, int, asyncio.Future[None]]] = []

    def of(self, namespace: str) -> NamespaceBook:
        book = self.namespaces.get(namespace)
        if book is None:
            book = self.namespaces[namespace] = NamespaceBook()
        return book

    def created(
        self, namespace: str, name: str, now_s: float, labels: Mapping[str, str] | None = None
    ) -> None:
        book = self.of(namespace)
        book.created_s[name] = now_s
        book.live.add(name)
        if labels:
            book.labels[name] = labels

    def bound(self, namespace: str, name: str, node: str, now_s: float) -> None:
        """Seen with a node; seeing it again is harmless."""
        book = self.of(namespace)
        known = self.nodes.setdefault((namespace, name), node)
        if known != node:
            self.double_binds.append(f"{namespace}/{name}: {known} then {node}")
        if name not in book.bound_s:
            book.bound_s[name] = now_s
            book.refused.pop(name, None)
            if self._waits:
                self._wake(namespace, book)

    def refused(self, namespace: str, name: str, message: str) -> None:
        """Its PodScheduled condition is False."""
        book = self.of(namespace)
        if name not in book.bound_s:
            book.refused[name] = message
            if self._waits:
                self._wake(namespace, book)

    def deleted(self, namespace: str, name: str) -> None:
        book = self.of(namespace)
        book.live.discard(name)
        book.refused.pop(name, None)

    async def until(self, namespace: str, stage: Stage, count: int) -> None:
        """Waits until so many pods of the namespace have come so far."""
        if self.of(namespace).count(stage) >= count:
            return
        future = asyncio.get_running_loop().create_future()
        wait = (namespace, stage, count, future)
        self._waits.append(wait)
        try:
            await future
        finally:
            if wait in self._waits:
                self._waits.remove(wait)

    def _wake(self, namespace: str, book: NamespaceBook) -> None:
        for wait in list(self._waits):
            wanted, stage, count, future = wait
            if wanted == namespace and book.count(stage) >= count:
                self._waits.remove(wait)
                if not future.done():
                    future.set_result(None)

    def selected(
        self, namespaces: Iterable[str], labels: Mapping[str, str] = _NO_LABELS
    ) -> list[tuple[float, float]]:
        """(created, bound) of the bound pods of these namespaces that have all these labels."""
        found = []
        for namespace in namespaces:
            book = self.of(namespace)
            for name, bound_s in book.bound_s.items():
                has = book.labels.get(name, _NO_LABELS)
                if all(has.get(key) == value for key, value in labels.items()):
                    found.append((book.created_s.get(name, bound_s), bound_s))
        return found

    def told(self) -> str:
        """How far each namespace has come, for the message of a failure."""
        parts = []
        for namespace, book in self.namespaces.items():
            refusals = set(book.refused.values())
            why = f" ({next(iter(refusals))})" if len(refusals) == 1 else ""
            parts.append(
                f"{namespace}: {len(book.created_s):,} created, {len(book.bound_s):,} bound,"
                f" {len(book.refused):,} refused{why}"
            )
        return "; ".join(parts) or "no pods"
