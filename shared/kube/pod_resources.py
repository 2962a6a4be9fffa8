"""What a pod asks for, requests summed as kube-scheduler sums them, and host ports; what a node has.

Pure functions of a pod's template. kube-scheduler has not one but three sums, and they differ for
some pods; each has its own function here:

- `pod_requests`: what the pod takes away from its node. Counts a resize in progress.
- `fit_filter_requests`: what NodeResourcesFit's filter compares with the free part of a node.
  Ignores the pod's status: a pod that is not bound yet is not being resized.
- `fit_score_requests`: what NodeResourcesFit's score adds to the node's non-zero requests. Ignores
  status and pod-level resources; missing requests of containers have defaults.

NodeResourcesBalancedAllocation scores with `pod_requests` and without defaults
(`PodRequests.of`). All sums are exact and rounded up once, at the end.

Rules: staging/src/k8s.io/component-helpers/resource/helpers.go, pkg/scheduler/framework/types.go
and pkg/scheduler/framework/plugins/noderesources/{fit,resource_allocation}.go, v1.36.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from shared.kube import quantity
from shared.kube.api.core_v1 import Container, ContainerStatus, Node, PodStatus
from shared.kube.api.core_v1_parts import NodeAllocatableResourceClaimStatus
from shared.kube.api.meta_v1 import ResourceList, condition_of
from shared.kube.pod_record import PodTemplate
from shared.kube.resource_names import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    is_scalar,
    is_supported_at_pod_level,
)

DEFAULT_CPU_MILLI: Final = 100
DEFAULT_MEMORY_BYTES: Final = 200 * 1024 * 1024

Nanos = dict[str, int]
"""Resource name -> exact amount in units of 1e-9."""

_DEFAULT_NANOS: Final[Nanos] = {
    CPU: DEFAULT_CPU_MILLI * quantity.NANOS_PER_MILLI,
    MEMORY: DEFAULT_MEMORY_BYTES * quantity.NANOS_PER_UNIT,
}


class PodRequests(msgspec.Struct, frozen=True):
    """Requests of a whole pod, in the integers of the columns."""

    amounts: dict[str, int]
    """By resource, cpu in milli units, without defaults: of cpu, memory and ephemeral storage always,
    of others where they are stated, if only as 0."""
    scalars: dict[str, int]
    """Those of the others: extended resources, huge pages and the like."""
    nonzero_milli_cpu: int
    """With 100m for each container that states none; an explicit 0 stays 0."""
    nonzero_memory_bytes: int
    """With 200 MiB for each container that states none; an explicit 0 stays 0."""

    def of(self, resource: str) -> int:
        """The request for one resource; 0 when it is not asked for."""
        return self.amounts.get(resource, 0)


def pod_requests(template: PodTemplate) -> PodRequests:
    """What a pod takes away from its node; raises `QuantityError` for an unreadable quantity."""
    return _requests(template, template.status)


def fit_filter_requests(template: PodTemplate) -> PodRequests:
    """What NodeResourcesFit's filter asks of a node for a pod that is to be scheduled."""
    return _requests(template, None)


def fit_score_requests(template: PodTemplate, requests: PodRequests) -> dict[str, int]:
    """What NodeResourcesFit's score (all strategies) adds for a pod that is to be scheduled: cpu in
    milli units, all others in whole ones. `requests`: what it takes away from its node."""
    if _is_plain(template):
        defaulted = {CPU: requests.nonzero_milli_cpu, MEMORY: requests.nonzero_memory_bytes}
        return {**requests.amounts, **defaulted}
    total = _total(template, None, _DEFAULT_NANOS, {})
    amounts = {name: quantity.value_of_nanos(amount) for name, amount in total.items()}
    if CPU in total:
        amounts[CPU] = quantity.milli_value_of_nanos(total[CPU])
    return amounts


def requests_with(
    template: PodTemplate, taken: list[NodeAllocatableResourceClaimStatus]
) -> PodRequests:
    """What a pod that is to be scheduled asks for with what its devices take of the node."""
    return _requests(template, PodStatus(node_allocatable_resource_claim_statuses=taken))


def lacking_at_pod_level(
    template: PodTemplate, taken: list[NodeAllocatableResourceClaimStatus]
) -> str:
    """The first resource, by name, of which containers and devices ask for more than the pod as a whole
    (validatePodLevelRequestsCoverDRA); empty: none."""
    status = PodStatus(node_allocatable_resource_claim_statuses=taken)
    pod_level = _pod_level(template, None)
    total = _total(template, status, {}, pod_level)
    parts = _total(template, status, {}, {}) if pod_level else total
    return min((name for name, amount in parts.items() if amount > total[name]), default="")


def exact_requests(template: PodTemplate) -> Nanos:
    """What a pod asks for by its spec (PodRequests in component-helpers), in units of 1e-9."""
    return _total(template, None, {}, _pod_level(template, None))


def exact_present_requests(template: PodTemplate) -> Nanos:
    """What a pod takes away from its node, in a resize too, in units of 1e-9. Requests of 0 are kept."""
    return _total(template, template.status, {}, _pod_level(template, template.status))


def exact_limits(template: PodTemplate) -> Nanos:
    """The most that a pod may use by its spec (PodLimits in component-helpers), in units of 1e-9.
    Overhead counts for what has a limit at all."""
    spec = template.spec
    total = _container_total(
        spec.containers,
        spec.init_containers or (),
        lambda container, _: _to_nanos(container.resources.limits if container.resources else None),
    )
    if spec.resources is not None:
        stated = _to_nanos(spec.resources.limits)
        total.update({k: v for k, v in stated.items() if is_supported_at_pod_level(k)})
    overhead = _to_nanos(spec.overhead)
    _add(total, {name: amount for name, amount in overhead.items() if total.get(name)})
    return total


def host_ports(template: PodTemplate) -> frozenset[tuple[str, str, int]]:
    """The host ports of containers and sidecars, as (host IP, protocol, port), where "0.0.0.0" stands
    for every address; ordinary init containers do not count.

    Rules: pkg/scheduler/util/utils.go GetHostPorts and HostPortInfo.sanitize, v1.36.
    """
    spec = template.spec
    sidecars = [c for c in spec.init_containers or () if _is_sidecar(c)]
    return frozenset(
        (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)  # noqa: S104  # An API value, nothing is bound to it here.
        for container in (*sidecars, *spec.containers)
        for port in container.ports or ()
        if port.host_port > 0
    )


class NodeAllocatable(msgspec.Struct, frozen=True):
    """`status.allocatable` of a node: NewResource and NodeInfo.SetNode in types.go."""

    pods: int
    amounts: dict[str, int]
    """By resource, cpu in milli units; cpu, memory and ephemeral storage are always there."""


def node_allocatable(node: Node) -> NodeAllocatable:
    """The node's allocatable amounts; raises `QuantityError` for an unreadable quantity."""
    stated = node.status.allocatable or {}
    scalars = {name: quantity.value(amount) for name, amount in stated.items() if is_scalar(name)}
    amounts = {
        CPU: quantity.milli_value(stated.get(CPU, 0)),
        MEMORY: quantity.value(stated.get(MEMORY, 0)),
        EPHEMERAL_STORAGE: quantity.value(stated.get(EPHEMERAL_STORAGE, 0)),
        **scalars,
    }
    return NodeAllocatable(quantity.value(stated.get(PODS, 0)), amounts)


# Sums ---------------------------------------------------------------------------------------------


def _requests(template: PodTemplate, status: PodStatus | None) -> PodRequests:
    if status is None and _is_plain(template):
        total, nonzero = _plain_totals(template)
    else:
        pod_level = _pod_level(template, status)
        total = _total(template, status, {}, pod_level)
        defaults = _DEFAULT_NANOS
        if pod_level:  # Then they are for what nobody states.
            defaults = {name: n for name, n in defaults.items() if name not in total}
        nonzero = _total(template, status, defaults, pod_level)
    scalars = {name: quantity.value_of_nanos(n) for name, n in total.items() if is_scalar(name)}
    return PodRequests(
        amounts={
            CPU: quantity.milli_value_of_nanos(total.get(CPU, 0)),
            MEMORY: quantity.value_of_nanos(total.get(MEMORY, 0)),
            EPHEMERAL_STORAGE: quantity.value_of_nanos(total.get(EPHEMERAL_STORAGE, 0)),
            **scalars,
        },
        scalars=scalars,
        nonzero_milli_cpu=quantity.milli_value_of_nanos(nonzero.get(CPU, 0)),
        nonzero_memory_bytes=quantity.value_of_nanos(nonzero.get(MEMORY, 0)),
    )


def _is_plain(template: PodTemplate) -> bool:
    """Only containers ask for something, and they run all at once: as for nearly every pod."""
    spec = template.spec
    has_more = spec.init_containers or spec.overhead or spec.resources or template.status
    return not has_more


def _plain_totals(template: PodTemplate) -> tuple[Nanos, Nanos]:
    """What a plain pod asks for, without and with defaults."""
    total: Nanos = {}
    nonzero: Nanos = {}
    for container in template.spec.containers:
        requests = _to_nanos(_spec_of(container))
        _add(total, requests)
        for name, amount in _DEFAULT_NANOS.items():
            requests.setdefault(name, amount)
        _add(nonzero, requests)
    return total, nonzero


def _total(
    template: PodTemplate, status: PodStatus | None, defaults: Nanos, pod_level: Nanos
) -> Nanos:
    """`defaults`: of each container. `pod_level`: in place of the containers' sum."""
    spec = template.spec
    requests_of = _requests_of_containers(status, defaults)
    total = _container_total(spec.containers, spec.init_containers or (), requests_of)
    for taken in (status and status.node_allocatable_resource_claim_statuses) or ():
        _add(total, _to_nanos(taken.resources))
    total.update(pod_level)
    if spec.overhead:
        _add(total, _to_nanos(spec.overhead))
    return total


def _container_total(
    containers: Iterable[Container],
    init_containers: Iterable[Container],
    amounts_of: Callable[[Container, bool], Nanos],
) -> Nanos:
    """The most that is needed at any one time.

    Containers and sidecars run together. Before that, init containers run one after the other, each
    beside the sidecars that were started before it; these cannot be resized.
    """
    running: Nanos = {}
    for container in containers:
        _add(running, amounts_of(container, True))
    sidecars: Nanos = {}
    starting: Nanos = {}
    for container in init_containers:
        is_sidecar = _is_sidecar(container)
        requests = amounts_of(container, is_sidecar)
        if is_sidecar:
            _add(running, requests)
            _add(sidecars, requests)
            _raise_to(starting, sidecars)
        else:
            step = dict(sidecars)
            _add(step, requests)
            _raise_to(starting, step)
    _raise_to(running, starting)
    return running


def _requests_of_containers(
    status: PodStatus | None, defaults: Nanos
) -> Callable[[Container, bool], Nanos]:
    """What a container asks for: by its spec, or the most of spec and status while it is resized, if it
    can be."""
    statuses: dict[str, ContainerStatus] = {}
    if status is not None:
        for each in (*(status.container_statuses or ()), *(status.init_container_statuses or ())):
            statuses[each.name] = each
    is_infeasible = status is not None and _is_resize_infeasible(status)

    def requests_of(container: Container, can_be_resized: bool) -> Nanos:
        spec = _spec_of(container)
        is_now = statuses.get(container.name) if can_be_resized else None
        if is_now is None or is_now.resources is None:
            requests = _to_nanos(spec)
        else:
            requests = _effective(
                spec, is_now.resources.requests, is_now.allocated_resources, is_infeasible
            )
        for name, amount in defaults.items():
            requests.setdefault(name, amount)
        return requests

    return requests_of


def _pod_level(template: PodTemplate, status: PodStatus | None) -> Nanos:
    """What is requested for the pod as a whole."""
    spec = template.spec.resources.requests if template.spec.resources is not None else None
    stated = _to_nanos(spec)
    if status is not None and status.resources is not None:
        now, promised = status.resources.requests, status.allocated_resources
        effective = _effective(spec, now, promised, _is_resize_infeasible(status))
        stated = {name: effective.get(name, 0) for name in stated}
    return {name: amount for name, amount in stated.items() if is_supported_at_pod_level(name)}


def _effective(
    spec: ResourceList | None,
    actuated: ResourceList | None,
    allocated: ResourceList | None,
    is_infeasible: bool,
) -> Nanos:
    """The most of what is wanted, in force and promised; a wish that cannot be met is left out."""
    most = {} if is_infeasible else _to_nanos(spec)
    _raise_to(most, _to_nanos(actuated))
    _raise_to(most, _to_nanos(allocated))
    return most


def _spec_of(container: Container) -> ResourceList | None:
    return container.resources.requests if container.resources is not None else None


def _is_resize_infeasible(status: PodStatus) -> bool:
    pending = condition_of(status.conditions, "PodResizePending")
    return pending is not None and pending.reason == "Infeasible"


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _to_nanos(resources: ResourceList | None) -> Nanos:
    if not resources:
        return {}
    return {name: quantity.nanos(stated) for name, stated in resources.items()}


def _add(total: Nanos, more: Nanos) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Nanos, floor: Nanos) -> None:
    for name, amount in floor.items():
        if name not in total or amount > total[name]:
            total[name] = amount
