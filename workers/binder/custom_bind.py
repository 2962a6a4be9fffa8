"""A Bind plugin of somebody else, made safe: nothing is bound twice, and its bugs cost one pod.

Apart from the binding cycle because DefaultBinder does all of this itself, in fewer requests.
"""

from collections.abc import Awaitable, Callable
from typing import assert_never

from shared.framework.binding_api import Allowed, BindPlugin, Refused, Skipped
from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import BindPod
from shared.telemetry.log import EventLog
from workers.binder.bind_call import BOUND, Bound, NotBound, Outcome, bind_problem

log = EventLog("binder")


Look = Callable[[BindPod, str], Awaitable[Outcome]]
"""Asks the API server about a pod, as `DefaultBinder.look`."""


class CustomBind:
    """Asks the API server before the plugin does anything about a pod that may be bound already, and
    after the plugin has failed in the middle of it."""

    def __init__(self, plugin: BindPlugin, look: Look) -> None:
        self._plugin = plugin
        self._look = look

    async def bind(self, order: BindPod) -> Outcome | Skipped:
        """Ends with what became of the pod."""
        if order.look_first:
            seen = await self._look(order, "")
            # Bound by the binder that was lost, or gone, or unknown; else it is still to be bound.
            if isinstance(seen, Bound) or seen.message:
                return seen
        try:
            answer = await self._plugin.bind(order)
        except Exception as error:  # A plugin's bug must not cost the other bindings.
            whose = {"pod": order.pod, "ticket": order.ticket}
            log.exception("plugin_failed", point="Bind", plugin=self._plugin.NAME, **whose)
            message = self._named(f"internal error: {type(error).__name__}: {error}")
            return await self._look(order, message)
        match answer:
            case Allowed():
                return BOUND
            case Refused(message):
                return NotBound(BindFailureReason.REJECTED, self._named(message))
            case Skipped():
                return answer
            case _:
                assert_never(answer)

    def _named(self, message: str) -> str:
        return bind_problem(self._plugin.NAME, message)
