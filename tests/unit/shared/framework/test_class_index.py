"""Which classes are found, while they come and go."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bench.sim.slow_topology import PREFERRED, REQUIRED
from shared.framework import class_index
from shared.framework.class_index import ClassIndex
from shared.framework.pod_info import PodInfo
from tests.support.builders import make_pod
from tests.support.cluster import pod_info


def info(namespace: str, **term: Any) -> PodInfo:
    term = {"topologyKey": "zone", "labelSelector": {}, **term}
    return pod_info(make_pod("p", namespace=namespace, spec={"affinity": affinity(term)}))


def affinity(term: dict[str, Any]) -> dict[str, Any]:
    if term.pop("is_preferred", False):
        weighted = {"weight": 1, "podAffinityTerm": term}
        return {"podAntiAffinity": {PREFERRED: [weighted]}}
    return {"podAffinity": {REQUIRED: [term]}}


INFOS: list[tuple[PodInfo, frozenset[str] | None]] = [
    (pod_info(make_pod("p", namespace="x")), frozenset()),
    (pod_info(make_pod("p", namespace="y")), frozenset()),
    (info("x"), frozenset("x")),
    (info("x", is_preferred=True, namespaces=["x", "y"]), frozenset("xy")),
    (info("y", namespaces=["x"]), frozenset("x")),
    (info("y", namespaces=["y"], namespaceSelector={"matchLabels": {"a": "b"}}), None),
]
"""Classes, and the namespaces that their terms may be about; None: any."""


@given(st.lists(st.tuples(st.integers(0, len(INFOS) - 1), st.booleans()), max_size=30))
def test_the_index_finds_the_classes_that_are_there(steps: list[tuple[int, bool]]) -> None:
    classes: dict[int, PodInfo] = {}
    meant: dict[int, frozenset[str] | None] = {}
    index = ClassIndex(classes)
    for number, (kind, goes) in enumerate(steps):
        classes[number], meant[number] = INFOS[kind]
        if goes:
            del classes[next(iter(classes))]
        if number % 3 == 0:
            for namespaces in (("x",), ("x", "y"), ("z",)):
                wanted = {i for i, c in classes.items() if c.namespace in namespaces}
                assert {i for i, _ in index.in_namespaces(namespaces)} == wanted
            assert dict(index.in_namespaces(None)) == classes
            for namespace in ("x", "y", "z"):
                about = {i for i in classes if (of := meant[i]) is None or namespace in of}
                assert {i for i, _ in index.with_terms_about(namespace)} == about


def test_what_is_gone_is_let_go_of() -> None:
    classes: dict[int, PodInfo] = {}
    index = ClassIndex(classes)
    for number in range(3 * class_index.STALE_MIN):
        classes[number] = INFOS[0][0]
        list(index.with_terms_about("x"))
        del classes[number]
    assert index._size <= class_index.STALE_MIN + 1
