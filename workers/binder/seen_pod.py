"""A pod as the API server has it now, asked for where the outcome of a write about it is open."""

from typing import Final, NamedTuple

import msgspec

from shared.kube.api.core_v1_parts import BriefPod
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import NotFound, read_answer

_decoder: Final = msgspec.json.Decoder(BriefPod)


class Gone(NamedTuple):
    """The pod is no more, though another may have its name."""

    message: str


async def seen_pod(api: ApiClient, path: str, uid: str, timeout_s: float) -> BriefPod | Gone:
    """What is at the path, if it is this pod. Raises what a GET raises when nobody can tell."""
    try:
        pod = read_answer(_decoder, await api.get(path, timeout_s=timeout_s))
    except NotFound as error:
        return Gone(error.message)
    if pod.metadata.uid != uid:
        return Gone(f"the pod of that name is another one (uid {pod.metadata.uid})")
    return pod
