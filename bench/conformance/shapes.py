"""How the corpus writes things: names of kinds and pods, and what is on a node at the end."""

from typing import Any, Final

from shared.messages.admin import Amounts, NodeUsage

Json = dict[str, Any]

_PLURALS: Final = {"pvs": "persistentvolumes", "pvcs": "persistentvolumeclaims",
                   "pdbs": "poddisruptionbudgets"}  # fmt: skip


def object_kind(field: str) -> str:
    """The API's plural for a field of the corpus' `objects`."""
    return _PLURALS.get(field, field)


def node_shape(usage: NodeUsage) -> Json:
    """An entry of `expected.nodes`."""
    assert usage.pod_count == len(usage.pods), f"{usage.name}: pod_count disagrees with the pods"
    shape: Json = {
        "requested": _amounts(usage.requested),
        "allocatable": _amounts(usage.allocatable),
        "nonzero_requested": {
            "milli_cpu": usage.nonzero_cpu_milli,
            "memory": usage.nonzero_memory_bytes,
        },
        "allowed_pods": usage.allowed_pod_count,
        "pods": usage.pods,
    }
    if usage.ports:
        shape["used_ports"] = sorted(
            f"{protocol}/{ip}/{port}" for ip, protocol, port in usage.ports
        )
    if usage.claim_pod_counts:
        shape["pvc_refs"] = usage.claim_pod_counts
    return shape


def _amounts(amounts: Amounts) -> Json:
    return {
        "milli_cpu": amounts.cpu_milli,
        "memory": amounts.memory_bytes,
        "ephemeral_storage": amounts.ephemeral_storage_bytes,
        "scalar": amounts.scalars,
    }
