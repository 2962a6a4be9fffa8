"""What a plugin is: Protocols for kube-scheduler's extension points, over columns of nodes.

A plugin is an object with a `NAME` and any of the methods below; the registry looks at what is there.
It is made once per profile with its arguments. It decides only from what it is given: no I/O, no clock,
no state of its own between calls (what it computes for a pod goes into the state that it returns).

Vectorised: `rows` are indices of nodes (`shared.columns.schema.Rows`, shape (n,)); results have shape
(n,) in the same order. `rows` may be all nodes or a single one, and the result for a row must not
depend on which other rows were asked for at the same time. That is what lets the engine evaluate all
nodes once for a class of pods and after a placement only the touched row again.

Dependence: each plugin states what its result for a row is computed from, so that the engine knows what
to evaluate again after which change. A plugin that looks beyond the row (`Scope`) makes the engine
start a class of pods afresh at each change of what it reads, unless it can bring its own state up to
date (`UpdatableFilter`, `UpdatableScore`).
"""

import enum
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np

from shared.columns.journal import PodChange
from shared.columns.schema import Bools, Int64s, Rows
from shared.columns.table import NodeTable
from shared.columns.topology import Topology
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.status import SKIP, SUCCESS, Code, Status, Verdicts
from shared.kube.pod_record import PodRecord

if TYPE_CHECKING:
    from shared.plugins.resources.kept_resources import KeptScores

UNRATED = -(1 << 62)
"""A raw score that says: this node takes no part in normalisation and gets 0. Shown as 0."""


class Reads(enum.Flag):
    """Groups of facts that change at different times."""

    NODE = enum.auto()
    """Columns of the Node object: labels, taints, allocatable, name, unschedulable, features."""
    USAGE = enum.auto()
    """What the pods on the node take: requested, pod count, host ports."""
    PODS = enum.auto()
    """Which pods (labels, namespaces, terms) are where."""
    OBJECTS = enum.auto()
    """Objects of the other kinds: claims, volumes, services, namespaces, ..."""
    IMAGES = enum.auto()
    """Which images are on which nodes."""


class Scope(enum.Enum):
    """How far a changed fact reaches."""

    ROW = "row"
    """The result for a node depends on that node alone."""
    DOMAIN = "topology domain"
    """... on all nodes with the same value of a topology key."""
    CLUSTER = "cluster"
    """... on anything."""


class Dependence(NamedTuple):
    """What a result is computed from, beside the pod itself."""

    reads: Reads
    scope: Scope


DEPENDENCE_OF: Final = {
    method: f"{method}_depends" for method in ("pre_filter", "filter", "pre_score", "score")
}
"""The attribute in which a plugin states what the result of a method depends on."""

ON_NODE = Dependence(Reads.NODE, Scope.ROW)
ON_USAGE = Dependence(Reads.NODE | Reads.USAGE, Scope.ROW)


class PreFilterResult(NamedTuple):
    """`status` is SUCCESS, SKIP (then Filter is not called), or a rejection of the whole pod."""

    status: Status = SUCCESS
    node_names: frozenset[str] | None = None
    """Only these nodes need be looked at; None: all. They need not exist."""
    state: Any = None
    """Handed to `filter`, and to `update_filter` even where the status is SKIP."""
    is_final: bool = False
    """The cluster has no say: of this pod, the plugin says the same whatever changes there."""


class PreScoreResult(NamedTuple):
    """`status` is SUCCESS or SKIP (then Score is not called and the plugin counts as absent)."""

    status: Status = SUCCESS
    state: Any = None
    """Handed to `score` and `normalization`, and to `update_score` even where the status is SKIP."""
    is_final: bool = False
    """As of PreFilterResult; it also does not matter which nodes are feasible."""


SKIP_FILTER = PreFilterResult(SKIP)
SKIP_SCORE = PreScoreResult(SKIP)
NEVER_FILTERS = PreFilterResult(SKIP, is_final=True)
NEVER_SCORES = PreScoreResult(SKIP, is_final=True)


class HasName(Protocol):
    NAME: ClassVar[str]


class Promises(Protocol):
    """What a plugin may say of itself with a class attribute; what it does not state is False, or
    anything. Nobody is asked whether it is one of these: each attribute is looked up by its name."""

    reads_resources_only: ClassVar[bool]
    """Of the cluster, its filter or score reads nothing but the columns of `cluster.nodes` about
    resources: requested, allocatable, pod counts. Nodes that are equal in these get one answer, found
    on a table that has these columns only. What depends on more goes into the state. Where it is so for
    some pods, this is a method that is given pod and cluster."""
    ignores_requests: ClassVar[bool]
    """It reads nothing of what a pod asks for, in containers or as a whole, but extended resources: of
    two pods that differ in the rest alone it says the same. Neither do volumes and resource claims
    matter to it, unless it `reads_claims`."""
    reads_labels: ClassVar[frozenset[str]]
    """Keys of the labels of pods that it looks at, beside those that somebody selects by: pods, in their
    affinity terms and topology spread constraints (matchLabelKeys included), Services,
    ReplicationControllers, ReplicaSets, StatefulSets and PodDisruptionBudgets; nor does it look at who
    runs a pod, unless that is one of these. Where all plugins of all profiles state it, pods that differ
    in other labels are of one class, and `PodInfo.labels` has none of these."""
    reads_claims: ClassVar[bool]
    """It looks at a pod's volumes or resource claims, or at what devices provide to it. Of a pod that
    has none of these it says nothing."""
    normalizes_by_extremes: ClassVar[bool]
    """Its `normalization` looks at nothing but the lowest and the highest raw score and at whether
    there are any. It is not asked again while all nodes have the same raw score."""
    scores_within_range: ClassVar[bool]
    """Its scores are within 0..SCORE_MAX once they are normalised, whatever the pods and nodes are
    like. Of others, a score out of that range fails the attempt."""
    may_fail: ClassVar[bool]
    """Its filter may come to an error, and a state that is not None says by `has_failed` whether it did,
    or may on a row that another filter refused first: then the attempt is one, wherever else the pod
    fits."""
    answers_for_class: ClassVar[bool]
    """What its PostFilter does not find for a pod it does not find for others of the class either."""
    reserve_filters: ClassVar[bool]
    """Its Reserve rejects whatever its Filter rejects: the owner does not ask its Filter about
    placements then, and a pod that it rejects is tried again at once."""


@runtime_checkable
class QueueSortPlugin(HasName, Protocol):
    """Orders the active queue. All profiles must have the same one."""

    def queue_key(self, priority: int, queued_at_s: float) -> tuple[float, ...]:
        """Pods are taken in ascending order of this key."""


class PreEnqueuePlugin(HasName, Protocol):
    """Keeps a pod out of the active queue; asked whenever the pod could enter it. One that lets most
    pods in may have `may_gate(pod) -> bool`, which is asked once for a class of them: False where
    `pre_enqueue` says Success, whatever the cluster."""

    def pre_enqueue(self, pod: PodInfo, cluster: ClusterView) -> Status: ...


@runtime_checkable
class PreFilterPlugin(HasName, Protocol):
    """Looks at the pod once, before any node. A Filter plugin can do without it."""

    pre_filter_depends: ClassVar[Dependence | None]
    """None: on the pod alone."""

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult: ...


class GonePods(NamedTuple):
    """Pods that are thought to be gone; arrays of shape (n,)."""

    class_ids: Int64s
    node_rows: Rows

    def sums(self, row_count: int, worth: Mapping[int, int]) -> Int64s:
        """What the pods of each row come to, shape (row_count,), if each is worth what its class is; a
        class that is not there, nothing."""
        once, inverse = np.unique(self.class_ids, return_inverse=True)
        worths = np.array([worth.get(class_id, 0) for class_id in once.tolist()], np.int64)
        sums = np.zeros(row_count, np.int64)
        if len(once):
            np.add.at(sums, self.node_rows, worths[inverse])
        return sums


@runtime_checkable
class FilterWithoutPods(Protocol):
    """A filter of wide scope that answers for many rows at once what would be if pods were gone.
    Preemption asks that of thousands of nodes, each question about the pods of that node alone."""

    def filter_without_pods(
        self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows, gone: GonePods
    ) -> Verdicts:
        """For each row as if the pods of `gone` that are on it were gone and no other. `state` and the
        pods in the view are of before."""


class FilterPlugin(HasName, Protocol):
    """Says which nodes cannot take the pod, and why."""

    filter_depends: ClassVar[Dependence]

    def filter(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts: ...


@runtime_checkable
class PreScorePlugin(HasName, Protocol):
    """Looks at the pod and its feasible nodes once, before scoring."""

    pre_score_depends: ClassVar[Dependence | None]
    """None: on the pod alone. What depends on which nodes are feasible reads all that filters do."""

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult: ...


class ScorePlugin(HasName, Protocol):
    """Rates nodes: more is better. Raw scores may have any range if the plugin normalises."""

    score_depends: ClassVar[Dependence]

    def score(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Int64s: ...


@runtime_checkable
class NormalizeScorePlugin(Protocol):
    """Brings raw scores into 0..SCORE_MAX, in two steps so that a row can be redone alone.
    `normalization` sums up the raw scores of all feasible nodes into something small and comparable
    (such as their maximum); `normalize` maps raw scores with it. As long as the summary stays equal,
    rows that did not change keep their normalised score."""

    def normalization(self, state: Any, raw: Int64s) -> Hashable: ...

    def normalize(self, raw: Int64s, normalization: Any) -> Int64s: ...


@runtime_checkable
class ObjectReader(Protocol):
    """A plugin that says which kinds (plural) `Reads.OBJECTS` means; without it, all of them."""

    object_kinds: ClassVar[frozenset[str]]


class GroupFits(NamedTuple):
    """How many pods of a group find a node in each placement, which is a domain of a topology."""

    topology: Topology
    counts: Sequence[tuple[PodInfo, Int64s]]
    """Of each class of its pods, by domain."""
    scheduled_count: int
    """More pods of the group that have a node."""
    successful: Rows
    """The domains that take the group."""


class PlacementScorePlugin(HasName, Protocol):
    """Rates the placements of a pod group: more is better, up to SCORE_MAX."""

    def score_placements(self, group: GroupFits, cluster: ClusterView) -> Int64s:
        """By domain; what it says of those that do not take the group does not matter."""


class Delta(NamedTuple):
    """What changed since a state was last up to date."""

    node_rows: Rows
    """Rows whose node columns were written; they may hold what they held."""
    pods: Sequence[PodChange]
    """Pods that came to nodes and left them."""
    is_what_if: bool = False
    """They are only thought to, for preemption and nominations (AddPod and RemovePod upstream, which
    may come to another result than counting again). Which rows may change nobody asks then."""


@runtime_checkable
class UpdatableFilter(HasName, Protocol):
    """A filter of wide scope whose state follows changes, so that it need not be made again."""

    def update_filter(
        self, state: Any, pod: PodInfo, cluster: ClusterView, delta: Delta
    ) -> Rows | None:
        """Brings the state up to date, and returns the rows whose verdict may have changed (in any
        order, perhaps several times); those of `delta.node_rows` are filtered again anyway. None:
        make a new state. PreFilter's status is the same as before unless None is returned."""


@runtime_checkable
class UpdatableScore(HasName, Protocol):
    """The same for a score."""

    def update_score(
        self,
        state: Any,
        pod: PodInfo,
        cluster: ClusterView,
        delta: Delta,
        feasible: Bools,
        flipped: Rows,
    ) -> Rows | None:
        """Returns the rows whose raw score may have changed. `feasible` has the table's capacity;
        `flipped` are the rows, distinct, where it is another than before. None: make a new state;
        PreScore's status is the same as before unless None is returned."""


@runtime_checkable
class ClassDiscerning(Protocol):
    """An updatable filter or score that knows of which classes the pods matter to it. The others are
    told of every pod."""

    def heeded_classes(self, state: Any, class_ids: set[int], cluster: ClusterView) -> set[int]:
        """Those of the classes of which a pod that comes or goes may change anything. `state` is of the
        filter or of the score; the answer holds as long as it lives. There may be thousands, and as many
        others who ask about them: who can ask an index (`ClassIndex`) does not go through them."""


class Crowding(NamedTuple):
    domain_of_row: Rows
    """In a topology; NO_DOMAIN: none."""
    room_in: Callable[[int], int]
    """So many pods may come to nodes of a domain before one is kept away; one may in any case."""


@runtime_checkable
class CrowdingFilter(HasName, Protocol):
    """A filter of wide scope that can tell how far a pod keeps away the next one of its class. Without
    it, such pods are checked one after the other."""

    def crowded_domains(
        self, state: Any, class_id: int, cluster: ClusterView
    ) -> Sequence[Crowding] | None:
        """For each topology in which they keep each other away: as long as no domain gets more pods of
        the class than it has room for, none of them makes `filter` refuse another. It may make it let
        another in. None: it may be refused anywhere."""


@runtime_checkable
class ClaimsLikener(Protocol):
    """A plugin that `reads_claims` and can tell which of them come to the same. Without it, each pod
    with claims is looked at by itself."""

    def claims_likeness(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Of pods that differ in the names of their claims alone, the plugin says the same of every node
        where this is equal, and goes on to do so, of nodes that none of them came to, until an object
        changes that it reads. None where that cannot be said: somebody has the claims already, say. An
        empty tuple: the pod has no claims that the plugin looks at, and pods that are nominated make no
        difference either."""


@runtime_checkable
class ObjectFollower(HasName, Protocol):
    """A filter that knows which nodes objects of some kinds are about that are not the pod's own.
    It is asked again about these, and about those that pods come to."""

    followed_kinds: ClassVar[frozenset[str]]

    def rows_of_objects(self, state: Any, cluster: ClusterView) -> Rows | None:
        """The rows of which it may say something else since it was last asked this with this state;
        None: all."""


class ReservePlugin(HasName, Protocol):
    """Keeps book in the owner of what a placement takes beside the node's columns.

    `reserve` is called when a placement was accepted, just before the pod is assumed; after a rejection
    it is not, and the pod is unschedulable by this plugin. `unreserve` undoes it, must not fail, and
    may be called for a pod that was never reserved here.

    One that has nothing to reserve for most pods may have `reserves_for(pod) -> bool`, which is asked
    once for a class of them: False where both do nothing, whatever the node.

    What a reserved pod takes of its node's columns because of what it was given, in place of what its
    own status says, may be told by `reserved_status(record, pod, cluster) -> PodStatus | None`: the
    status of which its requests are counted; None where that is as it was.

    What its PreBind, in a binder, is to do about a reserved pod (CycleState upstream) it says right
    then by `pre_bind_work(record, pod, cluster, row) -> bytes`, empty for nothing. PreBind finds it in
    the order's `work`."""

    def reserve(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int
    ) -> Status: ...

    def unreserve(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int
    ) -> None: ...


PERMIT_TIMEOUT_MAX_S = 15 * 60.0
"""Nobody may let a pod wait for longer (maxTimeout upstream)."""


class PermitResult(NamedTuple):
    """`status` is SUCCESS, WAIT (for at most `timeout_s`), or a rejection."""

    status: Status = SUCCESS
    timeout_s: float = 0.0


WAIT = Status(Code.WAIT)


class PermitPlugin(HasName, Protocol):
    """Says in the owner whether a pod that was reserved a place may be bound, perhaps later. A pod that
    waits keeps its place and is in nobody's way. It goes on when every plugin that asked it to wait has
    allowed it, and is rejected when one of them rejects it or its time is over: then it is
    unschedulable by that plugin. See `Handle` for how to decide about pods that wait."""

    def permit(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int
    ) -> PermitResult: ...


@runtime_checkable
class WaitingReviewer(HasName, Protocol):
    """A Permit plugin that decides about waiting pods by what happens in the cluster: called after
    each batch of events while one of its pods waits."""

    def review_waiting(self, cluster: ClusterView) -> None: ...


class WaitingPod(Protocol):
    """A pod that waits for Permit plugins. The first decision counts."""

    @property
    def record(self) -> PodRecord: ...

    @property
    def pod(self) -> PodInfo: ...

    @property
    def node_name(self) -> str: ...

    @property
    def pending_plugins(self) -> tuple[str, ...]:
        """Those that have not allowed it yet."""

    def allow(self, plugin_name: str) -> None:
        """As far as this plugin is concerned, the pod may be bound."""

    def reject(self, plugin_name: str, message: str) -> None:
        """The pod is not bound: it is unschedulable by this plugin."""


class Handle(Protocol):
    """What plugins in the owner may do beside answering (framework.Handle upstream)."""

    def waiting_pods(self) -> Iterator[WaitingPod]:
        """All pods that wait, in the order in which they came, this profile's and others'."""

    def waiting_pod(self, uid: str) -> WaitingPod | None: ...

    def pending_pods(self) -> Iterator[PodRecord]:
        """All pods without a node, waiting ones included. Takes as long as there are many."""

    def activate(self, uids: Iterable[str]) -> None:
        """Has pending pods tried again at once, whoever rejected them."""


@runtime_checkable
class HandleUser(Protocol):
    """A plugin that wants the handle. In scorers and binders, which have none, it is not called."""

    def use_handle(self, handle: Handle) -> None:
        """Called once, before anything else."""


class RoomAsked(NamedTuple):
    """What a pod needs room for on a node, beside being one more."""

    names: Sequence[str]
    amounts: Sequence[int]
    """Above 0."""


@runtime_checkable
class RoomFilter(HasName, Protocol):
    """A filter that lets a pod pass where there is room for it, and never rejects it as a whole."""

    def room_asked(self, pod: PodInfo, cluster: ClusterView) -> RoomAsked | None:
        """None: for this pod the filter looks at more."""

    def has_room(self, asked: RoomAsked, nodes: NodeTable, row: int) -> bool: ...


@runtime_checkable
class ScoreKeeper(Protocol):
    """A score that depends on requests and on what the node has and has given away, not normalised."""

    def keep_score(self) -> "KeptScores | None":
        """What is kept for it; None: the plugin's arguments ask for more."""

    def amounts_asked(self, pod: PodInfo) -> Sequence[int] | None:
        """Of the resources in `keep_score`; None where PreScore skips the pod."""
