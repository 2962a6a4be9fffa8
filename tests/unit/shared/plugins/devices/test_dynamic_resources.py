"""DynamicResources as a plugin, and that nodes which offer the same may share a result."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.conformance.claims import bound_claims
from bench.sim.leaks import holders
from daemon.core.cache import Cache
from shared.dra import device_index as device_index_module
from shared.dra.allocator import INVALID_POOLS, allocate
from shared.dra.device_index import CLAIMS, SLICES, device_index, reaches
from shared.dra.pools import Pool, gather
from shared.dra.resource_slices import PoolId, SliceView
from shared.feature_gates import DEFAULT_GATES
from shared.framework.normalize import SCORE_MAX
from shared.framework.pod_info import PodInfo
from shared.framework.status import MORE_REASONS, REASONS_MAX, Code
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.api.resource_v1_devices import DeviceClass, ResourceSlice
from shared.kube.pod_record import PodRecord
from shared.plugins.devices import device_allocation
from shared.plugins.devices.device_allocation import CANNOT_ALLOCATE
from shared.plugins.devices.dynamic_resources import (
    CANNOT_FIT,
    NOT_AVAILABLE,
    DynamicResources,
    DynamicResourcesArgs,
)
from shared.plugins.resources.node_resources_fit import (
    NodeResourcesFit,
    NodeResourcesFitArgs,
    ScoringStrategy,
)
from shared.plugins.resources.resource_score import (
    NodeResourcesBalancedAllocation,
    NodeResourcesBalancedAllocationArgs,
    ResourceSpec,
)
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, filtered, pod_info, rated, rows_of
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

GPU = "example.com/gpu"


def plugin() -> DynamicResources:
    return DynamicResources(DynamicResourcesArgs())


def cluster(
    *objects: ResourceClaim | ResourceSlice | DeviceClass, nodes: int = 3, **node_fields: Any
) -> Cache:
    made = [make_node(f"n{i}", labels={"zone": "ab"[i % 2]}, **node_fields) for i in range(nodes)]
    cache = cluster_of(made)
    for each in (make_class(), *objects):
        put(cache, each)
    return cache


def put(cache: Cache, each: ResourceClaim | ResourceSlice | DeviceClass) -> None:
    kinds = {ResourceClaim: CLAIMS, ResourceSlice: "resourceslices", DeviceClass: "deviceclasses"}
    meta = each.metadata
    key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    cache.objects.put(kinds[type(each)], key, each)


def pod_of(*claims: str, name: str = "p", **spec: Any) -> PodRecord:
    references = [{"name": f"c{i}", "resourceClaimName": each} for i, each in enumerate(claims)]
    return make_pod(name, spec={"resourceClaims": references, **spec} if references else spec)


def verdicts(cache: Cache, pod: PodInfo) -> list[str]:
    """What Filter says of each node; "" where the pod fits."""
    result = plugin().pre_filter(pod, cache.view)
    assert result.status.is_success, result.status
    rows = cache.nodes.present_rows()
    found = plugin().filter(result.state, pod, cache.view, rows)
    return [found.status(i, "").message for i in range(len(rows))]


# Before any node ------------------------------------------------------------------------------------


def test_a_pod_without_claims_is_never_looked_at_again() -> None:
    result = plugin().pre_filter(pod_info(make_pod("p")), cluster().view)
    assert result.status.code is Code.SKIP
    assert result.is_final
    assert plugin().pre_enqueue(pod_info(make_pod("p")), cluster().view).is_success


def test_a_pod_waits_outside_the_queue_for_its_claims() -> None:
    pod = pod_info(pod_of("claim"))
    status = plugin().pre_enqueue(pod, cluster().view)
    assert status.reasons == ('could not find ResourceClaim "default/claim"',)
    assert plugin().pre_enqueue(pod, cluster(make_claim()).view).is_success


def test_a_class_that_does_not_exist_keeps_the_pod_from_all_nodes() -> None:
    claim = make_claim(requests=[first_available("r0", request("s0", deviceClassName="nope"))])
    status = plugin().pre_filter(pod_info(pod_of("claim")), cluster(claim).view).status
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ("request r0/s0: device class nope does not exist",)


def test_a_claim_that_as_many_pods_as_may_already_use_is_in_use() -> None:
    users = [{"resource": "pods", "name": f"u{i}", "uid": f"u{i}"} for i in range(256)]
    claim = make_claim(status={**allocated("a", pool="n0"), "reservedFor": users})
    status = plugin().pre_filter(pod_info(pod_of("claim")), cluster(claim).view).status
    assert status.reasons == ("resourceclaim in use",)


# Filter and score -----------------------------------------------------------------------------------


def test_nodes_without_the_devices_are_refused() -> None:
    cache = cluster(make_claim(), make_slice("n1", [device("a")]))
    found = verdicts(cache, pod_info(pod_of("claim")))
    assert found == [CANNOT_ALLOCATE, "", CANNOT_ALLOCATE]


def test_an_allocated_claim_is_usable_where_its_allocation_says() -> None:
    status = allocated("a", pool="n1")
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [term]}
    cache = cluster(make_claim(status=status))
    assert verdicts(cache, pod_info(pod_of("claim"))) == [NOT_AVAILABLE, "", NOT_AVAILABLE]


def test_an_error_names_the_device_of_each_node() -> None:
    claim = make_claim(
        requests=[request(allocationMode="All")],
        constraints=[{"matchAttribute": "gpu.example.com/id"}],
    )
    devices = [device(n, attributes={"id": n}) for n in "ab"]
    cache = cluster(claim, *(make_slice(f"n{i}", devices) for i in range(2)))
    pod = pod_info(pod_of("claim"))
    found = verdicts(cache, pod)
    assert ["/n0/b" in found[0], "/n1/b" in found[1], found[2]] == [True, True, CANNOT_ALLOCATE]
    state = plugin().pre_filter(pod, cache.view).state
    assert not state.has_failed
    rows = cache.nodes.present_rows()
    assert (plugin().filter(state, pod, cache.view, rows).codes[:2] == Code.ERROR).all()
    assert state.has_failed


def test_the_earlier_alternative_scores_more() -> None:
    claim = make_claim(requests=[first_available("r0", request("s0", count=2), request("s1"))])
    cache = cluster(
        claim, make_slice("n0", [device("a"), device("b")]), make_slice("n1", [device("a")])
    )
    pod, rows = pod_info(pod_of("claim")), rows_of(0, 1)
    state = plugin().pre_score(pod, cache.view, rows).state
    raw = plugin().score(state, pod, cache.view, rows)
    assert raw.tolist() == [8, 7]
    assert plugin().normalize(raw, plugin().normalization(state, raw)).tolist() == [SCORE_MAX, 87]


def test_alternatives_of_claims_that_are_allocated_already_score_as_well() -> None:
    held = make_claim(
        "held",
        requests=[first_available("r0", request("s0"), request("s1"), request("s2"))],
        status=allocated("b", pool="n0", request="r0/s2"),
    )
    open_claim = make_claim(requests=[first_available("r0", request("s0", count=2), request("s1"))])
    cache = cluster(
        held,
        open_claim,
        make_slice("n0", [device("a"), device("b"), device("c")]),
        make_slice("n1", [device("a")]),
    )
    pod, rows = pod_info(pod_of("claim", "held")), rows_of(0, 1)
    state = plugin().pre_score(pod, cache.view, rows).state
    assert plugin().score(state, pod, cache.view, rows).tolist() == [6 + 8, 6 + 7]


def test_extended_resources_come_from_devices_where_the_node_has_none() -> None:
    cache = cluster(
        make_class("cards", extendedResourceName=GPU), make_slice("n0", [device("a"), device("b")])
    )
    cache.add_node(make_node("n3", extra={GPU: "4"}))
    resources = {"requests": {GPU: "2"}}
    record = make_pod("p", spec={"containers": [{"name": "c", "resources": resources}]})
    pod = pod_info(record)
    assert verdicts(cache, pod) == ["", CANNOT_ALLOCATE, CANNOT_ALLOCATE, ""]
    fit = NodeResourcesFit(NodeResourcesFitArgs())
    passes = filtered(fit, pod, cache.view, cache.nodes.present_rows()).passes
    assert passes.all(), "what devices provide is not NodeResourcesFit's to count"
    assert plugin().reserve(record, pod, cache.view, 0).is_success
    assert verdicts(cache, pod) == [CANNOT_ALLOCATE, CANNOT_ALLOCATE, CANNOT_ALLOCATE, ""]
    plugin().unreserve(record, pod, cache.view, 0)
    assert verdicts(cache, pod)[0] == ""


def test_any_number_of_extended_resources_may_come_from_devices() -> None:
    names = [f"example.com/r{i:02}" for i in range(70)]
    classes = [make_class(f"c{i:02}", extendedResourceName=name) for i, name in enumerate(names)]
    requests = dict.fromkeys(names, "1") | {GPU: "1"}
    record = make_pod(
        "p", spec={"containers": [{"name": "c", "resources": {"requests": requests}}]}
    )
    cache = cluster(
        make_class("cards", extendedResourceName=GPU),
        *classes,
        make_slice("n3", [device("a")]),
        make_slice("n0", [device("a")]),
    )
    # n3 has all but one itself, n4 half of them, and n5 all.
    cache.add_node(make_node("n3", extra=dict.fromkeys(names, "1")))
    cache.add_node(make_node("n4", extra=dict.fromkeys(names[::2], "1")))
    cache.add_node(make_node("n5", extra=dict.fromkeys(requests, "1")))
    pod = pod_info(record)
    found = verdicts(cache, pod)
    assert found[3] == found[5] == ""
    too_many = "claim default/<extended-resources>: number of requested devices 71 exceeds"
    assert found[0].startswith(too_many)
    assert found[1] == found[2] == found[0]
    assert found[4].startswith(too_many.replace("71", "36"))
    assert plugin().reserve(record, pod, cache.view, 3).is_success
    assert not plugin().reserve(record, pod, cache.view, 0).is_success


def test_more_errors_than_can_be_told_apart_are_told_as_one() -> None:
    count = REASONS_MAX + 8
    slices = [make_slice(f"n{i}", [device("a", attributes={"i": i})]) for i in range(count)]
    failing = f"{{-1: true}}[device.attributes['{DRIVER}'].i]"
    broken = make_claim(requests=[request(selectors=selectors(failing))])
    found = verdicts(cluster(broken, *slices, nodes=count), pod_info(pod_of("claim")))
    assert found[0].endswith("no such key: 0")
    assert len(set(found)) == REASONS_MAX
    assert MORE_REASONS in found


# Reserve --------------------------------------------------------------------------------------------


def test_a_reserved_device_is_given_to_nobody_else() -> None:
    cache = cluster(make_claim("c0"), make_claim("c1"), make_slice("n0", [device("a")]))
    first, second = pod_of("c0"), pod_of("c1", name="q")
    assert plugin().reserve(first, pod_info(first), cache.view, 0).is_success
    assert verdicts(cache, pod_info(second))[0] == CANNOT_ALLOCATE
    status = plugin().reserve(second, pod_info(second), cache.view, 0)
    assert status.reasons == (CANNOT_ALLOCATE,)
    shared = plugin().pre_filter(pod_info(pod_of("c0", name="r")), cache.view).status
    assert shared.reasons == ("resource claim default/c0 is in the process of being allocated",)
    plugin().unreserve(first, pod_info(first), cache.view, 0)
    assert verdicts(cache, pod_info(second))[0] == ""


def test_a_slice_whose_selector_cannot_be_handed_on_is_an_error_and_nothing_is_reserved() -> None:
    """A device's own selector may have more terms; so says upstream's createNodeSelector."""
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in "ab"
    ]
    far = make_slice("far", [device("a")], node=None, nodeSelector={"nodeSelectorTerms": terms})
    cache = cluster(make_claim("c0"), far)
    record = pod_of("c0")
    pod = pod_info(record)
    state = plugin().pre_filter(pod, cache.view).state
    found = plugin().filter(state, pod, cache.view, cache.nodes.present_rows())
    assert found.status(0, "").code is Code.ERROR
    assert "with 2 terms" in found.status(0, "").message
    assert plugin().reserve(record, pod, cache.view, 0).message == found.status(0, "").message
    assert not cache.objects.assumed(CLAIMS)


def test_an_update_without_the_allocation_does_not_free_what_is_reserved() -> None:
    claim = make_claim("c0")
    cache = cluster(claim, make_claim("c1"), make_slice("n0", [device("a")]))
    first, second = pod_of("c0"), pod_info(pod_of("c1", name="q"))
    assert plugin().reserve(first, pod_info(first), cache.view, 0).is_success
    newer = msgspec.structs.replace(claim.metadata, resource_version="2")
    put(cache, msgspec.structs.replace(claim, metadata=newer))
    assert verdicts(cache, second)[0] == CANNOT_ALLOCATE
    ((_, bound),) = bound_claims(plugin(), first, pod_info(first), cache.view)
    assert [user.uid for user in bound.status.reserved_for or []] == [first.uid]
    newest = msgspec.structs.replace(claim.metadata, resource_version="3")
    put(cache, msgspec.structs.replace(bound, metadata=newest))
    assert not cache.objects.assumed(CLAIMS), "the API server knows now"
    assert verdicts(cache, second)[0] == CANNOT_ALLOCATE
    cache.objects.remove(CLAIMS, "default/c0")
    assert verdicts(cache, second)[0] == ""


# Groups of nodes ------------------------------------------------------------------------------------

models = st.sampled_from(["x", "y"])
pools = st.lists(models, max_size=3)


@st.composite
def clusters(draw: st.DrawFn) -> Cache:
    """Nodes of which many offer the same, shared pools, and devices that are taken."""
    objects: list[ResourceClaim | ResourceSlice | DeviceClass] = []
    for i in range(6):
        offered = draw(st.sampled_from([[], ["x"], ["x", "y"], ["y", "x"]]))
        devices = [device(f"d{j}", attributes={"model": m}) for j, m in enumerate(offered)]
        if devices:
            count = draw(st.sampled_from([1, 1, 1, 2]))
            objects.append(make_slice(f"n{i}", devices, count=count))
            if draw(st.booleans()):
                objects.append(make_claim(f"t{i}", status=allocated("d0", pool=f"n{i}")))
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    ways: list[dict[str, Any]] = [
        {"allNodes": True}, {"nodeSelector": {"nodeSelectorTerms": [term]}},
    ]  # fmt: skip
    for way in draw(st.lists(st.sampled_from(ways), max_size=1)):
        devices = [device("far", attributes={"model": draw(models)})]
        name = draw(st.sampled_from(["a-fabric", "z-fabric", "n2"]))
        objects.append(make_slice(name, devices, name="fabric", node=None, **way))
    return cluster(*objects, nodes=6)


@given(clusters(), st.integers(1, 2), st.sampled_from(["ExactCount", "All"]), st.booleans())
def test_nodes_that_share_a_result_would_each_have_come_to_it(
    cache: Cache, count: int, mode: str, is_matched: bool
) -> None:
    wanted = request(count=count, allocationMode=mode, selectors=selectors("true"))
    alternatives = first_available("r1", request("s0", count=2), request("s1"))
    constraints = [{"matchAttribute": "gpu.example.com/model"}] if is_matched else []
    put(cache, make_claim(requests=[wanted, alternatives], constraints=constraints))
    pod = pod_info(pod_of("claim"))
    rows = cache.nodes.present_rows()
    together = filtered(plugin(), pod, cache.view, rows)
    state = plugin().pre_score(pod, cache.view, rows).state
    scores = plugin().score(state, pod, cache.view, rows)
    for i, row in enumerate(rows.tolist()):
        alone = filtered(plugin(), pod, cache.view, rows_of(row))
        assert alone.status(0, "") == together.status(i, "")
        state = plugin().pre_score(pod, cache.view, rows_of(row)).state
        assert plugin().score(state, pod, cache.view, rows_of(row))[0] == scores[i]
        status = plugin().reserve(pod_of("claim"), pod, cache.view, row)
        assert status.is_success is bool(together.passes[i]), "Reserve rejects what Filter rejects"
        plugin().unreserve(pod_of("claim"), pod, cache.view, row)


def test_reserve_rejects_nodes_out_of_reach_of_what_was_allocated_and_amounts_of_nobody() -> None:
    zone_b = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    status = allocated("a", pool="n1")
    status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [zone_b]}
    cache = cluster(make_claim(status=status), make_class("gpus", extendedResourceName=GPU))
    far = pod_of("claim")
    gpu = {"requests": {GPU: "1", "example.com/unknown": "1"}}
    vain = make_pod("vain", spec={"containers": [{"name": "c", "resources": gpu}]})
    for record, reason in ((far, NOT_AVAILABLE), (vain, CANNOT_FIT)):
        assert verdicts(cache, pod_info(record))[0] == reason
        told = plugin().reserve(record, pod_info(record), cache.view, 0)
        assert (told.is_rejected, told.reasons) == (True, (reason,))
    assert plugin().reserve(far, pod_info(far), cache.view, 1).is_success


def test_an_extended_resource_that_a_node_states_as_0_counts_as_not_stated() -> None:
    other = "example.com/other"
    cache = cluster(
        make_class("gpus", extendedResourceName=GPU),
        make_slice("n0", [device("a")]),
        nodes=1,
        extra={other: "0"},
    )
    both = {"requests": {GPU: "1", other: "1"}}
    pod = make_pod("p", spec={"containers": [{"name": "c", "resources": both}]})
    assert verdicts(cache, pod_info(pod)) == [CANNOT_FIT]


def test_nodes_that_have_the_same_left_are_searched_once_however_many_devices_are_given_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slices = [make_slice(f"n{i}", [device("a"), device("b")]) for i in range(4)]
    claims = [make_claim(f"c{i}") for i in range(6)]
    cache = cluster(*claims, *slices, nodes=4)
    rows, pod = cache.nodes.present_rows(), pod_info(pod_of("c0"))
    state = plugin().pre_filter(pod, cache.view).state
    searched: list[int] = []

    def note(*parts: Any) -> Any:
        searched.append(len(parts))
        return allocate(*parts)

    for i, row, count in ((1, 0, 2), (2, 1, 0), (3, 2, 0), (4, 0, 1), (5, 1, 0)):
        record = pod_of(f"c{i}", name=f"p{i}")
        assert plugin().reserve(record, pod_info(record), cache.view, row).is_success
        with monkeypatch.context() as patch:
            patch.setattr(device_allocation, "allocate", note)
            passes = plugin().filter(state, pod, cache.view, rows).passes.tolist()
        assert passes == filtered(plugin(), pod, cache.view, rows).passes.tolist()
        assert len(searched) == count, (
            "of nodes with as many left as others once had nothing is new"
        )
        searched.clear()


def test_a_claim_that_is_said_to_be_as_it_was_assumed_is_news_of_no_node() -> None:
    cache = cluster(make_claim("c0"), make_slice("n0", [device("a")]))
    first = pod_of("c0")
    assert plugin().reserve(first, pod_info(first), cache.view, 0).is_success
    index = device_index(cache.view)
    assert index.log.position
    ((_, bound),) = bound_claims(plugin(), first, pod_info(first), cache.view)
    meta = msgspec.structs.replace(bound.metadata, resource_version="2")
    position = index.log.position
    put(cache, msgspec.structs.replace(bound, metadata=meta))
    assert device_index(cache.view).log.position == position
    cache.objects.remove(CLAIMS, "default/c0")
    assert device_index(cache.view).log.since(position) == [cache.nodes.row_of("n0")]


Seen = list[list[tuple[object, ...]]]
"""The pools of each node."""


def shown(pools_of: Callable[[int], Iterable[Pool]], cache: Cache) -> Seen:
    return [
        [
            (pool.pool_id, pool.is_incomplete, pool.is_invalid, [each.name for each in pool.slices])
            for pool in pools_of(row)
        ]
        for row in cache.nodes.present_rows().tolist()
    ]


def pools_kept(cache: Cache) -> Seen:
    index = device_index(cache.view)
    return shown(lambda row: index.pools(row), cache)


def pools_anew(cache: Cache) -> Seen:
    """By looking at every slice for each node."""
    slices = [SliceView(each, {}, DEFAULT_GATES) for each in cache.objects.all(SLICES).values()]

    def of_pool(pool_id: PoolId) -> list[SliceView]:
        return [each for each in slices if each.pool_id == pool_id]

    return shown(
        lambda row: gather(slices, of_pool, lambda match: reaches(match, cache.nodes, row)), cache
    )


@given(clusters(), st.data())
def test_the_index_follows_changes(cache: Cache, data: st.DataObject) -> None:
    put(cache, make_claim())
    pod = pod_info(pod_of("claim"))
    verdicts(cache, pod)
    pools_kept(cache)
    for key in data.draw(st.lists(st.sampled_from(range(6)), max_size=3)):
        taken = f"default/t{key}"
        if cache.objects.get(CLAIMS, taken) is not None:
            cache.objects.remove(CLAIMS, taken)
        else:
            put(cache, make_slice(f"n{key}", [device("d0")]))
    followed = verdicts(cache, pod)
    assert pools_kept(cache) == pools_anew(cache)
    cache.view.forget_derived()
    assert verdicts(cache, pod) == followed
    groups = device_index(cache.view).groups(cache.nodes.present_rows())
    assert len(np.unique(groups.group)) == len(groups.keys)
    assert groups.first.tolist() == np.unique(groups.group, return_index=True)[1].tolist()


def test_what_drivers_said_once_has_no_number_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_index_module, "SIGNATURES_MAX", 12)
    is_seventh = f"device.attributes['{DRIVER}'].model == 'm7'"
    cache = cluster(make_claim("c0", requests=[request(selectors=selectors(is_seventh))]))
    pod = pod_info(pod_of("c0"))
    for turn in range(40):
        put(cache, make_slice("n0", [device("d", attributes={"model": f"m{turn % 20}"})]))
        put(cache, make_slice("n1", [device("d", attributes={"model": f"s{turn}"})]))
        assert [text == "" for text in verdicts(cache, pod)] == [turn % 20 == 7, False, False]
        groups = device_index(cache.view).groups(cache.nodes.present_rows())
        assert len(groups.keys) == 3
        assert max(int.from_bytes(key, "little") for key in groups.keys) < 16


def test_nothing_is_kept_of_a_node_that_went_with_its_devices() -> None:
    cache = cluster(make_claim("c0"), make_slice("n0", [device("d")]))
    pod = pod_info(pod_of("c0"))
    verdicts(cache, pod)
    slices = [make_slice(name, [device("d")]) for name in ("never-came", "went")]
    for each in slices:
        put(cache, each)
    verdicts(cache, pod)
    for each in slices:
        cache.objects.remove(SLICES, each.metadata.name)
    assert [text == "" for text in verdicts(cache, pod)] == [True, False, False]
    index = device_index(cache.view)
    assert holders(index, {"n0"})
    assert not holders(index, {"never-came", "went"})


def counters(name: str, node: str, *, count: int = 2) -> ResourceSlice:
    sets = [{"name": "memory", "counters": {"gi": {"value": "8"}}}]
    return make_slice("pool", name=name, node=node, count=count, sharedCounters=sets)


def test_counters_of_one_node_are_seen_by_every_node() -> None:
    """A slice with shared counters is looked at wherever it says that it belongs
    (allocator_incubating.go:126-135, pools_incubating.go:68)."""
    part = {"counterSet": "memory", "counters": {"gi": {"value": "6"}}}
    devices = [device(name, consumesCounters=[part]) for name in "ab"]
    of_n1 = make_slice("pool", devices, name="devices", node="n1", count=2)
    cache = cluster(make_claim(), counters("counters", "n0"), of_n1)
    pod = pod_info(pod_of("claim"))
    assert verdicts(cache, pod) == [CANNOT_ALLOCATE, "", CANNOT_ALLOCATE]
    taken = make_claim("t", status=allocated("a", pool="pool"))
    put(cache, taken)
    assert verdicts(cache, pod)[1] == CANNOT_ALLOCATE, "6 of 8 are taken"


def test_a_pool_in_disorder_is_in_the_way_of_every_node_that_sees_its_counters() -> None:
    own = make_slice("n2", [device("x")])
    cache = cluster(make_claim(requests=[request(allocationMode="All")]), own)
    pod = pod_info(pod_of("claim"))
    assert verdicts(cache, pod) == [CANNOT_ALLOCATE, CANNOT_ALLOCATE, ""]
    put(cache, counters("counters", "n0"))
    told = (
        "claim default/claim, request r0: asks for all devices, but resource pool "
        f"{DRIVER}/pool is currently being updated"
    )
    assert verdicts(cache, pod) == [told] * 3
    put(cache, counters("again", "n0"))
    assert verdicts(cache, pod) == [told.replace("being updated", "invalid")] * 3
    put(cache, make_claim())
    assert verdicts(cache, pod) == [INVALID_POOLS, INVALID_POOLS, ""]
    cache.objects.remove("resourceslices", "again")
    cache.objects.remove("resourceslices", "counters")
    assert verdicts(cache, pod) == [CANNOT_ALLOCATE, CANNOT_ALLOCATE, ""]


def test_a_pool_in_disorder_is_not_in_the_way_of_a_node_whose_slices_of_it_are_out_of_date() -> (
    None
):
    """Upstream leaves the pool out for that node (pools_incubating.go, v1.36.2)."""
    newer = make_slice("pool", [device("x")], name="newer", node="n2", generation=2, count=2)
    old = make_slice("pool", [device("y")], name="old", node="n1", count=2)
    same = [make_slice(f"own-{node}", [device("z")], node=node) for node in ("n0", "n1")]
    disorder = counters("counters", "n2", count=2), counters("again", "n2", count=2)
    none = make_claim(requests=[request(selectors=selectors("false"))])
    cache = cluster(none, *disorder, newer, old, *same)
    said = verdicts(cache, pod_info(pod_of("claim")))
    assert said == [INVALID_POOLS, CANNOT_ALLOCATE, CANNOT_ALLOCATE]


def test_filter_timeout_says_how_much_work_a_search_may_be() -> None:
    """Nodes are named, and it is an error of the attempt (dynamicresources.go:857)."""
    same = {"matchAttribute": "gpu.example.com/model", "requests": ["r1"]}
    claim = make_claim(
        requests=[request("r0", count=3), request("r1", count=2)], constraints=[same]
    )
    devices = [device(f"d{i:02}", attributes={"model": str(i)}) for i in range(14)]
    cache = cluster(claim, make_slice("n0", devices), make_slice("n1", devices), nodes=2)
    pod = pod_info(pod_of("claim"))
    rows = cache.nodes.present_rows()
    told: dict[str, list[str]] = {}
    for timeout in ("10s", "1ms", "0s"):
        limited = DynamicResources(DynamicResourcesArgs(filter_timeout=timeout))
        state = limited.pre_filter(pod, cache.view).state
        found = limited.filter(state, pod, cache.view, rows)
        told[timeout] = [found.status(i, "").message for i in range(2)]
        assert state.has_failed is (timeout == "1ms")
    late = [f"node n{i}: timed out trying to allocate devices" for i in range(2)]
    assert told == {"10s": [CANNOT_ALLOCATE] * 2, "1ms": late, "0s": [CANNOT_ALLOCATE] * 2}


# Devices in scores by resources ------------------------------------------------------------------------


def cards() -> Cache:
    """Three nodes: one of four devices taken, none taken, and a device plugin in place of devices."""
    taken = make_claim("t", status=allocated("a", pool="n0"))
    devices = [device(each, attributes={"kind": "gpu"}) for each in "abcd"]
    other = device("nic", attributes={"kind": "nic"})
    kind = f"device.attributes['{DRIVER}'].kind == 'gpu'"
    cache = cluster(
        make_class("cards", kind, extendedResourceName=GPU),
        *(make_slice(f"n{i}", [*devices, other]) for i in range(2)),
        taken,
        nodes=2,
    )
    cache.add_node(make_node("n2", extra={GPU: "4"}))
    return cache


def test_devices_count_in_the_score_like_the_resource_they_stand_for() -> None:
    cache = cards()
    resources = {"requests": {GPU: "1"}}
    pod = pod_info(make_pod("p", spec={"containers": [{"name": "c", "resources": resources}]}))
    for strategy, expected in (("LeastAllocated", [50, 75, 75]), ("MostAllocated", [50, 25, 25])):
        spec = ScoringStrategy(type=strategy, resources=[ResourceSpec(name=GPU, weight=1)])
        fit = NodeResourcesFit(NodeResourcesFitArgs(scoring_strategy=spec))
        assert rated(fit, pod, cache.view, rows_of(0, 1, 2)).tolist() == expected
        alone = [rated(fit, pod, cache.view, rows_of(row)).item() for row in range(3)]
        assert alone == expected
        assert not fit.reads_resources_only(pod, cache.view), "equal nodes, other devices"


def test_devices_count_in_the_balance_like_the_resource_they_stand_for() -> None:
    cache = cards()
    resources = {"requests": {"cpu": "2", GPU: "1"}}
    pod = pod_info(make_pod("p", spec={"containers": [{"name": "c", "resources": resources}]}))
    named = [ResourceSpec(name=name, weight=1) for name in ("cpu", GPU)]
    balanced = NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs(resources=named))
    # 2 of 4 cores, and 1 + 1 or 0 + 1 of 4 devices: 87 becomes 100, or 100 becomes 87.
    assert rated(balanced, pod, cache.view, rows_of(0, 1, 2)).tolist() == [81, 68, 68]
    alone = [rated(balanced, pod, cache.view, rows_of(row)).item() for row in range(3)]
    assert alone == [81, 68, 68]
    assert not balanced.reads_resources_only(pod, cache.view), "equal nodes, other devices"
    without = pod_info(make_pod("p", cpu="2"))
    assert balanced.reads_resources_only(without, cache.view), "it asks for no devices"
    assert balanced.reads_resources_only(pod, Cache(DEFAULT_GATES).view), "there are no devices"
    assert NodeResourcesBalancedAllocation(
        NodeResourcesBalancedAllocationArgs()
    ).reads_resources_only(pod, cache.view)
