"""How many terms of each kind a pod has: what its scheduling takes is in proportion to them."""

from collections.abc import Iterable
from typing import NamedTuple

from shared.kube.api.core_v1 import Affinity, PodAffinity, PodSpec
from shared.kube.api.core_v1_parts import NodeSelectorTerm
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
    requirements = [
        requirement
        for term in _node_terms(affinity)
        for requirement in (*(term.match_expressions or ()), *(term.match_fields or ()))
    ]
    pod_selectors = [
        *_pod_selectors(affinity.pod_affinity),
        *_pod_selectors(affinity.pod_anti_affinity),
    ]
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


def _node_terms(affinity: Affinity) -> Iterable[NodeSelectorTerm]:
    near = affinity.node_affinity
    if near is None:
        return
    required = near.required_during_scheduling_ignored_during_execution
    if required is not None:
        yield from required.node_selector_terms or ()
    for preferred in near.preferred_during_scheduling_ignored_during_execution or ():
        yield preferred.preference


def _pod_selectors(affinity: PodAffinity | None) -> Iterable[LabelSelector | None]:
    if affinity is None:
        return
    for term in affinity.required_during_scheduling_ignored_during_execution or ():
        yield term.label_selector
    for weighted in affinity.preferred_during_scheduling_ignored_during_execution or ():
        yield weighted.pod_affinity_term.label_selector


def _size(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    expressions = selector.match_expressions or ()
    return len(selector.match_labels or ()) + sum(1 + len(e.values or ()) for e in expressions)
