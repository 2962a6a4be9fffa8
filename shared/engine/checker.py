"""Checker: whether pods pass every filter on the few rows that were proposed for them; for the owner.

Apart from the engine, which looks at all rows and rates them too. Both run the same plugin code on the
same columns: where a worker and the committer disagree on more than freshness, a proposal would loop
for ever.
"""

from collections import OrderedDict
from typing import Final

import numpy as np

from shared.columns.journal import Journal
from shared.columns.rows import rows_where
from shared.columns.schema import Bools, Rows
from shared.engine.engine import POD_CHANGES_MAX
from shared.engine.families import Families, may_have_claims, passing_with_claims, without_claims
from shared.engine.kept_rows import FEW_ROWS, room_filters
from shared.framework.cluster_view import ClusterView
from shared.framework.kept_answers import RoomAsked, RoomFilter
from shared.framework.nominated_pods import passing_with_nominated
from shared.framework.object_news import has_say, kinds_changed
from shared.framework.plans import EDITED_BITS, MOVING_BITS
from shared.framework.plugin_api import Delta
from shared.framework.pod_info import PodInfo
from shared.framework.prepared_pod import PreparedPod
from shared.framework.runtime import Framework

ROWS_LIKE_ONE_CALL: Final = 256
"""A call of all fixed filters costs about 25 us, and about 0.1 us for each further row."""

CLASSES_MAX: Final = 4096
FAMILIES_KEPT_MAX: Final = 64
"""Fewer: nobody says when the last pod of a family is gone."""


class Checker:
    """Whether pods of a class pass every filter on given rows right now; for the owner.

    What a placement cannot change is remembered per class and row, so that the usual check costs
    the filters of NodeResourcesFit and the like on the proposed rows and nothing else.
    """

    def __init__(
        self,
        cluster: ClusterView,
        journal: Journal,
        frameworks: dict[str, Framework],
        *,
        knows_families: bool = True,
    ) -> None:
        self._cluster = cluster
        self._journal = journal
        self._frameworks = frameworks
        self._kept: OrderedDict[int, _CheckedClass] = OrderedDict()
        self._families: Families | None = None
        self._classes_max = CLASSES_MAX if knows_families else FAMILIES_KEPT_MAX
        if knows_families:
            self._families = Families(frameworks)
            shared = self._families.shared
            self._room_filters = {
                profile: room_filters(halves.own)
                for profile, halves in self._families.halves.items()
            }
            self._by_family = Checker(cluster, journal, shared, knows_families=False)

    def passing(
        self, class_id: int, info: PodInfo, profile: str, rows: Rows, own_uid: str = ""
    ) -> Bools:
        """Shape (n,): the pod may be placed on the row. Rows must be distinct. `own_uid` names a pod
        that is nominated itself."""
        if self._families is not None and class_id not in self._kept:
            passes = self._passing_alone(self._families, class_id, info, profile, rows)
            if passes is not None:
                return passes
        checked = self._current(class_id, info, self._frameworks[profile])
        if not checked.outcome.status.is_success:
            return np.zeros(len(rows), np.bool_)
        framework = checked.framework
        unknown = rows[~checked.known[rows]]
        if len(unknown):
            self._learn(checked, self._with_all_others(checked, unknown))
        passes = checked.static_ok[rows]
        if passes.any():
            passes &= framework.passing_of(
                checked.moving, info, self._cluster, checked.outcome, rows
            )
            pod = PreparedPod(framework, info, self._cluster, checked.outcome, own_uid)
            passes = passing_with_nominated(pod, rows, passes)
        return passes

    def _passing_alone(
        self, families: Families, class_id: int, info: PodInfo, profile: str, rows: Rows
    ) -> Bools | None:
        """The same of a pod that may be the only one of its class, from what is known of its family;
        None: to be found out in the usual way."""
        family_id = families.of(class_id, info, profile, self._cluster)
        if family_id is None:
            return None
        own = families.halves[profile].own
        has_room = self._with_room(profile, info, rows)
        if has_room is None:
            outcome = own.run_pre_filters(info, self._cluster)
            if not outcome.status.is_success or outcome.node_names is not None:
                return None
            filters = own.plan(outcome).active
            has_room = own.passing_of(filters, info, self._cluster, outcome, rows)
        if may_have_claims(info):
            claims = families.halves[profile].claims
            passes = passing_with_claims(claims, info, self._cluster, rows)
            if passes is None:
                return None
            has_room &= passes
        has_room &= self._by_family.passing(family_id, without_claims(info), profile, rows)
        return has_room

    def _with_room(self, profile: str, info: PodInfo, rows: Rows) -> Bools | None:
        """Whether the pod passes the filters that do not ignore requests, of a few rows; None where
        these look at more than room."""
        filters = self._room_filters[profile]
        if filters is None or len(rows) > FEW_ROWS:
            return None
        asked: list[tuple[RoomFilter, RoomAsked]] = []
        for plugin in filters:
            room = plugin.room_asked(info, self._cluster)
            if room is None:
                return None
            asked.append((plugin, room))
        nodes = self._cluster.nodes
        has_room = [
            all(plugin.has_room(room, nodes, row) for plugin, room in asked)
            for row in rows.tolist()
        ]
        return np.array(has_room, np.bool_)

    def _with_all_others(self, checked: "_CheckedClass", unknown: Rows) -> Rows:
        """Rows to ask the fixed filters about: these, or all that are left once so many calls were
        made that one about all is cheaper."""
        checked.asked_count += 1
        present = self._cluster.nodes.present
        if checked.asked_count <= len(present) // ROWS_LIKE_ONE_CALL:
            return unknown
        checked.asked_count = 0
        wanted = present & ~checked.known
        wanted[unknown] = True
        return rows_where(wanted)

    def _learn(self, checked: "_CheckedClass", rows: Rows) -> None:
        """Asks the fixed filters about `rows`."""
        framework = checked.framework
        passes = framework.passing_of(
            checked.fixed, checked.info, self._cluster, checked.outcome, rows
        )
        passes &= self._cluster.nodes.present[rows]
        if checked.outcome.node_names is not None:
            allowed = framework.candidate_rows(checked.outcome, self._cluster)
            passes &= np.isin(rows, allowed)
        checked.static_ok[rows] = passes
        checked.known[rows] = True

    def is_wide(self, class_id: int, info: PodInfo, profile: str) -> bool:
        """Whether pods elsewhere matter: then a verdict holds until the next pod is placed, and
        several pods of the class must be asked about one after the other."""
        return self._current(class_id, info, self._frameworks[profile]).is_wide

    def forget(self, class_id: int) -> None:
        self._kept.pop(class_id, None)

    def forget_all(self) -> None:
        self._kept.clear()
        if self._families is not None:
            self._by_family.forget_all()

    def _current(self, class_id: int, info: PodInfo, framework: Framework) -> "_CheckedClass":
        kept = self._kept.get(class_id)
        if kept is None or not self._catch_up(kept):
            kept = _CheckedClass(framework, info, self._cluster, self._journal)
            self._kept[class_id] = kept
            if len(self._kept) > self._classes_max:
                self._kept.popitem(last=False)
        self._kept.move_to_end(class_id)
        return kept

    def _catch_up(self, kept: "_CheckedClass") -> bool:
        """False where the class is to be prepared anew."""
        cluster = self._cluster
        if kept.objects_version != cluster.objects.version:
            if has_say(kinds_changed(cluster.objects, kept.objects_version), kept.object_kinds):
                return False
            kept.objects_version = cluster.objects.version
        if len(kept.known) != cluster.nodes.capacity:
            return False
        position, pod_position = self._journal.position, cluster.pod_log.position
        if kept.position == position and kept.pod_position == pod_position:
            return True
        if kept.stale_by & MOVING_BITS:
            return False
        node_rows = self._journal.node.since(kept.position.node)
        if node_rows is None or (len(node_rows) and kept.stale_by & EDITED_BITS):
            return False
        kept.known[node_rows] = False
        if kept.updatable:
            pods = cluster.pod_log.since(kept.pod_position, POD_CHANGES_MAX)
            if pods is None:
                return False
            delta = Delta(node_rows, pods)
            for plugin, state in kept.updatable:
                if plugin.update_filter(state, kept.info, cluster, delta) is None:
                    return False
        kept.position, kept.pod_position = position, pod_position
        return True


class _CheckedClass:
    """What the checker remembers of a class."""

    __slots__ = ("asked_count", "fixed", "framework", "info", "is_wide", "known", "moving",
                 "object_kinds", "objects_version", "outcome", "pod_position", "position",
                 "stale_by", "static_ok", "updatable")  # fmt: skip

    def __init__(
        self, framework: Framework, info: PodInfo, cluster: ClusterView, journal: Journal
    ) -> None:
        self.framework = framework
        self.info = info
        self.asked_count = 0
        """Calls of the fixed filters since they were last asked about all rows."""
        self.outcome = framework.run_pre_filters(info, cluster)
        plan = framework.plan(self.outcome)
        self.fixed = plan.groups.fixed
        self.moving = plan.groups.moving + plan.groups.wide
        self.updatable = framework.updatable_filters(self.outcome)
        self.stale_by: int = plan.stale_by.value
        self.object_kinds = plan.object_kinds
        self.is_wide = plan.is_wide
        self.position = journal.position
        self.pod_position = cluster.pod_log.position
        self.objects_version = cluster.objects.version
        self.known: Bools = np.zeros(cluster.nodes.capacity, np.bool_)
        """`static_ok` holds the answer for this row."""
        self.static_ok: Bools = np.zeros(cluster.nodes.capacity, np.bool_)
