"""Outcomes of plugins, for one pod as a whole (`Status`) and for many nodes at once (`Verdicts`).

Codes and their meaning: staging/src/k8s.io/kube-scheduler/framework/interface.go, v1.36.2.
"""

import enum
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.columns.schema import Bools, Int64s


class Code(enum.IntEnum):
    """What a plugin says of a pod, or of a pod on a node."""

    SUCCESS = 0
    ERROR = 1
    """Something went wrong that nobody expected; the attempt ends with SchedulerError."""
    UNSCHEDULABLE = 2
    """Does not fit now; preemption may help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """Does not fit, and removing pods would not help."""
    WAIT = 4
    """Permit only: decide later."""
    SKIP = 5
    """PreFilter, PreScore, Bind: this plugin has nothing to say of this pod."""
    PENDING = 6
    """PreEnqueue, Permit and the like: waits for something outside the scheduler."""


CODE_NAMES = {code: code.name.title().replace("_", "") for code in Code}
"""In kube-scheduler's words, such as "UnschedulableAndUnresolvable"."""


class Status(NamedTuple):
    """One answer for the whole pod."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_success(self) -> bool:
        return self.code is Code.SUCCESS

    @property
    def is_rejected(self) -> bool:
        return self.code in _REJECTIONS

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)


def unresolvable(text: str) -> Status:
    """A pod that removing others would not help, for one reason."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)
_REJECTIONS = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})

Codes = NDArray[np.uint8]
REASONS_MAX = 62
"""A filter's reasons are bits of an int64, and the sign bit stays free."""
MORE_REASONS = "node(s) had further reasons"
"""Told by the last bit, where a filter has more reasons than there are bits."""


class ReasonBits:
    """The texts of a filter that finds its reasons node by node, each with its bit."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._bits: dict[str, int] = {}
        for text in texts:
            self.mask(text)

    @property
    def texts(self) -> tuple[str, ...]:
        """By bit."""
        return tuple(self._bits)

    @property
    def is_full(self) -> bool:
        """Whether a text that is new would be one of those that share the last bit."""
        return len(self._bits) >= REASONS_MAX - 1

    def mask(self, text: str) -> int:
        """The bit that stands for a text."""
        told = MORE_REASONS if self.is_full and text not in self._bits else text
        return 1 << self._bits.setdefault(told, len(self._bits))


class Verdicts(NamedTuple):
    """What one filter says of n nodes. All arrays have shape (n,)."""

    codes: Codes
    """`Code` for each node; 0 where the pod passes."""
    reasons: Int64s
    """Bit i set: `texts[i]` applies. 0 where the pod passes."""
    texts: tuple[str, ...]
    """In the order in which the plugin states its reasons."""

    @property
    def passes(self) -> Bools:
        passed: Bools = self.codes == 0
        return passed

    def status(self, position: int, plugin: str) -> Status:
        """The verdict on the node at `position`, as kube-scheduler would return it."""
        code = Code(int(self.codes[position]))
        bits = int(self.reasons[position])
        reasons = tuple(text for i, text in enumerate(self.texts) if bits >> i & 1)
        return Status(code, reasons, plugin if code is not Code.SUCCESS else "")


class FirstReasons:
    """Verdicts on n nodes that a filter comes to reason by reason: the first one of a node counts."""

    def __init__(self, count: int, texts: Iterable[str] = ()) -> None:
        self.codes = np.zeros(count, np.uint8)
        self.reasons = np.zeros(count, np.int64)
        self.told = ReasonBits(texts)

    def refuse(self, where: Bools, code: Code, text: str) -> None:
        """`where`: shape (n,)."""
        where = where & (self.codes == 0)
        if where.any():
            self.codes[where] = code
            self.reasons[where] = self.told.mask(text)

    def verdicts(self) -> Verdicts:
        return Verdicts(self.codes, self.reasons, self.told.texts)


def single_reason(failed: Bools, code: Code, text: str) -> Verdicts:
    """Verdicts of a filter that has one reason: `failed` (shape (n,)) says where it applies."""
    return Verdicts(failed.astype(np.uint8) * np.uint8(code), failed.astype(np.int64), (text,))
