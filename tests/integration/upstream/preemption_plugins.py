"""Plugins for preemption: one that lets only so many pods onto a node, and so has room found by its own
rule, and one that has pods wait to be bound."""

import asyncio
from typing import Any, ClassVar

import msgspec
import numpy as np

from shared.columns.schema import Rows
from shared.framework.binding_api import ALLOWED, Allowed, Binding, Refused
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import (
    ON_USAGE,
    WAIT,
    Dependence,
    PermitResult,
    PreFilterResult,
    Reads,
    Scope,
)
from shared.framework.pod_info import PodInfo
from shared.framework.status import Code, Status, Verdicts, single_reason
from shared.kube.pod_record import PodRecord
from tests.support.live import tell


class TokenArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    tokens: int
    is_unresolvable: bool = False


class Tokens:
    """Filter: as many pods as there are tokens."""

    NAME: ClassVar[str] = "Tokens"
    filter_depends: ClassVar[Dependence] = ON_USAGE

    def __init__(self, given: dict[str, Any]) -> None:
        self.args = msgspec.convert(given, TokenArgs)

    def filter(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        spent = cluster.nodes.pod_count[rows] >= self.args.tokens
        code = Code.UNSCHEDULABLE
        if self.args.is_unresolvable:
            code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        return single_reason(spent.astype(np.bool_), code, "no token is left")


class TokensBefore(Tokens):
    """PreFilter says so as well."""

    NAME: ClassVar[str] = "TokensBefore"
    pre_filter_depends: ClassVar[Dependence | None] = Dependence(Reads.PODS, Scope.CLUSTER)

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        if int(cluster.nodes.pod_count.max(initial=0)) < self.args.tokens:
            return PreFilterResult()
        return PreFilterResult(Status(Code.UNSCHEDULABLE, ("no token is left",)))


class PermitsLater:
    """Permit: a pod waits the first time, and does not the second."""

    NAME: ClassVar[str] = "PermitsLater"

    def __init__(self, given: dict[str, Any]) -> None:
        self._seen: set[str] = set()

    def permit(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int
    ) -> PermitResult:
        if record.uid in self._seen:
            return PermitResult()
        self._seen.add(record.uid)
        return PermitResult(WAIT, 900.0)


class PreBindsLater:
    """PreBind: does not end the first time, and at once the second."""

    NAME: ClassVar[str] = "PreBindsLater"

    def __init__(self, given: dict[str, Any]) -> None:
        self._seen: set[str] = set()

    async def pre_bind(self, order: Binding) -> Allowed | Refused:
        if order.uid not in self._seen:
            self._seen.add(order.uid)
            tell(self.NAME, "pre_bind", order.name)
            await asyncio.Event().wait()
        return ALLOWED


ALL = (Tokens, TokensBefore, PermitsLater, PreBindsLater)
ENTRY_POINTS = {plugin.NAME: f"{__name__}:{plugin.__name__}" for plugin in ALL}
