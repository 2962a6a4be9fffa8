"""Checker: whether pods pass every filter on the few rows that were proposed for them.

The scorers' engine looks at all rows, and rates them too. Both run the same plugin code on the
same columns, and keep what comes of it in the same way (`Evaluation`): where a scorer and the committer
disagree on more than freshness, a proposal would loop for ever.

Pods in a row are checked by one call, a *stretch*. Each placement may keep away the next: it takes
room on its node, and where pods elsewhere matter, it counts there. Pods that are the same to the checker
and come to distinct nodes take no room from each other, and how many may come where others beyond their
node matter, plugins tell by domains (`CrowdingFilter`). So all of a stretch that pass at its beginning
pass in turn, too.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from daemon.core.dispatch import Placed
from shared.columns.schema import Bools, Rows
from shared.columns.topology import NO_DOMAIN
from shared.dra.device_index import takes_devices
from shared.engine.evaluation import Alike, Evaluation, Evaluations
from shared.engine.families import Families, Family, passing_part, rooms_asked
from shared.errors import ObjectError
from shared.faults import reading
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import Crowding
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.framework import Framework

ROW_BYTES: Final = 2
"""Two masks."""
FEW_ROWS: Final = 8
"""Up to so many are asked about room one by one, in plain numbers, which is quicker."""
CLASSES_BYTES_MAX: Final = 64 << 20
"""3,600 classes at 5,000 nodes, 33 at a million: to begin anew with one costs less than 0.1 ms."""


class Checker:
    """Whether pods of a class pass every filter on given rows right now. What a placement cannot change
    is remembered per class and row, so that the usual check costs the filters of NodeResourcesFit and
    the like on the proposed rows and nothing else."""

    def __init__(self, cluster: ClusterView, frameworks: dict[str, Framework]) -> None:
        self.cluster = cluster
        self._frameworks = frameworks
        self.evaluations = Evaluations(cluster, ROW_BYTES, CLASSES_BYTES_MAX)
        self._families = Families(cluster, frameworks, ROW_BYTES)

    def passing(self, class_id: int, info: PodInfo, rows: Rows, own_uid: str = "") -> Bools:
        """Shape (n,): the pod may be placed on the row. Rows must be distinct. `own_uid` names a pod
        that is nominated itself."""
        key = self.key_of(class_id, info)
        if isinstance(key, Alike) or key not in self.evaluations:
            passes = self._passing_alone(key, info, rows)
            if passes is not None:
                return passes
        return self._known(key, info).filters.passing(rows, own_uid)

    def known(self, class_id: int, info: PodInfo) -> Evaluation:
        """What is known of the class, or of all pods that are like this one but for their claims."""
        return self._known(self.key_of(class_id, info), info)

    def _known(self, key: Hashable, info: PodInfo) -> Evaluation:
        return self.evaluations.of(key, info, self._frameworks[info.spec.scheduler_name])

    def key_of(self, class_id: int, info: PodInfo) -> Hashable:
        """As of `Families.key_of`."""
        return self._families.key_of(class_id, info, info.spec.scheduler_name)

    def forget_all(self) -> None:
        self.evaluations.forget_all()
        self._families.kept.forget_all()

    def _passing_alone(self, key: Hashable, info: PodInfo, rows: Rows) -> Bools | None:
        """The same of a pod that may be the only one of its class, from what is known of its family;
        None: to be found out in the usual way."""
        family = self._families.of(key, info, info.spec.scheduler_name)
        if not isinstance(family, Family):
            return None
        has_room = self._with_room(info, rows)
        if has_room is None:
            has_room = passing_part(family.own, info, self.cluster, rows)
            if has_room is None:
                return None
        passes = has_room & family.shared.filters.passing(rows)
        if family.each is None:
            return passes
        by_itself = passing_part(family.each, info, self.cluster, rows)
        return None if by_itself is None else passes & by_itself

    def _with_room(self, info: PodInfo, rows: Rows) -> Bools | None:
        """Whether the pod passes the filters that do not ignore requests, of a few rows; None where
        these look at more than room."""
        filters = self._families.parts[info.spec.scheduler_name].room_filters
        if filters is None or len(rows) > FEW_ROWS:
            return None
        rooms = rooms_asked(filters, info, self.cluster)
        if rooms is None:
            return None
        asked, nodes = list(zip(filters, rooms, strict=True)), self.cluster.nodes
        has_room = [
            all(plugin.has_room(room, nodes, row) for plugin, room in asked)
            for row in rows.tolist()
        ]
        return np.array(has_room, np.bool_)


class Stretch:
    """Rows that pods of a class come to without keeping each other away."""

    __slots__ = ("_are_nominated", "_crowded", "rows")

    def __init__(self, class_id: int, info: PodInfo, checker: Checker, first_row: int) -> None:
        self.rows = {first_row}
        self._are_nominated = len(checker.cluster.nominations) > 0
        """Pods that come on top, each where its own node is asked about alone."""
        self._crowded = _crowded_domains(class_id, info, checker)
        """Of each topology, and how many have come to its domains; None: no other pod comes in."""
        if not self._takes_domains(first_row):
            self._crowded = None

    def takes(self, row: int) -> bool:
        """Whether a pod that comes to the row goes on with the stretch."""
        if row in self.rows or self._crowded is None or not self._takes_domains(row):
            return False
        self.rows.add(row)
        return True

    def _takes_domains(self, row: int) -> bool:
        """Whether nobody is kept away by who came to the domains of the row; this one has then."""
        for (domain_of_row, room_in), counts in self._crowded or ():
            if not 0 <= row < len(domain_of_row):
                return False  # Of a copy that is not ours.
            domain = domain_of_row.item(row)
            count = counts[domain]
            if count and (self._are_nominated or count >= room_in(domain)):
                return False
            if domain != NO_DOMAIN:
                counts[domain] = count + 1
        return True


def end_of_stretch(known: Sequence[Placed], begin: int, checker: Checker) -> int:
    """Where the stretch ends that begins there. It is looked for when the one before is dealt with:
    which pods are the same may have changed by it."""
    try:
        with reading("pod", known[begin][0]):
            return _end_of_stretch(known, begin, checker)
    except ObjectError:
        return begin + 1  # What cannot be read comes out where the pod is checked.


def _end_of_stretch(known: Sequence[Placed], begin: int, checker: Checker) -> int:
    nominations = checker.cluster.nominations or None
    first, first_row = known[begin]
    # The nomination of one pod takes room from the others, not from itself.
    if nominations is not None and nominations.get(first.record.uid) is not None:
        return begin + 1
    first_class, key, stretch = first.tried_as, None, None
    for at in range(begin + 1, len(known)):
        pod, row = known[at]
        if row == first_row:
            return at
        if pod.tried_as is not first_class:
            if not first_class.info.takes_claims:
                return at
            if key is None:
                key = checker.key_of(first_class.class_id, first_class.info)
            if checker.key_of(pod.tried_as.class_id, pod.tried_as.info) != key:
                return at
        if nominations is not None and nominations.get(pod.record.uid) is not None:
            return at
        if stretch is None:
            stretch = Stretch(first_class.class_id, first_class.info, checker, first_row)
        if not stretch.takes(row):
            return at
    return len(known)


def _crowded_domains(
    class_id: int, info: PodInfo, checker: Checker
) -> list[tuple[Crowding, Counter[int]]] | None:
    if takes_devices(info, checker.cluster):
        return None
    if info.takes_claims and checker.key_of(class_id, info) == class_id:
        return None
    crowded = checker.known(class_id, info).crowded_domains(class_id)
    return None if crowded is None else [(each, Counter()) for each in crowded]
