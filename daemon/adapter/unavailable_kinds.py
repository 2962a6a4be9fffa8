"""Kinds that the server does not serve, or not to us, told together: they are refused within a moment of
one another, mostly for the same reason, and eighteen lines would hide it."""

import asyncio
from typing import Final

from shared.errors import OperationalError
from shared.kube.connection_problems import remedy_of
from shared.kube.resources import ResourceKind, is_custom
from shared.telemetry.log import EventLog

log: Final = EventLog("adapter")

TELL_AFTER_S: Final = 1.0
NOTHING_SCHEDULED: Final = "nothing is scheduled until it can be listed"
_CUSTOM_REMEDY: Final = (
    "install the CustomResourceDefinition, and let berth list and watch it as docs/plugins.md says"
)


class UnavailableKinds:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._untold: dict[str, list[tuple[ResourceKind, OperationalError]]] = {}
        """By kind of error."""

    def add(self, kind: ResourceKind, error: OperationalError) -> None:
        """To be told soon, with what follows."""
        if not self._untold:
            asyncio.get_running_loop().call_later(TELL_AFTER_S, self._tell)
        self._untold.setdefault(type(error).__name__, []).append((kind, error))

    def _tell(self) -> None:
        untold, self._untold = self._untold, {}
        for refused in untold.values():
            consequences = {
                kind.plural: kind.without_it or NOTHING_SCHEDULED for kind, _ in refused
            }
            error = refused[0][1]
            remedy = remedy_of(error) or "check the server's version"
            if all(is_custom(plural) for plural in consequences):
                remedy = _CUSTOM_REMEDY
            is_fatal = any(kind.is_required for kind, _ in refused)
            (log.error if is_fatal else log.warning)(
                "kinds_unavailable", error=str(error), consequences=consequences, remedy=remedy
            )
