"""VolumePool: the persistent volumes, ready for the next claim.

Volumes that nobody has are kept in order of size, as arrays; volumes that are given to a claim, by
that claim. A volume that is taken or freed changes one flag, and a claim is matched by array
arithmetic, not by a walk over all volumes.

Rule: FindMatchingVolume in staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go, v1.36.
"""

import itertools
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shared.columns.schema import Bools
from shared.grouped import Grouped
from shared.kube.api.core_v1 import PersistentVolumeClaim
from shared.kube.api.core_v1_parts import ObjectReference, PersistentVolume
from shared.plugins.volumes.affinity_columns import NONE, AffinityColumns, Places, match_affinity
from shared.plugins.volumes.volume_rules import (
    FILESYSTEM,
    VOLUME_AVAILABLE,
    affinity_terms,
    class_of,
    is_reserved_for,
    requested_nanos,
    storage_nanos,
)
from shared.selectors.label_selector import Selector
from shared.selectors.node_selector import SelectedColumns
from shared.selectors.node_terms import Terms


class VolumeKind(NamedTuple):
    """What decides for many volumes alike whether they suit a claim."""

    class_name: str
    """Of the storage class."""
    mode: str
    attributes_class: str
    access_modes: frozenset[str]

    def is_like(self, wanted: "VolumeKind") -> bool:
        """Whether it is of the kind that a claim wants, however it can be accessed."""
        return self[:3] == wanted[:3]


def _kind(found: PersistentVolume | PersistentVolumeClaim) -> VolumeKind:
    return VolumeKind(
        class_of(found),
        found.spec.volume_mode or FILESYSTEM,
        found.spec.volume_attributes_class_name or "",
        frozenset(found.spec.access_modes or ()),
    )


class VolumeCandidate(NamedTuple):
    """A persistent volume as far as matching reads it."""

    volume: PersistentVolume
    capacity_nanos: int
    terms: Terms | None
    """Node affinity; None: it can go anywhere."""
    kind: VolumeKind


def candidate(volume: PersistentVolume) -> VolumeCandidate:
    """Raises QuantityError where the capacity cannot be read."""
    spec = volume.spec
    required = None if spec.node_affinity is None else spec.node_affinity.required
    capacity = storage_nanos(spec.capacity)
    return VolumeCandidate(volume, capacity, affinity_terms(required), _kind(volume))


class VolumePool:
    """A volume keeps its slot, which is a number, as long as it is in the pool; NONE is no volume's."""

    def __init__(self) -> None:
        self._candidates: dict[int, VolumeCandidate] = {}
        self._slot_of: dict[str, int] = {}
        self._next_slot = itertools.count()
        self._claimed = Grouped[tuple[str, str], int, None]()
        """(namespace, name) of a claim -> the volumes that are given to it."""
        self._kinds: dict[VolumeKind, int] = {}
        self._is_stale = True
        """The arrays below are to be made again."""
        self._order: Places = np.zeros(0, np.intp)
        """Smallest volume first; all else is in this order."""
        self._capacities: list[int] = []
        self._usable: Bools = np.zeros(0, np.bool_)
        self._kind_ids: Places = np.zeros(0, np.intp)
        self._columns = AffinityColumns(())
        self._place_of: dict[int, int] = {}

    def candidate(self, slot: int) -> VolumeCandidate:
        """The volume in a slot."""
        return self._candidates[slot]

    def put(self, name: str, new: VolumeCandidate | None) -> None:
        """A volume is new, or another than before; None: there is none of that name."""
        slot = self._slot_of.get(name)
        if slot is None:
            slot = self._slot_of[name] = next(self._next_slot)
        old = self._candidates.pop(slot, None)
        if old is not None and old.volume.spec.claim_ref is not None:
            self._claimed.drop(_key(old.volume.spec.claim_ref), slot)
        place = self._place_of.get(slot)
        if new is None:
            del self._slot_of[name]
            self._is_stale |= place is not None
            return
        self._candidates[slot] = new
        if new.volume.spec.claim_ref is not None:
            self._claimed.put(_key(new.volume.spec.claim_ref), slot, None)
        is_usable = _is_usable(new.volume)
        if place is None:  # Only what can be had needs one.
            self._is_stale |= is_usable
        elif old is None or old[1:] != new[1:]:
            self._is_stale = True
        else:
            self._usable[place] = is_usable

    def choose(
        self,
        claim: PersistentVolumeClaim,
        selector: Selector,
        taken: Sequence[Places],
        columns: SelectedColumns,
    ) -> Places:
        """For each row the volume that the claim gets there, or NONE; shape (count,).

        `taken` are the choices for the pod's earlier claims: on each row, theirs are not chosen
        again. A volume that was given to the claim in advance is taken, or none at all.
        """
        requested = requested_nanos(claim)
        wanted = _kind(claim)
        chosen = np.full(columns.count, NONE, np.intp)
        is_open = np.ones(columns.count, np.bool_)
        for slot in self._given_to(claim, requested, wanted):
            here = is_open.copy()
            for others in taken:
                here &= others != slot
            reached = match_affinity(self.candidate(slot).terms, columns)
            chosen[here & reached] = slot
            is_open &= ~here
        if not is_open.any():
            return chosen
        if self._is_stale:
            self._make_order()
        usable = self._suitable(requested, wanted, selector)
        slots = np.append(self._order, NONE)
        best = self._columns.first(usable, columns, taken, slots)
        return np.where(is_open, slots[best], chosen)

    def _given_to(
        self, claim: PersistentVolumeClaim, requested: int, wanted: VolumeKind
    ) -> list[int]:
        found: list[int] = []
        key = claim.metadata.namespace, claim.metadata.name
        for slot in self._claimed.get(key, ()):
            volume, capacity, _, kind = self.candidate(slot)
            if (
                is_reserved_for(volume, claim)
                and capacity >= requested
                and kind.is_like(wanted)
                and volume.metadata.deletion_timestamp is None
            ):
                found.append(slot)
        return found

    def _suitable(self, requested: int, wanted: VolumeKind, selector: Selector) -> Bools:
        """By place: volumes that would do for the claim on some node."""
        suits = np.array(
            [k.is_like(wanted) and wanted.access_modes <= k.access_modes for k in self._kinds],
            np.bool_,
        )
        usable = self._usable & suits[self._kind_ids]
        usable[: bisect_left(self._capacities, requested)] = False
        if not selector.is_empty:
            for place in np.flatnonzero(usable).tolist():
                labels = self.candidate(self._order.item(place)).volume.metadata.labels or {}
                usable[place] = selector.matches(labels)
        return usable

    def _make_order(self) -> None:
        usable = [slot for slot, each in self._candidates.items() if _is_usable(each.volume)]
        slots = sorted(usable, key=lambda slot: (self._candidates[slot].capacity_nanos, slot))
        entries = [self._candidates[slot] for slot in slots]
        kinds = self._kinds = {}
        ids = [kinds.setdefault(each.kind, len(kinds)) for each in entries]
        self._order = np.array(slots, np.intp)
        self._capacities = [each.capacity_nanos for each in entries]
        self._usable = np.ones(len(entries), np.bool_)
        self._kind_ids = np.array(ids, np.intp)
        self._columns = AffinityColumns([each.terms for each in entries])
        self._place_of = {slot: place for place, slot in enumerate(slots)}
        self._is_stale = False


def _is_usable(volume: PersistentVolume) -> bool:
    """Nobody has the volume, and it can be had."""
    return (
        volume.spec.claim_ref is None
        and volume.status.phase == VOLUME_AVAILABLE
        and volume.metadata.deletion_timestamp is None
    )


def _key(reference: ObjectReference) -> tuple[str, str]:
    return reference.namespace, reference.name
