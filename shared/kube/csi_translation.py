"""In-tree volumes as the CSI volumes that they are in truth: driver, handle, node affinity.

Apart from the plugins because binding and limits both look through it. Only what those two read is
translated; everything else of a translated volume does not matter to scheduling.

Rules: staging/src/k8s.io/csi-translation-lib/{translate.go,plugins/*.go}, v1.36.
"""

import re
from typing import Final, NamedTuple

from msgspec.structs import replace

from shared.kube.api.core_v1 import Volume
from shared.kube.api.core_v1_parts import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeSpec,
)
from shared.kube.in_tree_plugins import PLUGIN_BY_FIELD, InTreePlugin, in_tree_plugin

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
ZONE_SEPARATOR: Final = "__"
_UNSPECIFIED: Final = "UNSPECIFIED"
_EBS_VOLUME: Final = re.compile(r"vol-[^/]*")


class Untranslatable(NamedTuple):
    problem: str


# Handles ------------------------------------------------------------------------------------------


def inline_handle(volume: Volume) -> str | Untranslatable:
    """The CSI volume handle of a migrated in-tree volume of a pod."""
    if volume.gce_persistent_disk is not None:
        return _gce_handle("zones", _UNSPECIFIED, volume.gce_persistent_disk.pd_name)
    return _plain_handle(volume)


def volume_handle(volume: PersistentVolume) -> str | Untranslatable:
    """The CSI volume handle of a migrated in-tree persistent volume."""
    disk = volume.spec.gce_persistent_disk
    if disk is None:
        return _plain_handle(volume.spec)
    labels = volume.metadata.labels or {}
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE, "")).split(ZONE_SEPARATOR)
    if len(zones) == 1:
        return _gce_handle("zones", zones[0] or _UNSPECIFIED, disk.pd_name)
    region = _gce_region(zones)
    if isinstance(region, Untranslatable):
        return region
    return _gce_handle("regions", region, disk.pd_name)


def _plain_handle(source: Volume | PersistentVolumeSpec) -> str | Untranslatable:
    if source.aws_elastic_block_store is not None:
        return _ebs_handle(source.aws_elastic_block_store.volume_id)
    if source.azure_disk is not None:
        kind = source.azure_disk.kind
        # Blobs, which the API takes a disk for that does not say what it is, have no driver.
        if kind is not None and kind.lower() != "managed":
            return Untranslatable(f"kind({kind}) is not supported in csi migration")
        return source.azure_disk.disk_uri
    by_id = source.cinder or source.portworx_volume
    assert by_id is not None, "asked for the handle of a volume that is not migrated"
    return by_id.volume_id


def _gce_handle(kind: str, place: str, disk: str) -> str:
    return f"projects/{_UNSPECIFIED}/{kind}/{place}/disks/{disk}"


def _gce_region(zones: list[str]) -> str | Untranslatable:
    """The region of a regional disk, whose zones must all lie in it."""
    regions: set[str] = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            return Untranslatable(
                "failed to get region from zones: zone in unexpected format, "
                f"expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        found = " ".join(f"{region}:{{}}" for region in sorted(regions))
        return Untranslatable(
            "failed to get region from zones: multiple or no regions gotten from zones, "
            f"got: map[{found}]"
        )
    return regions.pop()


def _ebs_handle(volume_id: str) -> str | Untranslatable:
    """`vol-1`, `aws://zone/vol-1` and `aws:///vol-1` are the same volume."""
    if not volume_id.startswith("aws://"):
        return volume_id
    address = re.split(r"[?#]", volume_id.removeprefix("aws://"), maxsplit=1)[0]
    handle = address.partition("/")[2].strip("/")
    if _EBS_VOLUME.fullmatch(handle) is None:
        return Untranslatable(
            "failed to translate Kubernetes ID to EBS Volume ID "
            f"Invalid format for AWS volume ({volume_id})"
        )
    return handle


# Node affinity --------------------------------------------------------------------------------------


def translated_affinity(volume: PersistentVolume) -> NodeSelector | None | Untranslatable:
    """The required node affinity of a migrated volume on a node where its CSI driver serves it.

    The zone becomes the driver's own topology label; a zone that only the volume's labels state
    becomes a requirement.
    """
    plugin = in_tree_plugin(volume.spec)
    assert plugin is not None, "asked to translate a volume that is not in-tree"
    if plugin.is_migrated:
        handle = volume_handle(volume)
        if isinstance(handle, Untranslatable):
            return handle
    affinity = volume.spec.node_affinity
    required = None if affinity is None else affinity.required
    if not plugin.topology_key:
        return required
    terms = (required.node_selector_terms or []) if required is not None else []
    zone = _zone_label(volume, terms)
    if _has_values(terms, zone):
        terms = _with_key(terms, zone, plugin.topology_key)
    else:
        stated = (volume.metadata.labels or {}).get(zone, "").split(ZONE_SEPARATOR)
        zones = sorted({part.strip() for part in stated} - {""})
        if zones:
            more = NodeSelectorRequirement(key=plugin.topology_key, operator="In", values=zones)
            terms = [
                replace(term, match_expressions=[*(term.match_expressions or ()), more])
                for term in terms or [NodeSelectorTerm()]
            ]
    if zone == BETA_ZONE and _has_values(terms, BETA_REGION):
        terms = _with_key(terms, BETA_REGION, REGION)
    if required is None and not terms:
        return None
    return NodeSelector(node_selector_terms=terms)


def _zone_label(volume: PersistentVolume, terms: list[NodeSelectorTerm]) -> str:
    """The label that the volume speaks of: the GA one, or the beta one, with its own for regions."""
    keys = {r.key for term in terms for r in term.match_expressions or ()}
    for stated in (keys, volume.metadata.labels or {}):
        for label in (ZONE, BETA_ZONE):
            if label in stated:
                return label
    return ZONE


def _has_values(terms: list[NodeSelectorTerm], key: str) -> bool:
    return any(r.key == key and r.values for term in terms for r in term.match_expressions or ())


def _with_key(terms: list[NodeSelectorTerm], old: str, new: str) -> list[NodeSelectorTerm]:
    return [
        replace(
            term,
            match_expressions=[
                replace(r, key=new) if r.key == old else r for r in term.match_expressions or ()
            ],
        )
        for term in terms
    ]


DRIVERS_OF_PLUGINS: Final = frozenset(
    name for plugin in PLUGIN_BY_FIELD.values() for name in (plugin.driver, plugin.topology_key)
)
"""Names that mean something by themselves: drivers, and labels that they give to nodes."""


def in_tree_plugin_named(provisioner: str) -> InTreePlugin | None:
    """The plugin that a storage class names as its provisioner; None for a CSI driver."""
    return next((each for each in PLUGIN_BY_FIELD.values() if each.name == provisioner), None)
