"""The whole pipeline in one process, under any order of messages, losses and deaths.

Safety after every step: no node holds more than it has, cache and queue do not contradict one
another, nothing is bound that was not assumed, no pod is bound to two nodes. Liveness: an answer that
was found on the newest state settles a pod (`Pipeline.step_owner`), so that all comes to rest; when it
has, no waiting pod fits anywhere.
"""

from typing import Any

import msgspec
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from daemon.core.suspects import PARKED
from shared.framework.runtime.diagnosis import diagnose, filter_candidates
from shared.framework.runtime.prepared_pod import prepared
from shared.kube.pod_record import PodRecord
from shared.messages.to_owner import AdapterBatch, PodChanged
from shared.transport.heard import Said
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import ADAPTER, EPOCH, Pipeline

WORKERS = 2
SHAPES = [
    {"cpu": "500m", "memory": "1Gi"},
    {"cpu": "1", "memory": None},
    {"cpu": "2", "memory": "64Mi", "host_port": 8080},
    {"cpu": "3", "memory": "4Gi", "spec": {"nodeSelector": {"disk": "ssd"}}},
]


class PipelineMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pipeline = Pipeline(worker_count=WORKERS)
        self.pipeline.sync([make_node("n0"), make_node("n1", labels={"disk": "ssd"})], [])
        self.alive: dict[str, PodRecord] = {}
        self.number = 0
        self.seen_bound: set[str] = set()

    # The cluster changes -------------------------------------------------------------------------

    @rule(
        shape=st.sampled_from(SHAPES),
        priority=st.integers(0, 2),
        count=st.integers(1, 4),
        is_unique=st.booleans(),
    )
    def create_pods(
        self, shape: dict[str, Any], priority: int, count: int, is_unique: bool
    ) -> None:
        for _ in range(count):
            self.number += 1
            labels = {"job": f"{self.number}"} if is_unique else {}
            pod = make_pod(f"p{self.number}", priority=priority, labels=labels, **shape)
            self.alive[pod.uid] = pod
            self.pipeline.add_pod(pod)

    @rule(pick=st.integers(0, 1 << 30))
    def delete_pod(self, pick: int) -> None:
        if self.alive:
            uid = sorted(self.alive)[pick % len(self.alive)]
            self.pipeline.delete_pod(self.alive.pop(uid))
            # The API server would refuse the orders that are still out for it.
            self.pipeline.bound.pop(uid, None)

    @rule(index=st.integers(0, 4), cpu=st.integers(1, 6), ssd=st.booleans())
    def node_changes(self, index: int, cpu: int, ssd: bool) -> None:
        info = self.pipeline.state.cache.node_info(f"n{index}")
        if info is not None and info.node is not None:
            cpu = 6  # A node that shrinks under its pods is overcommitted by its owner, not by us.
        labels = {"disk": "ssd"} if ssd else {}
        self.pipeline.add_node(make_node(f"n{index}", cpu=str(cpu), labels=labels))

    @rule(index=st.integers(0, 4))
    def node_goes(self, index: int) -> None:
        info = self.pipeline.state.cache.node_info(f"n{index}")
        if info is not None and info.pods:
            return  # Its pods would be somebody else's to delete.
        self.pipeline.remove_node(f"n{index}")

    # Messages move -------------------------------------------------------------------------------

    @rule()
    def owner_reads(self) -> None:
        self.pipeline.step_owner()

    @rule(index=st.integers(0, WORKERS - 1))
    def scorer_steps(self, index: int) -> None:
        self.pipeline.step_scorer(index)

    @rule(index=st.integers(0, WORKERS - 1), count=st.sampled_from((1, 2, 8)))
    def scorer_looks_ahead(self, index: int, count: int) -> None:
        self.pipeline.foresee(index, count)

    @rule(fails=st.booleans())
    def binder_answers(self, fails: bool) -> None:
        order = self.pipeline.orders[0] if self.pipeline.orders else None
        if order is None:
            return
        assert (
            self.pipeline.state.cache.get_pod(order.uid) is not None or order.uid not in self.alive
        )
        self.pipeline.step_binder(fails=fails or order.uid not in self.alive)

    @rule(fails=st.booleans())
    def victim_goes(self, fails: bool) -> None:
        self.pipeline.step_victim(fails=fails)
        for uid in self.pipeline.evicted:
            self.alive.pop(uid, None)

    @rule()
    def victim_lingers(self) -> None:
        """It is told to go, and takes its time."""
        if self.pipeline.victims and self.pipeline.victims[0].uid in self.alive:
            uid = self.pipeline.victims[0].uid
            marked = msgspec.structs.replace(
                self.alive[uid], deleted="2026-01-01T00:00:00Z", is_preempted=True
            )
            self.alive[uid] = marked
            self.pipeline.step_victim(lingers=True)

    @rule(pick=st.integers(0, 1 << 30))
    def lingering_victim_goes(self, pick: int) -> None:
        lingering = sorted(uid for uid, pod in self.alive.items() if pod.deleted)
        if lingering:
            uid = lingering[pick % len(lingering)]
            self.pipeline.delete_pod(self.alive.pop(uid))
            self.pipeline.bound.pop(uid, None)

    @rule()
    def watch_shows_a_binding(self) -> None:
        for uid, nodes in self.pipeline.bound.items():
            if uid in self.seen_bound or uid not in self.alive:
                continue
            pod = self.alive[uid]
            bound = PodRecord(
                **{f: getattr(pod, f) for f in pod.__struct_fields__} | {"node_name": nodes[0]}
            )
            self.seen_bound.add(uid)
            self.pipeline.handle(Said(ADAPTER, AdapterBatch(EPOCH, [PodChanged(bound)])))
            return

    @rule(index=st.integers(0, WORKERS - 1))
    def scorer_dies(self, index: int) -> None:
        self.pipeline.start_scorer(index)

    @rule(by_s=st.floats(0.1, 20.0))
    def time_passes(self, by_s: float) -> None:
        self.pipeline.advance(by_s)

    # What must hold ------------------------------------------------------------------------------

    @invariant()
    def nothing_contradicts(self) -> None:
        self.pipeline.check()
        for uid, nodes in self.pipeline.bound.items():
            assert len(nodes) == 1, f"{uid} bound to {nodes}"

    @invariant()
    def no_node_holds_more_than_it_has(self) -> None:
        nodes = self.pipeline.state.cache.nodes
        rows = nodes.present_rows()
        assert (nodes.requested[:, rows] <= nodes.allocatable[:, rows]).all()
        for info in self.pipeline.state.cache.node_infos():
            wanted = [port for pod in info.pods.values() for port in pod.pod_class.usage.ports]
            assert len(wanted) == len(set(wanted))

    def teardown(self) -> None:
        """Everything comes to rest; what still waits then fits nowhere."""
        pipeline = self.pipeline
        for uid in [uid for uid, pod in self.alive.items() if pod.deleted]:
            pipeline.delete_pod(self.alive.pop(uid))
            pipeline.bound.pop(uid, None)
        for _ in range(4):
            pipeline.run_until_quiet()
            pipeline.advance(15.0)
        pipeline.run_until_quiet()
        self.nothing_contradicts()
        for uid in pipeline.evicted:
            self.alive.pop(uid, None)
        state = pipeline.state
        framework = pipeline.frameworks["default-scheduler"]
        for queued in state.queue:
            if queued.gated_by == PARKED:
                continue  # Two scorers died with it in hand.
            pod = prepared(framework, queued.info, state.cache.view)
            error = diagnose(pod, filter_candidates(pod))
            assert sum(error.reasons.values()) >= error.node_count, f"{queued.key} would fit"
        placed = {pod.record.uid for pod in state.cache.pods()}
        assert placed | {pod.record.uid for pod in state.queue} == set(self.alive)
        for scorer in pipeline.scorers.values():
            rows = state.cache.nodes.present_rows()
            count = len(state.cache.nodes.resources)
            assert np.array_equal(
                scorer.replica.nodes.requested[:count, rows],
                state.cache.nodes.requested[:count, rows],
            )


PipelineMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=60)
TestPipelineMachine = PipelineMachine.TestCase
