"""The owner's checker: what it remembers of rows, on a cluster large enough for both ways."""

import numpy as np
import pytest

from daemon.core.checker import Checker
from shared.columns.schema import Rows
from shared.engine import families
from shared.engine.class_filters import ROWS_LIKE_ONE_CALL
from shared.engine.evaluation import Evaluation
from shared.engine.row_states import RowStates
from shared.framework.runtime.profiles import ProfileConfig
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, rows_of

PROFILE = "default-scheduler"
FRAMEWORKS = {PROFILE: InTreeRegistry(entry_points=()).build(ProfileConfig()).framework}
NODE_COUNT = 6 * ROWS_LIKE_ONE_CALL
SSD = {"nodeSelector": {"disk": "ssd"}}


def test_rows_asked_about_one_by_one_are_answered_as_rows_asked_about_together() -> None:
    nodes = [
        make_node(f"n{i}", labels={"disk": "ssd"} if i % 3 else {}, cpu="1" if i % 5 else "0")
        for i in range(NODE_COUNT)
    ]
    cache = cluster_of(nodes)
    pod_class = cache.classes.acquire(make_pod("p", cpu="1", spec=SSD))
    key = (pod_class.class_id, pod_class.info)

    def wanted(rows: Rows) -> list[bool]:
        return [bool(row % 3 and row % 5) for row in rows.tolist()]

    checker = Checker(cache.view, FRAMEWORKS)
    # More calls than it takes for the checker to ask about all rows.
    for row in range(0, NODE_COUNT, 37):
        assert checker.passing(*key, rows_of(row)).tolist() == wanted(rows_of(row))
    everything = np.arange(NODE_COUNT)
    assert checker.passing(*key, everything).tolist() == wanted(everything)
    cache.add_node(make_node("n1", cpu="1"))
    assert not checker.passing(*key, rows_of(1))[0], "a node that changed is asked about again"
    cache.remove_node("n2")
    assert not checker.passing(*key, rows_of(2))[0]


def test_only_so_many_families_are_kept_and_those_forgotten_are_answered_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(families, "FAMILIES_BYTES_MAX", 1 << 18)
    zones = ("a", "b", "c")
    nodes = [
        make_node(f"n{i}", labels={"zone": zones[i % 3]}, cpu=str(1 + i % 4)) for i in range(12)
    ]
    cache = cluster_of(nodes)
    checker = Checker(cache.view, FRAMEWORKS)
    everything = np.arange(len(nodes))
    class_ids = iter(range(1, 1 << 20))
    families_kept = checker._families.kept
    kept_max = families_kept.count_max

    def ask(family: int, cpu: int) -> None:
        record = make_pod(
            "p",
            cpu=str(cpu),
            labels={"batch": str(family)},
            spec={"nodeSelector": {"zone": zones[family % 3]}},
        )
        pod_class = cache.classes.acquire(record)
        passes = checker.passing(next(class_ids), pod_class.info, everything)
        room = {i: 1 + i % 4 - (i in occupied) for i in range(len(nodes))}
        wanted = [room[i] >= cpu and i % 3 == family % 3 for i in range(len(nodes))]
        assert passes.tolist() == wanted

    occupied: set[int] = set()
    count = kept_max + 20
    for family in range(count):
        ask(family, 1)
        ask(family, 2)
        assert len(families_kept._kept) <= kept_max
    assert len(families_kept._kept) == kept_max, "families were asked"
    for row in (3, 7, 9):
        cache.add_pod(make_pod(f"on-{row}", node_name=f"n{row}", cpu="1"))
        occupied.add(row)
    for family in (0, 1, 2, count - 1, count - kept_max, 0):
        for cpu in (1, 2, 3, 4):
            ask(family, cpu)
        assert len(families_kept._kept) <= kept_max


def test_pods_that_have_no_like_find_the_same_room_on_few_rows_as_on_many() -> None:
    nodes = [make_node(f"n{i}", cpu=str(i % 4), memory="8Gi", pods=i % 3) for i in range(12)]
    nodes.append(make_node("gpu", extra={"example.com/gpu": "1"}))
    cache = cluster_of(nodes)
    cache.add_pod(make_pod("there", node_name="n7", cpu="1"))
    checker = Checker(cache.view, FRAMEWORKS)
    everything = np.arange(len(nodes))

    def free(row: int, cpu: int, gpus: int) -> bool:
        used = row == cache.nodes.row_of("n7")
        has_cpu = cache.nodes.allocatable.item(0, row) >= 1000 * (cpu + used)
        has_pods = cache.nodes.allowed_pod_count.item(row) > used
        return has_cpu and has_pods and (not gpus or row == cache.nodes.row_of("gpu"))

    for gpus in (0, 1):
        for cpu in range(4):
            requests = {"cpu": f"{cpu}"} | ({"example.com/gpu": "1"} if gpus else {})
            spec = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
            pod_class = cache.classes.acquire(make_pod("p", spec=spec))
            for rows in (everything, everything[:1], everything[5:8], everything[-1:]):
                passes = checker.passing(pod_class.class_id, pod_class.info, rows)
                assert passes.tolist() == [free(row, cpu, gpus) for row in rows.tolist()]


def test_what_a_few_rows_were_asked_becomes_an_evaluation_of_all() -> None:
    nodes = [make_node(f"n{i}", labels={"disk": "ssd"} if i % 2 else {}) for i in range(9)]
    cache = cluster_of(nodes)
    info = cache.classes.acquire(make_pod("p", cpu="3", spec=SSD)).info
    evaluation = Evaluation(info, FRAMEWORKS[PROFILE], cache.view)
    assert evaluation.filters.passing(rows_of(1)).tolist() == [True]
    cache.add_pod(make_pod("there", node_name="n3", cpu="2"))
    cache.add_node(make_node("n5"))
    assert evaluation.catch_up()
    assert evaluation.filters.passing(rows_of(1, 3, 5)).tolist() == [True, False, False]
    evaluation.filters.fill(RowStates(cache.view))
    assert evaluation.feasible.nonzero()[0].tolist() == [1, 7]
    assert evaluation.feasible_count == 2
