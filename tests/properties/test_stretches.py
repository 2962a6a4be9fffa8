"""Pods that are checked by one call: each is let in as it would be if it were asked about alone, on the
state that has those before it."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.sim.slow_topology import HOST_NAME, REQUIRED, ZONE, SlowNode, SlowPod
from daemon.core.cache import Cache
from daemon.core.checker import Checker, end_of_stretch
from daemon.core.committer import passing
from shared.columns.nomination_columns import Nomination
from shared.feature_gates import DEFAULT_GATES
from shared.framework.runtime.profiles import ProfileConfig
from shared.plugins.in_tree import InTreeRegistry
from tests.support.topology_strategies import NODE_NAMES, node_labels, node_object, pod_record

PROFILE = "default-scheduler"
FRAMEWORKS = {PROFILE: InTreeRegistry(entry_points=()).build(ProfileConfig()).framework}
WEB, DB = ({"matchLabels": {"app": app}} for app in ("web", "db"))


def attempts(cache: Cache, pod: SlowPod, rows: list[int], prefix: str = "new") -> list[Any]:
    """Pods like this one, each with a row that it was proposed for."""
    known = []
    for number, row in enumerate(rows):
        record = pod_record(pod, f"{prefix}{number}")
        known.append((SimpleNamespace(record=record, tried_as=cache.classes.acquire(record)), row))
    return known


def lengths(cache: Cache, known: list[Any]) -> list[int]:
    """How many pods were asked about at once. Each that passes is assumed; a checker that knows nothing
    says the same of it just before."""
    owner, begin, found = Checker(cache.view, FRAMEWORKS), 0, []
    while begin < len(known):
        run = known[begin : end_of_stretch(known, begin, owner)]
        passes = passing(cache, owner, run, cache.generation)
        for (pod, row), is_let_in in zip(run, passes, strict=False):
            pod_class, record = pod.tried_as, pod.record
            wanted = Checker(cache.view, FRAMEWORKS).passing(
                pod_class.class_id, pod_class.info, np.array([row], np.intp), record.uid
            )
            assert is_let_in is wanted.item(), f"{record.key} of {len(run)} on {row}"
            if is_let_in:
                cache.assume_pod(record, cache.nodes.name_of(row), pod_class)
        begin += len(passes)
        found.append(len(passes))
    return found


def term(key: str, selector: dict[str, Any] = WEB) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": selector}


def spread(key: str, selector: dict[str, Any] = WEB, max_skew: int = 1) -> dict[str, Any]:
    return {"maxSkew": max_skew, "whenUnsatisfiable": "DoNotSchedule", **term(key, selector)}


def spec_of(**parts: list[dict[str, Any]]) -> dict[str, Any]:
    affinity = {kind: {REQUIRED: parts[kind]} for kind in parts.keys() - {"spread"}}
    return {"affinity": affinity, "topologySpreadConstraints": parts.get("spread", [])}


KEYS = st.sampled_from((HOST_NAME, ZONE, "rack"))
SELECTORS = st.sampled_from((WEB, WEB, DB, {}))
TERMS = st.builds(term, KEYS, SELECTORS)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "podAntiAffinity": st.lists(TERMS, min_size=1, max_size=2),
        "podAffinity": st.lists(TERMS, min_size=1, max_size=2),
        "spread": st.lists(st.builds(spread, KEYS, SELECTORS, st.integers(1, 4)), max_size=2),
    },
)
KINDS = st.builds(
    lambda app, parts: SlowPod("default", {"app": app}, spec_of(**parts)),
    st.sampled_from(("web", "web", "db")), SPECS,
)  # fmt: skip
ROWS = st.lists(st.integers(0, len(NODE_NAMES) - 1), max_size=4)


@settings(max_examples=400)
@given(
    st.tuples(*(node_labels(name) for name in NODE_NAMES)),
    st.lists(st.tuples(KINDS, ROWS), max_size=3),
    st.lists(st.tuples(KINDS, st.permutations(range(len(NODE_NAMES)))), min_size=1, max_size=2),
    st.lists(st.tuples(KINDS, st.integers(0, len(NODE_NAMES) - 1)), max_size=1),
)
def test_pods_in_stretches_go_where_each_would_alone(
    labels: tuple[dict[str, str], ...],
    there: list[tuple[SlowPod, list[int]]],
    coming: list[tuple[SlowPod, list[int]]],
    nominated: list[tuple[SlowPod, int]],
) -> None:
    cache = Cache(DEFAULT_GATES)
    for name, of_node in zip(NODE_NAMES, labels, strict=True):
        cache.add_node(node_object(SlowNode(name, of_node)))
    for i, (kind, rows) in enumerate(there):
        for j, row in enumerate(rows):
            on_node = SlowPod(kind.namespace, kind.labels, kind.spec, NODE_NAMES[row])
            cache.add_pod(pod_record(on_node, f"there{i}-{j}"))
    for kind, row in nominated:
        pod_class = cache.classes.acquire(pod_record(kind, "nominated"))
        cache.view.nominations.put(Nomination("nominated", pod_class.class_id, 9, row))
    for i, (kind, rows) in enumerate(coming):
        lengths(cache, attempts(cache, kind, rows, f"new{i}-"))


CASES: list[tuple[str, dict[str, Any], bool, list[int]]] = [
    ("apart by host", spec_of(podAntiAffinity=[term(HOST_NAME)]), False, [6]),
    ("apart by zone", spec_of(podAntiAffinity=[term(ZONE)]), False, [3, 3]),
    ("apart by both", spec_of(podAntiAffinity=[term(ZONE), term(HOST_NAME)]), False, [3, 3]),
    ("apart from others", spec_of(podAntiAffinity=[term(ZONE, DB)]), False, [6]),
    ("near each other", spec_of(podAffinity=[term("region")]), True, [6]),
    ("near each other, the first", spec_of(podAffinity=[term("region")]), False, [1, 5]),
    ("near each other by zone, the first", spec_of(podAffinity=[term(ZONE)]), False, [1, 3, 2]),
    ("near others", spec_of(podAffinity=[term("region", DB)]), True, [6]),
    ("near others that are not there", spec_of(podAffinity=[term(ZONE, DB)]), False, [6]),
    ("spread by zone", spec_of(spread=[spread(ZONE)]), False, [3, 3]),
    ("spread by zone, with room", spec_of(spread=[spread(ZONE, max_skew=2)]), False, [6]),
    ("spread by zone, with room in some", spec_of(spread=[spread(ZONE, max_skew=2)]), True, [3, 3]),
    ("spread by host", spec_of(spread=[spread(HOST_NAME)]), False, [6]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "are_there", "wanted"), [case[1:] for case in CASES],
                         ids=[case[0] for case in CASES])  # fmt: skip
def test_as_many_are_asked_about_at_once_as_do_not_keep_each_other_away(
    spec: dict[str, Any], are_there: bool, wanted: list[int]
) -> None:
    cache = Cache(DEFAULT_GATES)
    for i in range(6):
        labels = {HOST_NAME: f"n{i}", ZONE: "abc"[i % 3], "region": "r"}
        cache.add_node(node_object(SlowNode(f"n{i}", labels)))
    for app in ("web", "db") if are_there else ():
        cache.add_pod(pod_record(SlowPod("default", {"app": app}, {}, "n0"), app))
    known = attempts(cache, SlowPod("default", {"app": "web"}, spec), list(range(6)))
    assert lengths(cache, known) == wanted


def test_one_that_is_nominated_takes_room_of_its_domain_when_its_own_node_is_asked_about() -> None:
    cache = Cache(DEFAULT_GATES)
    for i in range(6):
        cache.add_node(node_object(SlowNode(f"n{i}", {ZONE: "abc"[i % 3]})))
    web = SlowPod("default", {"app": "web"}, spec_of(spread=[spread(ZONE, max_skew=2)]))
    nominated = cache.classes.acquire(pod_record(web, "nominated"))
    cache.view.nominations.put(Nomination("nominated", nominated.class_id, 9, 0))
    assert lengths(cache, attempts(cache, web, [3, 0, 1, 2, 4, 5])) == [1, 3, 2]
