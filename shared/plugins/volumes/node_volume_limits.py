"""NodeVolumeLimits: a CSI driver attaches only so many volumes to a node.

Rules: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go, v1.36.2.
"""

from collections.abc import Hashable
from typing import ClassVar, Final

import numpy as np

from shared.columns.rows import row_index
from shared.columns.schema import Bools, Int64s, Rows
from shared.feature_gates import VOLUME_LIMIT_SCALING
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import NEVER_FILTERS, Dependence, PreFilterResult, Reads, Scope
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.status import Code, FirstReasons, Verdicts
from shared.grouped import tally
from shared.kube.csi_translation import Untranslatable
from shared.kube.pod_volumes import Attachable, inline_attachable, may_attach, ownership_problem
from shared.plugin_names import NODE_VOLUME_LIMITS
from shared.plugins.volumes.csi_node_columns import CsiNodeColumns
from shared.plugins.volumes.volume_hints import LIMITS_EVENTS
from shared.plugins.volumes.volume_index import CLAIMS, VolumeIndex, attachable_of, is_unreadable

DRIVERS: Final = "csidrivers"
REASON: Final = "node(s) exceed max volume count"
REASON_NO_DRIVER: Final = "CSI driver is not installed on the node"


class _Counting:
    """The PreFilter state, in which Filter notes what it came to."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self.failed_somewhere = False
        """Volumes could not be counted on some node that Filter was asked about."""

    @property
    def has_failed(self) -> bool:
        """Or cannot on any other, as long as there are pods whose volumes cannot be read: also nominated
        ones, with which a node is asked about first."""
        if self.failed_somewhere or self._cluster.derived(VolumeIndex).problems:
            return True
        classes, objects = self._cluster.classes, self._cluster.objects
        nominated = {each.class_id for each in self._cluster.nominations.all()}
        return any(is_unreadable(classes[class_id], objects) for class_id in nominated)


class NodeVolumeLimits:
    """What pods attach is counted per node as they come and go (`VolumeIndex`)."""

    NAME: ClassVar[str] = NODE_VOLUME_LIMITS
    reads_labels: ClassVar[frozenset[str]] = frozenset()
    ignores_requests: ClassVar[bool] = True
    reads_claims: ClassVar[bool] = True
    may_fail: ClassVar[bool] = True
    object_kinds: ClassVar[frozenset[str]] = frozenset(
        {CLAIMS, "persistentvolumes", "storageclasses", "csinodes", DRIVERS, "volumeattachments"}
    )
    pre_filter_depends: ClassVar[Dependence | None] = None
    filter_depends: ClassVar[Dependence] = Dependence(
        Reads.NODE | Reads.PODS | Reads.OBJECTS, Scope.ROW
    )

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return LIMITS_EVENTS

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        if not any(may_attach(volume) for volume in pod.spec.volumes or ()):
            return NEVER_FILTERS
        return PreFilterResult(state=_Counting(cluster))

    def claims_likeness(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """The drivers of its volumes. Where pods have one already it takes no further place, which makes
        no difference as long as there is one."""
        if not pod.spec.volumes:
            return ()
        found: list[Attachable] = []
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None and may_attach(volume):
                return None
        for use in pod.claim_uses:
            claim = cluster.objects.get(CLAIMS, use.key)
            if claim is None:
                return None
            attachable = attachable_of(claim, cluster.objects)
            if attachable is not None:
                found.append(attachable)
        if len({each.name for each in found}) < len(found):
            return None
        attached = cluster.derived(VolumeIndex).attached
        drivers = [each.driver for each in found]
        for driver, name, _ in found:
            there = attached.rows_with_pods(name)
            if there:
                limits = cluster.derived(CsiNodeColumns).limits(driver)
                counts = attached.count(driver, cluster.nodes.capacity)
                more = drivers.count(driver)
                if any(0 <= limits[row] < counts[row] + more for row in there):
                    return None
        return tuple((each.driver, each.is_migrated) for each in found)

    def filter(self, state: _Counting, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        said = FirstReasons(len(rows), (REASON,))
        new = _new_volumes(pod, cluster, rows, said)
        if new and cluster.gates[VOLUME_LIMIT_SCALING]:
            _ask_for_drivers(new, cluster, rows, said)
        if new and cluster.objects.all("csinodes"):
            _count(new, cluster, rows, said)
        state.failed_somewhere |= bool((said.codes == Code.ERROR).any())
        return said.verdicts()


def _new_volumes(
    pod: PodInfo, cluster: ClusterView, rows: Rows, said: FirstReasons
) -> dict[str, Attachable]:
    """What the pod attaches, by name: a volume that it has twice is attached once. What goes wrong with
    its claims ends it at the first of them (filterAttachableVolumes)."""
    found: dict[str, Attachable] = {}
    uses = iter(pod.claim_uses)
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is None and volume.ephemeral is None:
            inline = inline_attachable(volume)
            if isinstance(inline, Untranslatable):
                here = cluster.derived(CsiNodeColumns).exist()[rows]
                said.refuse(here, Code.ERROR, inline.problem)
            elif inline is not None:
                found[inline.name] = inline
            continue
        use = next(uses)
        claim = cluster.objects.get(CLAIMS, use.key)
        code, problem = Code.ERROR, None
        if not use.name:
            problem = "PersistentVolumeClaim had no name"
        elif claim is None:
            code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            problem = f'looking up PVC {use.key}: persistentvolumeclaim "{use.name}" not found'
        elif use.is_ephemeral:
            problem = ownership_problem(pod.namespace, pod.template, claim)
        if problem is not None:
            said.refuse(np.ones(len(rows), np.bool_), code, problem)
            return {}
        assert claim is not None, "that would be a problem"
        attachable = attachable_of(claim, cluster.objects)
        if attachable is not None:
            found[attachable.name] = attachable
    return found


def _ask_for_drivers(
    new: dict[str, Attachable], cluster: ClusterView, rows: Rows, said: FirstReasons
) -> None:
    """Refuses nodes without a driver that wants that (checkCSIDriverOnNode). What an in-tree plugin
    attaches there is not attached by a driver as long as the node tells of none."""
    csi = cluster.derived(CsiNodeColumns)
    for volume in new.values():
        driver = cluster.objects.get(DRIVERS, volume.driver)
        if driver is not None and driver.spec.prevent_pod_scheduling_if_missing:
            lacking = ~csi.have(volume.driver)
            if volume.is_migrated:
                lacking &= csi.exist()
            said.refuse(lacking[rows], Code.UNSCHEDULABLE, f"{volume.driver} {REASON_NO_DRIVER}")


def _count(
    new: dict[str, Attachable], cluster: ClusterView, rows: Rows, said: FirstReasons
) -> None:
    """Compares what there would be with the limits, driver by driver."""
    csi, index = cluster.derived(CsiNodeColumns), cluster.derived(VolumeIndex)
    if index.problems:
        # A pod on the node whose volumes cannot be read makes counting there an error.
        limited = csi.have_limits()[rows]
        for row in sorted(index.problems.keys() & set(rows.tolist())):
            said.refuse(limited & (rows == row), Code.ERROR, min(index.problems[row]))
    drivers: dict[str, int] = {}
    for volume in new.values():
        tally(drivers, volume.driver, 1)
    where = row_index(rows)
    for driver, new_count in drivers.items():
        more: Int64s | int = new_count
        for volume in new.values():
            there = index.attached.rows_with_pods(volume.name)
            if there and volume.driver == driver:
                # Where a pod has it already, it takes no further place.
                is_one = len(there) == 1
                more = more - (rows == there[0] if is_one else np.isin(rows, there))
        limits = csi.limits(driver)[where]
        total = index.attached.count(driver, cluster.nodes.capacity)[where] + more
        too_many: Bools = (total > limits) & (limits >= 0)
        if np.count_nonzero(too_many):
            said.refuse(too_many & (more > 0), Code.UNSCHEDULABLE, REASON)
