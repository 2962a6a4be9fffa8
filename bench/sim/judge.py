"""What must hold after each turn of a run: of the API server's pods, of what the owner holds, of copies.

Everything in this and in the modules that it brings together looks at real state and changes none. A
broken rule is a `SimulatedFailure`, whose kind stays the same while a story is made shorter.

Decisions are held against the oracle's in `owner_opinion.py` and `second_opinion.py` (a worker's),
orders against what they are for in `judged_orders.py`, copies against the owner in `copies.py`; what has
come of it all is looked at in `at_rest.py`, and what is left of nothing in `leaks.py`.
"""

from collections import Counter
from typing import Final, NamedTuple

from bench.apiserver.store import Table
from bench.sim.at_rest import AtRest
from bench.sim.berth import Berth
from bench.sim.copies import Copies
from bench.sim.judged_losses import listen_to_losses
from bench.sim.judged_orders import JudgedOrders
from bench.sim.leaks import judge_nothing_is_kept
from bench.sim.owner_opinion import OwnerOpinion
from bench.sim.schedule import Process, SimulatedFailure
from bench.sim.second_opinion import ScorerOpinion
from bench.sim.sim_processes import OwnerProcess, ScorerProcess
from bench.sim.states import States
from bench.sim.world import World
from daemon.core.invariants import problems
from daemon.core.owner_counts import Count
from shared.messages.from_binder import BinderHeartbeat
from shared.messages.from_scorer import ScorerHeartbeat
from shared.messages.to_scorer import SnapshotDelta, SnapshotFull
from shared.transport.heard import Said

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
        self.counts: Counter[str] = Counter()
        """How many decisions of which kind were judged."""
        self._states = States()
        self._orders = JudgedOrders(world, berth, self._states, self.counts)
        self._owner_opinion = OwnerOpinion(world, self._orders, self._states, self.counts)
        self._copies = Copies(berth)
        self.at_rest = AtRest(world, berth, self._owner_opinion, self._orders, self.counts)
        self._was_told = False
        """The owner has read something since it was last looked at."""
        self._last_progress: tuple[int, int, int] | None = None
        """Epoch, version of the API server's objects, pods assumed."""
        self._refused_before = 0
        berth.on_start = self._begins
        berth.links.on_message = self._orders.hear
        berth.links.on_snapshot = self._note_snapshot
        berth.links.on_read = self._read

    @property
    def leads(self) -> bool:
        """Whether this berth is the one that schedules."""
        return self._berth.may_write

    @property
    def bound_count(self) -> int:
        return len(self._bound)

    @property
    def assumptions_count(self) -> int:
        return self._owner_opinion.assumptions_count

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
            self._copies.look_at(process)

    def _begins(self, process: Process) -> None:
        if isinstance(process, OwnerProcess):
            self._owner_opinion.listen_to(process)
            listen_to_losses(process)
        elif isinstance(process, ScorerProcess):
            ScorerOpinion(process, self._states, self._count, self._world.may_be_spoilt)

    def _count(self, kind: str) -> None:
        self.counts[kind] += 1

    def _note_snapshot(self, message: SnapshotDelta | SnapshotFull) -> None:
        owner = self._berth.owner
        assert owner is not None, "only an owner publishes"
        cache = owner.state.cache
        self._states.note_published(owner.epoch, message.sequence, message.generation, cache)

    def _read(self, said: Said) -> None:
        """What the owner is about to act on."""
        self._was_told |= not isinstance(said.message, ScorerHeartbeat | BinderHeartbeat)
        self._orders.read(said)

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
        self._owner_opinion.begun.check(state.cache)
        self.at_rest.note_held(owner)
        refused_count = (
            state.counters[Count.PROPOSALS_REJECTED] + state.counters[Count.PREEMPTIONS_REJECTED]
        )
        now = (owner.epoch, self._world.server.cluster.store.version, self.assumptions_count)
        if now != self._last_progress:
            self._last_progress, self._refused_before = now, refused_count
        elif refused_count > self._refused_before + REFUSALS_MAX:
            told = f"{refused_count - self._refused_before} answers were refused"
            raise SimulatedFailure("livelock", f"{told} while nothing came of any")

    def check_nothing_is_kept(self) -> None:
        """When all objects are gone, so is everything that was held for them."""
        judge_nothing_is_kept(self._berth, self._bound.keys())
