"""Where the API server has the objects that a binder reads and writes."""

from shared.kube.well_known import POD_GROUPS_VERSION


def pod_path(namespace: str, name: str) -> str:
    """Of a pod."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def pod_group_path(namespace: str, name: str) -> str:
    """Of a pod group of Kubernetes."""
    return f"/apis/{POD_GROUPS_VERSION}/namespaces/{namespace}/podgroups/{name}"


def volume_path(name: str) -> str:
    """Of a persistent volume."""
    return f"/api/v1/persistentvolumes/{name}"


def volume_claim_path(namespace: str, name: str) -> str:
    """Of a claim for a volume."""
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"


def resource_claim_path(namespace: str, name: str) -> str:
    """Of a claim for devices."""
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"
