"""Short ways to make claims, classes and slices; every value not named has a plain default."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from shared.kube.api.core_v1 import PodResourceClaimStatus
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.api.resource_v1_devices import DeviceClass, ResourceSlice
from shared.kube.pod_record import PodRecord, decode_template

DRIVER = "gpu.example.com"
CLASS = "gpu"


def device(name: str, **fields: Any) -> dict[str, Any]:
    """A device; `attributes` and `capacity` may be given as plain values."""
    body: dict[str, Any] = {"name": name, **fields}
    if "attributes" in body:
        body["attributes"] = {k: _attribute(v) for k, v in body["attributes"].items()}
    if "capacity" in body:
        given = body["capacity"].items()
        body["capacity"] = {k: v if isinstance(v, dict) else {"value": v} for k, v in given}
    return body


def _attribute(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case str():
            return {"string": value}
        case _:
            return dict(value)


def make_slice(
    pool: str,
    devices: Iterable[Mapping[str, Any]] = (),
    *,
    name: str = "",
    node: str | None = "",
    driver: str = DRIVER,
    generation: int = 1,
    count: int = 1,
    **fields: Any,
) -> ResourceSlice:
    """A slice of the node called as its pool, unless `node` says otherwise; None: of no node."""
    spec: dict[str, Any] = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        "devices": list(devices),
        **fields,
    }
    if node is not None:
        spec["nodeName"] = node or pool
    return msgspec.convert(
        {"metadata": {"name": name or f"slice-{pool}"}, "spec": spec}, ResourceSlice
    )


def make_class(name: str = CLASS, *expressions: str, **spec: Any) -> DeviceClass:
    """A class whose selectors are these CEL expressions."""
    body = {"selectors": selectors(*expressions), **spec}
    whole = {"metadata": {"name": name}, "spec": body}
    return msgspec.json.decode(msgspec.json.encode(whole), type=DeviceClass)


def selectors(*expressions: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def request(name: str = "r0", **fields: Any) -> dict[str, Any]:
    """A request for one device of the class, unless fields of ExactDeviceRequest say otherwise."""
    exactly = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": 1, **fields}
    if exactly["allocationMode"] == "All":
        del exactly["count"]
    return {"name": name, "exactly": exactly}


def first_available(name: str, *alternatives: Mapping[str, Any]) -> dict[str, Any]:
    """A request with alternatives, each a request as `request` makes them."""
    listed = [{"name": each["name"], **each["exactly"]} for each in alternatives]
    return {"name": name, "firstAvailable": listed}


def make_claim(
    name: str = "claim",
    requests: Sequence[Mapping[str, Any]] = (),
    *,
    constraints: Sequence[Mapping[str, Any]] = (),
    status: Mapping[str, Any] | None = None,
    owner: str = "",
    **devices: Any,
) -> ResourceClaim:
    """A claim of the namespace `default`, with one request unless told otherwise."""
    metadata: dict[str, Any] = {
        "name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1",
    }  # fmt: skip
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "controller": True}]
    body = {
        "metadata": metadata,
        "spec": {
            "devices": {
                "requests": list(requests) or [request()],
                "constraints": list(constraints),
                **devices,
            }
        },
        "status": dict(status or {}),
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=ResourceClaim)


def allocated(*devices: str, pool: str, driver: str = DRIVER, **fields: Any) -> dict[str, Any]:
    """The status of a claim that has these devices."""
    results = [
        {"request": "r0", "driver": driver, "pool": pool, "device": each, **fields}
        for each in devices
    ]
    return {"allocation": {"devices": {"results": results}}}


def with_claims_made(pod: PodRecord, made: Mapping[str, str]) -> PodRecord:
    """The pod once claims were made of its templates: by which name it knows each, and the claim's."""
    template = decode_template(pod.template)
    if template.own is None or not made:
        return pod
    statuses = [
        PodResourceClaimStatus(name=name, resource_claim_name=claim) for name, claim in made.items()
    ]
    own = msgspec.structs.replace(template.own, resource_claim_statuses=statuses)
    template = msgspec.structs.replace(template, own=own)
    return msgspec.structs.replace(pod, template=msgspec.Raw(msgspec.msgpack.encode(template)))
