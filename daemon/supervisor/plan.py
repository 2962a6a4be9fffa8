"""What a berth is to be: effective options, configuration text, leader election; and its files.

The children read the configuration from a copy in the runtime directory, written once it was checked:
a file that somebody edits, and breaks, is nothing to a child that dies and is started again, until a
reload has checked it too. Other files there tell the other commands what this berth is.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from daemon.supervisor.children import ChildSpec, child_specs
from daemon.supervisor.process_list import replace_file
from shared.child_plan import BindingPlan, ChildPlan, ProfileBinding
from shared.config import SchedulerConfiguration
from shared.framework.runtime.profiles import ProfileConfig
from shared.framework.runtime.registry import BuiltProfile
from shared.plugins.in_tree import IN_TREE
from shared.runtime_options import RuntimeOptions

CONFIG_NAME: Final = "config.yaml"
CONFIGZ_NAME: Final = "configz.json"
FLAGZ_NAME: Final = "flagz.json"


class Plan(NamedTuple):
    """Everything checked; nothing started."""

    children: ChildPlan
    """Nobody's yet, and `config` is the file that was named."""
    config_text: str
    """Empty: no file was named."""
    configz: bytes
    """The effective configuration as JSON, for `/configz`."""


def lay_out(plan: Plan, lifeline_fd: int, identity: str) -> list[ChildSpec]:
    """Writes the plan's files and returns the table of children."""
    options = plan.children.options
    runtime_dir = Path(options.runtime_dir)
    replace_file(runtime_dir / CONFIGZ_NAME, plan.configz)
    replace_file(runtime_dir / FLAGZ_NAME, msgspec.json.encode(flags_of(options)))
    if plan.config_text:
        config_path = runtime_dir / CONFIG_NAME
        replace_file(config_path, plan.config_text.encode())
        options = msgspec.structs.replace(options, config=str(config_path))
    children = msgspec.structs.replace(plan.children, options=options, identity=identity)
    replace_file(children.path, children.encoded())
    return child_specs(children, lifeline_fd)


def flags_of(options: RuntimeOptions) -> dict[str, str]:
    """By the names that they have on the command line. None of them is a secret: those are in files."""
    given: dict[str, Any] = msgspec.to_builtins(options)
    given |= given.pop("overrides") | given.pop("endpoints")
    return {name.replace("_", "-"): _shown(value) for name, value in given.items()}


def _shown(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return f"[{','.join(map(str, value))}]"
        case _:
            return str(value)


def binding_plan(
    configuration: SchedulerConfiguration, built: Iterable[BuiltProfile]
) -> BindingPlan:
    """What binders are told. `built`: the plugins of each profile, made."""
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
