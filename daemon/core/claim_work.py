"""What the binder has to do about the resource claims of a pod before it binds the pod.

Read after Reserve, which laid its allocations over the claims; a claim that is reserved for the pod
already needs nothing.
"""

from daemon.core.owner_plugins import OwnerPlugins
from shared.framework.cluster_view import ClusterView
from shared.framework.device_index import CLAIMS
from shared.framework.pod_info import PodInfo
from shared.kube.pod_record import PodRecord
from shared.messages.to_binder import ClaimWork
from shared.plugins.dynamic_resources import SPECIAL_CLAIM, DynamicResources


def claim_work(
    plugins: OwnerPlugins, record: PodRecord, pod: PodInfo, cluster: ClusterView
) -> list[ClaimWork]:
    """For a pod that was reserved a place; empty for the usual pod, which has no claims."""
    if not pod.spec.resource_claims and not pod.requests.scalars:
        return []
    for plugin in plugins.reserve.get(pod.spec.scheduler_name, ()):
        if isinstance(plugin, DynamicResources):
            assumed = cluster.objects.assumed(CLAIMS)
            work = []
            for key, claim in plugin.bound_claims(record, pod, cluster):
                meta = claim.metadata
                allocation = claim.status.allocation
                assert allocation is not None, f"{key} is reserved without being allocated"
                work.append(
                    ClaimWork(
                        namespace=meta.namespace,
                        name=meta.name,
                        uid=meta.uid,
                        allocation=allocation,
                        is_new=key in assumed and assumed[key].pod_uid == record.uid,
                        is_generated=meta.name == SPECIAL_CLAIM,
                    )
                )
            return work
    return []
