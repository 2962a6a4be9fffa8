"""What the owner orders from the binder pool."""

import msgspec


class _Message(msgspec.Struct, array_like=True, frozen=True):
    """Base: positional on the wire, immutable in hand."""


class BindPod(msgspec.Struct, array_like=True, frozen=True):
    """Bind one assumed pod. Answered exactly once by BindFinished or BindFailed."""

    order_id: int
    profile: str
    namespace: str
    name: str
    uid: str
    node_name: str
    look_first: bool
    """An earlier order for this pod was lost with its binder: ask the API server before binding."""
    resource_version: str = ""
    """The pod's, as scheduled; named in the event. Empty: left out there."""


class BindPods(_Message, frozen=True, tag="bB"):
    epoch: int
    orders: list[BindPod]


class PodVerdict(msgspec.Struct, array_like=True, frozen=True):
    """A pod that could not be scheduled, for the PodScheduled condition and the event."""

    profile: str
    namespace: str
    name: str
    uid: str
    reason: str
    """"Unschedulable", "SchedulingGated" or "SchedulerError"."""
    message: str
    write_event: bool
    """Gated pods get the condition only."""
    resource_version: str = ""
    """The pod's, as it was tried; named in the event. Empty: left out there."""
    observed_generation: int = 0
    """metadata.generation of the pod as it was tried; 0: left out of the condition."""


class ReportPods(_Message, frozen=True, tag="bR"):
    """Write conditions and FailedScheduling events; best effort, never before binds."""

    epoch: int
    verdicts: list[PodVerdict]


class Drain(_Message, frozen=True, tag="bX"):
    """Take no more orders; finish those in flight; then exit."""


class Welcome(_Message, frozen=True, tag="bW"):
    """Answer to BinderHello: orders of any other epoch are void. The binder drops what it has not
    sent yet, waits for what it has, and says `BinderReady`."""

    epoch: int


ToBinder = BindPods | ReportPods | Welcome | Drain
