"""Takes back what was written into resource claims for a pod that is not bound after all.

Two occasions: a binding that fails after its claims were written (`undo`, before the owner is told, so
that it never meets the next attempt), and a claim that the owner wants freed because only a pod that
fits nowhere may use it (`release`). Best effort: what cannot be freed in time stays reserved for its
pod, whose next attempt finds it so.

Rules: Unreserve, PostFilter and deleteClaim in pkg/scheduler/framework/plugins/dynamicresources/
{dynamicresources,extendeddynamicresources}.go, v1.36.2. One departure: an attempt that fails also
deallocates what it had allocated itself, in place of keeping the pod to that node until its next one.
"""

import asyncio
from typing import Final, NamedTuple

from shared.kube.api_client import ApiClient
from shared.kube.api_errors import ApiError, NotFound, TransportError
from shared.messages.to_binder import BindPod, ClaimWork, ReleaseClaim
from shared.telemetry.log import EventLog
from workers.binder.api_bodies import delete_options
from workers.binder.api_paths import pod_path, resource_claim_path
from workers.binder.claim_lines import (
    FINALIZER,
    REQUEST_TIMEOUT_S,
    ClaimLines,
    Json,
    get_claim,
    put_claim,
)
from workers.binder.seen_pod import Gone, seen_pod

FREE_S_MAX: Final = 30.0
PAUSE_S: Final = 0.25


class _Target(NamedTuple):
    """A claim, and how far it may be freed once nobody but the pod uses it."""

    path: str
    uid: str
    """Empty: of whatever uid."""
    pod_uid: str
    is_deallocated: bool
    is_deleted: bool
    is_kept_if_shared: bool = False
    """Leave even the pod's own reservation alone where there are others."""


class ClaimFreer:
    """Frees claims, any number at a time."""

    def __init__(self, api: ApiClient, lines: ClaimLines) -> None:
        """`lines`: those of everybody in this process who writes to claims."""
        self._api = api
        self._lines = lines
        self._log = EventLog("binder.claims")

    async def undo(self, order: BindPod, unready: ClaimWork | None = None) -> tuple[str, ...]:
        """Nothing of the order's claims stays written for the pod, unless an earlier binder or somebody
        else has bound it: returns those that were allocated for it and stay so. Ends in time in any
        case. `unready`: one of them that nobody gains from, whoever allocated it."""
        if not await self._is_unbound(order):
            new = (work for work in order.claims if work.is_new)
            return tuple([key for work in new if (key := await self._left(order, work))])
        for work in order.claims:
            path = resource_claim_path(work.namespace, work.name)
            is_generated = work.generated is not None
            is_freed = work.is_new or work is unready
            await self._free(_Target(path, work.uid, order.uid, is_freed, is_generated))
        return ()

    async def release(self, claim: ReleaseClaim) -> None:
        """Frees a claim unless others use it by now. Ends in time in any case."""
        path = resource_claim_path(claim.namespace, claim.name)
        await self._free(
            _Target(
                path, claim.uid, claim.pod_uid, True, claim.is_generated, is_kept_if_shared=True
            )
        )

    async def _is_unbound(self, order: BindPod) -> bool:
        """What nobody knows is left as it is."""
        path = pod_path(order.namespace, order.name)
        try:
            pod = await seen_pod(self._api, path, order.uid, REQUEST_TIMEOUT_S)
        except (ApiError, TransportError) as error:
            whose = {"pod": order.pod, "ticket": order.ticket}
            self._log.warning("claims_not_freed", problem=str(error), **whose)
            return False
        return isinstance(pod, Gone) or not pod.spec.node_name

    async def _left(self, order: BindPod, work: ClaimWork) -> str:
        """The key of a claim that is allocated for the pod; empty where that cannot be seen."""
        try:
            claim = await get_claim(self._api, resource_claim_path(work.namespace, work.name))
        except (ApiError, TransportError):
            return ""
        status = claim.get("status") or {}
        users = [user.get("uid") for user in status.get("reservedFor") or ()]
        is_left = order.uid in users and status.get("allocation") is not None
        return f"{work.namespace}/{work.name}" if is_left else ""

    async def _free(self, target: _Target) -> None:
        problem = ""
        try:
            async with asyncio.timeout(FREE_S_MAX):
                while True:
                    try:
                        async with self._lines.of(target.path):
                            return await self._free_once(target)
                    except NotFound:
                        return None
                    except (ApiError, TransportError) as error:
                        problem = str(error)
                    await asyncio.sleep(PAUSE_S)
        except TimeoutError:
            self._log.warning("claim_not_freed", claim=target.path, problem=problem)

    async def _free_once(self, target: _Target) -> None:
        claim = await get_claim(self._api, target.path)
        meta, status = claim["metadata"], claim.get("status") or {}
        if target.uid and meta.get("uid") != target.uid:
            return
        users = status.get("reservedFor") or []
        others = [user for user in users if user.get("uid") != target.pod_uid]
        if others and (target.is_kept_if_shared or len(others) == len(users)):
            return
        is_freed = target.is_deallocated and not others
        freed = {k: v for k, v in status.items() if k not in ("reservedFor", *_OF_ALLOCATION)}
        if not is_freed:
            freed |= {k: status[k] for k in _OF_ALLOCATION if k in status}
        if others:
            freed["reservedFor"] = others
        if freed != status:
            claim["status"] = freed
            claim = await put_claim(self._api, f"{target.path}/status", claim)
        if target.is_deleted and not others:
            # Deallocated before: that is what wakes pods which wait for the devices.
            await self._delete(target.path, claim)

    async def _delete(self, path: str, claim: Json) -> None:
        finalizers = claim["metadata"].get("finalizers") or []
        if FINALIZER in finalizers:
            claim["metadata"]["finalizers"] = [f for f in finalizers if f != FINALIZER]
            claim = await put_claim(self._api, path, claim)
        options = delete_options(claim["metadata"]["uid"])
        await self._api.delete(path, options, timeout_s=REQUEST_TIMEOUT_S)


_OF_ALLOCATION: Final = ("allocation", "devices")
"""What a claim's status says of its allocation."""
