"""What a view remembers of objects and nodes."""

from typing import Any

import msgspec
import pytest

from shared.framework.object_store import ObjectStore
from shared.kube.api.apps_v1 import ReplicaSet
from shared.kube.api.core_v1 import PersistentVolumeClaim
from tests.support.builders import make_node
from tests.support.cluster import cluster_of


def replica_set(version: str, app: str = "web") -> ReplicaSet:
    body: dict[str, Any] = {
        "metadata": {"name": "rs", "namespace": "default", "resourceVersion": version},
        "spec": {"selector": {"matchLabels": {"app": app}}},
    }
    return msgspec.convert(body, ReplicaSet)


def test_a_new_version_of_the_same_workload_is_no_change() -> None:
    store = ObjectStore()
    store.put("replicasets", "default/rs", replica_set("1"))
    version = store.version
    store.put("replicasets", "default/rs", replica_set("2"))
    assert store.version == version
    held = store.get("replicasets", "default/rs")
    assert held is not None
    assert held.metadata.resource_version == "2"
    store.put("replicasets", "default/rs", replica_set("3", app="db"))
    assert store.version == version + 1
    store.remove("replicasets", "default/rs")
    assert store.version == version + 2


def test_a_new_version_of_a_claim_is_a_change() -> None:
    """Assumptions are made from one version and end with the next."""
    store = ObjectStore()
    for number in (1, 2):
        body = {"metadata": {"name": "c", "resourceVersion": str(number)}}
        claim = msgspec.convert(body, PersistentVolumeClaim)
        store.put("persistentvolumeclaims", "default/c", claim)
    assert store.version == 2


def test_objects_are_found_by_namespace() -> None:
    store = ObjectStore()
    for key in ("a/x", "a/y", "b/x", "y"):
        store.put("services", key, replica_set("1"))
    assert list(store.in_namespace("services", "a")) == ["a/x", "a/y"]
    assert list(store.in_namespace("services", "")) == ["y"]
    store.remove("services", "a/x")
    store.remove("services", "b/x")
    assert list(store.in_namespace("services", "a")) == ["a/y"]
    assert store.in_namespace("services", "b") == {}
    assert store.in_namespace("pods", "a") == {}


@pytest.mark.parametrize(
    ("labels", "is_same"),
    [
        ({"zone": "a", "new": "x"}, True),
        ({"zone": "b"}, True),  # Another name for the same nodes.
        ({}, False),
    ],
)
def test_a_topology_is_the_same_object_while_the_same_nodes_share_a_value(
    labels: dict[str, str], is_same: bool
) -> None:
    cache = cluster_of([make_node("n0", labels={"zone": "a"}), make_node("n1")])
    before = cache.view.topology("zone")
    assert cache.view.topology("zone") is before
    cache.add_node(make_node("n0", labels=labels))
    assert (cache.view.topology("zone") is before) is is_same


def test_a_node_that_goes_leaves_its_domain() -> None:
    cache = cluster_of([make_node("n0", labels={"zone": "a"}), make_node("n1")])
    assert cache.view.topology("zone").domain_count == 1
    cache.remove_node("n0")
    assert cache.view.topology("zone").domain_count == 0


def test_what_is_assumed_for_a_pod_is_known_by_its_uid() -> None:
    store = ObjectStore()
    for name in ("a", "b", "c"):
        store.put("replicasets", name, replica_set("1"))
    store.assume("replicasets", "a", "for p", "p")
    store.assume("replicasets", "b", "for p", "p")
    store.assume("replicasets", "c", "for q", "q")
    assert store.assumed_for("replicasets", "p") == {"a": "for p", "b": "for p"}
    store.assume("replicasets", "a", "for q", "q")
    assert store.assumed_for("replicasets", "p") == {"b": "for p"}, "the last assumption counts"
    store.remove("replicasets", "c")
    assert store.assumed_for("replicasets", "q") == {"a": "for q"}
    store.forget_assumed_for("replicasets", "q")
    assert not store.assumed_for("replicasets", "q")
    assert store.latest("replicasets", "b") == "for p"
    assert list(store.assumed("replicasets")) == ["b"]
