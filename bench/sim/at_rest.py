"""What has come of a run once all is at rest: every pod is where it belongs, or fits nowhere.

Who waits though there is room for it, or could be made, is a finding, but for what upstream does not
tell such a pod either: each of these exceptions has the place in upstream beside it.
"""

from collections import Counter
from typing import NamedTuple

from bench.sim.berth import Berth
from bench.sim.copies import has_all
from bench.sim.door import DOORS
from bench.sim.draw import Json
from bench.sim.extender import is_asked_about
from bench.sim.gang_rules import judge_groups
from bench.sim.judged_orders import JudgedOrders
from bench.sim.leaks import victims_in_flight_count
from bench.sim.oracle import (
    OracleCluster,
    OraclePod,
    cluster_of,
    is_over,
    may_be_the_first,
    overcommitted,
    pod_of,
    where_it_fits,
)
from bench.sim.owner_opinion import OwnerOpinion, asks_for_devices
from bench.sim.permit import GROUP
from bench.sim.poison import is_poison
from bench.sim.refusal import REFUSED_AT
from bench.sim.schedule import SimulatedFailure
from bench.sim.sim_processes import OwnerProcess
from bench.sim.slow_pods import CannotTell
from bench.sim.slow_preemption import candidates
from bench.sim.states import OTHER_KINDS, waiting
from bench.sim.world import World
from daemon.core.queue.queued_pod import Place, QueuedPod
from daemon.core.suspects import PARKED
from shared.plugin_names import (
    DYNAMIC_RESOURCES,
    INTER_POD_AFFINITY,
    NODE_RESOURCES_FIT,
    NODE_VOLUME_LIMITS,
    POD_TOPOLOGY_SPREAD,
    VOLUME_BINDING,
)


class _Held(NamedTuple):
    """Room that others were asked to leave for a group."""

    first_s: float
    last_s: float
    """When it was seen first and last, on the owner's clock."""
    priority: int
    """The group's, as which whoever waits has to respect it."""


class AtRest:
    """Of one berth."""

    def __init__(
        self,
        world: World,
        berth: Berth,
        opinion: OwnerOpinion,
        orders: JudgedOrders,
        counts: Counter[str],
    ) -> None:
        self._world = world
        self._berth = berth
        self._opinion = opinion
        self._orders = orders
        self._counts = counts
        self._moved: tuple[set[str], int] = set(), 0
        """Pods (uids) on nodes, and evictions, that there were when somebody last asked for rest. What
        is assumed and comes to nothing may be tried for good, each time after a back-off: a pod that a
        group has give its place up on Permit (`Preempt` in framework/runtime/waiting_pods_map.go,
        v1.36.2), a gang of which somebody refuses one too many."""
        self._held: dict[tuple[str, str, float], _Held] = {}
        """(group, node, until when at most) -> room that was held."""

    def note_held(self, owner: OwnerProcess) -> None:
        """After each turn of the owner: the room that it holds for groups."""
        now_s = owner.clock.monotonic_s()
        for group, held in owner.state.reservations.held.items():
            if held.priority is None:
                continue  # Nobody was asked to leave it.
            for node in held.places.values():
                before = self._held.get((group, node, held.until_s))
                first_s = now_s if before is None else before.first_s
                self._held[group, node, held.until_s] = _Held(first_s, now_s, held.priority)

    # Whether there is rest --------------------------------------------------------------------------

    def is_reached(self) -> bool:
        """Whether nothing is under way in berth, as far as can be seen. A list that failed is asked for
        again after up to half a minute, and nothing shows until then."""
        owner = self._berth.owner
        if owner is None or not self._is_calm(owner):
            return False
        # A group that was in its back-off may have got its place since somebody last looked.
        placed = {
            pod["metadata"]["uid"] for pod in self._world.pods() if pod["spec"].get("nodeName")
        }
        moved = (placed, self._orders.evictions_count)
        has_moved, self._moved = moved != self._moved, moved
        return not (has_moved or (self._berth.may_write and self._drift(owner)))

    def _is_calm(self, owner: OwnerProcess) -> bool:
        state = owner.state
        if not state.is_synced:
            return False
        if not self._berth.may_write:
            return not state.cache.assumed_pods()
        # Without nodes nobody rejects a pod, so nobody can say what would help it: it is tried for ever.
        # So is a group that has no place, a pod whose place on Permit it takes, and an object that
        # nobody can make sense of: each time after its back-off.
        is_trying = any(
            pod.place is not Place.UNSCHEDULABLE
            for pod in state.queue
            if not (_is_beyond(waiting(pod.record)) or is_poison(pod.record.name))
        )
        return not (
            (is_trying and state.cache.node_count())
            or state.cache.assumed_pods()
            or state.binders.in_flight_count()
            or victims_in_flight_count(state.binders)
            or state.reservations.held  # For so long others are kept away.
            or not state.scorers.ready()
            or any(pod["metadata"].get("deletionTimestamp") for pod in self._world.pods())
        )

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
        told.append(f"victims {victims_in_flight_count(state.binders)}")
        told.append(f"workers {len(state.scorers.ready())}")
        return "; ".join(told)

    def _drift(self, owner: OwnerProcess) -> str:
        """Where what the owner holds is not what there is; empty where it is."""
        state = owner.state
        there, held = {}, {}
        for pod in self._world.pods():
            if not is_over(pod):
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

    # What has come of it ----------------------------------------------------------------------------

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
        judge_groups(self._objects().get("podgroups", {}), pods, cluster, self._counts)
        for scorer in self._berth.scorers:
            if has_all(scorer, owner) and not scorer.loop.replica.is_settled:
                raise SimulatedFailure("kept", f"{scorer.name}: a proposal that is judged long ago")
        for node, what in overcommitted(cluster):
            if not self._world.may_be_spoilt(node):
                raise SimulatedFailure("overcommitted", f"{node}: {what}")

    def _objects(self) -> dict[str, dict[str, Json]]:
        """Of other kinds, by kind and key."""
        found: dict[str, dict[str, Json]] = {}
        for table in self._world.server.cluster.store.tables():
            kind = DOORS if table.resource.plural == "leases" else table.resource.plural
            if kind in OTHER_KINDS:
                found[kind] = {
                    key: table.objects[key].decoded()
                    for key in table.sorted_keys()
                    if not is_poison(table.objects[key].name)
                }
        return found

    def _namespaces(self) -> list[Json]:
        return list(self._world.objects(self._world.server.cluster.namespaces))

    def _judge_waiting(self, owner: OwnerProcess, found: Json, cluster: OracleCluster) -> None:
        """A pod that waits fits nowhere, and no room can be made for it."""
        pod = pod_of(found)
        if found["spec"].get("schedulingGates") or _is_beyond(pod):
            return
        queued = owner.state.queue.get(pod.uid)
        place = "nowhere" if queued is None else queued.place.value
        assert queued is None or queued.place is not Place.IN_FLIGHT, "nothing is under way"
        if queued is not None and queued.gated_by == PARKED:
            return  # Rightly, as `judged_losses.py` has it.
        key = f"{pod.namespace}/{pod.name} ({place})"
        try:
            fits = where_it_fits(pod, cluster)
            if _was_rejected_by(NODE_VOLUME_LIMITS, queued):
                # Nobody is told of a limit that goes with its CSINode (`EventsToRegister` in
                # pkg/scheduler/framework/plugins/nodevolumelimits/csi.go, v1.36.2).
                fits = [name for name in fits if name in cluster.told.get("csinodes", {})]
            if any(_is_not_told(queued, *each) for each in self._opinion.let_go_s.items()):
                fits = []
            # A node that changed may have become one where room can be made; but only the plugins
            # that rejected the pod there are asked what would help, and not those that kept
            # preemption from it.
            is_peaceful = pod.spec.get("preemptionPolicy") == "Never"
            is_told = not is_peaceful and not _is_not_told_of_more(pod, queued)
            room = candidates(pod, cluster) if is_told else []
        except CannotTell:
            self._counts["untold"] += 1
            return
        if _is_woken_less(pod, queued, cluster, self._world):
            return
        unheard = set(self._world.late_nodes) if _is_not_told_of_nodes(pod, queued) else set()
        if _was_rejected_by(NODE_RESOURCES_FIT, queued):
            # Nobody hears of a pod that asks for less while it is assumed: its update is dropped, and it
            # is bound as an added pod is (`updatePod` and `addAssignedPodToCache` in eventhandlers.go).
            unheard |= {each.node for each in cluster.pods if each.uid in self._world.shrunk_pods}
        if self._world.has_lost_volumes and _was_rejected_by(VOLUME_BINDING, queued):
            # One that waited for its claim is gone, which is no event to VolumeBinding
            # (`EventsToRegister` in volumebinding/volume_binding.go: Add and Update).
            fits = []
        fits = [name for name in fits if name not in unheard]
        if fits:
            raise SimulatedFailure("waits though it fits", f"{key} on {', '.join(fits)}")
        helped = [
            each.node
            for each in room
            if each.node not in unheard
            and not self._world.may_be_spoilt(each.node)
            and not any(self._mattered_more(victim, pod, queued) for victim in each.victims)
        ]
        if helped:
            raise SimulatedFailure("no room made", f"{key} on {', '.join(helped)}")

    def _mattered_more(self, victim: OraclePod, pod: OraclePod, queued: QueuedPod | None) -> bool:
        """Whether room was held for the victim, as for one that matters as much as its group, when the
        pod was tried last: the pod, to which the victim alone matters less, had to leave it alone and
        is not told when the victim has it (`_wake` in daemon/core/group_reservations.py;
        kube-scheduler holds none)."""
        if queued is None or not queued.past:
            return False
        began_s, failed_s = queued.popped_s, queued.past[-1][0]
        return any(
            (group, node) == (victim.group, victim.node)
            and held.priority >= pod.priority
            and held.first_s <= failed_s
            and began_s <= held.last_s
            for (group, node, _), held in self._held.items()
        )


# What upstream does not tell a pod ----------------------------------------------------------------


def _is_woken_less(
    pod: OraclePod, queued: QueuedPod | None, cluster: OracleCluster, world: World
) -> bool:
    """Whether the pod may have to wait until it is tried again anyway, by what the hints of
    InterPodAffinity look at (isSchedulableAfterPodChange and isSchedulableAfterNodeChange in
    interpodaffinity/plugin.go, v1.36.2): not at labels of namespaces, by which the pod's own terms or
    those of others, who may be gone, mean it, nor at pods that go and were the last that the pod's
    affinity meant, nor at nodes that leave a domain from which the terms of others keep the pod away."""
    if _was_rejected_by(INTER_POD_AFFINITY, queued):
        moved = [each for each in cluster.pods if each.node in world.relabelled_nodes]
        if world.has_namespace_selectors or any(each.anti_affinity for each in moved):
            return True
    return "namespaceSelector" in str(pod.spec.get("affinity")) or may_be_the_first(pod, cluster)


def _is_not_told_of_more(pod: OraclePod, queued: QueuedPod | None) -> bool:
    """Whether devices, or pods that its spread constraints or its affinity look for, may be what kept
    preemption from the pod: a plugin that did not reject it is not asked what more would help."""
    affinity = pod.spec.get("affinity") or {}
    asks = {
        DYNAMIC_RESOURCES: asks_for_devices(pod.spec),
        POD_TOPOLOGY_SPREAD: pod.spec.get("topologySpreadConstraints"),
        INTER_POD_AFFINITY: affinity.get("podAffinity"),
    }
    return any(asked and not _was_rejected_by(plugin, queued) for plugin, asked in asks.items())


def _is_not_told_of_nodes(pod: OraclePod, queued: QueuedPod | None) -> bool:
    """Whether no node that comes or changes is one for the pod in the eyes of the hint of
    NodeResourcesFit: what its Filter ignores that asks for (`isFit` in noderesources/fit.go, v1.36.2,
    has `Fits` ignore nothing), and no node has it. Or in those of InterPodAffinity, which looks at the
    pod's own terms (isSchedulableAfterNodeChange in interpodaffinity/plugin.go): it has none, and the
    terms of others keep it away."""
    if is_asked_about(pod.spec) and _was_rejected_by(NODE_RESOURCES_FIT, queued):
        return True
    has_terms = "requiredDuring" in str(
        [(pod.spec.get("affinity") or {}).get(kind) for kind in ("podAffinity", "podAntiAffinity")]
    )
    return (
        not has_terms
        and queued is not None
        and queued.unschedulable_plugins == {INTER_POD_AFFINITY}
    )


def _is_not_told(queued: QueuedPod | None, plugin: str, let_go_s: float) -> bool:
    """Whether devices or volumes became free, since the pod was tried, of which no object had said that
    they were not: Unreserve takes back what is in flight or assumed, which is no event that the plugin
    knows (`Unreserve` and `EventsToRegister` in dynamicresources/dynamicresources.go and
    volumebinding/volume_binding.go, v1.36.2: none is for pods that go)."""
    return _was_rejected_by(plugin, queued) and queued is not None and queued.popped_s <= let_go_s


def _was_rejected_by(plugin: str, queued: QueuedPod | None) -> bool:
    return queued is not None and plugin in queued.unschedulable_plugins


def _is_beyond(pod: OraclePod) -> bool:
    """Whether more than filters decides about a pod: it waits for others of its group, or somebody
    refuses it where it is about to be bound."""
    return GROUP in pod.labels or REFUSED_AT in pod.labels or bool(pod.group)
