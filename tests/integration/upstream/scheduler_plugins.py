"""Plugins of the tests about the scheduler as a whole, as upstream's tests register them there."""

from typing import Any, ClassVar

import msgspec
import numpy as np

from shared.columns.schema import Rows
from shared.framework.binding_api import ALLOWED, Allowed, Binding, Refused, Skipped
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ON_NODE, Dependence, PermitResult
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.status import Code, Status, Verdicts, single_reason
from shared.kube.pod_record import PodRecord
from tests.integration.upstream.plugins import Base, Binds


class Untainted(Base):
    """Filter: refuses nodes with any taint, and hears of changed taints only."""

    NAME: ClassVar[str] = "Untainted"
    filter_depends: ClassVar[Dependence] = ON_NODE

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (ClusterEventWithHint(Resource.NODE, (Action.UPDATE_NODE_TAINT,)),)

    def filter(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        refused = cluster.nodes.taints_id[rows] != 0
        return single_reason(np.asarray(refused, np.bool_), Code.UNSCHEDULABLE, "it is tainted")


class FirstFailBinds(Binds):
    """Bind: fails the first time for each pod."""

    NAME: ClassVar[str] = "FirstFailBinds"

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)
        self._seen: set[str] = set()

    async def bind(self, order: Binding) -> Allowed | Refused | Skipped:
        if order.uid in self._seen:
            return await super().bind(order)
        self._seen.add(order.uid)
        self.tell("bind", order.name)
        return Refused("rejects the pod")


class LabelPermits(Base):
    """Permit: pods wait, until one with the label `rejects` comes; changed labels of nodes help."""

    NAME: ClassVar[str] = "LabelPermits"
    _handle: Any

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (ClusterEventWithHint(Resource.NODE, (Action.UPDATE_NODE_LABEL,)),)

    def use_handle(self, handle: Any) -> None:
        self._handle = handle

    def permit(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int
    ) -> PermitResult:
        self.tell("permit", record.name)
        if "rejects" not in pod.labels:
            return PermitResult(Status(Code.WAIT), 900.0)
        for waiting in self._handle.waiting_pods():
            waiting.reject(self.NAME, "rejected by the test")
        return PermitResult()


class Replaces(Base):
    """PreBind: puts another pod of the same name, which is nobody's, in the place of the pod."""

    NAME: ClassVar[str] = "Replaces"
    _api: Any

    def use_api(self, api: Any) -> None:
        self._api = api

    async def pre_bind(self, order: Binding) -> Allowed | Refused:
        pods = f"/api/v1/namespaces/{order.namespace}/pods"
        await self._api.delete(f"{pods}/{order.name}", b'{"gracePeriodSeconds":0}')
        other = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": order.name, "labels": {"is": "other"}},
            "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "img"}]},
        }
        await self._api.post(pods, msgspec.json.encode(other))
        self.tell("pre_bind", order.name)
        return ALLOWED


ENTRY_POINTS = {
    plugin.NAME: f"{__name__}:{plugin.__name__}"
    for plugin in (Untainted, FirstFailBinds, LabelPermits, Replaces)
}
