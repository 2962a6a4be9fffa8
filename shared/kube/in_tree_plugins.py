"""Which plugin an in-tree volume belongs to, and which CSI driver can serve it.

What such a volume is as one of CSI: `csi_translation.py`.
"""

from typing import Final, NamedTuple

from shared.kube.api.core_v1_parts import PersistentVolumeSource


class InTreePlugin(NamedTuple):
    """A plugin whose volumes a CSI driver can serve."""

    name: str
    driver: str
    topology_key: str
    """The node label that stands in for the zone label; empty where zones are left as they are."""
    is_migrated: bool
    """The driver has taken the volumes over. Of the others kube-scheduler only says that it could."""


PLUGIN_BY_FIELD: Final = {
    "gce_persistent_disk": InTreePlugin(
        "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone", True
    ),
    "aws_elastic_block_store": InTreePlugin(
        "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone", True
    ),
    "azure_disk": InTreePlugin("kubernetes.io/azure-disk", "disk.csi.azure.com", "", True),
    "cinder": InTreePlugin(
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "topology.cinder.csi.openstack.org/zone",
        True,
    ),
    "portworx_volume": InTreePlugin("kubernetes.io/portworx-volume", "pxd.portworx.com", "", True),
    "azure_file": InTreePlugin("kubernetes.io/azure-file", "file.csi.azure.com", "", False),
    "vsphere_volume": InTreePlugin(
        "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", "", False
    ),
}
"""Source field of a volume -> its plugin (migrated: isCSIMigrationOnForPlugin in
pkg/scheduler/framework/plugins/volumebinding/binder.go, v1.36)."""


def in_tree_plugin(source: PersistentVolumeSource) -> InTreePlugin | None:
    """The plugin of an in-tree source that CSI knows of; None for any other source."""
    for field, plugin in PLUGIN_BY_FIELD.items():
        if getattr(source, field) is not None:
            return plugin
    return None
