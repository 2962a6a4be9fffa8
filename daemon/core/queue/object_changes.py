"""What the update of a node or a pod means to scheduling: none, one or several cluster events.

Apart from the vocabulary because it reads objects. Callers may rely on the order of the events, which is
kube-scheduler's: each is handled in turn, and the first that wakes a pod names the cause in metrics.

Rules: pkg/scheduler/framework/events.go {Node,Pod}SchedulingPropertiesChange, v1.36.
"""

from shared.framework.cluster_event import Action, ClusterEvent, Resource
from shared.framework.queueing_hints import PodView
from shared.kube import quantity
from shared.kube.api.core_v1 import Node, NodeCondition
from shared.kube.api.meta_v1 import ResourceList
from shared.kube.pod_record import OwnFacts, PodTemplate, has_other_labels
from shared.kube.pod_resources import exact_present_requests


def node_update_events(old: Node, new: Node) -> list[ClusterEvent]:
    """The events that an update of a node stands for; none when scheduling cannot tell them apart."""
    actions = []
    if old.spec.unschedulable and not new.spec.unschedulable:
        actions.append(Action.UPDATE_NODE_TAINT)
    if not _equal_resources(old.status.allocatable, new.status.allocatable):
        actions.append(Action.UPDATE_NODE_ALLOCATABLE)
    if (old.metadata.labels or {}) != (new.metadata.labels or {}):
        actions.append(Action.UPDATE_NODE_LABEL)
    if (old.spec.taints or []) != (new.spec.taints or []):
        actions.append(Action.UPDATE_NODE_TAINT)
    if _statuses(old.status.conditions) != _statuses(new.status.conditions):
        actions.append(Action.UPDATE_NODE_CONDITION)
    if (old.metadata.annotations or {}) != (new.metadata.annotations or {}):
        actions.append(Action.UPDATE_NODE_ANNOTATION)
    if (old.status.declared_features or []) != (new.status.declared_features or []):
        actions.append(Action.UPDATE_NODE_DECLARED_FEATURE)
    return [ClusterEvent(Resource.NODE, action) for action in actions]


def pod_update_events(old: PodView, new: PodView) -> list[ClusterEvent]:
    """The events that an update of a pod stands for: at least one, at worst a plain Update."""
    resource = Resource.ASSIGNED_POD if new.record.node_name else Resource.UNSCHEDULABLE_POD
    actions = [] if old.info is new.info else _template_changes(old, new)
    # Classes differ in the labels alone that somebody selects by.
    if has_other_labels(old.record.template, new.record.template):
        actions.insert(0, Action.UPDATE_POD_LABEL)
    return [ClusterEvent(resource, action) for action in actions or [Action.UPDATE]]


def is_scaled_down(old: PodTemplate, new: PodTemplate) -> bool:
    """Whether a pod asks for less of anything than before, by as little as a thousandth, or no longer
    asks for it, were it 0."""
    had, has = exact_present_requests(old), exact_present_requests(new)
    if had == has:
        return False
    return any(
        name not in has
        or quantity.milli_value_of_nanos(amount) > quantity.milli_value_of_nanos(has[name])
        for name, amount in had.items()
    )


def _template_changes(old: PodView, new: PodView) -> list[Action]:
    actions = []
    if is_scaled_down(old.info.template, new.info.template):
        actions.append(Action.UPDATE_POD_SCALE_DOWN)
    if old.info.spec.scheduling_gates and not new.info.spec.scheduling_gates:
        actions.append(Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    # The API lets tolerations only be added, so their number tells.
    if len(old.info.spec.tolerations or ()) != len(new.info.spec.tolerations or ()):
        actions.append(Action.UPDATE_POD_TOLERATION)
    if _claims(old.info.template.own) != _claims(new.info.template.own):
        actions.append(Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    return actions


def _claims(own: OwnFacts | None) -> tuple[object, object]:
    if own is None:
        return ([], None)
    return (own.resource_claim_statuses or [], own.extended_resource_claim_status)


def _statuses(conditions: list[NodeCondition] | None) -> dict[str, str]:
    return {condition.type: condition.status for condition in conditions or ()}


def _equal_resources(old: ResourceList | None, new: ResourceList | None) -> bool:
    """Equal as amounts: "8" and "8000m" are the same."""
    if (old or {}) == (new or {}):
        return True
    if old is None or new is None or old.keys() != new.keys():
        return False
    return all(quantity.nanos(old[name]) == quantity.nanos(new[name]) for name in old)
