"""Several pods assumed in one go: the same as one by one. Bindings of assumed pods confirmed."""

from typing import Any

import msgspec
import numpy as np
import pytest

from daemon.core.cache import RUN_LENGTH_MIN, Cache
from daemon.core.pod_classes import PodClass
from shared.columns.schema import NodeColumns, PodColumns, UsageColumns, names_of
from shared.feature_gates import DEFAULT_GATES
from shared.kube.pod_record import PodRecord
from tests.support.builders import make_node, make_pod

COLUMNS = ("generation", *names_of(UsageColumns), *names_of(NodeColumns))


def cache_of(node_count: int) -> Cache:
    cache = Cache(DEFAULT_GATES)
    for i in range(node_count):
        cache.add_node(make_node(f"n{i}"))
    return cache


def acquired(cache: Cache, records: list[PodRecord]) -> PodClass:
    """The class of all of them, as the queue holds it."""
    first, *_ = [cache.classes.acquire(record) for record in records]
    return first


def contents(cache: Cache) -> dict[str, Any]:
    """Everything that an assumption may change."""
    nodes, pods = cache.nodes, cache.pod_table
    used = slice(0, pods.row_count)
    return {
        **{name: getattr(nodes, name).tolist() for name in COLUMNS},
        "requested": nodes.requested.tolist(),
        **{f"pods.{name}": getattr(pods, name)[used].tolist() for name in names_of(PodColumns)},
        "nodes": np.asarray(cache.journal.node.since(0)).tolist(),
        "usage": np.asarray(cache.journal.usage.since(0)).tolist(),
        "pod rows": np.asarray(cache.journal.pods.since(0)).tolist(),
        "generation": cache.generation,
        "log": sorted(pods.log.since(0, 1 << 20) or ()),
        "classes": {each.class_id: each.pod_count for each in cache.classes},
        "cached": {
            pod.record.uid: (
                pod.node_name,
                pod.row,
                pod.attached_at,
                cache.is_assumed_pod(pod.record.uid),
                pod.record.template,
            )
            for pod in cache.pods()
        },
        "assumed": [pod.record.uid for pod in cache.assumed_pods()],
        "on nodes": {info.name: list(info.pods) for info in cache.node_infos()},
        "claims": {info.name: dict(info.pvc_refs) for info in cache.node_infos()},
        "ports": {info.name: info.ports for info in cache.node_infos()},
    }


@pytest.mark.parametrize("count", [1, RUN_LENGTH_MIN - 1, RUN_LENGTH_MIN, 40])
@pytest.mark.parametrize(
    "shape",
    [
        {"cpu": "1", "memory": "1Gi"},
        {"cpu": None, "memory": None},
        {"host_port": 80},
        {"claim": "data"},
        {"deleted": "2026-01-01T00:00:00Z"},
    ],
)
def test_many_at_once_are_the_same_as_one_by_one(count: int, shape: dict[str, Any]) -> None:
    rows = [(i * 7) % 41 for i in range(count)]
    records = [make_pod(f"p{i}", **shape) for i in range(count)]
    caches = cache_of(41), cache_of(41)
    for cache in caches:
        # Some rows of the pod table are free, fewer than are needed.
        for i in range(3):
            cache.add_pod(make_pod(f"gone{i}", node_name="n0"))
        for i in range(3):
            cache.remove_pod(f"uid-default-gone{i}")
    at_once, by_one = caches
    pod_class = acquired(at_once, records)
    names = at_once.assume_pods(records, rows, pod_class)
    pod_class = acquired(by_one, records)
    for record, row in zip(records, rows, strict=True):
        by_one.assume_pod(record, f"n{row}", pod_class)
    assert names == [f"n{row}" for row in rows]
    assert contents(at_once) == contents(by_one)


def test_none_of_many_may_be_assumed_already() -> None:
    cache = cache_of(10)
    records = [make_pod(f"p{i}") for i in range(10)]
    pod_class = acquired(cache, records)
    cache.assume_pod(records[9], "n0", pod_class)
    with pytest.raises(AssertionError, match="pod default/p9 is assumed"):
        cache.assume_pods(records, list(range(10)), pod_class)


def assumed(record: PodRecord) -> Cache:
    cache = cache_of(2)
    cache.assume_pod(record, "n0", acquired(cache, [record]))
    return cache


def test_a_binding_as_assumed_changes_no_sum_and_no_class() -> None:
    cache = assumed(make_pod("p"))
    before = contents(cache)
    bound = make_pod("p", node_name="n0", resource_version="2")
    confirmed = cache.add_pod(bound)
    assert confirmed.record is bound
    assert not cache.is_assumed_pod(bound.uid)
    assert contents(cache) | {"cached": 0, "assumed": 0} == before | {"cached": 0, "assumed": 0}


@pytest.mark.parametrize(
    ("bound", "shows"),
    [
        (make_pod("p", node_name="n1"), {}),
        (make_pod("p", node_name="n0", cpu="7"), {}),
        (make_pod("p", node_name="n0", labels={"a": "b"}), {}),
        (make_pod("p", node_name="n0", namespace="other", uid="uid-default-p"), {}),
        (make_pod("p", node_name="n0", deleted="2026-01-01T00:00:00Z"), {}),
        (make_pod("p", node_name="n0", deleted="2026-01-01T00:00:00Z"), {"is_preempted": True}),
        (make_pod("p", node_name="n0"), {"started": "2026-01-01T00:00:00Z"}),
    ],
)
def test_a_binding_that_is_otherwise_changes_what_it_says(
    bound: PodRecord, shows: dict[str, Any]
) -> None:
    bound = msgspec.structs.replace(bound, **shows)
    cache, told = assumed(make_pod("p")), cache_of(2)
    generation = cache.generation
    for each in (cache, told):
        each.add_pod(msgspec.structs.replace(bound))
    assert cache.generation > generation, "copies are told"
    (pod,) = cache.pods()
    assert pod.pod_class.key == (bound.namespace, bytes(bound.template))
    columns = (
        *(f"pods.{name}" for name in names_of(PodColumns) if name != "class_id"),
        "requested",
    )
    known, expected = contents(cache), contents(told)
    assert {name: known[name] for name in columns} == {name: expected[name] for name in columns}
    assert known["on nodes"] == expected["on nodes"]


def test_what_is_not_read_of_a_template_does_not_keep_the_message_alive() -> None:
    cache = assumed(make_pod("p"))
    template = bytes(make_pod("p").template)
    came = msgspec.structs.replace(make_pod("p", node_name="n0"), template=msgspec.Raw(template))
    confirmed = cache.add_pod(came)
    held, before = confirmed.record.template, make_pod("q")
    cache.classes.key_of(before)
    assert held is before.template
