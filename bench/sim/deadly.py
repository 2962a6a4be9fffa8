"""A plugin that does not survive some pods: what no boundary inside a process contains.

A pod says by its label whose death it is: the owner's, as soon as it is told of the pod (PreEnqueue), or
that of each worker that looks at it (PreFilter). Of a pod that only waits for such things an owner dies
when it is told of a node, or of another object, that is one by its name. Others nobody dies of: workers
cannot make sense of them, or the plugin has something against them whatever the nodes are.
"""

from importlib import metadata
from typing import Any, ClassVar, Final

from bench.sim.poison import PREFIX
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.out_of_tree import ENTRY_POINT_GROUP
from shared.framework.plugin_api import Dependence, PreFilterResult
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.status import SUCCESS, Code, Status

DEADLY: Final = "example.com/deadly-for"
OWNER: Final = "owner"
SCORER: Final = "scorer"
WHOEVER_SEES: Final = "whoever-sees"
SIGHT: Final = f"{PREFIX}sight"
"""How the names begin of nodes and drivers that no owner survives while such a pod waits for them."""

FAILS_AS: Final = "example.com/fails-as"
EXCEPTION: Final = "exception"
FAILURES: Final = {
    "error": Code.ERROR,
    "never": Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    "no": Code.UNSCHEDULABLE,
}


class Death(BaseException):
    """The process is no more, in the middle of what it did."""


class SimulatedDeath:
    """PreEnqueue, which only the owner asks, and PreFilter."""

    NAME: ClassVar[str] = "SimulatedDeath"
    pre_filter_depends: ClassVar[Dependence | None] = None

    def __init__(self, _: dict[str, Any]) -> None:
        """There is nothing to set."""

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return tuple(ClusterEventWithHint(each, (Action.ADD,)) for each in _SEEN)

    def pre_enqueue(self, pod: PodInfo, cluster: ClusterView) -> Status:
        """The owner's end."""
        deadly_for = pod.labels.get(DEADLY)
        if deadly_for == OWNER or (deadly_for == WHOEVER_SEES and _sees_one(cluster)):
            raise Death
        return _WAITS if deadly_for == WHOEVER_SEES else SUCCESS

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """A worker's end, or what is to be said of the pod."""
        del cluster
        if pod.labels.get(DEADLY) == SCORER:
            raise Death
        fails_as = pod.labels.get(FAILS_AS, "")
        if fails_as == EXCEPTION:
            raise ValueError("made up")
        return PreFilterResult(Status(FAILURES.get(fails_as, Code.SUCCESS)))


_SEEN: Final = (Resource.NODE, Resource.CSI_DRIVER)
_WAITS: Final = Status(Code.UNSCHEDULABLE, ("nothing has been seen",))


def _sees_one(cluster: ClusterView) -> bool:
    nodes = cluster.nodes
    names = [nodes.name_of(row) for row in nodes.present_rows().tolist()]
    return any(name.startswith(SIGHT) for name in (*names, *cluster.objects.all("csidrivers")))


PLUGIN: Final = metadata.EntryPoint(
    SimulatedDeath.NAME, "bench.sim.deadly:SimulatedDeath", ENTRY_POINT_GROUP
)
