"""Which classes are found, while they come and go."""

from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.sim.slow_topology import PREFERRED, REQUIRED
from shared.framework import class_index
from shared.framework.class_index import ClassIndex
from shared.framework.pod_info import PodInfo
from shared.kube.api.meta_v1 import LabelSelector
from shared.selectors.label_selector import EVERYTHING, Selector, parse_label_selector
from shared.selectors.requirement import equal_to
from tests.support.builders import make_pod
from tests.support.cluster import pod_info


def info(namespace: str, labels: dict[str, str] | None = None, **term: Any) -> PodInfo:
    term = {"topologyKey": "zone", "labelSelector": {}, **term}
    spec = {"affinity": affinity(term)}
    return pod_info(make_pod("p", namespace=namespace, labels=labels, spec=spec))


def one_of(key: str, *values: str) -> dict[str, Any]:
    operator = {"operator": "In", "values": values} if values else {"operator": "Exists"}
    return {"matchExpressions": [{"key": key, **operator}]}


SELECTORS = [
    parse_label_selector(msgspec.convert(each, LabelSelector))
    for each in (
        {},
        {"matchLabels": {"app": "b"}},
        one_of("app", "a", "c"),
        one_of("app"),
        one_of("app", "a", *map(str, range(99))),
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b"]}]},
    )
]
LABELS: list[dict[str, str]] = [{}, {"app": "a"}, {"app": "b"}, {"app": "98"}, {"other": "a"}]


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
    (info("x", {"app": "a"}, labelSelector={"matchLabels": {"app": "b"}}), frozenset("x")),
    (
        info("y", {"app": "b"}, labelSelector=one_of("app", "a", "b"), namespaces=["x"]),
        frozenset("x"),
    ),
    (info("x", {"app": "b"}, labelSelector=one_of("app")), frozenset("x")),
    (info("x", {"app": "c"}, labelSelector=one_of("app", *map(str, range(99)))), frozenset("x")),
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
                assert {i for i, _ in index.selected(namespaces, EVERYTHING)} == wanted
            assert dict(index.selected(None, EVERYTHING)) == classes
            for selector, namespace in product(SELECTORS, "xyz"):
                found = dict(index.selected((namespace,), selector))
                there = {i: c for i, c in classes.items() if c.namespace == namespace}
                assert found.items() <= there.items()
                wanted = {i for i, c in there.items() if selector.matches(c.labels)}
                assert wanted <= found.keys()
                if selector.needs and not selector.needs[0][1]:
                    assert all("app" in c.labels for c in found.values())
                elif selector.needs:
                    assert wanted == found.keys(), "of one condition"
            for labels, namespace in product(LABELS, "xyz"):
                about = {i for i in classes if (of := meant[i]) is None or namespace in of}
                selecting = {
                    i for i in about if classes[i].pod_terms.all[0].selector.matches(labels)
                }
                told = {i for i, _ in index.with_terms_about(namespace, labels)}
                assert selecting <= told <= about
                assert "app" in labels or told == selecting


@pytest.mark.parametrize("limit", [1, class_index.LABELS_MAX])
def test_a_class_is_found_by_each_label_that_was_ever_asked_for(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_index, "LABELS_MAX", limit)
    classes: dict[int, PodInfo] = {}
    index = ClassIndex(classes)
    for number in range(6):
        labels = {"a": "1", f"k{number}": "1"}
        classes[number] = pod_info(make_pod("p", namespace="x", labels=labels))
        for key in ("a", f"k{number}", "k0"):
            selector = Selector(equal_to({key: "1"}))
            found = {i for i, _ in index.selected(("x",), selector)}
            assert found == {i for i, c in classes.items() if key in c.labels}


def test_what_is_gone_is_let_go_of() -> None:
    classes: dict[int, PodInfo] = {}
    index = ClassIndex(classes)
    for number in range(3 * class_index.STALE_MIN):
        classes[number] = INFOS[0][0]
        list(index.with_terms_about("x", {}))
        del classes[number]
    assert index._size <= class_index.STALE_MIN + 1
