"""Resource slices read once: quantities as numbers, attributes as CEL and constraints see them.

A slice is looked at for each node and pod, and changes seldom; what can be worked out from the slice
alone is worked out here, once for each version of it. A slice that holds something unreadable keeps
the reason, which whoever needs its devices gets as an error.

Rules: staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go, `getAttributeValue` and
`DeviceMatches`; structured/internal/incubating/allocator_incubating.go, `lookupAttribute`; v1.36.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from shared.cel.cel_selector import Expression
from shared.cel.cel_semver import parse_semver
from shared.cel.cel_values import CelCompileError, CelError, CelQuantity, DefaultMap
from shared.dra.search_work import AllocationError, Work, WorkError
from shared.feature_gates import (
    DRA_CONSUMABLE_CAPACITY,
    DRA_DEVICE_BINDING_CONDITIONS,
    DRA_DEVICE_TAINTS,
    DRA_NODE_ALLOCATABLE_RESOURCES,
    DRA_PARTITIONABLE_DEVICES,
    FeatureGates,
)
from shared.kube.api.meta_v1 import Quantity
from shared.kube.api.resource_v1_devices import (
    CapacityRange,
    CapacityRequestPolicy,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from shared.kube.quantity import ExactQuantity, QuantityError, kept_exponent, parse
from shared.selectors.node_terms import Terms, parse_selector

ANSWERS_MAX: Final = 64
"""Selectors of which a device remembers what they say of it. Most devices meet one or two."""

DeviceId = tuple[str, str, str]
"""(driver, pool, device)"""
PoolId = tuple[str, str]
"""(driver, pool)"""
CounterId = tuple[str, str]
"""(counter set, counter)"""
Counters = dict[CounterId, int]
"""Amounts in 1e-9."""
Selector = tuple[str, Expression | CelCompileError]
"""As messages name it, and what it says."""


class Capacity(NamedTuple):
    """One capacity of a device, and how much of it a request may take where it is shared."""

    value: ExactQuantity
    default: ExactQuantity | None
    values: tuple[ExactQuantity, ...]
    """Empty: any."""
    low: ExactQuantity | None
    high: ExactQuantity | None
    step: ExactQuantity | None


class NodeShare(NamedTuple):
    """What of one of its node's resources whoever is given a device takes besides."""

    capacity: str
    """So much as is taken of this capacity; empty: for each device."""
    multiplier: ExactQuantity | None
    """Times this, where a capacity is named; this itself where none is."""


class NodeMatch(NamedTuple):
    """Which nodes can reach a slice or a device; the first that is set counts."""

    node_name: str
    all_nodes: bool
    terms: Terms | None

    @property
    def is_stated(self) -> bool:
        return bool(self.node_name) or self.all_nodes or self.terms is not None


def knows_shares(gates: FeatureGates) -> bool:
    """Whether upstream has its newer allocator ("incubating"), for want of one of these gates the older
    ("stable"), which has never heard of shares, capacity and devices that bind to nodes."""
    return gates[DRA_CONSUMABLE_CAPACITY] or gates[DRA_DEVICE_BINDING_CONDITIONS]


class DeviceFacts:
    """What a driver says of a device, apart from its name: most devices of a cluster are alike."""

    def __init__(self, device: Device, driver: str, gates: FeatureGates) -> None:
        self.device = device
        self.driver = driver
        allows_several = bool(device.allow_multiple_allocations)
        self.is_shared = allows_several and gates[DRA_CONSUMABLE_CAPACITY]
        """allowMultipleAllocations: several requests may use it at a time."""
        self._is_measured = gates[DRA_CONSUMABLE_CAPACITY]
        self._says_so = allows_several and knows_shares(gates)
        """To selectors."""
        self.binds_to_node = bool(device.binds_to_node) and knows_shares(gates)
        """Whoever has it can be used on that node alone."""
        self.match = _node_match(device)
        taints = (device.taints or ()) if gates[DRA_DEVICE_TAINTS] else ()
        self.taints = [(t.key, t.value, t.effect) for t in taints]
        has_parts = gates[DRA_PARTITIONABLE_DEVICES]
        self.counters = _consumed(device.consumes_counters or []) if has_parts else ()
        self.is_selectable = gates[DRA_DEVICE_BINDING_CONDITIONS] or not device.binding_conditions
        """Else no request sees it."""
        self.can_be_had = has_parts or not device.consumes_counters
        shares = device.node_allocatable_resource_mappings or {}
        self.node_shares = {
            resource: NodeShare(share.capacity_key or "", _parsed(share.allocation_multiplier))
            for resource, share in shares.items()
            if gates[DRA_NODE_ALLOCATABLE_RESOURCES]
        }
        """By resource of the node."""
        self._answers: dict[str, bool] = {}

    @cached_property
    def attributes(self) -> dict[str, tuple[str, object]]:
        """Fully qualified name -> kind and value; kind "" for a value of a kind not known here."""
        given = {name: _kind_and_value(a) for name, a in (self.device.attributes or {}).items()}
        found = {f"{self.driver}/{n}": value for n, value in given.items() if "/" not in n}
        # An attribute spelt out with the driver's domain goes before one without.
        found.update({name: value for name, value in given.items() if "/" in name})
        return found

    @cached_property
    def capacity(self) -> dict[str, Capacity]:
        """Capacities by the names that the slice gives them."""
        return {name: _capacity(each) for name, each in (self.device.capacity or {}).items()}

    @property
    def measured(self) -> dict[str, Capacity]:
        """Those that requests use up, or have to be within."""
        return self.capacity if self._is_measured else {}

    @cached_property
    def cel(self) -> dict[str, Any]:
        """As selectors see it; AllocationError for an attribute that has no value for them."""
        attributes = {
            name: _cel_value(name, *_kind_and_value(stated))
            for name, stated in (self.device.attributes or {}).items()
        }
        capacity = {
            name: CelQuantity(parse(each.value), kept_exponent(each.value))
            for name, each in (self.device.capacity or {}).items()
        }
        return {
            "driver": self.driver,
            "attributes": self._by_domain(attributes),
            "capacity": self._by_domain(capacity),
            "allowMultipleAllocations": self._says_so,
        }

    def _by_domain(self, values: Mapping[str, Any]) -> DefaultMap:
        found = DefaultMap()
        for name, value in values.items():
            domain, identifier = name.split("/", 1) if "/" in name else (self.driver, name)
            found.setdefault(domain, {})[identifier] = value
        return found

    def is_selected(self, selectors: Sequence[Selector], work: Work) -> bool:
        """Whether all of the selectors take the device; AllocationError for one that cannot tell.
        Answers are remembered: neither device nor expression ever changes."""
        for text, selector in selectors:
            if isinstance(selector, CelCompileError):
                raise AllocationError(f"{text}: CEL compile error: {selector}")
            answer = self._answers.get(selector.source)
            if answer is None:
                if len(self._answers) >= ANSWERS_MAX:
                    self._answers.clear()
                try:
                    answer = self._answers[selector.source] = selector.matches(self.cel, work)
                except WorkError:
                    raise
                except (CelError, AllocationError) as error:
                    raise AllocationError(f"{text}: CEL runtime error: {error}") from error
            if not answer:
                return False
        return True


class DeviceView(NamedTuple):
    """A device of a slice."""

    identity: DeviceId
    facts: DeviceFacts
    where: Device | ResourceSliceSpec
    """Of its slice and itself the one that says which nodes it is for."""


class SliceFacts:
    """What a slice says, apart from names: most slices of a cluster are alike."""

    def __init__(self, spec: ResourceSliceSpec, gates: FeatureGates) -> None:
        self.devices: list[DeviceFacts] = []
        self.counter_sets: list[tuple[str, Counters]] = []
        self.problem = ""
        """Why its devices cannot be used; empty if they can."""
        has_parts = gates[DRA_PARTITIONABLE_DEVICES]
        self.is_per_device = has_parts and bool(spec.per_device_node_selection)
        try:
            self.devices = [DeviceFacts(each, spec.driver, gates) for each in spec.devices or ()]
            for counter_set in (spec.shared_counters or ()) if has_parts else ():
                counters = (counter_set.counters or {}).items()
                amounts = {(counter_set.name, k): parse(c.value).nanos for k, c in counters}
                self.counter_sets.append((counter_set.name, amounts))
            for device in self.devices:
                device.capacity  # noqa: B018  # Read now, so that what is wrong is known.
        except QuantityError as error:
            self.problem = str(error)


class SliceView:
    """A resource slice."""

    def __init__(
        self,
        resource_slice: ResourceSlice,
        known: MutableMapping[bytes, SliceFacts],
        gates: FeatureGates,
    ) -> None:
        """`known`: by content, of other slices, which may be alike; this one's are added."""
        spec = resource_slice.spec
        self.name = resource_slice.metadata.name
        self.pool_id: PoolId = (spec.driver, spec.pool.name)
        self.generation = spec.pool.generation
        self.slice_count = spec.pool.resource_slice_count
        is_known = gates[DRA_PARTITIONABLE_DEVICES] or not spec.shared_counters
        # Without partitions no node sees what they share, but it counts as its pool's.
        self.match = _node_match(spec) if is_known else NodeMatch("", False, None)
        self.has_binding_conditions = any(d.binding_conditions for d in spec.devices or ())
        self.content = _content(resource_slice)
        """Equal for slices that differ only in where they are."""
        facts = known.get(self.content)
        if facts is None:
            facts = known[self.content] = SliceFacts(spec, gates)
        self.facts = facts
        self.is_per_device = facts.is_per_device
        self.counter_sets = facts.counter_sets
        self.problem = f"resource slice {self.name}: {facts.problem}" if facts.problem else ""
        """Why its devices cannot be used; empty if they can."""
        self.devices = [
            DeviceView(
                (*self.pool_id, device.name), each, each.device if facts.is_per_device else spec
            )
            for device, each in zip(spec.devices or (), facts.devices, strict=False)
        ]
        """None where not even these can be told apart."""

    def need_readable(self) -> None:
        """AllocationError for what is wrong with it."""
        if self.problem:
            raise AllocationError(self.problem)


def _content(resource_slice: ResourceSlice) -> bytes:
    """The slice without its names: what decides whether an allocation succeeds."""
    spec = resource_slice.spec
    bare = msgspec.structs.replace(
        spec,
        node_name=None,
        pool=ResourcePool(resource_slice_count=spec.pool.resource_slice_count),
        devices=[msgspec.structs.replace(device, name="") for device in spec.devices or ()],
    )
    return msgspec.msgpack.encode(bare)


def _node_match(stated: ResourceSliceSpec | Device) -> NodeMatch:
    terms = None if stated.node_selector is None else parse_selector(stated.node_selector)
    return NodeMatch(stated.node_name or "", bool(stated.all_nodes), terms)


def _consumed(consumptions: list[DeviceCounterConsumption]) -> tuple[tuple[CounterId, int], ...]:
    """Each counter that a device needs, and how much of it."""
    return tuple(
        ((consumption.counter_set, name), parse(counter.value).nanos)
        for consumption in consumptions
        for name, counter in (consumption.counters or {}).items()
    )


def _kind_and_value(attribute: DeviceAttribute) -> tuple[str, Any]:
    given = {
        "string": attribute.string,
        "int": attribute.int_,
        "bool": attribute.bool_,
        "version": attribute.version,
    }
    return next((each for each in given.items() if each[1] is not None), ("", None))


def _cel_value(name: str, kind: str, value: Any) -> Any:
    if not kind:
        raise AllocationError(f"attribute {name}: unsupported attribute value")
    if kind != "version":
        return value
    try:
        return parse_semver(value)
    except CelError as error:
        raise AllocationError(f"attribute {name}: parse semantic version: {error}") from error


def _capacity(capacity: DeviceCapacity) -> Capacity:
    policy = capacity.request_policy or CapacityRequestPolicy()
    bounds = policy.valid_range or CapacityRange()
    return Capacity(
        parse(capacity.value),
        _parsed(policy.default),
        tuple(map(parse, policy.valid_values or ())),
        _parsed(bounds.min),
        _parsed(bounds.max),
        _parsed(bounds.step),
    )


def _parsed(text: Quantity | None) -> ExactQuantity | None:
    return None if text is None else parse(text)
