"""Binding by an extender, in place of the profile's Bind plugins.

The owner says which pods extenders bind (`BindPod.extenders`); all others are left to the plugins. An
extender that answered with an error, or not at all, may have bound the pod nevertheless, so the API
server is asked before anybody is told. An ignorable extender that fails leaves the pod to the next.

Rules: `extendersBinding` in pkg/scheduler/schedule_one.go, v1.36.2, which does not look.
"""

from collections.abc import Mapping

import msgspec

from shared.child_plan import reading_files
from shared.errors import OperationalError
from shared.extenders.extender_client import ExtenderClient
from shared.extenders.extender_config import ExtenderConfig
from shared.extenders.extender_wire import bind_args, check_bind_result
from shared.framework.binding_api import SKIPPED, Skipped
from shared.kube.connection_problems import ConnectionProblems
from shared.messages.to_binder import BindPod
from shared.telemetry.log import EventLog
from workers.binder.bind_call import BOUND, Look, NotBound, Outcome, failure_of

log = EventLog("binder.extenders")


def extenders_told(by_position: Mapping[int, msgspec.Raw]) -> dict[int, ExtenderConfig]:
    """Those of the binding plan."""
    return {
        position: msgspec.msgpack.decode(config, type=ExtenderConfig)
        for position, config in by_position.items()
    }


class ExtenderBinder:
    """Stands first among the binders of every profile where an extender has a bindVerb."""

    def __init__(
        self,
        extenders: Mapping[int, ExtenderConfig],
        look: Look,
        problems: ConnectionProblems | None = None,
    ) -> None:
        """`extenders`: those that bind, by their position among all. `problems` is told of calls that
        bring no answer."""
        with reading_files():
            self._clients = {
                position: ExtenderClient(config, problems) for position, config in extenders.items()
            }
        self._look = look

    async def bind(self, order: BindPod) -> Outcome | Skipped:
        """What became of the pod; Skipped if no extender binds it."""
        if order.extenders and order.look_first:
            seen = await self._look(order)
            if seen is not None:
                return seen
        for position in order.extenders:
            client = self._clients[position]
            try:
                check_bind_result(await client.order(client.config.bind_verb, bind_args(order)))
            except OperationalError as error:
                message = str(error)
                seen = await self._look(order)
                if seen is not None:
                    return seen
                if not client.config.ignorable:
                    return NotBound(failure_of(error.__cause__), message)
                log.warning("extender_ignored", extender=client.config.url_prefix, problem=message)
            else:
                return BOUND
        return SKIPPED

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()
