"""Which plugins take part in the binding of a profile's pods, by the binding plan.

In-tree plugins are known by their names: what they do in a binding is the binder's own code
(`pre_binders`, `bind_call.py`), so that a binder needs none of what they decide with, nor numpy.
Few have extenders or plugins of other packages; what these need is imported where there are any.
"""

from collections.abc import Iterable
from importlib import metadata
from typing import Any

from shared.binding_plan import BindingPlan
from shared.kube.api_client import ApiClient
from shared.kube.connection_problems import ConnectionProblems
from workers.binder.bind_call import DefaultBinder
from workers.binder.binding_cycle import BindingPlugins, PodBinder, PreBinder


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
    in_tree = {each.NAME: each for each in pre_binders}
    first: tuple[PodBinder, ...] = ()
    if plan.extenders:
        from workers.binder.extender_bind import ExtenderBinder, extenders_told

        first = (ExtenderBinder(extenders_told(plan.extenders), binder.look, problems),)
    found: dict[str, BindingPlugins] = {}
    for scheduler_name, profile in plan.profiles.items():
        plugins: dict[str, Any] = {**in_tree}
        binders: dict[str, PodBinder] = {DefaultBinder.NAME: binder}
        if profile.arguments:
            from workers.binder.foreign_plugins import foreign_plugins

            made, ways = foreign_plugins(profile, api, binder, entry_points)
            plugins = made | plugins
            binders |= ways
        found[scheduler_name] = BindingPlugins(
            binds=(*first, *(binders[name] for name in profile.bind)),
            pre_binds=tuple(plugins[name] for name in profile.pre_bind),
            post_binds=tuple(plugins[name] for name in profile.post_bind),
        )
    return found
