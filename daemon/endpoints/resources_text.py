"""`/metrics/resources`: what each pod asks for and may use, as Prometheus' text. Pure.

Names, labels and units: pkg/scheduler/metrics/resources/resources.go, v1.36.2. Pods that have ended
are left out there and here; pending pods of other schedulers are left out here alone, as berth holds
none of them.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from daemon.endpoints.metrics_text import labels_text, number_text
from shared.kube.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from shared.messages.admin import PodResources

_FAMILIES: Final = (
    (
        "kube_pod_resource_request",
        "[STABLE] What the pods of the cluster ask for, by pod, with the resource's unit.",
    ),
    (
        "kube_pod_resource_limit",
        "[STABLE] The most that the pods of the cluster may use, by pod, with the resource's unit.",
    ),
)
_UNITS: Final[Mapping[str, str]] = {
    CPU: "cores",
    MEMORY: "bytes",
    "storage": "bytes",
    EPHEMERAL_STORAGE: "bytes",
}


def resources_text(pages: Sequence[PodResources]) -> str:
    """All of it."""
    lines: list[str] = []
    for name, sentence in _FAMILIES:
        found = [line for page in pages for line in _lines(name, page)]
        if found:
            lines += [f"# HELP {name} {sentence}", f"# TYPE {name} gauge", *found]
    return "\n".join([*lines, ""]) if lines else ""


def _lines(name: str, page: PodResources) -> list[str]:
    lines = []
    for pod in page.pods:
        template = page.templates[pod.template]
        amounts = template.limits if name.endswith("limit") else template.requests
        for resource, amount in amounts.items():
            if not amount:
                continue
            labels = (
                ("namespace", pod.namespace),
                ("pod", pod.name),
                ("node", pod.node_name),
                ("scheduler", template.scheduler_name),
                ("priority", template.priority),
                ("resource", resource),
                ("unit", _unit(resource)),
            )
            lines.append(f"{name}{labels_text(labels)} {number_text(amount)}")
    return lines


def _unit(resource: str) -> str:
    if resource.startswith("hugepages-"):
        return "bytes"
    if resource.startswith("attachable-volumes-"):
        return "integer"
    return _UNITS.get(resource, "")
