"""Which plugins a workload is about: without them its result would be of something else.

Read from the templates themselves. A workload whose plugin is not built yet is refused, unless it is
asked for all the same; the result then says what was missing.
"""

from collections.abc import Iterator
from typing import Any

from bench.perf import operations as ops
from bench.perf.config_file import Plan
from bench.perf.object_template import JsonObject, ObjectTemplate
from shared import plugin_names as names
from shared.framework.registry import IN_TREE


def missing_plugins(plan: Plan) -> list[str]:
    """Names of the plugins that the workload needs and berth does not have yet."""
    return sorted({name for name in needed_plugins(plan) if name not in IN_TREE})


def needed_plugins(plan: Plan) -> set[str]:
    """Names of the plugins beyond those that every pod needs."""
    needed: set[str] = set()
    priorities: set[int] = set()
    for path in dict.fromkeys(filter(None, _paths(plan))):
        body = ObjectTemplate(plan.path(path)).body(0, 1, _params(plan))
        spec: JsonObject = body.get("spec") or {}
        if body.get("kind") == "Pod":
            needed |= _of_pod(spec)
            priorities.add(int(spec.get("priority") or 0))
        elif body.get("kind") in ("Service", "ReplicaSet", "ReplicationController", "StatefulSet"):
            # The system's default constraints apply to pods that such an object selects.
            needed.add(names.POD_TOPOLOGY_SPREAD)
        elif body.get("kind") in ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass"):
            needed.add(names.DYNAMIC_RESOURCES)
    if any(priorities):
        needed.add(names.DEFAULT_PREEMPTION)
    return needed


def _params(plan: Plan) -> dict[str, Any]:
    merged: dict[str, Any] = dict(plan.workload.params)
    for operation in plan.operations:
        merged.update(getattr(operation, "template_params", None) or {})
    return merged


def _of_pod(spec: JsonObject) -> set[str]:
    needed = set()
    affinity = spec.get("affinity") or {}
    if affinity.get("podAffinity") or affinity.get("podAntiAffinity"):
        needed.add(names.INTER_POD_AFFINITY)
    if spec.get("topologySpreadConstraints"):
        needed.add(names.POD_TOPOLOGY_SPREAD)
    if spec.get("resourceClaims"):
        needed.add(names.DYNAMIC_RESOURCES)
    volumes = spec.get("volumes") or ()
    if any("persistentVolumeClaim" in volume or "ephemeral" in volume for volume in volumes):
        needed |= {names.VOLUME_BINDING, names.VOLUME_ZONE, names.VOLUME_RESTRICTIONS}
    return needed


def _paths(plan: Plan) -> Iterator[str]:
    for operation in plan.operations:
        match operation:
            case ops.CreatePods():
                yield operation.pod_template_path or plan.case.default_pod_template_path
            case ops.CreatePodSets():
                inner = operation.create_pods_op
                yield inner.pod_template_path or plan.case.default_pod_template_path
            case ops.CreateAny() | ops.UpdateAny():
                yield operation.template_path
            case ops.Churn():
                yield from operation.template_paths
            case _:
                continue
