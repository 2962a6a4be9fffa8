"""Random small clusters for what counts pods by topology: as slow twins see them, and as a cache."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from bench.sim.slow_topology import HOST_NAME, PREFERRED, REQUIRED, ZONE, SlowCluster, SlowNode
from bench.sim.slow_topology import SlowPod as Pod
from daemon.core.cache import Cache
from shared.feature_gates import DEFAULT_GATES
from shared.kube.api.core_v1 import Namespace, Node, Service
from shared.kube.pod_record import PodRecord
from tests.support.builders import make_pod

NODE_NAMES = ("n0", "n1", "n2", "n3", "n4")
GHOST = "ghost"
TOPOLOGY_KEYS = (HOST_NAME, ZONE, "rack")
NAMESPACES = ("default", "prod", "nobody-made-it")
APPS = ("web", "db")
TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
DELETED = "2026-01-01T00:00:00Z"


@st.composite
def node_labels(draw: st.DrawFn, name: str) -> dict[str, str]:
    host = draw(st.sampled_from((name, name, name, "shared", None)))
    zone = draw(st.sampled_from(("a", "b", "c", "", None)))
    rack = draw(st.sampled_from(("1", "2", None)))
    pairs = ((HOST_NAME, host), (ZONE, zone), ("rack", rack), ("disk", "ssd"))
    labels = {key: value for key, value in pairs if value is not None}
    if draw(st.booleans()):
        del labels["disk"]
    return labels


def pod_labels() -> st.SearchStrategy[dict[str, str]]:
    app = st.sampled_from((*APPS, None))
    version = st.sampled_from(("1", "2", None))
    return st.tuples(app, version).map(
        lambda pair: {
            key: value for key, value in zip(("app", "v"), pair, strict=True) if value is not None
        }
    )


def selectors() -> st.SearchStrategy[dict[str, Any] | None]:
    def expression(operator: str) -> dict[str, Any]:
        values = ["web", "1"] if operator in ("In", "NotIn") else []
        return {"key": "app", "operator": operator, **({"values": values} if values else {})}

    return st.one_of(
        st.sampled_from(APPS).map(lambda app: {"matchLabels": {"app": app}}),
        st.sampled_from(APPS).map(lambda app: {"matchLabels": {"app": app}}),
        st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")).map(
            lambda operator: {"matchExpressions": [expression(operator)]}
        ),
        st.just({"matchLabels": {"app": "web", "v": "1"}}),
        st.just({}),
        st.none(),
    )


@st.composite
def spread_constraints(draw: st.DrawFn) -> dict[str, Any]:
    constraint: dict[str, Any] = {
        "topologyKey": draw(st.sampled_from(TOPOLOGY_KEYS)),
        "maxSkew": draw(st.integers(1, 3)),
        "whenUnsatisfiable": draw(st.sampled_from(("DoNotSchedule", "ScheduleAnyway"))),
        "labelSelector": draw(selectors()),
    }
    if draw(st.integers(0, 3)) == 0:
        constraint["minDomains"] = draw(st.integers(1, 4))
    if draw(st.integers(0, 3)) == 0:
        constraint["matchLabelKeys"] = ["v"]
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        value = draw(st.sampled_from((None, None, "Honor", "Ignore")))
        if value is not None:
            constraint[policy] = value
    return constraint


@st.composite
def affinity_terms(draw: st.DrawFn) -> dict[str, Any]:
    term: dict[str, Any] = {
        "topologyKey": draw(st.sampled_from(TOPOLOGY_KEYS)),
        "labelSelector": draw(selectors()),
    }
    namespaces = draw(st.sampled_from(((), (), ("prod",), ("default", "prod"))))
    if namespaces:
        term["namespaces"] = list(namespaces)
    team = draw(st.sampled_from((None, None, None, "In", "NotIn", "Exists", "DoesNotExist", "{}")))
    if team == "{}":
        term["namespaceSelector"] = {}
    elif team is not None:
        values = {"values": ["x"]} if team in ("In", "NotIn") else {}
        expression = {"key": "team", "operator": team, **values}
        term["namespaceSelector"] = {"matchExpressions": [expression]}
    return term


@st.composite
def affinities(draw: st.DrawFn) -> dict[str, Any]:
    weighted = st.builds(
        lambda term, weight: {"weight": weight, "podAffinityTerm": term},
        affinity_terms(),
        st.sampled_from((1, 2, 5)),
    )
    affinity: dict[str, Any] = {}
    for kind in ("podAffinity", "podAntiAffinity"):
        group = {
            REQUIRED: draw(st.lists(affinity_terms(), max_size=2)),
            PREFERRED: draw(st.lists(weighted, max_size=2)),
        }
        group = {when: terms for when, terms in group.items() if terms}
        if group:
            affinity[kind] = group
    return affinity


@st.composite
def pod_specs(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    shape = draw(st.sampled_from(("plain", "spread", "affinity", "affinity", "both")))
    if shape in ("spread", "both"):
        spec["topologySpreadConstraints"] = draw(
            st.lists(spread_constraints(), min_size=1, max_size=3)
        )
    if shape in ("affinity", "both"):
        spec["affinity"] = draw(affinities())
    if draw(st.integers(0, 3)) == 0:
        spec["nodeSelector"] = {"disk": "ssd"}
    if draw(st.integers(0, 3)) == 0:
        spec["tolerations"] = [{"key": "k", "operator": "Exists"}]
    return spec


@st.composite
def pods(draw: st.DrawFn, node: str = "") -> Pod:
    return Pod(
        namespace=draw(st.sampled_from(NAMESPACES)),
        labels=draw(pod_labels()),
        spec=draw(pod_specs()),
        node=node,
        is_terminating=draw(st.integers(0, 5)) == 0 if node else False,
    )


@st.composite
def clusters(draw: st.DrawFn) -> SlowCluster:
    names = draw(st.lists(st.sampled_from(NODE_NAMES), unique=True, min_size=1))
    nodes = [
        SlowNode(name, draw(node_labels(name)), [TAINT] if draw(st.booleans()) else [])
        for name in names
    ]
    where = st.sampled_from((*names, *names, GHOST))
    on_nodes = [draw(pods(draw(where))) for _ in range(draw(st.integers(0, 8)))]
    return SlowCluster(
        nodes,
        on_nodes,
        namespaces={"default": {"team": "x"}, "prod": draw(st.sampled_from(({}, {"team": "y"})))},
        services=draw(st.sampled_from(([], [("default", {"app": "web"})], [("prod", {"v": "1"})]))),
    )


# As the owner holds them ------------------------------------------------------------------------------


def node_object(node: SlowNode) -> Node:
    body = {
        "metadata": {"name": node.name, "labels": dict(node.labels)},
        "spec": {"taints": list(node.taints)},
        "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "500"}},
    }
    return msgspec.convert(body, Node)


def pod_record(pod: Pod, name: str) -> PodRecord:
    return make_pod(
        name,
        namespace=pod.namespace,
        node_name=pod.node,
        labels=pod.labels,
        spec=pod.spec,
        deleted=DELETED if pod.is_terminating else None,
    )


def cache_of(cluster: SlowCluster) -> Cache:
    cache = Cache(DEFAULT_GATES)
    for node in cluster.nodes:
        cache.add_node(node_object(node))
    for number, pod in enumerate(cluster.pods):
        cache.add_pod(pod_record(pod, f"p{number}"))
    for name, labels in cluster.namespaces.items():
        body: dict[str, Any] = {"metadata": {"name": name, "labels": dict(labels)}}
        cache.objects.put("namespaces", name, msgspec.convert(body, Namespace))
    for number, (namespace, selector) in enumerate(cluster.services):
        body = {
            "metadata": {"name": f"s{number}", "namespace": namespace},
            "spec": {"selector": dict(selector)},
        }
        cache.objects.put("services", f"{namespace}/s{number}", msgspec.convert(body, Service))
    return cache
