"""What the demo creates: nodes and pods as request bodies, encoded once before the clock starts."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson

from bench.openb.trace import TraceNode, TracePod, read_nodes, read_pods

NAMESPACE: Final = "default"
GPU_RESOURCE: Final = "nvidia.com/gpu"
GPU_MODEL_LABEL: Final = "nvidia.com/gpu.product"
PODS_PER_NODE: Final = 110
"""The kubelet's default (--max-pods)."""

OTHERS_BETWEEN: Final = 50
"""Whoever makes the pods of several jobs makes them side by side, and others come meanwhile."""
IMAGE: Final = "registry.k8s.io/pause:3.10"


class PodBody(NamedTuple):
    name: str
    body: bytes


class Workload(NamedTuple):
    """A cluster and the pods that come to it, in order."""

    title: str
    note: str
    """What a reader of the figures has to know about it."""
    nodes: list[bytes]
    pods: list[PodBody]
    jobs: Mapping[str, list[str]] = MappingProxyType({})
    """Pods of which none is of use without the others, by the job's name."""
    groups: tuple[bytes, ...] = ()
    """PodGroups: with them each job is a gang."""


def openb_workload() -> Workload:
    """The openb cluster: 1,523 nodes with GPUs, 8,152 pods."""
    return Workload(
        title="openb (Alibaba cluster-trace-gpu-v2023)",
        note="Pods that shared a GPU in the original cluster ask for a whole one here, and no pod"
        " ever ends: together they ask for more GPUs than there are.",
        nodes=[_openb_node(node) for node in read_nodes()],
        pods=[PodBody(pod.name, _openb_pod(pod)) for pod in read_pods()],
    )


def openb_jobs(*, as_gangs: bool) -> Workload:
    """The openb cluster with jobs."""
    return jobs_of(read_nodes(), read_pods(), as_gangs=as_gangs)


def jobs_of(nodes: list[TraceNode], trace: list[TracePod], *, as_gangs: bool) -> Workload:
    """Each pod with several GPUs as a job of as many pods with one each, which come one by one."""
    placed: list[tuple[int, PodBody]] = []
    jobs: dict[str, list[str]] = {}
    for place, pod in enumerate(trace):
        count = pod.gpu_count
        if count < 2:
            placed.append((place, PodBody(pod.name, _openb_pod(pod))))
            continue
        each = pod._replace(
            cpu_milli=pod.cpu_milli // count, memory_mib=pod.memory_mib // count, gpu_count=1
        )
        names = jobs[pod.name] = [f"{pod.name}-{number}" for number in range(count)]
        group = pod.name if as_gangs else ""
        for number, name in enumerate(names):
            body = PodBody(name, _openb_pod(each._replace(name=name), group))
            placed.append((place + number * OTHERS_BETWEEN, body))
    placed.sort(key=lambda one: one[0])
    groups = [_pod_group(name, len(names)) for name, names in jobs.items()] if as_gangs else []
    how = "as gangs" if as_gangs else "pod by pod"
    return Workload(
        title=f"openb (Alibaba cluster-trace-gpu-v2023), jobs {how}",
        note="Each pod with several GPUs is a job of as many pods with one GPU each, of which none is of"
        f" use without the others; they come one by one, {OTHERS_BETWEEN} places apart. No pod ever"
        " ends: together they ask for more GPUs than there are.",
        nodes=[_openb_node(node) for node in nodes],
        pods=[body for _, body in placed],
        jobs=jobs,
        groups=tuple(groups),
    )


def _pod_group(name: str, min_count: int) -> bytes:
    return orjson.dumps(
        {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
        }
    )


def synthetic_workload(node_count: int, pod_count: int) -> Workload:
    """Equal nodes (4 CPU, 32 GiB, 110 pods) and equal pods (100m CPU, 500 MiB).

    As in kube-scheduler's own benchmark (test/integration/scheduler_perf, SchedulingBasic, v1.36).
    """
    allocatable = {"cpu": "4", "memory": "32Gi", "pods": f"{PODS_PER_NODE}"}
    requests = {"cpu": "100m", "memory": "500Mi"}
    return Workload(
        title=f"synthetic: {node_count} nodes, {pod_count} pods",
        note="Equal nodes of 4 CPU and 32 GiB, equal pods of 100m CPU and 500 MiB.",
        nodes=[_node(f"node-{i:06d}", allocatable, {}) for i in range(node_count)],
        pods=[
            PodBody(f"pod-{i:07d}", _pod(f"pod-{i:07d}", requests, {}, None))
            for i in range(pod_count)
        ],
    )


def _openb_node(node: TraceNode) -> bytes:
    allocatable = {
        "cpu": f"{node.cpu_milli}m",
        "memory": f"{node.memory_mib}Mi",
        "pods": f"{PODS_PER_NODE}",
    }
    labels = {}
    if node.gpu_count:
        allocatable[GPU_RESOURCE] = f"{node.gpu_count}"
        labels[GPU_MODEL_LABEL] = node.gpu_model
    return _node(node.name, allocatable, labels)


def _openb_pod(pod: TracePod, group: str = "") -> bytes:
    requests = {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
    if pod.gpu_count:
        requests[GPU_RESOURCE] = f"{pod.gpu_count}"
    affinity = None
    if pod.gpu_models:
        on_model = {"key": GPU_MODEL_LABEL, "operator": "In", "values": list(pod.gpu_models)}
        terms = [{"matchExpressions": [on_model]}]
        affinity = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
            }
        }
    return _pod(pod.name, requests, {"qos": pod.qos}, affinity, group)


def _node(name: str, allocatable: dict[str, str], labels: dict[str, str]) -> bytes:
    return orjson.dumps(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
            "spec": {},
            "status": {
                "capacity": allocatable,
                "allocatable": allocatable,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )


def _pod(
    name: str,
    requests: dict[str, str],
    labels: dict[str, str],
    affinity: dict[str, Any] | None,
    group: str = "",
) -> bytes:
    resources: dict[str, Any] = {"requests": requests}
    if GPU_RESOURCE in requests:
        # The API server wants extended resources as limits, and both equal.
        resources["limits"] = {GPU_RESOURCE: requests[GPU_RESOURCE]}
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": IMAGE, "resources": resources}]
    }
    if affinity is not None:
        spec["affinity"] = affinity
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    return orjson.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
            "spec": spec,
        }
    )
