"""Questions that the command line and the supervisor put to the owner, and the answers."""

from typing import Final

import msgspec

from shared.messages.codec import Codec, Message
from shared.telemetry.metrics import Measured


class StatusRequest(Message, frozen=True, tag="qs"):
    pass


class DumpRequest(Message, frozen=True, tag="qd"):
    """Everything in cache and queue, as text for people."""


class CompareRequest(Message, frozen=True, tag="qc"):
    """Check cache and queue for contradictions (SIGUSR2)."""


class StopRequest(Message, frozen=True, tag="qx"):
    """Stop giving out work; answer when nothing is in flight."""


class QueueRequest(Message, frozen=True, tag="qq"):
    """Every pending pod, for programs."""


class PodRequest(Message, frozen=True, tag="qo"):
    """All that is known of one pending pod, for people."""

    key: str
    """`namespace/name`."""


class CacheRequest(Message, frozen=True, tag="qa"):
    """Which pods are on which node and in the queue, by uid: for the comparison with the API server."""


class MetricsRequest(Message, frozen=True, tag="qm"):
    """Everything that is counted, for `/metrics`."""


class PageRequest(Message, frozen=True):
    """A page of what is told a page at a time."""

    start: int
    """0: the first."""


class PodResourcesRequest(PageRequest, frozen=True, tag="qr"):
    """What each pod asks for and may use."""


class NodeLoadsRequest(PageRequest, frozen=True, tag="ql"):
    """How full each node is."""


class PendingGroupsRequest(PageRequest, frozen=True, tag="qp"):
    """What pending pods wait for, summed up."""


Question = (
    StatusRequest
    | DumpRequest
    | CompareRequest
    | QueueRequest
    | PodRequest
    | CacheRequest
    | MetricsRequest
    | PodResourcesRequest
    | NodeLoadsRequest
    | PendingGroupsRequest
)
AdminRequest = Question | StopRequest


class QueueLengths(msgspec.Struct, frozen=True):
    active: int = 0
    backoff: int = 0
    unschedulable: int = 0
    gated: int = 0
    in_flight: int = 0


class StatusAnswer(Message, frozen=True, tag="as"):
    epoch: int = 0
    generation: int = 0
    synced: bool = False
    node_count: int = 0
    pod_count: int = 0
    assumed_pod_count: int = 0
    queue: QueueLengths = QueueLengths()
    scorers_ready: int = 0
    binders_ready: int = 0
    binds_in_flight: int = 0
    counters: dict[str, int] = {}
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


UNKNOWN_STATUS: Final = StatusAnswer()
"""What is known of an owner that gives no answer."""


class TextAnswer(Message, frozen=True, tag="at"):
    lines: list[str]


class PendingPod(msgspec.Struct, array_like=True, frozen=True):
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


class QueueAnswer(Message, frozen=True, tag="aq"):
    pods: list[PendingPod]
    binds_in_flight: int
    counters: dict[str, int]
    """As in `StatusAnswer`. `adapter_batches` tells up to where the adapter was heard."""


class PastFailure(msgspec.Struct, frozen=True):
    ago_s: float
    message: str


class QueueFacts(msgspec.Struct, frozen=True):
    """What the owner knows of a pod that waits. Times in seconds, from the moment of the answer."""

    place: str
    """As in `PendingPod`."""
    attempts: int
    rejected_by: list[str]
    gated_by: str
    nominated_node: str
    awaited_victim_count: int
    pending_for_s: float
    """Since the owner first saw it."""
    here_for_s: float
    """Since it came to where it is now."""
    next_try_in_s: float | None
    """At the latest, without any event; None: it has its turn, or is held by a gate."""
    woken_by: list[str]
    """Events of which one might let it fit, as its plugins registered them."""
    assumed_node: str
    """Empty: nowhere."""
    waits_for: list[str]
    """Permit plugins that have not let it pass."""
    past: list[PastFailure]
    """The last attempts that failed, the newest first."""
    reason: str
    """What the last one comes to, in a phrase; others with the same one compete with it."""
    competitor_count: int
    """Other pods that wait for the same."""
    ahead_count: int
    """Of these, pods of a higher priority."""


class PodAnswer(Message, frozen=True, tag="ao"):
    facts: QueueFacts | None
    """None: no such pod waits."""


class HeldPod(msgspec.Struct, array_like=True, frozen=True):
    uid: str
    key: str
    is_assumed: bool
    """On its node by our own decision; the API server may not show it there yet."""


class HeldNode(msgspec.Struct, array_like=True, frozen=True):
    name: str
    is_ghost: bool
    """Only its pods are known: the API server does not show the node (any more)."""
    pods: list[HeldPod]


class CacheAnswer(Message, frozen=True, tag="aa"):
    nodes: list[HeldNode]
    pending: list[HeldPod]
    profiles: list[str]
    """Pods of these schedulerNames wait in the queue until they have a node."""


class MetricsAnswer(Message, frozen=True, tag="am"):
    status: StatusAnswer
    measured: Measured
    """Since the owner's start; counts of the queue are of now."""


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


class AnswerPage(Message, frozen=True):
    next_start: int
    """Of the next page; below 0: this is the last."""


class PodResources(AnswerPage, frozen=True, tag="ar"):
    templates: list[ResourcesOfTemplate]
    pods: list[ResourcesOfPod]


class NodeLoads(AnswerPage, frozen=True, tag="al"):
    """Nodes that the API server shows. Amounts are int64, little-endian: all nodes' of the first
    resource, then all nodes' of the second."""

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


class GangProgress(msgspec.Struct, frozen=True):
    """A pod group with pods in the queue."""

    group: str
    """`namespace/name`."""
    pending_count: int
    placed_count: int
    wanted_count: int
    """So many have to find a place together."""


class RecentDecision(msgspec.Struct, frozen=True):
    """How an attempt ended, which began `ago_s` before the answer."""

    ago_s: float
    pod: str
    node: str
    """Empty: nowhere."""
    message: str


class PendingGroups(AnswerPage, frozen=True, tag="ag"):
    groups: list[PendingGroup]
    gangs: list[GangProgress]
    recent: list[RecentDecision]
    """With the first page alone; the newest first."""


AdminAnswer = (
    StatusAnswer
    | TextAnswer
    | QueueAnswer
    | PodAnswer
    | CacheAnswer
    | MetricsAnswer
    | PodResources
    | NodeLoads
    | PendingGroups
)

ADMIN_REQUEST: Final[Codec[AdminRequest]] = Codec("admin", AdminRequest)
ADMIN_ANSWER: Final[Codec[AdminAnswer]] = Codec("admin", AdminAnswer)
