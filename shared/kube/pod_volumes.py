"""The volumes of a pod class: its claims, the disks that it must not share, what it attaches.

From the template alone, so that a pod without volumes costs a look at an empty list.

Rules: staging/src/k8s.io/component-helpers/storage/ephemeral/ephemeral.go and
pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go, v1.36.
"""

from typing import NamedTuple

from shared.kube.api.core_v1 import PersistentVolumeClaim, Volume
from shared.kube.csi_translation import Untranslatable, inline_handle
from shared.kube.in_tree_plugins import in_tree_plugin
from shared.kube.pod_record import PodTemplate, controller_of


class ClaimUse(NamedTuple):
    key: str
    """`namespace/claim`"""
    name: str
    is_ephemeral: bool
    """The claim is made for the pod, and must belong to it."""


class Disk(NamedTuple):
    """An inline disk that two pods on one node may not both write to."""

    key: tuple[str, ...]
    is_read_only: bool
    monitors: frozenset[str]
    """Of an RBD image: it is the same one only where they share a monitor."""


class Attachable(NamedTuple):
    """A volume that takes one of the places that a driver has on a node."""

    driver: str
    name: str
    """Driver and handle: the same for all who use the volume."""
    is_migrated: bool = False
    """Of an in-tree plugin whose part the driver has taken."""


def claim_uses(namespace: str, template: PodTemplate) -> tuple[ClaimUse, ...]:
    """The claims in order of the volumes; a claim that stands there twice comes twice."""
    found: list[ClaimUse] = []
    for volume in template.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
            found.append(ClaimUse(f"{namespace}/{name}", name, False))
        elif volume.ephemeral is not None:
            assert template.own is not None, "a template with ephemeral volumes names its pod"
            name = f"{template.own.name}-{volume.name}"
            found.append(ClaimUse(f"{namespace}/{name}", name, True))
    return tuple(found)


def ownership_problem(
    namespace: str, template: PodTemplate, claim: PersistentVolumeClaim
) -> str | None:
    """Why the claim is not the pod's ephemeral one; None if it is."""
    assert template.own is not None, "a template with ephemeral volumes names its pod"
    pod = template.own
    meta = claim.metadata
    owner = controller_of(meta.owner_references)
    if owner is not None and owner.uid == pod.uid:
        return None
    return (
        f"PVC {meta.namespace}/{meta.name} was not created for pod {namespace}/{pod.name} "
        "(pod is not owner)"
    )


# Inline volumes -------------------------------------------------------------------------------------


def disks(template: PodTemplate) -> tuple[Disk, ...]:
    """The inline disks that are not to be shared."""
    found: list[Disk] = []
    for volume in template.spec.volumes or ():
        gce, ebs = volume.gce_persistent_disk, volume.aws_elastic_block_store
        iscsi, rbd = volume.iscsi, volume.rbd
        if gce is not None:
            found.append(Disk(("gce", gce.pd_name), gce.read_only, frozenset()))
        if ebs is not None:
            # Reading only does not help: an EBS disk is attached once.
            found.append(Disk(("ebs", ebs.volume_id), False, frozenset()))
        if iscsi is not None:
            found.append(Disk(("iscsi", iscsi.iqn), iscsi.read_only, frozenset()))
        if rbd is not None:
            monitors = frozenset(rbd.monitors or ())
            found.append(Disk(("rbd", rbd.pool, rbd.image), rbd.read_only, monitors))
    return tuple(found)


def disks_conflict(mine: Disk, other: Disk) -> bool:
    """Two pods with these disks cannot be on one node."""
    if mine.key != other.key or (mine.is_read_only and other.is_read_only):
        return False
    return mine.key[0] != "rbd" or not mine.monitors.isdisjoint(other.monitors)


def inline_attachable(volume: Volume) -> Attachable | Untranslatable | None:
    """What a migrated in-tree volume of a pod attaches; None for any other volume."""
    plugin = in_tree_plugin(volume)
    if plugin is None or not plugin.is_migrated:
        return None
    handle = inline_handle(volume)
    if isinstance(handle, Untranslatable):
        told = f"converting volume({volume.name}) from inline to csi: {handle.problem}"
        return Untranslatable(told)
    return Attachable(plugin.driver, f"{plugin.driver}/{handle}", is_migrated=True)


def may_attach(volume: Volume) -> bool:
    """Whether limits of a node could matter to the volume (NodeVolumeLimits' PreFilter)."""
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or in_tree_plugin(volume) is not None
    )
