"""Checker: whether pods pass every filter on the few rows that were proposed for them.

The scorers' engine looks at all rows, and rates them too. Both run the same plugin code on the
same columns, and keep what comes of it in the same way (`Evaluation`): where a scorer and the committer
disagree on more than freshness, a proposal would loop for ever.
"""

from collections.abc import Hashable
from typing import Final

import numpy as np

from shared.columns.schema import Bools, Rows
from shared.engine.evaluation import Alike, Evaluation, Evaluations
from shared.engine.families import Families, Family, passing_part, rooms_asked
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.framework import Framework

ROW_BYTES: Final = 2
"""Two masks."""
FEW_ROWS: Final = 8
"""Up to so many are asked about room one by one, in plain numbers, which is quicker."""
CLASSES_BYTES_MAX: Final = 64 << 20
"""3,600 classes at 5,000 nodes, 33 at a million: to begin anew with one costs less than 0.1 ms."""


class Checker:
    """Whether pods of a class pass every filter on given rows right now.

    What a placement cannot change is remembered per class and row, so that the usual check costs
    the filters of NodeResourcesFit and the like on the proposed rows and nothing else.
    """

    def __init__(self, cluster: ClusterView, frameworks: dict[str, Framework]) -> None:
        self._cluster = cluster
        self._frameworks = frameworks
        self.evaluations = Evaluations(cluster, ROW_BYTES, CLASSES_BYTES_MAX)
        self._families = Families(cluster, frameworks, ROW_BYTES)

    def passing(
        self, class_id: int, info: PodInfo, profile: str, rows: Rows, own_uid: str = ""
    ) -> Bools:
        """Shape (n,): the pod may be placed on the row. Rows must be distinct. `own_uid` names a pod
        that is nominated itself."""
        key = self.key_of(class_id, info, profile)
        if isinstance(key, Alike) or key not in self.evaluations:
            passes = self._passing_alone(key, info, profile, rows)
            if passes is not None:
                return passes
        return self.evaluations.of(key, info, self._frameworks[profile]).filters.passing(
            rows, own_uid
        )

    def known(self, class_id: int, info: PodInfo, profile: str) -> Evaluation:
        """What is known of the class, or of all pods that are like this one but for their claims."""
        key = self.key_of(class_id, info, profile)
        return self.evaluations.of(key, info, self._frameworks[profile])

    def key_of(self, class_id: int, info: PodInfo, profile: str) -> Hashable:
        """Equal for pods of which the filters say the same of nodes that none of them came to: those of
        a class, and those that are alike but for their claims."""
        alike = self._families.alike(info, profile)
        return class_id if alike is None else alike

    def forget_all(self) -> None:
        self.evaluations.forget_all()
        self._families.kept.forget_all()

    def _passing_alone(
        self, key: Hashable, info: PodInfo, profile: str, rows: Rows
    ) -> Bools | None:
        """The same of a pod that may be the only one of its class, from what is known of its family;
        None: to be found out in the usual way."""
        family = self._families.of(key, info, profile)
        if not isinstance(family, Family):
            return None
        has_room = self._with_room(profile, info, rows)
        if has_room is None:
            has_room = passing_part(family.own, info, self._cluster, rows)
            if has_room is None:
                return None
        passes = has_room & family.shared.filters.passing(rows)
        if family.claims is None:
            return passes
        with_claims = passing_part(family.claims, info, self._cluster, rows)
        return None if with_claims is None else passes & with_claims

    def _with_room(self, profile: str, info: PodInfo, rows: Rows) -> Bools | None:
        """Whether the pod passes the filters that do not ignore requests, of a few rows; None where
        these look at more than room."""
        filters = self._families.parts[profile].room_filters
        if filters is None or len(rows) > FEW_ROWS:
            return None
        rooms = rooms_asked(filters, info, self._cluster)
        if rooms is None:
            return None
        asked, nodes = list(zip(filters, rooms, strict=True)), self._cluster.nodes
        has_room = [
            all(plugin.has_room(room, nodes, row) for plugin, room in asked)
            for row in rows.tolist()
        ]
        return np.array(has_room, np.bool_)
