"""Plugins of installed packages: found by the entry point group `berth.plugins`, and made.

An entry point's name is the plugin's; its object is a callable that takes the arguments as a dict and
returns the plugin. Apart from the registry, as a binder makes some of them and knows no profile.
"""

from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any, Final, cast

from shared.errors import ConfigurationError

ENTRY_POINT_GROUP: Final = "berth.plugins"

Args = dict[str, Any]
Plugin = Any
"""An object with a NAME and methods of `plugin_api`; which ones, only looking at it tells."""
Factory = Callable[[Args], Plugin]


def plugin_entry_points(
    entry_points: Iterable[metadata.EntryPoint] | None = None,
) -> dict[str, metadata.EntryPoint]:
    """By the plugin's name. None: of all packages that are installed."""
    if entry_points is None:
        entry_points = metadata.entry_points(group=ENTRY_POINT_GROUP)
    return {point.name: point for point in entry_points}


def source_of(point: metadata.EntryPoint) -> str:
    """For messages: the plugin, and where it is from."""
    return f"plugin {point.name} ({point.value})"


def make_out_of_tree(point: metadata.EntryPoint, given: Args) -> Plugin:
    """The plugin, with these arguments; ConfigurationError if that fails."""
    try:
        factory = point.load()
    except Exception as error:  # Somebody else's module may raise anything while it is imported.
        told = f"cannot be loaded: {type(error).__name__}: {error}"
        raise ConfigurationError(source_of(point), [told]) from error
    try:
        return cast("Factory", factory)(given)
    except ConfigurationError:
        raise
    except Exception as error:  # As above: what is wrong with the arguments, as it puts it.
        where = f"pluginConfig[{point.name}].args"
        raise ConfigurationError(where, [f"{type(error).__name__}: {error}"]) from error
