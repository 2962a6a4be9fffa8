"""Nominations and victims of one scenario, carried on from attempt to attempt as the corpus does.

Apart from the evaluator because this is what happens between attempts, not a decision.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from daemon.core.cache import Cache
from daemon.core.cached_nodes import CachedPod
from daemon.core.pod_classes import PodClass
from shared.columns.nomination_columns import Nomination
from shared.framework.post_filter import Preemption
from shared.framework.status import CODE_NAMES, SUCCESS, Status
from shared.kube.pod_record import PodRecord

Json = dict[str, Any]

DELETED_AT = "2026-01-01T00:00:00Z"


class NominatedPods:
    """Who is nominated to which node. `mode` says what a successful preemption does."""

    def __init__(self, cache: Cache, mode: str) -> None:
        self._cache = cache
        self._mode = mode
        self._nodes: dict[str, str] = {}
        """Pod uid -> node name, which need not exist."""
        self._records: dict[str, PodRecord] = {}

    def refresh(self) -> None:
        """A node came or went."""
        for uid, name in list(self._nodes.items()):
            record = self._records[uid]
            self.nominate(record, self._cache.classes.acquire(record), name)

    def nominate(self, record: PodRecord, pod_class: PodClass, node_name: str) -> None:
        """In place of an earlier nomination; no name: none any more."""
        view = self._cache.view
        before = view.nominations.remove(record.uid)
        if before is not None:
            self._cache.touch_row(before.node_row)
        self._nodes.pop(record.uid, None)
        if not node_name:
            return
        self._nodes[record.uid] = node_name
        self._records[record.uid] = record
        row = self._cache.nodes.row_of(node_name)
        if row >= 0:
            priority = pod_class.info.priority
            view.nominations.put(Nomination(record.uid, pod_class.class_id, priority, row))
            self._cache.touch_row(row)

    def node_of(self, record: PodRecord) -> str:
        return self._nodes.get(record.uid, "")

    def own_uid(self, record: PodRecord) -> str:
        """The uid of a pod that is nominated; empty for others."""
        return record.uid if self.node_of(record) else ""

    def lower_on(self, row: int, priority: int) -> list[PodRecord]:
        """Less important pods nominated to a node."""
        there = self._cache.view.nominations.on(row)
        return [self._records[n.uid] for n in there if n.priority < priority]

    def carry_out(
        self, record: PodRecord, pod_class: PodClass, preemption: Preemption | None
    ) -> None:
        """What becomes of an attempt's preemption; None: there was none."""
        best = None if preemption is None else preemption.best
        if preemption is None or best is None:
            # One that stays comes behind the others on its node, as with every failed attempt.
            ends = preemption is not None and preemption.ends_nomination
            self.nominate(record, pod_class, "" if ends else self.node_of(record))
            return
        if self._mode == "none":
            return
        for lower in self.lower_on(best.row, pod_class.info.priority):
            self.nominate(lower, pod_class, "")
        for victim in list(self.victims(best.row, best.victims)):
            if self._mode == "evict":
                self._cache.remove_pod(victim.record.uid)
            else:  # One that is going anyway is marked, too.
                deleted = victim.record.deleted or DELETED_AT
                going = msgspec.structs.replace(victim.record, deleted=deleted, is_preempted=True)
                self._cache.add_pod(going)
        self.nominate(record, pod_class, self._cache.nodes.name_of(best.row))

    def victims(self, row: int, pod_rows: Iterable[int]) -> Iterator[CachedPod]:
        """The pods behind rows of the pod table."""
        info = self._cache.node_info(self._cache.nodes.name_of(row))
        assert info is not None, "a candidate is a node"
        by_row = {pod.row: pod for pod in info.pods.values()}
        return (by_row[pod_row] for pod_row in pod_rows)

    def shape(self, pod_class: PodClass, preemption: Preemption, said: Json) -> Json:
        """`post_filter` of a decision; `said` is the status of all PostFilter plugins together."""
        shape: Json = {"eligible": not preemption.ineligible_reason, "status": said}
        if preemption.ineligible_reason:
            return {**shape, "ineligible_reason": preemption.ineligible_reason}
        nodes = self._cache.nodes
        shape["potential_nodes"] = sorted(nodes.name_of(r) for r in preemption.potential.tolist())
        if len(preemption.potential):
            shape["candidates"] = [
                {
                    "node": nodes.name_of(candidate.row),
                    "victims": [
                        p.record.key for p in self.victims(candidate.row, candidate.victims)
                    ],
                    "pdb_violations": candidate.pdb_violations,
                }
                for candidate in sorted(
                    preemption.candidates.all(), key=lambda c: nodes.name_of(c.row)
                )
            ]
        if failed := preemption.failed():
            shape["failed_nodes"] = {
                nodes.name_of(verdict.row): status_shape(verdict.status, verdict.status.plugin)
                for verdict in failed
            }
        if preemption.tied:
            shape["tied_nodes"] = sorted(nodes.name_of(row) for row in preemption.tied)
        if preemption.status == SUCCESS and preemption.best is not None:
            row = preemption.best.row
            shape["nominated_node"] = nodes.name_of(row)
            cleared = self.lower_on(row, pod_class.info.priority)
            if cleared and self._mode != "none":
                shape["nominations_cleared"] = [record.key for record in cleared]
        return shape


def status_shape(status: Status, plugin: str = "") -> Json:
    """A status as the corpus writes it."""
    shape: Json = {"code": CODE_NAMES[status.code]}
    if plugin:
        shape["plugin"] = plugin
    if status.reasons:
        shape["reasons"] = list(status.reasons)
    return shape
