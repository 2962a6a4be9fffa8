"""What the plan and the controllers of the simulated cluster both say of objects."""

from typing import Any, Final

Json = dict[str, Any]

HOST: Final = "kubernetes.io/hostname"
NODES: Final = "/api/v1/nodes"
DRIVER: Final = "csi.example.com"


def on_node(name: str) -> Json:
    """The node affinity of a volume that only one node can reach."""
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [name]}]}
    return {"required": {"nodeSelectorTerms": [term]}}
