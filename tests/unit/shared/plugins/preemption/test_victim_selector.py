"""The owner's check of a preemption: does the pod pass once the victims are gone?"""

from typing import Any, ClassVar

import numpy as np
import pytest

from daemon.core.cache import Cache
from shared.columns.schema import Rows
from shared.feature_gates import DEFAULT_GATES
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import Dependence, PreFilterResult, Reads, Scope
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.prepared_pod import prepared
from shared.framework.status import Code, Status, Verdicts, single_reason
from shared.plugins.preemption.victim_selector import fits_without
from tests.support.builders import make_node, make_pod


class OnePod:
    """PreFilter and Filter: one pod in the whole cluster."""

    NAME: ClassVar[str] = "OnePod"
    pre_filter_depends: ClassVar[Dependence | None] = Dependence(Reads.PODS, Scope.CLUSTER)
    filter_depends: ClassVar[Dependence] = Dependence(Reads.USAGE, Scope.ROW)

    def __init__(self, code: Code) -> None:
        self._code = code

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        if not cluster.nodes.pod_count.max(initial=0):
            return PreFilterResult()
        return PreFilterResult(Status(self._code, ("one is there",)))

    def filter(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        taken = np.asarray(cluster.nodes.pod_count[rows] > 0, np.bool_)
        return single_reason(taken, Code.UNSCHEDULABLE, "one is there")


@pytest.mark.parametrize(
    ("code", "fits"),
    [(Code.UNSCHEDULABLE, True), (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, False), (Code.ERROR, False)],
)
def test_a_pre_filter_that_refused_may_change_its_mind(code: Code, fits: bool) -> None:
    """Only one that says so: no pod that goes away lifts the others."""
    plugin = OnePod(code)
    framework = Framework([plugin], [plugin], ())
    cache = Cache(DEFAULT_GATES)
    cache.add_node(make_node("n0"))
    held = make_pod("held", node_name="n0")
    cache.add_pod(held)
    victim = cache.get_pod(held.uid)
    assert victim is not None
    info = cache.classes.acquire(make_pod("p", priority=1)).info
    victims = np.array([victim.row], np.intp)
    row = cache.nodes.row_of("n0")
    pod = prepared(framework, info, cache.view, "p")
    assert fits_without(pod, row, victims) is fits
    assert not fits_without(pod, row, victims[:0])
