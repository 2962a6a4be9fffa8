"""Plugins of the mirrored tests: each does what its arguments say and tells the test what it did.

They stand for the plugins that upstream's tests register in the scheduler under test, and are loaded
as anybody's are: by entry point, in processes of their own.
"""

from typing import Any, ClassVar

import msgspec
import numpy as np

from shared.columns.schema import Int64s, Rows
from shared.framework.binding_api import ALLOWED, SKIPPED, Allowed, Binding, Refused, Skipped
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import (
    ON_NODE,
    Dependence,
    Handle,
    PermitResult,
    PreFilterResult,
    PreScoreResult,
    Reads,
    Scope,
)
from shared.framework.pod_info import PodInfo
from shared.framework.post_filter import FailedAttempt, PostFilterResult
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.status import SUCCESS, Code, Status, Verdicts, single_reason
from shared.kube.pod_record import PodRecord
from tests.support.live import tell

FAIL = {
    "": SUCCESS,
    "error": Status(Code.ERROR, ("injecting failure for pod",)),
    "reject": Status(Code.UNSCHEDULABLE, ("reject pod",)),
    "wait": Status(Code.WAIT),
    "pending": Status(Code.PENDING, ("pending pod",)),
}


class Settings(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Of all test plugins."""

    answer: str = ""
    """Key of FAIL."""
    timeout_s: float = 60.0
    nodes: list[str] = []


class Base:
    """`about` of what is told is the pod's label `name`, as the class has no name."""

    NAME: ClassVar[str]

    def __init__(self, given: dict[str, Any]) -> None:
        self.settings = msgspec.convert(given, Settings)

    @property
    def answer(self) -> Status:
        return FAIL[self.settings.answer]

    def tell(self, point: str, about: str) -> None:
        tell(self.NAME, point, about)


def name_of(pod: PodInfo) -> str:
    return pod.labels.get("name", "")


class Gate(Base):
    """PreEnqueue."""

    NAME: ClassVar[str] = "Gate"

    def pre_enqueue(self, pod: PodInfo, cluster: ClusterView) -> Status:
        self.tell("pre_enqueue", name_of(pod))
        return self.answer


class PreFilters(Base):
    """PreFilter with `nodes` as the result, or a failure."""

    NAME: ClassVar[str] = "PreFilters"
    pre_filter_depends: ClassVar[Dependence | None] = None

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        self.tell("pre_filter", name_of(pod))
        names = self.settings.nodes
        return PreFilterResult(self.answer, frozenset(names) if names else None)


class Filters(Base):
    """Filter that fails everywhere, or passes `nodes` only."""

    NAME: ClassVar[str] = "Filters"
    filter_depends: ClassVar[Dependence] = ON_NODE

    def filter(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        self.tell("filter", name_of(pod))
        nodes = cluster.nodes
        wanted = self.settings.nodes
        failed = np.array([bool(wanted) and nodes.name_of(r) not in wanted for r in rows.tolist()])
        failed = failed.astype(np.bool_)
        if not self.answer.is_success:
            failed[:] = True
        code = self.answer.code if not self.answer.is_success else Code.UNSCHEDULABLE
        return single_reason(failed, code, self.answer.message or "not of the wanted nodes")


class PostFilters(Base):
    """PostFilter that is asked and finds nothing, or fails."""

    NAME: ClassVar[str] = "PostFilters"

    def post_filter(self, attempt: FailedAttempt) -> PostFilterResult:
        self.tell("post_filter", name_of(attempt.pod.info))
        return PostFilterResult(self.answer)


class OtherPostFilters(PostFilters):
    NAME: ClassVar[str] = "OtherPostFilters"


class PreScores(Base):
    """PreScore alone."""

    NAME: ClassVar[str] = "PreScores"
    pre_score_depends: ClassVar[Dependence | None] = Dependence(Reads.NODE, Scope.CLUSTER)

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:
        self.tell("pre_score", name_of(pod))
        return PreScoreResult(self.answer)


class Scores(Base):
    """Score that prefers the first of `nodes`."""

    NAME: ClassVar[str] = "Scores"
    score_depends: ClassVar[Dependence] = ON_NODE

    def score(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s:
        self.tell("score", name_of(pod))
        best = cluster.nodes.row_of(self.settings.nodes[0])
        scores: Int64s = (rows == best).astype(np.int64) * 100
        return scores


class Normalized(Scores):
    """Raw scores beyond the range, turned over by NormalizeScore: the first of `nodes` comes last."""

    NAME: ClassVar[str] = "Normalized"

    def normalization(self, state: Any, raw: Int64s) -> int:
        return int(raw.max(initial=0))

    def normalize(self, raw: Int64s, normalization: int) -> Int64s:
        self.tell("normalize", "")
        return 100 - 100 * raw // max(normalization, 1)


class Reserves(Base):
    """Reserve and Unreserve."""

    NAME: ClassVar[str] = "Reserves"

    def reserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Status:
        if record.name:  # Not in the scorer, which asks for pods that follow.
            self.tell("reserve", record.name)
            tell("order", "reserve", f"{self.NAME} {record.name}")
        return self.answer

    def unreserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> None:
        self.tell("unreserve", record.name)
        tell("order", "unreserve", f"{self.NAME} {record.name}")


class Reserves2(Reserves):
    NAME: ClassVar[str] = "Reserves2"


class Permits(Base):
    """Permit as the arguments say; pods labelled "allow" or "reject" decide about those that wait."""

    NAME: ClassVar[str] = "Permits"
    _handle: Handle

    def use_handle(self, handle: Handle) -> None:
        self._handle = handle

    def permit(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int
    ) -> PermitResult:
        self.tell("permit", record.name)
        says = pod.labels.get("says", "")
        if says in ("allow", "reject"):
            for waiting in self._handle.waiting_pods():
                if says == "allow":
                    waiting.allow(self.NAME)
                else:
                    waiting.reject(self.NAME, "rejected by a peer")
        if says == "reject":
            return PermitResult(Status(Code.UNSCHEDULABLE, ("rejected itself",)))
        if says:
            return PermitResult()
        return PermitResult(self.answer, self.settings.timeout_s)


class Permits2(Permits):
    NAME: ClassVar[str] = "Permits2"


class Reviews(Permits):
    """Allows waiting pods once there is a service of their name."""

    NAME: ClassVar[str] = "Reviews"

    def review_waiting(self, cluster: ClusterView) -> None:
        for waiting in self._handle.waiting_pods():
            key = f"{waiting.record.namespace}/{waiting.record.name}"
            if cluster.objects.get("services", key) is not None:
                waiting.allow(self.NAME)


class PreBinds(Base):
    """PreBind; pods whose name begins with "fail" or "raise" do so, those with "once" the first time."""

    NAME: ClassVar[str] = "PreBinds"

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)
        self._seen: set[str] = set()

    async def pre_bind(self, order: Binding) -> Allowed | Refused:
        self.tell("pre_bind", order.name)
        is_first = order.uid not in self._seen
        self._seen.add(order.uid)
        if "raise" in order.name:
            raise RuntimeError("injecting failure for pod")
        if "fail" in order.name or ("once" in order.name and is_first):
            return Refused("reject pod")
        return ALLOWED


class Binds(Base):
    """Bind: skips, fails, or binds by the API server, as the pod is called."""

    NAME: ClassVar[str] = "Binds"
    _api: Any

    def use_api(self, api: Any) -> None:
        self._api = api

    async def bind(self, order: Binding) -> Allowed | Refused | Skipped:
        self.tell("bind", order.name)
        if f"skip-{self.NAME.lower()}" in order.name or "skip-all" in order.name:
            return SKIPPED
        if "fail" in order.name:
            return Refused("cannot bind")
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": order.name, "namespace": order.namespace, "uid": order.uid},
            "target": {"kind": "Node", "name": order.node_name},
        }
        path = f"/api/v1/namespaces/{order.namespace}/pods/{order.name}/binding"
        await self._api.post(path, msgspec.json.encode(body))
        if "raise" in order.name:
            raise RuntimeError("after it was done")
        return ALLOWED


class Binds2(Binds):
    NAME: ClassVar[str] = "Binds2"


class PostBinds(Base):
    """PostBind."""

    NAME: ClassVar[str] = "PostBinds"

    async def post_bind(self, order: Binding) -> None:
        self.tell("post_bind", order.name)


class Gang(Base):
    """Pods with the same label `gang` are bound together: `size` of them, or none."""

    NAME: ClassVar[str] = "Gang"
    _handle: Handle

    def use_handle(self, handle: Handle) -> None:
        self._handle = handle

    def reserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Status:
        return SUCCESS

    def unreserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> None:
        for waiting in self._handle.waiting_pods():
            if waiting.pod.labels.get("gang") == pod.labels.get("gang"):
                waiting.reject(self.NAME, "a pod of the gang was rejected")

    def permit(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int
    ) -> PermitResult:
        self.tell("permit", record.name)
        gang = pod.labels["gang"]
        peers = [w for w in self._handle.waiting_pods() if w.pod.labels.get("gang") == gang]
        if len(peers) + 1 < int(pod.labels["size"]):
            return PermitResult(Status(Code.WAIT), self.settings.timeout_s)
        for peer in peers:
            peer.allow(self.NAME)
        return PermitResult()


class Job(Base):
    """Executors need a driver that is on a node; a driver that was placed has them tried again."""

    NAME: ClassVar[str] = "Job"
    pre_filter_depends: ClassVar[Dependence | None] = Dependence(Reads.PODS, Scope.CLUSTER)
    _handle: Handle

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """None helps: only `activate` does."""
        return ()

    def use_handle(self, handle: Handle) -> None:
        self._handle = handle

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        if "driver" in pod.labels:
            return PreFilterResult()
        for table in cluster.pod_tables:
            used = table.class_id[: table.row_count][table.node_row[: table.row_count] >= 0]
            if any("driver" in cluster.classes[c].labels for c in set(used.tolist())):
                return PreFilterResult()
        text = "unable to find driver pod"
        return PreFilterResult(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,)))

    def reserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Status:
        if record.name and "driver" in pod.labels:
            uids = [each.uid for each in self._handle.pending_pods() if "executor" in each.name]
            self._handle.activate(uids)
            self.tell("activate", str(len(uids)))
        return SUCCESS

    def unreserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> None:
        """Nothing to undo."""


ALL = [
    Gate, PreFilters, Filters, PostFilters, OtherPostFilters, PreScores, Scores, Normalized, Reserves,
    Reserves2, Permits, Permits2, Reviews, PreBinds, Binds, Binds2, PostBinds, Gang, Job,
]  # fmt: skip
ENTRY_POINTS = {plugin.NAME: f"{__name__}:{plugin.__name__}" for plugin in ALL}
