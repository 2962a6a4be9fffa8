"""A pod in two parts: what is its own, and the template that it shares with its like.

Most pods of a cluster are copies of a few templates. The watch adapter splits each pod once; the
owner then knows a template by its bytes and computes requests, classes and so on once for each
distinct template, not once for each pod.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec.structs import replace

from shared.errors import UNDECODABLE
from shared.kube.api.core_v1 import (
    Container,
    ContainerStatus,
    Pod,
    PodExtendedResourceClaimStatus,
    PodResourceClaimStatus,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Volume,
)
from shared.kube.api.meta_v1 import (
    ApiStruct,
    Condition,
    OwnerReference,
    PodMeta,
    ResourceList,
    condition_of,
)
from shared.kube.well_known import DISRUPTION_TARGET, POD_SCHEDULED, PREEMPTION_BY_SCHEDULER
from shared.limits import SHARED_TEMPLATES_MAX


class OwnFacts(ApiStruct):
    """What a pod with claims has to itself, which makes it like no other."""

    claim_names: list[str] | None = None
    """Of the volumes that name a claim outright, in their order; these do without it in the bytes of
    what is shared."""
    name: str = ""
    uid: str = ""
    """Both only of a pod with ephemeral volumes, whose claims are named after it and belong to it, or
    with resource claims, which are reserved for it by name."""
    group: str = ""
    """As in the record; only of a pod with resource claims, some of which may be its group's."""
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


class PodTemplate(ApiStruct):
    """All that scheduling reads of a pod apart from its identity and its progress.

    `spec.node_name` is always empty here (it is the record's), volumes that no plugin reads are
    left out (service-account token volumes carry a random name and would make every pod unique),
    and `status` holds only the parts that count as resources.
    """

    spec: PodSpec
    status: PodStatus | None = None
    labels: dict[str, str] | None = None
    """None: it has none. Empty: it has some, and none that matters (`with_fewer_labels`)."""
    controller: OwnerReference | None = None
    own: OwnFacts | None = None
    """Comes last: before it in a record's bytes stands what the pod shares (`split_template`)."""


class PodRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One pod as it travels from the watch adapter to the owner. Times are as in the API."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    node_name: str
    deleted: str
    """deletionTimestamp; empty while nobody has asked for the pod to go."""
    started: str
    """status.startTime, for the order of victims; empty if unset."""
    nominated_node_name: str
    template: msgspec.Raw
    """A `PodTemplate` as msgpack."""
    is_preempted: bool = False
    """Has the condition that a scheduler preempted it (it goes once `deleted` is set)."""
    generation: int = 0
    """Of its spec, as conditions name it; 0: the API server states none."""
    group: str = ""
    """spec.schedulingGroup.podGroupName. Not of the template: members of several groups may be alike."""
    told_why: bytes = b""
    """Digest of what PodScheduled says, of a pod without a node where that condition is False."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def group_key(self) -> str:
        return f"{self.namespace}/{self.group}"


_encoder: Final = msgspec.msgpack.Encoder()
_template_decoder: Final = msgspec.msgpack.Decoder(PodTemplate)


def split_pod(pod: Pod) -> PodRecord:
    """The record of a decoded pod. Takes `pod` over: its spec is emptied of what is not shared."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    node_name = spec.node_name
    spec.node_name = ""
    group, spec.scheduling_group = spec.scheduling_group, None
    group_name = (group.pod_group_name or "") if group is not None else ""
    if spec.volumes is not None:
        # Those with one of the sources that are decoded.
        spec.volumes = [v for v in spec.volumes if v != Volume(name=v.name)] or None
    template = PodTemplate(
        spec=spec,
        status=_resource_status(spec, status),
        labels=meta.labels or None,
        controller=controller_of(meta.owner_references),
        own=_own_facts(meta, spec, status, group_name),
    )
    disrupted = condition_of(status.conditions, DISRUPTION_TARGET)
    told = None if node_name else condition_of(status.conditions, POD_SCHEDULED)
    return PodRecord(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        node_name=node_name,
        deleted=meta.deletion_timestamp or "",
        started=status.start_time or "",
        nominated_node_name=status.nominated_node_name,
        template=_shared(_encoder.encode(template)),
        is_preempted=disrupted is not None
        and disrupted.status == "True"
        and disrupted.reason == PREEMPTION_BY_SCHEDULER,
        generation=meta.generation,
        group=group_name,
        told_why=why_digest(told.reason, told.message) if told and told.status == "False" else b"",
    )


@lru_cache(SHARED_TEMPLATES_MAX)
def _shared(template: bytes) -> msgspec.Raw:
    """One for pods that are alike: an adapter keeps all of them, and half of one is its template."""
    return msgspec.Raw(template)


def with_status(record: PodRecord, status: PodStatus) -> PodRecord:
    """The pod with another status, of the parts that count as resources."""
    kept = status if status != _NO_STATUS else None
    template = replace(_template_decoder.decode(record.template), status=kept)
    return replace(record, template=msgspec.Raw(_encoder.encode(template)))


def why_digest(reason: str, message: str) -> bytes:
    """Of what a condition says: of 8 bytes, where the text of each pod that waits would be hundreds."""
    return blake2b(f"{reason}\n{message}".encode(), digest_size=8).digest()


def decode_template(raw: bytes | msgspec.Raw) -> PodTemplate:
    """The template in a record's bytes."""
    template = _template_decoder.decode(raw)
    return template if template.own is None else with_own(template, template.own)


def decode_shared(raw: bytes) -> PodTemplate:
    """What all pods share that differ in what is their own alone."""
    return replace(_template_decoder.decode(raw), own=None)


def with_own(shared: PodTemplate, own: OwnFacts) -> PodTemplate:
    """The template of one of the pods that share the rest. Raises ValueError if it names more or fewer
    claims than it has volumes for."""
    spec, names = shared.spec, own.claim_names
    if names:
        volumes = list(spec.volumes or ())
        of_claims = [at for at, each in enumerate(volumes) if each.persistent_volume_claim]
        for at, name in zip(of_claims, names, strict=True):
            source = volumes[at].persistent_volume_claim
            assert source is not None, "it is a claim's"
            source = replace(source, claim_name=name)
            volumes[at] = replace(volumes[at], persistent_volume_claim=source)
        spec = replace(spec, volumes=volumes)
    return replace(shared, spec=spec, own=own)


class _Tail(ApiStruct):
    labels: msgspec.Raw = msgspec.Raw()
    controller: msgspec.Raw = msgspec.Raw()
    own: msgspec.Raw = msgspec.Raw()


_LABELS, _CONTROLLER, _OWN = map(msgspec.msgpack.encode, ("labels", "controller", "own"))
_tail_decoder: Final = msgspec.msgpack.Decoder(_Tail)
_labels_decoder: Final = msgspec.msgpack.Decoder(dict[str, str])
_controller_decoder: Final = msgspec.msgpack.Decoder(OwnerReference)
_own_decoder: Final = msgspec.msgpack.Decoder(OwnFacts)


def split_template(raw: bytes) -> tuple[bytes, OwnFacts | None]:
    """What is equal for pods whose templates are equal but for `own`; and that."""
    if _OWN not in raw:  # As of most; where it is, it may still be part of a text.
        return raw, None
    tail = _tail_decoder.decode(raw).own
    return (raw[: -len(tail)], _own_decoder.decode(tail)) if tail else (raw, None)


def with_fewer_labels(
    raw: bytes, kept_keys: AbstractSet[str], is_selecting: Callable[[OwnerReference], bool]
) -> bytes:
    """A template with those labels alone whose keys are kept, and without a controller unless that is
    one that selects pods. Done in its bytes: pods that differ in labels alone come by thousands. Raises
    UNDECODABLE for what is no template."""
    tail = _tail_decoder.decode(raw)
    labels: bytes | msgspec.Raw = tail.labels
    if labels:
        all_labels = _labels_decoder.decode(labels)
        kept = {key: value for key, value in all_labels.items() if key in kept_keys}
        if len(kept) < len(all_labels):
            labels = _encoder.encode(kept)
    controller: bytes | msgspec.Raw = tail.controller
    if controller and not is_selecting(_controller_decoder.decode(controller)):
        controller = b""
    if labels is tail.labels and controller is tail.controller:
        return raw
    was = _end_of_template(tail.labels, tail.controller, tail.own)
    count = raw[0] - (controller is not tail.controller)
    rest = raw[1 : len(raw) - len(was)]
    return count.to_bytes() + rest + _end_of_template(labels, controller, tail.own)


def _end_of_template(*values: bytes | msgspec.Raw) -> bytes:
    """`_Tail` as a template's bytes have it: what is there."""
    named = zip((_LABELS, _CONTROLLER, _OWN), values, strict=True)
    return b"".join(part for name, value in named if value for part in (name, value))


def has_other_labels(old: msgspec.Raw, new: msgspec.Raw) -> bool:
    """Whether the labels differ in two templates."""
    if old == new:
        return False
    had, has = _tail_decoder.decode(old).labels, _tail_decoder.decode(new).labels
    return had != has and _labels_of(had) != _labels_of(has)


def _labels_of(raw: msgspec.Raw) -> dict[str, str]:
    return _labels_decoder.decode(raw) if raw else {}


class _SchedulerName(ApiStruct):
    scheduler_name: str = PodSpec().scheduler_name


class _ForWhom(ApiStruct):
    spec: _SchedulerName


_for_whom_decoder: Final = msgspec.msgpack.Decoder(_ForWhom)


def scheduler_name_of(raw: bytes | msgspec.Raw) -> str:
    """spec.schedulerName of a template of which nothing else may be readable; empty if not even that
    is."""
    try:
        return _for_whom_decoder.decode(raw).spec.scheduler_name
    except UNDECODABLE:
        return ""


def controller_of(owners: list[OwnerReference] | None) -> OwnerReference | None:
    """The owner that runs the object."""
    for owner in owners or ():
        if owner.controller:
            return owner
    return None


def _own_facts(meta: PodMeta, spec: PodSpec, status: PodStatus, group: str) -> OwnFacts | None:
    """Takes the names of claims out of the spec."""
    claims, extended = status.resource_claim_statuses, status.extended_resource_claim_status
    if not (spec.volumes or spec.resource_claims or claims or extended):
        return None
    names = []
    for volume in spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
            volume.persistent_volume_claim.claim_name = ""
    is_named = spec.resource_claims or any(v.ephemeral is not None for v in spec.volumes or ())
    if not (names or is_named or claims or extended):
        return None
    return OwnFacts(
        claim_names=names or None,
        name=meta.name if is_named else "",
        uid=meta.uid if is_named else "",
        group=group if spec.resource_claims else "",
        resource_claim_statuses=claims,
        extended_resource_claim_status=extended,
    )


def _resource_status(spec: PodSpec, status: PodStatus) -> PodStatus | None:
    """The parts of status that count as resources; None where they change nothing (`pod_requests`), as
    of nearly every pod: what a kubelet says of one that it runs as it was asked to is not of its own."""
    resizing = [c for c in status.conditions or () if c.type in _RESIZE_CONDITIONS]
    inits = spec.init_containers or ()
    kept = PodStatus(
        conditions=resizing or None,
        container_statuses=_with_more(status.container_statuses, spec.containers, resizing),
        init_container_statuses=_with_more(status.init_container_statuses, inits, resizing),
        node_allocatable_resource_claim_statuses=status.node_allocatable_resource_claim_statuses,
    )
    of_pod = spec.resources.requests if spec.resources else None
    if resizing or not _is_as_asked(status.resources, status.allocated_resources, of_pod):
        kept.resources, kept.allocated_resources = status.resources, status.allocated_resources
    return kept if kept != _NO_STATUS else None


def _with_more(
    statuses: list[ContainerStatus] | None,
    containers: Sequence[Container],
    resizing: list[Condition],
) -> list[ContainerStatus] | None:
    """Of those that state resources, the ones that may count: all while the pod is resized, as its spec
    may be left out then."""
    asked = {c.name: c.resources.requests for c in containers if c.resources}
    return [
        each
        for each in statuses or ()
        if (resizing and (each.resources or each.allocated_resources))
        or not _is_as_asked(each.resources, each.allocated_resources, asked.get(each.name))
    ] or None


def _is_as_asked(
    in_force: ResourceRequirements | None,
    allocated: ResourceList | None,
    asked: ResourceList | None,
) -> bool:
    """The spec says all that these do. What is allocated counts beside what is in force alone."""
    if in_force is None:
        return True
    stated = (asked or {}).items()
    return (in_force.requests or {}).items() <= stated and (allocated or {}).items() <= stated


_NO_STATUS: Final = PodStatus()
_RESIZE_CONDITIONS: Final = frozenset({"PodResizePending", "PodResizeInProgress"})
