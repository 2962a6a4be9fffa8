"""Devices that are made of what a node has for all: what they take, where that is left, who may share
a claim for them.

Cases of pkg/scheduler/framework/plugins/dynamicresources/nodeallocatabledynamicresources_test.go and
test/integration/dra/node_allocatable_resources.go, v1.36.2, and some besides.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from daemon.core.cache import Cache
from shared.dra.device_index import CLAIMS, CLASSES, SLICES
from shared.feature_gates import DRA_NODE_ALLOCATABLE_RESOURCES, FeatureGates
from shared.framework.status import Code, Status
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.pod_record import PodRecord, with_status
from shared.plugins.devices.dynamic_resources import DynamicResourcesArgs, NodeAllocatableResources
from tests.support.builders import make_node, make_pod
from tests.support.cluster import filtered, pod_info, rows_of
from tests.support.devices import (
    CLASS,
    DRIVER,
    allocated,
    device,
    make_claim,
    make_class,
    make_slice,
    request,
)

PLUGIN = NodeAllocatableResources(DynamicResourcesArgs())
RESOLVABLE, UNRESOLVABLE = Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def taking(
    name: str = "dev", *, shared: Mapping[str, str] | None = None, **mappings: Any
) -> dict[str, Any]:
    """A device; `mappings`: by resource (- as _), how much, or (capacity, multiplier)."""
    stated = {}
    for resource, how in mappings.items():
        capacity, multiplier = how if isinstance(how, tuple) else (None, how)
        each = {"capacityKey": capacity, "allocationMultiplier": multiplier}
        stated[resource.replace("_", "-")] = {k: v for k, v in each.items() if v}
    more = {} if shared is None else {"allowMultipleAllocations": True, "capacity": dict(shared)}
    return device(name, nodeAllocatableResourceMappings=stated, **more)


def user(
    name: str = "p", *claims: str, asks: Mapping[str, str] | None = None, uses: int = 1, **spec: Any
) -> PodRecord:
    """A pod with these claims, of which containers use the first `uses`."""
    claims = claims or ("claim",)
    container = {
        "name": "c",
        "resources": {
            "requests": dict(asks or {}),
            "claims": [{"name": f"my-{each}"} for each in claims[:uses]],
        },
    }
    named = [{"name": f"my-{each}", "resourceClaimName": each} for each in claims]
    return make_pod(name, spec={"containers": [container], "resourceClaims": named, **spec})


class World:
    def __init__(
        self, *devices: dict[str, Any], claims: tuple[ResourceClaim, ...] = (make_claim(),),
        is_on: bool = True, **node: Any,
    ) -> None:  # fmt: skip
        self.cache = Cache(FeatureGates({DRA_NODE_ALLOCATABLE_RESOURCES: is_on}))
        self.cache.add_node(make_node("n0", **{"cpu": "16", "memory": "32Gi", **node}))
        objects = self.cache.objects
        objects.put(SLICES, "slice-n0", make_slice("n0", devices))
        objects.put(CLASSES, CLASS, make_class())
        for claim in claims:
            objects.put(CLAIMS, claim.metadata.key, claim)

    def said(self, record: PodRecord) -> Status:
        """Of the pod on the one node, by Filter; Reserve says the same."""
        pod, view = pod_info(record), self.cache.view
        result = PLUGIN.pre_filter(pod, view)
        assert result.status.is_success
        status = PLUGIN.filter(result.state, pod, view, rows_of(0)).status(0, PLUGIN.NAME)
        reserved = PLUGIN.reserve(record, pod, view, 0)
        assert reserved.is_success is status.is_success
        if not reserved.is_success:
            assert reserved.message in {*status.reasons, status.message}
        return status

    def reserved(self, record: PodRecord) -> list[dict[str, Any]]:
        """What its status says of a pod that fits, once it is reserved."""
        assert self.said(record).is_success
        status = PLUGIN.reserved_status(record, pod_info(record), self.cache.view)
        stated = status.node_allocatable_resource_claim_statuses if status else None
        found: list[dict[str, Any]] = msgspec.to_builtins(stated or [])
        return found

    def place(self, record: PodRecord) -> None:
        """Binds the pod as the owner would."""
        assert self.said(record).is_success
        status = PLUGIN.reserved_status(record, pod_info(record), self.cache.view)
        self.cache.assume_pod(record if status is None else with_status(record, status), "n0")


def whole(**amounts: str) -> dict[str, Any]:
    """What is stated for the pod as a whole."""
    return {"resources": {"requests": amounts}}


CPU, MEM = "dra.example.com/cpu", "dra.example.com/memory"
SIZES = {CPU: "8", MEM: "16Gi"}


@pytest.mark.parametrize(
    ("devices", "requests", "resources"),
    [
        ([taking(cpu="16")], [request()], {"cpu": "16"}),
        ([taking("a", cpu="2"), taking("b", cpu="3")], [request(count=2)], {"cpu": "5"}),
        (
            [taking("a", memory="2Gi"), taking("b", cpu="1")], [request(count=2)],
            {"cpu": "1", "memory": "2Gi"},
        ),
        (
            [taking(shared=SIZES, cpu=(CPU, None), memory=(MEM, None))], [request()],
            {"cpu": "8", "memory": "16Gi"},
        ),
        ([taking(shared=SIZES, cpu=(CPU, "1500m"))], [request()], {"cpu": "12"}),
        (
            [taking(shared=SIZES, cpu=(CPU, None))],
            [request(capacity={"requests": {CPU: "3"}})], {"cpu": "3"},
        ),
        ([taking(shared=SIZES, cpu=("dra.example.com/other", "2"))], [request()], None),
        ([taking(cpu=None)], [request()], {"cpu": "0"}),
        ([device("dev")], [request()], None),
    ],
    ids=[
        "a-multiplier-for-the-device", "devices-add-up", "a-resource-each", "what-is-consumed",
        "consumed-times-multiplier", "what-is-asked-for", "another-capacity", "nothing-stated", "none",
    ],
)  # fmt: skip
def test_what_devices_take_is_of_the_pods_status(
    devices: list[dict[str, Any]], requests: list[dict[str, Any]], resources: dict[str, str] | None
) -> None:
    world = World(*devices, claims=(make_claim(requests=requests),))
    expected = {"resourceClaimName": "claim", "containers": ["c"], "resources": resources}
    assert world.reserved(user()) == ([] if resources is None else [expected])


def test_each_claim_has_an_entry_with_the_containers_that_use_it() -> None:
    claims = (make_claim("x"), make_claim("y"))
    world = World(taking("a", cpu="1"), taking("b", cpu="1"), claims=claims)
    entries = world.reserved(user("p", "y", "x", uses=2))
    assert [each["resourceClaimName"] for each in entries] == ["x", "y"]
    assert [each["containers"] for each in entries] == [["c"], ["c"]]


def test_without_the_gate_devices_take_nothing() -> None:
    world = World(taking(cpu="17"), is_on=False)
    assert world.reserved(user(uses=0)) == []


@pytest.mark.parametrize(
    ("mappings", "pod", "code", "reasons"),
    [
        ({"cpu": "12"}, {"asks": {"cpu": "4"}}, Code.SUCCESS, ()),
        ({"cpu": "16"}, {"asks": {"cpu": "1"}}, UNRESOLVABLE, ("Insufficient cpu",)),
        ({"cpu": "15"}, {"overhead": {"cpu": "2"}}, UNRESOLVABLE, ("Insufficient cpu",)),
        ({"cpu": "17", "memory": "33Gi"}, {}, UNRESOLVABLE, ("Insufficient cpu", "Insufficient memory")),
        ({"hugepages_2Mi": "2Mi"}, {}, UNRESOLVABLE, ("Insufficient hugepages-2Mi",)),
        ({"ephemeral_storage": "1Gi"}, {}, UNRESOLVABLE, ("Insufficient ephemeral-storage",)),
        (
            {"cpu": "4"},
            {"uses": 0},
            UNRESOLVABLE,
            (
                "claim claim: node-allocatable resource claim not referenced by any container "
                "within the pod",
            ),
        ),
        (
            {"cpu": "4"},
            {"asks": {"cpu": "2"}, **whole(cpu="5")},
            UNRESOLVABLE,
            (
                "pod level request for cpu is insufficient to cover the aggregated container and "
                "node-allocatable DRA requests",
            ),
        ),
        ({"cpu": "4"}, {"asks": {"cpu": "2"}, **whole(cpu="10")}, Code.SUCCESS, ()),
        ({"cpu": "4"}, {"asks": {"cpu": "2"}, **whole(memory="1Gi")}, Code.SUCCESS, ()),
    ],
    ids=[
        "just-fits", "with-what-containers-ask-for", "with-overhead", "several-resources", "huge-pages",
        "storage", "no-container-uses-it", "pod-level-too-little", "pod-level-enough",
        "pod-level-of-another",
    ],
)  # fmt: skip
def test_a_node_must_have_left_what_pod_and_devices_ask_for(
    mappings: dict[str, Any], pod: dict[str, Any], code: Code, reasons: tuple[str, ...]
) -> None:
    said = World(taking(**mappings)).said(user(**pod))
    assert (said.code, said.reasons) == (code, reasons)


def test_a_node_that_only_others_have_filled_may_be_made_free() -> None:
    world = World(taking(cpu="8"))
    world.cache.assume_pod(make_pod("other", cpu="9"), "n0")
    said = world.said(user())
    assert (said.code, said.reasons) == (RESOLVABLE, ("Insufficient cpu",))


def test_a_share_of_which_nobody_knows_how_much_is_taken_is_an_error() -> None:
    world = World(taking(cpu=(CPU, "2")))
    result = filtered(PLUGIN, pod_info(user()), world.cache.view, rows_of(0))
    assert result.status(0, "").code is Code.ERROR
    assert (
        "ConsumedCapacity is nil, but Capacity key 'dra.example.com/cpu'"
        in result.status(0, "").message
    )


def test_a_quantity_that_cannot_be_read_makes_the_slice_unusable() -> None:
    result = filtered(PLUGIN, pod_info(user()), World(taking(cpu="much")).cache.view, rows_of(0))
    assert result.status(0, "").code is Code.ERROR
    assert "resource slice slice-n0" in result.status(0, "").message


def test_pods_of_a_node_do_not_share_such_a_claim() -> None:
    world = World(taking(cpu="1"))
    world.place(user("first"))
    assert world.cache.nodes.requested[:, 0].max() > 0
    status = {**allocated("dev", pool="n0"), "reservedFor": [{"uid": "uid-default-first"}]}
    world.cache.objects.put(CLAIMS, "default/claim", make_claim(status=status))
    said = world.said(user("second"))
    assert (said.code, said.reasons) == (
        UNRESOLVABLE,
        ("node allocatable resource claim claim is already used by another pod",),
    )
    world.cache.forget_pod("uid-default-first")
    assert world.said(user("second")).is_success


def test_a_device_is_its_own_drivers() -> None:
    world = World(taking(cpu="1"))
    other = make_slice("n0", [taking(cpu="7")], name="other", driver="another.example.com")
    world.cache.objects.put(CLASSES, CLASS, make_class(CLASS, f"device.driver == '{DRIVER}'"))
    world.cache.objects.put(SLICES, "a-before", other)
    assert [each["resources"] for each in world.reserved(user())] == [{"cpu": "1"}]


def test_what_a_status_says_is_taken_counts_without_the_gate() -> None:
    taken = {"resourceClaimName": "claim", "containers": ["c"], "resources": {"cpu": "4"}}
    running = make_pod("p", status={"nodeAllocatableResourceClaimStatuses": [taken]})
    world = World(is_on=False)
    world.cache.assume_pod(running, "n0")
    assert world.cache.nodes.nonzero_cpu_milli.item(0) == 4100


def test_what_an_earlier_attempt_has_left_in_the_status_does_not_count() -> None:
    """The claim is allocated already: nothing is taken in this attempt."""
    taken = {"resourceClaimName": "claim", "containers": ["c"], "resources": {"cpu": "4"}}
    left = make_pod("p", status={"nodeAllocatableResourceClaimStatuses": [taken]})
    world = World(taking(cpu="4"))
    assert pod_info(left).requests.of("cpu") == 4100
    assert pod_info(left).fit_filter_requests.of("cpu") == 100
    spec = {"resourceClaims": [{"name": "my-claim", "resourceClaimName": "claim"}]}
    record = make_pod("p", spec=spec, status={"nodeAllocatableResourceClaimStatuses": [taken]})
    world.cache.objects.put(CLAIMS, "default/claim", make_claim(status=allocated("dev", pool="n0")))
    status = PLUGIN.reserved_status(record, pod_info(record), world.cache.view)
    assert status is not None
    world.cache.assume_pod(with_status(record, status), "n0")
    assert np.array_equal(world.cache.nodes.nonzero_cpu_milli[:1], [100])


def test_pods_are_alike_whose_containers_use_the_same_claims() -> None:
    claims = (make_claim("x"), make_claim("y"), make_claim("z", [request(count=2)]))
    view = World(taking("a", cpu="1"), taking("b", cpu="1"), claims=claims).cache.view

    def likeness(**named: str) -> object:
        claims = [{"name": name, "resourceClaimName": each} for name, each in named.items()]
        return PLUGIN.claims_likeness(
            pod_info(make_pod("p", spec={"resourceClaims": claims})), view
        )

    assert likeness(used="x", other="z") == likeness(used="y", other="z")
    assert likeness(used="x", other="z") != likeness(other="x", used="z")
    assert likeness() == ()
