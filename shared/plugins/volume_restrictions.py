"""VolumeRestrictions: disks that pods must not share on a node, claims for a single pod.

Rules: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go, v1.36.2.
"""

from typing import ClassVar, Final, NamedTuple

import numpy as np

from shared.columns.schema import Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import (
    NEVER_FILTERS,
    Dependence,
    PreFilterResult,
    Reads,
    Scope,
)
from shared.framework.pod_info import PodInfo
from shared.framework.status import SKIP, Code, Status, Verdicts
from shared.framework.volume_index import CLAIMS, volume_index
from shared.kernels.pod_volumes import Disk, disks
from shared.kernels.volumes import READ_WRITE_ONCE_POD
from shared.plugin_names import VOLUME_RESTRICTIONS

REASON_DISK: Final = "node(s) had no available disk"
REASON_CLAIM: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)
TEXTS: Final = (REASON_DISK, REASON_CLAIM)


class Restrictions(NamedTuple):
    """What the pod must not share."""

    disks: tuple[Disk, ...]
    is_claim_in_use: bool
    """A claim of the pod is for a single pod, and another has it: no node will do."""


class VolumeRestrictions:
    """A claim in use anywhere counts everywhere, hence the scope."""

    NAME: ClassVar[str] = VOLUME_RESTRICTIONS
    pre_filter_depends: ClassVar[Dependence | None] = Dependence(
        Reads.OBJECTS | Reads.PODS | Reads.NODE, Scope.CLUSTER
    )
    filter_depends: ClassVar[Dependence] = Dependence(Reads.PODS, Scope.ROW)

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        if not pod.spec.volumes:
            return NEVER_FILTERS
        own_disks = disks(pod.template)
        if not own_disks and not pod.claim_keys:
            return NEVER_FILTERS
        exclusive: set[str] = set()
        for key in pod.claim_keys:
            claim = cluster.objects.get(CLAIMS, key)
            if claim is None:
                name = key.rpartition("/")[2]
                problem = f'persistentvolumeclaim "{name}" not found'
                return PreFilterResult(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (problem,)))
            if READ_WRITE_ONCE_POD in (claim.spec.access_modes or ()):
                exclusive.add(key)
        in_use = bool(exclusive) and _is_any_used(exclusive, cluster)
        status = Status(Code.SUCCESS) if own_disks or in_use else SKIP
        return PreFilterResult(status, state=Restrictions(own_disks, in_use))

    def filter(
        self, state: Restrictions | None, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Verdicts:
        if state is None:
            state = self.pre_filter(pod, cluster).state or _NONE
        reasons = np.full(len(rows), 2 if state.is_claim_in_use else 0, np.int64)
        if state.disks:
            index = volume_index(cluster)
            taken = {row for disk in state.disks for row in index.conflict_rows(disk)}
            if taken:
                reasons[np.isin(rows, np.array(list(taken), np.intp))] = 1
        codes = (reasons != 0) * np.uint8(Code.UNSCHEDULABLE)
        return Verdicts(codes, reasons, TEXTS)


_NONE: Final = Restrictions((), False)


def _is_any_used(claim_keys: set[str], cluster: ClusterView) -> bool:
    """Whether a pod on a real node has one of the claims; ghosts do not count, as upstream."""
    index = volume_index(cluster)
    present = cluster.nodes.present
    return any(present[row] for key in claim_keys for row in index.claim_rows(key))
