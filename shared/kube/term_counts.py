"""How many terms of each kind a pod has: what its scheduling takes is in proportion to them."""

from typing import NamedTuple

from shared.kube.api.core_v1 import Affinity, NodeAffinity, PodSpec
from shared.kube.api.core_v1_parts import NodeSelector
from shared.kube.api.meta_v1 import LabelSelector


class TermCounts(NamedTuple):
    """Of one pod. Those with `requirements` are of all terms together."""

    node_requirements: int
    node_values: int
    pod_terms: int
    spread_constraints: int
    pod_requirements: int
    """Of the selectors of pods in both."""
    tolerations: int
    host_ports: int
    images: int


def term_counts(spec: PodSpec) -> TermCounts:
    """Counts what is stated; whether it can be read is for others to say."""
    affinity = spec.affinity or Affinity()
    near = affinity.node_affinity or NodeAffinity()
    required = near.required_during_scheduling_ignored_during_execution or NodeSelector()
    preferred = near.preferred_during_scheduling_ignored_during_execution or ()
    requirements = [
        requirement
        for term in (
            *(required.node_selector_terms or ()),
            *(each.preference for each in preferred),
        )
        for requirement in (*(term.match_expressions or ()), *(term.match_fields or ()))
    ]
    pod_selectors: list[LabelSelector | None] = []
    for part in filter(None, (affinity.pod_affinity, affinity.pod_anti_affinity)):
        terms = part.required_during_scheduling_ignored_during_execution or ()
        weighted = part.preferred_during_scheduling_ignored_during_execution or ()
        pod_selectors += (term.label_selector for term in terms)
        pod_selectors += (each.pod_affinity_term.label_selector for each in weighted)
    constraints = spec.topology_spread_constraints or ()
    selectors = [*pod_selectors, *(constraint.label_selector for constraint in constraints)]
    containers = [*(spec.init_containers or ()), *spec.containers]
    return TermCounts(
        node_requirements=len(requirements) + len(spec.node_selector or ()),
        node_values=sum(len(requirement.values or ()) for requirement in requirements),
        pod_terms=len(pod_selectors),
        spread_constraints=len(constraints),
        pod_requirements=sum(map(_size, selectors)),
        tolerations=len(spec.tolerations or ()),
        host_ports=sum(len(container.ports or ()) for container in containers),
        images=len(containers),
    )


def _size(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    expressions = selector.match_expressions or ()
    return len(selector.match_labels or ()) + sum(1 + len(e.values or ()) for e in expressions)
