"""The allocator on one node. Cases mirror upstream's allocatortesting/allocator_testing.go, v1.36."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from shared.cel.cel_selector import Expression
from shared.dra import allocator, search_work
from shared.dra.allocated import AllocatedState
from shared.dra.allocator import allocate, understand
from shared.dra.pools import gather
from shared.dra.requests import allocation_of
from shared.dra.resource_slices import NodeMatch, SliceFacts, SliceView
from shared.dra.search_work import (
    DEFAULT_TIMEOUT_S,
    FREE_COST,
    FREE_STEPS,
    STEP_WORK,
    WORK_MAX,
    AllocationError,
    NodeAllocationError,
    Work,
    WorkError,
)
from shared.feature_gates import DEFAULT_GATES
from shared.kube.api.resource_v1 import DeviceSelector, ResourceClaim
from shared.kube.api.resource_v1_devices import DeviceClass, ResourceSlice
from tests.support.devices import (
    DRIVER,
    allocated,
    device,
    first_available,
    make_claim,
    make_class,
    make_slice,
    request,
    selectors,
)

NODE = "n1"
MODEL = 'device.attributes["gpu.example.com"].model'
Found = list[list[tuple[str, str]]] | None


def reaches(match: NodeMatch) -> bool:
    return match.node_name == NODE or match.all_nodes


def given(
    claims: Sequence[ResourceClaim],
    slices: Sequence[ResourceSlice],
    *,
    classes: Sequence[DeviceClass] = (),
    taken: Sequence[ResourceClaim] = (),
    work: Work | None = None,
) -> Found:
    """(request, device) of each claim; None where the claims cannot be allocated."""
    state = AllocatedState()
    for each in taken:
        state.count(each, 1)
    views = [SliceView(each, {}, DEFAULT_GATES) for each in slices]
    pools = gather(views, lambda pool: [v for v in views if v.pool_id == pool], reaches)
    by_name = {c.metadata.name: c for c in (make_class(), *classes)}
    solutions = allocate(
        understand(claims, by_name, DEFAULT_GATES), pools, state, reaches, work or Work()
    )
    if solutions is None:
        return None
    return [[(g.alternative.full_name, g.device.identity[2]) for g in s.given] for s in solutions]


def gpus(*names: str, **fields: Any) -> ResourceSlice:
    return make_slice(NODE, [device(name, **fields) for name in names])


def test_devices_are_given_in_the_order_of_pools_slices_and_devices() -> None:
    slices = [
        make_slice("pool-2", [device("x")], node=NODE),
        make_slice("pool-1", [device("d")], name="s2", node=NODE, count=2),
        make_slice("pool-1", [device("b"), device("a")], name="s1", node=NODE, count=2),
    ]
    claim = make_claim(requests=[request(count=4)])
    assert given([claim], slices) == [[("r0", n) for n in ("b", "a", "d", "x")]]


def test_what_is_taken_is_not_given_again() -> None:
    taken = [make_claim("other", status=allocated("a", pool=NODE))]
    assert given([make_claim()], [gpus("a", "b")], taken=taken) == [[("r0", "b")]]
    assert given([make_claim(requests=[request(count=2)])], [gpus("a", "b")], taken=taken) is None


def test_the_search_goes_back_where_a_later_request_finds_nothing() -> None:
    slices = [make_slice(NODE, [device("a", attributes={"model": "x"}), device("b")])]
    only_a = request("r1", selectors=selectors(f"has({MODEL})"))
    claim = make_claim(requests=[request("r0"), only_a])
    assert given([claim], slices) == [[("r0", "b"), ("r1", "a")]]


def test_several_claims_share_out_the_devices() -> None:
    assert given([make_claim("c0"), make_claim("c1")], [gpus("a", "b")]) == [
        [("r0", "a")],
        [("r0", "b")],
    ]
    assert given([make_claim("c0"), make_claim("c1")], [gpus("a")]) is None


def test_class_and_request_select_devices() -> None:
    slices = [
        make_slice(NODE, [device(m, attributes={"model": m}) for m in ("t4", "a100", "h100")])
    ]
    classes = [make_class("big", f'{MODEL} != "t4"')]
    wanted = request(deviceClassName="big", selectors=selectors(f'{MODEL} != "a100"'))
    assert given([make_claim(requests=[wanted])], slices, classes=classes) == [[("r0", "h100")]]


def test_all_devices_need_every_one() -> None:
    everything = make_claim(requests=[request(allocationMode="All")])
    assert given([everything], [gpus("a", "b")]) == [[("r0", "a"), ("r0", "b")]]
    taken = [make_claim("other", status=allocated("a", pool=NODE))]
    assert given([everything], [gpus("a", "b")], taken=taken) is None
    assert given([everything], []) is None


def test_the_first_possible_alternative_is_taken() -> None:
    two, one = request("two", count=2), request("one")
    claim = make_claim(requests=[first_available("r0", two, one)])
    assert given([claim], [gpus("a", "b")]) == [[("r0/two", "a"), ("r0/two", "b")]]
    assert given([claim], [gpus("a")]) == [[("r0/one", "a")]]


def test_alternatives_that_ask_for_too_many_make_room_for_others() -> None:
    names = [f"d{i:02}" for i in range(40)]
    many = first_available("r0", request("many", count=30), request("few"))
    claim = make_claim(requests=[many, request("r1", count=5)])
    found = given([claim], [gpus(*names)])
    assert found is not None
    assert [name for name, _ in found[0]] == ["r0/few"] + ["r1"] * 5


@pytest.mark.parametrize(
    ("constraint", "models", "expected"),
    [
        ({"matchAttribute": "gpu.example.com/model"}, "xyx", ["d0", "d2"]),
        ({"matchAttribute": "gpu.example.com/model"}, "xyz", None),
        ({"distinctAttribute": "gpu.example.com/model"}, "xxy", ["d0", "d2"]),
        ({"distinctAttribute": "gpu.example.com/model"}, "xx", None),
        ({"matchAttribute": "gpu.example.com/nope"}, "xx", None),
        ({"matchAttribute": "gpu.example.com/model", "requests": ["r9"]}, "xy", ["d0", "d1"]),
    ],
)
def test_constraints(
    constraint: Mapping[str, Any], models: str, expected: list[str] | None
) -> None:
    devices = [device(f"d{i}", attributes={"model": m}) for i, m in enumerate(models)]
    requests = [request("r0"), request("r1")]
    found = given(
        [make_claim(requests=requests, constraints=[constraint])], [make_slice(NODE, devices)]
    )
    assert (None if found is None else [name for _, name in found[0]]) == expected


def test_all_devices_that_a_constraint_forbids_are_an_error() -> None:
    devices = [device(m, attributes={"model": m}) for m in "xy"]
    claim = make_claim(
        requests=[request(allocationMode="All")],
        constraints=[{"matchAttribute": "gpu.example.com/model"}],
    )
    text = (
        "claim default/claim, request r0: cannot add device gpu.example.com/n1/y because a claim "
        "constraint would not be satisfied"
    )
    with pytest.raises(AllocationError, match=text):
        given([claim], [make_slice(NODE, devices)])


@pytest.mark.parametrize(
    ("tolerations", "is_given"),
    [
        ([], False),
        ([{"key": "k", "operator": "Exists"}], True),
        ([{"operator": "Exists", "effect": "NoSchedule"}], True),
        ([{"key": "k", "operator": "Equal", "value": "v"}], True),
        ([{"key": "k", "operator": "Equal", "value": "w"}], False),
        ([{"key": "k", "operator": "Exists", "effect": "NoExecute"}], False),
    ],
)
def test_taints_keep_devices_back(tolerations: list[dict[str, str]], is_given: bool) -> None:
    tainted = gpus("a", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    claim = make_claim(requests=[request(tolerations=tolerations)])
    assert (given([claim], [tainted]) is not None) is is_given


def test_an_admin_sees_what_others_have() -> None:
    taken = [make_claim("other", status=allocated("a", pool=NODE))]
    watching = make_claim(requests=[request(adminAccess=True)])
    assert given([watching], [gpus("a")], taken=taken) == [[("r0", "a")]]
    admins = [make_claim("other", status=allocated("a", pool=NODE, adminAccess=True))]
    assert given([make_claim()], [gpus("a")], taken=admins) == [[("r0", "a")]]


def counted(*parts: tuple[str, str]) -> list[ResourceSlice]:
    """A pool of partitions that share 80 of memory."""
    counters = [{"name": "card", "counters": {"memory": {"value": "80"}}}]
    devices = [
        device(
            name,
            consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": size}}}],
        )
        for name, size in parts
    ]
    return [
        make_slice(NODE, name="counters", count=2, sharedCounters=counters),
        make_slice(NODE, devices, name="devices", count=2),
    ]


def test_partitions_share_counters() -> None:
    slices = counted(("half0", "40"), ("whole", "80"), ("half1", "40"))
    two = make_claim(requests=[request(count=2)])
    assert given([two], slices) == [[("r0", "half0"), ("r0", "half1")]]
    taken = [make_claim("other", status=allocated("half0", pool=NODE))]
    assert given([make_claim()], slices, taken=taken) == [[("r0", "half1")]]
    assert given([two], slices, taken=taken) is None


def test_a_pool_is_as_large_as_the_slices_of_the_node_say() -> None:
    """Not as the slice of counters says, whatever it is called."""
    counters = [{"name": "card", "counters": {"memory": {"value": "80"}}}]
    for of_counters, found in ((1, [[("r0", "gpu")]]), (2, None)):
        slices = [
            make_slice(NODE, name="a", count=of_counters, sharedCounters=counters),
            make_slice(NODE, [device("gpu")], name="b", count=3 - of_counters),
        ]
        assert given([make_claim()], slices) == found


def test_counters_that_do_not_exist_make_a_pool_invalid() -> None:
    slices = counted(("a", "10"))
    alone = make_slice(NODE, [], name="lonely")
    alone.spec.devices = slices[1].spec.devices
    with pytest.raises(NodeAllocationError, match="invalid resource pools were encountered"):
        given([make_claim()], [alone])


def shared_device(**policy: Any) -> ResourceSlice:
    capacity = {"memory": {"value": "10Gi", **({"requestPolicy": policy} if policy else {})}}
    return make_slice(NODE, [device("a", allowMultipleAllocations=True, capacity=capacity)])


def asking(amount: str | None, count: int = 1) -> ResourceClaim:
    capacity = {} if amount is None else {"capacity": {"requests": {"memory": amount}}}
    return make_claim(requests=[request(f"r{i}", **capacity) for i in range(count)])


def test_a_shared_device_is_given_until_its_capacity_is_used_up() -> None:
    assert given([asking("4Gi", 2)], [shared_device()]) == [[("r0", "a"), ("r1", "a")]]
    assert given([asking("4Gi", 3)], [shared_device()]) is None
    share = allocated("a", pool=NODE, shareID="s", consumedCapacity={"memory": "8Gi"})
    taken = [make_claim("other", status=share)]
    assert given([asking("4Gi")], [shared_device()], taken=taken) is None
    assert given([asking("2Gi")], [shared_device()], taken=taken) is not None
    assert given([asking(None)], [shared_device()], taken=taken) is None, "all of it, by default"


def test_incomplete_and_outdated_pools() -> None:
    half = make_slice(NODE, [device("a")], count=2)
    assert given([make_claim()], [half]) is None
    with pytest.raises(AllocationError, match=r"pool \S+/n1 is currently being updated"):
        given([make_claim(requests=[request(allocationMode="All")])], [half])
    old = make_slice(NODE, [device("old")], name="old")
    new = make_slice(NODE, [device("new")], name="new", generation=2)
    assert given([make_claim()], [old, new]) == [[("r0", "new")]]
    elsewhere = make_slice(NODE, [device("new")], name="new", generation=2, node="n2")
    half = make_slice(NODE, [device("old")], name="old", count=2)
    everything = make_claim(requests=[request(allocationMode="All")])
    assert given([everything], [half, elsewhere]) is None, "being replaced, and no error"


def test_devices_may_say_themselves_which_nodes_they_are_for() -> None:
    devices = [device("a", nodeName="n2"), device("b", nodeName=NODE), device("c", allNodes=True)]
    spread = make_slice("fabric", devices, node=None, perDeviceNodeSelection=True)
    claim = make_claim(requests=[request(allocationMode="All")])
    assert given([claim], [spread]) == [[("r0", "b"), ("r0", "c")]]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"deviceClassName": "nope"}, "could not retrieve device class nope"),
        ({"deviceClassName": ""}, "missing device class name"),
        ({"allocationMode": "Some"}, "unsupported count mode Some"),
        ({"selectors": [{}]}, "selector #0: CEL expression empty"),
        ({"count": 33}, "number of requested devices 33 exceeds the claim limit of 32"),
        (
            {"selectors": selectors("device.x")},
            "claim default/claim: selector #0: CEL compile error",
        ),
        (
            {"selectors": selectors(f'{MODEL} == ""')},
            "claim default/claim: selector #0: CEL runtime error: no such key: model",
        ),
    ],
)
def test_what_is_wrong_with_a_claim_is_an_error(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(AllocationError) as raised:
        given([make_claim(requests=[request(**fields)])], [gpus("a")])
    assert text in str(raised.value)


def test_a_selector_of_another_kind_is_told_with_its_class() -> None:
    odd = make_class("odd")
    odd.spec.selectors = [DeviceSelector()]
    claim = make_claim(requests=[request(deviceClassName="odd")])
    with pytest.raises(AllocationError, match=r"^class odd, selector #0: CEL expression empty"):
        given([claim], [gpus("a")], classes=[odd])


def test_a_slice_that_cannot_be_read_is_named() -> None:
    broken = make_slice(NODE, [device("a", capacity={"memory": "many"})], name="broken")
    with pytest.raises(AllocationError, match="resource slice broken: "):
        given([make_claim()], [broken])


@pytest.mark.parametrize(
    ("timeout_s", "told"),
    [
        pytest.param(0.0, "", id="disabled"),
        pytest.param(10.0, "", id="default"),
        pytest.param(0.01, "timed out trying to allocate devices", id="enabled"),
    ],
)
def test_one_device_too_few_ends_as_upstreams_search_would(timeout_s: float, told: str) -> None:
    """testFilterTimeout of test/integration/dra/core.go: all subsets of 20 devices, two seconds."""
    slices = [gpus(*(f"dev-{i:02}" for i in range(20)))]
    work = Work(timeout_s)
    claims = [make_claim(requests=[request(count=21)])]
    if told:
        with pytest.raises(WorkError, match=told):
            given(claims, slices, work=work)
        return
    assert given(claims, slices, work=work) is None
    assert work.step_count == 20


@pytest.mark.parametrize("count", [6, 31])
@pytest.mark.parametrize("is_shared", [True, False])
def test_alternatives_that_want_all_of_something_are_tried_for_a_bounded_time(
    count: int, is_shared: bool
) -> None:
    def either(i: int) -> dict[str, Any]:
        own = "true" if is_shared else f'device.attributes["gpu.example.com"].id == {i}'
        some = [request(f"s{a}", allocationMode="All", selectors=selectors(own)) for a in range(8)]
        return first_available(f"r{i}", *some)

    never = request("last", allocationMode="All", selectors=selectors("false"))
    claim = make_claim(requests=[*map(either, range(count)), never])
    devices = [device(f"d{i}", attributes={"id": i}) for i in range(count)]
    shared = [device("a", allowMultipleAllocations=True)]
    work = Work()
    with pytest.raises(WorkError, match="timed out trying to allocate devices"):
        given([claim], [make_slice(NODE, shared if is_shared else devices)], work=work)
    assert work.step_count > FREE_STEPS


def test_more_selectors_than_a_device_remembers_are_asked_once_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    matches = Expression.matches

    def noted(self: Expression, device: dict[str, Any], work: Work) -> bool:
        asked.append(self.source)
        return matches(self, device, work)

    monkeypatch.setattr(Expression, "matches", noted)
    some = [[f"{r} != {s}" for s in range(20, 52)] for r in range(3)]
    requests = [request(f"r{i}", selectors=selectors(*each)) for i, each in enumerate(some)]
    never = request("last", selectors=selectors("false"))
    claim = make_claim(requests=[*requests, never])
    devices = [device(f"d{i}", attributes={"id": i}) for i in range(4)]
    assert given([claim], [make_slice(NODE, devices)]) is None
    assert len(asked) == (3 * 32 + 1) * len(devices)


def test_what_is_free_is_not_free_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_work, "FREE_MAX", 30_000)
    timeout_s = 0.1
    allowed = 30_000 + WORK_MAX * timeout_s / DEFAULT_TIMEOUT_S
    work = Work(timeout_s)
    for _ in range(int(allowed / FREE_COST)):
        work.add_evaluation(FREE_COST)
    with pytest.raises(WorkError):
        work.add_evaluation(FREE_COST)
    three = request(count=3)
    for asked in (three, request(allocationMode="All"), first_available("r0", three)):
        claims, slices, work = (
            [make_claim(requests=[asked])],
            [gpus("a", "b", "c")],
            Work(timeout_s),
        )
        rounds = range(int(allowed / (3 * STEP_WORK)) + 1)
        with pytest.raises(WorkError):
            _ = [given(claims, slices, work=work) for _ in rounds]


def test_a_share_of_nothing_is_forgotten_with_the_last_share_of_something() -> None:
    """ConsumedCapacityCollection.Remove (structured/schedulerapi/types.go)."""
    state, device_id = AllocatedState(), (DRIVER, NODE, "a")
    some, none = (
        make_claim(
            f"c{amount}",
            status=allocated("a", pool=NODE, shareID="s", consumedCapacity={"m": amount}),
        )
        for amount in "10"
    )
    state.count(some, 1)
    state.count(none, 1)
    assert state.is_capacity_used(device_id)
    state.count(some, -1)
    assert state.is_allocated(device_id)
    assert not state.is_capacity_used(device_id)
    state.count(none, -1)
    assert not state.is_allocated(device_id)
    assert not state.is_capacity_used(device_id)


def test_more_devices_are_searched_than_python_has_room_for_calls() -> None:
    names = [f"d{i:04}" for i in range(1_216)]
    claims = [make_claim(f"c{i}", requests=[request(count=32)]) for i in range(38)]
    found = given(claims, [gpus(*names)])
    assert found == [[("r0", each) for each in names[i : i + 32]] for i in range(0, 1_216, 32)]


def test_a_device_too_few_because_of_its_taint_or_of_another_request() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    devices = [device(f"d{i:02}") for i in range(30)]
    tainted = make_slice(NODE, [*devices, device("tainted", taints=[taint])])
    work = Work(0)
    assert given([make_claim(requests=[request(count=31)])], [tainted], work=work) is None
    two = [request("r0", count=29), request("r1", count=2)]
    assert given([make_claim(requests=two)], [make_slice(NODE, devices)], work=work) is None
    assert work.step_count < 5_000
    found = given([make_claim(requests=[request(count=30)])], [tainted], work=work)
    assert found == [[("r0", f"d{i:02}") for i in range(30)]]


def test_a_long_search_ends_where_requests_can_never_be_met_together() -> None:
    """Upstream tries all ways, in less than a second."""
    half, some = request("r0", count=8), [request(f"s{i}", count=4) for i in range(2)]
    never = request("r1", selectors=selectors("false"))
    either = first_available("r1", request("s0", count=5), request("s1", count=6))
    more = request("r2", count=5)
    for count, requests in ((16, [half, never]), (12, [*some, either]), (12, [*some, more])):
        slices = [make_slice(NODE, [device(f"d{i:02}") for i in range(count)])]
        work = Work()
        assert given([make_claim(requests=requests)], slices, work=work) is None
        assert work.step_count < 3_000
        claims = [make_claim(f"c{i}", requests=[each]) for i, each in enumerate(requests)]
        assert given(claims, slices, work=Work()) is None
    with pytest.raises(WorkError, match="timed out trying to allocate devices"):
        given(
            [make_claim(requests=[half, never])],
            [gpus(*(f"d{i:02}" for i in range(60)))],
            work=Work(),
        )


def test_devices_that_several_may_have_are_not_too_few() -> None:
    """What may be had by others as well counts for each request, and a search goes on where it cannot
    be told that it is in vain."""
    devices = [device(f"d{i:02}") for i in range(14)]
    capacity = {"cores": {"value": "4", "requestPolicy": {"default": "1"}}}
    shared = device("shared", allowMultipleAllocations=True, capacity=capacity)
    slices = [make_slice(NODE, [*devices, shared])]
    own = selectors("!device.allowMultipleAllocations")
    two = [request(f"r{i}", count=2) for i in range(1, 3)]
    requests = [request("r0", count=6, selectors=own), request("r3", count=6, selectors=own), *two]
    found = given([make_claim(requests=requests)], slices)
    assert found is not None
    assert found[0][-3:] == [("r1", "shared"), ("r2", "d13"), ("r2", "shared")]


def _drawn(draw: random.Random) -> tuple[list[ResourceClaim], list[ResourceSlice]]:
    """A few devices of all kinds, and claims that may ask for too many of them."""
    cores = {"cores": {"value": "3", "requestPolicy": {"default": "1"}}}
    devices: list[dict[str, Any]] = []
    for i in range(draw.randrange(2, 6)):
        kind: dict[str, Any] = draw.choice([{}, {}, {"allowMultipleAllocations": True}])
        more: dict[str, Any] = draw.choice([{}, {"taints": [{"key": "k", "effect": "NoSchedule"}]}])
        model = {"attributes": {"model": draw.choice("ab")}} if draw.random() < 0.9 else {}
        devices.append(device(f"d{i}", **(kind and {**kind, "capacity": cores}), **more, **model))

    def asked(name: str) -> dict[str, Any]:
        is_all = draw.random() < 0.2
        mode: dict[str, Any] = (
            {"allocationMode": "All"} if is_all else {"count": draw.choice([1, 2, 3])}
        )
        some = draw.choice(["true", "false", f"{MODEL} == 'a'", "device.allowMultipleAllocations"])
        return request(name, **mode, selectors=selectors(some))

    claims = []
    for c in range(draw.randrange(1, 3)):
        requests = [
            asked(f"r{r}")
            if draw.random() < 0.7
            else first_available(f"r{r}", *(asked(name) for name in "st"))
            for r in range(draw.randrange(1, 4))
        ]
        same = draw.choice([[], [], [{"matchAttribute": "gpu.example.com/model"}]])
        claims.append(make_claim(f"c{c}", requests=requests, constraints=same))
    return claims, [make_slice(NODE, devices)]


def test_no_search_is_seen_to_be_in_vain_that_comes_to_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Looked at from the first device on, it is the same search."""
    in_vain = 0
    for seed in range(300):
        claims, slices = _drawn(random.Random(seed))
        told: list[object] = []
        for free_steps in (FREE_STEPS, 0):
            monkeypatch.setattr(allocator, "FREE_STEPS", free_steps)
            try:
                work = Work(0)
                told.append(given(claims, slices, work=work))
                in_vain += not free_steps and told == [None, None] and work.step_count == 1
            except (AllocationError, NodeAllocationError) as error:
                told.append(str(error))
        assert told[0] == told[1], seed
    assert in_vain > 30
    differing = [device("d0"), *(device(n, attributes={"model": n}) for n in "ab")]
    every = request("r1", allocationMode="All", selectors=selectors("device.attributes.size() > 0"))
    same = [{"matchAttribute": "gpu.example.com/model", "requests": ["r1"]}]
    asked = [request("r0"), every, request("r2", selectors=selectors("false"))]
    with pytest.raises(AllocationError, match="a claim constraint would not be satisfied"):
        given([make_claim(requests=asked, constraints=same)], [make_slice(NODE, differing)])


def test_a_selector_that_fails_on_a_later_device_is_told_before_there_are_too_few() -> None:
    """Whoever tries all ways comes to that device."""
    slices = [make_slice(NODE, [device(n, attributes={"model": n}) for n in "ab"] + [device("c")])]
    asked = request(count=3, selectors=selectors(f"{MODEL} != ''"))
    with pytest.raises(AllocationError, match="CEL runtime error"):
        given([make_claim(requests=[asked])], slices)


def test_shares_that_take_nothing_are_given_back_as_others_are() -> None:
    capacity = {"cores": {"value": "4", "requestPolicy": {"default": "0"}}}
    slices = [make_slice(NODE, [device("a", allowMultipleAllocations=True, capacity=capacity)])]
    two = [request("r0"), request("r1")]
    assert given([make_claim(requests=two)], slices) == [[("r0", "a"), ("r1", "a")]]
    never = request("none", selectors=selectors("false"))
    assert given([make_claim(requests=[*two, never])], slices) is None


def test_a_search_without_end_is_given_up() -> None:
    names = [f"d{i:02}" for i in range(40)]
    slices = [make_slice(NODE, [device(n, attributes={"model": n}) for n in names])]
    same = {"matchAttribute": "gpu.example.com/model", "requests": ["r1"]}
    claim = make_claim(
        requests=[request("r0", count=20), request("r1", count=2)], constraints=[same]
    )
    with pytest.raises(WorkError, match="timed out trying to allocate devices"):
        given([claim], slices)


def test_the_allocation_says_where_it_holds_and_with_which_configuration() -> None:
    config = [{"opaque": {"driver": "d", "parameters": {"a": 1}}}]
    device_class = make_class("gpu", config=config)
    claim = make_claim(config=[{"requests": ["r0"], "opaque": {"driver": "d"}}])
    view = SliceView(make_slice(NODE, [device("a")]), {}, DEFAULT_GATES)
    pools = gather([view], lambda _: [view], reaches)
    claims = understand([claim], {"gpu": device_class}, DEFAULT_GATES)
    solutions = allocate(claims, pools, AllocatedState(), reaches, Work())
    assert solutions is not None
    found = allocation_of(solutions[0], NODE, str)
    assert found.node_selector is not None
    terms = found.node_selector.node_selector_terms or []
    assert [[(f.key, f.values) for f in t.match_fields or []] for t in terms] == [
        [("metadata.name", [NODE])]
    ]
    assert [c.source for c in found.devices.config or []] == ["FromClass", "FromClaim"]
    assert [c.requests for c in found.devices.config or []] == [["r0"], ["r0"]]


def test_a_configuration_names_the_requests_it_is_for_however_many_there_are() -> None:
    config = [
        {"requests": ["r1"], "opaque": {"driver": "one"}},
        {"requests": ["r0", "r1"], "opaque": {"driver": "both"}},
        {"opaque": {"driver": "all"}},
    ]
    device_class = make_class("gpu", config=[{"opaque": {"driver": "class"}}])
    claim = make_claim(requests=[request("r0"), request("r1")], config=config)
    view = SliceView(make_slice(NODE, [device("a"), device("b")]), {}, DEFAULT_GATES)
    pools = gather([view], lambda _: [view], reaches)
    claims = understand([claim], {"gpu": device_class}, DEFAULT_GATES)
    solutions = allocate(claims, pools, AllocatedState(), reaches, Work())
    assert solutions is not None
    found = allocation_of(solutions[0], NODE, str)
    told = [(c.opaque.driver if c.opaque else "", c.requests) for c in found.devices.config or []]
    assert told == [
        ("class", ["r0", "r1"]),
        ("one", ["r1"]),
        # Once for each request that it names, as upstream lists it.
        ("both", ["r0", "r1"]),
        ("both", ["r0", "r1"]),
        ("all", None),
    ]


def test_devices_that_differ_in_names_alone_share_what_is_read_of_them() -> None:
    known: dict[bytes, SliceFacts] = {}
    capacity = {"memory": "40Gi"}
    first, second = (
        SliceView(
            make_slice(pool, [device(f"{pool}-{i}", capacity=capacity) for i in range(2)]),
            known,
            DEFAULT_GATES,
        )
        for pool in ("n0", "n1")
    )
    assert [each.identity for each in second.devices] == [
        (DRIVER, "n1", "n1-0"), (DRIVER, "n1", "n1-1"),
    ]  # fmt: skip
    assert [a.facts is b.facts for a, b in zip(first.devices, second.devices, strict=True)] == [
        True, True,
    ]  # fmt: skip
    other = SliceView(
        make_slice("n2", [device("n2-0", capacity={"memory": "80Gi"})]), known, DEFAULT_GATES
    )
    assert other.devices[0].facts.capacity != first.devices[0].facts.capacity


def test_each_slice_that_cannot_be_read_is_told_by_its_own_name() -> None:
    known: dict[bytes, SliceFacts] = {}
    bad = [device("a", capacity={"memory": "much"})]
    problems = [
        SliceView(make_slice(pool, bad), known, DEFAULT_GATES).problem for pool in ("n0", "n1")
    ]
    assert [each.split(":")[0] for each in problems] == [
        "resource slice slice-n0", "resource slice slice-n1",
    ]  # fmt: skip
