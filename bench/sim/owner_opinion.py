"""Each decision of an owner held against the oracle's when it is made, on the state that it is for.

What it assumes, what it refuses, whom it has go, and which pods it takes for unchanged. A decision that
the oracle does not share is a finding. Workers' decisions: `second_opinion.py`.
"""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from bench.sim.draw import Json
from bench.sim.extender import is_asked_about
from bench.sim.gang_rules import Begun
from bench.sim.judged_orders import JudgedOrders
from bench.sim.oracle import OracleCluster, OraclePod, why_not
from bench.sim.schedule import SimulatedFailure, outspoken
from bench.sim.sim_processes import OwnerProcess
from bench.sim.slow_group_preemption import wrong_about
from bench.sim.slow_pods import PORTS, CannotTell
from bench.sim.states import States, waiting
from bench.sim.world import World
from daemon.core.cache import Cache
from daemon.core.cached_nodes import CachedPod
from daemon.core.pod_classes import PodClass
from shared.kube.pod_record import PodRecord
from shared.plugin_names import DYNAMIC_RESOURCES, VOLUME_BINDING


class OwnerOpinion:
    """Listens to the owners of one berth."""

    def __init__(
        self, world: World, orders: JudgedOrders, states: States, counts: Counter[str]
    ) -> None:
        self._world = world
        self._orders = orders
        self._states = states
        self._counts = counts
        self.begun = Begun()
        self.assumptions_count = 0
        self.let_go_s = {DYNAMIC_RESOURCES: -math.inf, VOLUME_BINDING: -math.inf}
        """By plugin: when a pod last lost devices, or volumes, that no claim says it has, on the owner's
        clock."""

    def listen_to(self, owner: OwnerProcess) -> None:
        """From its first turn on."""
        cache = owner.state.cache
        self._listen_to_assumptions(owner, cache)
        self._listen_to_confirmations(cache)
        self._listen_to_losses(owner, cache)
        self._listen_to_refusals(owner, cache)
        self._listen_to_evictions(owner, cache)

    # Assumptions ------------------------------------------------------------------------------------

    def _listen_to_assumptions(self, owner: OwnerProcess, cache: Any) -> None:
        assume_one, assume_many = cache.assume_pod, cache.assume_pods

        def assume_pod(record: PodRecord, node_name: str, pod_class: PodClass) -> None:
            self._check_assumption(owner, record, node_name)
            assume_one(record, node_name, pod_class)
            self.begun.assumed(cache, record)

        def assume_pods(
            records: list[PodRecord], rows: list[int], pod_class: PodClass
        ) -> list[str]:
            names: list[str] = [cache.nodes.name_of(row) for row in rows]
            for record, name in zip(records, names, strict=True):
                self._check_assumption(owner, record, name)
            cache.assume_pod = assume_one  # What it calls itself.
            names = assume_many(records, rows, pod_class)
            cache.assume_pod = assume_pod
            for record in records:
                self.begun.assumed(cache, record)
            return names

        cache.assume_pod, cache.assume_pods = assume_pod, assume_pods

    @outspoken
    def _check_assumption(self, owner: OwnerProcess, record: PodRecord, node_name: str) -> None:
        self.assumptions_count += 1
        self._world.simulation.tell(f"    owner assumes {record.key} on {node_name}")
        ticket, meant = self._orders.meant_for.pop(record.uid, (0, node_name))
        queued = owner.state.queue.get(record.uid)
        # What was refused may be placed by foresight in a later attempt, which nobody proposed.
        if queued is not None and queued.ticket == ticket and meant != node_name:
            raise SimulatedFailure("other node", f"{record.key} on {node_name}, not on {meant}")
        cluster = self._states.held_by(owner.epoch, owner.state.cache, record.uid)
        pod = waiting(record)
        node = cluster.node(node_name)
        if node is None:
            raise SimulatedFailure("assumption", f"{record.key} on {node_name}, which is not there")
        try:
            problem = why_not(pod, node, cluster)
        except CannotTell:
            self._counts["untold"] += 1
            return
        is_spoilt = self._world.may_be_spoilt(node_name)
        if problem is not None and not (problem.plugin == PORTS and is_spoilt):
            # Host ports may be shared by somebody else's doing; the first pod to leave frees one.
            raise SimulatedFailure("assumption", f"{record.key} on {node_name}: {problem}")

    # Confirmations ----------------------------------------------------------------------------------

    def _listen_to_confirmations(self, cache: Any) -> None:
        add = cache.add_pod

        def add_pod(record: PodRecord) -> CachedPod:
            held, generation = cache.get_pod(record.uid), cache.generation
            before = None if held is None else shown_of(held)
            pod: CachedPod = add(record)
            if cache.generation == generation and shown_of(pod) != before:
                raise SimulatedFailure("confirmed", f"{record.key} was confirmed, but has changed")
            return pod

        cache.add_pod = add_pod

    # Losses -----------------------------------------------------------------------------------------

    def _listen_to_losses(self, owner: OwnerProcess, cache: Any) -> None:
        def losing(lose: Callable[[str], CachedPod | None]) -> Callable[[str], CachedPod | None]:
            def lost(uid: str) -> CachedPod | None:
                was_assumed = cache.is_assumed_pod(uid)
                gone = lose(uid)
                if gone is not None and was_assumed:
                    spec = waiting(gone.record).spec
                    if self._has_unwritten_devices(uid, spec):
                        self.let_go_s[DYNAMIC_RESOURCES] = owner.clock.monotonic_s()
                    if self._has_unbound_claims(gone.record, spec):
                        self.let_go_s[VOLUME_BINDING] = owner.clock.monotonic_s()
                return gone

            return lost

        cache.forget_pod = losing(cache.forget_pod)
        cache.remove_pod = losing(cache.remove_pod)

    def _has_unwritten_devices(self, uid: str, spec: Json) -> bool:
        """Whether the pod asks for devices, and no claim has been written for it."""
        return asks_for_devices(spec) and not any(
            holder["uid"] == uid
            for claim in self._world.kind("resourceclaims")
            for holder in (claim.get("status") or {}).get("reservedFor") or ()
        )

    def _has_unbound_claims(self, record: PodRecord, spec: Json) -> bool:
        """Whether a volume of the pod is of a claim that is bound to none."""
        names = {
            f"{record.name}-{v['name']}" for v in spec.get("volumes") or () if "ephemeral" in v
        }
        named = [v.get("persistentVolumeClaim") for v in spec.get("volumes") or ()]
        names |= {each["claimName"] for each in named if each}
        return bool(names) and any(
            claim["metadata"]["name"] in names and not claim["spec"].get("volumeName")
            for claim in self._world.kind("persistentvolumeclaims")
            if claim["metadata"]["namespace"] == record.namespace
        )

    # Refusals ---------------------------------------------------------------------------------------

    def _listen_to_refusals(self, owner: OwnerProcess, cache: Cache) -> None:
        checker: Any = owner.state.checker  # To listen.
        passing = checker.passing

        def passes(class_id: int, info: Any, rows: Any, own_uid: str = "") -> Any:
            ok = passing(class_id, info, rows, own_uid)
            for row, is_ok in zip(rows.tolist(), ok.tolist(), strict=True):
                if not is_ok:
                    self._check_refusal(owner, class_id, cache.nodes.name_of(row), own_uid)
            return ok

        checker.passing = passes

    @outspoken
    def _check_refusal(
        self, owner: OwnerProcess, class_id: int, node_name: str, own_uid: str
    ) -> None:
        """What the owner does not let pass does not fit."""
        self._counts["refusals"] += 1
        cluster = self._states.held_by(owner.epoch, owner.state.cache)
        pod = self._states.of_class(owner.epoch, class_id, own_uid)
        node = cluster.node(node_name)
        if node is None or self._world.may_be_spoilt(node_name):
            return
        try:
            problem = why_not(pod, node, cluster)
        except CannotTell:
            self._counts["untold"] += 1
            return
        if problem is None:
            told = f"a pod of class {class_id} fits on {node_name}"
            raise SimulatedFailure("refused though it fits", told)

    # Evictions --------------------------------------------------------------------------------------

    def _listen_to_evictions(self, owner: OwnerProcess, cache: Cache) -> None:
        preemptions: Any = owner.state.preemptions
        commit = preemptions.commit

        def committed(answer: Any, attempt: Any, proposal: Any, placed: Any) -> int | None:
            mates = [waiting(mate.record, cache.nodes.name_of(row)) for mate, row in placed or ()]
            cluster = self._states.held_by(owner.epoch, cache).beside(mates)
            count: int | None = commit(answer, attempt, proposal, placed)
            if count is not None:
                self._check_evictions(cache, cluster, attempt, proposal)
                self._orders.decided(attempt.record.uid, cache, mates)
            return count

        preemptions.commit = committed
        self._listen_to_group_evictions(owner, cache)

    def _listen_to_group_evictions(self, owner: OwnerProcess, cache: Cache) -> None:
        preemptions: Any = owner.state.preemptions
        commit = preemptions.commit_group

        def committed(
            answer: Any, first: Any, group: Any, priority: int, placed: Any, victims: Any
        ) -> int | None:
            cluster = self._states.held_by(owner.epoch, cache)
            count: int | None = commit(answer, first, group, priority, placed, victims)
            if count is not None:
                pods = [waiting(mate.record, cache.nodes.name_of(row)) for mate, row in placed]
                self._check_group_victims(group.metadata.key, victims, pods, cache, cluster)
            return count

        preemptions.commit_group = committed

    @outspoken
    def _check_group_victims(
        self,
        key: str,
        rows: list[int],
        placed: list[OraclePod],
        cache: Cache,
        cluster: OracleCluster,
    ) -> None:
        """Whoever goes for a group matters less, and makes room for it, as things are now."""
        uid_of = {held.row: held.record.uid for held in cache.pods()}
        uids = {uid_of[row] for row in rows}
        self._counts["evictions"] += len(uids)
        if any(self._world.may_be_spoilt(node.name) for node in cluster.nodes):
            return
        priority = cluster.told["podgroups"][key]["spec"].get("priority") or 0
        try:
            wrong = wrong_about(uids, placed, priority, cluster)
        except CannotTell:
            self._counts["untold"] += 1
            return
        if wrong:
            raise SimulatedFailure("eviction in vain", f"{len(uids)} pods go for {key}: {wrong}")

    @outspoken
    def _check_evictions(
        self, cache: Cache, cluster: OracleCluster, attempt: Any, proposal: Any
    ) -> None:
        """Whoever goes has to, as things are now, and with those of its group on their nodes that were
        placed before it (`podGroupSchedulingDefaultAlgorithm` in pkg/scheduler/schedule_one_podgroup.go,
        v1.36.2). Where extenders were asked the worker's search is the last word on who has to
        (`extended_opinion.py`), and they only on who may."""
        node = cluster.node(cache.nodes.name_of(proposal.node_row))
        assert node is not None, "the owner looked"
        pod = waiting(attempt.record)
        rows = {held.row: held.record.uid for held in cache.pods()}
        uids = {rows[row] for row in proposal.victims}
        gone = [other for other in cluster.on(node) if other.uid in uids]
        self._counts["evictions"] += len(gone)
        if self._world.may_be_spoilt(node.name):
            return
        try:
            problem = why_not(pod, node, cluster.without(gone), cluster)
            needless = [
                other.name
                for other in (() if is_asked_about(pod.spec) else gone)
                if why_not(pod, node, cluster.without(set(gone) - {other}), cluster) is None
            ]
        except CannotTell:
            self._counts["untold"] += 1
            return
        if problem is not None:
            told = f"{len(gone)} pods go from {node.name} for {pod.name}: {problem}"
            raise SimulatedFailure("eviction in vain", told)
        if needless:
            told = f"{needless} need not go from {node.name} for {pod.name}"
            raise SimulatedFailure("eviction not needed", told)


def asks_for_devices(spec: Json) -> bool:
    """By claims, or by resources that devices may provide."""
    return bool(spec.get("resourceClaims")) or any(
        "/" in name
        for container in spec["containers"]
        for name in (container.get("resources") or {}).get("requests") or ()
    )


def shown_of(pod: CachedPod) -> tuple[object, ...]:
    """What the columns of pods show of one, beside its node."""
    record = pod.record
    return pod.pod_class.class_id, record.deleted, record.started, record.is_preempted
