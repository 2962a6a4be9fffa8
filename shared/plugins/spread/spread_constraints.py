"""Which topology spread constraints a pod has, and what they mean.

Rules: pkg/scheduler/framework/plugins/podtopologyspread/{plugin,common}.go, v1.36.2.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from shared.framework.pod_info import PodInfo
from shared.kube.api.core_v1 import TopologySpreadConstraint
from shared.selectors.label_selector import Selector, parse_label_selector

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
HONOR: Final = "Honor"
IGNORE: Final = "Ignore"
HOST_NAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOST_NAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)


class SpreadConstraint(NamedTuple):
    """One constraint with its selector parsed and its defaults filled in."""

    key: str
    max_skew: int
    min_domains: int
    selector: Selector
    honors_affinity: bool
    honors_taints: bool


SpreadConstraints = tuple[SpreadConstraint, ...]


def own_constraints(pod: PodInfo) -> Sequence[TopologySpreadConstraint]:
    """Those of its spec."""
    return pod.spec.topology_spread_constraints or ()


def parsed(constraint: TopologySpreadConstraint, pod: PodInfo) -> SpreadConstraint:
    """A constraint of the pod, or of its profile. Raises SelectorError."""
    selector = parse_label_selector(constraint.label_selector)
    keys = constraint.match_label_keys or ()
    labels = {key: pod.labels[key] for key in keys if key in pod.labels}
    if labels:
        selector = selector.and_equal(labels)
    return SpreadConstraint(
        constraint.topology_key,
        constraint.max_skew,
        1 if constraint.min_domains is None else constraint.min_domains,
        selector,
        (constraint.node_affinity_policy or HONOR) == HONOR,
        (constraint.node_taints_policy or IGNORE) == HONOR,
    )
