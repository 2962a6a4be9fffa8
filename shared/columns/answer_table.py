"""What the state of one pod class remembers, worked out when it is first met: an answer for each
interned value (a set of taints, ports or images), and one for each other pod class (does it match a
selector, which terms does it bring).
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from shared.columns.schema import Int32s
from shared.columns.table import Interner

H = TypeVar("H", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")

REMEMBERED_MAX: Final = 4096
"""Beyond what was known at the start. A class takes about 100 bytes here."""


class AnswerTable(Generic[H]):
    """Answers of one pod class's state. Interners grow while it lives, so every use passes the interner,
    and values that came since are answered first; ids never change meaning, hence neither do answers."""

    def __init__(self, answer: Callable[[H], Any], dtype: DTypeLike) -> None:
        self._answer = answer
        self._answers: NDArray[Any] = np.zeros(0, dtype)

    def of(self, values: Interner[H], ids: Int32s) -> NDArray[Any]:
        """The answers for `values` of these ids; may be written to."""
        known, each = len(self._answers), values.values
        if known < len(each):
            new = [self._answer(value) for value in each[known:]]
            self._answers = np.concatenate((self._answers, np.array(new, self._answers.dtype)))
        found: NDArray[Any] = self._answers[ids]
        return found


class ClassValues(Generic[T, V]):
    """Values by class id. `nothing` is also the answer for a class that is gone."""

    def __init__(self, work_out: Callable[[T], V], nothing: V) -> None:
        self._work_out = work_out
        self._nothing = nothing
        self._known: dict[int, V] = {}
        self._known_max = REMEMBERED_MAX

    def learn(self, classes: Iterable[tuple[int, T]]) -> dict[int, V]:
        """Works out the values of all these classes; returns those that are something."""
        values = ((class_id, self._work_out(description)) for class_id, description in classes)
        found = {class_id: value for class_id, value in values if value != self._nothing}
        self._known.update(found)
        self._known_max = 2 * len(self._known) + REMEMBERED_MAX
        return found

    def of(self, class_id: int, classes: Mapping[int, T]) -> V:
        """The value of one class. One that is gone and was never asked for counts as nothing: none of
        its pods was counted by whoever asks, so none must be taken off."""
        value = self._known.get(class_id)
        if value is None:
            description = classes.get(class_id)
            if description is None:
                return self._nothing
            value = self._known[class_id] = self._work_out(description)
        return value

    def something_among(
        self, class_ids: set[int], may_be: Callable[[], Iterable[tuple[int, T]]]
    ) -> set[int]:
        """Those of the classes of which the value is something. `may_be`: all that there are now of
        which it may be, perhaps several times; nothing is worked out for others."""
        known = self._known
        for class_id, description in () if class_ids <= known.keys() else may_be():
            if class_id in class_ids and class_id not in known:
                known[class_id] = self._work_out(description)
        return {each for each in known.keys() & class_ids if known[each] != self._nothing}

    @property
    def is_overgrown(self) -> bool:
        """So many classes came and went that starting anew is the better memory. Dropping some of them
        here would be wrong: the last change of a pod may come after its class is gone, and must be taken
        off with the value with which it was counted."""
        return len(self._known) > self._known_max
