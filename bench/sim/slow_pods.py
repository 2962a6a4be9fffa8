"""What a pod asks of a node alone, said slowly: taints, labels, ports, amounts.

Written from upstream's rules over plain dictionaries as the API has them, as `slow_topology.py` is.
Rules: pkg/scheduler/framework/plugins and component-helpers/resource/helpers.go, v1.36.2.
"""

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from bench.apiserver.stored_quantities import parse_quantity

Json = Mapping[str, Any]
Labels = Mapping[str, str]
Amounts = dict[str, Decimal]
Port = tuple[str, str, int]
"""(address, protocol, number)"""

PORTS = "NodePorts"
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 # What a host port without an address means; nobody listens.
MOST = 2**63 - 1
POD_LEVEL = ("cpu", "memory")
"""Resources, with huge pages, of which the pod as a whole may ask."""


class Verdict(NamedTuple):
    """What keeps a pod from a node."""

    plugin: str
    reason: str
    is_final: bool = False
    """No pod's going would help (UnschedulableAndUnresolvable)."""

    def __str__(self) -> str:
        return f"{self.plugin}: {self.reason}"


class CannotTell(Exception):  # noqa: N818 # It is an answer.
    """The model does not know such objects."""


# Taints and labels ----------------------------------------------------------------------------------


def tolerates(toleration: Json, taint: Json) -> bool:
    """Whether one toleration is meant for one taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return operator == "Equal" and toleration.get("value", "") == taint.get("value", "")


def untolerated(tolerations: Sequence[Json], taints: Sequence[Json]) -> Json | None:
    """The first taint that keeps the pod away."""
    for taint in taints:
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not any(
            tolerates(toleration, taint) for toleration in tolerations
        ):
            return taint
    return None


def requirement_holds(requirement: Json, labels: Labels) -> bool:
    """One line of a node selector term."""
    key, values = requirement["key"], requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case operator:
            try:
                there, wanted = int(labels[key]), int(values[0])
            except (KeyError, ValueError, IndexError):
                return False
            return there > wanted if operator == "Gt" else there < wanted


def terms_mean(terms: Sequence[Json], name: str, labels: Labels) -> bool:
    """Whether one of some node selector terms means a node; one that says nothing means none. A name
    that is not told, as of a node that is to reach a volume, is not asked about."""
    for term in terms:
        expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
        if not expressions and not fields:
            continue
        is_named = not name or all(
            requirement_holds(each, {"metadata.name": name}) for each in fields
        )
        if is_named and all(requirement_holds(each, labels) for each in expressions):
            return True
    return False


def wants_node(spec: Json, name: str, labels: Labels) -> bool:
    """Whether a pod's node selector and required node affinity mean a node."""
    selector = spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or terms_mean(required.get("nodeSelectorTerms") or [], name, labels)


# Ports ----------------------------------------------------------------------------------------------


def host_ports(spec: Json) -> list[Port]:
    """Of containers, and of init containers that go on running."""
    containers = [*(spec.get("containers") or [])]
    containers += [each for each in spec.get("initContainers") or [] if is_sidecar(each)]
    found = []
    for container in containers:
        for port in container.get("ports") or []:
            if port.get("hostPort"):
                address = port.get("hostIP") or ANY_ADDRESS
                found.append((address, port.get("protocol") or "TCP", port["hostPort"]))
    return found


def ports_clash(one: Port, other: Port) -> bool:
    """Whether no two pods may have these on one node."""
    return one[1:] == other[1:] and (one[0] == other[0] or ANY_ADDRESS in (one[0], other[0]))


# Amounts --------------------------------------------------------------------------------------------


@lru_cache(4096)
def quantity(text: str) -> Decimal:
    """What the API's text for an amount comes to."""
    found = parse_quantity(text)
    assert found is not None, f"{text} is no quantity"
    return found


@lru_cache(4096)
def amount(name: str, text: str) -> Decimal:
    """As the scheduler counts: thousandths of cpu and whole units of anything else, rounded up, and no
    more of them than an int64 holds."""
    unit = Decimal("0.001") if name == "cpu" else Decimal(1)
    return rounded_up(min(quantity(text) / unit, Decimal(MOST))) * unit


def rounded_up(value: Decimal) -> Decimal:
    """Whole units."""
    return value.to_integral_value(ROUND_CEILING)


def is_extended(name: str) -> bool:
    """Whether the resource is one that only some nodes have (IsDRAExtendedResourceName in
    pkg/scheduler/util/utils.go, v1.36.2)."""
    domain, _, rest = name.rpartition("/")
    is_native = not domain or f"{domain}/".endswith("kubernetes.io/")
    return bool(rest) and (not is_native or name.startswith("deviceclass.resource.kubernetes.io/"))


def is_sidecar(container: Json) -> bool:
    """Of init containers: whether it goes on running."""
    return container.get("restartPolicy") == "Always"


def _amounts(resources: Json | None) -> Amounts:
    return {name: amount(name, str(text)) for name, text in (resources or {}).items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, value in more.items():
        total[name] = total.get(name, Decimal(0)) + value


def _raise_to(total: Amounts, other: Amounts) -> None:
    for name, value in other.items():
        total[name] = max(total.get(name, Decimal(0)), value)


def _effective(
    spec: Json, actuated: Json | None, allocated: Json | None, *, is_infeasible: bool
) -> Amounts:
    """While a container is being resized: the largest of what is asked for, in force and granted."""
    total: Amounts = {} if is_infeasible else _amounts(spec)
    _raise_to(total, _amounts(actuated))
    _raise_to(total, _amounts(allocated))
    return total


def _is_resize_infeasible(status: Json) -> bool:
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodResizePending":
            is_infeasible: bool = condition.get("reason") == "Infeasible"
            return is_infeasible
    return False


def _of_container(container: Json, status: Json) -> Amounts:
    wanted = (container.get("resources") or {}).get("requests") or {}
    statuses = [
        *(status.get("containerStatuses") or []),
        *(status.get("initContainerStatuses") or []),
    ]
    for each in statuses:
        if each.get("name") == container["name"] and each.get("resources") is not None:
            return _effective(
                wanted,
                each["resources"].get("requests"),
                each.get("allocatedResources"),
                is_infeasible=_is_resize_infeasible(status),
            )
    return _amounts(wanted)


def requests_of(spec: Json, status: Json) -> Amounts:
    """All that a pod takes of a node."""
    total: Amounts = {}
    for container in spec.get("containers") or []:
        _add(total, _of_container(container, status))
    sidecars: Amounts = {}
    most: Amounts = {}
    for container in spec.get("initContainers") or []:
        if is_sidecar(container):
            own = _of_container(container, status)
            _add(total, own)
            _add(sidecars, own)
            running = dict(sidecars)
        else:
            running = _amounts((container.get("resources") or {}).get("requests"))
            _add(running, sidecars)
        _raise_to(most, running)
    _raise_to(total, most)
    _take_pod_level(total, spec, status)
    _add(total, _amounts(spec.get("overhead")))
    return total


def _take_pod_level(total: Amounts, spec: Json, status: Json) -> None:
    """What the pod as a whole asks for counts in place of its containers' sum."""
    wanted = (spec.get("resources") or {}).get("requests") or {}
    named = {k: v for k, v in wanted.items() if k in POD_LEVEL or k.startswith("hugepages-")}
    if not named:
        return
    in_force = status.get("resources")
    if in_force is not None:
        effective = _effective(
            wanted,
            in_force.get("requests"),
            status.get("allocatedResources"),
            is_infeasible=_is_resize_infeasible(status),
        )
    else:
        effective = _amounts(wanted)
    for name in named:
        total[name] = effective.get(name, Decimal(0))
