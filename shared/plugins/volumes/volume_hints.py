"""Events that help pods that the plugins of volumes rejected: a table for each plugin, at the end.

Rules: `EventsToRegister` and the hints of volumebinding/volume_binding.go, volumezone/volume_zone.go,
nodevolumelimits/csi.go and volumerestrictions/volume_restrictions.go under
pkg/scheduler/framework/plugins, v1.36.2.
"""

from collections.abc import Callable, Collection
from typing import Final, TypeVar

import msgspec

from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.queueing_hints import (
    Change,
    ClusterEventWithHint,
    PodView,
    QueueingHintFn,
    as_kind,
)
from shared.kube.api.core_v1 import PersistentVolumeClaim
from shared.kube.api.core_v1_parts import PersistentVolume
from shared.kube.api.storage_v1 import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from shared.kube.csi_translation import Untranslatable
from shared.kube.in_tree_plugins import in_tree_plugin
from shared.kube.pod_volumes import disks, disks_conflict, inline_attachable, may_attach
from shared.plugins.volumes.csi_node_columns import attach_limits, migrated_plugins
from shared.plugins.volumes.volume_rules import (
    WAIT_FOR_FIRST_CONSUMER,
    volume_size_max,
    volume_topologies,
)


def after_own_claim(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """VolumeBinding, NodeVolumeLimits: a claim of the pod changed. Ephemeral volumes have claims that
    are named after the pod."""
    key = _claim_key(change)
    return any(use.key == key for use in pod.info.claim_uses)


def after_named_claim(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """VolumeZone, VolumeRestrictions: a claim that the pod names outright changed."""
    return _claim_key(change) in pod.info.claim_keys


def classes_naming_claim(change: Change, cluster: ClusterView) -> Collection[int]:
    """Those to which `after_named_claim` may say Queue."""
    return cluster.class_index.with_claims([_claim_key(change)])


def _claim_key(change: Change) -> str:
    claim = as_kind(PersistentVolumeClaim, change.new)
    return "" if claim is None else claim.metadata.key


K = TypeVar("K", bound=msgspec.Struct)


def _if(kind: type[K], helps: Callable[[K, K], bool]) -> QueueingHintFn:
    """Queue for an object that is new, and where what it was and what it is now say that it helps."""

    def hint(pod: PodView, change: Change, cluster: ClusterView) -> bool:
        was, now = change.both(kind)
        return was is None or now is None or helps(was, now)

    return hint


def _allows_other_topologies(was: StorageClass, now: StorageClass) -> bool:
    return (was.allowed_topologies or []) != (now.allowed_topologies or [])


def _migrates_other_plugins(was: CsiNode, now: CsiNode) -> bool:
    return migrated_plugins(was) != migrated_plugins(now)


def _fits_larger_volumes(was: CsiStorageCapacity, now: CsiStorageCapacity) -> bool:
    had, has = volume_size_max(was), volume_size_max(now)
    return has is not None and (had is None or has > had)


def _lies_elsewhere(was: PersistentVolume, now: PersistentVolume) -> bool:
    """In other zones or regions."""
    return volume_topologies(was) != volume_topologies(now)


def _attaches_more(was: CsiNode, now: CsiNode) -> bool:
    had = attach_limits(was)
    return any(limit > had.get(name, 0) for name, limit in attach_limits(now).items())


def binding_after_csi_driver(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """The driver of an inline volume of the pod no longer tracks capacity."""
    was, now = change.both(CsiDriver)
    if was is None or now is None:
        return False
    drivers = {v.csi.driver for v in pod.info.spec.volumes or () if v.csi is not None}
    is_relaxed = bool(was.spec.storage_capacity) and not now.spec.storage_capacity
    return is_relaxed and now.metadata.name in drivers


def zone_after_storage_class(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """A class is new whose volumes wait for their pod."""
    added = as_kind(StorageClass, change.new)
    return added is not None and added.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def limits_after_pod_deleted(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """The deleted pod held a node and had volumes that may have been attached there."""
    deleted = as_kind(PodView, change.old)
    if deleted is None or not deleted.holds_node:
        return False
    return any(may_attach(v) for v in deleted.info.spec.volumes or ())


def limits_after_detached(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """A volume was detached, and the pod has a claim (whichever: it is not looked up), an inline volume
    that the same driver serves, or one of which nobody can say who does."""
    detached = as_kind(VolumeAttachment, change.old)
    if detached is None:
        return False
    return any(
        volume.persistent_volume_claim is not None
        or isinstance(inline_attachable(volume), Untranslatable)
        or ((plugin := in_tree_plugin(volume)) and plugin.driver == detached.spec.attacher)
        for volume in pod.info.spec.volumes or ()
    )


def restrictions_after_pod_deleted(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """The deleted pod used a disk or a claim that this pod wants."""
    deleted = as_kind(PodView, change.old)
    if deleted is None or deleted.record.namespace != pod.record.namespace:
        return False
    if not set(deleted.info.claim_keys).isdisjoint(pod.info.claim_keys):
        return True
    held = disks(deleted.info.template)
    return any(disks_conflict(mine, other) for mine in disks(pod.info.template) for other in held)


def classes_beside_deleted(change: Change, cluster: ClusterView) -> Collection[int] | None:
    """Those to which `restrictions_after_pod_deleted` may say Queue; all, where a disk was used without
    a claim."""
    deleted = as_kind(PodView, change.old)
    if deleted is None:
        return ()
    if disks(deleted.info.template):
        return None
    return cluster.class_index.with_claims(deleted.info.claim_keys)


_CHANGED: Final = (Action.ADD, Action.UPDATE)

BINDING_EVENTS: Final = (
    ClusterEventWithHint(
        Resource.STORAGE_CLASS, _CHANGED, _if(StorageClass, _allows_other_topologies)
    ),
    ClusterEventWithHint(
        Resource.PERSISTENT_VOLUME_CLAIM, _CHANGED, after_own_claim, reads_identity=True
    ),
    ClusterEventWithHint(Resource.PERSISTENT_VOLUME, _CHANGED),
    ClusterEventWithHint(Resource.NODE, (Action.ADD, Action.UPDATE_NODE_LABEL)),
    ClusterEventWithHint(Resource.CSI_NODE, _CHANGED, _if(CsiNode, _migrates_other_plugins)),
    ClusterEventWithHint(Resource.CSI_DRIVER, (Action.UPDATE,), binding_after_csi_driver),
    ClusterEventWithHint(
        Resource.CSI_STORAGE_CAPACITY, _CHANGED, _if(CsiStorageCapacity, _fits_larger_volumes)
    ),
)
ZONE_EVENTS: Final = (
    ClusterEventWithHint(Resource.STORAGE_CLASS, (Action.ADD,), zone_after_storage_class),
    ClusterEventWithHint(Resource.NODE, (Action.ADD, Action.UPDATE_NODE_LABEL)),
    ClusterEventWithHint(
        Resource.PERSISTENT_VOLUME_CLAIM, _CHANGED, after_named_claim, classes=classes_naming_claim
    ),
    ClusterEventWithHint(
        Resource.PERSISTENT_VOLUME, _CHANGED, _if(PersistentVolume, _lies_elsewhere)
    ),
)
LIMITS_EVENTS: Final = (
    ClusterEventWithHint(Resource.CSI_NODE, (Action.ADD,)),
    ClusterEventWithHint(Resource.CSI_NODE, (Action.UPDATE,), _if(CsiNode, _attaches_more)),
    ClusterEventWithHint(Resource.POD, (Action.DELETE,), limits_after_pod_deleted),
    ClusterEventWithHint(
        Resource.PERSISTENT_VOLUME_CLAIM, (Action.ADD,), after_own_claim, reads_identity=True
    ),
    ClusterEventWithHint(Resource.VOLUME_ATTACHMENT, (Action.DELETE,), limits_after_detached),
)
RESTRICTIONS_EVENTS: Final = (
    ClusterEventWithHint(
        Resource.POD,
        (Action.DELETE,),
        restrictions_after_pod_deleted,
        classes=classes_beside_deleted,
    ),
    ClusterEventWithHint(Resource.NODE, (Action.ADD,)),
    ClusterEventWithHint(
        Resource.PERSISTENT_VOLUME_CLAIM,
        (Action.ADD,),
        after_named_claim,
        classes=classes_naming_claim,
    ),
)
