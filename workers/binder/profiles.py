"""Which plugins take part in the binding of a profile's pods, by the configuration file.

Apart because it pulls in the plugin registry, and numpy with it, which a binder without a
configuration file does without: then every profile binds with DefaultBinder alone.

A plugin's object comes from the registry; here its methods `permit`, `pre_bind`, `bind` and
`post_bind` are called as `binding_cycle.py` describes them. A plugin at the bind point without a
`bind` method names a way of binding that we know (`binder_name`).
"""

from typing import Any

from shared.config import load_configuration
from shared.errors import ConfigurationError
from shared.framework.registry import Registry
from workers.binder.bind_call import DefaultBinder
from workers.binder.binding_cycle import BindingPlugins, BindPlugin


def plugins_by_profile(config_path: str, binder: DefaultBinder) -> dict[str, BindingPlugins]:
    """Profile (schedulerName) -> plugins; ConfigurationError names what is wrong."""
    registry = Registry()
    found: dict[str, BindingPlugins] = {}
    for profile in load_configuration(config_path).profiles:
        at = registry.build(profile).plugins_at
        found[profile.scheduler_name] = BindingPlugins(
            binds=tuple(_bind_plugin(p, binder) for p in at["bind"]),
            permits=at["permit"],
            pre_binds=at["preBind"],
            post_binds=at["postBind"],
        )
    return found


def _bind_plugin(plugin: Any, binder: DefaultBinder) -> BindPlugin:
    if hasattr(plugin, "bind"):
        custom: BindPlugin = plugin
        return custom
    way = plugin.binder_name()
    if way == DefaultBinder.NAME:
        return binder
    problem = f"binder_name() is {way!r}, and there is no bind method; use {DefaultBinder.NAME!r}"
    raise ConfigurationError(f"plugin {plugin.NAME}", [problem])
