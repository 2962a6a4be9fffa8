"""What a profile says: which plugins run at which extension point, with which weight and arguments.

Apart from the configuration file (`shared/config.py` reads that) and from the plugins themselves
(`registry.py` makes those), so that either can be tested without the other. Nothing here is merged
with the defaults yet and nothing is checked against the plugins that exist: the registry does both.
Shape: KubeSchedulerProfile of kubescheduler.config.k8s.io/v1, v1.36.
"""

from typing import Any, Final

import msgspec

MULTI_POINT: Final = "multiPoint"
EXTENSION_POINTS: Final = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "placementGenerate",
    "placementScore",
)
"""As they are called in a configuration file, without `multiPoint`."""

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"


class PluginSet(msgspec.Struct, frozen=True):
    """`plugins.<extension point>` of a profile."""

    enabled: list[tuple[str, int]] = []
    """(name, weight) in order; weight 0 means that none is stated."""
    disabled: list[str] = []
    """Names; "*" stands for all of the default profile."""


class ProfileConfig(msgspec.Struct, frozen=True):
    """One entry of `profiles`, as written: what it leaves out comes from the default profile."""

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    plugins: dict[str, PluginSet] = {}
    """Extension point (`multiPoint` or one of EXTENSION_POINTS) -> what is enabled and disabled."""
    plugin_config: dict[str, dict[str, Any]] = {}
    """Plugin -> its arguments as in the file, without apiVersion and kind."""
    percentage_of_nodes_to_score: int | None = None
