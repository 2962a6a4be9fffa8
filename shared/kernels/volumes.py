"""Claims and persistent volumes: who is bound to whom, what could be bound, where a volume can go.

Facts about single objects come first, then the choice of volumes over columns of nodes. Upstream
tries every volume on every node; here volumes that ask for one label are found by that label's
column, so that 5,000 nodes with a local disk each cost one look at each disk.

Rules: staging/src/k8s.io/component-helpers/storage/volume/{helpers.go,pv_helpers.go}, v1.36.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.columns.schema import Bools
from shared.columns.table import NodeTable
from shared.kernels.label_selector import Selector
from shared.kernels.node_selector import (
    LabelRequirement,
    Operator,
    Term,
    Terms,
    match_any,
    match_term,
    parse_selector,
)
from shared.kernels.rows import RowIndex
from shared.kube import quantity
from shared.kube.objects import (
    CsiStorageCapacity,
    LabelSelector,
    NodeSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    Quantity,
    ResourceList,
    TopologySelectorTerm,
)

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
CLAIM_LOST: Final = "Lost"
VOLUME_AVAILABLE: Final = "Available"
FILESYSTEM: Final = "Filesystem"
STORAGE: Final = "storage"

Indices = NDArray[np.intp]
NONE: Final = -1
"""No volume."""


# Facts about one object ---------------------------------------------------------------------------


def claim_class(claim: PersistentVolumeClaim) -> str:
    """The name of the claim's storage class; empty where it has none."""
    annotations = claim.metadata.annotations or {}
    if BETA_STORAGE_CLASS in annotations:
        return annotations[BETA_STORAGE_CLASS]
    return claim.spec.storage_class_name or ""


def volume_class(volume: PersistentVolume) -> str:
    """The name of the volume's storage class; empty where it has none."""
    annotations = volume.metadata.annotations or {}
    return annotations.get(BETA_STORAGE_CLASS, volume.spec.storage_class_name)


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """The controller has finished binding the claim to a volume."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})


def selected_node(claim: PersistentVolumeClaim) -> str | None:
    """The node for which the claim's volume is being provisioned."""
    return (claim.metadata.annotations or {}).get(SELECTED_NODE)


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
    stated = (resources or {}).get(STORAGE)
    return 0 if stated is None else quantity.nanos(stated)


def requested_nanos(claim: PersistentVolumeClaim) -> int:
    """What the claim asks for, exactly."""
    resources = claim.spec.resources
    return storage_nanos(None if resources is None else resources.requests)


def volume_size_max(capacity: CsiStorageCapacity) -> int | None:
    """Bytes of the largest volume that can be made from the capacity; None where it does not say."""
    stated: Quantity | None = capacity.maximum_volume_size
    if stated is None:
        stated = capacity.capacity
    return None if stated is None else quantity.value(stated)


def affinity_terms(required: NodeSelector | None) -> Terms | None:
    """A volume's node affinity, ready to match; None where the volume can go anywhere.

    Upstream matches against the node's labels alone, so for a volume every node's name is empty.
    """
    if required is None:
        return None
    return tuple(
        term._replace(names=())
        for term in parse_selector(required)
        if all((name.name == "") == name.is_equal for name in term.names)
    )


def selector_terms(selector: LabelSelector | None) -> Terms:
    """A label selector as terms for columns; an absent one, or one that cannot be read, has none."""
    if selector is None:
        return ()
    found = [
        LabelRequirement(key, Operator.IN, (value,))
        for key, value in (selector.match_labels or {}).items()
    ]
    for requirement in selector.match_expressions or ():
        if requirement.operator not in _LABEL_OPERATORS:
            return ()
        operator = Operator(requirement.operator)
        found.append(LabelRequirement(requirement.key, operator, tuple(requirement.values or ())))
    return (Term(tuple(found), (), ()),)


_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def match_topologies(
    allowed: Sequence[TopologySelectorTerm], nodes: NodeTable, index: RowIndex, count: int
) -> Bools:
    """Rows that a storage class allows, shape (count,); without terms, all.

    Rule: pkg/apis/core/v1/helper/helpers.go MatchTopologySelectorTerms, v1.36; a term without
    expressions matches nothing.
    """
    if not allowed:
        return np.ones(count, np.bool_)
    found = np.zeros(count, np.bool_)
    for entry in allowed:
        expressions = entry.match_label_expressions or ()
        if expressions:
            wanted = (
                LabelRequirement(e.key, Operator.IN, tuple(e.values or ())) for e in expressions
            )
            found |= match_term(Term(tuple(wanted), (), ()), nodes, index, count)
    return found


# Choosing volumes -----------------------------------------------------------------------------------


class Candidate(NamedTuple):
    """A persistent volume as far as matching reads it."""

    volume: PersistentVolume
    capacity_nanos: int
    terms: Terms | None
    """Node affinity; None: it can go anywhere."""


def candidate(volume: PersistentVolume) -> Candidate:
    """Raises QuantityError where the capacity cannot be read."""
    affinity = volume.spec.node_affinity
    terms = affinity_terms(None if affinity is None else affinity.required)
    return Candidate(volume, storage_nanos(volume.spec.capacity), terms)


class Offers(NamedTuple):
    """The volumes that a claim may get, on whatever node. Entries are indices of candidates."""

    reserved: tuple[int, ...]
    """Bound in advance to the claim: the first of them is taken, or none at all."""
    free: tuple[int, ...]
    """Smallest first."""


NO_OFFERS: Final = Offers((), ())


def offers(
    claim: PersistentVolumeClaim, candidates: Sequence[Candidate], selector: Selector
) -> Offers:
    """Sorts out the candidates (of the claim's class) that do not suit the claim on any node.

    Rule: FindMatchingVolume, all but its look at the node.
    """
    requested = requested_nanos(claim)
    mode = claim.spec.volume_mode or FILESYSTEM
    attributes_class = claim.spec.volume_attributes_class_name or ""
    modes = set(claim.spec.access_modes or ())
    reserved: list[int] = []
    free: list[int] = []
    for i, (volume, capacity, _) in enumerate(candidates):
        spec = volume.spec
        is_reserved = spec.claim_ref is not None
        if (
            capacity < requested
            or (is_reserved and not is_reserved_for(volume, claim))
            or (spec.volume_mode or FILESYSTEM) != mode
            or (spec.volume_attributes_class_name or "") != attributes_class
            or volume.metadata.deletion_timestamp is not None
        ):
            continue
        if is_reserved:
            reserved.append(i)
        elif (
            volume.status.phase == VOLUME_AVAILABLE
            and modes.issubset(spec.access_modes or ())
            and selector.matches(volume.metadata.labels or {})
        ):
            free.append(i)
    free.sort(key=lambda i: candidates[i].capacity_nanos)
    return Offers(tuple(reserved), tuple(free))


def choose(
    offered: Offers,
    candidates: Sequence[Candidate],
    taken: Sequence[Indices],
    nodes: NodeTable,
    index: RowIndex,
    count: int,
) -> Indices:
    """For each row the volume that the claim gets there, or NONE; shape (count,).

    `taken` are the choices for the pod's earlier claims: on each row, theirs are not chosen again.
    """
    chosen = np.full(count, NONE, np.intp)
    is_open = np.ones(count, np.bool_)
    for i in offered.reserved:
        here = is_open & _is_free(i, taken)
        fits = _match(candidates[i].terms, nodes, index, count)
        chosen[here & fits] = i
        is_open &= ~here
    if not offered.free or not is_open.any():
        return chosen
    place = np.full(count, len(offered.free), np.intp)
    affinities = [candidates[i].terms for i in offered.free]
    for places in _by_affinity(affinities, nodes, index, count, len(taken) + 1):
        _improve(place, places, offered.free, taken)
    is_open &= place < len(offered.free)
    chosen[is_open] = np.array(offered.free, np.intp)[place[is_open]]
    return chosen


def first_match(
    affinities: Sequence[Terms | None], nodes: NodeTable, index: RowIndex, count: int
) -> Indices:
    """For each row the first of the affinities that it meets, or NONE; shape (count,)."""
    place = np.full(count, len(affinities), np.intp)
    for places in _by_affinity(affinities, nodes, index, count, 1):
        np.minimum(place, places[0], out=place)
    place[place == len(affinities)] = NONE
    return place


def _is_free(i: int, taken: Sequence[Indices]) -> Bools | bool:
    free: Bools | bool = True
    for others in taken:
        free = free & (others != i)
    return free


def _match(terms: Terms | None, nodes: NodeTable, index: RowIndex, count: int) -> Bools:
    return np.ones(count, np.bool_) if terms is None else match_any(terms, nodes, index, count)


def _improve(
    place: Indices, places: Sequence[Indices], free: Sequence[int], taken: Sequence[Indices]
) -> None:
    """Lowers `place` where volumes with one affinity offer something that comes earlier.

    `places` has the best of them for each row, then the second best, and so on: as many as could be
    taken, and one more. A place beyond the end stands for nothing.
    """
    by_place = np.array([*free, NONE], np.intp)
    found = np.zeros(len(place), np.bool_)
    for level in places:
        usable = ~found & (level < len(free))
        volumes = by_place[level]
        for others in taken:
            usable &= volumes != others
        np.minimum(place, level, out=place, where=usable)
        found |= usable


def _by_affinity(
    affinities: Sequence[Terms | None],
    nodes: NodeTable,
    index: RowIndex,
    count: int,
    depth: int,
) -> Iterable[list[Indices]]:
    """For those that are alike: the places of the first `depth` of them that each row meets. What
    is not there has the place behind the last."""
    by_label: dict[str, dict[str, list[int]]] = {}
    by_terms: dict[Terms | None, list[int]] = {}
    for place, terms in enumerate(affinities):
        single = _single_requirement(terms)
        if single is None:
            by_terms.setdefault(terms, []).append(place)
        else:
            by_value = by_label.setdefault(single.key, {})
            for value in dict.fromkeys(single.values):
                by_value.setdefault(value, []).append(place)
    nowhere = len(affinities)
    for key, places_by_value in by_label.items():
        column = nodes.label_column(key)
        if column is not None:
            tables = _value_tables(places_by_value, nodes, nowhere, depth)
            values = column[index]
            yield [table[values] for table in tables]
    for terms, places in by_terms.items():
        fits = _match(terms, nodes, index, count)
        yield [np.where(fits, place, nowhere) for place in places[:depth]]


def _single_requirement(terms: Terms | None) -> LabelRequirement | None:
    """The one "label in (...)" that is all of an affinity; None where there is more to it."""
    if terms is None or len(terms) != 1:
        return None
    labels, names, errors = terms[0]
    if names or errors or len(labels) != 1 or labels[0].operator is not Operator.IN:
        return None
    return labels[0]


def _value_tables(
    places_by_value: Mapping[str, Sequence[int]], nodes: NodeTable, nowhere: int, depth: int
) -> list[Indices]:
    """Places by value id of a label: the best, the second best, and so on."""
    tables = [np.full(len(nodes.label_values), nowhere, np.intp) for _ in range(depth)]
    for value, places in places_by_value.items():
        value_id = nodes.find_value_id(value)
        if value_id > 0:
            for table, place in zip(tables, places, strict=False):
                table[value_id] = place
    return tables
