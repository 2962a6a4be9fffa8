"""The cache against a model that adds everything up anew, and every copy against the cache.

The model knows nodes, and pods with their node and whether they are assumed. After each step the
cache's columns equal the model's sums, and two copies - one brought up to date by each delta, one
made from a full snapshot - equal the cache.
"""

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from daemon.core.cache import Cache
from daemon.core.snapshot_log import SnapshotLog
from shared.columns.delta import apply_delta, decode_delta
from shared.columns.pod_table import PodTable
from shared.columns.schema import NodeColumns, UsageColumns, names_of
from shared.columns.table import NodeTable, rows_in_turn
from shared.feature_gates import DEFAULT_GATES
from shared.kube.pod_record import PodRecord
from tests.support.builders import make_node, make_pod

NODE_NAMES = [f"n{i}" for i in range(5)]
POD_NAMES = [f"p{i}" for i in range(6)]
SHAPES: list[dict[str, Any]] = [
    {"cpu": "100m", "memory": "1Gi"},
    {"cpu": None, "memory": None},
    {"cpu": "2", "memory": "64Mi", "host_port": 8080},
    {"cpu": "1", "memory": None, "claim": "data"},
    {"cpu": "0", "memory": "0", "host_port": 9090, "claim": "data"},
]
EXPECTED = [(100, 1 << 30), (0, 0), (2000, 64 << 20), (1000, 0), (0, 0)]
NONZERO = [(100, 1 << 30), (100, 200 << 20), (2000, 64 << 20), (1000, 200 << 20), (0, 0)]
PORTS: list[set[tuple[str, str, int]]] = [
    set(),
    set(),
    {("0.0.0.0", "TCP", 8080)},
    set(),
    {("0.0.0.0", "TCP", 9090)},
]


class ModelPod:
    def __init__(self, shape: int, node: str, *, assumed: bool) -> None:
        self.shape = shape
        self.node = node
        self.assumed = assumed
        self.binding_finished_s: float | None = None


class CacheMachine(RuleBasedStateMachine):
    """Random operations in any order that the API server and the owner could produce."""

    def __init__(self) -> None:
        super().__init__()
        self.ttl_s = 30.0
        self.cache = Cache(DEFAULT_GATES, assumed_pod_ttl_s=self.ttl_s)
        self.log = SnapshotLog(self.cache, epoch=1)
        self.copy, self.copy_pods = NodeTable(), PodTable()
        self.now_s = 0.0
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, ModelPod] = {}
        self.ports: dict[str, set[tuple[str, str, int]]] = {}
        """Node -> ports in use: as in kube-scheduler, whoever leaves takes its ports along."""

    # Nodes ---------------------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(NODE_NAMES),
        cpu=st.integers(0, 8),
        zone=st.sampled_from(["", "a", "b"]),
        tainted=st.booleans(),
    )
    def add_or_update_node(self, name: str, cpu: int, zone: str, tainted: bool) -> None:
        labels = {"topology.kubernetes.io/zone": zone} if zone else {}
        taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}] if tainted else []
        self.nodes[name] = {"cpu": cpu, "labels": labels, "taints": taints}
        self.cache.add_node(make_node(name, cpu=str(cpu), labels=labels, taints=taints))

    @rule(name=st.sampled_from(NODE_NAMES))
    def remove_node(self, name: str) -> None:
        removed = self.cache.remove_node(name)
        assert (removed is not None) == (name in self.nodes)
        self.nodes.pop(name, None)

    # Pods ----------------------------------------------------------------------------------------

    def comes(self, uid: str, pod: ModelPod) -> None:
        old = self.pods.get(uid)
        if old is not None and (old.shape, old.node) == (pod.shape, pod.node):
            self.pods[uid] = pod
            return  # Nothing that counts has changed.
        if old is not None:
            self.goes(uid)
        self.pods[uid] = pod
        self.ports.setdefault(pod.node, set()).update(PORTS[pod.shape])

    def goes(self, uid: str) -> None:
        pod = self.pods.pop(uid)
        self.ports[pod.node] -= PORTS[pod.shape]

    def record(self, name: str, shape: int, node: str = "") -> PodRecord:
        return make_pod(name, node_name=node, **SHAPES[shape])

    @rule(
        name=st.sampled_from(POD_NAMES),
        shape=st.integers(0, len(SHAPES) - 1),
        node=st.sampled_from(NODE_NAMES),
    )
    def assume(self, name: str, shape: int, node: str) -> None:
        record = self.record(name, shape)
        if record.uid in self.pods:
            return  # Assuming twice is a bug of the caller; see the unit tests.
        pod_class = self.cache.classes.acquire(record)
        self.cache.assume_pod(record, node, pod_class)
        self.cache.classes.release(pod_class)
        self.comes(record.uid, ModelPod(shape, node, assumed=True))

    @rule(
        name=st.sampled_from(POD_NAMES),
        shape=st.integers(0, len(SHAPES) - 1),
        node=st.sampled_from(NODE_NAMES),
    )
    def add_or_update(self, name: str, shape: int, node: str) -> None:
        record = self.record(name, shape, node)
        self.cache.add_pod(record)
        self.comes(record.uid, ModelPod(shape, node, assumed=False))

    @rule(name=st.sampled_from(POD_NAMES))
    def forget(self, name: str) -> None:
        uid = self.record(name, 0).uid
        held = self.pods.get(uid)
        forgotten = self.cache.forget_pod(uid)
        assert (forgotten is not None) == (held is not None and held.assumed)
        if forgotten is not None:
            self.goes(uid)

    @rule(name=st.sampled_from(POD_NAMES))
    def finish_binding(self, name: str) -> None:
        uid = self.record(name, 0).uid
        self.cache.finish_binding(uid, self.now_s)
        held = self.pods.get(uid)
        if held is not None and held.assumed:
            held.binding_finished_s = self.now_s

    @rule(name=st.sampled_from(POD_NAMES))
    def remove(self, name: str) -> None:
        uid = self.record(name, 0).uid
        removed = self.cache.remove_pod(uid)
        assert (removed is not None) == (uid in self.pods)
        if removed is not None:
            self.goes(uid)

    @rule(by_s=st.floats(0.0, 40.0))
    def time_passes(self, by_s: float) -> None:
        self.now_s += by_s
        due = {
            uid
            for uid, pod in self.pods.items()
            if pod.assumed
            and pod.binding_finished_s is not None
            and pod.binding_finished_s + self.ttl_s <= self.now_s
        }
        assert (self.cache.next_wakeup_s() <= self.now_s) == bool(due)
        expired = {pod.record.uid for pod in self.cache.cleanup_expired(self.now_s)}
        assert expired == due
        for uid in expired:
            self.goes(uid)

    # What must hold ------------------------------------------------------------------------------

    @invariant()
    def columns_are_the_models_sums(self) -> None:
        table = self.cache.nodes
        assert self.cache.node_count() == len(self.nodes)
        assert self.cache.pod_count() == len(self.pods)
        expected_names = set(self.nodes) | {pod.node for pod in self.pods.values()}
        assert {info.name for info in self.cache.node_infos()} == expected_names
        assert len({info.row for info in self.cache.node_infos()}) == len(expected_names)
        for name in expected_names:
            info = self.cache.node_info(name)
            assert info is not None
            row = info.row
            on_node = [pod for pod in self.pods.values() if pod.node == name]
            assert bool(table.present[row]) == (name in self.nodes)
            assert table.pod_count[row] == len(on_node)
            assert table.requested[0, row] == sum(EXPECTED[p.shape][0] for p in on_node)
            assert table.requested[1, row] == sum(EXPECTED[p.shape][1] for p in on_node)
            assert table.nonzero_cpu_milli[row] == sum(NONZERO[p.shape][0] for p in on_node)
            assert table.nonzero_memory_bytes[row] == sum(NONZERO[p.shape][1] for p in on_node)
            assert table.ports.values[int(table.ports_id[row])] == self.ports.get(name, set())
            claims = Counter("default/data" for p in on_node if "claim" in SHAPES[p.shape])
            assert info.pvc_refs == claims
            assert len(self.cache.pod_table.rows_on(row)) == len(on_node)
            if name in self.nodes:
                assert table.allocatable[0, row] == self.nodes[name]["cpu"] * 1000
                zone = self.nodes[name]["labels"].get("topology.kubernetes.io/zone")
                assert table.labels_of(row).get("topology.kubernetes.io/zone") == zone

    @invariant()
    def assumed_pods_are_the_models(self) -> None:
        assumed = {uid for uid, pod in self.pods.items() if pod.assumed}
        assert {pod.record.uid for pod in self.cache.assumed_pods()} == assumed
        for uid in self.pods:
            assert self.cache.is_assumed_pod(uid) == (uid in assumed)

    @invariant()
    def classes_live_as_long_as_their_pods(self) -> None:
        used = [each for each in self.cache.classes if each.pod_count]
        assert len(used) == len({pod.shape for pod in self.pods.values()})
        assert self.cache.classes.infos.keys() == {each.class_id for each in self.cache.classes}

    @precondition(lambda self: True)
    @rule()
    def publish(self) -> None:
        """A copy brought up to date by deltas equals one made from a full snapshot, and the cache."""
        snapshot = self.log.delta({}, next_ticket=1)
        if snapshot is not None:
            apply_delta(
                self.copy, self.copy_pods, decode_delta(snapshot.message.body), snapshot.buffers
            )
        full, buffers = self.log.full({}, next_ticket=1)
        fresh, fresh_pods = NodeTable(), PodTable()
        apply_delta(fresh, fresh_pods, decode_delta(full.body), buffers)
        rows = self.cache.nodes.named_rows()
        for pods in (self.copy_pods, fresh_pods):
            assert _pods_of(pods) == _pods_of(self.cache.pod_table)
        for copy in (self.copy, fresh):
            _assert_equal_rows(copy, self.cache.nodes, rows)
            present = self.cache.nodes.present_rows().tolist()
            assert copy.present_rows().tolist() == present
            for row in present:
                assert copy.row_of(self.cache.nodes.name_of(row)) == row
            assert sorted(copy.order.tolist()) == present
        nodes, rows = self.cache.nodes, self.cache.nodes.present_rows()
        assert self.copy.order.tolist() == nodes.order.tolist()
        # One that is made anew does not know where nodes stood before their zones changed.
        in_turn = rows_in_turn(rows, nodes.zone_number[rows], nodes.zone_place[rows])
        assert fresh.order.tolist() == in_turn.tolist()


def _pods_of(pods: PodTable) -> list[tuple[int, int, int, bool]]:
    return [
        (row, int(pods.class_id[row]), int(pods.node_row[row]), bool(pods.is_terminating[row]))
        for row in pods.used_rows().tolist()
    ]


def _assert_equal_rows(copy: NodeTable, table: NodeTable, rows: np.ndarray) -> None:
    for name in ("generation", *names_of(UsageColumns), *names_of(NodeColumns)):
        if name == "ports_id":
            continue
        left, right = getattr(copy, name)[rows], getattr(table, name)[rows]
        assert left.tolist() == right.tolist(), name
    count = len(table.resources)
    assert (copy.requested[:count, rows] == table.requested[:count, rows]).all()
    assert (copy.allocatable[:count, rows] == table.allocatable[:count, rows]).all()
    for row in rows.tolist():
        assert copy.labels_of(row) == table.labels_of(row)
        ports = copy.ports.values[int(copy.ports_id[row])]
        assert ports == table.ports.values[int(table.ports_id[row])]


CacheMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestCacheMachine = CacheMachine.TestCase
