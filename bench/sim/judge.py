"""What must hold after each step of a run, and what must have come of it in the end.

Everything here looks at real state and changes none. A broken rule is a `SimulatedFailure`, whose kind
stays the same while a story is made shorter.
"""

from collections import Counter
from typing import Any, Final, NamedTuple

from bench.apiserver.store import Table
from bench.sim.berth import Berth
from bench.sim.copies import differences
from bench.sim.draw import Json
from bench.sim.gang_rules import Begun, is_in_group, judge_groups
from bench.sim.leaks import holders
from bench.sim.links import PeerEnd
from bench.sim.oracle import (
    AFFINITY,
    SPREAD,
    OracleCluster,
    OraclePod,
    cluster_of,
    may_be_the_first,
    overcommitted,
    pod_of,
    where_it_fits,
    why_not,
)
from bench.sim.permit import GROUP
from bench.sim.poison import is_poison
from bench.sim.schedule import Process, SimulatedFailure
from bench.sim.second_opinion import ScorerOpinion
from bench.sim.sim_processes import OwnerProcess, ScorerProcess
from bench.sim.slow_pods import PORTS
from bench.sim.slow_preemption import candidates
from bench.sim.slow_storage import CannotTell
from bench.sim.states import OTHER_KINDS, States, waiting
from bench.sim.world import World
from daemon.core.cache import Cache
from daemon.core.invariants import problems
from daemon.core.pod_classes import PodClass
from daemon.core.pod_lifecycle import CachedPod
from daemon.core.queue.queued_pod import Place, QueuedPod
from shared.kube.pod_record import PodRecord
from shared.messages.from_scorer import Proposals
from shared.messages.to_binder import BindPods, PreemptPods
from shared.messages.to_scorer import SnapshotDelta, SnapshotFull
from shared.plugin_names import (
    DYNAMIC_RESOURCES,
    INTER_POD_AFFINITY,
    NODE_VOLUME_LIMITS,
    VOLUME_RESTRICTIONS,
)
from shared.telemetry.metrics import Count
from shared.transport.owner_sockets import Received

REFUSALS_MAX: Final = 64
"""In a row, with nothing assumed between them and nothing changed in the cluster. Each refusal is due to
something that is settled by then, so they become fewer; the most that was seen is two."""


class Ledger(NamedTuple):
    """What became of a pod, as the API server has it."""

    key: str
    node: str


class Judge:
    """Looks after every event."""

    def __init__(self, world: World, berth: Berth) -> None:
        self._world = world
        self._berth = berth
        self._table: Table = world.server.cluster.pods
        self._next_sequence = self._table.next_sequence
        self._bound: dict[str, Ledger] = {}
        self.assumptions_count = 0
        self._meant: dict[tuple[bytes, int], list[str]] = {}
        """(worker, number of its proposals) -> the nodes that it meant, in order."""
        self._meant_for: dict[str, str] = {}
        """Uid -> the node that the proposal in hand means for it."""
        self._was_told = False
        """The owner has read something since it was last looked at."""
        self._ready: tuple[object, ...] = ()
        self._last_order: dict[bytes, int] = {}
        self.counts: Counter[str] = Counter()
        """How many decisions of which kind were judged."""
        self._begun = Begun()
        self._moved = (0, 0)
        """Assumptions and evictions that there were when somebody last asked for rest, without those of
        pods that wait on Permit: one that a group has give its place up comes back for it, each time
        after a back-off (`Preempt` in framework/runtime/waiting_pods_map.go, v1.36.2)."""
        self._evictions_count = 0
        self._permit_count = 0
        """Of all assumptions, those of pods that may have to wait on Permit."""
        self._devices_on_permit = False
        """Some of these had claims: if it gives its place up, nobody is told, as no claim was written
        yet, and pods that go wake nobody for DynamicResources (`Unreserve` and `EventsToRegister` in
        framework/plugins/dynamicresources/dynamicresources.go, v1.36.2)."""
        self._states = States()
        berth.on_start = self._begins
        self._last_progress: tuple[int, int, int] | None = None
        """Epoch, version of the API server's objects, pods assumed."""
        self._refused_before = 0
        self._compared: dict[str, tuple[int, int, int]] = {}
        """Scorer -> what of its copy was held against the owner's last."""
        berth.links.on_message = self._hear
        berth.links.on_snapshot = self._note_snapshot
        berth.links.on_read = self._read

    @property
    def _owner(self) -> OwnerProcess | None:
        return self._berth.owner

    @property
    def leads(self) -> bool:
        """Whether this berth is the one that schedules."""
        return self._berth.may_write

    @property
    def bound_count(self) -> int:
        return len(self._bound)

    # After each event -------------------------------------------------------------------------------

    def look(self, process: Process) -> None:
        """After a turn of any process."""
        for kind, detail in self._world.broken_rules:
            raise SimulatedFailure(kind, detail)
        if self._table.next_sequence != self._next_sequence:
            self._read_changes()
        if not process.is_alive or self._berth.processes.get(process.role) is not process:
            return
        if isinstance(process, OwnerProcess):
            self._look_at_owner(process)
        elif isinstance(process, ScorerProcess):
            self._look_at_copy(process)

    def _begins(self, process: Process) -> None:
        if isinstance(process, OwnerProcess):
            self._overhear(process)
        elif isinstance(process, ScorerProcess):
            ScorerOpinion(process, self._states, self._count, self._is_spoilt)

    def _count(self, kind: str) -> None:
        self.counts[kind] += 1

    def _is_spoilt(self, node_name: str) -> bool:
        return node_name in self._world.spoilt_nodes or self._world.was_restored

    def _note_snapshot(self, message: SnapshotDelta | SnapshotFull) -> None:
        owner = self._berth.owner
        assert owner is not None, "only an owner publishes"
        cache = owner.state.cache
        self._states.note_published(owner.epoch, message.sequence, message.generation, cache)

    def _read_changes(self) -> None:
        """Each pod is bound once, whoever asked for it."""
        table = self._table
        for sequence in range(max(self._next_sequence, table.first_sequence), table.next_sequence):
            now = table.change_at(sequence).now
            if now is None or now.fields is None or not now.fields.get("spec.nodeName"):
                continue
            bound = Ledger(now.key, now.fields["spec.nodeName"])
            before = self._bound.setdefault(now.uid, bound)
            if before != bound and not self._world.was_restored:
                raise SimulatedFailure("bound twice", f"{bound.key} to {before.node}, {bound.node}")
        self._next_sequence = table.next_sequence

    def _look_at_owner(self, owner: OwnerProcess) -> None:
        state = owner.state
        if self._was_told:  # What only time brings about shows after the next message.
            self._was_told = False
            for problem in problems(state.cache, state.queue):
                raise SimulatedFailure("contradiction", problem)
        self._begun.check(state.cache)
        refused_count = (
            state.counters[Count.PROPOSALS_REJECTED] + state.counters[Count.PREEMPTIONS_REJECTED]
        )
        now = (owner.epoch, self._world.server.cluster.store.version, self.assumptions_count)
        if now != self._last_progress:
            self._last_progress, self._refused_before = now, refused_count
        elif refused_count > self._refused_before + REFUSALS_MAX:
            told = f"{refused_count - self._refused_before} answers were refused"
            raise SimulatedFailure("livelock", f"{told} while nothing came of any")

    # Copies -----------------------------------------------------------------------------------------

    def _look_at_copy(self, scorer: ScorerProcess) -> None:
        """A copy that has every delta is equal to the owner's columns."""
        owner, replica = self._owner, scorer.loop.replica
        if owner is None or not replica.is_settled or not self._has_all(scorer, owner):
            return
        state = owner.state
        compared = (replica.epoch, replica.sequence, replica.generation)
        if self._compared.get(scorer.name) == compared:
            return
        self._compared[scorer.name] = compared
        for difference in differences(state.cache, replica):
            raise SimulatedFailure("copy", f"{scorer.name}: {difference} is not the owner's")
        mine = sorted(state.cache.view.nominations.all())
        if mine != sorted(replica.view.nominations.all()):
            raise SimulatedFailure("copy", f"{scorer.name}: nominations are not the owner's")

    def _has_all(self, scorer: ScorerProcess, owner: OwnerProcess) -> bool:
        """Nothing is to be told to the worker."""
        state, replica = owner.state, scorer.loop.replica
        known = state.scorers.get(scorer.sockets.identity)
        return (
            replica.is_whole
            and replica.epoch == owner.epoch
            and known is not None
            and known.is_ready  # Deltas that nobody listens to have no numbers of their own.
            and replica.sequence == state.snapshots.sequence
            and state.snapshots.is_current(state.scorers.settled())
        )

    # Every assumption -------------------------------------------------------------------------------

    def _overhear(self, owner: OwnerProcess) -> None:
        """Has every assumption of an owner judged before it is made."""
        cache = owner.state.cache
        assume_one, assume_many = cache.assume_pod, cache.assume_pods

        def assume_pod(record: PodRecord, node_name: str, pod_class: PodClass) -> None:
            self._check_assumption(cache, record, node_name)
            assume_one(record, node_name, pod_class)
            self._begun.assumed(cache, record)

        def assume_pods(
            records: list[PodRecord], rows: list[int], pod_class: PodClass
        ) -> list[str]:
            names = [cache.nodes.name_of(row) for row in rows]
            for record, name in zip(records, names, strict=True):
                self._check_assumption(cache, record, name)
            cache.assume_pod = assume_one  # type: ignore[method-assign] # What it calls itself.
            names = assume_many(records, rows, pod_class)
            cache.assume_pod = assume_pod  # type: ignore[method-assign] # To listen.
            for record in records:
                self._begun.assumed(cache, record)
            return names

        checker: Any = owner.state._facts.checker  # noqa: SLF001 # To listen.
        passing, commit = checker.passing, owner.state.nominations.commit

        def passes(class_id: int, info: Any, profile: str, rows: Any, own_uid: str = "") -> Any:
            ok = passing(class_id, info, profile, rows, own_uid)
            for row, is_ok in zip(rows.tolist(), ok.tolist(), strict=True):
                if not is_ok:
                    self._check_refusal(owner, class_id, cache.nodes.name_of(row), own_uid)
            return ok

        def commit_preemption(attempt: Any, proposal: Any, *rest: Any, **named: Any) -> int | None:
            cluster = self._states.held_by(owner.epoch, cache)
            count = commit(attempt, proposal, *rest, **named)
            if count is not None:
                self._check_evictions(cache, cluster, attempt, proposal)
            return count

        confirm = cache.confirm_pod

        def confirm_pod(record: PodRecord) -> CachedPod | None:
            held = cache.get_pod(record.uid)
            before = None if held is None else shown_of(held.record)
            confirmed = confirm(record)
            if confirmed is not None and shown_of(record) != before:
                raise SimulatedFailure("short way", f"{record.key} was confirmed, but has changed")
            return confirmed

        cache.confirm_pod = confirm_pod  # type: ignore[method-assign] # To listen.
        checker.passing = passes
        owner.state.nominations.commit = commit_preemption  # type: ignore[method-assign] # The same.
        cache.assume_pod = assume_pod  # type: ignore[method-assign] # To listen, and no more.
        cache.assume_pods = assume_pods  # type: ignore[method-assign] # To listen.

    def _check_assumption(self, cache: Cache, record: PodRecord, node_name: str) -> None:
        self.assumptions_count += 1
        self._world.simulation.tell(f"    owner assumes {record.key} on {node_name}")
        meant = self._meant_for.pop(record.uid, node_name)
        if meant != node_name:
            raise SimulatedFailure("other node", f"{record.key} on {node_name}, not on {meant}")
        assert self._owner is not None, "an owner assumes"
        cluster, pod = self._states.held_by(self._owner.epoch, cache), waiting(record)
        if GROUP in pod.labels:
            self._permit_count += 1
            self._devices_on_permit |= bool(pod.spec.get("resourceClaims"))
        node = cluster.node(node_name)
        if node is None:
            raise SimulatedFailure("assumption", f"{record.key} on {node_name}, which is not there")
        try:
            problem = why_not(pod, node, cluster)
        except CannotTell:
            self.counts["untold"] += 1
            return
        if problem is not None and not (problem.plugin == PORTS and self._is_spoilt(node_name)):
            # Host ports may be shared by somebody else's doing; the first pod to leave frees one.
            raise SimulatedFailure("assumption", f"{record.key} on {node_name}: {problem}")

    def _check_refusal(
        self, owner: OwnerProcess, class_id: int, node_name: str, own_uid: str
    ) -> None:
        """What the owner does not let pass does not fit."""
        self.counts["refusals"] += 1
        cluster = self._states.held_by(owner.epoch, owner.state.cache)
        pod = self._states.of_class(owner.epoch, class_id, own_uid)
        node = cluster.node(node_name)
        if node is None or self._is_spoilt(node_name):
            return
        try:
            problem = why_not(pod, node, cluster)
        except CannotTell:
            self.counts["untold"] += 1
            return
        if problem is None:
            told = f"a pod of class {class_id} fits on {node_name}"
            raise SimulatedFailure("refused though it fits", told)

    def _check_evictions(
        self, cache: Cache, cluster: OracleCluster, attempt: Any, proposal: Any
    ) -> None:
        """Whoever goes has to, as things are now."""
        node = cluster.node(cache.nodes.name_of(proposal.node_row))
        assert node is not None, "the owner looked"
        pod = waiting(attempt.pod.record)
        rows = {held.row: held.record.uid for held in cache.pods()}
        uids = {rows[row] for row in proposal.victims}
        gone = [other for other in cluster.on(node) if other.uid in uids]
        self.counts["evictions"] += len(gone)
        if self._is_spoilt(node.name):
            return
        try:
            problem = why_not(pod, node, cluster.without(gone), cluster)
            needless = [
                other.name
                for other in gone
                if why_not(pod, node, cluster.without(set(gone) - {other}), cluster) is None
            ]
        except CannotTell:
            self.counts["untold"] += 1
            return
        if problem is not None:
            told = f"{len(gone)} pods go from {node.name} for {pod.name}: {problem}"
            raise SimulatedFailure("eviction in vain", told)
        if needless:
            told = f"{needless} need not go from {node.name} for {pod.name}"
            raise SimulatedFailure("eviction not needed", told)

    def _owner_queue_record(self, uid: str) -> PodRecord | None:
        owner = self._berth.owner
        queued = None if owner is None else owner.state.queue.get(uid)
        return None if queued is None else queued.record

    # Messages ---------------------------------------------------------------------------------------

    def _hear(self, end: PeerEnd, message: object) -> None:
        """What is sent."""
        if isinstance(message, Proposals) and isinstance(end.process, ScorerProcess):
            nodes = end.process.loop.replica.nodes
            names = [nodes.name_of(row) for row in message.placements.node_rows]
            self._meant[end.identity, message.proposal_sequence] = names
        elif isinstance(message, PreemptPods) and self._owner is not None:
            self._evictions_count += sum(not each.is_given_up for each in message.victims)
            self._judge_evictions(self._owner.state.cache, message)
        elif isinstance(message, BindPods) and self._owner is not None:
            binders = self._owner.state.binders
            ready = (self._owner.epoch, *binders.peers(), binders.ready_count())
            if ready != self._ready:  # What waits is spread anew.
                self._ready, self._last_order = ready, {}
            for order in binders.given(order.ticket for order in message.orders):
                if order.bind.look_first:
                    continue
                if order.number <= self._last_order.get(end.identity, 0):
                    told = f"{order.record.key} after pods that were assumed later"
                    raise SimulatedFailure("order of bindings", told)
                self._last_order[end.identity] = order.number

    def _judge_evictions(self, cache: Cache, message: PreemptPods) -> None:
        """Once all that was to go from the node is gone, the pod that needs the room has it."""
        for order in message.victims:
            queued = self._owner_queue_record(order.preemptor_uid)
            victim = cache.get_pod(order.uid)
            cluster = self._states.held_by(message.epoch, cache)
            node = cluster.node(order.node_name)
            if queued is None or node is None or victim is None:
                continue  # It is gone already, or has changed its mind.
            preemptor = waiting(queued)
            there = cluster.on(node)
            if any(other.priority > preemptor.priority for other in there):
                continue  # One that matters more may have come since.
            gone = [
                other
                for other in there
                if (held := cache.get_pod(other.uid)) and (held.is_evicted or held.record.deleted)
            ]
            try:
                problem = why_not(preemptor, node, cluster.without(gone), cluster)
            except CannotTell:
                self.counts["untold"] += 1
                continue
            if problem is None or problem.plugin in (SPREAD, AFFINITY, VOLUME_RESTRICTIONS):
                continue  # Whoever has come to another node since then counts, too, or has its claim.
            if node.name not in self._world.spoilt_nodes:
                told = f"{order.namespace}/{order.name} goes from {node.name} for"
                raise SimulatedFailure("eviction in vain", f"{told} {queued.key}: {problem}")

    def _read(self, received: Received) -> None:
        """What the owner is about to act on."""
        self._was_told = True
        owner, message = self._owner, received.message
        if owner is None or not isinstance(message, Proposals) or message.epoch != owner.epoch:
            return
        scorer = owner.state.scorers.get(received.peer)
        names = self._meant.pop((received.peer, message.proposal_sequence), [])
        if scorer is None:
            return
        for ticket, name in zip(message.placements.tickets, names, strict=True):
            attempt = scorer.attempts.get(ticket)
            if attempt is not None:
                self._meant_for[attempt.pod.record.uid] = name

    # In the end -------------------------------------------------------------------------------------

    def is_at_rest(self) -> bool:
        """Whether nothing is under way in berth, as far as can be seen. A list that failed is asked for
        again after up to half a minute, and nothing shows until then."""
        owner = self._berth.owner
        if owner is None or not self._is_calm(owner):
            return False
        # A group that was in its back-off may have got its place since somebody last looked.
        moved = (self.assumptions_count - self._permit_count, self._evictions_count)
        has_moved, self._moved = moved != self._moved, moved
        return not (has_moved or (self.leads and self._drift(owner)))

    def _is_calm(self, owner: OwnerProcess) -> bool:
        state = owner.state
        if not state.is_synced:
            return False
        if not self.leads:
            return not state.cache.assumed_pods()
        # Without nodes nobody rejects a pod, so nobody can say what would help it: it is tried for ever.
        # So is a group that has no place, a pod whose place on Permit it takes, and an object that
        # nobody can make sense of: each time after its back-off.
        is_trying = any(
            pod.place is not Place.UNSCHEDULABLE
            for pod in state.queue
            if not (
                pod.record.group or _is_beyond(waiting(pod.record)) or is_poison(pod.record.name)
            )
        )
        return not (
            (is_trying and state.cache.node_count())
            or state.cache.assumed_pods()
            or state.binders.in_flight_count()
            or state.nominations.in_flight_count()
            or state.reservations.held  # For so long others are kept away.
            or not state.scorers.ready()
            or any(pod["metadata"].get("deletionTimestamp") for pod in self._world.pods())
        )

    def conclude(self) -> None:
        """Once all has come to rest: every pod is where it belongs."""
        owner = self._berth.owner
        if owner is None or not self._is_calm(owner):
            raise SimulatedFailure("no rest", self._what_is_left(owner))
        drift = self._drift(owner)
        if drift:
            raise SimulatedFailure("drift", drift)
        pods = self._world.pods()
        cluster = cluster_of(self._world.nodes(), pods, self._namespaces(), self._objects())
        for found in pods:
            if not found["spec"].get("nodeName"):
                self._judge_waiting(owner, found, cluster)
        judge_groups(self._objects().get("podgroups", {}), pods, cluster, self.counts)
        for scorer in self._berth.scorers:
            if self._has_all(scorer, owner) and not scorer.loop.replica.is_settled:
                raise SimulatedFailure("kept", f"{scorer.name}: a proposal that is judged long ago")
        for node, what in overcommitted(cluster):
            if node not in self._world.spoilt_nodes and not self._world.was_restored:
                raise SimulatedFailure("overcommitted", f"{node}: {what}")

    def _objects(self) -> dict[str, dict[str, Json]]:
        """Of other kinds, by kind and key."""
        found: dict[str, dict[str, Json]] = {}
        for table in self._world.server.cluster.store.tables():
            if table.resource.plural in OTHER_KINDS:
                found[table.resource.plural] = {
                    key: table.objects[key].decoded()
                    for key in table.sorted_keys()
                    if not is_poison(table.objects[key].name)
                }
        return found

    def _namespaces(self) -> list[Json]:
        return list(self._world.objects(self._world.server.cluster.namespaces))

    def _what_is_left(self, owner: OwnerProcess | None) -> str:
        if owner is None or not owner.state.is_synced:
            return "the owner is not synced"
        state = owner.state
        told = [str(state.queue.pending_lengths())]
        told += [f"{pod.record.key} {pod.place.value}" for pod in state.queue]
        told += [
            f"{pod.record.key} assumed on {pod.node_name}" for pod in state.cache.assumed_pods()
        ]
        told.append(f"bindings {state.binders.in_flight_count()}")
        told.append(f"victims {state.nominations.in_flight_count()}")
        told.append(f"workers {len(state.scorers.ready())}")
        return "; ".join(told)

    def _drift(self, owner: OwnerProcess) -> str:
        """Where what the owner holds is not what there is; empty where it is."""
        state = owner.state
        there, held = {}, {}
        for pod in self._world.pods():
            if pod["status"].get("phase") not in ("Succeeded", "Failed"):
                there[pod["metadata"]["uid"]] = pod["spec"].get("nodeName") or ""
        for cached in state.cache.pods():
            if is_poison(cached.record.key.partition("/")[2]):
                continue
            held[cached.record.uid] = cached.node_name
        for queued in state.queue:
            if is_poison(queued.record.key.partition("/")[2]):
                continue
            if queued.record.uid in held:
                raise SimulatedFailure("two places", queued.record.key)
            held[queued.record.uid] = ""
        if there != held:
            wrong = sorted(uid for uid in there | held if there.get(uid) != held.get(uid))
            detail = f"{wrong[0]}: there {there.get(wrong[0])}, held {held.get(wrong[0])}"
            return f"{len(wrong)} pods, {detail}"
        nodes = {node["metadata"]["name"] for node in self._world.nodes()}
        infos = [info for info in state.cache.node_infos() if not is_poison(info.name)]
        names = {info.name for info in infos if info.node is not None}
        return "" if nodes == names else f"nodes {sorted(nodes ^ names)}"

    def _judge_waiting(self, owner: OwnerProcess, found: Json, cluster: OracleCluster) -> None:
        """A pod that waits fits nowhere, and no room can be made for it."""
        pod = pod_of(found)
        if found["spec"].get("schedulingGates") or _is_beyond(pod):
            return
        queued = owner.state.queue.get(pod.uid)
        place = "nowhere" if queued is None else queued.place.value
        assert queued is None or queued.place is not Place.IN_FLIGHT, "nothing is under way"
        key = f"{pod.namespace}/{pod.name} ({place})"
        try:
            fits = where_it_fits(pod, cluster)
            if queued is not None and NODE_VOLUME_LIMITS in queued.unschedulable_plugins:
                # Nobody is told of a limit that goes with its CSINode (`EventsToRegister` in
                # pkg/scheduler/framework/plugins/nodevolumelimits/csi.go, v1.36.2).
                fits = [name for name in fits if name in cluster.told.get("csinodes", {})]
            if self._devices_on_permit and _lacks_devices(queued):
                fits = []
            # A node that changed may have become one where room can be made; but only the plugins
            # that rejected the pod there are asked what would help, and not those that kept
            # preemption from it.
            is_peaceful = pod.spec.get("preemptionPolicy") == "Never"
            is_told = not is_peaceful and not _is_not_told_of_devices(pod, queued)
            room = candidates(pod, cluster) if is_told else []
        except CannotTell:
            self.counts["untold"] += 1
            return
        if _is_woken_less(pod, queued, cluster):
            return
        if fits:
            raise SimulatedFailure("waits though it fits", f"{key} on {', '.join(fits)}")
        helped = [each.node for each in room if not self._is_spoilt(each.node)]
        if helped:
            raise SimulatedFailure("no room made", f"{key} on {', '.join(helped)}")

    def check_nothing_is_kept(self) -> None:
        """When all objects are gone, so is everything that was held for them."""
        owner = self._berth.owner
        assert owner is not None, "judged at rest"
        state = owner.state
        kept = {
            "pods of the cache": state.cache.pod_count(),
            "nodes": len(state.cache.node_infos()),
            "pods of the queue": len(state.queue),
            "classes": len(list(state.cache.classes)),
            "attempts": state.scorers.attempt_count(),
            "bindings": state.binders.in_flight_count(),
            "nominations": len(state.cache.view.nominations),
            "victims": state.nominations.in_flight_count(),
            "assumptions": sum(
                len(state.cache.objects.assumed(kind))
                for kind in state.cache.objects.assumed_kinds()
            ),
            "events in flight": sum(state.queue.events_in_flight().values()),
        }
        for what, count in kept.items():
            if count:
                raise SimulatedFailure("kept", f"{count} {what} when nothing is left")
        for process, root in (
            (owner.name, owner.state),
            *((scorer.name, scorer.loop) for scorer in self._berth.scorers),
        ):
            for told in holders(root, self._bound.keys()):
                raise SimulatedFailure("kept", f"{process}: the uid of a pod that is gone: {told}")


def _is_woken_less(pod: OraclePod, queued: QueuedPod | None, cluster: OracleCluster) -> bool:
    """Whether the pod may have to wait until it is tried again anyway, by what the hint of
    InterPodAffinity looks at (isSchedulableAfterPodChange in interpodaffinity/plugin.go, v1.36.2): not
    at labels of namespaces, by which the pod's own terms or those of others mean it, nor at pods that go
    and were the last that the pod's affinity meant."""
    terms = [pod.spec.get("affinity")]
    if queued is not None and INTER_POD_AFFINITY in queued.unschedulable_plugins:
        terms += [each.spec.get("affinity") for each in cluster.pods]
    return "namespaceSelector" in str(terms) or may_be_the_first(pod, cluster)


def _is_not_told_of_devices(pod: OraclePod, queued: QueuedPod | None) -> bool:
    """Whether devices may be what kept preemption from the pod: DynamicResources did not reject it, so
    it is not asked what a new device would help."""
    return bool(pod.spec.get("resourceClaims")) and not _lacks_devices(queued)


def _lacks_devices(queued: QueuedPod | None) -> bool:
    return queued is not None and DYNAMIC_RESOURCES in queued.unschedulable_plugins


def _is_beyond(pod: OraclePod) -> bool:
    """Whether more than filters decides about a pod: it waits for others of its group."""
    return GROUP in pod.labels or is_in_group(pod)


def shown_of(record: PodRecord) -> tuple[object, ...]:
    """What the columns of pods show of one, beside its node."""
    return bytes(record.template), record.deleted, record.started, record.is_preempted
