"""Takes back what was written into resource claims for a pod that is not bound after all.

Two occasions: a binding that fails after its claims were written (`undo`, before the owner is told, so
that it never meets the next attempt), and a claim that the owner wants freed because only a pod that
fits nowhere, or its group, may use it (`release`). Best effort: what cannot be freed in time stays
reserved for its pod, whose next attempt finds it so. Claims of the pod's group are not taken back with
one of its pods: others may need them.

Rules: Unreserve, PostFilter and deleteClaim in pkg/scheduler/framework/plugins/dynamicresources/
{dynamicresources,extendeddynamicresources}.go, v1.36.2. One departure: an attempt that fails also
deallocates what it had allocated itself, in place of keeping the pod to that node until its next one.

Whoever writes to a claim does so in its line, one at a time. Pods that share a claim are bound at the
same moment, and each write carries the version that was read: side by side nearly all would come too
late, read again, and come too late again. Who is first in line writes for all that wait there
(`claim_bind.py`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from shared.framework.binding_api import Allowed, Refused
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import (
    ApiError,
    NotFound,
    ProtocolViolation,
    TransportError,
    read_answer,
)
from shared.kube.binding_work import ClaimWork, claim_work, consumer_of
from shared.kube.go_json import decoded
from shared.messages.to_binder import BindPod, ReleaseClaim
from shared.plugin_names import DYNAMIC_RESOURCES
from shared.telemetry.log import EventLog
from workers.binder.api_bodies import (
    REQUEST_TIMEOUT_S,
    delete_options,
    pod_patch,
    pod_path,
    resource_claim_path,
    seen_pod,
)
from workers.binder.bind_call import NotBound

NODE_ALLOCATABLE: Final = "nodeAllocatableResourceClaimStatuses"
"""Of a pod's status."""
FINALIZER: Final = "resource.kubernetes.io/delete-protection"

Json = dict[str, Any]

_claim_decoder: Final = msgspec.json.Decoder(ResourceClaim)
_fields_decoder: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_plain_decoder: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()
_encoder: Final = msgspec.json.Encoder()
_NULL: Final = msgspec.Raw(b"null")


async def answered_claim(ask: Callable[..., Awaitable[bytes]], path: str, *claims: Json) -> Json:
    """A claim as it came: a PUT must not lose fields that are not known here, nor change what is opaque,
    so all but its metadata and `status.reservedFor` is bytes. `ask`: the client's `get`, or its `post`
    or `put` of one that is made or changed, if it is still the one that was read. Raises what a request
    does, and `ProtocolViolation` where it is no claim."""
    answer = await ask(path, *map(_encoder.encode, claims), timeout_s=REQUEST_TIMEOUT_S)
    if not read_answer(_claim_decoder, answer).metadata.uid:
        raise ProtocolViolation("what came is no resource claim")
    claim = _opened(answer, "metadata")
    if "status" in claim:
        claim["status"] = _opened(claim["status"], "reservedFor")
    return claim


def _opened(text: bytes | msgspec.Raw, read: str) -> Json:
    """The fields of an object that has been decoded before; one of them is read."""
    fields: Json = decoded(_fields_decoder, text)
    if read in fields:
        fields[read] = decoded(_plain_decoder, fields[read])
    return {name: value for name, value in fields.items() if value not in (None, _NULL)}


class Wish(msgspec.Struct, eq=False):
    """What one order needs of one claim."""

    order: BindPod
    work: ClaimWork
    answer: Allowed | Refused | NotBound | None = None
    """None: it waits."""


class ClaimLine(asyncio.Lock):
    """Of one claim. To be entered by whoever writes, one at a time, in the order in which they came."""

    def __init__(self) -> None:
        super().__init__()
        self.wishes: list[Wish] = []
        self.step = ""
        """What whoever has the turn is doing to the claim, in kube-scheduler's words."""
        self.served_count = 0
        """Wishes that were fulfilled."""

    def message(self, wish: Wish, error: Exception) -> str:
        """That the step failed."""
        problem = error.message if isinstance(error, ApiError) else error
        return f"{self.step} {wish.work.namespace}/{wish.work.name}: {problem}"


ClaimLines = WeakValueDictionary[str, ClaimLine]

FREE_S_MAX: Final = 30.0
PAUSE_S: Final = 0.25


class ClaimFreer:
    """Frees claims, any number at a time."""

    def __init__(self, api: ApiClient, lines: ClaimLines) -> None:
        """`lines`: those of everybody in this process who writes to claims."""
        self._api = api
        self._lines = lines
        self._log = EventLog("binder.claims")

    async def undo(self, order: BindPod, unready: ClaimWork | None = None) -> tuple[str, ...]:
        """Nothing of the order's claims stays written for the pod, unless an earlier binder or somebody
        else has bound it: returns those that were allocated for it or its group and stay so. Ends in
        time in any case. `unready`: one of them that nobody gains from, whoever allocated it."""
        claims = claim_work(order.work[DYNAMIC_RESOURCES])
        is_unbound = await self._is_unbound(order)
        left = []
        for work in claims:
            is_unready = work == unready and not work.is_kept
            if is_unbound and (work.group is None or is_unready):
                what = (work.namespace, work.name, work.uid, order.uid)
                group_uid = "" if work.group is None else work.group.uid
                is_generated = work.generated is not None
                claim = ReleaseClaim(*what, is_generated=is_generated, group_uid=group_uid)
                await self._free(claim, is_deallocated=work.is_new or is_unready)
            elif work.is_new or work.group is not None:
                left.append(await self._left(order, work))
        if is_unbound and any(work.pod_statuses for work in claims):
            try:
                await self._patch_pod(order, {NODE_ALLOCATABLE: None})
            except (ApiError, TransportError) as error:
                whose = {"pod": order.pod, "ticket": order.ticket}
                self._log.warning("pod_status_not_cleared", problem=str(error), **whose)
        return tuple(filter(None, left))

    async def _patch_pod(self, order: BindPod, status: Json) -> None:
        """Writes parts of the pod's status."""
        path = pod_path(order.namespace, order.name) + "/status"
        await self._api.patch(path, pod_patch(order.uid, status), timeout_s=REQUEST_TIMEOUT_S)

    async def release(self, claim: ReleaseClaim) -> None:
        """Frees a claim unless others use it by now. Ends in time in any case."""
        await self._free(claim, is_deallocated=True, is_kept_if_shared=True)

    async def _is_unbound(self, order: BindPod) -> bool:
        """What nobody knows is left as it is."""
        path = pod_path(order.namespace, order.name)
        try:
            return not (await seen_pod(self._api, path, order.uid)).spec.node_name
        except NotFound:
            return True
        except (ApiError, TransportError) as error:
            whose = {"pod": order.pod, "ticket": order.ticket}
            self._log.warning("claims_not_freed", problem=str(error), **whose)
            return False

    async def _left(self, order: BindPod, work: ClaimWork) -> str:
        """The key of a claim that is allocated for the pod, or its group; empty where that cannot be
        seen."""
        path = resource_claim_path(work.namespace, work.name)
        try:
            claim = await answered_claim(self._api.get, path)
        except (ApiError, TransportError):
            return ""
        status = claim.get("status") or {}
        users = [user.get("uid") for user in status.get("reservedFor") or ()]
        consumer = consumer_of(work, order.name, order.uid)
        is_left = consumer.uid in users and status.get("allocation") is not None
        return f"{work.namespace}/{work.name}" if is_left else ""

    async def _free(
        self, claim: ReleaseClaim, *, is_deallocated: bool, is_kept_if_shared: bool = False
    ) -> None:
        """How far it may be freed once nobody but the pod uses it. `is_kept_if_shared`: where there are
        others, even the pod's own reservation is left alone."""
        path, problem = resource_claim_path(claim.namespace, claim.name), ""
        line = self._lines.setdefault(path, ClaimLine())
        served_count = line.served_count
        try:
            async with asyncio.timeout(FREE_S_MAX):
                while True:
                    try:
                        async with line:
                            if is_kept_if_shared and line.served_count > served_count:
                                return None  # Who is bound since counts on it.
                            return await self._free_once(
                                path, claim, is_deallocated, is_kept_if_shared
                            )
                    except NotFound:
                        return None
                    except (ApiError, TransportError) as error:
                        problem = str(error)
                    await asyncio.sleep(PAUSE_S)
        except TimeoutError:
            self._log.warning("claim_not_freed", claim=path, problem=problem)

    async def _free_once(
        self, path: str, told: ReleaseClaim, is_deallocated: bool, is_kept_if_shared: bool
    ) -> None:
        claim = await answered_claim(self._api.get, path)
        meta, status = claim["metadata"], claim.get("status") or {}
        if told.uid and meta.get("uid") != told.uid:
            return
        users = status.get("reservedFor") or []
        others = [user for user in users if user.get("uid") != told.user_uid]
        if others and (is_kept_if_shared or len(others) == len(users)):
            return
        of_allocation = ("allocation", "devices") if is_deallocated and not others else ()
        void = ("reservedFor", *of_allocation)
        freed = {k: v for k, v in status.items() if k not in void}
        if others:
            freed["reservedFor"] = others
        if freed != status:
            claim["status"] = freed
            claim = await answered_claim(self._api.put, f"{path}/status", claim)
        if not told.is_generated or others:
            return
        # Deallocated before: that is what wakes pods which wait for the devices.
        finalizers = claim["metadata"].get("finalizers") or []
        if FINALIZER in finalizers:
            claim["metadata"]["finalizers"] = [f for f in finalizers if f != FINALIZER]
            claim = await answered_claim(self._api.put, path, claim)
        options = delete_options(claim["metadata"]["uid"])
        await self._api.delete(path, options, timeout_s=REQUEST_TIMEOUT_S)
