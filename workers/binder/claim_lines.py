"""Who writes to a resource claim, in line: one at a time, so that a binder does not compete with itself.

Pods that share a claim are bound at the same moment. Each write carries the version that was read, so
side by side nearly all would come too late, read again, and come too late again. Whoever is first in
line writes for all that wait there (`claim_bind.py`); who gives a claim back waits in the same line.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from shared.framework.binding_api import Allowed, Refused
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.api_errors import ApiError, ProtocolViolation, read_answer
from shared.kube.binding_work import ClaimWork
from shared.messages.to_binder import BindPod
from workers.binder.api_paths import REQUEST_TIMEOUT_S

FINALIZER: Final = "resource.kubernetes.io/delete-protection"

Json = dict[str, Any]

_claim_decoder: Final = msgspec.json.Decoder(ResourceClaim)
_encoder: Final = msgspec.json.Encoder()


async def answered_claim(ask: Callable[..., Awaitable[bytes]], path: str, *claims: Json) -> Json:
    """A claim as it came: a PUT must not lose fields that are not known here. `ask`: the client's `get`,
    or its `post` or `put` of one that is made or changed, if it is still the one that was read. Raises
    what a request does, and `ProtocolViolation` where it is no claim."""
    answer = await ask(path, *map(_encoder.encode, claims), timeout_s=REQUEST_TIMEOUT_S)
    if not read_answer(_claim_decoder, answer).metadata.uid:
        raise ProtocolViolation("what came is no resource claim")
    claim: Json = msgspec.json.decode(answer)
    return claim


class Unknown(NamedTuple):
    """Nobody knows what was done: the order has to be given again."""

    message: str


class Wish(msgspec.Struct, eq=False):
    """What one order needs of one claim."""

    order: BindPod
    work: ClaimWork
    answer: Allowed | Refused | Unknown | None = None
    """None: it waits."""


class ClaimLine(asyncio.Lock):
    """Of one claim. To be entered by whoever writes, one at a time, in the order in which they came."""

    def __init__(self) -> None:
        super().__init__()
        self.wishes: list[Wish] = []
        self.step = ""
        """What whoever has the turn is doing to the claim, in kube-scheduler's words."""

    def message(self, wish: Wish, error: Exception) -> str:
        """That the step failed."""
        problem = error.message if isinstance(error, ApiError) else error
        return f"{self.step} {wish.work.namespace}/{wish.work.name}: {problem}"


ClaimLines = WeakValueDictionary[str, ClaimLine]
"""By the claim's path. A line lives as long as somebody holds it."""
