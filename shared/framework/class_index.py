"""Pod classes by what is asked of them, so that nobody goes through all of them or adds up pod by pod.

`ClassUsages` is what pods of each class take of a node, as one matrix: sums over many pods are one array
operation. `ClassIndex` is the classes by what others mean.

Each pod of a StatefulSet is a class of its own, so a large cluster has as many classes as pods. A
selector only ever looks at some namespaces, and terms of existing pods concern only the classes
that have any.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from shared.columns.schema import Int64s, Rows
from shared.columns.table import NodeTable
from shared.columns.usage import PodUsage, usage_of
from shared.framework.pod_info import PodInfo
from shared.selectors.label_selector import EVERYTHING, Labels, Selector, SelectorIndex

EXTRA_COLUMNS: Final = 5
"""Before the resources: pod count (1), non-zero CPU, non-zero memory, and these two."""
PRIORITY: Final = 3
HAS_PORTS: Final = 4
STALE_MIN: Final = 1024
"""So many classes that are gone are not worth dropping all and making the others again."""


class ClassUsages:
    """Usage, and priority, by class id."""

    def __init__(self, nodes: NodeTable, classes: Mapping[int, PodInfo]) -> None:
        self._nodes = nodes
        self._classes = classes
        self.usages: list[PodUsage] = []
        """By index."""
        self.matrix: Int64s = np.zeros((64, EXTRA_COLUMNS + 4), np.int64)
        """Shape (index or more, EXTRA_COLUMNS + resource)."""
        self._index = np.full(64, -1, np.int32)

    def indices(self, class_ids: Int64s) -> Rows:
        """Where in `usages` and `matrix` each class id is; valid until the next call with a class that
        was not asked for before."""
        if not len(class_ids):
            return np.zeros(0, np.intp)
        highest = int(class_ids.max())
        if highest >= len(self._index):
            bigger = np.full(2 * (highest + 1), -1, np.int32)
            bigger[: len(self._index)] = self._index
            self._index = bigger
        found = self._index[class_ids]
        if (found < 0).any():
            if len(self.usages) > 2 * len(self._classes) + STALE_MIN:
                self.start_over()
                found = np.full(len(class_ids), -1, np.int32)
            for class_id in np.unique(class_ids[found < 0]).tolist():
                self._add(class_id)
            found = self._index[class_ids]
        return found.astype(np.intp)

    def priorities(self, class_ids: Int64s) -> Int64s:
        """Of each class id, shape (n,)."""
        indices = self.indices(class_ids)  # First: it learns of new classes.
        priorities: Int64s = self.matrix[indices, PRIORITY]
        return priorities

    def start_over(self) -> None:
        """Forgets what was made so far."""
        self.usages.clear()
        self._index.fill(-1)
        self.matrix.fill(0)

    def _add(self, class_id: int) -> None:
        info = self._classes[class_id]
        usage = usage_of(self._nodes, info.requests, info.host_ports)
        index = len(self.usages)
        rows, columns = self.matrix.shape
        width = EXTRA_COLUMNS + len(usage.amounts)
        if index >= rows or width > columns:
            bigger = np.zeros((max(rows, 2 * index), max(columns, width)), np.int64)
            bigger[:rows, :columns] = self.matrix
            self.matrix = bigger
        self.usages.append(usage)
        line = self.matrix[index]
        nonzero = usage.nonzero_cpu_milli, usage.nonzero_memory_bytes
        line[:EXTRA_COLUMNS] = 1, *nonzero, info.priority, bool(usage.ports)
        line[EXTRA_COLUMNS:width] = usage.amounts
        self._index[class_id] = index


Entry = tuple[int, PodInfo]

LABELS_MAX: Final = 256
"""So many labels have their values told apart at once; with one more all begin anew."""


class ClassIndex:
    """A view of `classes`, caught up at each question. Relies on ids that only grow."""

    def __init__(self, classes: dict[int, PodInfo]) -> None:
        self._classes = classes
        self._start_over()

    def _start_over(self) -> None:
        self._newest = -1
        self._size = 0
        self._by_namespace: dict[str, dict[int, PodInfo]] = {}
        self._by_value: dict[tuple[str, str], dict[str, dict[int, PodInfo]]] = {}
        """By namespace and label, of those labels that were asked for: by its value."""
        self._about_namespace = defaultdict[str, SelectorIndex[Entry]](SelectorIndex)
        self._with_namespace_selector = SelectorIndex[Entry]()
        self._by_claim: dict[str, list[int]] = {}

    def selected(self, namespaces: Iterable[str] | None, selector: Selector) -> Iterator[Entry]:
        """Classes of some namespaces (None: of all), all that the selector selects among them."""
        if namespaces is None:
            yield from self._classes.items()
            return
        self._catch_up()
        needs = selector.needs
        for namespace in namespaces:
            if needs is None:
                yield from _alive(self._by_namespace.get(namespace, {}).items(), self._classes)
            for key, value in needs or ():
                by_value = self._values(namespace, key)
                groups = by_value.values() if value is None else (by_value.get(value, {}),)
                for group in groups:
                    yield from _alive(group.items(), self._classes)

    def with_terms_about(self, namespace: str, labels: Labels) -> Iterator[Entry]:
        """The classes with affinity or anti-affinity that may be about pods with these labels in a
        namespace; some of them several times."""
        self._catch_up()
        for index in (self._about_namespace.get(namespace), self._with_namespace_selector):
            if index is not None:
                yield from _alive(index.about(labels), self._classes)

    def with_claims(self, keys: Iterable[str]) -> set[int]:
        """Ids of the classes that name one of these claims (`namespace/name`) of volumes outright."""
        self._catch_up()
        found = {class_id for key in keys for class_id in self._by_claim.get(key, ())}
        return {class_id for class_id in found if class_id in self._classes}

    def _values(self, namespace: str, key: str) -> dict[str, dict[int, PodInfo]]:
        by_value = self._by_value.get((namespace, key))
        if by_value is None:
            if len(self._by_value) >= LABELS_MAX:
                self._by_value.clear()
            by_value = self._by_value[namespace, key] = {}
            for class_id, info in self._by_namespace.get(namespace, {}).items():
                if key in info.labels:
                    by_value.setdefault(info.labels[key], {})[class_id] = info
        return by_value

    def _catch_up(self) -> None:
        if self._size > 2 * len(self._classes) + STALE_MIN:
            self._start_over()
        new: list[Entry] = []
        for class_id in reversed(self._classes):
            if class_id <= self._newest:
                break
            new.append((class_id, self._classes[class_id]))
        for class_id, info in reversed(new):
            self._by_namespace.setdefault(info.namespace, {})[class_id] = info
            for key, value in info.labels.items() if self._by_value else ():
                by_value = self._by_value.get((info.namespace, key))
                if by_value is not None:
                    by_value.setdefault(value, {})[class_id] = info
            if info.has_pod_terms:
                self._add_terms(class_id, info)
            for claim in info.claim_keys if info.spec.volumes else ():
                self._by_claim.setdefault(claim, []).append(class_id)
            self._newest = class_id
        self._size += len(new)

    def _add_terms(self, class_id: int, info: PodInfo) -> None:
        entry = (class_id, info)
        if info.pod_terms.errors:
            self._with_namespace_selector.add(EVERYTHING, entry)  # Whom it means, nobody knows.
        for term in info.pod_terms.all:
            if not term.namespace_selector.selects_nothing:
                self._with_namespace_selector.add(term.selector, entry)
                continue
            for namespace in term.namespaces:
                self._about_namespace[namespace].add(term.selector, entry)


def _alive(entries: Iterable[Entry], classes: Mapping[int, PodInfo]) -> Iterator[Entry]:
    for class_id, info in entries:
        if class_id in classes:
            yield class_id, info
