"""What the owner orders from the binder pool."""

from typing import Final

import msgspec

from shared.messages.codec import Codec, Drain, Message


class Decision(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How a placement came about, for the annotation on the bound pod."""

    generation: int
    """The owner's, when the placement had been checked and assumed."""
    node_count: int
    """Nodes that there were."""
    attempts: int
    """With this one."""
    waited_ms: int
    """In the queue, from when the pod could first be tried until this attempt."""


class BindPod(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Bind one assumed pod. Answered exactly once in a `BindReport`."""

    ticket: int
    """Of the attempt that it ends."""
    profile: str
    namespace: str
    name: str
    uid: str
    node_name: str
    look_first: bool
    """An earlier order for this pod was lost with its binder: ask the API server before binding."""
    resource_version: str = ""
    """The pod's, as scheduled; named in the event. Empty: left out there."""
    work: dict[str, bytes] = {}
    """By plugin, what its PreBind has to do; empty for the usual pod, which needs nothing."""
    extenders: list[int] = []
    """Positions of the configured extenders that bind the pod in place of its profile's plugins."""
    decision: Decision | None = None
    """To be written on the pod; None: nothing is."""
    announces: bool = False
    """Write the node's name to status.nominatedNodeName first, if there is anything to be done, or
    waited for, before the pod can be bound."""

    @property
    def pod(self) -> str:
        """As the log names it."""
        return f"{self.namespace}/{self.name}"


class BindPods(Message, frozen=True, tag="bB"):
    epoch: int
    orders: list[BindPod]
    lease_term: int = 0
    """In which this was decided (`shared/transport/lease_gate.py`); void in any other. 0: no leader
    election."""


class StatusPatch(msgspec.Struct, array_like=True, frozen=True):
    """What is to be written to a pending pod's status, together: that it could not be scheduled (the
    PodScheduled condition, told by an event as well), where it is nominated, or both. Of a pod group:
    what became of it."""

    profile: str
    namespace: str
    name: str
    uid: str
    reason: str = ""
    """"Unschedulable", "SchedulingGated" or "SchedulerError"; empty: the condition stays as it is."""
    message: str = ""
    write_event: bool = False
    """Gated pods get the condition only."""
    resource_version: str = ""
    """The pod's, as it was tried; named in the event. Empty: left out there."""
    observed_generation: int = 0
    """metadata.generation of the pod as it was tried; 0: left out of the condition."""
    is_group: bool = False
    is_scheduled: bool = False
    """Only of a group."""
    ticket: int = 0
    """Of the attempt that failed, or the last; 0 for a pod that could not be tried."""
    is_same_status: bool = False
    """The condition had this status before: the time of its transition stays."""
    nominated_node_name: str | None = None
    """For status.nominatedNodeName; empty: the pod is not nominated any more. None: it stays."""
    is_told: bool = False
    """The condition of a pod says just this, as far as the watch has shown."""

    def over(self, older: "StatusPatch") -> "StatusPatch":
        """With what an older one, that is not written, says and this one does not (Merge in
        pkg/scheduler/framework/api_calls/pod_status_patch.go, v1.36.2)."""
        nominated = self.nominated_node_name
        if nominated is None:
            nominated = older.nominated_node_name
        says_why = self if self.reason else older
        return msgspec.structs.replace(says_why, nominated_node_name=nominated)


class ReportPods(Message, frozen=True, tag="bR"):
    """Write statuses and FailedScheduling events; best effort. What says nothing of a nomination is
    never written before binds."""

    epoch: int
    patches: list[StatusPatch]
    lease_term: int = 0
    """As in `BindPods`."""


class DeleteVictim(msgspec.Struct, array_like=True, frozen=True):
    """Delete a pod that has to make room. Answered exactly once in a `BindReport`."""

    order_id: int
    profile: str
    """The preemptor's schedulerName."""
    namespace: str
    name: str
    uid: str
    resource_version: str
    node_name: str
    preemptor_namespace: str
    preemptor_name: str
    preemptor_uid: str
    observed_generation: int = 0
    """Of the victim, as its condition tells it."""
    is_given_up: bool = False
    """It waited on Permit and has given its place up: it is not deleted, only told of."""
    ticket: int = 0
    """Of the preemptor's attempt."""
    is_for_group: bool = False
    """The preemptor is a pod group; `node_name` says "cluster" then."""


class ReleaseClaim(msgspec.Struct, array_like=True, frozen=True):
    """Free a resource claim that nobody uses but the pod that could not be scheduled, or its group. Best
    effort."""

    namespace: str
    name: str
    uid: str
    pod_uid: str
    is_generated: bool
    """The scheduler's own claim: it is deleted. Others are deallocated."""
    ticket: int = 0
    """Of the pod's attempt."""
    group_uid: str = ""
    """Of the pod's group, where the claim is reserved for that."""

    @property
    def user_uid(self) -> str:
        """Whose reservation goes."""
        return self.group_uid or self.pod_uid


class PreemptPods(Message, frozen=True, tag="bP"):
    """What PostFilter decided. Nothing here depends on the order of the parts."""

    epoch: int
    victims: list[DeleteVictim]
    releases: list[ReleaseClaim]
    lease_term: int = 0
    """As in `BindPods`."""


class Welcome(Message, frozen=True, tag="bW"):
    """Answer to BinderHello: orders of any other epoch are void. The binder drops what it has not
    sent yet, waits for what it has, and says `BinderReady`."""

    epoch: int


ToBinder = BindPods | ReportPods | PreemptPods | Welcome | Drain

TO_BINDER: Final[Codec[ToBinder]] = Codec("binders", ToBinder)
