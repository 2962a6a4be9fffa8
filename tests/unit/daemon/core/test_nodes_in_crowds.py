"""Nodes that come many at a time: the same as one after the other."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.core import node_columns
from daemon.core.cache import Cache
from daemon.core.cached_nodes import NodeUpdate
from shared.errors import ObjectError
from shared.feature_gates import DEFAULT_GATES
from shared.kube.api.core_v1 import Node
from tests.support.builders import make_node, make_pod

IMAGES = [[], [{"names": ["a", "b"], "sizeBytes": 7}], [{"names": ["a"], "sizeBytes": 9}]]


def node_of(drawn: tuple[int, int, str, bool, int]) -> Node:
    number, cpu, zone, is_tainted, images = drawn
    labels = {"topology.kubernetes.io/zone": zone} if zone else {"other": f"{cpu}"}
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}] if is_tainted else []
    extra = {"example.com/gpu": f"{cpu}"} if is_tainted else {}
    return make_node(
        f"n{number}",
        cpu=f"{cpu}",
        labels=labels,
        taints=taints,
        images=IMAGES[images],
        extra=extra,
    )


NODES = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.integers(0, 2),
        st.sampled_from(["", "a", "b"]),
        st.booleans(),
        st.integers(0, 2),
    ).map(node_of),
    max_size=20,
)


def pictured(cache: Cache) -> object:
    """All that is known of nodes, but for row numbers and generations."""
    table = cache.nodes
    rows = {info.name: info.row for info in cache.node_infos()}
    return {
        "order": [table.name_of(row) for row in table.order.tolist()],
        "sizes": table.image_sizes,
        "nodes": {
            name: (
                table.labels_of(row),
                dict(zip(table.resources.values, table.allocatable[:, row].tolist(), strict=True)),
                table.taints.values[table.taints_id.item(row)],
                table.images.values[table.images_id.item(row)],
                table.allowed_pod_count.item(row),
                table.present.item(row),
                table.row_of(name) == row,
            )
            for name, row in rows.items()
        },
    }


def refuse_none(error: ObjectError) -> None:
    raise error


def added_one_by_one(cache: Cache, nodes: list[Node]) -> list[NodeUpdate]:
    return [update for node in nodes for update in cache.add_nodes([node], refuse_none)]


@given(st.lists(NODES, max_size=3), st.sets(st.integers(0, 9)), st.sampled_from([1, 2, 1000]))
def test_a_crowd_is_as_one_by_one(
    crowds: list[list[Node]], leaving: set[int], shapes_max: int
) -> None:
    together, apart = Cache(DEFAULT_GATES), Cache(DEFAULT_GATES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_columns, "NODE_SHAPES_MAX", shapes_max)
        for cache in (together, apart):
            cache.add_pod(make_pod("p", node_name="n0"))  # A ghost, until its node comes.
        for nodes in crowds:
            assert together.add_nodes(nodes, refuse_none) == added_one_by_one(apart, nodes)
            for cache in (together, apart):
                for number in sorted(leaving):
                    cache.remove_node(f"n{number}")
            assert pictured(together) == pictured(apart)
            assert together.node_count() == apart.node_count()


def test_a_node_that_cannot_be_read_is_refused_and_the_others_come() -> None:
    cache, refused = Cache(DEFAULT_GATES), list[ObjectError]()
    nodes = [make_node("n0"), make_node("n1", cpu="much"), make_node("n2")]
    updates = cache.add_nodes(nodes, refused.append)
    assert [new.metadata.name for _, new in updates] == ["n0", "n2"]
    assert [error.where for error in refused] == ["node n1: status.allocatable"]
    assert cache.node_count() == 2


def test_nodes_share_what_they_have_in_common() -> None:
    cache = Cache(DEFAULT_GATES)
    cache.add_nodes([make_node("n0"), make_node("n1", images=IMAGES[1])], refuse_none)
    held = [cache.node_info(name) for name in ("n0", "n1")]
    first, second = (info.node for info in held if info is not None and info.node is not None)
    assert first.status.allocatable is second.status.allocatable
    assert second.status == msgspec.structs.replace(first.status, images=second.status.images)
