"""Each decision held against the oracle's when it is made, on the state that it was made from.

Of a worker: where it places a pod, that a pod fits nowhere and why, whom it would have go. Of the owner:
what it assumes, what it refuses, whom it has go. A decision that the oracle does not share is a finding.
"""

from collections.abc import Callable
from typing import Any, Final

from bench.sim.deadly import FAILS_AS
from bench.sim.extended_opinion import ExtendedOpinion
from bench.sim.gang_rules import are_alike
from bench.sim.oracle import OracleCluster, OraclePod, why_not
from bench.sim.schedule import SimulatedFailure, outspoken
from bench.sim.sim_processes import ScorerProcess
from bench.sim.slow_group_preemption import needless, victims_for, wrong_about
from bench.sim.slow_pods import PORTS, CannotTell
from bench.sim.slow_preemption import best_of, candidates, may_preempt
from bench.sim.states import TENTATIVE, States
from shared.messages.from_scorer import Failure, GroupRoom, Proposals
from shared.messages.to_scorer import PodTask, SchedulePods
from workers.scorer.extended_pods import ExtendedCycle
from workers.scorer.group_cycle import found_count, is_error

UNREADABLE: Final = "parsing pod: "
"""Said of pods with selectors that no API server lets pass; the oracle takes all for readable."""


class ScorerOpinion:
    """Listens to the cycle of one worker's life."""

    def __init__(
        self,
        scorer: ScorerProcess,
        states: States,
        count: Callable[[str], None],
        is_spoilt: Callable[[str], bool],
    ) -> None:
        """`is_spoilt`: somebody else had pods share a host port on the node of that name."""
        self._name = scorer.name
        self._is_spoilt = is_spoilt
        self._replica = scorer.loop.replica
        self._states = states
        self._count = count
        self._own_uid = ""
        """Of the nominated pod that is being placed."""
        self._before: OracleCluster | None = None
        """As it was before anything was reserved for the pod that is being placed."""
        self._judged: set[tuple[object, ...]] = set()
        self._has_no_say = self._has_no_say_in_failures = False
        """While a worker tries what would be if others were gone, or keeps to some of the nodes; of the
        first, while it puts a member of a group where others are yet to go, too."""
        cycle = scorer.loop._cycle  # noqa: SLF001 # To listen.
        self._listen_to_groups(cycle)
        self._listen_to_room(cycle)
        self._listen_to_placements(cycle)
        self._listen_to_answers(cycle)
        if isinstance(cycle, ExtendedCycle):
            ExtendedOpinion(scorer.name, self._replica, cycle, states, count, is_spoilt)

    def _listen_to_groups(self, cycle: Any) -> None:
        place = cycle._place_group  # noqa: SLF001 # To listen.

        def placed(batch: Any, rows: Any, limits: Any) -> Any:
            self._has_no_say = limits.searches_max == 0
            self._has_no_say_in_failures = rows is not None or bool(limits.forbidden)
            try:
                return place(batch, rows, limits)
            finally:
                self._has_no_say = self._has_no_say_in_failures = False

        cycle._place_group = placed  # noqa: SLF001 # The same.
        run = cycle.run

        def ran(batch: SchedulePods) -> Proposals:
            seeks_room = batch.group is not None and batch.group.preemption is not None
            before = self._cluster() if seeks_room else None
            answers: Proposals = run(batch)
            if before is not None:
                self._judge_group_room(batch, answers, before)
            return answers

        cycle.run = ran

    @outspoken
    def _judge_group_room(
        self, batch: SchedulePods, answers: Proposals, cluster: OracleCluster
    ) -> None:
        """Who has to go for all of a group, where it has no place. Those that could stay are told of
        where its pods are alike: else it depends on the order in which they take nodes."""
        group, room = batch.group, answers.group_room
        assert group is not None, "room is sought"
        assert group.preemption is not None, "the same"
        is_settled = found_count(answers) >= group.needed or is_error(answers) or answers.skipped
        if is_settled or group.preemption.refusal or not cluster.nodes:
            return
        is_told = not any(each.uid.startswith(TENTATIVE) for each in cluster.pods)
        if not is_told or any(self._is_spoilt(node.name) for node in cluster.nodes):
            return
        self._count("group preemptions")
        try:
            wrong = self._wrong_about_room(batch, room, group.preemption.priority, cluster)
        except CannotTell:
            self._count("untold")
            return
        if wrong:
            told = f"{self._name}: {batch.pod_count} pods of a group, {answers.group_message}"
            raise SimulatedFailure("group eviction", f"{told}: {wrong}")

    def _wrong_about_room(
        self, batch: SchedulePods, room: GroupRoom | None, priority: int, cluster: OracleCluster
    ) -> str:
        assert batch.group is not None, "asked before"
        needed = batch.group.needed
        runs = [run for run in batch.runs for _ in range(run.count)]
        pods = {
            ticket: self._states.of_class(
                self._replica.epoch, run.class_id, run.uid or f"{TENTATIVE}+{ticket}"
            )
            for ticket, run in enumerate(runs, batch.first_ticket)
        }
        waiting = list(pods.values())
        known = None
        is_known = are_alike(waiting, cluster)
        if is_known:
            known = victims_for(waiting, needed, priority, cluster)
        if room is None or room.is_awaited:
            return "" if known is None else f"room can be made by {sorted(known.uids)}"
        places = zip(room.placements.tickets, room.placements.node_rows, strict=True)
        placed = [pods[ticket].on(self._replica.nodes.name_of(row)) for ticket, row in places]
        uids = set(self._states.uids_at(self._replica, room.victims))
        wrong = wrong_about(uids, placed, priority, cluster)
        if wrong or not is_known:
            return wrong
        if known is None:
            return f"nothing is gained by {sorted(uids)}"
        if known.is_clear and uids != known.uids:
            return f"{sorted(uids)} go, not {sorted(known.uids)}"
        self._count("group preemptions of pods that are alike")
        found = needless(uids, waiting, needed, cluster)
        return f"{found} need not go" if found else ""

    def _listen_to_room(self, cycle: Any) -> None:
        make = cycle._room_maker  # noqa: SLF001 # To listen.

        def made(*args: Any) -> Any:
            room_maker = make(*args)
            conclude = room_maker.conclude

            def concluded(*args: Any) -> Failure:
                had_none, self._has_no_say = self._has_no_say, True
                try:
                    failure: Failure = conclude(*args)
                finally:
                    self._has_no_say = had_none
                return failure

            room_maker.conclude = concluded
            return room_maker

        cycle._room_maker = made  # noqa: SLF001 # The same.

    # Placements -------------------------------------------------------------------------------------

    def _listen_to_placements(self, cycle: Any) -> None:
        replica: Any = self._replica
        place, place_many, put = replica.place, replica.place_many, cycle._put  # noqa: SLF001 # The same.

        def placed(class_id: int, row: int, *rest: Any) -> None:
            self._judge_placements(class_id, [row])
            place(class_id, row, *rest)

        def placed_many(class_id: int, rows: list[int], *rest: Any) -> None:
            self._judge_placements(class_id, rows)
            place_many(class_id, rows, *rest)

        def put_one(task: PodTask, *rest: Any) -> None:
            self._own_uid, self._before = task.uid, self._cluster()
            put(task, *rest)
            self._own_uid, self._before = "", None

        replica.place, replica.place_many, cycle._put = placed, placed_many, put_one  # noqa: SLF001 # The same.

    @outspoken
    def _judge_placements(self, class_id: int, rows: list[int]) -> None:
        if self._has_no_say:
            return
        cluster = self._before or self._cluster()
        for number, row in enumerate(rows):
            name = self._replica.nodes.name_of(row)
            pod = self._states.of_class(self._replica.epoch, class_id, self._own_uid)
            node = cluster.node(name)
            self._count("placements")
            if node is None:
                raise SimulatedFailure("placement", f"{self._name}: {name} is not there")
            try:
                problem = why_not(pod, node, cluster)
            except CannotTell:
                self._count("untold")
                return
            if problem is not None and not (problem.plugin == PORTS and self._is_spoilt(name)):
                told = f"{self._name} places a pod of class {class_id} on {name}: {problem}"
                raise SimulatedFailure("placement", told)
            more = self._states.of_class(self._replica.epoch, class_id, f"{TENTATIVE}+{number}")
            cluster = cluster.beside([more.on(name)])

    @outspoken
    def _cluster(self) -> OracleCluster:
        cluster = self._states.copied_by(self._replica)
        if cluster is None:
            raise SimulatedFailure("copy", f"{self._name} works on what was never published")
        return cluster

    # What fits nowhere ------------------------------------------------------------------------------

    def _listen_to_answers(self, cycle: Any) -> None:
        answer = cycle._answer  # noqa: SLF001 # To listen.

        def answered(
            task: PodTask, pod_class: Any, room_maker: Any, answers: Any, known: Any, *rest: Any
        ) -> Failure | None:
            before = self._cluster()
            known_count = 0 if known is None else len(known.failure.tickets)
            failure: Failure | None = answer(task, pod_class, room_maker, answers, known, *rest)
            if failure is not None:
                self._judge_failure(task, failure, before, is_first=True)
            elif known is not None and len(known.failure.tickets) > known_count:
                self._judge_failure(task, known.failure, before, is_first=False)
            return failure

        cycle._answer = answered  # noqa: SLF001 # The same.

    @outspoken
    def _judge_failure(
        self, task: PodTask, failure: Failure, cluster: OracleCluster, *, is_first: bool
    ) -> None:
        """`is_first`: of its class and batch. The next ones get its reasons, though nodes that were
        filled since may have more to say."""
        replica = self._replica
        version = (replica.epoch, replica.sequence, replica.generation, len(cluster.pods))
        key = (*version, len(cluster.nominated), task.class_id, task.uid)
        if failure.is_error or not cluster.nodes or key in self._judged:
            return
        if self._has_no_say or self._has_no_say_in_failures:
            return
        if UNREADABLE in failure.message:
            return
        self._judged.add(key)
        if any(self._is_spoilt(node.name) for node in cluster.nodes):
            return
        pod = self._states.of_class(self._replica.epoch, task.class_id, task.uid)
        self._count("failures")
        try:
            self._judge_reasons(pod, failure, cluster, is_first=is_first)
            if failure.was_room_sought and not failure.freed_claims:
                self._judge_preemption(pod, task, failure, cluster)
        except CannotTell:
            self._count("untold")

    def _judge_reasons(
        self, pod: OraclePod, failure: Failure, cluster: OracleCluster, *, is_first: bool
    ) -> None:
        verdicts = {node.name: why_not(pod, node, cluster) for node in cluster.nodes}
        fits = [name for name, verdict in verdicts.items() if verdict is None]
        told = f"{self._name}: {pod.namespace}, {failure.message}"
        if fits:
            raise SimulatedFailure("fits though it was refused", f"{told}, on {', '.join(fits)}")
        plugins = sorted({verdict.plugin for verdict in verdicts.values() if verdict is not None})
        has_early_say = pod.spec.get("volumes") or pod.spec.get("resourceClaims")
        has_early_say = has_early_say or FAILS_AS in pod.labels
        names_nodes = "matchFields" in str(pod.spec.get("affinity"))
        if is_first and plugins != failure.plugins and not (has_early_say or names_nodes):
            # By volumes, claims and a plugin of somebody else PreFilter may have rejected it, before all
            # others had a say; and of nodes that NodeAffinity leaves out there (`PreFilter` in
            # nodeaffinity/node_affinity.go, v1.36.2) nobody else is asked.
            raise SimulatedFailure("other reasons", f"{told}; not by {plugins}")

    def _judge_preemption(
        self, pod: OraclePod, task: PodTask, failure: Failure, cluster: OracleCluster
    ) -> None:
        nominated_to = next((each.node for each in cluster.nominated if each.uid == task.uid), "")
        told = f"{self._name}: {failure.message}"
        found = []
        if may_preempt(pod, nominated_to, cluster):
            tentative = {each.uid for each in cluster.pods if each.uid.startswith(TENTATIVE)}
            found = candidates(pod, cluster, tentative)
        self._count("preemptions")
        if failure.preemption is None:
            if found:
                where = ", ".join(each.node for each in found)
                raise SimulatedFailure("no room made", f"{told}; it can be made on {where}")
            return
        name = self._replica.nodes.name_of(failure.preemption.node_row)
        chosen = next((each for each in found if each.node == name), None)
        if chosen is None:
            raise SimulatedFailure("eviction", f"{told}; nothing is gained on {name}")
        if chosen not in best_of(found) and all(each.is_clear for each in found):
            raise SimulatedFailure("eviction", f"{told}; {name} is not the best node")
        uids = self._states.uids_at(self._replica, failure.preemption.victims)
        wanted = [each.uid for each in chosen.victims]
        if chosen.is_clear and uids != wanted:
            raise SimulatedFailure("eviction", f"{told}; {uids} go from {name}, not {wanted}")
