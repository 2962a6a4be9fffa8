"""Plugins of other packages that take part in bindings, made, by the binding plan.

Their methods `pre_bind`, `bind` and `post_bind` are called as `shared/framework/binding_api.py` has
it. A plugin at the bind point without a `bind` method names a way of binding that we know
(`binder_name`); with one it is made safe: nothing is bound twice, and its bugs cost one pod.
"""

from collections.abc import Iterable
from importlib import metadata
from typing import Any, assert_never

from shared.child_plan import ProfileBinding
from shared.errors import ConfigurationError
from shared.framework.binding_api import Allowed, ApiUser, BindPlugin, Refused, Skipped
from shared.framework.out_of_tree import make_out_of_tree, plugin_entry_points
from shared.kube.api_client import ApiClient
from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import BindPod
from workers.binder.bind_call import (
    BOUND,
    DefaultBinder,
    Look,
    NotBound,
    Outcome,
    bind_problem,
    failure_of,
)
from workers.binder.binding_cycle import PodBinder, note_bug


def foreign_plugins(
    profile: ProfileBinding,
    api: ApiClient,
    binder: DefaultBinder,
    entry_points: Iterable[metadata.EntryPoint] | None = None,
) -> tuple[dict[str, Any], dict[str, PodBinder]]:
    """By name: all of the profile, and how those bind that stand at the bind point. ConfigurationError
    names what is wrong."""
    found = plugin_entry_points(entry_points)
    missing = sorted(profile.arguments.keys() - found)
    if missing:
        problem = "is not installed any more; reload or start berth anew"
        raise ConfigurationError(f"plugin {missing[0]}", [problem])
    made = {name: make_out_of_tree(found[name], args) for name, args in profile.arguments.items()}
    for plugin in made.values():
        if isinstance(plugin, ApiUser):
            plugin.use_api(api)
    return made, {name: _way(made[name], binder) for name in profile.bind if name in made}


def _way(plugin: Any, binder: DefaultBinder) -> PodBinder:
    if hasattr(plugin, "bind"):
        return CustomBind(plugin, binder.look)
    way = plugin.binder_name()
    if way == DefaultBinder.NAME:
        return binder
    problem = f"binder_name() is {way!r}, and there is no bind method; use {DefaultBinder.NAME!r}"
    raise ConfigurationError(f"plugin {plugin.NAME}", [problem])


class CustomBind:
    """Asks the API server before the plugin does anything about a pod that may be bound already, and
    after the plugin has failed in the middle of it."""

    def __init__(self, plugin: BindPlugin, look: Look) -> None:
        self._plugin = plugin
        self._look = look

    async def bind(self, order: BindPod) -> Outcome | Skipped:
        if order.look_first:
            # Bound by the binder that was lost, or gone, or unknown; else it is still to be bound.
            seen = await self._look(order)
            if seen is not None:
                return seen
        try:
            answer = await self._plugin.bind(order)
        except Exception as error:  # noqa: BLE001 # A bug must not cost the other bindings.
            note_bug("Bind", self._plugin.NAME, order)
            seen = await self._look(order)
            refused = self._refused(f"internal error: {type(error).__name__}: {error}")
            return refused._replace(reason=failure_of(error)) if seen is None else seen
        match answer:
            case Allowed():
                return BOUND
            case Refused(message):
                return self._refused(message)
            case Skipped():
                return answer
            case _:
                assert_never(answer)

    def _refused(self, message: str) -> NotBound:
        return NotBound(BindFailureReason.REJECTED, bind_problem(self._plugin.NAME, message))
