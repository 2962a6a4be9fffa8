"""Is the cluster right, as the API server has it? Judged without any of the scheduler's code.

Reads the nodes and pods as JSON, does its own sums with its own quantities, and compares. So it also
finds what a fault shared by scheduler and tests would hide. Checked of every bound pod: its node
exists, is open to it (unschedulable, NoSchedule and NoExecute taints), its nodeSelector and required
node affinity hold; and of every node: nothing is overcommitted, neither a resource nor the number of
pods. That no pod was bound twice is told by the watch (`pod_book.py`).
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

Json = Mapping[str, Any]
Amounts = dict[str, Fraction]

PROBLEMS_SHOWN_MAX: Final = 20

_QUANTITY: Final = re.compile(r"([+-]?[0-9.]+)(?:([eE][+-]?[0-9]+)|([numkKMGTPE]i?))?")
_SUFFIX: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000 ** (i + 1)) for i, letter in enumerate("kMGTPE")},
    **{f"{letter}i": Fraction(1024 ** (i + 1)) for i, letter in enumerate("KMGTPE")},
}


class ResourceUse(NamedTuple):
    """One resource over the whole cluster, in its base unit (cores, bytes, pieces)."""

    requested: float
    allocatable: float


class CheckResult(NamedTuple):
    """What the cluster looks like, and everything that is wrong with it."""

    problems: list[str]
    bound_count: int
    use: dict[str, ResourceUse]
    node_shares: dict[str, dict[str, float]]
    """Resource -> share in use of each node that has some of it, 0..1, by name."""


def check_cluster(nodes: Iterable[Json], pods: Iterable[Json]) -> CheckResult:
    """Judges the objects of the API server."""
    by_name = {node["metadata"]["name"]: node for node in nodes}
    used: dict[str, Amounts] = {name: {} for name in by_name}
    problems: list[str] = []
    bound_count = 0
    for pod in pods:
        node_name = pod["spec"].get("nodeName", "")
        if not node_name or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        bound_count += 1
        node = by_name.get(node_name)
        if node is None:
            problems.append(f"pod {_name(pod)} is on node {node_name}, which does not exist")
            continue
        problems += _pod_problems(pod, node)
        _add(used[node_name], {**_pod_requests(pod), "pods": Fraction(1)})
    for name, node in by_name.items():
        problems += _overcommitted(name, _allocatable(node), used[name])
    allocatable = {name: _allocatable(node) for name, node in by_name.items()}
    return CheckResult(problems, bound_count, *_cluster_use(allocatable, used))


def quantity(text: str | float) -> Fraction:
    """A Kubernetes quantity as an exact number."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{text!r} is not a quantity")
    number, exponent, suffix = match.groups()
    if exponent:
        return Fraction(Decimal(f"{number}{exponent}"))
    return Fraction(Decimal(number)) * (_SUFFIX[suffix] if suffix else 1)


def _name(pod: Json) -> str:
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


def _allocatable(node: Json) -> Amounts:
    status = node.get("status", {})
    stated = status.get("allocatable") or status.get("capacity") or {}
    return {resource: quantity(amount) for resource, amount in stated.items()}


# Requests -----------------------------------------------------------------------------------------


def _pod_requests(pod: Json) -> Amounts:
    """What the pod takes: its containers together or its largest init container, and overhead."""
    spec = pod["spec"]
    total: Amounts = {}
    for container in spec.get("containers", ()):
        _add(total, _requests(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        wanted = _requests(container)
        if container.get("restartPolicy") == "Always":
            # A sidecar runs on, beside the later ones and the containers.
            _add(sidecars, wanted)
            wanted = {}
        for resource in {*wanted, *sidecars}:
            here = wanted.get(resource, Fraction()) + sidecars.get(resource, Fraction())
            peak[resource] = max(here, peak.get(resource, Fraction()))
    _add(total, sidecars)
    for resource, amount in peak.items():
        total[resource] = max(amount, total.get(resource, Fraction()))
    for resource, amount in ((spec.get("resources") or {}).get("requests") or {}).items():
        total[resource] = quantity(amount)
    _add(total, {r: quantity(a) for r, a in (spec.get("overhead") or {}).items()})
    return total


def _requests(container: Json) -> Amounts:
    requests = (container.get("resources") or {}).get("requests") or {}
    return {resource: quantity(amount) for resource, amount in requests.items()}


def _add(total: Amounts, more: Amounts) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, Fraction()) + amount


def _overcommitted(name: str, allocatable: Amounts, used: Amounts) -> list[str]:
    return [
        f"node {name} is overcommitted: {float(amount):g} of {resource} requested,"
        f" {float(allocatable.get(resource, Fraction())):g} allocatable"
        for resource, amount in sorted(used.items())
        if amount > allocatable.get(resource, Fraction())
    ]


def _cluster_use(
    allocatable: dict[str, Amounts], used: dict[str, Amounts]
) -> tuple[dict[str, ResourceUse], dict[str, dict[str, float]]]:
    whole: Amounts = {}
    taken: Amounts = {}
    shares: dict[str, dict[str, float]] = {}
    for name, amounts in allocatable.items():
        _add(whole, amounts)
        _add(taken, used[name])
        for resource, amount in amounts.items():
            if amount:
                share = float(used[name].get(resource, Fraction()) / amount)
                shares.setdefault(resource, {})[name] = share
    use = {
        resource: ResourceUse(float(taken.get(resource, Fraction())), float(amount))
        for resource, amount in whole.items()
    }
    return use, shares


# Where a pod may be -------------------------------------------------------------------------------


def _pod_problems(pod: Json, node: Json) -> list[str]:
    spec = pod["spec"]
    labels = {**node["metadata"].get("labels", {})}
    where = f"pod {_name(pod)} on node {node['metadata']['name']}"
    problems = []
    wrong = {k: v for k, v in (spec.get("nodeSelector") or {}).items() if labels.get(k) != v}
    if wrong:
        problems.append(f"{where}: nodeSelector {wrong} does not hold")
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None:
        terms = required.get("nodeSelectorTerms") or ()
        if not any(_term_holds(term, labels, node["metadata"]["name"]) for term in terms):
            problems.append(f"{where}: required node affinity does not hold")
    tolerations = spec.get("tolerations") or ()
    taints = list((node.get("spec") or {}).get("taints") or ())
    if (node.get("spec") or {}).get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    problems += [
        f"{where}: taint {taint['key']} is not tolerated"
        for taint in taints
        if taint.get("effect") in ("NoSchedule", "NoExecute")
        and not any(_tolerates(toleration, taint) for toleration in tolerations)
    ]
    return problems


def _term_holds(term: Json, labels: Mapping[str, str], node_name: str) -> bool:
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(one, labels) for one in expressions) and all(
        _holds(one, {"metadata.name": node_name}) for one in fields
    )


def _holds(expression: Json, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    values = expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(next(iter(values)))
        case "Lt":
            return value is not None and int(value) < int(next(iter(values)))
        case other:
            raise ValueError(f"operator {other!r} is not one of node affinity's")


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
