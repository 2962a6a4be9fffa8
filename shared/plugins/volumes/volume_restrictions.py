"""VolumeRestrictions: disks that pods must not share on a node, claims for a single pod.

Rules: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go, v1.36.2.
"""

from collections.abc import Hashable, Iterable
from typing import ClassVar, Final

import msgspec
import numpy as np

from shared.columns.schema import NO_ROWS, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import (
    NEVER_FILTERS,
    Delta,
    Dependence,
    PreFilterResult,
    Reads,
    Scope,
)
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.status import SKIP, SUCCESS, Code, Verdicts, unresolvable
from shared.kube.pod_volumes import Disk, disks
from shared.plugin_names import VOLUME_RESTRICTIONS
from shared.plugins.volumes.volume_hints import RESTRICTIONS_EVENTS
from shared.plugins.volumes.volume_index import CLAIMS, VolumeIndex
from shared.plugins.volumes.volume_rules import READ_WRITE_ONCE_POD

REASON_DISK: Final = "node(s) had no available disk"
REASON_CLAIM: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)
TEXTS: Final = (REASON_DISK, REASON_CLAIM)


class Restrictions(msgspec.Struct, eq=False):
    """What the pod must not share."""

    disks: tuple[Disk, ...] = ()
    exclusive: frozenset[str] = frozenset()
    """The claims that are for a single pod."""
    used_count: int = 0
    """How many of these are in use. Above 0, no node will do."""
    use_count: int = 0
    """Volumes of pods with claims of these names: pods that only come or go in thought count by name
    alone, as upstream, whatever their namespace."""


class VolumeRestrictions:
    """A claim in use anywhere counts everywhere, hence the scope."""

    NAME: ClassVar[str] = VOLUME_RESTRICTIONS
    reads_labels: ClassVar[frozenset[str]] = frozenset()
    ignores_requests: ClassVar[bool] = True
    reads_claims: ClassVar[bool] = True
    object_kinds: ClassVar[frozenset[str]] = frozenset({CLAIMS})
    pre_filter_depends: ClassVar[Dependence | None] = Dependence(
        Reads.OBJECTS | Reads.PODS | Reads.NODE, Scope.CLUSTER
    )
    filter_depends: ClassVar[Dependence] = Dependence(Reads.PODS, Scope.ROW)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return RESTRICTIONS_EVENTS

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        if not pod.spec.volumes:
            return NEVER_FILTERS
        own_disks = disks(pod.template)
        if not own_disks and not pod.claim_keys:
            return NEVER_FILTERS
        exclusive = set[str]()
        for key in pod.claim_keys:
            claim = cluster.objects.get(CLAIMS, key)
            if claim is None:
                name = key.rpartition("/")[2]
                return PreFilterResult(unresolvable(f'persistentvolumeclaim "{name}" not found'))
            if READ_WRITE_ONCE_POD in (claim.spec.access_modes or ()):
                exclusive.add(key)
        used, uses = _count(exclusive, cluster) if exclusive else (0, 0)
        status = SUCCESS if own_disks or used else SKIP
        state = Restrictions(own_disks, frozenset(exclusive), used, uses)
        return PreFilterResult(status, state=state)

    def claims_likeness(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Claims for a single pod are looked at by who has them."""
        result = self.pre_filter(pod, cluster)
        is_free = not result.status.is_rejected and not (result.state or Restrictions()).exclusive
        return () if is_free else None

    def filter(
        self, state: Restrictions, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Verdicts:
        reasons = np.full(len(rows), 2 if state.used_count > 0 else 0, np.int64)
        if state.disks:
            index = cluster.derived(VolumeIndex)
            taken = {row for disk in state.disks for row in index.conflict_rows(disk)}
            if taken:
                reasons[np.isin(rows, np.array(list(taken), np.intp))] = 1
        codes = (reasons != 0) * np.uint8(Code.UNSCHEDULABLE)
        return Verdicts(codes, reasons, TEXTS)

    def update_filter(
        self, state: Restrictions, pod: PodInfo, cluster: ClusterView, delta: Delta
    ) -> Rows | None:
        """Nothing changes beyond the changed rows, unless an exclusive claim was taken or freed."""
        if not state.exclusive:
            return NO_ROWS
        used, uses = _count(state.exclusive, cluster)
        if delta.is_what_if:
            # A claim counts once however many pods have it, but each pod that goes or comes counts.
            state.used_count += uses - state.use_count
            state.use_count = uses
        elif (used, uses) != (state.used_count, state.use_count):
            return None
        return NO_ROWS

    def heeded_classes(
        self, state: Restrictions, class_ids: set[int], cluster: ClusterView
    ) -> set[int]:
        names = _names(state.exclusive)

        def may_matter(class_id: int) -> bool:
            info = cluster.classes.get(class_id)
            return info is None or not names.isdisjoint(_names(info.claim_keys))

        return set(filter(may_matter, class_ids)) if names else set()


def _names(claim_keys: Iterable[str]) -> set[str]:
    return {key.rpartition("/")[2] for key in claim_keys}


def _count(claim_keys: Iterable[str], cluster: ClusterView) -> tuple[int, int]:
    """How many of the claims are used by pods, and how many volumes of pods are claims of these names.

    A claim is in use where a pod on a real node has it: ghosts do not count, as upstream.
    """
    index = cluster.derived(VolumeIndex)
    present = cluster.nodes.present
    used = sum(any(present[row] for row in index.claim_rows(key)) for key in claim_keys)
    return used, sum(index.uses_of_name.get(name, 0) for name in _names(claim_keys))
