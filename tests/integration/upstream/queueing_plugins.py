"""Plugins that make the queue visible from outside: one that keeps pods pending, one that wakes them.

Apart from `plugins.py` because these have no arguments and say nothing of themselves.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from shared.columns.schema import Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ON_NODE, Dependence
from shared.framework.pod_info import PodInfo
from shared.framework.status import Code, Verdicts, single_reason

WATCHED = [
    "Node", "AssignedPod", "PersistentVolume", "PersistentVolumeClaim",
    "storage.k8s.io/StorageClass", "storage.k8s.io/CSINode", "storage.k8s.io/CSIDriver",
    "storage.k8s.io/CSIStorageCapacity", "storage.k8s.io/VolumeAttachment",
    "resource.k8s.io/DeviceClass",
]  # fmt: skip


class Watcher:
    """Refuses every node; every event of the cluster wakes its pods, and so does a pod's own label.

    No other update of the pod itself does: its condition is written whenever it is refused.
    """

    NAME: ClassVar[str] = "Watcher"
    filter_depends: ClassVar[Dependence] = ON_NODE
    events: ClassVar[Sequence[tuple[str, str]]] = (
        *((resource, action) for resource in WATCHED for action in ("Add", "Update", "Delete")),
        ("Pod", "UpdatePodLabel"),
    )

    def __init__(self, given: dict[str, Any]) -> None:
        assert not given

    def filter(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        nowhere = np.ones(len(rows), np.bool_)
        return single_reason(nowhere, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, self.NAME)


class Blocker(Watcher):
    """Refuses every node for good: what the plugins before it let pass stays in the queue."""

    NAME: ClassVar[str] = "Blocker"
    events: ClassVar[Sequence[tuple[str, str]]] = ()


ENTRY_POINTS = {plugin.NAME: f"{__name__}:{plugin.__name__}" for plugin in (Watcher, Blocker)}
