"""What the owner orders from the binder pool."""

import msgspec

from shared.kube.objects import AllocationResult


class _Message(msgspec.Struct, array_like=True, frozen=True):
    """Base: positional on the wire, immutable in hand."""


class TakeVolume(msgspec.Struct, array_like=True, frozen=True):
    """Give a free volume to a claim."""

    volume_name: str
    volume_version: str
    """The resource version that this was decided on."""
    is_found: bool
    """Nobody had asked for this very volume."""
    claim_namespace: str
    claim_name: str
    claim_uid: str


class MakeVolume(msgspec.Struct, array_like=True, frozen=True):
    """Have a new volume made for a claim, for the pod's node."""

    claim_namespace: str
    claim_name: str
    claim_version: str
    """The resource version that this was decided on."""


class VolumeWork(msgspec.Struct, array_like=True, frozen=True):
    """What a pod's claims need before the pod can be bound."""

    take: list[TakeVolume]
    make: list[MakeVolume]
    timeout_s: float


class ClaimWork(msgspec.Struct, array_like=True, frozen=True):
    """Have a resource claim allocated, and reserved for the pod."""

    namespace: str
    name: str
    uid: str
    """Empty: not known, and not compared."""
    allocation: AllocationResult
    is_new: bool
    """Allocated for this pod; otherwise the claim had this allocation before."""
    is_generated: bool
    """The scheduler's own claim for extended resources: it does not exist yet and has no name."""


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
    volumes: VolumeWork | None = None
    """To be done first; None for the usual pod, whose volumes are all there."""
    claims: list[ClaimWork] = []
    """To be done first; empty for the usual pod, which has no resource claims."""


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


class DeleteVictim(msgspec.Struct, array_like=True, frozen=True):
    """Delete a pod that has to make room. Answered exactly once in a `VictimReport`."""

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


class SetNomination(msgspec.Struct, array_like=True, frozen=True):
    """Write status.nominatedNodeName of a pending pod; best effort."""

    namespace: str
    name: str
    uid: str
    node_name: str
    """Empty: the pod is not nominated any more."""


class PreemptPods(_Message, frozen=True, tag="bP"):
    """What preemption decided. Nothing here depends on the order of the parts."""

    epoch: int
    victims: list[DeleteVictim]
    nominations: list[SetNomination]


class Drain(_Message, frozen=True, tag="bX"):
    """Take no more orders; finish those in flight; then exit."""


class Welcome(_Message, frozen=True, tag="bW"):
    """Answer to BinderHello: orders of any other epoch are void. The binder drops what it has not
    sent yet, waits for what it has, and says `BinderReady`."""

    epoch: int


ToBinder = BindPods | ReportPods | PreemptPods | Welcome | Drain
