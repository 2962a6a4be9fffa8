"""Annotations by which scheduler and volume controllers speak about a volume.

Source: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go, v1.36.
"""

from typing import Final

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
"""Of a claim: the controller is done with it."""
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Of a volume: nobody asked for this very claim."""
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Of a claim: make a volume that this node can reach."""
