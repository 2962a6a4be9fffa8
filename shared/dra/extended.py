"""Extended resources that a device class stands for: the requests that a pod's containers make.

A pod that asks for `example.com/gpu: 2` in the old way gets two devices of a class, on nodes that
have no device plugin for the resource. The claim for that is the scheduler's own: one per pod, with
one request per container and resource. Containers that run one after the other share devices.

Until a node is chosen that claim is a template without a name of its own. kube-apiserver would make up
a name (kube-scheduler leaves it to it); here the name follows from the pod and from what was allocated,
so that an order to make the claim may come twice, and what an earlier attempt left behind is never taken
for this one's.

Rules: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go and
extended/deviceclassresolver.go, v1.36.2.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from shared.dra.requests import EXACT_COUNT
from shared.kube.api.core_v1 import PodSpec
from shared.kube.api.core_v1_parts import ContainerExtendedResourceRequest
from shared.kube.api.resource_v1 import (
    AllocationResult,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from shared.kube.api.resource_v1_devices import DeviceClass
from shared.kube.quantity import NANOS_PER_UNIT, parse
from shared.kube.resource_names import is_extended
from shared.kube.well_known import EXTENDED_RESOURCE_CLAIM, IS_ONE

IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Followed by the name of a class: the resource that every class stands for."""
SPECIAL_CLAIM: Final = "<extended-resources>"
"""Name of the claim before a node is chosen; messages show it."""
NAME_LENGTH_MAX: Final = 63
DIGEST_LENGTH: Final = 10


class ExtendedRequests(NamedTuple):
    """What has to be allocated for the extended resources of a pod."""

    requests: list[DeviceRequest]
    mappings: list[ContainerExtendedResourceRequest]
    """Which container finds its devices in which request; for the pod's status."""


def can_be_backed(resource: str) -> bool:
    """Whether a device class may stand for a resource of this name (IsDRAExtendedResourceName)."""
    return resource.startswith(IMPLICIT_PREFIX) or is_extended(resource)


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Extended resource -> its class. Of several the youngest counts, then the first by name."""
    found: dict[str, DeviceClass] = {}
    by_name = sorted(classes, key=lambda c: c.metadata.name, reverse=True)
    for each in sorted(by_name, key=lambda c: c.metadata.creation_timestamp or ""):
        if each.spec.extended_resource_name is not None:
            found[each.spec.extended_resource_name] = each
    for each in by_name:
        found[IMPLICIT_PREFIX + each.metadata.name] = each
    return found


def extended_requests(spec: PodSpec, backed: Mapping[str, DeviceClass]) -> ExtendedRequests:
    """Requests for the resources in `backed`, which devices have to provide."""
    made = ExtendedRequests([], [])
    for resource in sorted(backed):
        _add_requests(made, spec, resource, backed[resource].metadata.name)
    made.requests.sort(key=lambda request: request.name)
    return made


def _add_requests(made: ExtendedRequests, spec: PodSpec, resource: str, class_name: str) -> None:
    containers = [*(spec.init_containers or ()), *spec.containers]
    init_count = len(spec.init_containers or ())
    names, wanted = {}, {}
    for i, container in enumerate(containers):
        asked = (container.resources.requests or {}) if container.resources is not None else {}
        if count := _whole_units(asked.get(resource, 0)):
            names[i] = f"container-{i}-request-{sorted(asked).index(resource)}"
            wanted[i] = count
    # Those that stay have devices of their own.
    counts = {
        i: count
        for i, count in wanted.items()
        if i >= init_count or containers[i].restart_policy == "Always"
    }
    uses = [(i, i) for i in counts]
    more: dict[int, int] = {}
    # Others, one after the other, use what later ones will have, and what they need beyond that.
    for i in sorted(wanted.keys() - counts.keys()):
        left = wanted[i]
        for later in (each for each in counts if each > i):
            if left > 0:
                uses.append((i, later))
                left -= counts[later]
        if left > 0:
            uses.append((i, i))
            more[i] = left
    if more:  # The largest request for more serves all of them.
        largest = max(more, key=more.__getitem__)
        counts[largest] = more[largest]
        names |= dict.fromkeys(more, names[largest])
    for i, count in counts.items():
        exactly = ExactDeviceRequest(
            device_class_name=class_name, allocation_mode=EXACT_COUNT, count=count
        )
        made.requests.append(DeviceRequest(name=names[i], exactly=exactly))
    made.mappings.extend(
        ContainerExtendedResourceRequest(
            container_name=containers[i].name, resource_name=resource, request_name=names[whose]
        )
        for i, whose in uses
    )


def _whole_units(amount: str | float) -> int:
    units, rest = divmod(parse(amount).nanos, NANOS_PER_UNIT)
    return units if rest == 0 else 0


# The claim -------------------------------------------------------------------------------------------


def special_claim_name(pod_name: str, pod_uid: str, allocation: AllocationResult) -> str:
    """The same for the same pod and devices, and for no others."""
    told = msgspec.json.encode(allocation, order="sorted")
    digest = hashlib.sha256(f"{pod_uid}/".encode() + told).hexdigest()
    base = f"{pod_name}-extended-resources"[: NAME_LENGTH_MAX - DIGEST_LENGTH - 1].rstrip("-.")
    return f"{base}-{digest[:DIGEST_LENGTH]}"


def pod_uid_of(claim: ResourceClaim) -> str:
    """The pod for which a scheduler made the claim; empty for claims of other makers."""
    meta = claim.metadata
    if (meta.annotations or {}).get(EXTENDED_RESOURCE_CLAIM) != IS_ONE:
        return ""
    return next((owner.uid for owner in meta.owner_references or () if owner.controller), "")
