"""Where the volumes of a pod can be: bound ones within reach, free ones to take, room for new ones.

One search answers for many nodes at once, for Filter (why not), Score (how full the storage would
be) and Reserve (what exactly the pod gets on its node), so that the three cannot disagree.

Rules: FindPodVolumes and what it calls in binder.go, scorer.go, and Score of volume_binding.go in
pkg/scheduler/framework/plugins/volumebinding, v1.36.2.
"""

from collections import defaultdict
from collections.abc import Hashable
from functools import cached_property
from typing import Final, NamedTuple

import msgspec
import numpy as np

from shared.columns.schema import Bools, Int64s, Rows, quotients
from shared.errors import ObjectError
from shared.framework.cluster_view import ClusterView
from shared.framework.normalize import UTILIZATION_MAX
from shared.framework.status import ReasonBits
from shared.kube import quantity
from shared.kube.api.core_v1 import PersistentVolumeClaim
from shared.kube.api.core_v1_parts import PersistentVolume
from shared.kube.api.storage_v1 import StorageClass
from shared.kube.csi_translation import Untranslatable, translated_affinity
from shared.kube.in_tree_plugins import in_tree_plugin
from shared.kube.well_known import SELECTED_NODE
from shared.plugins.volumes.affinity_columns import NONE, Places, match_affinity
from shared.plugins.volumes.csi_node_columns import CsiNodeColumns
from shared.plugins.volumes.volume_catalog import Capacities, VolumeCatalog
from shared.plugins.volumes.volume_pool import VolumePool
from shared.plugins.volumes.volume_rules import (
    NO_PROVISIONER,
    STORAGE,
    affinity_terms,
    class_of,
    requested_nanos,
    requests_of,
    topology_terms,
)
from shared.selectors.label_selector import EVERYTHING, SelectorError, parse_label_selector
from shared.selectors.node_selector import SelectedColumns

REASON_NODE_CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
REASON_NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"
REASON_NO_SPACE: Final = "node(s) did not have enough free storage"
REASON_LOST_VOLUME: Final = (
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)
TEXTS: Final = (REASON_NODE_CONFLICT, REASON_NO_VOLUME, REASON_NO_SPACE, REASON_LOST_VOLUME)
_encoder: Final = msgspec.msgpack.Encoder()


class PodVolumeClaims(msgspec.Struct, eq=False):
    """The claims of a pod as far as its node matters."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    waiting: tuple[PersistentVolumeClaim, ...] = ()
    """They get their volumes once the pod has a node."""
    has_failed: bool = False
    """Filter came to an error on some node."""


class VolumeChoice(NamedTuple):
    """The volumes that one claim would get."""

    claim: PersistentVolumeClaim
    chosen: Places
    """Slots of the pool by position of the row; NONE where there is no volume for it."""


class Provision(NamedTuple):
    """A claim for which a volume would be made."""

    claim: PersistentVolumeClaim
    wanted: Bools
    """By position of the row."""
    source: tuple[Capacities, Places] | None
    """The storage that it would come from, and which of it by position of the row; None where nobody
    counts."""


class PodVolumes(NamedTuple):
    """What a pod gets on one node."""

    bindings: list[tuple[PersistentVolumeClaim, PersistentVolume]]
    provisions: list[PersistentVolumeClaim]


class VolumeSearch:
    """The search over `rows`; all arrays have one entry for each of them."""

    def __init__(self, claims: PodVolumeClaims, cluster: ClusterView, rows: Rows) -> None:
        self._cluster = cluster
        self._columns = SelectedColumns(cluster.nodes, rows)
        count = len(rows)
        self.reasons = np.zeros(count, np.int64)
        """By bits of `told`; none where the pod's volumes can be."""
        self.told = ReasonBits(TEXTS)
        self.failed = np.zeros(count, np.bool_)
        """Where something went wrong, which is then the one reason."""
        self.choices: list[VolumeChoice] = []
        self.provisions: list[Provision] = []
        self._is_open = np.ones(count, np.bool_)
        """No error, and no claim yet that belongs to another node."""
        if claims.bound:
            self._check_bound(claims.bound)
        if claims.waiting:
            self._find_for(claims.waiting)

    @cached_property
    def pool(self) -> VolumePool:
        """Where the volumes are that the pod may take."""
        return self._cluster.derived(VolumeCatalog).pool

    @property
    def passes(self) -> Bools:
        """Where the pod's volumes can be."""
        passed: Bools = self.reasons == 0
        return passed

    def at(self, position: int) -> PodVolumes:
        """What the pod gets on one of the rows, which must pass."""
        bindings = [
            (claim, self.pool.candidates[chosen.item(position)].volume)
            for claim, chosen in self.choices
            if chosen.item(position) != NONE
        ]
        return PodVolumes(bindings, [p.claim for p in self.provisions if p.wanted[position]])

    def _check_bound(self, claims: tuple[PersistentVolumeClaim, ...]) -> None:
        """Each volume must be within reach of the node; the first that is not decides."""
        left = np.ones(self._columns.count, np.bool_)
        for claim in claims:
            volume = self._cluster.objects.latest("persistentvolumes", claim.spec.volume_name)
            if volume is None:
                self._refuse(left, REASON_LOST_VOLUME)
                return
            reached = self._reached(volume, left)
            self._refuse(left & ~reached & self._is_open, REASON_NODE_CONFLICT)
            left &= reached & self._is_open
            if not left.any():
                return

    def _reached(self, volume: PersistentVolume, asked: Bools) -> Bools:
        """Rows that the volume's node affinity allows; in-tree volumes are seen as what their CSI
        driver makes of them where it has taken over."""
        affinity = volume.spec.node_affinity
        required = None if affinity is None else affinity.required
        reached = match_affinity(affinity_terms(required), self._columns)
        plugin = in_tree_plugin(volume.spec)
        if plugin is None or not plugin.is_migrated:
            return reached
        is_migrated = self._cluster.derived(CsiNodeColumns).migrated(plugin.name)[
            self._columns.index
        ]
        if not is_migrated.any():
            return reached
        translated = translated_affinity(volume)
        if isinstance(translated, Untranslatable):
            told = f"could not translate pv: {translated.problem}"
            self._fail(asked & is_migrated, told)
            return reached
        there = match_affinity(affinity_terms(translated), self._columns)
        return np.where(is_migrated, there, reached)

    def _refuse(self, where: Bools, text: str) -> None:
        if where.any():
            self.reasons |= where * np.int64(self.told.mask(text))

    def _fail(self, where: Bools, text: str) -> None:
        where = where & self._is_open
        if where.any():
            self.reasons[where] = self.told.mask(text)
            self.failed |= where
            self._is_open &= ~where

    def _find_for(self, claims: tuple[PersistentVolumeClaim, ...]) -> None:
        """Free volumes for the claims, and new ones for those that find none."""
        nodes, index = self._columns.nodes, self._columns.index
        elsewhere = np.zeros(self._columns.count, np.bool_)
        unselected: list[PersistentVolumeClaim] = []
        selected: list[PersistentVolumeClaim] = []
        for claim in claims:
            node_name = (claim.metadata.annotations or {}).get(SELECTED_NODE)
            if node_name is None:
                unselected.append(claim)
            else:
                elsewhere |= nodes.name_id[index] != nodes.names.find(node_name)
                selected.append(claim)
        self._refuse(elsewhere & self._is_open, REASON_NO_VOLUME)
        self._is_open &= ~elsewhere
        try:
            unselected.sort(key=requested_nanos)
            self._match_claims(unselected)
            todo = [(claim, self._is_open.copy()) for claim in selected]
            todo += [(c.claim, (c.chosen == NONE) & self._is_open) for c in self.choices]
            self._provision(todo)
        except ObjectError as error:
            self._fail(self._is_open, str(error))

    def _match_claims(self, claims: list[PersistentVolumeClaim]) -> None:
        """The smallest volumes that suffice, for the smallest claims first (findMatchingVolumes)."""
        for claim in claims:
            stated = claim.spec.selector
            try:
                selector = EVERYTHING if stated is None else parse_label_selector(stated)
            except SelectorError as error:
                told = "error creating internal label selector for claim"
                self._fail(self._is_open, f"{told}: {claim.metadata.key}: {error}")
                return
            taken = [choice.chosen for choice in self.choices]
            chosen = self.pool.choose(claim, selector, taken, self._columns)
            self.choices.append(VolumeChoice(claim, chosen))

    def _provision(self, todo: list[tuple[PersistentVolumeClaim, Bools]]) -> None:
        """Whether volumes can be made for the claims that want one; the first that cannot decides
        for the node (checkVolumeProvisions)."""
        for claim, wanted in todo:
            wanted &= self._is_open
            if not wanted.any():
                continue
            class_name = class_of(claim)
            if not class_name:
                self._fail(wanted, f'no class for claim "{claim.metadata.key}"')
                continue
            storage_class = self._cluster.objects.get("storageclasses", class_name)
            if storage_class is None:
                self._fail(wanted, f'failed to find storage class "{class_name}"')
                continue
            self._provision_one(claim, storage_class, wanted)

    def _provision_one(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, wanted: Bools
    ) -> None:
        if storage_class.provisioner in ("", NO_PROVISIONER):
            allowed = np.zeros(self._columns.count, np.bool_)
        else:
            topologies = storage_class.allowed_topologies
            terms = topology_terms(topologies) if topologies else None
            allowed = match_affinity(terms, self._columns)
        refused = wanted & ~allowed
        self._refuse(refused, REASON_NO_VOLUME)
        self._is_open &= ~refused
        wanted &= allowed
        size = self._counted_size(claim, storage_class)
        if size is None:
            self.provisions.append(Provision(claim, wanted, None))
            return
        capacities = self._cluster.derived(VolumeCatalog).capacities(storage_class.metadata.name)
        places = capacities.nodes.first(capacities.sizes_max >= size, self._columns)
        short = wanted & (places == NONE)
        self._refuse(short, REASON_NO_SPACE)
        self._is_open &= ~short
        self.provisions.append(Provision(claim, wanted & ~short, (capacities, places)))

    def _counted_size(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass
    ) -> int | None:
        """Bytes that there must be storage for; None where nobody has to ask (hasEnoughCapacity)."""
        stated = requests_of(claim).get(STORAGE)
        driver = self._cluster.objects.get("csidrivers", storage_class.provisioner)
        if stated is None or driver is None or not driver.spec.storage_capacity:
            return None
        return quantity.value(stated)


def volume_place(volume: PersistentVolume) -> Hashable:
    """Equal for volumes that are within reach of the same nodes."""
    affinity = volume.spec.node_affinity
    plugin = in_tree_plugin(volume.spec)
    if plugin is None or not plugin.is_migrated:
        return None if affinity is None else _encoder.encode(affinity)
    translated = translated_affinity(volume)
    told = translated if isinstance(translated, Untranslatable) else _encoder.encode(translated)
    return plugin.name, _encoder.encode(affinity), told


class _ClassTotals(NamedTuple):
    """Of one storage class; each of shape (count,)."""

    requested: Int64s
    """Bytes."""
    available: Int64s
    counts: Bools
    """Where the class has a say at all."""


def storage_scores(search: VolumeSearch, table: Int64s) -> Int64s:
    """The mean over storage classes of `table` at their utilisation, which is what the pod would ask for
    of what there is: of the volumes that it would take, or of the capacities that new ones would come
    from where it takes none. 0 where there is none."""
    count = len(search.passes)
    classes: defaultdict[str, _ClassTotals] = defaultdict(
        lambda: _ClassTotals(
            np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.bool_)
        )
    )
    has_static: Bools = np.zeros(count, np.bool_)
    for claim, chosen in search.choices:
        found = np.flatnonzero(chosen != NONE)
        has_static[found] = True
        taken = [search.pool.candidates[slot] for slot in chosen[found].tolist()]
        sizes = np.array([quantity.value_of_nanos(each.capacity_nanos) for each in taken], np.int64)
        names = [each.volume.spec.storage_class_name for each in taken]
        for name in set(names):
            at = np.flatnonzero([each == name for each in names])
            totals = classes[name]
            totals.requested[found[at]] += _requested_bytes(claim)
            totals.available[found[at]] += sizes[at]
            totals.counts[found[at]] = True
    for claim, wanted, source in search.provisions:
        where = wanted & ~has_static
        if source is not None and where.any():
            capacities, places = source
            named = claim.spec.storage_class_name  # Even beside the annotation, as upstream.
            totals = classes[class_of(claim) if named is None else named]
            totals.requested[where] += _requested_bytes(claim)
            # Not a sum: several volumes would come from the same storage.
            totals.available[where] = capacities.totals[places[where]]
            totals.counts[where] = True
    total = np.zeros(count, np.int64)
    class_count = np.zeros(count, np.int64)
    for requested, available, counts in classes.values():
        is_full = (available == 0) | (requested > available)
        # Near 2^63 the product wraps around, as in Go; what turns negative comes before the first point.
        share = quotients(requested * UTILIZATION_MAX, np.where(available == 0, 1, available))
        utilization = np.where(is_full, UTILIZATION_MAX, np.clip(share, 0, UTILIZATION_MAX))
        total += np.where(counts, table[utilization], 0)
        class_count += counts
    divisor = np.maximum(class_count, 1)
    mean: Int64s = (2 * total + divisor) // (2 * divisor)
    return mean


def _requested_bytes(claim: PersistentVolumeClaim) -> int:
    return quantity.value(requests_of(claim).get(STORAGE, 0))
