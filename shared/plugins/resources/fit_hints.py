"""Events that help pods that NodeResourcesFit rejected.

Rules: `EventsToRegister` and its hints in pkg/scheduler/framework/plugins/noderesources/fit.go, v1.36.2.
"""

from shared.dra.device_index import CLASSES, device_index
from shared.dra.extended import IMPLICIT_PREFIX
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import (
    Change,
    ClusterEventWithHint,
    PodView,
    QueueingHint,
    queue_if,
)
from shared.kube.api.core_v1 import Node
from shared.kube.api.resource_v1_devices import DeviceClass
from shared.kube.node_resources import NodeAllocatable, node_allocatable
from shared.kube.pod_resources import PodRequests


class FitHints:
    """The plugin's events; remembers what the last node has: one event asks about it for many pods."""

    def __init__(self) -> None:
        self._parsed: tuple[Node, NodeAllocatable] | None = None

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (
            ClusterEventWithHint(
                Resource.POD, (Action.DELETE, Action.UPDATE_POD_SCALE_DOWN), after_pod_change
            ),
            ClusterEventWithHint(
                Resource.NODE,
                (Action.ADD, Action.UPDATE_NODE_ALLOCATABLE),
                self._after_node_change,
            ),
            ClusterEventWithHint(
                Resource.DEVICE_CLASS, (Action.ADD, Action.UPDATE), after_device_class_change
            ),
        )

    def _after_node_change(
        self, pod: PodView, change: Change, cluster: ClusterView
    ) -> QueueingHint:
        """The node, if it were empty, has room for the pod, and more of something than before."""
        was, now = change.both(Node)
        if now is None:
            return QueueingHint.SKIP
        has = self._allocatable(now)
        if not _fits(pod.info, has, cluster):
            return QueueingHint.SKIP
        return queue_if(was is None or _has_grown(pod.info, node_allocatable(was), has, cluster))

    def _allocatable(self, node: Node) -> NodeAllocatable:
        if self._parsed is None or self._parsed[0] is not node:
            self._parsed = (node, node_allocatable(node))
        return self._parsed[1]


def after_pod_change(pod: PodView, change: Change, cluster: ClusterView) -> QueueingHint:
    """A pod that held a node went, or asks for less of what this one needs."""
    was, now = change.both(PodView)
    if now is None:
        return queue_if(was is not None and was.holds_node)
    if change.is_of(pod):
        return QueueingHint.QUEUE
    if was is None or not now.record.node_name:
        return QueueingHint.SKIP
    return queue_if(_is_more(was.info.requests, now.info.requests, pod.info.requests))


def after_device_class_change(pod: PodView, change: Change, cluster: ClusterView) -> QueueingHint:
    """A device class now stands for an extended resource that the pod asks for."""
    was, now = change.both(DeviceClass)
    if now is None:
        return QueueingHint.SKIP
    scalars = pod.info.requests.scalars
    if was is None:
        if IMPLICIT_PREFIX + now.metadata.name in scalars:
            return QueueingHint.QUEUE
    elif was.spec.extended_resource_name == now.spec.extended_resource_name:
        return QueueingHint.SKIP
    return queue_if(now.spec.extended_resource_name in scalars)


def _fits(pod: PodInfo, has: NodeAllocatable, cluster: ClusterView) -> bool:
    wants = pod.fit_filter_requests
    return (
        has.pods >= 1
        and wants.milli_cpu <= max(has.milli_cpu, 0)
        and wants.memory_bytes <= max(has.memory_bytes, 0)
        and wants.ephemeral_storage_bytes <= max(has.ephemeral_storage_bytes, 0)
        and all(
            amount <= has.scalars.get(name, 0) or _is_left_to_devices(name, has, cluster)
            for name, amount in wants.scalars.items()
            if amount > 0
        )
    )


def _has_grown(
    pod: PodInfo, had: NodeAllocatable, has: NodeAllocatable, cluster: ClusterView
) -> bool:
    wants = pod.fit_filter_requests
    return (
        has.pods > had.pods
        or _is_more(has, had, wants)
        or any(
            amount > 0 and _is_left_to_devices(name, has, cluster)
            for name, amount in wants.scalars.items()
        )
    )


def _is_left_to_devices(name: str, has: NodeAllocatable, cluster: ClusterView) -> bool:
    """Whether a device class provides the resource where the node itself does not."""
    if has.scalars.get(name, 0) > 0 or not cluster.objects.all(CLASSES):
        return False
    return name in device_index(cluster).by_resource


def _is_more(
    new: NodeAllocatable | PodRequests, old: NodeAllocatable | PodRequests, wanted: PodRequests
) -> bool:
    """Whether there is more than before of something that is wanted."""
    return (
        (wanted.milli_cpu > 0 and new.milli_cpu > old.milli_cpu)
        or (wanted.memory_bytes > 0 and new.memory_bytes > old.memory_bytes)
        or (
            wanted.ephemeral_storage_bytes > 0
            and new.ephemeral_storage_bytes > old.ephemeral_storage_bytes
        )
        or any(
            amount > 0 and new.scalars.get(name, 0) > old.scalars.get(name, 0)
            for name, amount in wanted.scalars.items()
        )
    )
