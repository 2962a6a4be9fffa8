"""What makers of clusters call things, and what all objects have."""

from typing import Any, Final

Json = dict[str, Any]

HOST_NAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
DRIVER: Final = "gpu.example.com"
CREATED: Final = "2026-01-01T00:00:00Z"
APPS: Final = ("a", "a", "b", "c")
PROFILES: Final = ("default-scheduler", "second")
CLAIMS: Final = ("g0", "g1", "g2", "g3")
VOLUME_CLAIMS: Final = ("solo", "c0", "c1", "c2", "late", "made")
MISSING: Final = "missing"


def meta(name: str, namespace: str = "", **fields: Any) -> Json:
    """A metadata that is complete."""
    said = {"name": name, "uid": f"uid-{namespace}-{name}", "resourceVersion": "1"}
    said["creationTimestamp"] = CREATED
    return {**said, **({"namespace": namespace} if namespace else {}), **fields}
