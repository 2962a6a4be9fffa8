"""What is sent to the API server, and where: paths of objects, bodies of statuses and events.

Apart from who sends it so that it can be compared with what kube-scheduler writes, field by field:
statuses as pkg/scheduler/schedule_one.go (updatePod), events as client-go tools/events/event_recorder.go
makes them for kube-scheduler, v1.36.2.
"""

import uuid
from typing import Any, Final, NamedTuple

import msgspec

from shared.kube.api.core_v1_parts import BriefPod
from shared.kube.api.meta_v1 import ApiStruct
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import NotFound, read_answer
from shared.kube.timestamps import micro_time, second_time
from shared.kube.well_known import (
    DISRUPTION_TARGET,
    POD_GROUP_SCHEDULED,
    POD_GROUPS_VERSION,
    POD_SCHEDULED,
    PREEMPTION_BY_SCHEDULER,
)
from shared.messages.to_binder import BindPod, DeleteVictim, StatusPatch

REQUEST_TIMEOUT_S: Final = 10.0
"""Of all requests but those that bind pods and volumes."""

EVENTS_API: Final = "events.k8s.io/v1"
NOTE_BYTES_MAX: Final = 1024
"""The API server refuses a longer note (NoteLengthLimit)."""
_NOTE_CUT: Final = " ..."
_NAME_LENGTH_MAX: Final = 253
_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(BriefPod)


pod_path: Final = "/api/v1/namespaces/{}/pods/{}".format
pod_group_path: Final = (f"/apis/{POD_GROUPS_VERSION}" + "/namespaces/{}/podgroups/{}").format
node_path: Final = "/api/v1/nodes/{}".format
volume_path: Final = "/api/v1/persistentvolumes/{}".format
volume_claim_path: Final = "/api/v1/namespaces/{}/persistentvolumeclaims/{}".format
resource_claim_path: Final = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}".format
"""Each is called with the namespace, where there is one, and the name."""


async def seen_pod(api: ApiClient, path: str, uid: str) -> BriefPod:
    """What is at the path: to be asked where the outcome of a write about it is open. Raises what a GET
    does; `NotFound`, too, where it is another pod of that name."""
    pod = read_answer(_decoder, await api.get(path, timeout_s=REQUEST_TIMEOUT_S))
    if pod.metadata.uid != uid:
        other = f"the pod of that name is another one (uid {pod.metadata.uid})"
        raise NotFound(404, "NotFound", other)
    return pod


class Regarding(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The pod that an event is about."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str
    resource_version: str = ""


class Event(NamedTuple):
    """One event, before it has a name and a time."""

    profile: str
    regarding: Regarding
    type: str
    reason: str
    action: str
    note: str
    related: Regarding | None = None


class Series(ApiStruct):
    count: int
    last_observed_time: str


def scheduled_event(order: BindPod) -> Event:
    """The event of a pod that was bound."""
    note = f"Successfully assigned {order.namespace}/{order.name} to {order.node_name}"
    return _event(order, "Scheduled", "Binding", note)


def waiting_for_devices_event(order: BindPod) -> Event:
    """The event of a pod whose devices have to be prepared before it is bound (PreBind in
    pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, v1.36.2)."""
    note = f"waiting for binding conditions for device on node {order.node_name}"
    return _event(order, "BindingConditionsPending", "Scheduling", note)


def failed_scheduling_event(patch: StatusPatch) -> Event:
    """The event of a pod that fits nowhere."""
    event = _event(patch, "FailedScheduling", "Scheduling", patch.message)
    return event._replace(type="Warning")


def preempted_event(order: DeleteVictim, *, is_deleted: bool) -> Event:
    """The event of a pod that had to make room, and need not be deleted if it was not bound yet."""
    kind, api_version = "Pod", "v1"
    if order.is_for_group:
        kind, api_version = "PodGroup", POD_GROUPS_VERSION
    preemptor = Regarding(
        kind=kind,
        namespace=order.preemptor_namespace,
        name=order.preemptor_name,
        uid=order.preemptor_uid,
        api_version=api_version,
    )
    note = f"Preempted by {kind.lower()} {preemptor.uid} on node {order.node_name}"
    if not is_deleted:
        note += " (in kube-scheduler memory)."
    return _event(order, "Preempted", "Preempting", note)._replace(related=preemptor)


def _event(pod: BindPod | DeleteVictim | StatusPatch, reason: str, action: str, note: str) -> Event:
    regarding = Regarding(
        kind="Pod",
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        api_version="v1",
        resource_version=pod.resource_version,
    )
    return Event(pod.profile, regarding, "Normal", reason, action, cut_note(note))


def disruption_patch(order: DeleteVictim, wall_s: float) -> bytes:
    """A strategic-merge patch of pods/status: the pod is about to be deleted, and why."""
    whom = "podgroup" if order.is_for_group else "pod"
    condition: dict[str, Any] = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": PREEMPTION_BY_SCHEDULER,
        "message": f"{order.profile}: preempting to accommodate a higher priority {whom}",
        "lastProbeTime": None,
        "lastTransitionTime": second_time(wall_s),
    }
    return pod_patch(order.uid, {"conditions": [_seen(condition, order.observed_generation)]})


def delete_options(uid: str) -> bytes:
    """The body of a DELETE that is meant for this pod and no later one of its name."""
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
    return _encoder.encode(options)


def cut_note(note: str) -> str:
    """At most NOTE_BYTES_MAX bytes, as pkg/scheduler/schedule_one.go truncateMessage cuts it."""
    encoded = note.encode()
    if len(encoded) <= NOTE_BYTES_MAX:
        return note
    return encoded[: NOTE_BYTES_MAX - len(_NOTE_CUT)].decode(errors="ignore") + _NOTE_CUT


def event_name(pod_name: str, wall_s: float) -> str:
    """Unique for a pod by the time in nanoseconds, as client-go names events."""
    name = f"{pod_name}.{int(wall_s * 1e9):x}"
    return name if len(name) <= _NAME_LENGTH_MAX else str(uuid.uuid4())


def event_body(
    event: Event, name: str, reporting_instance: str, wall_s: float, series: Series | None
) -> bytes:
    """The Event object for a POST."""
    body: dict[str, Any] = {
        "apiVersion": EVENTS_API,
        "kind": "Event",
        "metadata": {"name": name, "namespace": event.regarding.namespace},
        "eventTime": micro_time(wall_s),
        "reportingController": event.profile,
        "reportingInstance": reporting_instance,
        "action": event.action,
        "reason": event.reason,
        "regarding": event.regarding,
        "note": event.note,
        "type": event.type,
    }
    if series is not None:
        body["series"] = series
    if event.related is not None:
        body["related"] = event.related
    return _encoder.encode(body)


def series_patch(series: Series) -> bytes:
    """A strategic-merge patch that says how often an event has happened by now."""
    return _encoder.encode({"series": series})


def status_patch(patch: StatusPatch, transition_s: float | None) -> bytes:
    """A strategic-merge patch of pods/status (PodScheduled is False, and why, and where the pod waits
    for room) or of podgroups/status. `transition_s`: None where the status was the same before."""
    status: dict[str, Any] = {}
    if patch.nominated_node_name is not None:
        status["nominatedNodeName"] = patch.nominated_node_name
    if patch.reason:
        condition: dict[str, Any] = {
            "type": POD_GROUP_SCHEDULED if patch.is_group else POD_SCHEDULED,
            "status": "True" if patch.is_scheduled else "False",
            "reason": patch.reason,
            "message": patch.message,
        }
        if not patch.is_group:
            # Whoever wrote the condition before may have set one.
            condition["lastProbeTime"] = None
        if transition_s is not None:
            condition["lastTransitionTime"] = second_time(transition_s)
        status["conditions"] = [_seen(condition, patch.observed_generation)]
    return pod_patch(patch.uid, status)


def _seen(condition: dict[str, Any], observed_generation: int) -> dict[str, Any]:
    if observed_generation:
        condition["observedGeneration"] = observed_generation
    return condition


def pod_patch(uid: str, status: dict[str, Any]) -> bytes:
    """A strategic-merge patch of pods/status. The UID is a precondition: the API server refuses one
    for another pod of the same name."""
    return _encoder.encode({"metadata": {"uid": uid}, "status": status})
