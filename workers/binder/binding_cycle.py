"""The binding cycle of one pod: Permit, PreBind, Bind, PostBind, as its profile has them.

Plugins come in through the Protocols below, already made; a profile without any of its own binds
with DefaultBinder alone, which is the usual case and costs nothing extra. A plugin may take its
time (it is awaited, other pods go on meanwhile), up to its profile's limit.

Order and meaning: pkg/scheduler/schedule_one.go, bindingCycle, and
pkg/scheduler/framework/runtime/framework.go, v1.36.2.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import BindPod
from workers.binder.bind_call import Bound, NotBound, Outcome

PLUGIN_TIMEOUT_S: Final = 600.0
"""For each of Permit and PreBind. VolumeBinding's bindTimeoutSeconds upstream is also 600."""


class Allowed(NamedTuple):
    """Go on."""


class Refused(NamedTuple):
    """The pod may not be bound now."""

    message: str


class Skipped(NamedTuple):
    """A Bind plugin leaves this pod to the next one."""


ALLOWED: Final = Allowed()
SKIPPED: Final = Skipped()


class PermitPlugin(Protocol):
    """Says whether the pod may be bound, if need be after waiting."""

    NAME: str

    async def permit(self, order: BindPod) -> Allowed | Refused: ...


class PreBindPlugin(Protocol):
    """Prepares what the pod needs on its node (volumes, claims)."""

    NAME: str

    async def pre_bind(self, order: BindPod) -> Allowed | Refused: ...


class BindPlugin(Protocol):
    """Binds the pod."""

    NAME: str

    async def bind(self, order: BindPod) -> Outcome | Skipped: ...


class PostBindPlugin(Protocol):
    """Is told of pods that were bound."""

    NAME: str

    async def post_bind(self, order: BindPod) -> None: ...


class BindingPlugins(NamedTuple):
    """One profile's plugins, in order."""

    binds: tuple[BindPlugin, ...]
    permits: tuple[PermitPlugin, ...] = ()
    pre_binds: tuple[PreBindPlugin, ...] = ()
    post_binds: tuple[PostBindPlugin, ...] = ()


class BindingCycle:
    """All profiles."""

    def __init__(
        self,
        default: BindingPlugins,
        by_profile: Mapping[str, BindingPlugins] | None = None,
        plugin_timeout_s: float = PLUGIN_TIMEOUT_S,
    ) -> None:
        """`default` is for profiles that `by_profile` does not name."""
        self._default = default
        self._by_profile = dict(by_profile or {})
        self._plugin_timeout_s = plugin_timeout_s

    async def run(self, order: BindPod) -> Outcome:
        """Takes one pod through its profile's plugins; ends with what became of it."""
        plugins = self._by_profile.get(order.profile, self._default)
        if plugins.permits or plugins.pre_binds:
            prepared = await self._prepare(plugins, order)
            if isinstance(prepared, NotBound):
                return prepared
        outcome = await _bind(plugins.binds, order)
        if plugins.post_binds and isinstance(outcome, Bound):
            for plugin in plugins.post_binds:
                await plugin.post_bind(order)
        return outcome

    async def _prepare(self, plugins: BindingPlugins, order: BindPod) -> Allowed | NotBound:
        steps = [("Permit", p.NAME, p.permit) for p in plugins.permits]
        steps += [("PreBind", p.NAME, p.pre_bind) for p in plugins.pre_binds]
        for point, name, call in steps:
            try:
                async with asyncio.timeout(self._plugin_timeout_s):
                    answer = await call(order)
            except TimeoutError:
                answer = Refused(f"timed out after {self._plugin_timeout_s:g} s")
            if isinstance(answer, Refused):
                told = f'{point} plugin "{name}": {answer.message}'
                return NotBound(BindFailureReason.REJECTED, told)
        return ALLOWED


async def _bind(binds: tuple[BindPlugin, ...], order: BindPod) -> Outcome:
    for plugin in binds:
        outcome = await plugin.bind(order)
        if not isinstance(outcome, Skipped):
            return outcome
    told = f"no Bind plugin of profile {order.profile} takes the pod"
    return NotBound(BindFailureReason.REJECTED, told)
