"""A plugin that lets only so many pods onto a node, and so has preemption find room by its own rule."""

from typing import Any, ClassVar

import msgspec
import numpy as np

from shared.columns.schema import Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ON_USAGE, Dependence, PreFilterResult, Reads, Scope
from shared.framework.pod_info import PodInfo
from shared.framework.status import Code, Status, Verdicts, single_reason


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


ENTRY_POINTS = {plugin.NAME: f"{__name__}:{plugin.__name__}" for plugin in (Tokens, TokensBefore)}
