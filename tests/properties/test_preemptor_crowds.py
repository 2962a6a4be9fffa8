"""Preemptors of one class after another: what is kept of the first must not be told to the last.

The engine that keeps everything against one that is made anew for each pod, while pods come and go,
nodes and budgets change and each preemptor keeps its room by a nomination.
"""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bench.conformance.one_by_one import said
from daemon.core.cache import Cache
from shared.columns.nomination_columns import Nomination
from shared.feature_gates import DEFAULT_GATES
from shared.framework.runtime.diagnosis import filter_candidates
from shared.framework.runtime.prepared_pod import prepared
from shared.framework.runtime.profiles import ProfileConfig
from shared.kube.api.policy_v1 import PodDisruptionBudget
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node, make_pod
from workers.scorer.engine import Engine
from workers.scorer.evaluator import post_filter

NODES = 5
BUILT = InTreeRegistry().build(
    ProfileConfig(
        plugin_config={
            "DefaultPreemption": {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 2}
        }
    )
)
PROFILE, FRAMEWORK = BUILT.scheduler_name, BUILT.framework
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "a"}},
}
PREEMPTORS: list[dict[str, Any]] = [
    {"cpu": "3", "priority": 5},
    {"cpu": "2", "priority": 3, "host_port": 80},
    {"cpu": "3", "priority": 4, "labels": {"app": "a"},
     "spec": {"topologySpreadConstraints": [SPREAD]}},
]  # fmt: skip

node_numbers = st.integers(0, NODES - 1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("preempt"), st.integers(0, len(PREEMPTORS) - 1), st.integers(0, 9)),
        st.tuples(st.just("add"), node_numbers, st.integers(0, 4), st.booleans()),
        st.tuples(st.just("remove"), st.integers(0, 30)),
        st.tuples(st.just("node"), node_numbers, st.sampled_from(("3", "4")), st.booleans()),
        st.tuples(st.just("budget"), st.integers(0, 2)),
        st.tuples(st.just("nominate"), node_numbers, st.integers(2, 6)),
        st.tuples(st.just("end"), st.integers(0, 30)),
    ),
    min_size=8,
    max_size=25,
)


class World:
    """A cluster that is full of less important pods."""

    def __init__(self) -> None:
        self.cache = Cache(DEFAULT_GATES)
        self.names: dict[str, Any] = {}
        self._count = 0
        for i in range(NODES):
            self.take("node", i, "4", False)
        for i in range(4 * NODES):
            self.take("add", i % NODES, i % 3, i % 2 == 0)

    def take(self, what: str, *args: Any) -> None:
        getattr(self, f"_{what}")(*args)

    def _node(self, number: int, cpu: str, is_closed: bool) -> None:
        labels = {"zone": f"z{number % 2}"}
        node = make_node(f"n{number}", cpu=cpu, labels=labels, unschedulable=is_closed)
        self.cache.add_node(node)

    def _add(self, number: int, priority: int, has_port: bool) -> None:
        self._count += 1
        pod = make_pod(
            f"p{self._count}", cpu="1", node_name=f"n{number}", priority=priority,
            labels={"app": "ab"[self._count % 2]}, host_port=80 if has_port else 0,
        )  # fmt: skip
        self.names[pod.uid] = pod
        self.cache.add_pod(pod)

    def _remove(self, which: int) -> None:
        if self.names:
            uid = sorted(self.names)[which % len(self.names)]
            self.cache.remove_pod(self.names.pop(uid).uid)

    def _budget(self, allowed: int) -> None:
        body = {
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "a"}}},
            "status": {"disruptionsAllowed": allowed},
        }
        value = msgspec.convert(body, PodDisruptionBudget)
        self.cache.objects.put("poddisruptionbudgets", "default/b", value)

    def _nominate(self, number: int, priority: int) -> None:
        self._count += 1
        waiting = self.cache.classes.acquire(make_pod("waiting", cpu="1", priority=priority))
        row = self.cache.nodes.row_of(f"n{number}")
        self.keep_room(f"w{self._count}", waiting.class_id, priority, row)

    def _end(self, which: int) -> None:
        shown = self.cache.view.nominations.all()
        if shown:
            ended = shown[which % len(shown)]
            self.cache.view.nominations.remove(ended.uid)
            self.cache.journal.usage.append(ended.node_row)

    def keep_room(self, uid: str, class_id: int, priority: int, row: int) -> None:
        self.cache.view.nominations.put(Nomination(uid, class_id, priority, row))
        self.cache.journal.usage.append(row)


@given(STEPS)
def test_the_last_of_a_crowd_is_told_what_the_first_would_be_told(
    steps: list[tuple[Any, ...]],
) -> None:
    world = World()
    cache = world.cache
    engine = Engine(cache.view, {PROFILE: FRAMEWORK})
    for number, (what, *args) in enumerate(steps):
        if what != "preempt":
            world.take(what, *args)
            continue
        which, offset = args
        pod_class = cache.classes.acquire(make_pod(f"high{number}", **PREEMPTORS[which]))
        class_id, info = pod_class.class_id, pod_class.info
        found = []
        preemption = None
        for each in (engine, Engine(cache.view, {PROFILE: FRAMEWORK})):
            evaluation = each.evaluate(class_id, info, PROFILE)
            if evaluation.feasible_count:
                break
            failure = evaluation.fit_error()
            result = post_filter(evaluation, lambda rows: int(rows[-1]), offset)
            found.append((failure, said(result)))
            preemption = result.preemption
        if not found:
            continue
        assert found[0] == found[1]
        assert not filter_candidates(prepared(FRAMEWORK, info, cache.view)).passes.any()
        best = preemption.best if preemption is not None else None
        if best is not None:
            world.keep_room(f"high{number}", class_id, info.priority, best.row)
