"""A claim's requests in one shape, and its allocation as the API has it.

A request asks for devices of one class outright or lists alternatives (subrequests) of which the
first possible one is taken; the allocator sees both as alternatives.

Rules: structured/internal/incubating/allocator_incubating.go of
staging/src/k8s.io/dynamic-resource-allocation, v1.36 (`requestAccessor`, the end of `Allocate`).
"""

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from shared.cel.cel_selector import compile_selector
from shared.dra.resource_slices import DeviceView, Selector, knows_shares
from shared.dra.search_work import AllocationError
from shared.feature_gates import DRA_CONSUMABLE_CAPACITY, FeatureGates
from shared.kube.api.core_v1_parts import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Toleration,
)
from shared.kube.api.resource_v1 import (
    AllocatedDevice,
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from shared.kube.api.resource_v1_devices import DeviceClass
from shared.kube.quantity import ExactQuantity, canonical, parse

ALL: Final = "All"
EXACT_COUNT: Final = "ExactCount"


class Alternative(NamedTuple):
    """One way to satisfy a request."""

    text: str
    """As messages name it."""
    request: str
    """Name of the request."""
    sub_request: str
    """Of the subrequest; empty if the request has none."""
    device_class: DeviceClass
    selectors: tuple[Selector, ...]
    """Of the class, and its own."""
    mode: str
    device_count: int
    """Of mode ExactCount."""
    admin_access: bool
    tolerations: tuple[Toleration, ...]
    capacity: dict[str, ExactQuantity]

    @property
    def full_name(self) -> str:
        """As an allocation names it."""
        return f"{self.request}/{self.sub_request}" if self.sub_request else self.request

    def is_among(self, names: Collection[str]) -> bool:
        """Whether these names of requests and subrequests mean it."""
        return self.request in names or self.full_name in names


def alternatives_of(
    claim: ResourceClaim,
    request: DeviceRequest,
    classes: dict[str, DeviceClass],
    gates: FeatureGates,
) -> tuple[Alternative, ...]:
    """The ways to satisfy a request; AllocationError for one that cannot be understood."""
    ways: list[tuple[str, ExactDeviceRequest | DeviceSubRequest]]
    ways = [(sub.name, sub) for sub in request.first_available or ()]
    ways = ways or [("", request.exactly or ExactDeviceRequest())]
    for sub_name, asked in ways:
        if (
            asked.capacity is not None
            and knows_shares(gates)
            and not gates[DRA_CONSUMABLE_CAPACITY]
        ):
            name = f"subrequest {sub_name}" if sub_name else f"request {request.name}"
            raise AllocationError(
                f"claim {claim.metadata.key}, {name}: has capacity requests, but the "
                f"{DRA_CONSUMABLE_CAPACITY} feature is disabled"
            )
    return tuple(_alternative(claim, request.name, *way, classes, gates) for way in ways)


def _alternative(
    claim: ResourceClaim,
    request: str,
    sub_request: str,
    asked: ExactDeviceRequest | DeviceSubRequest,
    classes: dict[str, DeviceClass],
    gates: FeatureGates,
) -> Alternative:
    text = f"claim {claim.metadata.key}"
    where = f"{text}, request {sub_request or request}"
    if not asked.device_class_name:
        raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
    device_class = classes.get(asked.device_class_name)
    if device_class is None:
        raise AllocationError(
            f"{where}: could not retrieve device class {asked.device_class_name}: "
            f'deviceclass.resource.k8s.io "{asked.device_class_name}" not found'
        )
    capacity = asked.capacity.requests if asked.capacity and gates[DRA_CONSUMABLE_CAPACITY] else {}
    return Alternative(
        text=where,
        request=request,
        sub_request=sub_request,
        device_class=device_class,
        selectors=class_selectors(device_class) + _selectors(asked.selectors, text, where),
        mode=asked.allocation_mode or EXACT_COUNT,
        device_count=asked.count,
        admin_access=isinstance(asked, ExactDeviceRequest) and bool(asked.admin_access),
        tolerations=tuple(asked.tolerations or ()),
        capacity={key: parse(amount) for key, amount in (capacity or {}).items()},
    )


def class_selectors(device_class: DeviceClass) -> tuple[Selector, ...]:
    """What makes a device one of the class."""
    text = f"class {device_class.metadata.name}"
    return _selectors(device_class.spec.selectors, text, text)


def _selectors(
    selectors: list[DeviceSelector] | None, text: str, where: str
) -> tuple[Selector, ...]:
    found = []
    for i, selector in enumerate(selectors or ()):
        if selector.cel is None:
            raise AllocationError(
                f"{where}, selector #{i}: CEL expression empty (unsupported selector type?)"
            )
        found.append((f"{text}: selector #{i}", compile_selector(selector.cel.expression)))
    return tuple(found)


# Results --------------------------------------------------------------------------------------------


class Given(NamedTuple):
    """A device that the search gave to a request."""

    alternative: Alternative
    device: DeviceView
    consumed: dict[str, ExactQuantity] | None
    """Of a shared device: what is taken of it."""


class Solution(NamedTuple):
    """What one claim gets."""

    claim: ResourceClaim
    chosen: list[Alternative]
    """The alternative of each request."""
    given: list[Given]


def allocation_of(
    solution: Solution, node_name: str, share_id: Callable[[int], str]
) -> AllocationResult:
    """The allocation of a claim. `share_id`: for the number of a device, among those given, that is
    shared."""
    results = [
        _result(each, share_id(number) if each.device.facts.is_shared else None)
        for number, each in enumerate(solution.given)
    ]
    return AllocationResult(
        devices=DeviceAllocationResult(results=results, config=_config(solution) or None),
        node_selector=_node_selector(terms_of(solution), node_name),
    )


def _result(each: Given, share_id: str | None) -> AllocatedDevice:
    device, alternative = each.device.facts.device, each.alternative
    driver, pool, name = each.device.identity
    consumed = each.consumed
    return AllocatedDevice(
        request=alternative.full_name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if alternative.admin_access else None,
        tolerations=list(alternative.tolerations) or None,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        share_id=share_id,
        consumed_capacity={name: canonical(q) for name, q in consumed.items()}
        if consumed
        else None,
    )


def _config(solution: Solution) -> list[DeviceAllocationConfiguration]:
    """Configuration of the classes, then that of the claim, each for the requests it is meant for."""
    by_class: dict[str, list[Alternative]] = {}
    for alternative in solution.chosen:
        by_class.setdefault(alternative.device_class.metadata.name, []).append(alternative)
    stated = [
        ("FromClass", config, [each.full_name for each in chosen])
        for chosen in by_class.values()
        for config in chosen[0].device_class.spec.config or ()
    ]
    for config in solution.claim.spec.devices.config or ():
        names = config.requests or []
        times = sum(each.is_among(names) for each in solution.chosen) if names else 1
        stated += [("FromClaim", config, names)] * times
    return [
        DeviceAllocationConfiguration(source=source, requests=names or None, opaque=config.opaque)
        for source, config, names in stated
    ]


def terms_of(solution: Solution) -> list[NodeSelectorTerm] | None:
    """What the devices ask of nodes where the claim can be used; None: it belongs to its node alone.
    AllocationError for a device whose terms are alternatives, which no single term can say."""
    found: list[NodeSelectorTerm] = []
    for each in solution.given:
        where = each.device.where
        if where.node_name is not None or each.device.facts.binds_to_node:
            return None
        terms = (where.node_selector and where.node_selector.node_selector_terms) or []
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {solution.claim.metadata.name}: "
                f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        found += terms
    return found


def _node_selector(terms: list[NodeSelectorTerm] | None, node_name: str) -> NodeSelector | None:
    """Where the allocation can be used; None: everywhere."""
    if terms is None:
        here = NodeSelectorRequirement(key="metadata.name", operator="In", values=[node_name])
        return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[here])])
    fields = _distinct([each for term in terms for each in term.match_fields or ()])
    expressions = _distinct([each for term in terms for each in term.match_expressions or ()])
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=fields, match_expressions=expressions)
    return NodeSelector(node_selector_terms=[term])


def _distinct(stated: list[NodeSelectorRequirement]) -> list[NodeSelectorRequirement] | None:
    """Each once, whatever the order of its values."""
    found: dict[object, NodeSelectorRequirement] = {}
    for each in stated:
        found.setdefault((each.key, each.operator, frozenset(each.values or ())), each)
    return list(found.values()) or None
