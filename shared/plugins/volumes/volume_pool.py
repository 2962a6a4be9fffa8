"""VolumePool: the persistent volumes, ready for the next claim.

Volumes that nobody has are kept in order of size, as arrays; volumes that are given to a claim, by
that claim. A volume that is taken or freed changes one flag, and a claim is matched by array
arithmetic, not by a walk over all volumes.

Rule: FindMatchingVolume in staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go, v1.36.
"""

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

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

LATE_MAX: Final = 256
"""Volumes, of which a shelf takes half a millisecond to make; 10,000 take 15."""


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


class _Shelf:
    """Volumes that nobody had when it was made, as arrays by place: smallest first, then as their slots
    are. Which of them can be had may change; whatever else does takes a volume off."""

    def __init__(self, found: Iterable[tuple[int, VolumeCandidate]]) -> None:
        entries = sorted(found, key=lambda each: (each[1].capacity_nanos, each[0]))
        self.order = [(each.capacity_nanos, slot) for slot, each in entries]
        self.slots = np.array([*(slot for slot, _ in entries), NONE], np.intp)
        """By place; NONE comes last, so that NONE is its own place."""
        self.place_of = {slot: place for place, (slot, _) in enumerate(entries)}
        self._entries = [each for _, each in entries]
        self._usable = np.array([_is_usable(each.volume) for each in self._entries], np.bool_)
        self._kinds: dict[VolumeKind, int] = {}
        ids = [self._kinds.setdefault(each.kind, len(self._kinds)) for each in self._entries]
        self._kind_ids = np.array(ids, np.intp)
        self._columns = AffinityColumns([each.terms for each in self._entries])

    def keep(self, slot: int, new: VolumeCandidate | None) -> bool:
        """What becomes of a volume that may stand here; whether it still does."""
        place = self.place_of.get(slot)
        if place is None:
            return False
        if new is None or new[1:] != self._entries[place][1:]:
            self._usable[place] = False
            del self.place_of[slot]
            return False
        self._entries[place] = new
        self._usable[place] = _is_usable(new.volume)
        return True

    def first(
        self,
        requested: int,
        wanted: VolumeKind,
        selector: Selector,
        taken: Sequence[Places],
        columns: SelectedColumns,
    ) -> Places:
        """For each row the place of the first volume that would do, or NONE; shape (count,)."""
        suits = np.array(
            [k.is_like(wanted) and wanted.access_modes <= k.access_modes for k in self._kinds],
            np.bool_,
        )
        usable = self._usable & suits[self._kind_ids]
        usable[: bisect_left(self.order, (requested,))] = False
        if not selector.is_empty:
            for place in np.flatnonzero(usable).tolist():
                labels = self._entries[place].volume.metadata.labels or {}
                usable[place] = selector.matches(labels)
        return self._columns.first(usable, columns, taken, self.slots)


class VolumePool:
    """A volume keeps its slot, which is a number, as long as it is in the pool; NONE is no volume's.

    Volumes that come one by one stand on a shelf of their own, which is small and quickly made anew;
    once it has `LATE_MAX` of them, all go to the large one together.
    """

    def __init__(self) -> None:
        self.candidates: dict[int, VolumeCandidate] = {}
        """By slot. Read only."""
        self._slot_of: dict[str, int] = {}
        self._next_slot = itertools.count()
        self._claimed = Grouped[tuple[str, str], int, None]()
        """(namespace, name) of a claim -> the volumes that are given to it."""
        self._large, self._small = _Shelf(()), _Shelf(())
        self._late: set[int] = set()
        """Slots of what could be had and is not on the large shelf."""
        self._is_stale = True
        """Some of these are not on the small one either."""
        self._larger_before = np.zeros(0, np.intp)
        """By place on the small shelf, NONE too: how many on the large one come before it."""

    def put(self, name: str, new: VolumeCandidate | None) -> None:
        """A volume is new, or another than before; None: there is none of that name."""
        slot = self._slot_of.get(name)
        if slot is None:
            slot = self._slot_of[name] = next(self._next_slot)
        old = self.candidates.pop(slot, None)
        if old is not None and old.volume.spec.claim_ref is not None:
            self._claimed.drop(_key(old.volume.spec.claim_ref), slot)
        if new is None:
            del self._slot_of[name]
        else:
            self.candidates[slot] = new
            if new.volume.spec.claim_ref is not None:
                self._claimed.put(_key(new.volume.spec.claim_ref), slot, None)
        if self._large.keep(slot, new) or self._small.keep(slot, new):
            return
        self._late.discard(slot)
        if new is not None and _is_usable(new.volume):  # Only what can be had needs a place.
            self._late.add(slot)
            self._is_stale = True

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
        for slot in self._claimed.get((claim.metadata.namespace, claim.metadata.name), ()):
            volume, capacity, terms, kind = self.candidates[slot]
            if not (
                is_reserved_for(volume, claim)
                and capacity >= requested
                and kind.is_like(wanted)
                and volume.metadata.deletion_timestamp is None
            ):
                continue
            here = is_open.copy()
            for others in taken:
                here &= others != slot
            chosen[here & match_affinity(terms, columns)] = slot
            is_open &= ~here
        if not is_open.any():
            return chosen
        if self._is_stale:
            self._fill_shelves()
        large = self._large.first(requested, wanted, selector, taken, columns)
        small = self._small.first(requested, wanted, selector, taken, columns)
        is_small = self._larger_before[small] <= np.where(
            large == NONE, len(self._large.order), large
        )
        best = np.where(is_small, self._small.slots[small], self._large.slots[large])
        return np.where(is_open, best, chosen)

    def _fill_shelves(self) -> None:
        if len(self._late) >= LATE_MAX:
            everything = self.candidates.items()
            self._large = _Shelf(each for each in everything if _is_usable(each[1].volume))
            self._late.clear()
        self._small = _Shelf((slot, self.candidates[slot]) for slot in self._late)
        before = [bisect_left(self._large.order, each) for each in self._small.order]
        self._larger_before = np.array([*before, len(self._large.order)], np.intp)
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
