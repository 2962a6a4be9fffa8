"""Objects of resource.k8s.io/v1 that say what devices there are: classes and slices."""

import msgspec

from shared.kube.api.core_v1 import Taint
from shared.kube.api.core_v1_parts import NodeSelector
from shared.kube.api.meta_v1 import ApiStruct, Int64, NamedObject, Quantity
from shared.kube.api.resource_v1 import DeviceClaimConfiguration, DeviceSelector


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


class NodeAllocatableResourceMapping(ApiStruct):
    capacity_key: str | None = None
    allocation_multiplier: Quantity | None = None


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
    node_allocatable_resource_mappings: dict[str, NodeAllocatableResourceMapping] | None = None


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
