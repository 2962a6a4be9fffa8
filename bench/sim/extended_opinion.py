"""What a worker would do for pods that extenders have a say in, held against the oracle's opinion.

Apart from `second_opinion.py`, as such a pod is decided on in steps: nobody looks again whether those
still have to go whom extenders were asked about (`callExtenders` in framework/preemption/preemption.go,
v1.36.2, and what follows it), so the owner's copy is not what they are held against.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from bench.sim.extender import is_refused
from bench.sim.oracle import OracleCluster, OraclePod, where_it_fits
from bench.sim.schedule import SimulatedFailure, outspoken
from bench.sim.slow_pods import CannotTell
from bench.sim.slow_preemption import Candidate, best_of, candidates, may_preempt
from bench.sim.states import TENTATIVE, States
from shared.extenders.extender_wire import ExtenderVerdicts
from shared.messages.to_scorer import ExtendedTask
from workers.scorer.evaluator import RoomMaker, RoomSearch
from workers.scorer.replica import Replica


class _Searched(NamedTuple):
    """What was found for a pod that nothing was left for."""

    version: tuple[int, ...]
    """Of the copy."""
    victims: dict[str, tuple[int, ...]]
    """Node -> rows of the pods that would have to go, where extenders have nothing against it."""
    known: dict[str, Candidate]
    """The same as the oracle has it, without nodes that it does not judge."""


class ExtendedOpinion:
    """Listens to the cycle of one worker's life."""

    def __init__(
        self,
        name: str,
        replica: Replica,
        cycle: Any,
        states: States,
        count: Callable[[str], None],
        is_spoilt: Callable[[str], bool],
    ) -> None:
        """As `second_opinion.ScorerOpinion`."""
        self._name = name
        self._replica = replica
        self._states = states
        self._count = count
        self._is_spoilt = is_spoilt
        self._searched: dict[int, _Searched] = {}
        """By ticket; until the pod is answered."""
        search, fail = cycle.search_room, cycle.failure

        def searched(
            task: ExtendedTask, verdicts: ExtenderVerdicts | None, room_maker: RoomMaker
        ) -> RoomSearch:
            found: RoomSearch = search(task, verdicts, room_maker)
            if not room_maker._limits.forbidden:  # noqa: SLF001 # As for pods of some groups.
                self._judge_search(task, verdicts, found)
            return found

        def failed(task: ExtendedTask, found: RoomSearch, room_maker: RoomMaker) -> Any:
            self._judge_best(task, found)
            return fail(task, found, room_maker)

        cycle.search_room, cycle.failure = searched, failed

    @outspoken
    def _judge_search(
        self, task: ExtendedTask, verdicts: ExtenderVerdicts | None, found: RoomSearch
    ) -> None:
        cluster = self._states.copied_by(self._replica)
        assert cluster is not None, "judged where the pod was"
        result = found.result
        if found.fit_error.error or result is None or result.preemption is None:
            return
        if result.freed_claims:
            return
        pod = self._states.of_class(self._replica.epoch, task.class_id, task.uid)
        names = self._replica.nodes
        there = {names.name_of(each.row): each for each in result.preemption.candidates.all()}
        self._count("extended searches")
        try:
            wanted = self._wanted(pod, task, verdicts, cluster)
        except CannotTell:
            self._count("untold")
            return
        told = f"{self._name}: {task.namespace}/{task.name}, {found.fit_error.message()}"
        known = {name: each for name, each in wanted.items() if not self._is_spoilt(name)}
        for name in sorted(known.keys() ^ {name for name in there if not self._is_spoilt(name)}):
            kind = "no room made" if name in known else "eviction"
            raise SimulatedFailure(kind, f"{told}; otherwise on {name}")
        for name, each in known.items():
            uids = self._states.uids_at(self._replica, there[name].victims)
            needed = [victim.uid for victim in each.victims]
            if each.is_clear and uids != needed:
                raise SimulatedFailure("eviction", f"{told}; {uids} go from {name}, not {needed}")
        left = {n: each.victims for n, each in there.items() if not is_refused(pod.spec, n)}
        self._searched[task.ticket] = _Searched(self._version(), left, known)

    def _wanted(
        self,
        pod: OraclePod,
        task: ExtendedTask,
        verdicts: ExtenderVerdicts | None,
        cluster: OracleCluster,
    ) -> dict[str, Candidate]:
        """The nodes where room can be made, as far as extenders have not been asked yet."""
        pod = pod.before_extenders()
        refused = {} if verdicts is None else verdicts.unresolvable
        fits = where_it_fits(pod, cluster) if verdicts is None else []
        if fits:
            told = f"{self._name}: {task.namespace}/{task.name}, on {', '.join(fits)}"
            raise SimulatedFailure("fits though it was refused", told)
        nominated = next((each.node for each in cluster.nominated if each.uid == task.uid), "")
        if nominated not in refused and not may_preempt(pod, nominated, cluster):
            return {}
        tentative = {each.uid for each in cluster.pods if each.uid.startswith(TENTATIVE)}
        found = candidates(pod, cluster, tentative)
        return {each.node: each for each in found if each.node not in refused}

    @outspoken
    def _judge_best(self, task: ExtendedTask, found: RoomSearch) -> None:
        """Of what was found, and what extenders left of it, the best goes."""
        searched = self._searched.pop(task.ticket, None)
        preemption = None if found.result is None else found.result.preemption
        best = None if preemption is None else preemption.best
        if searched is None or best is None:
            return
        name = self._replica.nodes.name_of(best.row)
        told = f"{self._name}: {task.namespace}/{task.name} on {name}"
        if searched.victims.get(name) != best.victims:
            raise SimulatedFailure(
                "eviction", f"{told}: nobody found that, or an extender is against it"
            )
        left = [each for each in searched.known.values() if each.node in searched.victims]
        if searched.version != self._version() or len(left) < len(searched.victims):
            return  # What has changed since then, or may be otherwise, has a say in what is best.
        chosen = next(each for each in left if each.node == name)
        if chosen not in best_of(left) and all(each.is_clear for each in left):
            raise SimulatedFailure("eviction", f"{told}, which is not the best node")

    def _version(self) -> tuple[int, ...]:
        replica = self._replica
        return replica.epoch, replica.sequence, replica.generation
