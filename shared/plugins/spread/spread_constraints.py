"""Which topology spread constraints a pod has, and what they mean. Where they are not its own, its
services and its controller say which pods are alike.

Rules: pkg/scheduler/framework/plugins/podtopologyspread/{plugin,common}.go, `DefaultSelector` in
pkg/scheduler/framework/plugins/helper/spread.go, and of the arguments
staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go, v1.36.2.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_args import ArgsStruct
from shared.framework.pod_info import PodInfo
from shared.kube.api.apps_v1 import ReplicaSet, StatefulSet
from shared.kube.api.core_v1 import ReplicationController, Service, TopologySpreadConstraint
from shared.kube.api.meta_v1 import Int32
from shared.kube.resource_names import QUALIFIED_NAME
from shared.kube.resources import CONTROLLER_KINDS
from shared.selectors.label_selector import Labels, Selector, SelectorError, parse_label_selector
from shared.selectors.requirement import equal_to

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
HONOR: Final = "Honor"
SYSTEM: Final = "System"
LIST: Final = "List"
HOST_NAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOST_NAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)

SERVICES: Final = "services"

Controller = ReplicationController | ReplicaSet | StatefulSet


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


def parsed(
    constraint: TopologySpreadConstraint, pod: PodInfo, *, has_keys: bool
) -> SpreadConstraint:
    """A constraint of the pod, or of its profile. `has_keys`: its matchLabelKeys count. Raises
    SelectorError."""
    selector = parse_label_selector(constraint.label_selector)
    keys = constraint.match_label_keys or ()
    labels = {key: pod.labels[key] for key in keys if key in pod.labels}
    if labels and has_keys:
        selector = selector.and_equal(labels)
    return SpreadConstraint(
        constraint.topology_key,
        constraint.max_skew,
        1 if constraint.min_domains is None else constraint.min_domains,
        selector,
        (constraint.node_affinity_policy or HONOR) == HONOR,
        constraint.node_taints_policy == HONOR,
    )


def default_selector(pod: PodInfo, cluster: ClusterView) -> Selector:
    """Of constraints that are not the pod's own: its services and its controller say who is alike."""
    objects, namespace = cluster.objects, pod.namespace
    owner = pod.template.controller
    controller = None
    if owner is not None and (kind := CONTROLLER_KINDS.get((owner.api_version, owner.kind))):
        controller = objects.get(kind, f"{namespace}/{owner.name}")
    services = objects.in_namespace(SERVICES, namespace).values()
    return workload_selector(pod.labels, services, controller)


def workload_selector(
    labels: Labels, services: Iterable[Service], controller: Controller | None
) -> Selector:
    """Empty where nothing is known. `services` are those of the pod's namespace."""
    wanted: dict[str, str] = {}
    for service in services:
        selector = service.spec.selector
        if selector is not None and all(labels.get(k) == v for k, v in selector.items()):
            wanted.update(selector)
    if isinstance(controller, ReplicationController):
        wanted.update(controller.spec.selector or {})
    base = Selector(equal_to(wanted))
    if isinstance(controller, ReplicaSet | StatefulSet):
        try:
            return base.and_selector(parse_label_selector(controller.spec.selector))
        except SelectorError:
            return base  # As upstream does: a controller with such a selector says nothing.
    return base


class DefaultConstraint(TopologySpreadConstraint):
    """A topology spread constraint of the profile; its selector follows from each pod."""

    max_skew: Int32 = 0

    def problems(self) -> list[str]:
        """As of `ArgsStruct`."""
        problems: list[str] = []
        if self.max_skew <= 0:
            problems.append(f"maxSkew: {self.max_skew} must be above 0")
        if QUALIFIED_NAME.fullmatch(self.topology_key) is None:
            problems.append(f"topologyKey: {self.topology_key!r} cannot be the key of a label")
        if self.when_unsatisfiable not in (HARD, SOFT):
            told = f"whenUnsatisfiable: {self.when_unsatisfiable!r} is not one of {HARD}, {SOFT}"
            problems.append(told)
        if self.label_selector is not None:
            problems.append(
                "labelSelector: must not be stated, it follows from each pod's services and "
                "controller; remove it"
            )
        return problems


class PodTopologySpreadArgs(ArgsStruct):
    default_constraints: list[DefaultConstraint] = msgspec.field(default_factory=list)
    """For pods that state none. Only with defaultingType List."""
    defaulting_type: str = ""
    """System (or empty): spread over host names and zones, softly. List: `default_constraints`."""

    @property
    def is_system_defaulting(self) -> bool:
        return self.defaulting_type in ("", SYSTEM)

    def problems(self) -> list[str]:
        problems: list[str] = []
        kind, is_system = self.defaulting_type, self.is_system_defaulting
        if not is_system and kind != LIST:
            problems.append(f"defaultingType: {kind!r} is not one of {LIST}, {SYSTEM}")
        if is_system and self.default_constraints:
            problems.append(f"defaultingType: must be {LIST} where defaultConstraints are given")
        seen: set[tuple[str, str]] = set()
        for i, constraint in enumerate(self.default_constraints):
            path = f"defaultConstraints[{i}]"
            problems += (f"{path}.{each}" for each in constraint.problems())
            pair = constraint.topology_key, constraint.when_unsatisfiable
            if pair in seen:
                problems.append(f"{path}: {{{', '.join(pair)}}} stands there twice")
            seen.add(pair)
        return problems
