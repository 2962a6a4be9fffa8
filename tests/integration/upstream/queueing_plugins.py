"""Plugins that make the queue visible from outside: one that keeps pods pending, one that wakes them.

Apart from `plugins.py` because these have no arguments and say nothing of themselves.
"""

from typing import Any, ClassVar

import numpy as np

from shared.columns.schema import Rows
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ON_NODE, Dependence
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.status import Code, Verdicts, single_reason

WATCHED = (
    Resource.NODE, Resource.ASSIGNED_POD, Resource.PERSISTENT_VOLUME,
    Resource.PERSISTENT_VOLUME_CLAIM, Resource.STORAGE_CLASS, Resource.CSI_NODE, Resource.CSI_DRIVER,
    Resource.CSI_STORAGE_CAPACITY, Resource.VOLUME_ATTACHMENT, Resource.DEVICE_CLASS,
)  # fmt: skip
CHANGES = (Action.ADD, Action.UPDATE, Action.DELETE)


class Watcher:
    """Refuses every node; every event of the cluster wakes its pods, and so does a pod's own label.

    No other update of the pod itself does: its condition is written whenever it is refused.
    """

    NAME: ClassVar[str] = "Watcher"
    filter_depends: ClassVar[Dependence] = ON_NODE

    def __init__(self, given: dict[str, Any]) -> None:
        assert not given

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (
            *(ClusterEventWithHint(resource, CHANGES) for resource in WATCHED),
            ClusterEventWithHint(Resource.POD, (Action.UPDATE_POD_LABEL,)),
        )

    def filter(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        nowhere = np.ones(len(rows), np.bool_)
        return single_reason(nowhere, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, self.NAME)


class Blocker(Watcher):
    """Refuses every node for good: what the plugins before it let pass stays in the queue."""

    NAME: ClassVar[str] = "Blocker"

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return ()


ENTRY_POINTS = {plugin.NAME: f"{__name__}:{plugin.__name__}" for plugin in (Watcher, Blocker)}
