"""Wakeups of one profile, in few words."""

from functools import cache
from typing import Any

from daemon.core.cache import Cache
from daemon.core.queue.wakeups import Wakeups
from shared.feature_gates import DEFAULT_GATES
from shared.framework.cluster_view import ClusterView
from shared.framework.queueing_hints import Registrations
from shared.framework.runtime.profiles import DEFAULT_SCHEDULER_NAME, ProfileConfig
from shared.plugins.in_tree import InTreeRegistry


def wakeups_of(registrations: Registrations, cluster: ClusterView | None = None) -> Wakeups:
    """For pods of the default profile."""
    return Wakeups({DEFAULT_SCHEDULER_NAME: registrations}, cluster or Cache(DEFAULT_GATES).view)


@cache
def default_registrations() -> Registrations:
    """What the plugins of the default profile register."""
    return registrations_with()


def registrations_with(**args: dict[str, Any]) -> Registrations:
    """The same with plugins that have these arguments."""
    profile = ProfileConfig(plugin_config=args)
    return InTreeRegistry(entry_points=()).build(profile).registrations
