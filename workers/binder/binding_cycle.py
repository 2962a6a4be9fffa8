"""The binding cycle of one pod: PreBind, Bind, PostBind, as its profile has them.

Plugins come in already made; a profile without any of its own binds with DefaultBinder alone, after
volumes and claims where the order names some, which is the usual case and costs nothing extra. A
plugin may take its time (it is awaited, other pods go on meanwhile), up to its profile's limit.
Permit is no part of it: pods wait for that in the owner (`daemon/core/waiting_pods.py`).

Order and meaning: pkg/scheduler/schedule_one.go, bindingCycle, and
pkg/scheduler/framework/runtime/framework.go, v1.36.2.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from typing import Any, Final, NamedTuple, Protocol

from shared.framework.binding_api import ALLOWED, Allowed, PostBindPlugin, Refused, Skipped
from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import BindPod
from shared.telemetry.log import EventLog
from workers.binder.bind_call import Bound, NotBound, Outcome

PREEMPTED: Final = "preempted by DefaultPreemption"
PLUGIN_TIMEOUT_S: Final = 600.0
"""For each PreBind plugin that does not say. VolumeBinding's bindTimeoutSeconds upstream is also 600."""

log = EventLog("binder")


class PreBinder(Protocol):
    """A PreBind plugin, somebody else's or one of ours, which says `NotBound` where nobody knows what
    was done: the order has to be given again."""

    @property
    def NAME(self) -> str: ...  # noqa: N802  # As all plugins call it.

    async def pre_bind(self, order: BindPod) -> Allowed | Refused | NotBound: ...


class PodBinder(Protocol):
    """A way of binding; `foreign_plugins.CustomBind` makes one of a plugin of somebody else."""

    async def bind(self, order: BindPod) -> Outcome | Skipped: ...


class BindingPlugins(NamedTuple):
    binds: tuple[PodBinder, ...]
    pre_binds: tuple[PreBinder, ...] = ()
    post_binds: tuple[PostBindPlugin, ...] = ()


class BindingCycle:
    """All profiles."""

    def __init__(
        self,
        default: BindingPlugins,
        see_late: Callable[[BindPod, NotBound], Awaitable[Outcome]],
        by_profile: Mapping[str, BindingPlugins] | None = None,
        plugin_timeout_s: float = PLUGIN_TIMEOUT_S,
        spawn: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]] = asyncio.create_task,
    ) -> None:
        """`default` is for profiles that `by_profile` does not name. `spawn` starts what runs side by
        side."""
        self._spawn = spawn
        self._see_late = see_late
        self._plugins = defaultdict(lambda: default, by_profile or {})
        self._plugin_timeout_s = plugin_timeout_s

    def must_wait(self, order: BindPod) -> bool:
        """Whether something has to be done, or waited for, before the pod can be bound."""
        return any(map(_has_work, self._plugins[order.profile].pre_binds, repeat(order)))

    async def prepare(self, order: BindPod) -> Allowed | NotBound:
        """PreBind. May take minutes; may be cancelled, as nothing is bound yet."""
        for group in _groups(self._plugins[order.profile].pre_binds, order):
            answer = await self._together(group, order)
            if isinstance(answer, NotBound):
                outcome = await self._ended(order, answer)
                return outcome if isinstance(outcome, NotBound) else ALLOWED
        return ALLOWED

    async def give_up(self, order: BindPod) -> NotBound:
        """Of a pod whose preparation was cancelled, as a more important one needs its place."""
        # Which of several it was that was cut short is nobody's matter: they run side by side.
        (first, *_), *_ = _groups(self._plugins[order.profile].pre_binds, order)
        return await self._undone(order, _not_prepared(first, Refused(PREEMPTED)))

    async def bind(self, order: BindPod) -> Outcome:
        """Bind, of a pod that is prepared or needs none of that. `post_bind` follows if it is bound."""
        for plugin in self._plugins[order.profile].binds:
            outcome = await plugin.bind(order)
            if isinstance(outcome, NotBound):
                return await self._ended(order, outcome)
            if isinstance(outcome, Bound):
                return outcome
        message = f"no Bind plugin of profile {order.profile} takes the pod"
        return await self._ended(order, NotBound(BindFailureReason.REJECTED, message))

    async def post_bind(self, order: BindPod) -> None:
        for plugin in self._plugins[order.profile].post_binds:
            try:
                await plugin.post_bind(order)
            except Exception:  # noqa: BLE001 # The pod is bound, whatever a plugin makes of it.
                note_bug("PostBind", plugin.NAME, order)

    async def _ended(self, order: BindPod, outcome: NotBound) -> Outcome:
        seen = await self._see_late(order, outcome)
        return await self._undone(order, seen) if isinstance(seen, NotBound) else seen

    async def _undone(self, order: BindPod, outcome: NotBound) -> NotBound:
        if outcome.reason is BindFailureReason.UNREACHABLE:
            return outcome  # The pod may be bound.
        left: list[str] = []
        for plugin in self._plugins[order.profile].pre_binds:
            undo = getattr(plugin, "undo", None)
            if undo is None or not _has_work(plugin, order):
                continue
            try:
                async with asyncio.timeout(self._plugin_timeout_s):
                    left += await undo(order)
            except Exception:  # noqa: BLE001 # As in PreBind.
                note_bug("PreBind", plugin.NAME, order)
        return outcome._replace(claims_left=tuple(left))

    async def _together(self, group: Sequence[PreBinder], order: BindPod) -> Allowed | NotBound:
        """Side by side, until all have allowed it or one has not; then none is at work any more."""
        if len(group) == 1:
            return await self._pre_bind(group[0], order)
        left = {self._spawn(self._pre_bind(plugin, order)) for plugin in group}
        try:
            while left:
                done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    answer = task.result()
                    if isinstance(answer, NotBound):
                        return answer
        finally:
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)
        return ALLOWED

    async def _pre_bind(self, plugin: PreBinder, order: BindPod) -> Allowed | NotBound:
        timeout_s = getattr(plugin, "pre_bind_timeout_s", self._plugin_timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await plugin.pre_bind(order)
        except TimeoutError:
            answer = Refused("timed out" + (f" after {timeout_s:g} s" if timeout_s else ""))
        except Exception as error:  # noqa: BLE001 # A plugin's bug must not cost the other bindings.
            note_bug("PreBind", plugin.NAME, order)
            answer = Refused(f"internal error: {type(error).__name__}: {error}")
        return answer if isinstance(answer, Allowed) else _not_prepared(plugin, answer)


def _not_prepared(plugin: PreBinder, answer: Refused | NotBound) -> NotBound:
    reason = answer.reason if isinstance(answer, NotBound) else BindFailureReason.REJECTED
    return NotBound(reason, f'running PreBind plugin "{plugin.NAME}": {answer.message}')


def _groups(plugins: Sequence[PreBinder], order: BindPod) -> Iterator[list[PreBinder]]:
    """Those that have work, in their order; neighbours that allow it run side by side
    (getPreBindPluginGroups in pkg/scheduler/framework/runtime/framework.go, v1.36.2)."""
    for is_parallel, neighbours in groupby(plugins, lambda p: getattr(p, "ALLOWS_PARALLEL", False)):
        at_work = [plugin for plugin in neighbours if _has_work(plugin, order)]
        if not is_parallel:
            yield from ([plugin] for plugin in at_work)
        elif at_work:
            yield at_work


def _has_work(plugin: PreBinder, order: BindPod) -> bool:
    pre_flight = getattr(plugin, "pre_flight", None)
    return pre_flight is None or pre_flight(order)


def note_bug(point: str, plugin: str, order: BindPod) -> None:
    """Of the exception that is being handled."""
    log.exception("plugin_failed", point=point, plugin=plugin, pod=order.pod, ticket=order.ticket)
