"""What the cache does when told something unexpected, and what the property test leaves out."""

import pytest

from daemon.core.cache import Cache
from daemon.core.cached_nodes import DICTIONARY_WASTE_MAX
from shared.errors import ObjectError
from shared.feature_gates import DEFAULT_GATES
from shared.kube.pod_record import PodRecord
from tests.support.builders import make_node, make_pod


def assume(cache: Cache, record: PodRecord, node: str) -> None:
    pod_class = cache.classes.acquire(record)
    cache.assume_pod(record, node, pod_class)
    cache.classes.release(pod_class)


def test_an_assumed_pod_bound_elsewhere_moves_and_the_disagreement_is_kept() -> None:
    cache = Cache(DEFAULT_GATES)
    for name in ("n0", "n1"):
        cache.add_node(make_node(name))
    assume(cache, make_pod("p", cpu="1"), "n0")
    cache.add_pod(make_pod("p", cpu="1", node_name="n1"))
    assert cache.nodes.requested[0, cache.nodes.row_of("n0")] == 0
    assert cache.nodes.requested[0, cache.nodes.row_of("n1")] == 1000
    ((kind, _, detail),) = cache.disagreements
    assert kind == "assumed elsewhere"
    assert "n0" in detail
    assert "n1" in detail


def test_assuming_a_pod_twice_is_a_bug() -> None:
    cache = Cache(DEFAULT_GATES)
    cache.add_node(make_node("n0"))
    pod = make_pod("p")
    assume(cache, pod, "n0")
    with pytest.raises(AssertionError, match="pod default/p is assumed"):
        assume(cache, pod, "n0")


def test_an_assumed_pod_never_expires_where_the_ttl_is_zero() -> None:
    cache = Cache(DEFAULT_GATES, assumed_pod_ttl_s=0.0)
    cache.add_node(make_node("n0"))
    pod = make_pod("p")
    assume(cache, pod, "n0")
    cache.finish_binding(pod.uid, now_s=0.0)
    assert cache.next_wakeup_s() == float("inf")
    assert cache.cleanup_expired(now_s=1e12) == []


def test_a_ttl_counts_from_finish_binding_only() -> None:
    cache = Cache(DEFAULT_GATES, assumed_pod_ttl_s=30.0)
    cache.add_node(make_node("n0"))
    pod = make_pod("p")
    assume(cache, pod, "n0")
    assert cache.cleanup_expired(now_s=1000.0) == []
    cache.finish_binding(pod.uid, now_s=1000.0)
    assert cache.cleanup_expired(now_s=1029.9) == []
    assert [p.record.uid for p in cache.cleanup_expired(now_s=1030.0)] == [pod.uid]


def test_a_node_with_an_unreadable_quantity_is_refused_by_name_and_nothing_is_written() -> None:
    cache = Cache(DEFAULT_GATES)
    cache.add_node(make_node("n0", cpu="4"))
    with pytest.raises(ObjectError, match=r"node n0: status.allocatable"):
        cache.add_node(make_node("n0", cpu="four"))
    assert cache.nodes.allocatable[0, cache.nodes.row_of("n0")] == 4000


def test_a_pod_on_an_unknown_node_waits_there_as_a_ghost() -> None:
    cache = Cache(DEFAULT_GATES)
    cache.add_pod(make_pod("p", cpu="1", node_name="later"))
    assert cache.node_count() == 0
    assert cache.nodes.present_rows().tolist() == []
    cache.add_node(make_node("later"))
    row = cache.nodes.row_of("later")
    assert cache.nodes.present_rows().tolist() == [row]
    assert cache.nodes.requested[0, row] == 1000


def test_a_node_that_comes_back_under_another_row_has_a_new_incarnation() -> None:
    cache = Cache(DEFAULT_GATES)
    cache.add_node(make_node("n0"))
    row = cache.nodes.row_of("n0")
    before = int(cache.nodes.incarnation[row])
    cache.remove_node("n0")
    cache.add_node(make_node("other"))
    assert cache.nodes.row_of("other") == row
    assert int(cache.nodes.incarnation[row]) > before
    assert cache.nodes.row_of("n0") == -1


def test_the_size_of_an_image_is_that_of_the_node_that_had_it_first() -> None:
    cache = Cache(DEFAULT_GATES)
    cache.add_node(make_node("n0", images=[{"names": ["a"], "sizeBytes": 10}]))
    cache.add_node(make_node("n1", images=[{"names": ["a"], "sizeBytes": 20}]))
    assert cache.nodes.image_sizes["a"] == 10
    cache.remove_node("n0")
    assert cache.nodes.image_sizes["a"] == 10
    cache.remove_node("n1")
    cache.add_node(make_node("n2", images=[{"names": ["a"], "sizeBytes": 30}]))
    assert cache.nodes.image_sizes["a"] == 30


def test_nodes_are_ordered_one_zone_after_the_other() -> None:
    cache = Cache(DEFAULT_GATES)
    for name, zone in (
        ("a0", "a"),
        ("a1", "a"),
        ("a2", "a"),
        ("b0", "b"),
        ("c0", "c"),
        ("b1", "b"),
    ):
        cache.add_node(make_node(name, labels={"topology.kubernetes.io/zone": zone}))
    names = [cache.nodes.name_of(row) for row in cache.nodes.order.tolist()]
    assert names == ["a0", "b0", "c0", "a1", "b1", "a2"]


def test_extended_resources_get_a_row_when_they_first_appear() -> None:
    cache = Cache(DEFAULT_GATES)
    cache.add_node(make_node("n0"))
    cache.add_node(make_node("n1", extra={"example.com/gpu": "8"}))
    gpu = cache.nodes.resources.find("example.com/gpu")
    assert cache.nodes.allocatable[gpu, cache.nodes.row_of("n1")] == 8
    assert cache.nodes.allocatable[gpu, cache.nodes.row_of("n0")] == 0


def test_a_heartbeat_that_changes_no_column_is_no_change() -> None:
    cache = Cache(DEFAULT_GATES)
    cache.add_node(make_node("n0"))
    before = cache.generation
    cache.add_node(make_node("n0"))
    assert cache.generation == before
    cache.add_node(make_node("n0", labels={"new": "label"}))
    assert cache.generation > before


def test_image_sets_that_no_node_has_any_more_are_dropped() -> None:
    cache = Cache(DEFAULT_GATES)
    for number in range(DICTIONARY_WASTE_MAX + 10):
        cache.add_node(make_node("n0", images=[{"names": [f"image-{number}"], "sizeBytes": 1}]))
    cache.add_node(make_node("n1", images=[{"names": ["kept"], "sizeBytes": 1}]))
    assert cache.compact()
    assert not cache.compact()
    assert len(cache.nodes.images) < 5
    held = cache.nodes.images.values[int(cache.nodes.images_id[cache.nodes.row_of("n1")])]
    assert held == {"kept"}
    assert set(cache.nodes.image_sizes) == {"kept", f"image-{DICTIONARY_WASTE_MAX + 9}"}
