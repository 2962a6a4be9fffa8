"""What became of each pod of a run: when it was put in, bound, said to be unschedulable.

Pure: times come in. Waits are futures that the book resolves itself, so that nobody polls.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

Stage = Literal["Scheduled", "Attempted"]

_NO_LABELS: Final[Mapping[str, str]] = {}


class PastPod(NamedTuple):
    """A pod that is gone, and whose name another one has."""

    created_s: float
    bound_s: float
    labels: Mapping[str, str]


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
        self.past: list[PastPod] = []

    def reached(self, stage: Stage) -> Iterator[str]:
        """Pods that have come so far."""
        yield from self.bound_s
        if stage == "Attempted":
            yield from self.refused

    def has(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the pod has all these labels."""
        own = self.labels.get(name, _NO_LABELS)
        return all(own.get(key) == value for key, value in labels.items())

    def bound(self) -> Iterator[PastPod]:
        """All that were ever bound."""
        yield from self.past
        for name, bound_s in self.bound_s.items():
            created_s = self.created_s.get(name, bound_s)
            yield PastPod(created_s, bound_s, self.labels.get(name, _NO_LABELS))


class _Wait:
    """Somebody waits until so many more of the pods that count have come so far."""

    def __init__(self, namespace: str, stage: Stage, counts: Callable[[str], bool]) -> None:
        self.namespace = namespace
        self.stage = stage
        self.counts = counts
        self.missing = 0
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class PodBook:
    """All pods of one run."""

    def __init__(self) -> None:
        self.namespaces: dict[str, NamespaceBook] = {}
        self.double_binds: list[str] = []
        """Pods that were bound to a second node; more than none is a fault."""
        self.nodes: dict[tuple[str, str], str] = {}
        self._waits: list[_Wait] = []

    def of(self, namespace: str) -> NamespaceBook:
        book = self.namespaces.get(namespace)
        if book is None:
            book = self.namespaces[namespace] = NamespaceBook()
        return book

    def created(
        self, namespace: str, name: str, now_s: float, labels: Mapping[str, str] | None = None
    ) -> None:
        book = self.of(namespace)
        bound_s = book.bound_s.pop(name, None)
        if bound_s is not None:
            book.past.append(
                PastPod(book.created_s[name], bound_s, book.labels.get(name, _NO_LABELS))
            )
            self.nodes.pop((namespace, name), None)
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
            was_refused = book.refused.pop(name, None) is not None
            if self._waits:
                self._count(namespace, name, "Scheduled")
                if not was_refused:
                    self._count(namespace, name, "Attempted")

    def refused(self, namespace: str, name: str, message: str) -> None:
        """Its PodScheduled condition is False."""
        book = self.of(namespace)
        if name not in book.bound_s:
            is_new = name not in book.refused
            book.refused[name] = message
            if is_new and self._waits:
                self._count(namespace, name, "Attempted")

    def deleted(self, namespace: str, name: str) -> None:
        book = self.of(namespace)
        book.live.discard(name)
        if book.refused.pop(name, None) is not None:
            self._count(namespace, name, "Attempted", by=-1)

    async def until(
        self, namespace: str, stage: Stage, count: int, counts: Callable[[str], bool] | None = None
    ) -> None:
        """Waits until so many pods of the namespace have come so far; `counts` tells which count, by
        name (all)."""
        wait = _Wait(namespace, stage, counts or (lambda _: True))
        wait.missing = count - sum(map(wait.counts, self.of(namespace).reached(stage)))
        if wait.missing <= 0:
            return
        self._waits.append(wait)
        try:
            await wait.future
        finally:
            if wait in self._waits:
                self._waits.remove(wait)

    def _count(self, namespace: str, name: str, stage: Stage, by: int = 1) -> None:
        """A pod has come so far now, or (-1) is no longer there."""
        for wait in list(self._waits):
            if wait.namespace == namespace and wait.stage == stage and wait.counts(name):
                wait.missing -= by
                if wait.missing <= 0:
                    self._waits.remove(wait)
                    if not wait.future.done():
                        wait.future.set_result(None)

    def selected(
        self, namespaces: Iterable[str], labels: Mapping[str, str] = _NO_LABELS
    ) -> list[tuple[float, float]]:
        """(created, bound) of the bound pods of these namespaces that have all these labels."""
        return [
            (pod.created_s, pod.bound_s)
            for namespace in namespaces
            for pod in self.of(namespace).bound()
            if all(pod.labels.get(key) == value for key, value in labels.items())
        ]

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
