"""Names that the API leaves to those who agree on them: annotations, conditions, a group's version."""

from typing import Final

# Volumes and their claims (staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go, v1.36).
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim: the controller is done with it."""
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a volume: nobody asked for this very claim."""
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: make a volume that this node can reach."""

EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of the scheduler's own claim for the extended resources of a pod; its value is `IS_ONE`."""
IS_ONE: Final = "true"

POD_SCHEDULED: Final = "PodScheduled"
DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"
"""Type and reason of the condition by which a scheduler marks the pods that it preempts."""

POD_GROUP_SCHEDULED: Final = "PodGroupScheduled"
"""The condition of a pod group that a scheduler writes."""
SCHEDULING_GROUP: Final = "scheduling.k8s.io"
POD_GROUPS_VERSION: Final = f"{SCHEDULING_GROUP}/v1alpha2"
