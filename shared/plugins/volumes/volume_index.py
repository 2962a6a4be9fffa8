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

from shared.columns.pod_log import PodChange
from shared.framework.cluster_view import ClusterView
from shared.framework.follower import Follower
from shared.framework.object_store import ObjectStore
from shared.framework.pod_info import PodInfo
from shared.grouped import Grouped, tally, tally_in
from shared.kube.api.core_v1 import PersistentVolumeClaim
from shared.kube.api.core_v1_parts import PersistentVolume
from shared.kube.api.storage_v1 import VolumeAttachment
from shared.kube.csi_translation import Untranslatable, in_tree_plugin_named, volume_handle
from shared.kube.in_tree_plugins import in_tree_plugin
from shared.kube.pod_volumes import (
    Attachable,
    ClaimUse,
    Disk,
    disks,
    disks_conflict,
    inline_attachable,
    ownership_problem,
)
from shared.plugins.volumes.attach_counts import AttachCounts
from shared.plugins.volumes.volume_rules import claim_class

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
    """What a pod class uses."""

    info: PodInfo
    claims: tuple[ClaimUse, ...]
    disks: tuple[Disk, ...]
    inline: tuple[Attachable | Untranslatable, ...]


class _Claim:
    """A claim that pods on nodes use, and what it stands for at present."""

    __slots__ = ("attachable", "depends", "problem", "rows")

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        """Node row -> uses."""
        self.attachable: Attachable | None = None
        self.problem: str | None = None
        self.depends: tuple[ObjectKey, ...] = ()


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
        self._placed: dict[str, tuple[Attachable, int]] = {}
        """Attachment object -> what it attaches, and to which node."""
        self._attaches: dict[str, str] = {}
        """Attachment object -> the persistent volume that it names."""
        self._attachments_of = Grouped[str, str, None]()
        """The same the other way round."""
        self._named: dict[str, dict[int, int]] = {}
        self._name_uses: dict[str, int] = {}
        """The same by the names of claims alone."""
        self._disks: dict[tuple[str, ...], dict[tuple[int, int], int]] = {}
        self._problems: dict[int, dict[str, int]] = {}
        self.attached = AttachCounts()

    # Questions -----------------------------------------------------------------------------------

    def claim_rows(self, claim_key: str) -> Mapping[int, int]:
        """Node row -> volumes of pods there that name the claim outright. Read only."""
        return self._named.get(claim_key, {})

    def uses_of_name(self, name: str) -> int:
        """How many volumes of pods name a claim of this name outright, in whatever namespace."""
        return self._name_uses.get(name, 0)

    def conflict_rows(self, disk: Disk) -> list[int]:
        """Nodes with a pod whose disk must not be together with this one."""
        return [
            row
            for class_id, row in self._disks.get(disk.key, ())
            if any(disks_conflict(disk, other) for other in self._classes[class_id].disks)
        ]

    def problems(self) -> Mapping[int, Mapping[str, int]]:
        """Node row -> what is wrong with volumes of pods there. Read only; usually empty."""
        return self._problems

    # Catching up ---------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Brings everything to the view's present state."""
        topology_version = self._cluster.nodes.topology_version
        if self._follower.saw_all and self._topology_version == topology_version:
            return
        pods, changed = self._follower.pods(CATCH_UP_MAX), self._follower.objects()
        if pods is None or changed is None:
            self._start_over()
            self._count_all()
        else:
            self._apply_objects(changed)
            self._apply_pods(_without_phase(pods))
        if self._topology_version != topology_version:
            self._place_attachments(self._cluster.objects.all(ATTACHMENTS))
            self._topology_version = topology_version
        self._follower.note()

    def _count_all(self) -> None:
        for table in self._cluster.pod_tables:
            rows = table.used_rows()
            pairs = zip(table.class_id[rows].tolist(), table.node_row[rows].tolist(), strict=True)
            self._apply_pods(Counter(pairs))

    def _apply_pods(self, changes: Mapping[tuple[int, int], int]) -> None:
        """`changes`: (class, node row) -> how many more pods."""
        for (class_id, row), count in changes.items():
            volumes = self._classes.get(class_id)
            if volumes is None:
                info = self._cluster.classes.get(class_id)
                if info is None or not info.spec.volumes:
                    continue
                volumes = self._classes[class_id] = _class_volumes(info)
            tally(self._class_counts, class_id, count)
            self._change_class(class_id, volumes, row, count)
            if class_id not in self._class_counts:
                del self._classes[class_id]

    def _change_class(self, class_id: int, volumes: _ClassVolumes, row: int, count: int) -> None:
        for use in volumes.claims:
            if not use.is_ephemeral:
                tally_in(self._named, use.key, row, count)
                tally(self._name_uses, use.name, count)
            ref = ClaimRef(use.key, class_id if use.is_ephemeral else 0)
            self._change_claim(ref, row, count)
        for disk in volumes.disks:
            tally_in(self._disks, disk.key, (class_id, row), count)
        for volume in volumes.inline:
            if isinstance(volume, Attachable):
                self.attached.change_pods(volume, row, count)
            else:
                tally_in(self._problems, row, volume.problem, count)

    # Claims --------------------------------------------------------------------------------------

    def _change_claim(self, ref: ClaimRef, row: int, count: int) -> None:
        claim = self._claims.get(ref)
        if claim is None:
            claim = self._claims[ref] = _Claim()
            self._resolve(ref, claim)
        tally(claim.rows, row, count)
        self._count_claim(claim, row, count)
        if not claim.rows:
            self._let_go(ref, claim)
            del self._claims[ref]

    def _count_claim(self, claim: _Claim, row: int, count: int) -> None:
        if claim.attachable is not None:
            self.attached.change_pods(claim.attachable, row, count)
        if claim.problem is not None:
            tally_in(self._problems, row, claim.problem, count)

    def _resolve(self, ref: ClaimRef, claim: _Claim) -> None:
        """Finds out what the claim stands for, and what that depends on."""
        found = self._cluster.objects.get(CLAIMS, ref.key)
        claim.attachable, claim.problem = None, None
        claim.depends = ((CLAIMS, ref.key),)
        if found is not None:
            if ref.class_id:
                info = self._classes[ref.class_id].info
                claim.problem = ownership_problem(info.namespace, info.template, found)
            if claim.problem is None:
                claim.attachable, more = _resolved(found, self._cluster.objects)
                claim.depends += more
        for object_key in claim.depends:
            self._users_of.put(object_key, ref, None)

    def _let_go(self, ref: ClaimRef, claim: _Claim) -> None:
        for object_key in claim.depends:
            self._users_of.drop(object_key, ref)

    # Objects -------------------------------------------------------------------------------------

    def _apply_objects(self, changed: Iterable[ObjectKey]) -> None:
        attachments: dict[str, None] = {}
        volumes: list[str] = []
        for object_key in changed:
            kind, key = object_key
            if kind == ATTACHMENTS:
                attachments[key] = None
            elif kind == VOLUMES:
                volumes.append(key)
            for ref in list(self._users_of.get(object_key, ())):
                self._resolve_again(ref)
        for name in volumes:
            attachments.update(self._attachments_of.get(name, {}))
        self._place_attachments(attachments)

    def _resolve_again(self, ref: ClaimRef) -> None:
        claim = self._claims[ref]
        for row, count in claim.rows.items():
            self._count_claim(claim, row, -count)
        self._let_go(ref, claim)
        self._resolve(ref, claim)
        for row, count in claim.rows.items():
            self._count_claim(claim, row, count)

    def _place_attachments(self, keys: Iterable[str]) -> None:
        for key in keys:
            found = self._cluster.objects.get(ATTACHMENTS, key)
            self._remember_volume(key, found)
            placed = None if found is None else self._placement(found)
            before = self._placed.get(key)
            if placed == before:
                continue
            if before is not None:
                self.attached.change_attached(*before, -1)
                del self._placed[key]
            if placed is not None:
                self.attached.change_attached(*placed, 1)
                self._placed[key] = placed

    def _placement(self, attachment: VolumeAttachment) -> tuple[Attachable, int] | None:
        """What an attachment adds, and where (getNodeVolumeAttachmentInfo); None: nothing."""
        spec = attachment.spec
        row = self._cluster.nodes.row_of(spec.node_name)
        if row < 0 or not spec.attacher or spec.source.persistent_volume_name is None:
            return None
        volume = self._cluster.objects.get(VOLUMES, spec.source.persistent_volume_name)
        if volume is None or volume.spec.csi is None:
            return None
        name = f"{spec.attacher}/{volume.spec.csi.volume_handle}"
        return Attachable(spec.attacher, name), row

    def _remember_volume(self, key: str, attachment: VolumeAttachment | None) -> None:
        named = None if attachment is None else attachment.spec.source.persistent_volume_name
        before = self._attaches.get(key)
        if named == before:
            return
        if before is not None:
            del self._attaches[key]
            self._attachments_of.drop(before, key)
        if named is not None:
            self._attaches[key] = named
            self._attachments_of.put(named, key, None)


def _class_volumes(info: PodInfo) -> _ClassVolumes:
    inline = (inline_attachable(volume) for volume in info.spec.volumes or ())
    return _ClassVolumes(
        info,
        info.claim_uses,
        disks(info.template),
        tuple(volume for volume in inline if volume is not None),
    )


def attachable_of(claim: PersistentVolumeClaim, objects: ObjectStore) -> Attachable | None:
    """What a claim attaches; None where no driver is known."""
    return _resolved(claim, objects)[0]


def _resolved(
    claim: PersistentVolumeClaim, objects: ObjectStore
) -> tuple[Attachable | None, tuple[ObjectKey, ...]]:
    """What a claim attaches (getCSIDriverInfo), and the objects that say so."""
    depends: tuple[ObjectKey, ...] = ()
    if claim.spec.volume_name:
        depends = ((VOLUMES, claim.spec.volume_name),)
        volume = objects.get(VOLUMES, claim.spec.volume_name)
        if volume is not None:
            return _attachable_volume(volume), depends
    class_name = claim_class(claim)
    if not class_name:
        return None, depends
    depends += ((STORAGE_CLASSES, class_name),)
    storage_class = objects.get(STORAGE_CLASSES, class_name)
    if storage_class is None:
        return None, depends
    driver = storage_class.provisioner
    plugin = in_tree_plugin_named(driver)
    if plugin is not None:
        if not plugin.is_migrated:
            return None, depends
        driver = plugin.driver
    # A name that no volume has: until it is provisioned, the claim's own name has to do.
    meta = claim.metadata
    name = f"{driver}/claim:{meta.namespace}/{meta.name}"
    return (Attachable(driver, name) if driver else None), depends


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
    return Attachable(plugin.driver, f"{plugin.driver}/{handle}")


def _without_phase(changes: Iterable[PodChange]) -> dict[tuple[int, int], int]:
    """A pod that began to terminate holds what it held."""
    counts: dict[tuple[int, int], int] = {}
    for class_id, row, _, count in changes:
        tally(counts, (class_id, row), count)
    return counts
