"""How much work the terms of a pod are, before any of it is done.

A pod may have as many terms as fit into 1.5 MB: 14,000 affinity terms, spread constraints or
tolerations. Each is held against all nodes or all classes of pods, so one pod could keep a scorer
busy for minutes. The work is estimated from counts alone, so it costs nothing, is the same whenever it
is asked, and what is too much is an error of the attempt before it is begun. What devices cost cannot be
foreseen; there the work is counted while it is done (`shared/dra/search_work.py`).
"""

from typing import Final

from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.status import Code, Status
from shared.kube.term_counts import TermCounts
from shared.plugin_names import (
    IMAGE_LOCALITY,
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    NODE_PORTS,
    POD_TOPOLOGY_SPREAD,
    TAINT_TOLERATION,
)

FEW_TERMS: Final = 32
"""A pod with no more is not weighed: only 1,000,000 nodes make 32 terms more than a second."""
WEIGHT_MAX_NS: Final = 1_000_000_000
WEIGHT_MAX_PER_NODE_NS: Final = 4_000
"""Beside it: 100 spread constraints. 1 s at 5,000 nodes, 5 s at 1,000,000, of the 20 s after which a
scorer is taken for one that hangs."""
# Measured at 5,000 nodes with 1,000 classes of pods, 14,000 terms of each kind.
_TERM_NS: Final = 10_000
"""Of any term: arrays are made, whatever their length."""
_NODE_NS: Final = 1
"""A requirement of node affinity, for each node."""
_DOMAIN_NS: Final = 40
"""Spread or pod affinity, for each node: which domain it is in, how many pods that has."""
_CLASS_NS: Final = 500
"""A selector of pods, for each class."""
_REQUIREMENT_NS: Final = 150
"""Of a selector of pods or one of its values, for each class."""
_VALUE_NS: Final = 200
"""A value of a requirement of node affinity: it is looked up."""
_SET_NS: Final = 100
"""A toleration, port or image, for each distinct set of these that nodes have."""


def is_too_much(pod: PodInfo, cluster: ClusterView) -> Status | None:
    """The error with which the attempt ends; None for a pod of bearable size."""
    counts = pod.term_counts
    if sum(counts) <= FEW_TERMS:
        return None
    node_count = cluster.nodes.row_count
    weights = _weights(counts, cluster)
    weight_max = WEIGHT_MAX_NS + WEIGHT_MAX_PER_NODE_NS * node_count
    if sum(weights.values()) <= weight_max:
        return None
    plugin = max(weights, key=lambda name: weights[name])
    text = (
        f"the pod's terms are too much work: about {sum(weights.values()) / 1e9:.1f} s for "
        f"{sum(counts)} terms, values and the like at {node_count} nodes; "
        f"{weight_max / 1e9:.1f} s is the limit"
    )
    return Status(Code.ERROR, (text,), plugin)


def _weights(counts: TermCounts, cluster: ClusterView) -> dict[str, int]:
    """By plugin, in ns."""
    nodes, class_count = cluster.nodes, len(cluster.classes)
    of_nodes = _TERM_NS + _NODE_NS * nodes.row_count
    of_domains = _TERM_NS + _DOMAIN_NS * nodes.row_count + _CLASS_NS * class_count
    of_selectors = counts.pod_requirements * _REQUIREMENT_NS * class_count
    return {
        NODE_AFFINITY: counts.node_requirements * of_nodes + counts.node_values * _VALUE_NS,
        INTER_POD_AFFINITY: counts.pod_terms * of_domains + of_selectors,
        POD_TOPOLOGY_SPREAD: counts.spread_constraints * of_domains,
        TAINT_TOLERATION: counts.tolerations * _SET_NS * len(nodes.taints.values),
        NODE_PORTS: counts.host_ports * _SET_NS * len(nodes.ports.values),
        IMAGE_LOCALITY: counts.images * _SET_NS * len(nodes.images.values),
    }
