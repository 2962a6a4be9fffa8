"""A plugin that tells which volumes are available, whenever it hears of one.

A pod of its profile stays in the queue for good: its attempts are what the plugin sees. Apart from
`plugins.py` because it has no arguments, and reads objects.
"""

from typing import Any, ClassVar

from shared.columns.schema import Rows
from shared.framework.cluster_event import Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import Dependence, Reads, Scope
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.status import Verdicts
from tests.integration.upstream.queueing_plugins import CHANGES, Blocker
from tests.support.live import tell

VOLUMES = "persistentvolumes"
AVAILABLE = "available"
"""The extension point that it tells, with the volume's name."""


class VolumeObserver(Blocker):
    """Refuses every node for good; is asked again after every event of a volume."""

    NAME: ClassVar[str] = "VolumeObserver"
    object_kinds: ClassVar[frozenset[str]] = frozenset({VOLUMES})
    filter_depends: ClassVar[Dependence] = Dependence(Reads.NODE | Reads.OBJECTS, Scope.ROW)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (ClusterEventWithHint(Resource.PERSISTENT_VOLUME, CHANGES),)

    def filter(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        for volume in cluster.objects.all(VOLUMES).values():
            if volume.status.phase == "Available":
                tell(self.NAME, AVAILABLE, volume.metadata.name)
        return super().filter(state, pod, cluster, rows)


ENTRY_POINTS = {VolumeObserver.NAME: f"{__name__}:{VolumeObserver.__name__}"}
