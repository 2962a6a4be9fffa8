"""Which object of the cluster a process has in hand, for whoever looks what it died of.

What no boundary inside a process can contain (a crash of a library, no memory, work without an end, an
assertion) would come again with the same object at each start. So an owner or an adapter that has died
is started anew with `--careful`: it takes objects one by one, says by a number which it has in hand
(`Heartbeat`), and goes without those that the supervisor has seen it die of. The number is made of the
object's content, so an object that changes is tried again.
"""

import zlib
from collections.abc import Callable, Collection
from typing import Final, Self

from shared.errors import OperationalError

WHY: Final = (
    "the process that read it ended, or did not come to an end, with it in hand, again and again; it is"
    " tried again when it changes, or by a process that starts after an hour"
)


class InHand:
    """For a process that is careful."""

    def __init__(self, say: Callable[[int], None], left_out: Collection[int] = ()) -> None:
        """`say` is told what is in hand now; 0: nothing."""
        self._say = say
        self._left_out = frozenset(left_out)

    @classmethod
    def asked_for(cls, careful: Collection[int] | None, say: Callable[[int], None]) -> Self | None:
        """As the supervisor wants it; None: nothing has died, and nothing needs to be said."""
        return None if careful is None else cls(say, careful)

    def do(self, content: bytes, work: Callable[[], object]) -> bool:
        """Does the work on the object of this content; False where it is one to go without. What is
        raised as the end of this process leaves the object in hand."""
        number = number_of(content)
        if number in self._left_out:
            return False
        self._say(number)
        try:
            work()
        except OperationalError:
            self._say(0)
            raise
        except BaseException:
            # Other tasks of an event loop may run on until it ends; they must not hide what it ends of.
            self._say = lambda _: None
            raise
        self._say(0)
        return True


def number_of(content: bytes) -> int:
    """Never 0, which means nothing."""
    return zlib.crc32(content) or 1


def option_of(left_out: Collection[int]) -> list[str]:
    """The option with which a process is careful (`shared/child_plan.py`)."""
    return ["--careful", ",".join(map(str, left_out))]
