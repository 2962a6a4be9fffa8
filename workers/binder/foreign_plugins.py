"""Plugins of other packages that take part in bindings, made, by the binding plan.

Their methods `pre_bind`, `bind` and `post_bind` are called as `shared/framework/binding_api.py` has
it. A plugin at the bind point without a `bind` method names a way of binding that we know
(`binder_name`).
"""

from collections.abc import Iterable
from importlib import metadata
from typing import Any

from shared.binding_plan import ProfileBinding
from shared.errors import ConfigurationError
from shared.framework.binding_api import ApiUser
from shared.framework.out_of_tree import make_out_of_tree, plugin_entry_points
from shared.kube.api_client import ApiClient
from workers.binder.bind_call import DefaultBinder
from workers.binder.binding_cycle import PodBinder
from workers.binder.custom_bind import CustomBind


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
