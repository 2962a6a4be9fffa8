"""Which plugins take part in the binding of a profile's pods, by the configuration file.

In-tree plugins are known by their names: what they do in a binding is the binder's own code
(`pre_binders`, `bind_call.py`), so that a binder needs none of what they decide with, nor numpy.

Of plugins of other packages the methods `pre_bind`, `bind` and `post_bind` are called as
`shared/framework/binding_api.py` describes them. A plugin at the bind point without a `bind` method
names a way of binding that we know (`binder_name`).
"""

from collections.abc import Iterable, Mapping
from functools import partial
from importlib import metadata
from typing import Any, Final

from shared import plugin_names
from shared.config import SchedulerConfiguration
from shared.errors import ConfigurationError
from shared.framework.binding_api import ApiUser
from shared.framework.runtime.registry import Args, Factory, Registry
from shared.kube.api_client import ApiClient
from shared.kube.connection_problems import ConnectionProblems
from workers.binder.bind_call import DefaultBinder
from workers.binder.binding_cycle import BindingPlugins, PodBinder, PreBinder
from workers.binder.custom_bind import CustomBind
from workers.binder.extender_bind import ExtenderBinder


def plugins_by_profile(
    configuration: SchedulerConfiguration,
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
    registry = Registry(_IN_TREE, entry_points=entry_points)
    ours = {each.NAME: each for each in pre_binders}
    found: dict[str, BindingPlugins] = {}
    first: tuple[PodBinder, ...] = ()
    if any(extender.bind_verb for extender in configuration.extenders):
        first = (ExtenderBinder(configuration.extenders, binder.look, problems),)
    for profile in configuration.profiles:
        at = registry.plugins_of(profile, _POINTS).plugins_at
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


class _InTree:
    """An in-tree plugin in a binder: its name, and whether it binds."""

    def __init__(self, name: str, args: Args) -> None:  # noqa: ARG002  # A Factory.
        self.NAME = name


class _InTreeBinder(_InTree):
    def binder_name(self) -> str:
        return self.NAME


_IN_TREE: Final[Mapping[str, Factory]] = {
    name: partial(_InTreeBinder if name == plugin_names.DEFAULT_BINDER else _InTree, name)
    for name in plugin_names.IN_TREE
}
"""Their arguments were checked before any binder was started."""


def _bind_plugin(plugin: Any, binder: DefaultBinder) -> PodBinder:
    if hasattr(plugin, "bind"):
        return CustomBind(plugin, binder.look)
    way = plugin.binder_name()
    if way == DefaultBinder.NAME:
        return binder
    problem = f"binder_name() is {way!r}, and there is no bind method; use {DefaultBinder.NAME!r}"
    raise ConfigurationError(f"plugin {plugin.NAME}", [problem])
