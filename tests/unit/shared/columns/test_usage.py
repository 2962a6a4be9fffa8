"""Usage of pods beyond 64 bits: columns wrap around, in whatever way pods are counted."""

import numpy as np

from shared.columns.schema import CPU
from shared.framework.runtime.what_if import WhatIf
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, rows_of

CPU_MILLI_MAX = (1 << 63) - 1
"""What 9Ei CPUs are cut to."""


def test_two_pods_wrap_around_and_leave_nothing_behind() -> None:
    cache = cluster_of([make_node("n0")])
    uids: list[str] = []
    for name, wanted in (("a", CPU_MILLI_MAX), ("b", -2), ("c", CPU_MILLI_MAX - 2)):
        record = make_pod(name, node_name="n0", cpu="9Ei")
        uids.append(record.uid)
        cache.add_pod(record)
        assert cache.nodes.requested[CPU, 0] == wanted
        assert cache.nodes.nonzero_cpu_milli[0] == wanted
    for uid in uids:
        cache.remove_pod(uid)
    assert cache.nodes.requested[CPU, 0] == 0
    assert cache.nodes.nonzero_cpu_milli[0] == 0


def test_what_if_counts_one_pod_as_several() -> None:
    cache = cluster_of([make_node("n0"), make_node("n1")])
    pod_class = cache.classes.acquire(make_pod("a", cpu="9Ei"))
    for node in ("n0", "n1"):
        cache.add_pod(make_pod(f"on-{node}", node_name=node, cpu="9Ei"))
    rows = rows_of(0, 1)
    one, both = np.array([pod_class.class_id]), np.full(2, pod_class.class_id)
    for class_ids, where in ((one, rows_of(1)), (both, rows)):
        with WhatIf(cache.view, rows, with_pods=False) as what_if:
            what_if.put_on(class_ids, where)
            assert cache.nodes.nonzero_cpu_milli[1] == -2
            assert cache.nodes.requested[CPU, 1] == -2
        assert cache.nodes.nonzero_cpu_milli[:2].tolist() == [CPU_MILLI_MAX] * 2
