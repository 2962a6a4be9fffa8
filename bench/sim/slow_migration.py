"""Disks that are built into Kubernetes, as the CSI volumes that drivers serve them as, said slowly.

Rules: staging/src/k8s.io/csi-translation-lib/plugins; `isCSIMigrationOn` in
pkg/scheduler/framework/plugins/nodevolumelimits/utils.go, `tryTranslatePVToCSI` in
pkg/scheduler/framework/plugins/volumebinding/binder.go; v1.36.2.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from bench.sim.slow_pods import CannotTell

Json = Mapping[str, Any]
Handle = tuple[str, str]
"""(driver, name of a volume there)"""

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"


class Served(NamedTuple):
    """A kind of disks that a driver has taken over."""

    plugin: str
    driver: str
    named_by: str
    zone: str
    """The label of nodes that says in which zone the driver serves them; empty: none does."""


SERVED: Final = {
    "awsElasticBlockStore": Served(
        "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "volumeID", "topology.ebs.csi.aws.com/zone"
    ),
    "azureDisk": Served("kubernetes.io/azure-disk", "disk.csi.azure.com", "diskURI", ""),
    "cinder": Served(
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "volumeID",
        "topology.cinder.csi.openstack.org/zone",
    ),
    "gcePersistentDisk": Served(
        "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "pdName", "topology.gke.io/zone"
    ),
    "portworxVolume": Served("kubernetes.io/portworx-volume", "pxd.portworx.com", "volumeID", ""),
}
LEFT: Final = ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")
"""Plugins whose disks a driver could serve, and for the scheduler does not."""


def served_as(source: Json, labels: Mapping[str, str], csi_node: Json | None) -> Handle | None:
    """What a disk is counted as on a node; None where it is not. `labels`: of its PersistentVolume."""
    for kind, served in SERVED.items():
        disk = source.get(kind)
        if disk and csi_node is not None:
            name = str(disk.get(served.named_by) or "")
            if kind == "gcePersistentDisk":
                zone = labels.get(BETA_ZONE) or labels.get(ZONE, "")
                if "__" in zone:
                    raise CannotTell("a disk of several zones")
                name = f"{zone}/{name}"
            elif name.startswith("aws://"):
                name = name.removeprefix("aws://").partition("/")[2]
            return served.driver, name
    return None


def driver_of(provisioner: str, csi_node: Json | None) -> str:
    """Whose volumes a storage class makes, as they are counted on a node; empty where they are not."""
    named = [each.driver for each in SERVED.values() if each.plugin == provisioner]
    if named:
        return named[0] if csi_node is not None else ""
    return "" if provisioner in LEFT else provisioner


def within_reach_of(volume: Json, csi_node: Json | None) -> list[Json] | None:
    """The node selector terms of a volume on a node; None where it can be had on all."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    terms = None if required is None else list(required.get("nodeSelectorTerms") or [])
    served = next((SERVED[kind] for kind in SERVED if volume["spec"].get(kind)), None)
    told = ((csi_node or {}).get("metadata") or {}).get("annotations") or {}
    if (
        not served
        or not served.zone
        or served.plugin not in told.get(MIGRATED_PLUGINS, "").split(",")
    ):
        return terms
    labels = volume["metadata"].get("labels") or {}
    keys = {line["key"] for term in terms or () for line in term.get("matchExpressions") or ()}
    zone = next((key for key in (ZONE, BETA_ZONE) if key in keys), "")
    zone = zone or next((key for key in (ZONE, BETA_ZONE) if key in labels), ZONE)
    other = {zone: served.zone} | ({BETA_REGION: REGION} if zone == BETA_ZONE else {})
    zones = [part.strip() for part in labels.get(zone, "").split("__") if part.strip()]
    more = []
    if zone not in keys and zones:
        more, terms = [{"key": served.zone, "operator": "In", "values": zones}], terms or [{}]
    if terms is None:
        return None
    return [
        {
            **term,
            "matchExpressions": [
                {**line, "key": other.get(line["key"], line["key"])}
                for line in term.get("matchExpressions") or ()
            ]
            + more,
        }
        for term in terms
    ]
