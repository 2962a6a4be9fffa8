"""NodeName: a pod that names its node goes there or nowhere.

Rule: pkg/scheduler/framework/plugins/nodename/node_name.go, v1.36.2.
"""

from typing import ClassVar, Final

from shared.columns.schema import Rows
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ON_NODE, SKIP_FILTER, Dependence, PreFilterResult
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.status import Code, Verdicts, single_reason
from shared.plugin_names import NODE_NAME

REASON: Final = "node(s) didn't match the requested node name"


class NodeName:
    """The pods that reach a scheduler name no node, so this usually skips."""

    NAME: ClassVar[str] = NODE_NAME
    ignores_requests: ClassVar[bool] = True
    pre_filter_depends: ClassVar[Dependence | None] = None
    filter_depends: ClassVar[Dependence] = ON_NODE

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        return PreFilterResult() if pod.spec.node_name else SKIP_FILTER

    def filter(self, state: None, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        nodes = cluster.nodes
        wanted = pod.spec.node_name
        failed = nodes.name_id[rows] != nodes.names.find(wanted)
        if not wanted:
            failed[:] = False
        return single_reason(failed, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (ClusterEventWithHint(Resource.NODE, (Action.ADD,)),)
