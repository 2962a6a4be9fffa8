"""NodePorts: the host ports that a pod wants must be free on its node.

Rules: pkg/scheduler/framework/plugins/nodeports/node_ports.go and `HostPortInfo.CheckConflict` in
staging/src/k8s.io/kube-scheduler/framework/types.go, v1.36.2.
"""

from collections.abc import Iterable
from functools import partial
from typing import ClassVar, Final

import numpy as np

from shared.columns.answer_table import AnswerTable
from shared.columns.rows import row_index
from shared.columns.schema import Rows
from shared.columns.table import PortTuple
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import (
    SKIP_FILTER,
    Dependence,
    PreFilterResult,
    Reads,
    Scope,
)
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import (
    Change,
    ClusterEventWithHint,
    PodView,
    QueueingHint,
    as_kind,
    queue_if,
)
from shared.framework.status import Code, Verdicts, single_reason
from shared.plugin_names import NODE_PORTS

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  # An API value, nothing is bound to it here.
REASON: Final = "node(s) didn't have free ports for the requested pod ports"


class NodePorts:
    """Each distinct set of used ports is compared once per pod class."""

    NAME: ClassVar[str] = NODE_PORTS
    ignores_requests: ClassVar[bool] = True
    pre_filter_depends: ClassVar[Dependence | None] = None
    filter_depends: ClassVar[Dependence] = Dependence(Reads.USAGE, Scope.ROW)

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        if not pod.host_ports:
            return SKIP_FILTER
        return PreFilterResult(state=_conflict_table(pod))

    def filter(
        self,
        state: AnswerTable[frozenset[PortTuple]] | None,
        pod: PodInfo,
        cluster: ClusterView,
        rows: Rows,
    ) -> Verdicts:
        nodes = cluster.nodes
        taken = (state or _conflict_table(pod)).covering(nodes.ports.values)
        return single_reason(taken[nodes.ports_id[row_index(rows)]], Code.UNSCHEDULABLE, REASON)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (
            ClusterEventWithHint(Resource.NODE, (Action.ADD,)),
            ClusterEventWithHint(Resource.POD, (Action.DELETE,), self._after_pod_deleted),
        )

    def _after_pod_deleted(
        self, pod: PodView, change: Change, cluster: ClusterView
    ) -> QueueingHint:
        """It held a host port that this pod wants."""
        deleted = as_kind(PodView, change.old)
        if deleted is None or not deleted.holds_node:
            return QueueingHint.SKIP
        return queue_if(conflicts(pod.info.host_ports, deleted.info.host_ports))


def conflicts(wanted: Iterable[PortTuple], used: frozenset[PortTuple]) -> bool:
    """Whether a wanted port is taken: same protocol and number, and one IP or either is any."""
    return any(_is_taken(port, used) for port in wanted)


def _conflict_table(pod: PodInfo) -> AnswerTable[frozenset[PortTuple]]:
    return AnswerTable(partial(conflicts, tuple(pod.host_ports)), np.bool_)


def _is_taken(port: PortTuple, used: frozenset[PortTuple]) -> bool:
    ip, protocol, number = port
    if number <= 0:
        return False
    if ip == ANY_ADDRESS:
        return any(p[1] == protocol and p[2] == number for p in used)
    return port in used or (ANY_ADDRESS, protocol, number) in used
