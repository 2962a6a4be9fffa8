"""Objects of manifest files as an adapter would tell of them: pods and nodes that are not there."""

import copy
from collections.abc import Iterator
from typing import Any, Final

import orjson

from daemon.adapter.kind_feed import KindFeed
from shared.errors import ConfigurationError
from shared.go_yaml import YAML_FAULTS, documents, value_of, yaml_problem
from shared.kube.foreign_groups import kinds_with
from shared.kube.resources import NODES, POD_GROUPS, PODS, ResourceKind
from shared.messages.to_owner import AdapterMessage, ObjectRejected
from shared.yaml_fields import read_text

Json = dict[str, Any]

_WORKLOADS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "Job", "ReplicationController")


def pods_of(
    path: str, count: int | None, scheduler_name: str, pod_groups: str = ""
) -> list[AdapterMessage]:
    """The pods of a file: of Pods, and of workloads that make them; and their PodGroups, which are
    `--pod-groups`'. `count`: so many of each pod; else one, or as many as the workload has replicas."""
    made: list[Json] = []
    groups: list[Json] = []
    kinds = {kind.plural: kind for kind in kinds_with(pod_groups)}
    for document in _documents(path):
        kind, meta = document.get("kind"), document["metadata"]
        if kind == "PodGroup":
            groups.append({**document, "metadata": {"namespace": "default", **meta}})
            continue
        if kind == "Pod":
            replicas, pod = 1, document
        elif kind in _WORKLOADS:
            spec = document.get("spec") or {}
            replicas = spec.get("replicas") or spec.get("parallelism") or 1
            pod = {**(spec.get("template") or {}), "kind": "Pod"}
            pod["metadata"] = {**(pod.get("metadata") or {}), "name": meta["name"]}
            pod["metadata"].setdefault("namespace", meta.get("namespace"))
        else:
            wanted = f"give a Pod, a PodGroup, or one of {_WORKLOADS}"
            raise ConfigurationError(path, [f"is a {kind}; {wanted}"])
        made += copies(_defaulted(pod, scheduler_name), replicas if count is None else count)
    messages = told(path, kinds[POD_GROUPS.plural], groups)
    return messages + told(path, kinds[PODS.plural], made)


def nodes_of(path: str, count: int | None) -> list[AdapterMessage]:
    """The nodes of a file, `count` of each."""
    made: list[Json] = []
    for document in _documents(path):
        if document.get("kind") != "Node":
            raise ConfigurationError(path, [f"is a {document.get('kind')}; give a Node"])
        for node in copies(document, count or 1):
            meta = node["metadata"]
            meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/hostname": meta["name"]}
            made.append(node)
    return told(path, NODES, made)


def told(path: str, kind: ResourceKind, objects: list[Json]) -> list[AdapterMessage]:
    """As the adapter would read them; ConfigurationError for what it would leave out."""
    messages: list[AdapterMessage] = []
    feed = KindFeed(kind, lambda message, _: messages.append(message))
    for number, each in enumerate(objects):
        each["metadata"] |= {"uid": f"what-if-{kind.plural}-{number}", "resourceVersion": "1"}
        feed.line(orjson.dumps({"type": "ADDED", "object": each}))
    rejected = [one for one in messages if isinstance(one, ObjectRejected)]
    if rejected:
        raise ConfigurationError(path, [f"{one.where}: {one.problem}" for one in rejected])
    return messages


def copies(document: Json, count: int) -> list[Json]:
    """One as it is; several with numbers behind their names."""
    made = [copy.deepcopy(document) for _ in range(count)]
    for number, each in enumerate(made if count > 1 else [], start=1):
        each["metadata"]["name"] = f"{document['metadata']['name']}-{number}"
    return made


def _documents(path: str) -> Iterator[Json]:
    """Each has `metadata.name`: if need be, what is to stand in front of a name."""
    try:
        made = [value_of(node) for node in documents(read_text(path))]
    except YAML_FAULTS as error:
        raise ConfigurationError(path, [yaml_problem(error)]) from error
    for document in made:
        if document is None:
            continue  # Nothing between two lines `---`.
        if not isinstance(document, dict):
            raise ConfigurationError(path, ["is no manifest"])
        stated = document.get("metadata")
        meta = stated if isinstance(stated, dict) else {}
        name = meta.get("name") or meta.get("generateName")
        if not isinstance(name, str) or not name:
            raise ConfigurationError(path, ["metadata.name is missing"])
        yield {**document, "metadata": {**meta, "name": name}}


def _defaulted(pod: Json, scheduler_name: str) -> Json:
    """With what the API server would write into it, as far as scheduling reads that. What is of another
    shape stays as it is, for the decoder to name."""
    meta = dict(pod["metadata"])
    meta["namespace"] = meta.get("namespace") or "default"
    spec = pod.get("spec")
    if isinstance(spec, dict):
        spec = {"schedulerName": scheduler_name, **spec}
        for group in ("containers", "initContainers"):
            if isinstance(spec.get(group), list):
                spec[group] = [_with_requests(container) for container in spec[group]]
    return {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


def _with_requests(container: Any) -> Any:
    """Who states limits alone asks for as much."""
    resources = container.get("resources") if isinstance(container, dict) else None
    if not isinstance(resources, dict) or not isinstance(resources.get("limits"), dict):
        return container
    limits: Json = resources["limits"]
    requests = {**limits, **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}
