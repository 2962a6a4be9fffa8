"""Short ways to make claims, volumes and storage classes in a cache."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from daemon.core.cache import Cache
from shared.kube.api.core_v1 import PersistentVolumeClaim
from shared.kube.api.core_v1_parts import PersistentVolume
from shared.kube.api.storage_v1 import CsiDriver, CsiNode, CsiStorageCapacity, StorageClass

BOUND = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def put_class(
    cache: Cache,
    name: str = "late",
    *,
    provisioner: str = "csi.example.com",
    mode: str | None = "WaitForFirstConsumer",
    zones: Sequence[str] = (),
) -> None:
    body: dict[str, Any] = {"metadata": {"name": name}, "provisioner": provisioner}
    body["volumeBindingMode"] = mode
    if zones:
        expression = {"key": ZONE, "values": list(zones)}
        body["allowedTopologies"] = [{"matchLabelExpressions": [expression]}]
    cache.objects.put("storageclasses", name, msgspec.convert(body, StorageClass))


def put_claim(
    cache: Cache,
    name: str,
    *,
    volume: str = "",
    class_name: str = "late",
    size: str = "1Gi",
    annotations: Mapping[str, str] | None = None,
    access_modes: Sequence[str] = ("ReadWriteOnce",),
    phase: str = "Pending",
    deleted: str | None = None,
    owner: str = "",
    version: str = "1",
) -> None:
    """A claim with a volume is fully bound, unless `annotations` say otherwise."""
    if annotations is None:
        annotations = {BOUND: "yes"} if volume else {}
    body = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "annotations": dict(annotations),
            "deletionTimestamp": deleted,
            "ownerReferences": [{"uid": owner, "controller": True}] if owner else [],
        },
        "spec": {
            "accessModes": list(access_modes),
            "volumeName": volume,
            "storageClassName": class_name,
            "resources": {"requests": {"storage": size}},
        },
        "status": {"phase": phase},
    }
    key = f"default/{name}"
    cache.objects.put("persistentvolumeclaims", key, msgspec.convert(body, PersistentVolumeClaim))


def put_volume(
    cache: Cache,
    name: str,
    *,
    hosts: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    class_name: str = "late",
    size: str = "1Gi",
    claim: str = "",
    source: Mapping[str, Any] | None = None,
    version: str = "1",
) -> None:
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": size},
        "storageClassName": class_name,
        **(source or {}),
    }
    if hosts:
        expression = {"key": HOST, "operator": "In", "values": list(hosts)}
        terms = [{"matchExpressions": [expression]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if claim:
        spec["claimRef"] = {"namespace": "default", "name": claim, "uid": f"uid-{claim}"}
    meta = {"name": name, "resourceVersion": version, "labels": dict(labels or {})}
    body = {
        "metadata": meta,
        "spec": spec,
        "status": {"phase": "Bound" if claim else "Available"},
    }
    cache.objects.put("persistentvolumes", name, msgspec.convert(body, PersistentVolume))


def put_capacity(
    cache: Cache,
    name: str,
    size: str,
    *,
    host: str = "",
    but: list[str] | None = None,
    class_name: str = "late",
) -> None:
    """Counted storage; without a host, all nodes reach it, `but` some."""
    topology: dict[str, Any] = {"matchLabels": {HOST: host}} if host else {}
    if but is not None:
        topology["matchExpressions"] = [{"key": HOST, "operator": "NotIn", "values": but}]
    body = {
        "metadata": {"name": name, "namespace": "kube-system"},
        "storageClassName": class_name,
        "nodeTopology": topology,
        "capacity": size,
    }
    key = f"kube-system/{name}"
    value = msgspec.convert(body, CsiStorageCapacity)
    cache.objects.put("csistoragecapacities", key, value)


def put_driver(
    cache: Cache, name: str = "csi.example.com", *, counts: bool = True, is_needed: bool = False
) -> None:
    spec = {"storageCapacity": counts, "preventPodSchedulingIfMissing": is_needed}
    body = {"metadata": {"name": name}, "spec": spec}
    cache.objects.put("csidrivers", name, msgspec.convert(body, CsiDriver))


def put_csi_node(
    cache: Cache, node: str, limits: Mapping[str, int] | None = None, migrated: str = ""
) -> None:
    drivers = [{"name": d, "allocatable": {"count": count}} for d, count in (limits or {}).items()]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else {}
    meta = {"name": node, "annotations": annotations}
    body = {"metadata": meta, "spec": {"drivers": drivers}}
    cache.objects.put("csinodes", node, msgspec.convert(body, CsiNode))


def claim_volumes(*claims: str) -> dict[str, Any]:
    """The part of a pod's spec that names these claims."""
    return {
        "volumes": [
            {"name": f"v{i}", "persistentVolumeClaim": {"claimName": claim}}
            for i, claim in enumerate(claims)
        ]
    }
