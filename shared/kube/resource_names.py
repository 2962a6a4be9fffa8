"""Names of resources: which are counted by the scheduler besides cpu, memory and storage.

Apart from the sums so that nodes, pods and plugins ask the same question in the same words.

Rules: pkg/scheduler/util/utils.go and pkg/apis/core/v1/helper/helpers.go, v1.36.
"""

import functools
import re
from typing import Final

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

_HUGEPAGES_PREFIX: Final = "hugepages-"
_ATTACHABLE_VOLUMES_PREFIX: Final = "attachable-volumes-"
_NATIVE_DOMAIN: Final = "kubernetes.io/"
_QUOTA_PREFIX: Final = "requests."

QUALIFIED_NAME: Final = re.compile(
    r"(?:(?=.{1,253}/)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
    re.ASCII,
)
"""Of a resource, and the key of a label."""


@functools.lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Whether the resource is counted as a scalar: extended, huge pages, native with a prefix."""
    return (
        name.startswith((_HUGEPAGES_PREFIX, _ATTACHABLE_VOLUMES_PREFIX))
        or _NATIVE_DOMAIN in name
        or is_extended(name)
    )


@functools.lru_cache(maxsize=4096)
def is_extended(name: str) -> bool:
    """Whether the resource is one that a device plugin or an administrator adds to nodes."""
    if "/" not in name or _NATIVE_DOMAIN in name or name.startswith(_QUOTA_PREFIX):
        return False
    # The quota for the resource is called so, and must be a valid name as well.
    return QUALIFIED_NAME.fullmatch(f"{_QUOTA_PREFIX}{name}") is not None


def is_supported_at_pod_level(name: str) -> bool:
    """Whether `spec.resources` of a pod may state this resource for the pod as a whole."""
    return name in (CPU, MEMORY) or name.startswith(_HUGEPAGES_PREFIX)
