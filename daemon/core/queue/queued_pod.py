"""A pod in the scheduling queue, and where in it the pod is.

Apart from the parts of the queue because all of them hold the same object: a pod is one `QueuedPod`
from its first `add` to `done` or `delete`, wherever it moves. Only `daemon.core.queue` changes it;
others read. Shape: QueuedPodInfo of pkg/scheduler/framework/types.go, v1.36.
"""

import enum
import math
from typing import Final

import msgspec

from daemon.core.pod_classes import PodClass
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import Change, PodView
from shared.kube.pod_record import PodRecord

NO_PLUGINS: Final[frozenset[str]] = frozenset()
PAST_MAX: Final = 5


class Place(enum.StrEnum):
    """The one place that a pod of the queue is in. Values are the `queue` labels of metrics."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    """Parked until an event helps. A gated pod is here too, with `gated_by`."""
    IN_FLIGHT = "in_flight"
    GONE = "gone"
    """Bound or deleted; heaps may still hold an entry, which they skip."""


class QueuedPod(msgspec.Struct, eq=False, gc=False):
    """A pending pod with what the queue remembers of it. Equal to itself only. Nothing that it holds
    leads back to it, so no collector has to look through all of them."""

    record: PodRecord
    """The newest that the cluster said of it, also while it is in flight."""
    pod_class: PodClass
    """A share of it is the queue's, until the pod leaves or is of another class."""
    tried_as: PodClass
    """Its class when it was last handed out to a scorer."""
    priority: int
    timestamp_s: float
    """When it came into the queue: by `add`, or back from its last attempt."""
    arrival: int
    """Counts what comes into the queue; decides between equal timestamps."""
    added_s: float
    place: Place = Place.GONE
    attempts: int = 0
    popped_s: float = 0.0
    ticket: int = 0
    """Of its attempt, or of the last: orders, verdicts and lines of the log carry it. 0 before any."""
    initial_attempt_s: float | None = None
    """When it first could have been tried: not while it was gated."""
    unschedulable_count: int = 0
    consecutive_errors_count: int = 0
    refused_count: int = 0
    """Attempts since the last verdict on the pod whose answers the owner could not use."""
    unschedulable_plugins: frozenset[str] = NO_PLUGINS
    """Who rejected the last attempt, or gates the pod. Empty while it is in flight."""
    pending_plugins: frozenset[str] = NO_PLUGINS
    """Who said Pending in the last attempt: their events skip the back-off."""
    gated_by: str = ""
    was_flushed: bool = False
    """It is tried again without a reason, because it has waited for long."""
    backoff_until_s: float = -math.inf
    """The full second at which the back-off of the last failure ends: it waits through all of that."""
    first_event: int = 0
    """While it is in flight: the number of the first event that its attempt has not seen."""
    own_events: tuple[Change, ...] = ()
    """Since then, what concerns it alone: its own updates, or a plugin that activates it."""
    past: tuple[tuple[float, str], ...] = ()
    """When its last attempts failed, and with what message; the newest last, `PAST_MAX` at most."""

    @property
    def uid(self) -> str:
        return self.record.uid

    @property
    def key(self) -> str:
        return self.record.key

    @property
    def info(self) -> PodInfo:
        return self.pod_class.info

    @property
    def class_id(self) -> int:
        """Pods with equal numbers have the same `info`: hints are asked once for all of them."""
        return self.pod_class.class_id

    @property
    def rejected_by(self) -> frozenset[str]:
        """A plugin that said Pending counts as well (AddUnschedulableIfNotPresent, v1.36.2)."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def is_error(self) -> bool:
        """The last attempt failed with an error: nobody rejected the pod."""
        return not self.unschedulable_plugins and not self.pending_plugins

    @property
    def is_awaited(self) -> bool:
        """The pod still waits for a scorer's answer: it has neither left nor changed since it was handed
        out."""
        return self.place is Place.IN_FLIGHT and self.pod_class is self.tried_as

    @property
    def waits_in_full(self) -> bool:
        """Its back-off is not cut short when there is nothing else to try."""
        return self.is_error or bool(self.record.group)

    @property
    def view(self) -> PodView:
        return PodView(self.record, self.pod_class.info)
