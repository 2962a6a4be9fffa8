"""The scorer's copy of the cluster: snapshots applied in order, own placements laid on top.

A scorer goes on placing pods while its earlier proposals are still on their way. Until the owner
has settled them, they are *tentative*: added to the copy's columns, and added again to each row
that a delta overwrites. A delta names the last proposal whose verdicts it contains; tentative
placements up to there are dropped, because the rows now hold them, or were sent without them since
the owner rejected them.

The owner gives ids up (of classes, of nodes that come and go) without knowing what a scorer still does
with them. So what is laid on top holds its class until it is settled, here and not there, and is made
anew from it where the owner's columns are.

A gap in the sequence, another epoch or a damaged frame makes the copy unusable (`is_whole` False)
until a full snapshot comes; nothing is proposed from it in between. Nor is anything where work asks for
a newer one (`is_ready_for`).
"""

from typing import Final, NamedTuple

import msgspec
import numpy as np

from shared.columns.delta import Buffer, DeltaBody, apply_delta, decode_delta
from shared.columns.journal import Changes, Journal
from shared.columns.nomination_columns import Nomination
from shared.columns.pod_table import NEVER_STARTED, PodTable
from shared.columns.schema import NO_NODE as NOT_NOMINATED
from shared.columns.schema import Int32s, Int64s
from shared.columns.table import NodeTable
from shared.columns.usage import PodUsage, add_usage, add_usages, usage_of
from shared.feature_gates import FeatureGates
from shared.framework.cluster_view import ClusterView
from shared.framework.object_store import PREFIX, ObjectStore
from shared.framework.pod_info import PodInfo, PodInfos
from shared.kube.decode import decode_object
from shared.messages.to_scorer import ScheduleExtended, SchedulePods, SnapshotDelta, SnapshotFull


class ReplicaClass(NamedTuple):
    """A pod class as the scorer knows it."""

    info: PodInfo
    profile: str
    usage: PodUsage


class Reserved(NamedTuple):
    """What a placement takes beside room for its class."""

    uid: str = ""
    """Under which its assumptions about objects are held; empty where there are none."""
    info: PodInfo | None = None
    """The pod as it counts, where that is otherwise than its class."""


NOTHING: Final = Reserved()


class Tentative(NamedTuple):
    """A placement that the owner has not settled yet."""

    proposal_sequence: int
    row: int
    usage: PodUsage
    class_id: int
    reserved: Reserved = NOTHING


class Mark(NamedTuple):
    """How much is laid on top of the owner's columns."""

    tentative_count: int
    nomination_count: int
    ports_id: Int32s
    """Of all rows: what was taken of sets of ports cannot be taken out of them."""


class Replica:
    """A copy of the owner's columns, as of `generation` plus this scorer's tentative placements."""

    def __init__(self, worker_index: int, gates: FeatureGates) -> None:
        self._worker_index = worker_index
        self._gates = gates
        self.epoch = 0
        self.sequence = 0
        self.generation = 0
        self.next_ticket = 0
        """Of the next pod that is handed out, as of `sequence`."""
        self.proposal_sequence = 1
        """Of the proposal that what is laid on top now will be part of."""
        self.is_whole = False
        self.newly_retired: list[int] = []
        """Classes whose last pod is gone; taken by the cycle, which forgets them."""
        self._retiring: set[int] = set()
        """Classes without pods as the owner says, of which a placement or nomination of this scorer
        is not settled yet: plugins see them until then."""
        self.classes: dict[int, ReplicaClass] = {}
        self._tentative: list[Tentative] = []
        self._nominated: dict[str, Nomination] = {}
        """As the owner says, by uid."""
        self._own_nominations: list[tuple[int, Nomination]] = []
        """This scorer's, with the proposal that they are part of, until the owner settles it."""
        self._start_empty()

    def _start_empty(self) -> None:
        self.nodes = NodeTable()
        self.objects = ObjectStore()
        self.pods = PodTable()
        self.classes.clear()
        self._infos: dict[int, PodInfo] = {}
        self._read = PodInfos()
        self.journal = Journal()
        self.view = ClusterView(
            self.nodes, self.objects, self.pods, self._infos, self.journal, self._gates
        )

    # Snapshots -----------------------------------------------------------------------------------

    def apply_full(self, message: SnapshotFull, buffers: list[Buffer]) -> None:
        """Starts the copy anew. The caller makes a new engine: all rows have changed."""
        if message.epoch != self.epoch:
            self._tentative.clear()
            self._own_nominations.clear()
        held = {class_id: self._infos[class_id] for class_id in self._held()}
        self._start_empty()
        delta = decode_delta(message.body)
        apply_delta(self.nodes, self.pods, delta, buffers)
        self._infos.update(held)
        self._retiring = set(held)
        self._apply_classes(delta)
        self._apply_objects(delta)
        self._note_place(message)
        self._settle(message.settled)
        for at, tentative in enumerate(self._tentative):  # In terms of new columns.
            usage = self._usage_of(tentative.reserved.info or self._infos[tentative.class_id])
            self._tentative[at] = tentative._replace(usage=usage)
            self._lay_on(self._tentative[at])
        self._write_tentative_pods()
        self._nominated = {nomination.uid: nomination for nomination in delta.nominations}
        self._show_nominations()
        self.is_whole = True

    def apply_delta(self, message: SnapshotDelta, buffers: list[Buffer]) -> bool:
        """Brings the copy up to date. False: there is a hole, and the copy is of no use now."""
        if message.epoch == self.epoch and message.sequence <= self.sequence:
            return self.is_whole  # Contained in the full snapshot that came meanwhile.
        if not self.is_whole:
            return False
        if message.epoch != self.epoch or message.sequence != self.sequence + 1:
            self.is_whole = False
            return False
        delta = decode_delta(message.body)
        changes, before = apply_delta(self.nodes, self.pods, delta, buffers)
        self._apply_classes(delta)
        self._settle(message.settled)
        touched = set(changes.usage_rows.tolist())
        for tentative in self._tentative:
            if tentative.row in touched:
                self._lay_on(tentative)
        self._write_tentative_pods()
        self._note_changes(changes, before)
        self._apply_nominations(delta)
        self._apply_objects(delta)
        self._note_place(message)
        return True

    def _note_place(self, message: SnapshotFull | SnapshotDelta) -> None:
        self.epoch, self.sequence = message.epoch, message.sequence
        self.generation, self.next_ticket = message.generation, message.next_ticket

    def is_ready_for(self, work: SchedulePods | ScheduleExtended) -> bool:
        """Whether the work may be done on this copy as it is; else it waits for the next snapshot."""
        return self.is_whole and work.epoch == self.epoch and self.sequence >= work.min_sequence

    # Own placements ------------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """The owner has said what it makes of every placement and preemption."""
        return not (self._tentative or self._own_nominations)

    def place(self, class_id: int, row: int, reserved: Reserved = NOTHING) -> None:
        """Counts a pod on a row until the owner settles it; what is assumed for it goes with the
        placement."""
        info = reserved.info
        usage = self.classes[class_id].usage if info is None else self._usage_of(info)
        tentative = Tentative(self.proposal_sequence, row, usage, class_id, reserved)
        table, pod_row = self.view.tentative, len(self._tentative)
        self._tentative.append(tentative)
        self._lay_on(tentative)
        table.reserve(pod_row + 1)
        table.write(pod_row, class_id, row, NEVER_STARTED, is_terminating=False)
        self.journal.usage.append(row)

    def place_many(self, class_id: int, rows: list[int]) -> None:
        """Counts a pod on each of these rows, on one that comes twice two; of a class without host ports
        or claims."""
        usage = self.classes[class_id].usage
        first, number = len(self._tentative), self.proposal_sequence
        self._tentative += [Tentative(number, row, usage, class_id) for row in rows]
        add_usages(self.nodes, *np.unique(rows, return_counts=True), usage)
        self._write_tentative_pods_from(first)
        self.journal.usage.extend(rows)

    def mark(self) -> Mark:
        """What is laid on top at this moment, for `roll_back`; of no use after the next delta."""
        return Mark(len(self._tentative), len(self._own_nominations), self.nodes.ports_id.copy())

    def roll_back(self, mark: Mark) -> None:
        """All that was laid on top since was only thought of."""
        taken_back = self._tentative[mark.tentative_count :]
        for tentative in taken_back:
            add_usage(self.nodes, tentative.row, tentative.usage, -1)
            self.nodes.ports_id[tentative.row] = mark.ports_id[tentative.row]
            self.journal.usage.append(tentative.row)
            self.forget_assumed(tentative.reserved.uid)
        del self._tentative[mark.tentative_count :]
        if taken_back:
            self._write_tentative_pods()
        if len(self._own_nominations) > mark.nomination_count:
            del self._own_nominations[mark.nomination_count :]
            self._show_nominations()

    def nominate(self, own: Nomination) -> None:
        """Keeps room for a pod until the owner settles its preemption, or (NOT_NOMINATED) keeps it no
        longer: on top of what the owner says, as `_show_nominations` would come to."""
        self._own_nominations.append((self.proposal_sequence, own))
        shown = self.view.nominations
        before = shown.remove(own.uid)
        if before is not None:
            self.journal.usage.append(before.node_row)
        if own.node_row != NOT_NOMINATED:
            shown.put(own)
            self.journal.usage.append(own.node_row)

    def drop_tentative(self) -> None:
        """The owner has taken back all pods that were in hand here."""
        for tentative in self._tentative:
            self.forget_assumed(tentative.reserved.uid)
        self.proposal_sequence = 1
        self._tentative.clear()
        self._write_tentative_pods()
        self._own_nominations.clear()
        self._show_nominations()
        self._forget_retired()

    def _lay_on(self, tentative: Tentative) -> None:
        row, usage = tentative.row, tentative.usage
        add_usage(self.nodes, row, usage)
        if usage.ports:
            used = self.nodes.ports.values[int(self.nodes.ports_id[row])]
            self.nodes.ports_id[row] = self.nodes.ports.id_of(used | usage.ports)

    def _settle(self, settled: dict[int, int]) -> None:
        done = settled.get(self._worker_index, 0)
        for tentative in self._tentative:
            if tentative.proposal_sequence <= done:
                # The owner's assumptions, if it accepted the placement, follow with the same delta.
                self.forget_assumed(tentative.reserved.uid)
        self._tentative = [t for t in self._tentative if t.proposal_sequence > done]
        self._own_nominations = [own for own in self._own_nominations if own[0] > done]
        self._forget_retired()

    def forget_assumed(self, uid: str) -> None:
        """Takes back what is assumed under this uid; nothing where that is nothing, or empty."""
        if not uid:
            return
        for kind in self.objects.assumed_kinds():
            self.objects.forget_assumed_for(kind, uid)

    # Inside --------------------------------------------------------------------------------------

    def _note_changes(self, changes: Changes, before: Int64s) -> None:
        """Tells the engine. Most usage rows of a delta are this scorer's own placements coming
        back, equal to what the copy holds; they are no news."""
        rows = changes.usage_rows
        is_other = (self.nodes.usage_of(rows) != before).any(axis=0)
        self.journal.usage.extend(rows[is_other].tolist())
        self.journal.node.extend(changes.node_rows.tolist())
        self.journal.pods.extend(changes.pod_rows.tolist())

    def _apply_nominations(self, delta: DeltaBody) -> None:
        for nomination in delta.nominations:
            self._nominated.pop(nomination.uid, None)
            if nomination.node_row != NOT_NOMINATED:
                self._nominated[nomination.uid] = nomination
        if self._nominated or len(self.view.nominations):
            self._show_nominations()

    def _show_nominations(self) -> None:
        """Brings the view to what the owner says with this scorer's own on top."""
        shown = self.view.nominations
        wanted = self._nominated | {own.uid: own for _, own in self._own_nominations}
        for before in shown.all():
            now = wanted.pop(before.uid, None)
            if now == before:
                continue
            shown.remove(before.uid)
            self.journal.usage.append(before.node_row)
            if now is not None:
                wanted[now.uid] = now
        for now in wanted.values():
            if now.node_row != NOT_NOMINATED:
                shown.put(now)
                self.journal.usage.append(now.node_row)

    def _write_tentative_pods(self) -> None:
        self.view.tentative.clear_all()
        self._write_tentative_pods_from(0)

    def _write_tentative_pods_from(self, first: int) -> None:
        """Those from `first` on, which have no rows yet."""
        new = self._tentative[first:]
        if not new:
            return
        count = len(new)
        self.view.tentative.reserve(first + count)
        self.view.tentative.write_rows(
            np.arange(first, first + count),
            np.array([tentative.class_id for tentative in new], np.int64),
            np.array([tentative.row for tentative in new], np.int32),
            np.zeros(count, np.bool_),
            np.full(count, NEVER_STARTED, np.int64),
        )

    def _apply_classes(self, delta: DeltaBody) -> None:
        for definition in delta.classes:
            info = self._read.of(definition.namespace, definition.template)
            of_class = ReplicaClass(info, definition.profile, self._usage_of(info))
            self.classes[definition.class_id] = of_class
            self._infos[definition.class_id] = info
            self._retiring.discard(definition.class_id)
        for class_id in delta.retired_classes:
            self.classes.pop(class_id, None)
            self._retiring.add(class_id)
            self.newly_retired.append(class_id)

    def _usage_of(self, info: PodInfo) -> PodUsage:
        return usage_of(self.nodes, info.requests, info.host_ports)

    def _held(self) -> set[int]:
        """The classes that own placements and nominations name."""
        named = {own.class_id for _, own in self._own_nominations if own.node_row != NOT_NOMINATED}
        return named | {tentative.class_id for tentative in self._tentative}

    def _forget_retired(self) -> None:
        if not self._retiring:
            return
        held = self._held()
        for class_id in self._retiring - held:
            self._infos.pop(class_id, None)
        self._retiring &= held

    def _apply_objects(self, delta: DeltaBody) -> None:
        for kind, key, body in delta.objects:
            if kind.startswith(PREFIX):
                self.objects.assume_told(kind, key, body)
            elif body:
                self.objects.put(kind, key, decode_object(kind, msgspec.Raw(body)))
            else:
                self.objects.remove(kind, key)
        self.objects.assumption_news.clear()
