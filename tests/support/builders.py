"""Short ways to make the objects that tests need; every value not named has a plain default."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from shared.columns.table import NodeTable
from shared.kube.api.core_v1 import Node, Pod
from shared.kube.pod_record import PodRecord, split_pod


def make_node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "32Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    images: Sequence[Mapping[str, Any]] = (),
    extra: Mapping[str, str] | None = None,
) -> Node:
    """A Node as the API server would send it."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": str(pods), **(extra or {})}
    body = {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
        },
        "spec": {"unschedulable": unschedulable, "taints": list(taints)},
        "status": {"allocatable": allocatable, "images": list(images)},
    }
    return msgspec.convert(body, Node)


def make_pod(
    name: str,
    *,
    namespace: str = "default",
    uid: str = "",
    node_name: str = "",
    cpu: str | None = "100m",
    memory: str | None = "128Mi",
    host_port: int = 0,
    claim: str = "",
    priority: int = 0,
    labels: Mapping[str, str] | None = None,
    owner: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    phase: str = "Pending",
    deleted: str | None = None,
    nominated_node_name: str = "",
    resource_version: str = "1",
    conditions: Sequence[Mapping[str, str]] = (),
    status: Mapping[str, Any] | None = None,
) -> PodRecord:
    """A pod as the adapter hands it over. `owner`: kind, apiVersion and name of its controller."""
    requests = {k: v for k, v in (("cpu", cpu), ("memory", memory)) if v is not None}
    container: dict[str, Any] = {"name": "c", "image": "img", "resources": {"requests": requests}}
    if host_port:
        container["ports"] = [{"hostPort": host_port, "containerPort": host_port}]
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    body = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{namespace}-{name}",
            "resourceVersion": resource_version,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": deleted,
            "labels": dict(labels or {}),
            "ownerReferences": [{"uid": "owner", "controller": True, **owner}] if owner else [],
        },
        "spec": {
            "nodeName": node_name,
            "priority": priority,
            "containers": [container],
            "volumes": volumes,
            **(spec or {}),
        },
        "status": {
            "phase": phase,
            "nominatedNodeName": nominated_node_name,
            "conditions": list(conditions),
            **(status or {}),
        },
    }
    return split_pod(msgspec.convert(body, Pod))


def table_of(labels: list[dict[str, str]]) -> NodeTable:
    """Nodes n0, n1, ... with these labels."""
    nodes = NodeTable()
    nodes.reserve(len(labels))
    rows = np.arange(len(labels))
    nodes.bind_names(rows, [f"n{row}" for row in rows])
    nodes.write_labels(rows, labels)
    return nodes
