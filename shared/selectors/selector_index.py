"""What brings a selector, by a label that those whom it selects must have.

Many classes and pods have terms, thousands at times, and each of them is about a few others: who comes
asks for those that may mean it, and is held against no other.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from shared.selectors.label_selector import Labels, Need, Selector

Item = TypeVar("Item")


class SelectorIndex(Generic[Item]):
    """Items, each by one selector or by several."""

    __slots__ = ("_by_need", "_of_anybody")

    def __init__(self) -> None:
        self._by_need: dict[Need, list[Item]] = {}
        self._of_anybody: list[Item] = []

    def add(self, selector: Selector, item: Item) -> None:
        """The item is about those whom the selector selects."""
        needs = selector.needs
        if needs is None:
            self._of_anybody.append(item)
            return
        for need in needs:
            self._by_need.setdefault(need, []).append(item)

    def about(self, labels: Labels) -> Iterator[Item]:
        """Those that may select these labels; as often as they were added for that."""
        yield from self._of_anybody
        if self._by_need:
            for key, value in labels.items():
                yield from self._by_need.get((key, value), ())
                yield from self._by_need.get((key, None), ())
