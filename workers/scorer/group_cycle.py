"""The scheduling cycle of a pod group: all of its pods on one copy, and of what it may try the best.

Pods are placed as those of any batch, each on top of the last. What is not to stay is taken back: a
group of which too few pods find a node, one that has to wait for room, and what was only tried.

A placement is what upstream calls so: the nodes that share a value of the group's topology key, and all
pods go to one of them. Filters see the whole cluster all the same (`ClusterView.placement`). Upstream
tries all placements. Here the room of each node is counted in one pass over the columns and added up by
placement, and both scores follow from the sums, so that only the winner is tried. Where pods differ, or
more than room on the node decides, the sums still say which placements need not be tried, and where
extenders have a say, which are tried first.

Rules: pkg/scheduler/schedule_one_podgroup.go `podGroupSchedulingPlacementAlgorithm`,
framework/plugins/{topologyaware,podgrouppodscount}, v1.36.2.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec.structs import replace

from shared.columns.rows import row_index, rows_where
from shared.columns.schema import Int64s, Rows
from shared.columns.topology import Topology, sum_by_domain
from shared.columns.usage import PodUsage, requested_and_allocatable
from shared.dra.device_index import takes_devices
from shared.engine.evaluation import Evaluation
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import GroupFits, RoomFilter
from shared.framework.pod_info import PodInfo
from shared.kube.quantity import (
    NANOS_PER_MILLI,
    NANOS_PER_UNIT,
    ExactQuantity,
    QuantityFormat,
    canonical,
)
from shared.messages.from_scorer import Failure, GroupRoom, Placements, Proposals
from shared.messages.to_scorer import SchedulePods, TopologyLevel
from shared.plugins.gates import UNSCHEDULABLE
from workers.scorer.engine import Engine
from workers.scorer.evaluator import WIDE_SEARCH_WEIGHT, SearchLimits, rows_below
from workers.scorer.group_preemption import make_room
from workers.scorer.replica import Replica

NO_PLACEMENTS: Final = "no feasible placements found"
_SHORT: Final = re.compile(r"Insufficient (\S+?)[,.](?:\s|$)")
"""In what NodeResourcesFit says of nodes."""
NO_SEARCHES: Final = SearchLimits(searches_max=0)
"""Of what is only tried: who fits nowhere is not even told why."""


PlaceGroup = Callable[[SchedulePods, Rows | None, SearchLimits], Proposals]
"""Places the pods of a batch on these rows alone or on any."""


class GroupCycle:
    """Of one batch that is a group."""

    def __init__(
        self,
        batch: SchedulePods,
        replica: Replica,
        engine: Engine,
        place: PlaceGroup,
        chosen: int,
    ) -> None:
        """`chosen`: which it takes of placements that are equally good, modulo how many there are."""
        assert batch.group is not None, "a group"
        self._batch = batch
        self._group = batch.group
        self._replica = replica
        self._engine = engine
        self._place = place
        self._chosen = chosen
        self._only_looks = False
        """Nothing stays on the copy, and nobody is to make room."""
        self._where = ""
        """The placement that was tried last."""
        class_ids = [run.class_id for run in batch.runs for _ in range(run.count)]
        self._class_of = dict(enumerate(class_ids, batch.first_ticket))
        """By ticket."""
        self._class_counts = Counter(self._class_of.values())

    def run(self) -> Proposals:
        """An answer to every task."""
        answers = self._placed()
        if found_count(answers) >= self._group.needed or is_error(answers) or answers.skipped:
            return answers
        task, told = self._group.preemption, answers.group_message or UNSCHEDULABLE
        if task is not None:
            room = make_room(self._replica.view, task, self._where_enough_fit)
            if isinstance(room, Failure):
                return replace(answers, failures=[*answers.failures, room])
            if isinstance(room, GroupRoom):
                return replace(answers, group_room=room)
            view = self._replica.view
            if not task.refusal and len(rows_below(view, view.tentative, task.priority)):
                # They may be in the way, and no proposal can name them.
                return replace(no_answers(self._replica, self._batch), skipped=list(self._class_of))
            told = f"{told}, {room or told}"
        answers = replace(answers, group_message=f"{told}; {self._lack(answers)}")
        hold = self._group.hold
        if hold is None:
            return answers
        room = make_room(self._replica.view, hold, self._where_enough_fit, is_awaited=True)
        return replace(answers, group_room=room) if isinstance(room, GroupRoom) else answers

    def _lack(self, answers: Proposals) -> str:
        """What the group lacks, for its condition: how many of its pods fit, where most of them do if
        they have to keep to one placement, and what the others ask for that is short."""
        where = f" in {self._where}" if self._where else ""
        told = [f"{found_count(answers)} of {self._batch.pod_count} members fit{where}"]
        wanted = Counter[str]()
        for failure in answers.failures:
            names = dict.fromkeys(_SHORT.findall(failure.message))
            for ticket in failure.tickets if failure.preemption is None else ():
                pod_class = self._replica.classes.get(self._class_of[ticket])
                asked = [_asked(pod_class.info, name) for name in names] if pod_class else []
                wanted[" and ".join(filter(None, asked))] += 1
        told += [f"{count} need {asked} each" for asked, count in wanted.items() if asked]
        return "; ".join(told)

    def _placed(self) -> Proposals:
        """Without anybody gone."""
        task = self._group.placements
        if task is None or not task.levels:
            answers = self._tried(None, stays=True)
            is_told = task is not None and found_count(answers) < self._group.needed
            return _none_of(1, answers) if is_told else answers
        for number, level in enumerate(task.levels):
            is_last = number == len(task.levels) - 1
            topology = self._replica.view.topology(level.key)
            domains = self._domains(task.levels[number:])
            best, is_likely = self._best(topology, domains)
            if best is None or not (is_likely or is_last):
                continue
            rows = topology.rows_of(best)
            answers = self._tried(rows, stays=True)
            self._where = f"{level.key} {self._replica.nodes.labels_of(int(rows[0]))[level.key]}"
            if is_last and found_count(answers) < self._group.needed:
                return _none_of(len(domains), answers)
            if is_last or is_error(answers) or found_count(answers) >= self._group.needed:
                return answers
        told = NO_PLACEMENTS
        if self._group.preemption is not None:
            told += f", {self._group.preemption.refusal}"  # As of any group with such a constraint.
        failures = [Failure(list(self._class_of), told)]
        return replace(
            no_answers(self._replica, self._batch), failures=failures, group_message=NO_PLACEMENTS
        )

    def _tried(self, rows: Rows | None, *, stays: bool = False) -> Proposals:
        """On these nodes, or on all. Nothing is left of it on the copy, unless it `stays` and all is
        well."""
        mark = self._replica.mark()
        searches_max = WIDE_SEARCH_WEIGHT * self._batch.pod_count
        limits = SearchLimits(searches_max, self._group.forbidden, takes_room=True)
        stays &= not self._only_looks
        is_going = False
        try:
            answers = self._place(self._batch, rows, NO_SEARCHES if self._only_looks else limits)
            count = len(answers.placements.tickets)
            is_going = self._group.needed <= count == found_count(answers) and not is_error(answers)
        finally:
            if not (stays and is_going):
                self._replica.roll_back(mark)
        return answers

    def _where_enough_fit(self) -> Placements | Failure | None:
        """As `Fits` has it: what fails is told of the group, as it fails for none of its pods as things
        are (`podGroupCycle`)."""
        self._only_looks = True
        answers = self._placed()
        self._only_looks = False
        failing = (each for each in answers.failures if each.is_error)
        first = min(failing, key=lambda failure: failure.tickets[0], default=None)
        if first is not None:
            return Failure([], first.message, is_error=True)
        placements = answers.placements
        return placements if len(placements.tickets) >= self._group.needed else None

    # Placements ----------------------------------------------------------------------------------

    def _domains(self, levels: list[TopologyLevel]) -> Rows:
        """Of the first of the levels: those within one domain of each of the others. Not in the order of
        their names, so that a recording without these is decided alike."""
        topology, nodes = self._replica.view.topology(levels[0].key), self._replica.nodes
        rows = np.flatnonzero(topology.domain_of_row >= 0)
        domains = topology.domain_of_row[rows]
        of_domain = np.zeros(topology.domain_count, np.intp)
        of_domain[domains] = rows  # Any row of each domain: if they differ, the domain is in none.
        is_possible = np.ones(topology.domain_count, np.bool_)
        for level in levels:
            wider = self._replica.view.topology(level.key).domain_of_row
            values = nodes.label_column(level.key)
            is_possible &= wider[of_domain] >= 0
            is_possible[domains[wider[rows] != wider[of_domain][domains]]] = False
            if level.required_domain is not None and values is not None:
                is_possible &= values[of_domain] == nodes.find_value_id(level.required_domain)
        return np.flatnonzero(is_possible)

    def _best(self, topology: Topology, domains: Rows) -> tuple[int | None, bool]:
        """The domain to go to, and True; where the group fits into none, the one that it is told of."""
        if len(domains) < 2:
            return (int(domains[0]) if len(domains) else None), True
        needed = self._group.needed
        rooms, is_exact = self._rooms(topology)
        bounds = sum(rooms.values(), start=topology.by_domain())
        roomy = domains[bounds[domains] >= needed]
        if self._batch.asked and len(roomy):
            return self._first_that_takes(topology, rooms, roomy)
        if not is_exact:
            rooms, failing = self._counted(topology, roomy)
            if failing is not None:
                return failing, True
            bounds = sum(rooms.values(), start=topology.by_domain())
        successful = domains[bounds[domains] >= needed]
        if not len(successful):
            return int(domains[bounds[domains].argmax()]), False
        scores = self._scores(topology, rooms, successful)[successful]
        equal = successful[scores == scores.max()]
        return int(equal[self._chosen % len(equal)]), True

    def _first_that_takes(
        self, topology: Topology, rooms: dict[int, Int64s], domains: Rows
    ) -> tuple[int, bool]:
        """The same where extenders have a say: not all of these are to be asked about, which have room;
        but by that the best first, until they let the group have one."""
        counts: dict[int, int] = {}
        scores = self._scores(topology, rooms, domains)[domains]
        for domain in domains[np.argsort(-scores, kind="stable")].tolist():
            answers = self._tried(topology.rows_of(domain))
            counts[domain] = found_count(answers)
            if is_error(answers) or counts[domain] >= self._group.needed:
                return domain, True
        return max(counts, key=counts.__getitem__), False

    def _rooms(self, topology: Topology) -> tuple[dict[int, Int64s], bool]:
        """Class -> how many of its pods each domain takes, at most; and whether it takes as many."""
        rooms: dict[int, Int64s] = {}
        is_exact = len(self._class_counts) == 1 and not any(run.uid for run in self._batch.runs)
        for class_id, count in self._class_counts.items():
            pod_class = self._replica.classes.get(class_id)
            by_domain = topology.by_domain() + count
            by_row: Int64s | None = None
            if pod_class is not None:
                evaluation = self._engine.evaluate(class_id, pod_class.info, pod_class.profile)
                by_row = room_by_row(evaluation, pod_class.usage, self._replica.view)
            if by_row is not None:
                room = np.minimum(by_row, count)
                room = sum_by_domain(topology.domain_of_row, len(by_domain), room)
                by_domain = np.minimum(by_domain, room)
            is_exact &= by_row is not None
            rooms[class_id] = by_domain
        return rooms, is_exact

    def _counted(self, topology: Topology, domains: Rows) -> tuple[dict[int, Int64s], int | None]:
        """The same, found by trying; and where that came to an error."""
        counts = {class_id: topology.by_domain() for class_id in self._class_counts}
        for domain in domains.tolist():
            answers = self._tried(topology.rows_of(domain))
            if is_error(answers):
                return counts, domain
            waiting = [each.tickets for each in answers.failures if each.preemption is not None]
            for tickets in (answers.placements.tickets, *waiting):
                for ticket in tickets:
                    counts[self._class_of[ticket]][domain] += 1
        return counts, None

    def _scores(self, topology: Topology, counts: dict[int, Int64s], successful: Rows) -> Int64s:
        """Of each domain, by so many pods of each class."""
        classes, view, task = self._replica.classes, self._replica.view, self._group.placements
        assert task is not None, "there are placements"
        class_id = next(iter(counts))
        info, profile, _ = classes[class_id]
        framework = self._engine.evaluate(class_id, info, profile).pod.framework
        of_classes = [(classes[class_id].info, count) for class_id, count in counts.items()]
        fits = GroupFits(topology, of_classes, task.scheduled_count, successful)
        scores = topology.by_domain()
        for plugin, weight in framework.placement_scores:
            scores += weight * plugin.score_placements(fits, view)
        return scores


def no_answers(replica: Replica, batch: SchedulePods) -> Proposals:
    """To a batch, to be filled: placements in task order, one failure for all tickets of a class that
    fit nowhere."""
    numbers = replica.epoch, batch.batch_id, replica.proposal_sequence, replica.generation
    return Proposals(*numbers, Placements([], []), [], [])


def found_count(answers: Proposals) -> int:
    """Pods that have a node, or would have if others made room."""
    waiting = sum(failure.preemption is not None for failure in answers.failures)
    return len(answers.placements.tickets) + waiting


def is_error(answers: Proposals) -> bool:
    """Whether some pod's attempt ended so."""
    return any(failure.is_error for failure in answers.failures)


def _none_of(count: int, answers: Proposals) -> Proposals:
    """What is told of a group that fits into none of so many placements."""
    told = f"0/{count} placements are available, first placement status: {UNSCHEDULABLE}"
    return replace(answers, group_message=told)


def room_by_row(evaluation: Evaluation, usage: PodUsage, cluster: ClusterView) -> Int64s | None:
    """How many pods of a class each node takes, counted in one pass over the columns; shape (capacity,).
    None where more than what the pods take of the node themselves decides."""
    info, framework = evaluation.pod.info, evaluation.pod.framework
    if evaluation.is_wide or usage.ports or info.takes_claims or takes_devices(info, cluster):
        return None
    if len(cluster.nominations) or evaluation.pod.has_failed:
        return None
    nodes = cluster.nodes
    rows = rows_where(evaluation.feasible)
    index = row_index(rows)
    room = nodes.allowed_pod_count[index] - nodes.pod_count[index]
    for number in evaluation.filters.moving:
        plugin = framework.filters[number]
        asked = plugin.room_asked(info, cluster) if isinstance(plugin, RoomFilter) else None
        if asked is None:
            return None
        requested, allocatable = requested_and_allocatable(nodes, asked.names, index)
        for i, (name, amount) in enumerate(zip(asked.names, asked.amounts, strict=True)):
            row = nodes.resources.find(name)
            taken = int(usage.amounts[row]) if 0 <= row < len(usage.amounts) else 0
            if taken > 0:
                fits = (allocatable[i] - requested[i] - amount) // taken + 1
                room = np.minimum(room, fits)
    by_row = np.zeros(nodes.capacity, np.int64)
    by_row[rows] = np.maximum(room, 1)  # One at least: the filters let it pass.
    return by_row


def _asked(info: PodInfo, name: str) -> str:
    """So much of a resource as a pod asks for, as text; empty for none."""
    unit = NANOS_PER_MILLI if name == "cpu" else NANOS_PER_UNIT
    form = QuantityFormat.BINARY_SI if name == "memory" else QuantityFormat.DECIMAL_SI
    nanos = info.requests.of(name) * unit
    return f"{canonical(ExactQuantity(nanos, form))} {name}" if nanos else ""
