"""What binders are told of a configuration that was checked."""

from collections.abc import Iterable

import msgspec

from shared.binding_plan import BindingPlan, ProfileBinding
from shared.config import SchedulerConfiguration
from shared.framework.runtime.profiles import ProfileConfig
from shared.framework.runtime.registry import BuiltProfile
from shared.plugins.in_tree import IN_TREE


def binding_plan(
    configuration: SchedulerConfiguration, built: Iterable[BuiltProfile]
) -> BindingPlan:
    """`built`: the plugins of each profile, made."""
    connection = configuration.client_connection
    profiles = zip(configuration.profiles, built, strict=True)
    return BindingPlan(
        qps=connection.qps,
        burst=connection.burst,
        profiles={profile.scheduler_name: _binding(profile, made) for profile, made in profiles},
        extenders={
            position: msgspec.Raw(msgspec.msgpack.encode(extender))
            for position, extender in enumerate(configuration.extenders)
            if extender.bind_verb
        },
    )


def _binding(profile: ProfileConfig, made: BuiltProfile) -> ProfileBinding:
    pre_bind, bind, post_bind = (
        tuple(plugin.NAME for plugin in made.plugins_at[point])
        for point in ("preBind", "bind", "postBind")
    )
    foreign = {*pre_bind, *bind, *post_bind}.difference(IN_TREE)
    return ProfileBinding(
        pre_bind=pre_bind,
        bind=bind,
        post_bind=post_bind,
        arguments={name: profile.plugin_config.get(name, {}) for name in sorted(foreign)},
    )
