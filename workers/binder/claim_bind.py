"""The resource claims of one pod: told to the API server before the pod is bound.

The owner has decided which devices a claim gets; here that is written into the claim's status, with
the pod among its users, after the finalizer that keeps an allocated claim from vanishing. Each write
carries the version that was read just before; if somebody else was faster, the claim is read again.
What is there already is not written again, so an order may come twice.

Rules: bindClaim in pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, v1.36.2.
Departures: claims for extended resources are not made, and device binding conditions not awaited.
"""

from typing import Any, Final, NamedTuple, Protocol

import msgspec

from shared.kube.api_errors import ApiError, Conflict, TransportError
from shared.kube.objects import AllocationResult
from shared.messages.to_binder import BindPod, ClaimWork

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
TRIES_MAX: Final = 5
"""Reads of one claim while others keep changing it."""

_encoder: Final = msgspec.json.Encoder()


class ClaimApi(Protocol):
    """What is needed of the API client."""

    async def get(self, path: str, *, timeout_s: float | None = None) -> bytes: ...

    async def put(self, path: str, body: bytes, *, timeout_s: float | None = None) -> bytes: ...


class ClaimsFailed(NamedTuple):
    """The pod cannot have its claims now."""

    message: str


class ClaimBinder:
    """Binds the claims of pods, any number at a time."""

    def __init__(self, api: ClaimApi) -> None:
        self._api = api

    async def bind(self, order: BindPod) -> ClaimsFailed | None:
        """None once all claims are allocated and reserved for the pod."""
        if any(work.is_generated for work in order.claims):
            # Before anything is written: no claim shall be taken for a pod that is refused anyway.
            return ClaimsFailed(
                "berth does not create the claims for extended resources that devices provide yet; "
                "name a ResourceClaim in the pod's spec.resourceClaims instead"
            )
        for work in order.claims:
            try:
                problem = await self._bind(order, work)
            except (ApiError, TransportError, msgspec.MsgspecError) as error:
                problem = str(error)
            if problem is not None:
                return ClaimsFailed(f"resource claim {work.namespace}/{work.name}: {problem}")
        return None

    async def _bind(self, order: BindPod, work: ClaimWork) -> str | None:
        path = resource_claim_path(work.namespace, work.name)
        for _ in range(TRIES_MAX):
            # Kept as it was read: a PUT must not lose fields that are not known here.
            claim: dict[str, Any] = msgspec.json.decode(await self._api.get(path), type=dict)
            problem = _problem(claim, work)
            if problem is not None:
                return problem
            try:
                await self._write(path, claim, order, work)
            except Conflict:
                continue
            return None
        return f"changed by others {TRIES_MAX} times while it was being written"

    async def _write(
        self, path: str, claim: dict[str, Any], order: BindPod, work: ClaimWork
    ) -> None:
        if work.is_new and FINALIZER not in (claim["metadata"].get("finalizers") or ()):
            finalizers = [*(claim["metadata"].get("finalizers") or ()), FINALIZER]
            claim["metadata"]["finalizers"] = finalizers
            answer = await self._api.put(path, _encoder.encode(claim))
            claim = msgspec.json.decode(answer, type=dict)
        status = claim.get("status") or {}
        users = status.get("reservedFor") or []
        is_reserved = any(user.get("uid") == order.uid for user in users)
        if is_reserved and status.get("allocation") is not None:
            return
        if not is_reserved:
            users = [*users, {"resource": "pods", "name": order.name, "uid": order.uid}]
        allocation = status.get("allocation") or work.allocation
        claim["status"] = {**status, "allocation": allocation, "reservedFor": users}
        await self._api.put(f"{path}/status", _encoder.encode(claim))


def _problem(claim: dict[str, Any], work: ClaimWork) -> str | None:
    """Why the claim cannot be bound as it was decided, if so."""
    meta = claim["metadata"]
    if work.uid and meta.get("uid") != work.uid:
        return "deleted and made again in the meantime"
    if meta.get("deletionTimestamp"):
        return "deleted in the meantime"
    raw = (claim.get("status") or {}).get("allocation")
    if raw is None:
        return None if work.is_new else "deallocated in the meantime"
    if _devices(msgspec.convert(raw, AllocationResult)) != _devices(work.allocation):
        return "allocated differently in the meantime"
    return None


def _devices(allocation: AllocationResult) -> list[tuple[str, str, str, str, str | None]]:
    """What tells allocations apart; the API server may fill in other fields."""
    return [
        (each.request, each.driver, each.pool, each.device, each.share_id)
        for each in allocation.devices.results or ()
    ]


def resource_claim_path(namespace: str, name: str) -> str:
    """Of a resource claim."""
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"
