"""Preemption against a slow twin: a cluster made anew for every question, one pod put back at a time.

The twin knows nothing of what-ifs: whether the pod fits without some pods is asked of a cache that
never had them, with every plugin's PreFilter run again. It shares the filters, not the search.
"""

from functools import partial
from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.core.cache import Cache
from shared.columns.nomination_columns import Nomination
from shared.feature_gates import DEFAULT_GATES
from shared.framework.post_filter import Candidate, FailedAttempt, Preemption, run_post_filters
from shared.framework.runtime.diagnosis import filter_candidates
from shared.framework.runtime.prepared_pod import prepared
from shared.framework.runtime.profiles import ProfileConfig
from shared.framework.status import Code
from shared.kube.api.policy_v1 import PodDisruptionBudget
from shared.kube.pod_record import PodRecord
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node, make_pod
from tests.support.storage_and_devices import put_storage_and_devices
from workers.scorer.evaluator import preempt

FRAMEWORK = InTreeRegistry().build(ProfileConfig()).framework
NODES = 3
ZONES = 2
STARTS = ["", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"]
ANTI_AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
        ]
    }
}
SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
]

AFFINITY = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "b"}}, "topologyKey": "zone"}
        ]
    }
}
SPECS = st.sampled_from(
    (
        {},
        {"affinity": ANTI_AFFINITY},
        {"affinity": AFFINITY},
        {"topologySpreadConstraints": SPREAD},
        {"topologySpreadConstraints": SPREAD, "affinity": ANTI_AFFINITY},
    )
)


class Bound(msgspec.Struct, frozen=True):
    """A pod on a node, or nominated to it."""

    node: int
    cpu: int
    priority: int
    app: str
    port: int = 0
    started: int = 0
    claim: str = ""
    is_shy: bool = False
    """Wants no pod of app a in its zone."""


bounds = st.builds(
    Bound,
    node=st.integers(0, NODES - 1),
    cpu=st.integers(1, 3),
    priority=st.integers(0, 4),
    app=st.sampled_from("ab"),
    port=st.sampled_from((0, 0, 80)),
    started=st.integers(0, 2),
    claim=st.sampled_from(("", "", "", "solo", "c0", "c1", "c2")),
    is_shy=st.sampled_from((False, False, False, True)),
)
nominated = st.builds(
    Bound,
    node=st.integers(0, NODES - 1),
    cpu=st.integers(1, 2),
    priority=st.integers(1, 4),
    app=st.just("b"),
)


def record_of(index: int, pod: Bound, node_name: str) -> PodRecord:
    made = make_pod(
        f"p{index}", cpu=f"{pod.cpu}", node_name=node_name, priority=pod.priority,
        host_port=pod.port, labels={"app": pod.app}, claim=pod.claim,
        spec={"affinity": ANTI_AFFINITY} if pod.is_shy else {},
    )  # fmt: skip
    return msgspec.structs.replace(made, started=STARTS[pod.started])


def nothing_twice(pods: list[Bound]) -> list[Bound]:
    """Of two pods with a port, or with the claim that is for one pod, the first to go frees it (as
    upstream), which no cache that never had that pod would show."""
    taken: set[tuple[str, int]] = set()
    kept = []
    for pod in pods:
        if pod.port and ("port", pod.node) in taken:
            pod = msgspec.structs.replace(pod, port=0)
        if pod.claim == "solo" and ("claim", 0) in taken:
            pod = msgspec.structs.replace(pod, claim="")
        kept.append(pod)
        taken |= {("port", pod.node)} if pod.port else set()
        taken |= {("claim", 0)} if pod.claim == "solo" else set()
    return kept


class World:
    """One cluster; `without` and `extra` make another of it."""

    def __init__(self, pods: list[Bound], waiting: list[Bound], allowed: list[int]) -> None:
        self.pods = pods
        self.waiting = waiting
        self.allowed = allowed

    def cache(self, without: frozenset[int] = frozenset(), extra: tuple[Bound, ...] = ()) -> Cache:
        cache = Cache(DEFAULT_GATES)
        for i in range(NODES):
            cache.add_node(make_node(f"n{i}", cpu="4", pods=5, labels={"zone": f"z{i % ZONES}"}))
        put_storage_and_devices(cache, NODES)
        for i, pod in enumerate(self.pods):
            if i not in without:
                cache.add_pod(record_of(i, pod, f"n{pod.node}"))
        for i, pod in enumerate(extra):
            cache.add_pod(record_of(100 + i, pod, f"n{pod.node}"))
        for i, allowed in enumerate(self.allowed):
            budget = {
                "metadata": {"name": f"b{i}", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": "ab"[i]}}},
                "status": {"disruptionsAllowed": allowed},
            }
            value = msgspec.convert(budget, PodDisruptionBudget)
            cache.objects.put("poddisruptionbudgets", f"default/b{i}", value)
        return cache

    def code(self, preemptor: PodRecord, node: int, without: frozenset[int]) -> int:
        """What the filters say of one node, with respected nominations and then without."""
        priority = Cache(DEFAULT_GATES).classes.acquire(preemptor).info.priority
        there = tuple(w for w in self.waiting if w.node == node and w.priority >= priority)
        code = self._code(preemptor, node, without, there)
        return code if code or not there else self._code(preemptor, node, without, ())

    def _code(
        self, preemptor: PodRecord, node: int, without: frozenset[int], extra: tuple[Bound, ...]
    ) -> int:
        cache = self.cache(without, extra)
        info = cache.classes.acquire(preemptor).info
        filtered = filter_candidates(prepared(FRAMEWORK, info, cache.view))
        row = cache.nodes.row_of(f"n{node}")
        return int(filtered.codes[filtered.rows.tolist().index(row)])

    def violating(self, victims: list[int]) -> set[int]:
        left = list(self.allowed)
        found = set()
        for i in victims:
            budget = "ab".index(self.pods[i].app)
            if budget < len(left):
                left[budget] -= 1
                if left[budget] < 0:
                    found.add(i)
        return found

    def candidate(
        self, preemptor: PodRecord, priority: int, node: int
    ) -> tuple[list[int], int] | None:
        """(victims in order of importance, violations), or None."""
        lower = [
            i for i, pod in enumerate(self.pods) if pod.node == node and pod.priority < priority
        ]
        lower.sort(key=lambda i: (-self.pods[i].priority, STARTS[self.pods[i].started] or "9", i))
        gone = set(lower)
        if not lower or self.code(preemptor, node, frozenset(gone)):
            return None
        violating = self.violating(lower)
        order = [i for i in lower if i in violating] + [i for i in lower if i not in violating]
        for i in order:
            if not self.code(preemptor, node, frozenset(gone - {i})):
                gone.discard(i)
        return [i for i in lower if i in gone], len(gone & violating)


@settings(max_examples=150)
@given(
    pods=st.lists(bounds, min_size=8, max_size=14),
    waiting=st.lists(nominated, max_size=3),
    allowed=st.lists(st.integers(0, 2), max_size=2),
    cpu=st.integers(2, 4),
    priority=st.integers(1, 4),
    port=st.sampled_from((0, 80)),
    spec=SPECS,
    claim=st.sampled_from(("", "", "solo", "c3")),
    has_device=st.booleans(),
    own_node=st.sampled_from((-1, -1, 0, 1)),
)
def test_candidates_are_those_of_the_slow_twin(
    pods: list[Bound],
    waiting: list[Bound],
    allowed: list[int],
    cpu: int,
    priority: int,
    port: int,
    spec: dict[str, object],
    claim: str,
    has_device: bool,
    own_node: int,
) -> None:
    pods = nothing_twice(pods)
    world = World(pods, waiting, allowed)
    devices = {"resourceClaims": [{"name": "c", "resourceClaimName": "gpu"}]} if has_device else {}
    preemptor = make_pod(
        "preemptor", cpu=f"{cpu}", priority=priority, host_port=port, labels={"app": "a"},
        claim=claim, spec={**spec, **devices},
    )  # fmt: skip
    cache = world.cache()
    view = cache.view
    info = cache.classes.acquire(preemptor).info
    for i, pod in enumerate(waiting):
        pod_class = cache.classes.acquire(record_of(200 + i, pod, ""))
        row = cache.nodes.row_of(f"n{pod.node}")
        view.nominations.put(Nomination(f"w{i}", pod_class.class_id, pod.priority, row))
    if own_node >= 0:  # Its own nomination takes no room from it.
        row = cache.nodes.row_of(f"n{own_node}")
        class_id = cache.classes.acquire(preemptor).class_id
        view.nominations.put(Nomination("own", class_id, info.priority, row))
    attempting = prepared(FRAMEWORK, info, view, "own" if own_node >= 0 else "")
    filtered = filter_candidates(attempting)
    codes = {
        cache.nodes.name_of(row): code
        for row, code in zip(filtered.rows.tolist(), filtered.codes.tolist(), strict=True)
    }
    assert codes == {f"n{i}": world.code(preemptor, i, frozenset()) for i in range(NODES)}
    if filtered.passes.any():
        return
    before: tuple[Any, ...] = (
        cache.nodes.requested.copy(),
        cache.nodes.ports_id.copy(),
        cache.pod_table.node_row.copy(),
    )
    search = partial(preempt, lambda rows: int(rows[0]), 0, None)
    attempt = FailedAttempt(attempting, filtered, search)
    preemption = run_post_filters(FRAMEWORK.post_filters[-1:], attempt).preemption
    assert preemption is not None
    after: tuple[Any, ...] = (
        cache.nodes.requested,
        cache.nodes.ports_id,
        cache.pod_table.node_row,
    )
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True)), "not put back"
    found = found_in(cache, pods, preemption)
    expected = {
        f"n{i}": candidate
        for i in range(NODES)
        if codes[f"n{i}"] == Code.UNSCHEDULABLE
        and (candidate := world.candidate(preemptor, priority, i)) is not None
    }
    assert found == expected
    if expected:
        assert preemption.best is not None
        assert best_of(pods, expected) == cache.nodes.name_of(preemption.best.row)
        assert isinstance(preemption.best, Candidate)


def found_in(
    cache: Cache, pods: list[Bound], preemption: Preemption
) -> dict[str, tuple[list[int], int]]:
    """By node: the victims as places in `pods`, and how many budgets they violate."""
    index_of = {f"p{i}": i for i in range(len(pods))}
    by_row = {held.row: index_of[held.record.name] for held in cache.pods()}
    return {
        cache.nodes.name_of(candidate.row): (
            [by_row[pod_row] for pod_row in candidate.victims],
            candidate.pdb_violations,
        )
        for candidate in preemption.candidates.all()
    }


def best_of(pods: list[Bound], candidates: dict[str, tuple[list[int], int]]) -> str:
    """The five criteria, and the order of the nodes."""

    def key(name: str) -> tuple[Any, ...]:
        victims, violations = candidates[name]
        highest = max(pods[i].priority for i in victims)
        earliest = min(
            STARTS[pods[i].started] or "9" for i in victims if pods[i].priority == highest
        )
        total = sum(pods[i].priority + 2**31 for i in victims)
        return (violations, highest, total, len(victims), [-ord(c) for c in earliest])

    return min(sorted(candidates), key=key)
