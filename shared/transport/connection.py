"""What all connections have in common: how they begin and end, and what is said of their messages."""

from typing import Final, NamedTuple, Self

from shared.telemetry.log import EventLog

RECONNECT_MS: Final = 10
"""Pods wait for whoever died to be found again, and a try costs microseconds."""
RECONNECT_MS_MAX: Final = 1000


class Connected(NamedTuple):
    """There is a (new) connection to the owner: greet it. What was sent before may be lost."""


class Closing:
    """`with` closes it at the end."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def note_dropped(problem: object) -> None:
    """A message could not be used. A peer gone wild fills no disk: the log has a bound."""
    EventLog("transport").warning("message_dropped", problem=str(problem))
