"""Where the API server has the objects that a binder reads and writes, and how a pod is there now."""

from typing import Final, NamedTuple

import msgspec

from shared.kube.api.core_v1_parts import BriefPod
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import NotFound, read_answer
from shared.kube.well_known import POD_GROUPS_VERSION

REQUEST_TIMEOUT_S: Final = 10.0
"""Of all requests but those that bind pods and volumes."""

_decoder: Final = msgspec.json.Decoder(BriefPod)


def pod_path(namespace: str, name: str) -> str:
    """Of a pod."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def pod_group_path(namespace: str, name: str) -> str:
    """Of a pod group of Kubernetes."""
    return f"/apis/{POD_GROUPS_VERSION}/namespaces/{namespace}/podgroups/{name}"


def node_path(name: str) -> str:
    """Of a node."""
    return f"/api/v1/nodes/{name}"


def volume_path(name: str) -> str:
    """Of a persistent volume."""
    return f"/api/v1/persistentvolumes/{name}"


def volume_claim_path(namespace: str, name: str) -> str:
    """Of a claim for a volume."""
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"


def resource_claim_path(namespace: str, name: str) -> str:
    """Of a claim for devices."""
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"


class Gone(NamedTuple):
    """The pod is no more, though another may have its name."""

    message: str


async def seen_pod(api: ApiClient, path: str, uid: str) -> BriefPod | Gone:
    """What is at the path, if it is this pod: to be asked where the outcome of a write about it is open.
    Raises what a GET raises when nobody can tell."""
    try:
        pod = read_answer(_decoder, await api.get(path, timeout_s=REQUEST_TIMEOUT_S))
    except NotFound as error:
        return Gone(error.message)
    if pod.metadata.uid != uid:
        return Gone(f"the pod of that name is another one (uid {pod.metadata.uid})")
    return pod
