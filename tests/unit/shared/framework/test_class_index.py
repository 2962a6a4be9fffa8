"""Which classes are found, while they come and go."""

from hypothesis import given
from hypothesis import strategies as st

from shared.framework import class_index
from shared.framework.class_index import ClassIndex
from shared.framework.pod_info import PodInfo
from tests.support.builders import make_pod
from tests.support.cluster import pod_info
from tests.support.slow_topology import REQUIRED


def info(namespace: str, *, has_terms: bool) -> PodInfo:
    term = {"topologyKey": "zone", "labelSelector": {}}
    spec = {"affinity": {"podAffinity": {REQUIRED: [term]}}} if has_terms else {}
    return pod_info(make_pod("p", namespace=namespace, spec=spec))


INFOS = [
    info(namespace, has_terms=has_terms) for namespace in ("x", "y") for has_terms in (True, False)
]


@given(st.lists(st.tuples(st.integers(0, len(INFOS) - 1), st.booleans()), max_size=30))
def test_the_index_finds_the_classes_that_are_there(steps: list[tuple[int, bool]]) -> None:
    classes: dict[int, PodInfo] = {}
    index = ClassIndex(classes)
    for number, (kind, goes) in enumerate(steps):
        classes[number] = INFOS[kind]
        if goes:
            del classes[next(iter(classes))]
        if number % 3 == 0:
            for namespaces in (("x",), ("x", "y"), ("z",)):
                wanted = {i for i, c in classes.items() if c.namespace in namespaces}
                assert {i for i, _ in index.in_namespaces(namespaces)} == wanted
            assert dict(index.in_namespaces(None)) == classes
            with_terms = {i for i, c in classes.items() if c.has_pod_terms}
            assert {i for i, _ in index.with_terms()} == with_terms


def test_what_is_gone_is_let_go_of() -> None:
    classes: dict[int, PodInfo] = {}
    index = ClassIndex(classes)
    for number in range(3 * class_index.STALE_MIN):
        classes[number] = INFOS[0]
        list(index.with_terms())
        del classes[number]
    assert index._size <= class_index.STALE_MIN + 1
