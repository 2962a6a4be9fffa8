"""NodeVolumeLimits: a CSI driver attaches only so many volumes to a node.

Rules: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go, v1.36.2.
"""

from collections.abc import Hashable
from typing import ClassVar, Final

import numpy as np

from shared.columns.rows import row_index
from shared.columns.schema import Bools, Int64s, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import NEVER_FILTERS, Dependence, PreFilterResult, Reads, Scope
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.status import Code, ReasonBits, Verdicts
from shared.grouped import tally
from shared.kube.csi_translation import Untranslatable
from shared.kube.pod_volumes import (
    Attachable,
    inline_attachable,
    may_attach,
    ownership_problem,
)
from shared.plugin_names import NODE_VOLUME_LIMITS
from shared.plugins.volumes.csi_node_columns import CsiNodeColumns
from shared.plugins.volumes.volume_hints import LIMITS_EVENTS
from shared.plugins.volumes.volume_index import CLAIMS, VolumeIndex, attachable_of

REASON: Final = "node(s) exceed max volume count"


class _Counting:
    """The PreFilter state, in which Filter notes what it came to."""

    def __init__(self) -> None:
        self.has_failed = False
        """Volumes could not be counted on some node."""


class NodeVolumeLimits:
    """What pods attach is counted per node as they come and go (`VolumeIndex`)."""

    NAME: ClassVar[str] = NODE_VOLUME_LIMITS
    ignores_requests: ClassVar[bool] = True
    reads_claims: ClassVar[bool] = True
    object_kinds: ClassVar[frozenset[str]] = frozenset(
        {CLAIMS, "persistentvolumes", "storageclasses", "csinodes", "volumeattachments"}
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
        return PreFilterResult(state=_Counting())

    def claims_likeness(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """The drivers of its volumes. Where pods have one already it takes no further place, which makes
        no difference as long as there is one."""
        if not pod.spec.volumes:
            return ()
        attached = cluster.derived(VolumeIndex).attached
        drivers: list[str] = []
        names: set[str] = set()
        shared: list[tuple[str, list[int]]] = []
        for volume in pod.spec.volumes or ():
            if volume.persistent_volume_claim is None and may_attach(volume):
                return None
        for use in pod.claim_uses:
            claim = cluster.objects.get(CLAIMS, use.key)
            if claim is None:
                return None
            found = attachable_of(claim, cluster.objects)
            if found is None:
                continue
            if found.name in names:
                return None
            names.add(found.name)
            drivers.append(found.driver)
            there = attached.rows_with_pods(found.name)
            if there:
                shared.append((found.driver, there))
        for driver, there in shared:
            limits = cluster.derived(CsiNodeColumns).limits(driver)
            counts = attached.count(driver, cluster.nodes.capacity)
            more = drivers.count(driver)
            if any(0 <= limits[row] < counts[row] + more for row in there):
                return None
        return tuple(drivers)

    def filter(
        self, state: _Counting | None, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Verdicts:
        check = _Check(cluster, rows)
        check.read_volumes(pod)
        check.count()
        verdicts = check.verdicts()
        if state is not None and (verdicts.codes == Code.ERROR).any():
            state.has_failed = True
        return verdicts

    def has_failed(self, state: _Counting) -> bool:
        """Whether volumes could not be counted on some node; see `FailingFilter`."""
        return state.has_failed


class _Check:
    """One pod on some nodes. What goes wrong with the pod's volumes stops at the first of them."""

    def __init__(self, cluster: ClusterView, rows: Rows) -> None:
        self._cluster = cluster
        self._rows = rows
        self._csi: CsiNodeColumns = cluster.derived(CsiNodeColumns)
        self._codes = np.zeros(len(rows), np.uint8)
        self._reasons = np.zeros(len(rows), np.int64)
        self._told = ReasonBits((REASON,))
        self._new: dict[str, Attachable] = {}
        """By name: a volume that the pod has twice is attached once."""

    def verdicts(self) -> Verdicts:
        return Verdicts(self._codes, self._reasons, self._told.texts)

    def read_volumes(self, pod: PodInfo) -> None:
        """What the pod attaches (filterAttachableVolumes)."""
        uses = iter(pod.claim_uses)
        objects = self._cluster.objects
        for volume in pod.spec.volumes or ():
            if volume.persistent_volume_claim is None and volume.ephemeral is None:
                inline = inline_attachable(volume)
                if isinstance(inline, Untranslatable):
                    self._fail(self._csi.exist()[self._rows], Code.ERROR, inline.problem)
                elif inline is not None:
                    self._new[inline.name] = inline
                continue
            use = next(uses)
            if not use.name:
                self._fail_everywhere(Code.ERROR, "PersistentVolumeClaim had no name")
                return
            claim = objects.get(CLAIMS, use.key)
            if claim is None:
                missing = f'persistentvolumeclaim "{use.name}" not found'
                told = f"looking up PVC {use.key}: {missing}"
                self._fail_everywhere(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, told)
                return
            if use.is_ephemeral:
                problem = ownership_problem(pod.namespace, pod.template, claim)
                if problem is not None:
                    self._fail_everywhere(Code.ERROR, problem)
                    return
            attachable = attachable_of(claim, objects)
            if attachable is not None:
                self._new[attachable.name] = attachable

    def count(self) -> None:
        """Compares what there would be with the limits, driver by driver."""
        if not self._new or not self._cluster.objects.all("csinodes"):
            return
        index = self._cluster.derived(VolumeIndex)
        self._fail_with_others(index)
        drivers: dict[str, int] = {}
        for volume in self._new.values():
            tally(drivers, volume.driver, 1)
        where = row_index(self._rows)
        capacity = self._cluster.nodes.capacity
        for driver, new_count in drivers.items():
            more: Int64s | int = new_count
            for volume in self._new.values():
                there = index.attached.rows_with_pods(volume.name)
                if there and volume.driver == driver:
                    # Where a pod has it already, it takes no further place.
                    is_one = len(there) == 1
                    more = more - (self._rows == there[0] if is_one else np.isin(self._rows, there))
            limits = self._csi.limits(driver)[where]
            total = index.attached.count(driver, capacity)[where] + more
            too_many: Bools = (total > limits) & (limits >= 0)
            if np.count_nonzero(too_many):
                self._fail(too_many & (more > 0), Code.UNSCHEDULABLE, REASON)

    def _fail_with_others(self, index: VolumeIndex) -> None:
        """A pod on the node whose volumes cannot be read makes counting there an error."""
        problems = index.problems()
        if not problems:
            return
        limited = self._csi.have_limits()
        for position, row in enumerate(self._rows.tolist()):
            if row in problems and limited[row]:
                here = np.zeros(len(self._rows), np.bool_)
                here[position] = True
                self._fail(here, Code.ERROR, min(problems[row]))

    def _fail_everywhere(self, code: Code, text: str) -> None:
        self._fail(np.ones(len(self._rows), np.bool_), code, text)

    def _fail(self, where: Bools, code: Code, text: str) -> None:
        """The first failure of a node counts."""
        where = where & (self._codes == 0)
        if not where.any():
            return
        self._codes[where] = code
        self._reasons[where] = self._told.mask(text)
