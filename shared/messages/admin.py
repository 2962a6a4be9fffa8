"""Questions that the command line and the supervisor put to the owner, and the answers."""

from typing import Final

import msgspec

from shared.messages.codec import Codec
from shared.messages.measured import HistogramState, LabelledCount


class _Message(msgspec.Struct, array_like=True, frozen=True):
    """Base: positional on the wire, immutable in hand."""


class StatusRequest(_Message, frozen=True, tag="qs"):
    pass


class DumpRequest(_Message, frozen=True, tag="qd"):
    """Everything in cache and queue, as text for people."""


class CompareRequest(_Message, frozen=True, tag="qc"):
    """Check cache and queue for contradictions (SIGUSR2)."""


class StopRequest(_Message, frozen=True, tag="qx"):
    """Stop giving out work; answer when nothing is in flight."""


class QueueRequest(_Message, frozen=True, tag="qq"):
    """Every pending pod, for programs."""

    key: str = ""
    """Of one pod (`namespace/name`): then of it alone, with more that is known of it."""


class CacheRequest(_Message, frozen=True, tag="qa"):
    """Which pods are on which node and in the queue, by uid: for the comparison with the API server."""


class MetricsRequest(_Message, frozen=True, tag="qm"):
    """Everything that is counted, for `/metrics`."""


class PodResourcesRequest(_Message, frozen=True, tag="qr"):
    """What each pod asks for and may use, a page at a time; the first starts at 0."""

    start: int


class NodeLoadsRequest(_Message, frozen=True, tag="ql"):
    """How full each node is, a page at a time; the first starts at 0."""

    start: int


class PendingGroupsRequest(_Message, frozen=True, tag="qp"):
    """What pending pods wait for, summed up, a page at a time; the first starts at 0."""

    start: int


Question = (
    StatusRequest
    | DumpRequest
    | CompareRequest
    | QueueRequest
    | CacheRequest
    | MetricsRequest
    | PodResourcesRequest
    | NodeLoadsRequest
    | PendingGroupsRequest
)
AdminRequest = Question | StopRequest


class QueueLengths(msgspec.Struct, array_like=True, frozen=True):
    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight: int


class StatusAnswer(_Message, frozen=True, tag="as"):
    epoch: int
    generation: int
    synced: bool
    node_count: int
    pod_count: int
    assumed_pod_count: int
    queue: QueueLengths
    scorers_ready: int
    binders_ready: int
    binds_in_flight: int
    counters: dict[str, int]
    """Since the owner's start: scheduled, unschedulable, rejected, bind_failed, ..."""
    is_standby: bool = False
    """Another holds the lease: all is kept up to date, nothing is scheduled."""
    foreign_pods_by_node: dict[str, int] = {}
    """Node -> pods that another scheduler bound there while they waited here; the most first, few."""
    awaited_kinds: list[str] = []
    """Kinds that were not listed yet; while there are any, nothing is scheduled."""
    adapter_told_s: float = 0.0
    """When the adapter last said how it is, by the machine's monotonic clock; 0: not yet."""
    api_heard_s: dict[str, float] = {}
    """Kind -> when the API server last said anything about it, by the same clock."""
    unavailable_kinds: dict[str, str] = {}
    """Kinds that the server did not list, and what it said; berth goes on without them."""
    last_error: str = ""
    """Of the last attempt that ended with an error: the pod, and what was told of it."""
    scorer_lags: dict[int, int] = {}
    """Scorer's number -> how many generations its copy was behind when it last spoke."""


class TextAnswer(_Message, frozen=True, tag="at"):
    lines: list[str]


class PendingPod(msgspec.Struct, array_like=True, frozen=True):
    """One pod of the queue."""

    key: str
    uid: str
    place: str
    """"active", "backoff", "unschedulable" or "in_flight"."""
    attempts: int
    unschedulable_plugins: list[str]
    pending_plugins: list[str]
    gated_by: str
    """The PreEnqueue plugin that holds it; empty if none does."""
    nominated_node: str
    awaited_victims: list[str] = []
    """Uids of the pods on the nominated node that have to go before this one fits."""
    details: "PendingDetails | None" = None
    """Only where one pod was asked for."""


class PastAttempt(msgspec.Struct, array_like=True, frozen=True):
    """An attempt that ended without a node. The moment is of the machine's monotonic clock."""

    ended_s: float
    message: str


class PendingDetails(msgspec.Struct, array_like=True, frozen=True):
    """What is worked out for those who ask for one pod. Moments are of the machine's monotonic clock."""

    added_s: float
    """When the owner first saw it pending."""
    since_s: float
    """When it came to where it is now."""
    backoff_until_s: float
    """When the back-off of its last failure ends; 0: it has not failed."""
    leftover_s: float
    """When it is tried again without a reason, if nothing wakes it before."""
    woken_by: list[str]
    """Events of which one might let it fit, as its plugins registered them."""
    node_name: str
    """Where it is assumed; empty: nowhere."""
    waits_for: list[str]
    """Permit plugins that have not let it pass."""
    past: list[PastAttempt] = []
    """The last ones that failed, the newest last."""
    reason: str = ""
    """What the last one comes to, in a phrase; others with the same one compete with it."""
    competitor_count: int = 0
    """Pods that wait for the same."""
    ahead_count: int = 0
    """Of these, pods of a higher priority."""


class QueueAnswer(_Message, frozen=True, tag="aq"):
    pods: list[PendingPod]
    binds_in_flight: int
    counters: dict[str, int]
    """As in `StatusAnswer`. `adapter_batches` tells up to where the adapter was heard."""


class HeldPod(msgspec.Struct, array_like=True, frozen=True):
    """One pod that the cache or the queue holds."""

    uid: str
    key: str
    is_assumed: bool
    """On its node by our own decision; the API server may not show it there yet."""


class HeldNode(msgspec.Struct, array_like=True, frozen=True):
    """One node of the cache."""

    name: str
    is_ghost: bool
    """Only its pods are known: the API server does not show the node (any more)."""
    pods: list[HeldPod]


class CacheAnswer(_Message, frozen=True, tag="aa"):
    nodes: list[HeldNode]
    pending: list[HeldPod]
    profiles: list[str]
    """Pods of these schedulerNames wait in the queue until they have a node."""


class MetricsAnswer(_Message, frozen=True, tag="am"):
    status: StatusAnswer
    labelled: list[LabelledCount]
    histograms: list[HistogramState]
    unschedulable: list[LabelledCount]
    """Now in the queue, by (plugin, profile)."""


class ResourcesOfTemplate(msgspec.Struct, array_like=True, frozen=True):
    """Of all pods of a template; amounts in the resource's unit."""

    scheduler_name: str
    priority: str
    """Empty where none is stated."""
    requests: dict[str, float]
    limits: dict[str, float]


class ResourcesOfPod(msgspec.Struct, array_like=True, frozen=True):
    namespace: str
    name: str
    node_name: str
    """Empty: it has none."""
    template: int
    """Which of the page's templates."""


class PodResources(_Message, frozen=True, tag="ar"):
    next_start: int
    """Of the next page; below 0: this is the last."""
    templates: list[ResourcesOfTemplate]
    pods: list[ResourcesOfPod]


class NodeLoads(_Message, frozen=True, tag="al"):
    """Nodes that the API server shows. Amounts are int64, little-endian: all nodes' of the first
    resource, then all nodes' of the second."""

    next_start: int
    """Of the next page; below 0: this is the last."""
    resources: list[str]
    """cpu in thousandths; `pods` is one of them."""
    names: list[str]
    zones: list[str]
    requested: bytes
    allocatable: bytes


class PendingGroup(msgspec.Struct, array_like=True, frozen=True):
    """Pods of the queue of which the same is to be said."""

    place: str
    """As in `PendingPod`, or "gated"."""
    reason: str
    """Why they have no node, in a phrase; the gate; empty for those that have their turn."""
    pod_count: int
    least: int
    """They ask for so much of what there is too little of, as the columns count it; 0: no such thing."""
    most: int
    example: str
    """One of them, `namespace/name`."""

    def with_more(self, other: "PendingGroup") -> "PendingGroup":
        """Both as one: the place, reason and example are those of the first."""
        return msgspec.structs.replace(
            self,
            pod_count=self.pod_count + other.pod_count,
            least=min(self.least, other.least),
            most=max(self.most, other.most),
        )


class GangProgress(msgspec.Struct, array_like=True, frozen=True):
    """A pod group with pods in the queue."""

    key: str
    pending_count: int
    placed_count: int
    wanted_count: int
    """So many have to find a place together."""


class RecentDecision(msgspec.Struct, array_like=True, frozen=True):
    """How an attempt ended. The moment, when it began, is of the machine's monotonic clock."""

    begun_s: float
    pod: str
    node: str
    """Empty: nowhere."""
    message: str


class PendingGroups(_Message, frozen=True, tag="ag"):
    next_start: int
    """Of the next page; below 0: this is the last."""
    groups: list[PendingGroup]
    gangs: list[GangProgress]
    recent: list[RecentDecision]
    """With the first page alone; the newest last."""


AdminAnswer = (
    StatusAnswer
    | TextAnswer
    | QueueAnswer
    | CacheAnswer
    | MetricsAnswer
    | PodResources
    | NodeLoads
    | PendingGroups
)

ADMIN_REQUEST: Final[Codec[AdminRequest]] = Codec("admin", AdminRequest)
ADMIN_ANSWER: Final[Codec[AdminAnswer]] = Codec("admin", AdminAnswer)
