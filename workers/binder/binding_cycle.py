"""The binding cycle of one pod: Permit, PreBind, Bind, PostBind, as its profile has them.

Plugins come in through the Protocols below, already made; a profile without any of its own binds
with DefaultBinder alone, which is the usual case and costs nothing extra. A plugin may take its
time (it is awaited, other pods go on meanwhile), up to its profile's limit.

Order and meaning: pkg/scheduler/schedule_one.go, bindingCycle, and
pkg/scheduler/framework/runtime/framework.go, v1.36.2.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import BindPod
from shared.plugin_names import DYNAMIC_RESOURCES, VOLUME_BINDING
from workers.binder.bind_call import Bound, NotBound, Outcome
from workers.binder.claim_bind import ClaimBinder
from workers.binder.volume_bind import VolumeBinder

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


Step = tuple[str, str, Callable[[BindPod], Awaitable[Allowed | Refused]]]
"""Extension point, plugin, and what it does there."""


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
        volume_binder: VolumeBinder | None = None,
        claim_binder: ClaimBinder | None = None,
    ) -> None:
        """`default` is for profiles that `by_profile` does not name."""
        self._default = default
        self._by_profile = dict(by_profile or {})
        self._plugin_timeout_s = plugin_timeout_s
        self._volume_binder = volume_binder
        self._claim_binder = claim_binder

    def must_wait(self, order: BindPod) -> bool:
        """Whether something has to be done, or waited for, before the pod can be bound."""
        plugins = self._plugins(order)
        return bool(
            order.volumes is not None or order.claims or plugins.permits or plugins.pre_binds
        )

    async def run(self, order: BindPod) -> Outcome:
        """Takes one pod through its profile's plugins; ends with what became of it."""
        if self.must_wait(order):
            prepared = await self.prepare(order)
            if isinstance(prepared, NotBound):
                return prepared
        return await self.bind(order)

    async def prepare(self, order: BindPod) -> Allowed | NotBound:
        """Permit and PreBind. May take minutes; may be cancelled, as nothing is bound yet."""
        plugins = self._plugins(order)
        prepared = await self._run_plugins(
            [("Permit", p.NAME, p.permit) for p in plugins.permits], order
        )
        if isinstance(prepared, NotBound):
            return prepared
        prepared = await self._bind_volumes(order)
        if isinstance(prepared, NotBound):
            return prepared
        prepared = await self._bind_claims(order)
        if isinstance(prepared, NotBound):
            return prepared
        return await self._run_plugins(
            [("PreBind", p.NAME, p.pre_bind) for p in plugins.pre_binds], order
        )

    async def bind(self, order: BindPod) -> Outcome:
        """Bind and PostBind, of a pod that is prepared or needs no preparation."""
        plugins = self._plugins(order)
        outcome = await _bind(plugins.binds, order)
        if plugins.post_binds and isinstance(outcome, Bound):
            for plugin in plugins.post_binds:
                await plugin.post_bind(order)
        return outcome

    def _plugins(self, order: BindPod) -> BindingPlugins:
        return self._by_profile.get(order.profile, self._default)

    async def _bind_volumes(self, order: BindPod) -> Allowed | NotBound:
        if order.volumes is None:
            return ALLOWED
        assert self._volume_binder is not None, "an order with volumes, and nobody to bind them"
        failed = await self._volume_binder.bind(order, order.volumes)
        if failed is None:
            return ALLOWED
        told = f'PreBind plugin "{VOLUME_BINDING}": {failed.message}'
        return NotBound(BindFailureReason.REJECTED, told)

    async def _bind_claims(self, order: BindPod) -> Allowed | NotBound:
        if not order.claims:
            return ALLOWED
        assert self._claim_binder is not None, "an order with claims, and nobody to bind them"
        failed = await self._claim_binder.bind(order)
        if failed is None:
            return ALLOWED
        told = f'PreBind plugin "{DYNAMIC_RESOURCES}": {failed.message}'
        return NotBound(BindFailureReason.REJECTED, told)

    async def _run_plugins(self, steps: Sequence[Step], order: BindPod) -> Allowed | NotBound:
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
