"""What is told between the processes, held against what it is for.

A placement is assumed on the node that its worker meant, bindings leave in the order in which their pods
were assumed, and who is told to go makes room for whom it goes.
"""

from collections import Counter

from bench.sim.berth import Berth
from bench.sim.links import PeerEnd
from bench.sim.oracle import OraclePod, why_not
from bench.sim.schedule import SimulatedFailure
from bench.sim.sim_processes import OwnerProcess, ScorerProcess
from bench.sim.slow_pods import CannotTell
from bench.sim.states import States, waiting
from bench.sim.world import World
from daemon.core.cache import Cache
from shared.messages.from_scorer import Proposals
from shared.messages.to_binder import BindPods, PreemptPods
from shared.transport.heard import Said


class JudgedOrders:
    """Of one berth."""

    def __init__(self, world: World, berth: Berth, states: States, counts: Counter[str]) -> None:
        self._world = world
        self._berth = berth
        self._states = states
        self._counts = counts
        self._meant: dict[tuple[bytes, int, int], str] = {}
        """(worker, owner's epoch, ticket) -> the node that it meant. A worker that greets again numbers
        its proposals from the beginning."""
        self.meant_for: dict[str, tuple[int, str]] = {}
        """Uid -> the attempt's ticket, and the node that the last proposal about it meant."""
        self._ready: tuple[object, ...] = ()
        self._last_order: dict[bytes, int] = {}
        self.evictions_count = 0
        self._decided: dict[str, tuple[tuple[int, int], list[OraclePod]]] = {}
        """Uid of a preemptor -> what there was when it was decided who goes for it, and who of its
        group was thought to be on nodes."""

    def hear(self, end: PeerEnd, message: object) -> None:
        """What is sent."""
        owner = self._berth.owner
        if isinstance(message, Proposals) and isinstance(end.process, ScorerProcess):
            nodes, placements = end.process.loop.replica.nodes, message.placements
            for ticket, row in zip(placements.tickets, placements.node_rows, strict=True):
                self._meant[end.identity, message.epoch, ticket] = nodes.name_of(row)
        elif isinstance(message, PreemptPods) and owner is not None:
            self.evictions_count += sum(not each.is_given_up for each in message.victims)
            self._judge_evictions(owner, message)
        elif isinstance(message, BindPods) and owner is not None:
            self._judge_order(owner, end, message)

    def read(self, said: Said) -> None:
        """What the owner is about to act on."""
        owner, message = self._berth.owner, said.message
        if owner is None or not isinstance(message, Proposals) or message.epoch != owner.epoch:
            return
        scorer = owner.state.scorers.get(said.peer)
        for ticket in message.placements.tickets:
            name = self._meant.pop((said.peer, message.epoch, ticket))
            pod = scorer and scorer.attempts.get(ticket)
            if pod:
                self.meant_for[pod.record.uid] = ticket, name

    def _judge_order(self, owner: OwnerProcess, end: PeerEnd, message: BindPods) -> None:
        binders = owner.state.binders
        ready = (owner.epoch, *(binder.peer for binder in binders), binders.ready_count())
        if ready != self._ready:  # What waits is spread anew.
            self._ready, self._last_order = ready, {}
        tickets = [order.ticket for order in message.orders]
        for order in (each.orders[t] for t in tickets for each in binders if t in each.orders):
            if order.bind.look_first:
                continue
            if order.number <= self._last_order.get(end.identity, 0):
                told = f"{order.record.key} after pods that were assumed later"
                raise SimulatedFailure("order of bindings", told)
            self._last_order[end.identity] = order.number

    def decided(self, preemptor_uid: str, cache: Cache, mates: list[OraclePod]) -> None:
        """It was just decided who goes for the pod, with others of its group on these nodes."""
        self._decided[preemptor_uid] = _version(cache), mates

    def _judge_evictions(self, owner: OwnerProcess, message: PreemptPods) -> None:
        """Once all that was to go from the node is gone, the pod that needs the room has it. Who came
        after the decision, which is judged by itself, may have taken some of what it needs."""
        cache = owner.state.cache
        for order in message.victims:
            queued = owner.state.queue.get(order.preemptor_uid)
            victim = cache.get_pod(order.uid)
            if queued is None or victim is None:
                continue  # It is gone already, or has changed its mind.
            version, mates = self._decided.get(order.preemptor_uid, (None, []))
            if version != _version(cache):
                continue
            cluster = self._states.held_by(message.epoch, cache).beside(mates)
            node = cluster.node(order.node_name)
            if node is None:
                continue
            preemptor = waiting(queued.record)
            there = cluster.on(node)
            gone = [
                other
                for other in there
                if (held := cache.get_pod(other.uid)) and (held.is_evicted or held.record.deleted)
            ]
            try:
                problem = why_not(preemptor, node, cluster.without(gone), cluster)
            except CannotTell:
                self._counts["untold"] += 1
                continue
            if problem is not None and node.name not in self._world.spoilt_nodes:
                told = f"{order.namespace}/{order.name} goes from {node.name} for"
                raise SimulatedFailure("eviction in vain", f"{told} {queued.record.key}: {problem}")


def _version(cache: Cache) -> tuple[int, int]:
    return cache.generation, cache.objects.version
