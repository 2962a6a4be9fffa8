"""Names and label values that nobody has any more do not stay for ever, and nothing else changes."""

import numpy as np
import pytest

from daemon.core import cached_nodes
from daemon.core.cache import Cache
from daemon.core.cluster_changes import LATE_S
from daemon.core.state import TIDY_S
from shared.columns.table import NodeTable
from shared.feature_gates import DEFAULT_GATES
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


@pytest.fixture(autouse=True)
def _little_waste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_nodes, "DICTIONARY_WASTE_MAX", 8)


def tainted(name: str, taint: str) -> list[dict[str, str]]:
    return [{"key": name, "value": taint, "effect": "NoSchedule"}]


def spoken(table: NodeTable) -> dict[str, tuple[object, ...]]:
    """What the ids of all nodes mean."""
    return {
        table.name_of(row): (
            row,
            table.row_of(table.name_of(row)),
            table.labels_of(row),
            table.taints.values[table.taints_id[row]],
            table.features.values[table.features_id[row]],
        )
        for row in table.present_rows().tolist()
    }


def test_the_columns_say_the_same_with_fewer_names() -> None:
    cache = Cache(DEFAULT_GATES)
    for i in range(40):
        labels = {HOST: f"n{i}", ZONE: f"z{i % 3}", "empty": ""}
        cache.add_node(make_node(f"n{i}", labels=labels, taints=tainted("k", f"v{i}")))
    for i in range(0, 40, 2):
        cache.remove_node(f"n{i}")
    cache.add_node(make_node("n1", labels={ZONE: "z9"}))
    table = cache.nodes
    before, topology = spoken(table), table.topology_version
    assert cache.compact_names()
    assert spoken(table) == before
    assert len(table.names) == 20
    assert len(table.taints) == 20, "none, and one for each node but n1, which has none"
    assert table.topology_version > topology
    assert not cache.compact_names()
    cache.add_node(make_node("new", labels={ZONE: "z1"}))
    assert table.labels_of(table.row_of("new")) == {HOST: "new", ZONE: "z1"}
    assert (
        table.find_value_id("z1") == table.labels[table.label_keys.find(ZONE), table.row_of("n7")]
    )


def test_values_are_dropped_where_the_nodes_stay() -> None:
    cache = Cache(DEFAULT_GATES)
    for turn in range(50):
        cache.add_node(make_node("n0", labels={"build": f"{turn}"}))
        cache.compact_names()
    assert len(cache.nodes.label_values) < 40
    assert cache.nodes.labels_of(0) == {HOST: "n0", "build": "49"}


def test_nothing_is_done_while_most_names_are_in_use() -> None:
    cache = Cache(DEFAULT_GATES)
    for i in range(100):
        cache.add_node(make_node(f"n{i}", labels={HOST: f"n{i}"}))
    for i in range(30):
        cache.remove_node(f"n{i}")
    ids = cache.nodes.name_id.copy()
    assert not cache.compact_names()
    assert np.array_equal(cache.nodes.name_id, ids)


@pytest.mark.parametrize("worker_count", [1, 2])
def test_scheduling_goes_on_while_nodes_come_and_go(worker_count: int) -> None:
    pipeline = Pipeline(worker_count)
    pipeline.sync([make_node(f"n{i}", labels={HOST: f"n{i}", ZONE: "z0"}) for i in range(4)], [])
    spread = {"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
         "labelSelector": {"matchLabels": {"app": "web"}}}
    ]}  # fmt: skip
    for turn in range(1, 30):
        pipeline.add_pod(make_pod(f"p{turn}", cpu="10m", labels={"app": "web"}, spec=spread))
        pipeline.step_owner()
        name, zone = f"n{turn + 3}", f"z{turn % 2}"
        pipeline.add_node(make_node(name, labels={HOST: name, ZONE: zone}))
        if turn > 20:
            pipeline.run_until_quiet()
        pipeline.step_scorer(0)
        if turn > 4:
            pipeline.remove_node(f"n{turn - 1}")
        pipeline.advance(TIDY_S / 4)
    pipeline.run_until_quiet()
    pipeline.check()
    nodes = pipeline.state.cache.nodes
    assert len(pipeline.bound) == 29
    assert all(len(places) == 1 for places in pipeline.bound.values())
    assert len(nodes.names) < 30, "of 33 nodes that there ever were"
    for scorer in pipeline.scorers.values():
        assert scorer.replica.is_whole
        assert spoken(scorer.replica.nodes) == spoken(nodes)
    reasons = [note.fields.get("reason") for note in pipeline.notes]
    assert "names compacted" in reasons


def test_a_copy_that_missed_the_whole_snapshot_notices() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node(f"n{i}") for i in range(3)], [])
    pipeline.run_until_quiet()
    replica = pipeline.scorers[0].replica
    for i in range(3, 20):
        pipeline.state.cache.add_node(make_node(f"n{i}"))
        pipeline.state.cache.remove_node(f"n{i}")
    pipeline.add_node(make_node("last"))
    pipeline.advance(TIDY_S)
    scorer = pipeline.scorers[0]
    wholes = [effect for effect in scorer.inbox if type(effect.message).__name__ == "SnapshotFull"]
    assert wholes
    for whole in wholes:
        scorer.inbox.remove(whole)
    pipeline.add_node(make_node("later"))
    pipeline.advance(LATE_S)
    pipeline.run_until_quiet()
    assert not replica.is_whole
