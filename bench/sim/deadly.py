"""A plugin that does not survive some pods: what no boundary inside a process contains.

A pod says by its label whose death it is: the owner's, as soon as it is told of the pod (PreEnqueue), or
that of each worker that looks at it (PreFilter).
"""

from importlib import metadata
from typing import Any, ClassVar, Final

from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import Dependence, PreFilterResult
from shared.framework.pod_info import PodInfo
from shared.framework.registry import ENTRY_POINT_GROUP
from shared.framework.status import SUCCESS, Status

DEADLY: Final = "example.com/deadly-for"
OWNER: Final = "owner"
SCORER: Final = "scorer"


class Death(BaseException):
    """The process is no more, in the middle of what it did."""


class SimulatedDeath:
    """PreEnqueue, which only the owner asks, and PreFilter."""

    NAME: ClassVar[str] = "SimulatedDeath"
    pre_filter_depends: ClassVar[Dependence | None] = None

    def __init__(self, _: dict[str, Any]) -> None:
        """There is nothing to set."""

    def pre_enqueue(self, pod: PodInfo, cluster: ClusterView) -> Status:
        """The owner's end."""
        del cluster
        if pod.labels.get(DEADLY) == OWNER:
            raise Death
        return SUCCESS

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """A worker's end."""
        del cluster
        if pod.labels.get(DEADLY) == SCORER:
            raise Death
        return PreFilterResult()


PLUGIN: Final = metadata.EntryPoint(
    SimulatedDeath.NAME, "bench.sim.deadly:SimulatedDeath", ENTRY_POINT_GROUP
)
