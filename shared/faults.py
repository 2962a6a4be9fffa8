"""Whose fault an unexpected exception is: that of the object in hand, or ours.

The simple way lets every exception end its process; then one object of the cluster that nobody thought
of ends it at each start, and nothing is scheduled any more. So where an object enters deciding code,
what is worked out from it is worked out inside `reading`, before anything of our state is changed: an
exception there leaves the object out and the state as it was. Outside of it, and inside `changing`, an
exception is a bug of ours and ends the process, as a failed `assert` does everywhere.
"""

from pathlib import Path
from traceback import walk_tb
from typing import Final

from shared.errors import ObjectError, OperationalError
from shared.limits import FAULT_TEXT_LENGTH_MAX

OURS: Final = (AssertionError, MemoryError)
"""Say that our own state or the machine is at fault, whatever object was in hand."""


class ObjectFaultError(ObjectError):
    """What nobody expected to come of an object; `where` is the step that it came up in."""

    def told(self) -> str:
        return self.problem


class reading:  # noqa: N801  # Reads as a statement: `with reading("pod", record):`.
    """Makes an unexpected exception about one object an ObjectFaultError that names it. What is done
    inside changes nothing that others see, or can be undone by whoever catches the error."""

    __slots__ = ("_subject", "_what")

    def __init__(self, what: str, subject: object = "") -> None:
        """The words are put together where they are needed only: hot paths come by here."""
        self._what = what
        self._subject = subject

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, (*OURS, OperationalError)):
            where = f"{self._what} {getattr(self._subject, 'key', self._subject)}".strip()
            raise ObjectFaultError(where, fault_text(error)) from error


class changing:  # noqa: N801  # Reads as a statement.
    """What is done inside changes our state: an exception would leave it half changed, and is a bug of
    ours even where an object is being read."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, OURS):
            raise AssertionError(fault_text(error)) from error  # noqa: TRY004 # No type is checked.


def fault_text(error: Exception) -> str:
    """What is known of an unexpected exception, for a log line and for people who can look it up; with
    the plugin that it came out of, if it did."""
    place = plugin = ""
    for frame, line in walk_tb(error.__traceback__):
        name = getattr(frame.f_locals.get("self"), "NAME", None)
        plugin = f"plugin {name}: " if isinstance(name, str) else plugin
        place = f" ({Path(frame.f_code.co_filename).name}:{line})"
    text = str(error)
    if len(text) > FAULT_TEXT_LENGTH_MAX:
        text = f"{text[:FAULT_TEXT_LENGTH_MAX]}..."
    return f"{plugin}{type(error).__name__}: {text}{place}"
