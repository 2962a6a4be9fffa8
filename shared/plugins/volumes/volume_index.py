"""VolumeIndex: who uses which claim and disk, and what is attached where, kept up from deltas.

Apart from the plugins because limits and restrictions read the same facts. It is derived from a view,
which has it catch up at each question (`ClusterView.derived`): pods come by the pod log, claims, volumes
and attachments by the store's changes. Every change costs what it touches; only after a gap is
everything counted again.

In-tree volumes count as their CSI volumes everywhere. Upstream counts them so only on nodes with a
CSINode object, but without one a node has no limits, and nobody asks.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from shared.columns.schema import Int64s
from shared.framework.cluster_view import ClusterView, Follower
from shared.framework.object_store import ObjectStore
from shared.framework.pod_info import PodInfo
from shared.grouped import Grouped, tally, tally_in
from shared.kube.api.core_v1 import PersistentVolumeClaim
from shared.kube.api.core_v1_parts import PersistentVolume
from shared.kube.api.storage_v1 import StorageClass, VolumeAttachment, VolumeAttachmentSpec
from shared.kube.csi_translation import Untranslatable, in_tree_plugin_named, volume_handle
from shared.kube.in_tree_plugins import in_tree_plugin
from shared.kube.pod_volumes import (
    Attachable,
    Disk,
    disks,
    disks_conflict,
    inline_attachable,
    ownership_problem,
)
from shared.plugins.volumes.volume_rules import class_of

CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
STORAGE_CLASSES: Final = "storageclasses"
ATTACHMENTS: Final = "volumeattachments"
CATCH_UP_MAX: Final = 1 << 14
"""Changes of pods beyond which counting all of them anew is as cheap."""

ObjectKey = tuple[str, str]
"""Kind and key."""


class ClaimRef(NamedTuple):
    """A claim as one kind of user sees it."""

    key: str
    class_id: int
    """Of the only class that may use an ephemeral claim; 0 for a claim that is named outright."""


class _ClassVolumes(NamedTuple):
    info: PodInfo
    disks: tuple[Disk, ...]
    inline: list[Attachable | Untranslatable]


class _Claim(NamedTuple):
    """A claim that pods on nodes use, and what it stands for at present."""

    attachable: Attachable | None
    problem: str | None
    depends: tuple[ObjectKey, ...]
    rows: dict[int, int]
    """Node row -> uses."""


_NO_COUNTS: Final[Int64s] = np.zeros(0, np.int64)
_NOBODY: Final[Mapping[int, int]] = {}


class AttachCounts:
    """How many different volumes of a driver are attached to each node: one array for all nodes. A
    volume counts once on a node, however many pods use it there; that the API server shows it attached
    counts as a use as well, but not as one by a pod. Removing what was not added is a bug."""

    def __init__(self) -> None:
        self._counts: dict[str, Int64s] = {}
        self._attached: dict[str, dict[int, int]] = {}
        """Volume -> node row -> how often the API server says that it is attached there."""
        self._used: dict[str, dict[int, int]] = {}
        """The same of pods that use it there."""

    def count(self, driver: str, capacity: int) -> Int64s:
        """Volumes on each node; shape (at least capacity,). Read only."""
        counts = self._counts.get(driver, _NO_COUNTS)
        if len(counts) < capacity:
            counts = self._counts[driver] = np.append(counts, np.zeros(capacity, np.int64))
        return counts

    def rows_with_pods(self, volume: str) -> list[int]:
        """The nodes on which pods use the volume."""
        return list(self._used.get(volume, ()))

    def change(self, volume: Attachable, row: int, change: int, *, of_pods: bool = True) -> None:
        """So many more pods (fewer, if negative) use the volume on the node, or so many more objects
        attach it there."""
        both = self._used, self._attached
        users, others = both if of_pods else reversed(both)
        before = users.get(volume.name, _NOBODY).get(row, 0)
        after = before + change
        assert after >= 0, "a use of a volume was taken back twice"
        tally_in(users, volume.name, row, change)
        if bool(before) is not bool(after) and row not in others.get(volume.name, _NOBODY):
            self.count(volume.driver, row + 1)[row] += 1 if after else -1


class VolumeIndex:
    """See the module. Everything is by node row, ghosts included."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._follower = Follower(cluster)
        self._start_over()

    def _start_over(self) -> None:
        self._topology_version = -1
        self._classes: dict[int, _ClassVolumes] = {}
        self._class_counts: dict[int, int] = {}
        self._claims: dict[ClaimRef, _Claim] = {}
        self._users_of = Grouped[ObjectKey, ClaimRef, None]()
        """Object -> claims that stand for something else when it changes."""
        self._placed: dict[str, tuple[str, tuple[Attachable, int] | None]] = {}
        """Attachment object -> the persistent volume that it names, what it attaches, and where."""
        self._attachments_of = Grouped[str, str, None]()
        """Persistent volume -> attachment objects that name it."""
        self.uses_of_name: dict[str, int] = {}
        """How many volumes of pods name a claim of this name outright, in whatever namespace."""
        self._disks: dict[tuple[str, ...], dict[tuple[int, int], int]] = {}
        self.problems: dict[int, dict[str, int]] = {}
        """Node row -> what is wrong with volumes of pods there. Usually empty."""
        self.attached = AttachCounts()

    def claim_rows(self, claim_key: str) -> Mapping[int, int]:
        """Node row -> volumes of pods there that name the claim outright. Read only."""
        claim = self._claims.get(ClaimRef(claim_key, 0))
        return {} if claim is None else claim.rows

    def conflict_rows(self, disk: Disk) -> list[int]:
        """Nodes with a pod whose disk must not be together with this one."""
        return [
            row
            for class_id, row in self._disks.get(disk.key, ())
            if any(disks_conflict(disk, other) for other in self._classes[class_id].disks)
        ]

    def catch_up(self) -> None:
        """Brings everything to the view's present state."""
        topology_version = self._cluster.nodes.topology_version
        if self._follower.saw_all and self._topology_version == topology_version:
            return
        pods, changed = self._follower.pods(changes_max=CATCH_UP_MAX), self._follower.objects()
        if pods is None or changed is None:
            self._start_over()
            for table in self._cluster.pod_tables:
                rows = table.used_rows()
                class_ids, node_rows = table.class_id[rows].tolist(), table.node_row[rows].tolist()
                self._apply_pods(Counter(zip(class_ids, node_rows, strict=True)))
        else:
            self._apply_objects(changed)
            counts: dict[tuple[int, int], int] = {}
            for class_id, row, _, count in pods:  # One that began to terminate holds what it held.
                tally(counts, (class_id, row), count)
            self._apply_pods(counts)
        if self._topology_version != topology_version:
            self._place_attachments(self._cluster.objects.all(ATTACHMENTS))
            self._topology_version = topology_version
        self._follower.note()

    def _apply_pods(self, changes: Mapping[tuple[int, int], int]) -> None:
        """`changes`: (class, node row) -> how many more pods."""
        for (class_id, row), count in changes.items():
            volumes = self._classes.get(class_id)
            if volumes is None:
                info = self._cluster.classes.get(class_id)
                if info is None or not info.spec.volumes:
                    continue
                inline = [v for v in map(inline_attachable, info.spec.volumes) if v is not None]
                volumes = _ClassVolumes(info, disks(info.template), inline)
                self._classes[class_id] = volumes
            tally(self._class_counts, class_id, count)
            self._change_class(class_id, volumes, row, count)
            if class_id not in self._class_counts:
                del self._classes[class_id]

    def _change_class(self, class_id: int, volumes: _ClassVolumes, row: int, count: int) -> None:
        for use in volumes.info.claim_uses:
            if not use.is_ephemeral:
                tally(self.uses_of_name, use.name, count)
            ref = ClaimRef(use.key, class_id if use.is_ephemeral else 0)
            self._change_claim(ref, row, count)
        for disk in volumes.disks:
            tally_in(self._disks, disk.key, (class_id, row), count)
        for volume in volumes.inline:
            if isinstance(volume, Attachable):
                self.attached.change(volume, row, count)
            else:
                tally_in(self.problems, row, volume.problem, count)

    def _change_claim(self, ref: ClaimRef, row: int, count: int) -> None:
        claim = self._claims.get(ref)
        if claim is None:
            claim = self._claims[ref] = self._stands_for(ref)
            for object_key in claim.depends:
                self._users_of.put(object_key, ref, None)
        tally(claim.rows, row, count)
        if claim.attachable is not None:
            self.attached.change(claim.attachable, row, count)
        if claim.problem is not None:
            tally_in(self.problems, row, claim.problem, count)
        if not claim.rows:
            for object_key in claim.depends:
                self._users_of.drop(object_key, ref)
            del self._claims[ref]

    def _stands_for(self, ref: ClaimRef) -> _Claim:
        objects = self._cluster.objects
        found = objects.get(CLAIMS, ref.key)
        attachable, problem = None, None
        depends: tuple[ObjectKey, ...] = ((CLAIMS, ref.key),)
        if found is not None and ref.class_id:
            info = self._classes[ref.class_id].info
            problem = ownership_problem(info.namespace, info.template, found)
        if found is not None and problem is None:
            attachable = attachable_of(found, objects)
            depends += ((VOLUMES, found.spec.volume_name),)
            if objects.get(VOLUMES, found.spec.volume_name) is None:
                depends += ((STORAGE_CLASSES, class_of(found)),)
        return _Claim(attachable, problem, depends, {})

    def _apply_objects(self, changed: Iterable[ObjectKey]) -> None:
        attachments: dict[str, None] = {}
        for object_key in changed:
            kind, key = object_key
            if kind == ATTACHMENTS:
                attachments[key] = None
            elif kind == VOLUMES:
                attachments.update(self._attachments_of.get(key, {}))
            for ref in list(self._users_of.get(object_key, ())):
                rows = self._claims[ref].rows.copy()
                for sign in (-1, 1):  # Forgotten with the last one, and read again with the first.
                    for row, count in rows.items():
                        self._change_claim(ref, row, sign * count)
        self._place_attachments(attachments)

    def _place_attachments(self, keys: Iterable[str]) -> None:
        for key in keys:
            found: VolumeAttachment | None = self._cluster.objects.get(ATTACHMENTS, key)
            name = found and found.spec.source.persistent_volume_name
            now = (name, self._placement(found.spec, name)) if found and name else None
            before = self._placed.get(key)
            if now == before:
                continue
            if before is not None:
                del self._placed[key]
                self._attachments_of.drop(before[0], key)
                if before[1] is not None:
                    self.attached.change(*before[1], -1, of_pods=False)
            if now is not None:
                self._placed[key] = now
                self._attachments_of.put(now[0], key, None)
                if now[1] is not None:
                    self.attached.change(*now[1], 1, of_pods=False)

    def _placement(
        self, spec: VolumeAttachmentSpec, volume_name: str
    ) -> tuple[Attachable, int] | None:
        """What an attachment adds, and where (getNodeVolumeAttachmentInfo); None: nothing."""
        row = self._cluster.nodes.row_of(spec.node_name)
        volume = self._cluster.objects.get(VOLUMES, volume_name)
        if row < 0 or not spec.attacher or volume is None or volume.spec.csi is None:
            return None
        name = f"{spec.attacher}/{volume.spec.csi.volume_handle}"
        return Attachable(spec.attacher, name), row


def attachable_of(claim: PersistentVolumeClaim, objects: ObjectStore) -> Attachable | None:
    """What a claim attaches (getCSIDriverInfo); None where no driver is known."""
    volume: PersistentVolume | None = objects.get(VOLUMES, claim.spec.volume_name)
    if volume is not None:
        return _attachable_volume(volume)
    storage_class: StorageClass | None = objects.get(STORAGE_CLASSES, class_of(claim))
    if storage_class is None:
        return None
    driver = storage_class.provisioner
    plugin = in_tree_plugin_named(driver)
    if plugin is not None:
        driver = plugin.driver if plugin.is_migrated else ""
    if not driver:
        return None
    # A name that no volume has: until it is provisioned, the claim's own name has to do.
    return Attachable(driver, f"{driver}/claim:{claim.metadata.key}", plugin is not None)


def is_unreadable(info: PodInfo, objects: ObjectStore) -> bool:
    """Whether volumes could not be counted on a node that such a pod came to."""
    for use in info.claim_uses:
        claim = objects.get(CLAIMS, use.key) if use.is_ephemeral else None
        if claim is not None and ownership_problem(info.namespace, info.template, claim):
            return True
    volumes = info.spec.volumes or ()
    return any(isinstance(inline_attachable(volume), Untranslatable) for volume in volumes)


def _attachable_volume(volume: PersistentVolume) -> Attachable | None:
    """What a bound claim attaches; None for a volume that no CSI driver serves."""
    csi = volume.spec.csi
    if csi is not None:
        if not csi.driver or not csi.volume_handle:
            return None
        return Attachable(csi.driver, f"{csi.driver}/{csi.volume_handle}")
    plugin = in_tree_plugin(volume.spec)
    if plugin is None or not plugin.is_migrated:
        return None
    handle = volume_handle(volume)
    if isinstance(handle, Untranslatable) or not handle:
        return None
    return Attachable(plugin.driver, f"{plugin.driver}/{handle}", is_migrated=True)
