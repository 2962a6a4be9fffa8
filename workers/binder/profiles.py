"""Which plugins take part in the binding of a profile's pods, by the configuration file.

Apart because it pulls in the plugin registry, and numpy with it, which a binder without a
configuration file does without: then every profile binds with DefaultBinder alone.

A plugin's object comes from the registry; here its methods `pre_bind`, `bind` and `post_bind` are
called as `shared/framework/binding_api.py` describes them. A plugin at the bind point without a `bind`
method names a way of binding that we know (`binder_name`).
"""

from collections.abc import Iterable
from typing import Any

from shared.config import SchedulerConfiguration
from shared.errors import ConfigurationError
from shared.framework.binding_api import ApiUser
from shared.framework.registry import Registry
from shared.kube.api_client import ApiClient
from shared.kube.connection_problems import ConnectionProblems
from workers.binder.bind_call import DefaultBinder
from workers.binder.binding_cycle import Binder, BindingPlugins, PreBinder
from workers.binder.custom_bind import CustomBind
from workers.binder.extender_bind import ExtenderBinder


def plugins_by_profile(
    configuration: SchedulerConfiguration,
    registry: Registry,
    problems: ConnectionProblems | None,
    api: ApiClient,
    binder: DefaultBinder,
    pre_binders: Iterable[PreBinder],
) -> dict[str, BindingPlugins]:
    """Profile (schedulerName) -> plugins; ConfigurationError names what is wrong.

    `problems` is told of extenders that do not answer; `pre_binders` stand for the in-tree plugins of
    their names.
    """
    ours = {each.NAME: each for each in pre_binders}
    found: dict[str, BindingPlugins] = {}
    first: tuple[Binder, ...] = ()
    if any(extender.bind_verb for extender in configuration.extenders):
        first = (ExtenderBinder(configuration.extenders, binder, problems),)
    for profile in configuration.profiles:
        at = registry.build(profile).plugins_at
        for plugin in {id(p): p for point in _POINTS for p in at[point]}.values():
            if isinstance(plugin, ApiUser):
                plugin.use_api(api)
        found[profile.scheduler_name] = BindingPlugins(
            binds=(*first, *(_bind_plugin(p, binder) for p in at["bind"])),
            pre_binds=tuple(ours.get(p.NAME) or p for p in at["preBind"]),
            post_binds=at["postBind"],
        )
    return found


_POINTS = ("preBind", "bind", "postBind")


def _bind_plugin(plugin: Any, binder: DefaultBinder) -> Binder:
    if hasattr(plugin, "bind"):
        return CustomBind(plugin, binder)
    way = plugin.binder_name()
    if way == DefaultBinder.NAME:
        return binder
    problem = f"binder_name() is {way!r}, and there is no bind method; use {DefaultBinder.NAME!r}"
    raise ConfigurationError(f"plugin {plugin.NAME}", [problem])
