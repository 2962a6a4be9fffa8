"""What the gates of devices switch off, for objects that still say it."""

from typing import Any

import pytest

from daemon.core.cache import Cache
from shared.dra.device_index import CLAIMS, CLASSES, SLICES, takes_devices
from shared.feature_gates import (
    DRA_CONSUMABLE_CAPACITY,
    DRA_DEVICE_BINDING_CONDITIONS,
    DRA_DEVICE_TAINTS,
    DRA_EXTENDED_RESOURCE,
    DRA_PARTITIONABLE_DEVICES,
    DRA_PRIORITIZED_LIST,
    DRA_SCHEDULER_FILTER_TIMEOUT,
    FeatureGates,
)
from shared.framework.status import Code
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.api.resource_v1_devices import DeviceClass, ResourceSlice
from shared.kube.binding_work import claim_work
from shared.plugins.devices.device_allocation import CANNOT_ALLOCATE
from shared.plugins.devices.dynamic_resources import (
    NOT_AVAILABLE,
    DynamicResources,
    DynamicResourcesArgs,
)
from shared.plugins.resources.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from tests.support.builders import make_node, make_pod
from tests.support.cluster import filtered, pod_info, rows_of
from tests.support.devices import (
    allocated,
    device,
    first_available,
    make_claim,
    make_class,
    make_slice,
    request,
    selectors,
)

GPU = "example.com/gpu"
BOTH = f"{DRA_CONSUMABLE_CAPACITY} {DRA_DEVICE_BINDING_CONDITIONS}"
FIRST = rows_of(0)


def cache_of(gates: str, *objects: ResourceClaim | ResourceSlice | DeviceClass) -> Cache:
    """One node and a class, and the gates off that are named."""
    cache = Cache(FeatureGates(dict.fromkeys(gates.split(), False)))
    cache.add_node(make_node("n0"))
    kinds = {ResourceClaim: CLAIMS, ResourceSlice: SLICES, DeviceClass: CLASSES}
    for each in (make_class(), *objects):
        meta = each.metadata
        cache.objects.put(kinds[type(each)], f"{meta.namespace}/{meta.name}".lstrip("/"), each)
    return cache


def said(cache: Cache, *, plugin: DynamicResources | None = None) -> str:
    """What is said of the pod with the claim `claim` on the one node; empty where it fits."""
    plugin = plugin or DynamicResources(DynamicResourcesArgs())
    claims = [{"name": "c", "resourceClaimName": "claim"}]
    pod = pod_info(make_pod("p", spec={"resourceClaims": claims}))
    result = plugin.pre_filter(pod, cache.view)
    if not result.status.is_success:
        return result.status.message
    return plugin.filter(result.state, pod, cache.view, FIRST).status(0, "").message


def devices(*given: dict[str, Any], **fields: Any) -> ResourceSlice:
    return make_slice("n0", given, **fields)


SHARED = device("a", allowMultipleAllocations=True, capacity={"memory": "10Gi"})
HALVED = device(
    "a",
    allowMultipleAllocations=True,
    capacity={"m": {"value": "2", "requestPolicy": {"default": "1"}}},
)
COUNTERS = [{"name": "card", "counters": {"memory": {"value": "80"}}}]
PART = device(
    "part", consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": "40"}}}]
)
PARTS = (
    make_slice("n0", name="counters", count=2, sharedCounters=COUNTERS),
    make_slice("n0", [PART], name="parts", count=2),
)
TAINTED = device("a", taints=[{"key": "k", "effect": "NoSchedule"}])
PREPARED = device("a", bindingConditions=["Ready"])
BROKEN = {
    **allocated("a", pool="n0", bindingConditions=["Ready"], bindingFailureConditions=["Broken"]),
    "devices": [
        {
            "driver": "gpu.example.com",
            "pool": "n0",
            "device": "a",
            "conditions": [{"type": "Broken", "status": "True"}],
        }
    ],
}
ALTERNATIVES = first_available("r0", request("s0"), request("s1"))
DISABLED = "but the {} feature is disabled"


@pytest.mark.parametrize(
    ("gate", "claim", "others", "on", "off"),
    [
        pytest.param(
            DRA_PRIORITIZED_LIST,
            make_claim(requests=[ALTERNATIVES]),
            [devices(device("a"))],
            "",
            "resource claim default/claim, request r0: has subrequests, "
            + DISABLED.format(DRA_PRIORITIZED_LIST),
            id="alternatives",
        ),
        pytest.param(
            DRA_DEVICE_TAINTS, make_claim(), [devices(TAINTED)], CANNOT_ALLOCATE, "", id="taints"
        ),
        pytest.param(
            DRA_DEVICE_BINDING_CONDITIONS,
            make_claim(),
            [devices(PREPARED)],
            "",
            CANNOT_ALLOCATE,
            id="a device that has to be prepared",
        ),
        pytest.param(
            DRA_DEVICE_BINDING_CONDITIONS,
            make_claim(requests=[request(allocationMode="All")]),
            [devices(PREPARED, device("b"))],
            "",
            "",
            id="all but those that have to be prepared",
        ),
        pytest.param(
            DRA_DEVICE_BINDING_CONDITIONS,
            make_claim(status=BROKEN),
            [],
            NOT_AVAILABLE,
            "",
            id="a device that could not be prepared",
        ),
        pytest.param(
            DRA_PARTITIONABLE_DEVICES, make_claim(), PARTS, "", CANNOT_ALLOCATE, id="a part"
        ),
        pytest.param(
            DRA_PARTITIONABLE_DEVICES,
            make_claim(requests=[request(allocationMode="All")]),
            [PARTS[0], make_slice("n0", [PART, device("b")], name="parts", count=2)],
            "",
            CANNOT_ALLOCATE,
            id="all of which one is a part",
        ),
        pytest.param(
            DRA_PARTITIONABLE_DEVICES,
            make_claim(),
            [
                make_slice(
                    "n0", [device("a", allNodes=True)], node=None, perDeviceNodeSelection=True
                )
            ],
            "",
            CANNOT_ALLOCATE,
            id="a device that says for whom it is",
        ),
        pytest.param(
            DRA_PARTITIONABLE_DEVICES,
            make_claim(),
            [
                PARTS[0],
                make_slice("n0", [device("b")], name="whole", count=2),
                make_slice("n0", [device("c")], name="more", node="n1", count=2),
            ],
            "",
            CANNOT_ALLOCATE,
            id="a pool that is complete with its counters, and has one slice too many",
        ),
        pytest.param(
            DRA_CONSUMABLE_CAPACITY,
            make_claim(requests=[request(capacity={"requests": {"memory": "1Gi"}})]),
            [devices(SHARED)],
            "",
            "claim default/claim, request r0: has capacity requests, "
            + DISABLED.format(DRA_CONSUMABLE_CAPACITY),
            id="capacity is asked for",
        ),
        pytest.param(
            DRA_CONSUMABLE_CAPACITY,
            make_claim(requests=[first_available("r0", request("s0", capacity={"requests": {}}))]),
            [devices(SHARED)],
            "",
            "claim default/claim, subrequest s0: has capacity requests, "
            + DISABLED.format(DRA_CONSUMABLE_CAPACITY),
            id="capacity is asked for in an alternative",
        ),
        pytest.param(
            DRA_CONSUMABLE_CAPACITY,
            make_claim(requests=[request(f"r{i}") for i in range(2)]),
            [devices(HALVED)],
            "",
            CANNOT_ALLOCATE,
            id="two shares of a device",
        ),
    ],
)
def test_what_a_gate_switches_off(
    gate: str, claim: ResourceClaim, others: list[Any], on: str, off: str
) -> None:
    assert said(cache_of("", claim, *others)) == on
    assert said(cache_of(gate, claim, *others)) == off


def test_who_was_given_a_share_has_the_device_alone() -> None:
    share = allocated("a", pool="n0", shareID="s", consumedCapacity={"m": "1"})
    objects = (devices(HALVED), make_claim("other", status=share), make_claim())
    assert said(cache_of("", *objects)) == ""
    assert said(cache_of(DRA_CONSUMABLE_CAPACITY, *objects)) == CANNOT_ALLOCATE


@pytest.mark.parametrize("name", [GPU, "deviceclass.resource.kubernetes.io/cards"])
def test_no_class_stands_for_a_resource(name: str) -> None:
    """Neither for the one that it names nor for the one called after it."""
    resources = {"requests": {name: "1"}}
    pod = pod_info(make_pod("p", spec={"containers": [{"name": "c", "resources": resources}]}))
    objects = (make_class("cards", extendedResourceName=GPU), devices(device("a")))
    for gate, code in (
        ("", Code.SUCCESS),
        (DRA_EXTENDED_RESOURCE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
    ):
        view = cache_of(gate, *objects).view
        fit = NodeResourcesFit(NodeResourcesFitArgs())
        assert filtered(fit, pod, view, FIRST).status(0, "").code is code
        is_asked = DynamicResources(DynamicResourcesArgs()).pre_filter(pod, view).status.is_success
        assert is_asked is takes_devices(pod, view) is (not gate)


def test_alternatives_rate_no_node() -> None:
    claim = make_claim(requests=[ALTERNATIVES], status=allocated("a", pool="n0"))
    plugin = DynamicResources(DynamicResourcesArgs())
    claims = [{"name": "c", "resourceClaimName": "claim"}]
    pod = pod_info(make_pod("p", spec={"resourceClaims": claims}))
    for gate in ("", DRA_PRIORITIZED_LIST):
        result = plugin.pre_score(pod, cache_of(gate, claim).view, FIRST)
        assert (result.state is None) is bool(gate)


def test_what_has_to_be_prepared_is_not_waited_for() -> None:
    """Of a claim that was allocated before the gate was switched off."""
    prepared = allocated("a", pool="n0", bindingConditions=["Ready"])
    claims = [{"name": "c", "resourceClaimName": "claim"}]
    record = make_pod("p", spec={"resourceClaims": claims})
    reserved = {**prepared, "reservedFor": [{"resource": "pods", "name": "p", "uid": record.uid}]}
    plugin = DynamicResources(DynamicResourcesArgs())
    for gate, timeout_s in (("", 600.0), (DRA_DEVICE_BINDING_CONDITIONS, 0.0)):
        view = cache_of(gate, make_claim(status=prepared)).view
        (work,) = claim_work(plugin.pre_bind_work(record, pod_info(record), view, 0))
        assert work.ready_timeout_s == timeout_s
        view = cache_of(gate, make_claim(status=reserved)).view
        assert bool(plugin.pre_bind_work(record, pod_info(record), view, 0)) is not bool(gate)


def test_a_search_may_be_as_long_as_it_takes() -> None:
    same = {"matchAttribute": "gpu.example.com/model", "requests": ["r1"]}
    claim = make_claim(
        requests=[request("r0", count=3), request("r1", count=2)], constraints=[same]
    )
    many = [device(f"d{i:02}", attributes={"model": str(i)}) for i in range(14)]
    limited = DynamicResources(DynamicResourcesArgs(filter_timeout="1ms"))
    objects = (claim, devices(*many))
    assert "timed out" in said(cache_of("", *objects), plugin=limited)
    assert said(cache_of(DRA_SCHEDULER_FILTER_TIMEOUT, *objects), plugin=limited) == CANNOT_ALLOCATE


def test_what_nobody_can_ask_for_without_a_gate_is_taken_from_who_has() -> None:
    claim = make_claim(
        requests=[request()], constraints=[{"distinctAttribute": "gpu.example.com/model"}]
    )
    model = device("a", attributes={"model": "x"}, allowMultipleAllocations=True)
    assert said(cache_of(DRA_CONSUMABLE_CAPACITY, claim, devices(model))) == ""


def test_selectors_see_that_a_device_allows_several_though_it_is_given_to_one() -> None:
    claim = make_claim(requests=[request(selectors=selectors("!device.allowMultipleAllocations"))])
    objects = claim, devices(device("a", allowMultipleAllocations=True))
    assert said(cache_of("", *objects)) == CANNOT_ALLOCATE
    assert said(cache_of(DRA_CONSUMABLE_CAPACITY, *objects)) == CANNOT_ALLOCATE
    assert said(cache_of(BOTH, *objects)) == ""


def test_the_older_allocator_knows_neither_capacity_nor_devices_that_bind_to_nodes() -> None:
    """allocator_stable.go of staging/src/k8s.io/dynamic-resource-allocation, v1.36.2."""
    claim = make_claim(requests=[request(capacity={"requests": {"memory": "1Gi"}})])
    objects = claim, devices(device("a", capacity={"memory": "1Mi"}))
    assert said(cache_of("", *objects)) == CANNOT_ALLOCATE
    disabled = DISABLED.format(DRA_CONSUMABLE_CAPACITY)
    assert said(cache_of(DRA_CONSUMABLE_CAPACITY, *objects)).endswith(disabled)
    assert said(cache_of(BOTH, *objects)) == ""
    anywhere = make_slice("net", [device("a", bindsToNode=True)], node=None, allNodes=True)
    claims = [{"name": "c", "resourceClaimName": "claim"}]
    record = make_pod("p", spec={"resourceClaims": claims})
    plugin = DynamicResources(DynamicResourcesArgs())
    for gates, is_bound in (("", True), (DRA_CONSUMABLE_CAPACITY, True), (BOTH, False)):
        cache = cache_of(gates, make_claim(), anywhere)
        assert plugin.reserve(record, pod_info(record), cache.view, 0).is_success
        claim = cache.objects.assumed(CLAIMS)["default/claim"].value
        assert (claim.status.allocation.node_selector is not None) is is_bound


def test_no_request_has_to_be_within_a_capacity() -> None:
    more_than_all = {"value": "8Gi", "requestPolicy": {"default": "100Gi"}}
    small = device("a", capacity={"memory": more_than_all}, allowMultipleAllocations=True)
    objects = make_claim(requests=[request()]), devices(small)
    assert said(cache_of("", *objects)) == CANNOT_ALLOCATE
    assert said(cache_of(DRA_CONSUMABLE_CAPACITY, *objects)) == ""
