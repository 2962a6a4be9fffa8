"""Objects of resource.k8s.io/v1, dynamic resource allocation: claims.

What berth writes back (an allocation) is held in full, what it only passes on (opaque configuration of
drivers) byte by byte. What devices there are, which a binder never reads: `resource_v1_devices.py`.
"""

from typing import Any, Final

import msgspec

from shared.kube.api.core_v1_parts import NodeSelector, Toleration
from shared.kube.api.meta_v1 import ApiStruct, Condition, Int64, NamedObject, Quantity


class CelDeviceSelector(ApiStruct):
    expression: str = ""


class DeviceSelector(ApiStruct):
    cel: CelDeviceSelector | None = None


class CapacityRequirements(ApiStruct):
    requests: dict[str, Quantity] | None = None


class RequestedDevices(ApiStruct):
    """What a request says of devices, alone or as one of several that will do."""

    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str = ""
    count: Int64 = 0
    tolerations: list[Toleration] | None = None
    capacity: CapacityRequirements | None = None


class ExactDeviceRequest(RequestedDevices):
    admin_access: bool | None = None


class DeviceSubRequest(RequestedDevices):
    name: str = ""


class DeviceRequest(ApiStruct):
    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceConstraint(ApiStruct):
    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


_MESSAGE_FROM: Final = b"\x80"
"""The least first byte of bytes in msgpack; that of JSON is less."""


class OpaqueDeviceConfiguration(ApiStruct):
    driver: str = ""
    parameters: msgspec.Raw = msgspec.Raw(b"null")
    """In memory, and in our messages, the bytes of the JSON: it is the driver's, and any number in it
    that we read and wrote might be another (RawExtension in
    staging/src/k8s.io/apimachinery/pkg/runtime/extension.go, v1.36.2)."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "parameters", _json_bytes(self.parameters))


class DeviceClaimConfiguration(ApiStruct):
    requests: list[str] | None = None
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(ApiStruct):
    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None
    config: list[DeviceClaimConfiguration] | None = None


class ResourceClaimSpec(ApiStruct):
    devices: DeviceClaim = msgspec.field(default_factory=DeviceClaim)


class AllocatedDevice(ApiStruct):
    """DeviceRequestAllocationResult: a device given to a request."""

    request: str = ""
    """`request` or `request/subrequest`."""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: list[Toleration] | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, Quantity] | None = None


class DeviceAllocationConfiguration(DeviceClaimConfiguration):
    source: str = ""


class DeviceAllocationResult(ApiStruct):
    results: list[AllocatedDevice] | None = None
    config: list[DeviceAllocationConfiguration] | None = None


class AllocationResult(ApiStruct):
    devices: DeviceAllocationResult = msgspec.field(default_factory=DeviceAllocationResult)
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


def json_of_allocation(allocation: AllocationResult) -> msgspec.Raw:
    """For the API server, with the opaque parameters as they came."""
    told: dict[str, Any] = msgspec.to_builtins(allocation, builtin_types=(bytes,))
    for config in told.get("devices", {}).get("config", ()):
        opaque = config.get("opaque", {})
        if "parameters" in opaque:
            opaque["parameters"] = msgspec.Raw(opaque["parameters"])
    return msgspec.Raw(msgspec.json.encode(told))


RESERVED_FOR_MAX: Final = 256
"""Pods in a claim's reservedFor (ResourceClaimReservedForMaxSize in
staging/src/k8s.io/api/resource/v1/types.go, v1.36.2)."""


class ResourceClaimConsumer(ApiStruct):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(ApiStruct):
    """What a driver says of an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: list[Condition] | None = None
    data: msgspec.Raw = msgspec.Raw()
    network_data: msgspec.Raw = msgspec.Raw()
    """Of these two only matters whether they are the same as before: in memory, and in our messages,
    they are the bytes of the JSON."""

    def __post_init__(self) -> None:
        for name in ("data", "network_data"):
            msgspec.structs.force_setattr(self, name, _json_bytes(getattr(self, name)))


def _json_bytes(told: msgspec.Raw | bytes) -> bytes:
    """Of what comes as JSON, as bytes in msgpack, or was read before."""
    text = bytes(told)
    is_message = isinstance(told, msgspec.Raw) and text[:1] >= _MESSAGE_FROM
    return msgspec.msgpack.decode(text, type=bytes) if is_message else text


class ResourceClaimStatus(ApiStruct):
    allocation: AllocationResult | None = None
    reserved_for: list[ResourceClaimConsumer] | None = None
    devices: list[AllocatedDeviceStatus] | None = None


class ResourceClaim(NamedObject):
    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = msgspec.field(default_factory=ResourceClaimStatus)
