"""The owner's checker: what it remembers of rows, on a cluster large enough for both ways."""

import numpy as np

from shared.columns.schema import Rows
from shared.framework.checker import ROWS_LIKE_ONE_CALL, Checker
from shared.framework.profiles import ProfileConfig
from shared.framework.registry import Registry
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, rows_of

PROFILE = "default-scheduler"
FRAMEWORKS = {PROFILE: Registry(entry_points=()).build(ProfileConfig()).framework}
NODE_COUNT = 6 * ROWS_LIKE_ONE_CALL
SSD = {"nodeSelector": {"disk": "ssd"}}


def test_rows_asked_about_one_by_one_are_answered_as_rows_asked_about_together() -> None:
    nodes = [
        make_node(f"n{i}", labels={"disk": "ssd"} if i % 3 else {}, cpu="1" if i % 5 else "0")
        for i in range(NODE_COUNT)
    ]
    cache = cluster_of(nodes)
    pod_class = cache.classes.acquire(make_pod("p", cpu="1", spec=SSD))
    key = (pod_class.class_id, pod_class.info, PROFILE)

    def wanted(rows: Rows) -> list[bool]:
        return [bool(row % 3 and row % 5) for row in rows.tolist()]

    checker = Checker(cache.view, cache.journal, FRAMEWORKS)
    # More calls than it takes for the checker to ask about all rows.
    for row in range(0, NODE_COUNT, 37):
        assert checker.passing(*key, rows_of(row)).tolist() == wanted(rows_of(row))
    everything = np.arange(NODE_COUNT)
    assert checker.passing(*key, everything).tolist() == wanted(everything)
    cache.add_node(make_node("n1", cpu="1"))
    assert not checker.passing(*key, rows_of(1))[0], "a node that changed is asked about again"
    cache.remove_node("n2")
    assert not checker.passing(*key, rows_of(2))[0]
