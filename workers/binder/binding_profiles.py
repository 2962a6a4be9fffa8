"""Which plugins take part in the binding of a profile's pods, by the binding plan.

In-tree plugins are known by their names: what they do in a binding is the binder's own code
(`pre_binders`, `bind_call.py`), so that a binder needs none of what they decide with, nor numpy.

Of plugins of other packages the methods `pre_bind`, `bind` and `post_bind` are called as
`shared/framework/binding_api.py` describes them. A plugin at the bind point without a `bind` method
names a way of binding that we know (`binder_name`).
"""

from collections.abc import Iterable
from importlib import metadata
from typing import Any

from shared.binding_plan import BindingPlan, ProfileBinding
from shared.errors import ConfigurationError
from shared.framework.binding_api import ApiUser
from shared.framework.out_of_tree import make_out_of_tree, plugin_entry_points
from shared.kube.api_client import ApiClient
from shared.kube.connection_problems import ConnectionProblems
from workers.binder.bind_call import DefaultBinder
from workers.binder.binding_cycle import BindingPlugins, PodBinder, PreBinder
from workers.binder.custom_bind import CustomBind


def plugins_by_profile(
    plan: BindingPlan,
    problems: ConnectionProblems | None,
    api: ApiClient,
    binder: DefaultBinder,
    pre_binders: Iterable[PreBinder],
    entry_points: Iterable[metadata.EntryPoint] | None = None,
) -> dict[str, BindingPlugins]:
    """Profile (schedulerName) -> plugins; ConfigurationError names what is wrong.

    `problems` is told of extenders that do not answer; `pre_binders` stand for the in-tree plugins of
    their names.
    """
    ours = {each.NAME: each for each in pre_binders}
    first: tuple[PodBinder, ...] = ()
    if plan.extenders:
        # Few have any, and what speaks to them is as large as what speaks to the API server.
        from workers.binder.extender_bind import ExtenderBinder

        first = (ExtenderBinder(plan.extenders, binder.look, problems),)
    found: dict[str, BindingPlugins] = {}
    for scheduler_name, profile in plan.profiles.items():
        foreign = _made(profile, entry_points)
        for plugin in foreign.values():
            if isinstance(plugin, ApiUser):
                plugin.use_api(api)
        found[scheduler_name] = BindingPlugins(
            binds=(
                *first,
                *(
                    binder if name == DefaultBinder.NAME else _bind_plugin(foreign[name], binder)
                    for name in profile.bind
                ),
            ),
            pre_binds=tuple(ours.get(name) or foreign[name] for name in profile.pre_bind),
            post_binds=tuple(foreign[name] for name in profile.post_bind),
        )
    return found


def _made(
    profile: ProfileBinding, entry_points: Iterable[metadata.EntryPoint] | None
) -> dict[str, Any]:
    """The plugins of other packages, by name."""
    if not profile.arguments:
        return {}
    found = plugin_entry_points(entry_points)
    missing = sorted(profile.arguments.keys() - found)
    if missing:
        problem = "is not installed any more; reload or start berth anew"
        raise ConfigurationError(f"plugin {missing[0]}", [problem])
    return {name: make_out_of_tree(found[name], args) for name, args in profile.arguments.items()}


def _bind_plugin(plugin: Any, binder: DefaultBinder) -> PodBinder:
    if hasattr(plugin, "bind"):
        return CustomBind(plugin, binder.look)
    way = plugin.binder_name()
    if way == DefaultBinder.NAME:
        return binder
    problem = f"binder_name() is {way!r}, and there is no bind method; use {DefaultBinder.NAME!r}"
    raise ConfigurationError(f"plugin {plugin.NAME}", [problem])
