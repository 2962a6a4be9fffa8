"""Hints of the plugins that look at volumes: binding, zones, limits, restrictions.

Files of the rules (under pkg/scheduler/framework/plugins, v1.36) are named with each.
"""

from typing import Final

from daemon.core.queue.queued_pod import PodView, QueuedPod
from daemon.core.queue.wakeups import Change, Hint, as_kind
from shared.kube import quantity
from shared.kube.csi_translation import in_tree_plugin
from shared.kube.objects import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from shared.kube.pod_resources import claim_names
from shared.kube.pod_volumes import may_attach

_MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_TOPOLOGY_LABELS: Final = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
_ZONE_SEPARATOR: Final = "__"
_WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"


# Claims: volumebinding/volume_binding.go, nodevolumelimits/csi.go ---------------------------------


def after_own_claim(pod: QueuedPod, change: Change) -> Hint:
    """VolumeBinding, NodeVolumeLimits: a claim of the pod changed. Ephemeral volumes have claims that
    are named after the pod."""
    claim = as_kind(PersistentVolumeClaim, change.new)
    if claim is None or claim.metadata.namespace != pod.record.namespace:
        return Hint.SKIP
    return _queue_if(claim.metadata.name in claim_names(pod.info.template, pod.record.name))


def after_named_claim(pod: QueuedPod, change: Change) -> Hint:
    """VolumeZone, VolumeRestrictions: a claim that the pod names outright changed.

    volumezone/volume_zone.go, volumerestrictions/volume_restrictions.go
    """
    claim = as_kind(PersistentVolumeClaim, change.new)
    if claim is None:
        return Hint.SKIP
    return _queue_if(f"{claim.metadata.namespace}/{claim.metadata.name}" in pod.info.claim_keys)


# VolumeBinding: volumebinding/volume_binding.go ---------------------------------------------------


def binding_after_storage_class(_pod: QueuedPod, change: Change) -> Hint:
    """A class is new, or allows other topologies."""
    was, now = as_kind(StorageClass, change.old), as_kind(StorageClass, change.new)
    if was is None or now is None:
        return Hint.QUEUE
    return _queue_if((was.allowed_topologies or []) != (now.allowed_topologies or []))


def binding_after_csi_node(_pod: QueuedPod, change: Change) -> Hint:
    """A node's CSI information is new, or other in-tree plugins are migrated there."""
    was, now = as_kind(CsiNode, change.old), as_kind(CsiNode, change.new)
    if was is None or now is None:
        return Hint.QUEUE
    return _queue_if(_migrated_plugins(was) != _migrated_plugins(now))


def binding_after_csi_driver(pod: QueuedPod, change: Change) -> Hint:
    """The driver of an inline volume of the pod no longer tracks capacity."""
    was, now = as_kind(CsiDriver, change.old), as_kind(CsiDriver, change.new)
    if was is None or now is None:
        return Hint.SKIP
    drivers = {v.csi.driver for v in pod.info.spec.volumes or () if v.csi is not None}
    is_relaxed = bool(was.spec.storage_capacity) and not now.spec.storage_capacity
    return _queue_if(is_relaxed and now.metadata.name in drivers)


def binding_after_storage_capacity(_pod: QueuedPod, change: Change) -> Hint:
    """Capacity is new, or larger volumes than before fit into it."""
    was, now = as_kind(CsiStorageCapacity, change.old), as_kind(CsiStorageCapacity, change.new)
    if was is None or now is None:
        return Hint.QUEUE
    had, has = _volume_limit(was), _volume_limit(now)
    return _queue_if(has is not None and (had is None or has > had))


def _migrated_plugins(csi_node: CsiNode) -> str:
    return (csi_node.metadata.annotations or {}).get(_MIGRATED_PLUGINS, "")


def _volume_limit(capacity: CsiStorageCapacity) -> int | None:
    stated = capacity.maximum_volume_size
    if stated is None:
        stated = capacity.capacity
    return quantity.value(stated) if stated is not None else None


# VolumeZone: volumezone/volume_zone.go ------------------------------------------------------------


def zone_after_storage_class(_pod: QueuedPod, change: Change) -> Hint:
    """A class is new whose volumes wait for their pod."""
    added = as_kind(StorageClass, change.new)
    return _queue_if(added is not None and added.volume_binding_mode == _WAIT_FOR_FIRST_CONSUMER)


def zone_after_volume(_pod: QueuedPod, change: Change) -> Hint:
    """A volume is new, or lies in other zones or regions than before."""
    was, now = as_kind(PersistentVolume, change.old), as_kind(PersistentVolume, change.new)
    if was is None or now is None:
        return Hint.QUEUE
    return _queue_if(_topologies(was) != _topologies(now))


def _topologies(volume: PersistentVolume) -> dict[str, frozenset[str]]:
    """Topology label -> zones; a label with an empty zone in it is ignored."""
    labels = volume.metadata.labels or {}
    found = {}
    for key in _TOPOLOGY_LABELS:
        if key in labels:
            zones = frozenset(zone.strip() for zone in labels[key].split(_ZONE_SEPARATOR))
            if "" not in zones:
                found[key] = zones
    return found


# NodeVolumeLimits: nodevolumelimits/csi.go --------------------------------------------------------


def limits_after_csi_node(_pod: QueuedPod, change: Change) -> Hint:
    """A driver of the node can attach more volumes than before."""
    was, now = as_kind(CsiNode, change.old), as_kind(CsiNode, change.new)
    if was is None or now is None:
        return Hint.QUEUE
    had = _attach_limits(was)
    return _queue_if(any(limit > had.get(name, 0) for name, limit in _attach_limits(now).items()))


def limits_after_pod_deleted(_pod: QueuedPod, change: Change) -> Hint:
    """The deleted pod held a node and had volumes that may have been attached there."""
    deleted = as_kind(PodView, change.old)
    if deleted is None or not deleted.holds_node:
        return Hint.SKIP
    return _queue_if(any(may_attach(v) for v in deleted.info.spec.volumes or ()))


def limits_after_detached(pod: QueuedPod, change: Change) -> Hint:
    """A volume was detached, and the pod has a claim (whichever: it is not looked up) or an inline
    volume that the same driver serves."""
    detached = as_kind(VolumeAttachment, change.old)
    if detached is None:
        return Hint.SKIP
    return _queue_if(
        any(
            volume.persistent_volume_claim is not None
            or _migrated_driver(volume) == detached.spec.attacher
            for volume in pod.info.spec.volumes or ()
        )
    )


def _attach_limits(csi_node: CsiNode) -> dict[str, int]:
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers or ()
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _migrated_driver(volume: Volume) -> str | None:
    """The CSI driver that serves an inline in-tree volume; None for any other volume."""
    plugin = in_tree_plugin(volume)
    return None if plugin is None else plugin.driver


# VolumeRestrictions: volumerestrictions/volume_restrictions.go ------------------------------------


def restrictions_after_pod_deleted(pod: QueuedPod, change: Change) -> Hint:
    """The deleted pod used a disk or a claim that this pod wants."""
    deleted = as_kind(PodView, change.old)
    if deleted is None or deleted.record.namespace != pod.record.namespace:
        return Hint.SKIP
    if not set(deleted.info.claim_keys).isdisjoint(pod.info.claim_keys):
        return Hint.QUEUE
    wanted = pod.info.spec.volumes or ()
    held = deleted.info.spec.volumes or ()
    return _queue_if(any(_conflict(mine, other) for mine in wanted for other in held))


def _conflict(mine: Volume, other: Volume) -> bool:
    """Whether two inline volumes are the same disk, and not both only read it.

    An EBS disk cannot be shared at all.
    """
    gce, other_gce = mine.gce_persistent_disk, other.gce_persistent_disk
    if gce is not None and other_gce is not None and gce.pd_name == other_gce.pd_name:
        return not (gce.read_only and other_gce.read_only)
    ebs, other_ebs = mine.aws_elastic_block_store, other.aws_elastic_block_store
    if ebs is not None and other_ebs is not None:
        return ebs.volume_id == other_ebs.volume_id
    iscsi, other_iscsi = mine.iscsi, other.iscsi
    if iscsi is not None and other_iscsi is not None and iscsi.iqn == other_iscsi.iqn:
        return not (iscsi.read_only and other_iscsi.read_only)
    rbd, other_rbd = mine.rbd, other.rbd
    if (
        rbd is None
        or other_rbd is None
        or (rbd.pool, rbd.image) != (other_rbd.pool, other_rbd.image)
    ):
        return False
    is_shared = not set(rbd.monitors or ()).isdisjoint(other_rbd.monitors or ())
    return is_shared and not (rbd.read_only and other_rbd.read_only)


def _queue_if(may_help: bool) -> Hint:
    return Hint.QUEUE if may_help else Hint.SKIP
