"""What the watch adapter tells the owner: changes of the cluster, in the order they were seen.

A kind is announced (`SyncStarted`), listed as `...Changed` messages, and closed (`SyncFinished`):
what the owner held of that kind and did not see in between is gone, so a re-list is applied as a
difference and a missed delete is repaired. Between syncs single changes follow.
"""

from typing import Final

import msgspec

from shared.kube.api.core_v1 import Node
from shared.kube.pod_record import PodRecord
from shared.messages.codec import Codec, Message
from shared.telemetry.metrics import Measured

NO_EPOCH: Final = 0
"""Until the adapter has been told to start."""


class AdapterHello(Message, frozen=True, tag="ah"):
    """First message of an adapter's life. The owner answers by `StartSync`."""


class PodChanged(Message, frozen=True, gc=False, tag="p"):
    pod: PodRecord


class PodDeleted(Message, frozen=True, tag="pd"):
    """A pod is gone, or finished (Succeeded, Failed): schedulers do not watch finished pods."""

    pod: PodRecord


class NodeChanged(Message, frozen=True, tag="n"):
    node: Node


class NodeDeleted(Message, frozen=True, tag="nd"):
    name: str


class ObjectChanged(Message, frozen=True, tag="o"):
    """An object of another kind was listed, added or modified. `body` is its struct as msgpack."""

    kind: str
    """The resource's plural, e.g. "persistentvolumeclaims" (see `shared.kube.resources`)."""
    key: str
    """`namespace/name`, or `name` for a cluster-scoped kind."""
    body: msgspec.Raw


class ObjectDeleted(Message, frozen=True, tag="od"):
    kind: str
    key: str


class SyncStarted(Message, frozen=True, tag="ss"):
    kind: str


class SyncFinished(Message, frozen=True, tag="sf"):
    """All objects of the kind have been sent since `SyncStarted`."""

    kind: str
    resource_version: str


class KindUnavailable(Message, frozen=True, tag="ku"):
    """The server does not serve this kind, or does not let us read it; berth does without it."""

    kind: str
    reason: str


class ObjectRejected(Message, frozen=True, tag="or"):
    """An object that could not be decoded and was left out; named so that a person can find it."""

    kind: str
    where: str
    problem: str
    key: str = ""
    """As a list knows it: the uid of a pod, the name of a node, the key of others; empty where that
    cannot be told. What is known of it stands."""


class AdapterMeasured(Message, frozen=True, tag="am"):
    """What the adapter counted and timed since it last said so, and when it heard of the API server.

    Moments are of the machine's monotonic clock, which all who read them share.
    """

    measured: Measured
    told_s: float
    """When this was said."""
    heard_s: dict[str, float]
    """Kind -> when its list or watch last brought anything, bookmarks included."""


AdapterMessage = (
    AdapterHello
    | PodChanged
    | PodDeleted
    | NodeChanged
    | NodeDeleted
    | ObjectChanged
    | ObjectDeleted
    | SyncStarted
    | SyncFinished
    | KindUnavailable
    | ObjectRejected
    | AdapterMeasured
)


class AdapterBatch(Message, frozen=True, tag="aB"):
    """What travels: changes in the order they were seen, made for one epoch of the owner.

    The owner drops batches of another epoch and answers them with `StartSync`.
    """

    epoch: int
    messages: list[AdapterMessage]


class StartSync(Message, frozen=True, tag="as"):
    """Owner to adapter: tell everything from scratch, for this epoch."""

    epoch: int


ToAdapter = StartSync

FROM_ADAPTER: Final[Codec[AdapterBatch]] = Codec("adapter", AdapterBatch)
TO_ADAPTER: Final[Codec[ToAdapter]] = Codec("adapter", ToAdapter)
