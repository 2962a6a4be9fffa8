"""The vocabulary of changes that may make a pod schedulable: (resource, action) pairs.

Apart from the hints because plugins register with these words, metrics are labelled with them, and
the queue decides with them before it looks at any object. What happened is always concrete (an
`AssignedPod`, one kind of update); what a plugin registers may be general (`Pod`, `Update`), and
`covered` says which concrete events are meant.

Rules: staging/src/k8s.io/kube-scheduler/framework/types.go and pkg/scheduler/framework/events.go,
v1.36.
"""

import enum
from typing import Final, NamedTuple


class Resource(enum.StrEnum):
    """What changed, in the words of metrics and logs."""

    NODE = "Node"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULABLE_POD = "UnschedulablePod"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    POD = "Pod"
    """In registrations only: pods with a node and pods without."""
    WILDCARD = "*"
    """Not a change of the cluster: the queue or a plugin wants pods to be tried again."""


EventResource = str
"""A `Resource`, or the name of one that berth does not know (`shared/kube/resources.py`)."""


class Action(enum.StrEnum):
    """How it changed. The special updates are said instead of `UPDATE` when one of them applies."""

    ADD = "Add"
    DELETE = "Delete"
    UPDATE = "Update"
    UPDATE_NODE_ALLOCATABLE = "UpdateNodeAllocatable"
    UPDATE_NODE_LABEL = "UpdateNodeLabel"
    UPDATE_NODE_TAINT = "UpdateNodeTaint"
    UPDATE_NODE_CONDITION = "UpdateNodeCondition"
    UPDATE_NODE_ANNOTATION = "UpdateNodeAnnotation"
    UPDATE_NODE_DECLARED_FEATURE = "UpdateNodeDeclaredFeature"
    UPDATE_POD_LABEL = "UpdatePodLabel"
    UPDATE_POD_SCALE_DOWN = "UpdatePodScaleDown"
    UPDATE_POD_TOLERATION = "UpdatePodToleration"
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = "UpdatePodSchedulingGatesEliminated"
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = "UpdatePodGeneratedResourceClaim"
    UNSCHEDULABLE_TIMEOUT = "UnschedulableTimeout"
    """With WILDCARD: pods waited for so long that they are tried without a reason."""
    FORCE_ACTIVATE = "ForceActivate"
    """With WILDCARD: a plugin asked for this pod."""


class ClusterEvent(NamedTuple):
    """One concrete thing that happened."""

    resource: EventResource
    action: Action

    @property
    def label(self) -> str:
        """The event's name in metrics: "NodeAdd", "AssignedPodUpdatePodLabel"."""
        return str(self.action) if self.is_wildcard else self.resource + self.action

    @property
    def is_wildcard(self) -> bool:
        return self.resource is Resource.WILDCARD


NODE_ADD: Final = ClusterEvent(Resource.NODE, Action.ADD)
NODE_DELETE: Final = ClusterEvent(Resource.NODE, Action.DELETE)
ASSIGNED_POD_ADD: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_DELETE: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(Resource.WILDCARD, Action.UNSCHEDULABLE_TIMEOUT)
FORCE_ACTIVATE: Final = ClusterEvent(Resource.WILDCARD, Action.FORCE_ACTIVATE)

UNSCHEDULED_POD_ADD: Final = "UnschedulablePodAdd"
UNSCHEDULED_POD_UPDATE: Final = "UnschedulablePodUpdate"
UNSCHEDULED_POD_DELETE: Final = "UnschedulablePodDelete"
ASSIGNED_POD_UPDATE: Final = "AssignedPodUpdate"
SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POP_FROM_BACKOFF: Final = "PopFromBackoffQ"
PROPOSAL_REJECTED: Final = "ProposalRejected"
"""Labels of moves within the queue that no cluster event caused. The last is berth's own: a scorer's
placement did not pass the owner's check, and the pod went back to the head of the queue."""

_NODE_UPDATES: Final = frozenset(action for action in Action if action.startswith("UpdateNode"))
_POD_UPDATES: Final = frozenset(action for action in Action if action.startswith("UpdatePod"))
_BASIC: Final = frozenset({Action.ADD, Action.DELETE, Action.UPDATE})
_PODS: Final = (Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD)


def actions_of(resource: EventResource) -> frozenset[Action]:
    """Every action that can happen to a concrete resource."""
    match resource:
        case Resource.NODE:
            return _BASIC | _NODE_UPDATES
        case Resource.ASSIGNED_POD | Resource.UNSCHEDULABLE_POD | Resource.POD:
            return _BASIC | _POD_UPDATES
        case Resource.WILDCARD:
            return frozenset({Action.UNSCHEDULABLE_TIMEOUT, Action.FORCE_ACTIVATE})
        case _:
            return _BASIC


def covered(resource: EventResource, action: Action) -> list[ClusterEvent]:
    """The concrete events that a registration stands for: `Update` for every special update of the
    resource, a special update only for itself."""
    actions = [action]
    if action is Action.UPDATE:
        actions += sorted(actions_of(resource) - _BASIC)
    return [
        ClusterEvent(each, action)
        for each in (_PODS if resource is Resource.POD else (resource,))
        for action in actions
    ]
