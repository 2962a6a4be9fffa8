"""PodTopologySpread and InterPodAffinity said again slowly: one node, one pod, one term at a time.

Written from upstream's rules and not from the plugins, over plain dictionaries as the API has them,
in the order and with the arithmetic of the Go code, so that a mistake in one is not in the other.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.sim.slow_pods import untolerated, wants_node

Json = Mapping[str, Any]
Labels = Mapping[str, str]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOST_NAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

SKEW = "node(s) didn't match pod topology spread constraints"
NO_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
SYSTEM_DEFAULTS: list[Json] = [
    {"topologyKey": HOST_NAME, "maxSkew": 3, "whenUnsatisfiable": "ScheduleAnyway"},
    {"topologyKey": ZONE, "maxSkew": 5, "whenUnsatisfiable": "ScheduleAnyway"},
]


@dataclass
class SlowPod:
    namespace: str = "default"
    labels: Labels = field(default_factory=dict)
    spec: Json = field(default_factory=dict)
    node: str = ""
    is_terminating: bool = False


@dataclass
class SlowNode:
    name: str
    labels: Labels
    taints: Sequence[Json] = ()


@dataclass
class SlowCluster:
    nodes: list[SlowNode]
    pods: list[SlowPod]
    """On nodes, which need not exist."""
    namespaces: Mapping[str, Labels] = field(default_factory=dict)
    services: Sequence[tuple[str, Labels]] = ()
    """(namespace, selector)"""

    def on(self, node: SlowNode) -> list[SlowPod]:
        return [pod for pod in self.pods if pod.node == node.name]


def selects(selector: Json | None, labels: Labels) -> bool:
    """Whether a label selector means these labels; none means nothing."""
    if selector is None:
        return False
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions", []):
        key, values = expression["key"], expression.get("values", [])
        holds = {
            "In": key in labels and labels[key] in values,
            "NotIn": key not in labels or labels[key] not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }[expression["operator"]]
        if not holds:
            return False
    return True


def _is_empty(selector: Json | None) -> bool:
    return selector is not None and not any(
        selector.get(part) for part in ("matchLabels", "matchExpressions")
    )


# Topology spread ------------------------------------------------------------------------------------


def _constraints(
    pod: SlowPod, cluster: SlowCluster, defaults: Sequence[Json], action: str
) -> list[Json]:
    own = pod.spec.get("topologySpreadConstraints", [])
    found: list[Json] = []
    for constraint in own:
        if constraint["whenUnsatisfiable"] != action:
            continue
        selector = constraint.get("labelSelector")
        keys = [key for key in constraint.get("matchLabelKeys", []) if key in pod.labels]
        if keys and selector is not None:
            equal = [{"key": k, "operator": "In", "values": [pod.labels[k]]} for k in keys]
            expressions = [*selector.get("matchExpressions", []), *equal]
            selector = {**selector, "matchExpressions": expressions}
        found.append({**constraint, "labelSelector": selector})
    if own:
        return found
    wanted: dict[str, str] = {}
    for namespace, labels in cluster.services:
        if namespace == pod.namespace and all(pod.labels.get(k) == v for k, v in labels.items()):
            wanted.update(labels)
    if not wanted:
        return []
    return [
        {**c, "labelSelector": {"matchLabels": wanted}}
        for c in defaults
        if c["whenUnsatisfiable"] == action
    ]


def _is_included(constraint: Json, pod: SlowPod, node: SlowNode) -> bool:
    is_wanted = wants_node(pod.spec, node.name, node.labels)
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not is_wanted:
        return False
    is_kept_away = untolerated(pod.spec.get("tolerations") or [], node.taints) is not None
    return not (is_kept_away and constraint.get("nodeTaintsPolicy", "Ignore") == "Honor")


def _count(pods: Sequence[SlowPod], selector: Json | None, namespace: str) -> int:
    if _is_empty(selector):
        return 0
    return sum(
        not pod.is_terminating and pod.namespace == namespace and selects(selector, pod.labels)
        for pod in pods
    )


def _has_all_keys(node: SlowNode, constraints: Sequence[Json]) -> bool:
    return all(constraint["topologyKey"] in node.labels for constraint in constraints)


def spread_filter(
    pod: SlowPod,
    cluster: SlowCluster,
    defaults: Sequence[Json] = SYSTEM_DEFAULTS,
    gone: Sequence[SlowPod] = (),
) -> dict[str, str] | None:
    """Node -> reason of those that fail; None: PreFilter skips. `gone`: pods that are being deleted and
    were taken off in a preemption's dry run: there they count less than nothing, as RemovePod does not
    ask whether they had been counted."""
    constraints = _constraints(pod, cluster, defaults, "DoNotSchedule")
    if not constraints:
        return None
    counts: list[dict[str, int]] = [{} for _ in constraints]
    for node in cluster.nodes:
        if not _has_all_keys(node, constraints):
            continue
        for i, constraint in enumerate(constraints):
            if _is_included(constraint, pod, node):
                value = node.labels[constraint["topologyKey"]]
                found = _count(cluster.on(node), constraint["labelSelector"], pod.namespace)
                for other in gone:
                    if other.node == node.name and other.namespace == pod.namespace:
                        found -= selects(constraint["labelSelector"], other.labels)
                counts[i][value] = counts[i].get(value, 0) + found
    failed: dict[str, str] = {}
    for node in cluster.nodes:
        for i, constraint in enumerate(constraints):
            key = constraint["topologyKey"]
            if key not in node.labels:
                failed[node.name] = NO_LABEL
                break
            lowest = min(counts[i].values(), default=1 << 31)
            if len(counts[i]) < constraint.get("minDomains", 1):
                lowest = 0
            self_match = int(selects(constraint["labelSelector"], pod.labels))
            if counts[i].get(node.labels[key], 0) + self_match - lowest > constraint["maxSkew"]:
                failed[node.name] = SKEW
                break
    return failed


def spread_scores(
    pod: SlowPod,
    cluster: SlowCluster,
    feasible: Sequence[str],
    defaults: Sequence[Json] = SYSTEM_DEFAULTS,
    *,
    is_system_defaulted: bool = True,
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Raw and normalised score of each feasible node; None: PreScore skips."""
    constraints = _constraints(pod, cluster, defaults, "ScheduleAnyway")
    if not constraints:
        return None
    needs_all = bool(pod.spec.get("topologySpreadConstraints")) or not is_system_defaulted
    candidates = [node for node in cluster.nodes if node.name in feasible]
    ignored = {n.name for n in candidates if needs_all and not _has_all_keys(n, constraints)}
    counts: list[dict[str, int]] = [{} for _ in constraints]
    weights: list[float] = []
    for i, constraint in enumerate(constraints):
        key = constraint["topologyKey"]
        size = len(candidates) - len(ignored)
        if key != HOST_NAME:
            for node in candidates:
                if node.name not in ignored:
                    counts[i].setdefault(node.labels.get(key, ""), 0)
            size = len(counts[i])
        weights.append(math.log(size + 2))
    for node in cluster.nodes:
        if needs_all and not _has_all_keys(node, constraints):
            continue
        for i, constraint in enumerate(constraints):
            value = node.labels.get(constraint["topologyKey"], "")
            if _is_included(constraint, pod, node) and value in counts[i]:
                found = _count(cluster.on(node), constraint["labelSelector"], pod.namespace)
                counts[i][value] += found
    raw: dict[str, int] = {}
    for node in candidates:
        score = 0.0
        for i, constraint in enumerate(constraints):
            key = constraint["topologyKey"]
            if key not in node.labels or node.name in ignored:
                continue
            if key == HOST_NAME:
                count = _count(cluster.on(node), constraint["labelSelector"], pod.namespace)
            else:
                count = counts[i][node.labels[key]]
            score += float(count) * weights[i] + float(constraint["maxSkew"] - 1)
        raw[node.name] = _half_up(score)
    return raw, _normalized_spread(raw, ignored)


def _half_up(score: float) -> int:
    whole = math.floor(score)
    return whole + (1 if score - whole >= 0.5 else 0)


def _normalized_spread(raw: Mapping[str, int], ignored: set[str]) -> dict[str, int]:
    rated = [score for name, score in raw.items() if name not in ignored]
    lowest, highest = min(rated, default=0), max(rated, default=0)
    normalized: dict[str, int] = {}
    for name, score in raw.items():
        if name in ignored:
            normalized[name] = 0
        elif highest == 0:
            normalized[name] = 100
        else:
            normalized[name] = 100 * (highest + lowest - score) // highest
    return normalized


# Inter-pod affinity -----------------------------------------------------------------------------------


def _terms(pod: SlowPod, kind: str, when: str) -> list[Json]:
    found: list[Json] = pod.spec.get("affinity", {}).get(kind, {}).get(when, [])
    return found


def _own_term_means(term: Json, owner: SlowPod, other: SlowPod, cluster: SlowCluster) -> bool:
    """A term of the incoming pod: the namespaces it selects are looked up first; then the selector
    is asked again, with no labels."""
    selector = term.get("namespaceSelector")
    names = term.get("namespaces") or ([owner.namespace] if selector is None else [])
    labels = cluster.namespaces.get(other.namespace)
    is_selected = labels is not None and not _is_empty(selector) and selects(selector, labels)
    if other.namespace not in names and not is_selected and not selects(selector, {}):
        return False
    return selects(term.get("labelSelector"), other.labels)


def _their_term_means(term: Json, owner: SlowPod, incoming: SlowPod, cluster: SlowCluster) -> bool:
    """A term of a pod on a node, held against the labels of the incoming pod's namespace."""
    selector = term.get("namespaceSelector")
    names = set(term.get("namespaces", []))
    if not names and selector is None:
        names = {owner.namespace}
    labels = cluster.namespaces.get(incoming.namespace, {})
    if incoming.namespace not in names and not selects(selector, labels):
        return False
    return selects(term.get("labelSelector"), incoming.labels)


Pairs = Counter[tuple[str, str]]


def interpod_filter(pod: SlowPod, cluster: SlowCluster) -> dict[str, str] | None:
    """Node -> reason of those that fail; None: PreFilter skips."""
    near, apart = _terms(pod, "podAffinity", REQUIRED), _terms(pod, "podAntiAffinity", REQUIRED)
    affinity, anti, existing = Pairs(), Pairs(), Pairs()
    for node in cluster.nodes:
        for other in cluster.on(node):
            if near and all(_own_term_means(t, pod, other, cluster) for t in near):
                _add(affinity, near, node)
            _add(anti, [t for t in apart if _own_term_means(t, pod, other, cluster)], node)
            theirs = _terms(other, "podAntiAffinity", REQUIRED)
            meant = [t for t in theirs if _their_term_means(t, other, pod, cluster)]
            _add(existing, meant, node)
    if not existing and not near and not apart:
        return None
    failed: dict[str, str] = {}
    for node in cluster.nodes:
        if not _has_affinity(pod, node, near, affinity, cluster):
            failed[node.name] = AFFINITY
        elif any(anti[t["topologyKey"], node.labels.get(t["topologyKey"], "?")] for t in apart):
            failed[node.name] = ANTI_AFFINITY
        elif any(existing[pair] for pair in node.labels.items()):
            failed[node.name] = EXISTING
    return failed


def _add(pairs: Pairs, terms: Sequence[Json], node: SlowNode) -> None:
    for term in terms:
        key = term["topologyKey"]
        if key in node.labels:
            pairs[key, node.labels[key]] += 1


def may_be_the_first(pod: SlowPod, cluster: SlowCluster) -> bool:
    """See `oracle.may_be_the_first`."""
    near = _terms(pod, "podAffinity", REQUIRED)
    return bool(near) and all(_own_term_means(term, pod, pod, cluster) for term in near)


def _has_affinity(
    pod: SlowPod, node: SlowNode, near: Sequence[Json], affinity: Pairs, cluster: SlowCluster
) -> bool:
    if any(term["topologyKey"] not in node.labels for term in near):
        return False
    if all(affinity[t["topologyKey"], node.labels[t["topologyKey"]]] > 0 for t in near):
        return True
    return not affinity and all(_own_term_means(term, pod, pod, cluster) for term in near)


def interpod_scores(
    pod: SlowPod,
    cluster: SlowCluster,
    feasible: Sequence[str],
    *,
    hard_weight: int = 1,
    ignores_existing: bool = False,
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Raw and normalised score of each feasible node; None: PreScore skips."""
    near, apart = _terms(pod, "podAffinity", PREFERRED), _terms(pod, "podAntiAffinity", PREFERRED)
    if ignores_existing and not near and not apart:
        return None
    pairs: dict[tuple[str, str], int] = {}
    for node in cluster.nodes:
        for other in cluster.on(node):
            for sign, own, kind in ((1, near, "podAffinity"), (-1, apart, "podAntiAffinity")):
                for weighted in own:
                    if _own_term_means(weighted["podAffinityTerm"], pod, other, cluster):
                        term = weighted["podAffinityTerm"]
                        _weigh(pairs, term, node, sign * weighted["weight"])
                for weighted in _terms(other, kind, PREFERRED):
                    term = weighted["podAffinityTerm"]
                    if _their_term_means(term, other, pod, cluster):
                        _weigh(pairs, term, node, sign * weighted["weight"])
            for term in _terms(other, "podAffinity", REQUIRED) if hard_weight else ():
                if _their_term_means(term, other, pod, cluster):
                    _weigh(pairs, term, node, hard_weight)
    if not pairs:
        return None
    raw = {
        node.name: sum(pairs.get(pair, 0) for pair in node.labels.items())
        for node in cluster.nodes
        if node.name in feasible
    }
    lowest, highest = min(raw.values(), default=0), max(raw.values(), default=0)
    normalized = {
        name: int(100.0 * (float(score - lowest) / float(highest - lowest)))
        if highest > lowest
        else 0
        for name, score in raw.items()
    }
    return raw, normalized


def _weigh(pairs: dict[tuple[str, str], int], term: Json, node: SlowNode, weight: int) -> None:
    key = term["topologyKey"]
    if key in node.labels:
        pair = key, node.labels[key]
        pairs[pair] = pairs.get(pair, 0) + weight
