"""Claims and persistent volumes: who is bound to whom, what is asked for, where a volume can go.

Facts about single objects; which volume a claim gets is chosen in `volume_pool.py`.

Rules: staging/src/k8s.io/component-helpers/storage/volume/{helpers.go,pv_helpers.go}, v1.36.
"""

from collections.abc import Iterable
from typing import Final

from shared.kube import quantity
from shared.kube.api.core_v1 import PersistentVolumeClaim
from shared.kube.api.core_v1_parts import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
)
from shared.kube.api.meta_v1 import LabelSelector, Quantity, ResourceList
from shared.kube.api.storage_v1 import CsiStorageCapacity, TopologySelectorTerm
from shared.kube.csi_translation import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_SEPARATOR
from shared.selectors.label_selector import SelectorError, parse_label_selector
from shared.selectors.node_terms import Term, Terms, of_labels_alone, parse_selector

BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
CLAIM_LOST: Final = "Lost"
VOLUME_AVAILABLE: Final = "Available"
FILESYSTEM: Final = "Filesystem"
STORAGE: Final = "storage"
TOPOLOGY_LABELS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)


def class_of(found: PersistentVolumeClaim | PersistentVolume) -> str:
    """The name of its storage class; empty where it has none."""
    annotations = found.metadata.annotations or {}
    return annotations.get(BETA_STORAGE_CLASS, found.spec.storage_class_name or "")


def is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """The volume is bound, or bound in advance, to this very claim (IsVolumeBoundToClaim)."""
    reference = volume.spec.claim_ref
    if reference is None:
        return False
    meta = claim.metadata
    return (
        reference.name == meta.name
        and reference.namespace == meta.namespace
        and reference.uid in ("", meta.uid)
    )


def storage_nanos(resources: ResourceList | None) -> int:
    """The exact storage of a request or a capacity, in units of 1e-9; 0 where none is stated."""
    return quantity.nanos((resources or {}).get(STORAGE, 0))


def requests_of(claim: PersistentVolumeClaim) -> ResourceList:
    """What the claim asks for."""
    return (claim.spec.resources and claim.spec.resources.requests) or {}


def requested_nanos(claim: PersistentVolumeClaim) -> int:
    """The storage that it asks for, exactly."""
    return storage_nanos(requests_of(claim))


def volume_size_max(capacity: CsiStorageCapacity) -> int | None:
    """Bytes of the largest volume that can be made from the capacity; None where it does not say."""
    stated: Quantity | None = capacity.maximum_volume_size
    if stated is None:
        stated = capacity.capacity
    return None if stated is None else quantity.value(stated)


def volume_topologies(volume: PersistentVolume) -> dict[str, frozenset[str]]:
    """The zone and region labels of a volume: a node must have one of the values of each. A label with
    an empty zone in it is ignored."""
    labels = volume.metadata.labels or {}
    stated = {key: labels[key].split(ZONE_SEPARATOR) for key in TOPOLOGY_LABELS if key in labels}
    found = {key: frozenset(zone.strip() for zone in zones) for key, zones in stated.items()}
    return {key: zones for key, zones in found.items() if "" not in zones}


def affinity_terms(required: NodeSelector | None) -> Terms | None:
    """A volume's node affinity, ready to match; None where the volume can go anywhere."""
    return None if required is None else of_labels_alone(parse_selector(required))


def selector_terms(selector: LabelSelector | None) -> Terms:
    """A label selector as terms for columns; an absent one, or one that cannot be read, has none
    (nodeHasAccess in pkg/scheduler/framework/plugins/volumebinding/binder.go, v1.36.2)."""
    try:
        parsed = parse_label_selector(selector)
    except SelectorError:
        return ()
    if parsed.selects_nothing:
        return ()
    return (Term(parsed.requirements, (), ()),)


def topology_terms(allowed: Iterable[TopologySelectorTerm]) -> Terms:
    """Where a storage class that restricts them has its volumes; a term without expressions, or with one
    that cannot be read, matches nothing (MatchTopologySelectorTerms in
    pkg/apis/core/v1/helper/helpers.go, v1.36). The API server takes values that no label can have."""
    stated = (
        [
            NodeSelectorRequirement(key=each.key, operator="In", values=each.values)
            for each in entry.match_label_expressions or ()
        ]
        for entry in allowed
    )
    terms = [NodeSelectorTerm(match_expressions=expressions) for expressions in stated]
    return parse_selector(NodeSelector(node_selector_terms=terms))
