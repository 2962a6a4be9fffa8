"""What somebody makes of each pod class (does it match a selector, which terms does it bring).

Part of the state of one pod class: the value for another class is worked out when a pod of it is
first met, and remembered. Most are nothing, and those are dropped again when there are many.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, TypeVar

V = TypeVar("V")
T = TypeVar("T")

REMEMBERED_MAX: Final = 4096


class ClassValues(Generic[T, V]):
    """Values by class id. `nothing` is also the answer for a class that is gone."""

    __slots__ = ("_known", "_nothing", "_work_out")

    def __init__(self, work_out: Callable[[T], V], nothing: V) -> None:
        self._work_out = work_out
        self._nothing = nothing
        self._known: dict[int, V] = {}

    def learn(self, classes: Iterable[tuple[int, T]]) -> dict[int, V]:
        """Works out the values of all these classes; returns those that are something."""
        found: dict[int, V] = {}
        for class_id, description in classes:
            value = self._work_out(description)
            if value != self._nothing:
                found[class_id] = value
        self._known.update(found)
        return found

    def of(self, class_id: int, classes: Mapping[int, T]) -> V:
        """The value of one class.

        A class that is gone and was never asked for counts as nothing: none of its pods was
        counted by whoever asks, so none must be taken off.
        """
        value = self._known.get(class_id)
        if value is None:
            description = classes.get(class_id)
            if description is None:
                return self._nothing
            value = self._work_out(description)
            if len(self._known) >= REMEMBERED_MAX:
                self._drop(classes)
            self._known[class_id] = value
        return value

    def _drop(self, classes: Mapping[int, T]) -> None:
        """Forgets what can be worked out again.

        What a class that is gone was worth must be kept as long as changes of its pods may still be
        on their way, so half of those stay: the younger ones.
        """
        kept = {i: v for i, v in self._known.items() if v != self._nothing}
        gone = sorted(class_id for class_id in kept if class_id not in classes)
        for class_id in gone[: len(gone) // 2]:
            del kept[class_id]
        self._known = kept
