"""What the binder has to do about the volumes of a pod before it binds the pod.

Read from the same search that Reserve made its assumptions by, and after it: a pod that shares a
claim with an earlier one finds nothing left to assume, and waits for the same volume all the same.
"""

import numpy as np

from daemon.core.owner_plugins import OwnerPlugins
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.kube.volume_names import BOUND_BY_CONTROLLER
from shared.messages.to_binder import MakeVolume, TakeVolume, VolumeWork
from shared.plugins.volumes.volume_binding import VolumeBinding


def volume_work(
    plugins: OwnerPlugins, pod: PodInfo, cluster: ClusterView, row: int
) -> VolumeWork | None:
    """For a pod that was reserved a place on the row; None where all volumes are bound."""
    if not pod.claim_uses:
        return None
    for plugin in plugins.reserve.get(pod.spec.scheduler_name, ()):
        if isinstance(plugin, VolumeBinding):
            found = plugin.volumes_on(pod, cluster, np.array([row], np.intp))
            if found is None:
                return None
            take = [
                TakeVolume(
                    volume_name=volume.metadata.name,
                    volume_version=volume.metadata.resource_version,
                    is_found=BOUND_BY_CONTROLLER in (volume.metadata.annotations or {}),
                    claim_namespace=claim.metadata.namespace,
                    claim_name=claim.metadata.name,
                    claim_uid=claim.metadata.uid,
                )
                for claim, volume in found.bindings
            ]
            make = [
                MakeVolume(meta.namespace, meta.name, meta.resource_version, meta.uid)
                for meta in (claim.metadata for claim in found.provisions)
            ]
            return VolumeWork(take, make, plugin.bind_timeout_s)
    return None
