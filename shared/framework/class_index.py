"""ClassIndex: pod classes by what others ask of them, so that nobody goes through all of them.

Each pod of a StatefulSet is a class of its own, so a large cluster has as many classes as pods. A
selector only ever looks at some namespaces, and terms of existing pods concern only the classes
that have any.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from shared.framework.pod_info import PodInfo

Entry = tuple[int, PodInfo]

STALE_MIN: Final = 1024
"""So many classes that are gone are not worth building the index anew."""


class ClassIndex:
    """A view of `classes`, caught up at each question. Relies on ids that only grow."""

    def __init__(self, classes: dict[int, PodInfo]) -> None:
        self._classes = classes
        self._newest = -1
        self._size = 0
        self._by_namespace: dict[str, dict[int, PodInfo]] = {}
        self._by_meant_namespace: dict[str, dict[int, PodInfo]] = {}
        self._with_namespace_selector: dict[int, PodInfo] = {}

    def in_namespaces(self, namespaces: Iterable[str] | None) -> Iterator[Entry]:
        """The classes of some namespaces; None: of all."""
        if namespaces is None:
            yield from self._classes.items()
            return
        self._catch_up()
        for namespace in namespaces:
            yield from _alive(self._by_namespace.get(namespace, {}), self._classes)

    def with_terms_about(self, namespace: str) -> Iterator[Entry]:
        """The classes with affinity or anti-affinity that may be about pods of a namespace."""
        self._catch_up()
        yield from _alive(self._by_meant_namespace.get(namespace, {}), self._classes)
        yield from _alive(self._with_namespace_selector, self._classes)

    def _catch_up(self) -> None:
        if self._size > 2 * len(self._classes) + STALE_MIN:
            self._newest, self._size = -1, 0
            self._by_namespace.clear()
            self._by_meant_namespace.clear()
            self._with_namespace_selector.clear()
        new: list[Entry] = []
        for class_id in reversed(self._classes):
            if class_id <= self._newest:
                break
            new.append((class_id, self._classes[class_id]))
        for class_id, info in reversed(new):
            self._by_namespace.setdefault(info.namespace, {})[class_id] = info
            if info.has_pod_terms:
                self._add_terms(class_id, info)
            self._newest = class_id
        self._size += len(new)

    def _add_terms(self, class_id: int, info: PodInfo) -> None:
        terms = info.pod_terms.all
        if any(not term.namespace_selector.selects_nothing for term in terms):
            self._with_namespace_selector[class_id] = info
            return
        for namespace in frozenset().union(*(term.namespaces for term in terms)):
            self._by_meant_namespace.setdefault(namespace, {})[class_id] = info


def _alive(entries: Mapping[int, PodInfo], classes: Mapping[int, PodInfo]) -> Iterator[Entry]:
    for class_id, info in entries.items():
        if class_id in classes:
            yield class_id, info
