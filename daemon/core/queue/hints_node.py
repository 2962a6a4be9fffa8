"""Hints of the plugins that look at one node at a time: resources, taints, affinity, ports, features.

Each function answers for one plugin whether a change may help a pod that this plugin rejected. It
errs on the side of Queue. Files of the rules (under pkg/scheduler/framework/plugins, v1.36) are named
with each.
"""

from typing import Final

from daemon.core.queue.object_changes import is_scaled_down_in
from daemon.core.queue.queued_pod import PodView, QueuedPod
from daemon.core.queue.selectors import selects_node
from daemon.core.queue.wakeups import Change, ChangedObject, Hint, as_kind
from shared.columns.table import TaintTuple
from shared.errors import ObjectError
from shared.framework.cluster_view import ObjectStore
from shared.framework.pod_info import PodInfo
from shared.kube.node_resources import NodeAllocatable, node_allocatable
from shared.kube.objects import DeviceClass, Node
from shared.plugins.node.host_ports import conflicts
from shared.plugins.node.node_declared_features import required_features
from shared.selectors.node_selector import Terms
from shared.selectors.tolerations import NO_SCHEDULE, is_repelled, tolerates, toleration_rules

_UNSCHEDULABLE_TAINT: Final[TaintTuple] = ("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)
_IMPLICIT_RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"


class TaintTolerationHints:
    """tainttoleration/taint_toleration.go"""

    def __init__(self, *, has_comparison: bool) -> None:
        self._has_comparison = has_comparison

    def after_node_change(self, pod: QueuedPod, change: Change) -> Hint:
        """The node became one that the pod tolerates."""
        was, now = as_kind(Node, change.old), as_kind(Node, change.new)
        is_welcome = now is not None and not self._repels(now, pod)
        was_welcome = was is not None and not self._repels(was, pod)
        return _queue_if(is_welcome and not was_welcome)

    def _repels(self, node: Node, pod: QueuedPod) -> bool:
        taints = [(taint.key, taint.value, taint.effect) for taint in node.spec.taints or ()]
        if not taints:
            return False
        rules = toleration_rules(pod.info.spec.tolerations, has_comparison=self._has_comparison)
        return is_repelled(taints, rules)


def after_own_toleration(pod: QueuedPod, change: Change) -> Hint:
    """TaintToleration: the pod itself was given a toleration."""
    return _queue_if(_is_self(pod, change.new))


def after_own_unschedulable_toleration(pod: QueuedPod, change: Change) -> Hint:
    """NodeUnschedulable: the pod itself tolerates unschedulable nodes now.

    nodeunschedulable/node_unschedulable.go
    """
    rules = toleration_rules(pod.info.spec.tolerations)
    return _queue_if(_is_self(pod, change.new) and tolerates(rules, _UNSCHEDULABLE_TAINT))


def after_node_schedulable(_pod: QueuedPod, change: Change) -> Hint:
    """NodeUnschedulable: the node is new, or was unschedulable, and is schedulable now."""
    was, now = as_kind(Node, change.old), as_kind(Node, change.new)
    was_closed = was is None or was.spec.unschedulable
    return _queue_if(was_closed and now is not None and not now.spec.unschedulable)


class NodeAffinityHints:
    """nodeaffinity/node_affinity.go"""

    def __init__(self, added_terms: Terms | None) -> None:
        self._added_terms = added_terms
        """Of the profile's addedAffinity; None: it adds none."""

    def after_node_change(self, pod: QueuedPod, change: Change) -> Hint:
        """The node became one that the pod selects."""
        was, now = as_kind(Node, change.old), as_kind(Node, change.new)
        if now is None or (
            self._added_terms is not None and not selects_node(self._added_terms, now)
        ):
            return Hint.SKIP
        if not wants_node(pod.info, now):
            return Hint.SKIP
        return _queue_if(was is None or not wants_node(pod.info, was))


def wants_node(info: PodInfo, node: Node) -> bool:
    """Whether nodeSelector and required node affinity let the pod on the node."""
    required = info.required_nodes
    if required.labels is not None and not selects_node((required.labels,), node):
        return False
    terms = required.terms
    if terms is None or selects_node(terms, node):
        return True
    problems = [problem for term in terms for problem in term.errors]
    if problems:
        raise ObjectError("required node affinity", "; ".join(problems))
    return False


def after_port_freed(pod: QueuedPod, change: Change) -> Hint:
    """NodePorts: the deleted pod held a host port that this one wants. nodeports/node_ports.go"""
    deleted = as_kind(PodView, change.old)
    if deleted is None or not deleted.holds_node:
        return Hint.SKIP
    return _queue_if(conflicts(pod.info.host_ports, deleted.info.host_ports))


class NodeResourcesFitHints:
    """noderesources/fit.go"""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._parsed: tuple[Node, NodeAllocatable] | None = None
        """Of the last node: one event asks about it for many pods."""

    def after_pod_event(self, pod: QueuedPod, change: Change) -> Hint:
        """A pod that held a node went, or asks for less of what this one needs."""
        was, now = as_kind(PodView, change.old), as_kind(PodView, change.new)
        if now is None:
            return _queue_if(was is not None and was.holds_node)
        if now.record.uid == pod.record.uid:
            return Hint.QUEUE
        if was is None or not now.record.node_name:
            return Hint.SKIP
        wanted = pod.info.requests
        return _queue_if(is_scaled_down_in(wanted, was.info.requests, now.info.requests))

    def after_node_change(self, pod: QueuedPod, change: Change) -> Hint:
        """The node, if it were empty, has room for the pod, and more of something than before."""
        was, now = as_kind(Node, change.old), as_kind(Node, change.new)
        if now is None:
            return Hint.SKIP
        has = self._allocatable(now)
        if not self._fits(pod.info, has):
            return Hint.SKIP
        return _queue_if(was is None or self._has_grown(pod.info, node_allocatable(was), has))

    def after_device_class(self, pod: QueuedPod, change: Change) -> Hint:
        """A device class now stands for an extended resource that the pod asks for."""
        was, now = as_kind(DeviceClass, change.old), as_kind(DeviceClass, change.new)
        if now is None:
            return Hint.SKIP
        scalars = pod.info.requests.scalars
        if was is None:
            if _IMPLICIT_RESOURCE_PREFIX + now.metadata.name in scalars:
                return Hint.QUEUE
        elif was.spec.extended_resource_name == now.spec.extended_resource_name:
            return Hint.SKIP
        return _queue_if(now.spec.extended_resource_name in scalars)

    def _allocatable(self, node: Node) -> NodeAllocatable:
        if self._parsed is None or self._parsed[0] is not node:
            self._parsed = (node, node_allocatable(node))
        return self._parsed[1]

    def _fits(self, info: PodInfo, has: NodeAllocatable) -> bool:
        wants = info.fit_filter_requests
        return (
            has.pods >= 1
            and wants.milli_cpu <= max(has.milli_cpu, 0)
            and wants.memory_bytes <= max(has.memory_bytes, 0)
            and wants.ephemeral_storage_bytes <= max(has.ephemeral_storage_bytes, 0)
            and all(
                amount <= has.scalars.get(name, 0) or self._is_left_to_devices(name, has)
                for name, amount in wants.scalars.items()
                if amount > 0
            )
        )

    def _has_grown(self, info: PodInfo, had: NodeAllocatable, has: NodeAllocatable) -> bool:
        wants = info.fit_filter_requests
        return (
            has.pods > had.pods
            or (wants.milli_cpu > 0 and has.milli_cpu > had.milli_cpu)
            or (wants.memory_bytes > 0 and has.memory_bytes > had.memory_bytes)
            or (
                wants.ephemeral_storage_bytes > 0
                and has.ephemeral_storage_bytes > had.ephemeral_storage_bytes
            )
            or any(
                has.scalars.get(name, 0) > had.scalars.get(name, 0)
                or self._is_left_to_devices(name, has)
                for name, amount in wants.scalars.items()
                if amount > 0
            )
        )

    def _is_left_to_devices(self, name: str, has: NodeAllocatable) -> bool:
        """Whether a device class provides the resource where the node itself does not."""
        if has.scalars.get(name, 0) > 0:
            return False
        classes: dict[str, DeviceClass] = self._objects.all("deviceclasses")
        implicit = name.removeprefix(_IMPLICIT_RESOURCE_PREFIX)
        if implicit != name and implicit in classes:
            return True
        return any(c.spec.extended_resource_name == name for c in classes.values())


def after_declared_features(_pod: QueuedPod, change: Change) -> Hint:
    """NodeDeclaredFeatures: the node is new or declares other features.

    nodedeclaredfeatures/nodedeclaredfeatures.go
    """
    was, now = as_kind(Node, change.old), as_kind(Node, change.new)
    if was is None or now is None:
        return Hint.QUEUE
    return _queue_if((was.status.declared_features or []) != (now.status.declared_features or []))


def after_own_required_features(pod: QueuedPod, change: Change) -> Hint:
    """NodeDeclaredFeatures: the pod itself needs other features than before."""
    was, now = as_kind(PodView, change.old), as_kind(PodView, change.new)
    if was is None or now is None or now.record.uid != pod.record.uid:
        return Hint.SKIP
    return _queue_if(required_features(was.info.spec) != required_features(now.info.spec))


def after_own_gates(pod: QueuedPod, change: Change) -> Hint:
    """SchedulingGates: the pod's own gates are gone. schedulinggates/scheduling_gates.go"""
    return _queue_if(_is_self(pod, change.new) and not pod.info.spec.scheduling_gates)


def _queue_if(may_help: bool) -> Hint:
    return Hint.QUEUE if may_help else Hint.SKIP


def _is_self(pod: QueuedPod, changed: ChangedObject | None) -> bool:
    view = as_kind(PodView, changed)
    return view is not None and view.record.uid == pod.record.uid
