"""VolumeZone: a pod goes where the zone labels of its bound volumes say.

Rules: pkg/scheduler/framework/plugins/volumezone/volume_zone.go, v1.36.2.
"""

from collections.abc import Hashable
from typing import ClassVar, Final

from shared.columns.schema import Bools, Rows
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import (
    NEVER_FILTERS,
    SKIP_FILTER,
    Dependence,
    PreFilterResult,
    Reads,
    Scope,
)
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.status import Code, Verdicts, single_reason, unresolvable
from shared.kube.api.core_v1 import PersistentVolumeClaim
from shared.kube.csi_translation import BETA_REGION, BETA_ZONE, REGION, ZONE
from shared.plugin_names import VOLUME_ZONE
from shared.plugins.volumes.volume_hints import ZONE_EVENTS
from shared.plugins.volumes.volume_rules import (
    TOPOLOGY_LABELS,
    WAIT_FOR_FIRST_CONSUMER,
    class_of,
    volume_topologies,
)
from shared.selectors.node_selector import SelectedColumns, match_all, match_any
from shared.selectors.node_terms import Term, Terms
from shared.selectors.requirement import Requirement

REASON: Final = "node(s) had no available volume zone"
Topologies = tuple[tuple[str, frozenset[str]], ...]
"""Of all volumes: a label, and the values of which a node must have one."""
GENERAL_LABEL: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}


class VolumeZone:
    """Only claims that the pod names outright are looked at."""

    NAME: ClassVar[str] = VOLUME_ZONE
    reads_labels: ClassVar[frozenset[str]] = frozenset()
    ignores_requests: ClassVar[bool] = True
    reads_claims: ClassVar[bool] = True
    object_kinds: ClassVar[frozenset[str]] = frozenset(
        {"persistentvolumeclaims", "persistentvolumes", "storageclasses"}
    )
    pre_filter_depends: ClassVar[Dependence | None] = Dependence(Reads.OBJECTS, Scope.CLUSTER)
    filter_depends: ClassVar[Dependence] = Dependence(Reads.NODE, Scope.ROW)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return ZONE_EVENTS

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        if not pod.claim_keys:
            return NEVER_FILTERS
        topologies: list[tuple[str, frozenset[str]]] = []
        for key in pod.claim_keys:
            claim = cluster.objects.get("persistentvolumeclaims", key)
            if claim is None:
                name = key.rpartition("/")[2]
                return PreFilterResult(unresolvable(f'persistentvolumeclaim "{name}" not found'))
            problem = _unbound_problem(claim, cluster)
            if problem is not None:
                return PreFilterResult(unresolvable(problem))
            name = claim.spec.volume_name
            if not name:
                continue  # Its volume is still to be chosen.
            volume = cluster.objects.get("persistentvolumes", name)
            if volume is None:
                return PreFilterResult(unresolvable(f'persistentvolume "{name}" not found'))
            topologies += volume_topologies(volume).items()
        if not topologies:
            return SKIP_FILTER
        return PreFilterResult(state=tuple(topologies))

    def claims_likeness(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """The zones of its volumes."""
        result = self.pre_filter(pod, cluster)
        return None if result.status.is_rejected else result.state or ()

    def filter(self, state: Topologies, pod: PodInfo, cluster: ClusterView, rows: Rows) -> Verdicts:
        fits = match_volume_zones(state, SelectedColumns(cluster.nodes, rows))
        return single_reason(~fits, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)


def match_volume_zones(topologies: Topologies, columns: SelectedColumns) -> Bools:
    """Rows that lie where all volumes are, shape (count,). A node without any zone or region label
    is taken to lie where they are."""
    lies_anywhere = match_any((_term(*((key, frozenset()) for key in TOPOLOGY_LABELS)),), columns)
    return lies_anywhere | match_all((_zones(*each) for each in topologies), columns)


def _zones(key: str, values: frozenset[str]) -> Terms:
    """A beta label of the volume is also met by the general one of a node that has no beta label."""
    named = _term((key, values))
    general = GENERAL_LABEL.get(key)
    return (named,) if general is None else (named, _term((key, frozenset()), (general, values)))


def _term(*labels: tuple[str, frozenset[str]]) -> Term:
    """Labels that have one of the values; without values: that are not there."""
    requirements = (
        Requirement(key, values or None, is_wanted=bool(values)) for key, values in labels
    )
    return Term(tuple(requirements), (), ())


def _unbound_problem(claim: PersistentVolumeClaim, cluster: ClusterView) -> str | None:
    """Why a claim without a volume is a problem; None where it has one, or waits for its pod."""
    if claim.spec.volume_name:
        return None
    class_name = class_of(claim)
    if not class_name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = cluster.objects.get("storageclasses", class_name)
    if storage_class is None:
        return f'storageclass.storage.k8s.io "{class_name}" not found'
    if storage_class.volume_binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{class_name}"'
    if storage_class.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
        return "PersistentVolume had no name"
    return None
