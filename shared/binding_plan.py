"""BindingPlan: what a configuration comes to for the binders, as a file in the runtime directory.

The supervisor makes it, who has checked the configuration and knows all plugins. So a binder reads no
configuration and makes no in-tree plugin: it knows these by name, and of what they do it has its own
part. A file of its own, as it may hold the key that an extender asks for.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from shared.errors import ConfigurationError


class ProfileBinding(msgspec.Struct, frozen=True, kw_only=True):
    """The plugins of one profile that take part in bindings, by name and in order."""

    pre_bind: tuple[str, ...]
    bind: tuple[str, ...]
    post_bind: tuple[str, ...]
    arguments: Mapping[str, dict[str, Any]] = {}
    """Of those that come from other packages; all others are in-tree."""


class BindingPlan(msgspec.Struct, frozen=True, kw_only=True):
    qps: float = 0.0
    """With `burst` as in `clientConnection`, of all binders together."""
    burst: int = 0
    profiles: Mapping[str, ProfileBinding] = {}
    """By schedulerName; the others bind by DefaultBinder alone."""
    extenders: Mapping[int, msgspec.Raw] = {}
    """Those that bind, by their position among all, as orders name them: each an `ExtenderConfig`, for
    what speaks to extenders."""

    def encoded(self) -> bytes:
        """As `read_binding_plan` takes it. Not JSON, which has no infinity and no keys but texts."""
        return msgspec.msgpack.encode(self)


def read_binding_plan(path: str) -> BindingPlan:
    """ConfigurationError where the file cannot be used. An empty path: nothing was configured."""
    if not path:
        return BindingPlan()
    try:
        return msgspec.msgpack.decode(Path(path).read_bytes(), type=BindingPlan)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}; berth run writes it for its binders"
        raise ConfigurationError(path, [problem]) from error
    except msgspec.DecodeError as error:
        problem = f"is no plan: {error}; berth run writes it for its binders"
        raise ConfigurationError(path, [problem]) from error
