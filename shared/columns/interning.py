"""Values to small integers, append-only, so that an id keeps its meaning.

Ids are sent to the scorers once, in the order they were given (`delta.py`), hence append-only. What
nobody says any more is dropped from time to time by starting over (`restart`), with new ids for all;
every copy is then made anew.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)


class Interner(Generic[V]):
    """A bijection between values and 0, 1, 2, ... in order of first use."""

    def __init__(self, initial: Sequence[V] = ()) -> None:
        self.values: list[V] = []
        self._ids: dict[V, int] = {}
        self.ids_of(initial)

    def id_of(self, value: V) -> int:
        """The id of `value`, given now if it is new."""
        found = self._ids.get(value)
        if found is None:
            found = len(self.values)
            self._ids[value] = found
            self.values.append(value)
        return found

    def ids_of(self, values: Iterable[V]) -> list[int]:
        """The same as `id_of` for each."""
        ids, known, found = self._ids, self.values, []
        for value in values:
            value_id = ids.get(value)
            if value_id is None:
                value_id = ids[value] = len(known)
                known.append(value)
            found.append(value_id)
        return found

    def find(self, value: V) -> int:
        """The id of `value`, or -1 if nobody has used it yet."""
        return self._ids.get(value, -1)

    def extend(self, first_id: int, values: Sequence[V]) -> None:
        """Takes over ids that another interner gave; `first_id` follows on, or overlaps equally.
        ValueError where it does neither."""
        if not 0 <= first_id <= len(self.values):
            raise ValueError("a range of ids is missing")
        expected = range(first_id, first_id + len(values))
        if self.ids_of(values) != list(expected):
            raise ValueError("ids disagree")

    def restart(self, initial: Sequence[V]) -> None:
        """Forgets everything but `initial`; ids change."""
        self.values.clear()
        self._ids.clear()
        self.ids_of(initial)

    def __len__(self) -> int:
        return len(self.values)
