"""A plugin that looks at objects which berth does not know: a pod may wait for a door to be open.

The server has no custom resources: leases stand for them, which no kind of berth's own is. A door is
open while its lease is held by "open". It wants to hear of another resource too, which nobody serves.
"""

from collections.abc import Mapping
from importlib import metadata
from typing import Any, ClassVar, Final

import numpy as np

from shared.columns.schema import Rows
from shared.framework.cluster_event import Action
from shared.framework.cluster_view import ClusterView
from shared.framework.out_of_tree import ENTRY_POINT_GROUP
from shared.framework.plugin_api import Dependence, Reads, Scope
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import Change, ClusterEventWithHint, PodView
from shared.framework.status import Code, Verdicts, single_reason
from shared.kube.resources import CustomObject

DOOR: Final = "example.com/door"
"""The label of a pod that names the door it waits for."""
DOORS: Final = "leases.v1.coordination.k8s.io"
NOT_SERVED: Final = "foos.v1.example.com"
OPEN: Final = "open"
STATES: Final = (OPEN, "shut")
SHUT: Final = "the door is shut"


def is_open(lease: Mapping[str, Any] | None) -> bool:
    """Whether pods may go in; not by a door that is not there."""
    return lease is not None and lease.get("spec", {}).get("holderIdentity") == OPEN


class SimulatedDoor:
    """Filter."""

    NAME: ClassVar[str] = "SimulatedDoor"
    filter_depends: ClassVar[Dependence] = Dependence(Reads.OBJECTS, Scope.CLUSTER)
    object_kinds: ClassVar[frozenset[str]] = frozenset({DOORS})

    def __init__(self, _: dict[str, Any]) -> None:
        """There is nothing to set."""

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        every = (Action.ADD, Action.UPDATE, Action.DELETE)
        return tuple(ClusterEventWithHint(each, every, _may_go_in) for each in (DOORS, NOT_SERVED))

    def filter(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        del state
        name = pod.labels.get(DOOR)
        door = cluster.objects.get(DOORS, f"{pod.namespace}/{name}")
        is_shut = name is not None and not is_open(_decoded(door))
        return single_reason(np.full(len(rows), is_shut, np.bool_), Code.UNSCHEDULABLE, SHUT)


def _may_go_in(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """It is the pod's door, which was not open before."""
    del cluster
    old, new = change.both(CustomObject)
    is_its_own = new is not None and (pod.info.namespace, pod.info.labels.get(DOOR)) == (
        new.metadata.namespace,
        new.metadata.name,
    )
    return is_its_own and is_open(_decoded(new)) and not is_open(_decoded(old))


def _decoded(door: CustomObject | None) -> dict[str, Any] | None:
    return None if door is None else door.decoded(dict[str, Any])


PLUGIN: Final = metadata.EntryPoint(
    SimulatedDoor.NAME, "bench.sim.door:SimulatedDoor", ENTRY_POINT_GROUP
)
