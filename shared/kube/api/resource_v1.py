"""Objects of resource.k8s.io/v1: dynamic resource allocation.

What berth writes back (an allocation) is held in full, what it only passes on (opaque configuration of
drivers) as plain JSON.
"""

from typing import Any, Final

import msgspec

from shared.kube.api.core_v1_parts import NodeSelector, Taint, Toleration
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


class DeviceClaimConfiguration(ApiStruct):
    requests: list[str] | None = None
    opaque: dict[str, Any] | None = None


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
    data: Any = None
    network_data: Any = None


class ResourceClaimStatus(ApiStruct):
    allocation: AllocationResult | None = None
    reserved_for: list[ResourceClaimConsumer] | None = None
    devices: list[AllocatedDeviceStatus] | None = None


class ResourceClaim(NamedObject):
    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = msgspec.field(default_factory=ResourceClaimStatus)


class DeviceClassSpec(ApiStruct):
    selectors: list[DeviceSelector] | None = None
    config: list[DeviceClaimConfiguration] | None = None
    extended_resource_name: str | None = None


class DeviceClass(NamedObject):
    spec: DeviceClassSpec = msgspec.field(default_factory=DeviceClassSpec)


class DeviceAttribute(ApiStruct):
    """Exactly one is set, unless the API has learnt a new kind of value."""

    int_: Int64 | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class CapacityRange(ApiStruct):
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(ApiStruct):
    default: Quantity | None = None
    valid_values: list[Quantity] | None = None
    valid_range: CapacityRange | None = None


class DeviceCapacity(ApiStruct):
    value: Quantity = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(ApiStruct):
    value: Quantity = 0


class CounterSet(ApiStruct):
    name: str = ""
    counters: dict[str, Counter] | None = None


class DeviceCounterConsumption(ApiStruct):
    counter_set: str = ""
    counters: dict[str, Counter] | None = None


class Device(ApiStruct):
    name: str = ""
    attributes: dict[str, DeviceAttribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: list[DeviceCounterConsumption] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[Taint] | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None


class ResourcePool(ApiStruct):
    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(ApiStruct):
    driver: str = ""
    pool: ResourcePool = msgspec.field(default_factory=ResourcePool)
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: list[Device] | None = None
    per_device_node_selection: bool | None = None
    shared_counters: list[CounterSet] | None = None


class ResourceSlice(NamedObject):
    spec: ResourceSliceSpec = msgspec.field(default_factory=ResourceSliceSpec)
