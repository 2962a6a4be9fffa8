"""An answer for each interned value (a set of taints, ports or images), as an array by id."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

V = TypeVar("V")


class AnswerTable(Generic[V]):
    """Answers worked out when a value is first seen.

    Belongs to the state of one pod class. Interners grow while the state lives, so every use passes
    the interner's values, and those that came since are answered first. Ids never change meaning,
    hence neither do answers.
    """

    __slots__ = ("_answer", "_answers")

    def __init__(self, answer: Callable[[V], Any], dtype: DTypeLike) -> None:
        self._answer = answer
        self._answers: NDArray[Any] = np.zeros(0, dtype)

    def covering(self, values: Sequence[V]) -> NDArray[Any]:
        """The answers by id, for all of `values`."""
        known = len(self._answers)
        if known < len(values):
            new = [self._answer(value) for value in values[known:]]
            self._answers = np.concatenate((self._answers, np.array(new, self._answers.dtype)))
        return self._answers
