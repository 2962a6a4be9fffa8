"""The resource claims of one pod: told to the API server before the pod is bound.

The owner has decided which devices a claim gets; here that is written into the claim's status, with
the pod, or its group, among its users, after the finalizer that keeps an allocated claim from
vanishing. The claim for extended resources is made first, under the name that the owner gave it. Then
devices that a driver has to prepare are waited for (`claim_ready.py`). Pods that share a claim are
written into it together.

Each write carries the version that was read just before. Whatever leaves its outcome open (a lost
connection, somebody who was faster) ends in reading the claim again, and what is there already is not
written again: an order may come twice, and a write whose answer was lost is looked up. When the API
server cannot be reached for too long the outcome is unknown, and the order has to be given again: the
devices may be taken.

Rules: PreBind and bindClaim in pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go
and extendeddynamicresources.go, v1.36.2.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

import msgspec

from shared.clock import Clock
from shared.framework.binding_api import ALLOWED, Allowed, Refused
from shared.kube.api.resource_v1 import RESERVED_FOR_MAX, AllocationResult, json_of_allocation
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import (
    TRANSIENT,
    AlreadyExists,
    ApiError,
    Conflict,
    Invalid,
    NotFound,
    TransportError,
    read_answer,
)
from shared.kube.binding_work import (
    ClaimWork,
    GeneratedClaim,
    claim_work,
    consumer_of,
    needs_preparing,
)
from shared.kube.timestamps import second_time
from shared.kube.well_known import EXTENDED_RESOURCE_CLAIM, IS_ONE
from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import BindPod
from shared.plugin_names import DYNAMIC_RESOURCES
from shared.telemetry.metrics import Tally
from workers.binder.api_bodies import resource_claim_path
from workers.binder.bind_call import NotBound
from workers.binder.claim_free import (
    FINALIZER,
    NODE_ALLOCATABLE,
    ClaimFreer,
    ClaimLine,
    ClaimLines,
    Json,
    Wish,
    answered_claim,
)
from workers.binder.retries import Patience, Retries

TRIES_MAX: Final = 5
"""Reads of one claim while others keep changing it."""
PATIENCE: Final = Patience(pause_s=0.1, pause_s_max=2.0, total_s=60.0)
"""With all claims of a pod together."""

_allocation_decoder: Final = msgspec.json.Decoder(AllocationResult)


class ClaimBinder(ClaimFreer):
    """DynamicResources' PreBind: binds the claims of pods, any number at a time."""

    NAME: ClassVar[str] = DYNAMIC_RESOURCES
    ALLOWS_PARALLEL: ClassVar[bool] = True
    pre_bind_timeout_s: ClassVar[float | None] = None

    def __init__(
        self,
        api: ApiClient,
        on_waiting: Callable[[BindPod], None],
        lines: ClaimLines,
        clock: Clock,
        tally: Tally | None = None,
    ) -> None:
        """`on_waiting` is told of each pod that waits for its devices, once an order."""
        super().__init__(api, lines)
        self._on_waiting = on_waiting
        self._clock = clock
        self._tally = tally or Tally()

    def pre_flight(self, order: BindPod) -> bool:
        return self.NAME in order.work

    async def pre_bind(self, order: BindPod) -> Allowed | Refused | NotBound:
        """Allowed once all claims are allocated, reserved for the pod, and their devices ready."""
        retries = Retries(PATIENCE, self._clock)
        claims = claim_work(order.work[self.NAME])
        for work in claims:
            answer = await self._tried(order, work, retries)
            if not isinstance(answer, Allowed):
                return answer
        if not any(map(needs_preparing, claims)):
            return ALLOWED
        from workers.binder.claim_ready import devices_waited_for

        self._on_waiting(order)
        end = await devices_waited_for(self._api, self._clock, self._tally, claims, order.profile)
        if end.unready is not None:
            # Else each attempt would wait for the devices that an earlier one was given, in vain.
            await self.undo(order, end.unready)
        return Refused(end.message) if end.message else ALLOWED

    async def _tried(
        self, order: BindPod, work: ClaimWork, retries: Retries
    ) -> Allowed | Refused | NotBound:
        path = resource_claim_path(work.namespace, work.name)
        line = self._lines.setdefault(path, ClaimLine())
        wish = Wish(order, work)
        line.wishes.append(wish)
        try:
            async with line:
                if wish.answer is None:
                    await self._serve(line, wish, retries)
        finally:
            line.wishes.remove(wish)
        assert wish.answer is not None, "it had its turn"
        return wish.answer

    async def _serve(self, line: ClaimLine, first: Wish, retries: Retries) -> None:
        """Writes for `first`, and for all that wait behind it, while it has its turn."""
        conflicts = 0
        is_alone = False
        while first.answer is None:
            batch = [first] if is_alone else [each for each in line.wishes if each.answer is None]
            try:
                done = await self._bind(line, batch)
            except (Conflict, AlreadyExists) as error:
                conflicts += 1
                if conflicts < TRIES_MAX:
                    continue
                answer: Refused | NotBound = Refused(line.message(first, error))
            except TRANSIENT as error:
                if await retries.pause(error):
                    continue
                answer = NotBound(BindFailureReason.UNREACHABLE, line.message(first, error))
            except ApiError as error:
                if len(batch) > 1:
                    is_alone = True  # Whose fault it is shows one by one.
                    continue
                answer = Refused(line.message(first, error))
            else:
                for wish in done:
                    wish.answer = ALLOWED
                line.served_count += len(done)
                continue
            for wish in batch:
                wish.answer = answer

    async def _bind(self, line: ClaimLine, batch: Sequence[Wish]) -> list[Wish]:
        """One round of reading and writing; the wishes that are fulfilled. Those that cannot be are
        ended."""
        first = batch[0]
        claim = await self._read(line, first.order, first.work)
        agreed, status = self._agreed(claim, batch)
        if not agreed:
            return []
        path = resource_claim_path(first.work.namespace, first.work.name)
        finalizers = claim["metadata"].get("finalizers") or []
        if FINALIZER not in finalizers and any(wish.work.is_new for wish in agreed):
            claim["metadata"]["finalizers"] = [*finalizers, FINALIZER]
            line.step = "add finalizer to claim"
            try:
                claim = await answered_claim(self._api.put, path, claim)
            except Invalid:
                from workers.binder.claim_protobuf import add_finalizer

                await add_finalizer(self._api, path, FINALIZER)
                # What was agreed on may be of an older one: all is looked at again.
                raise Conflict(409, "Conflict", "it was changed in protobuf") from None
        if status != claim.get("status"):
            is_new = (claim.get("status") or {}).get("allocation") is None
            what = "allocation and reservation" if is_new else "reservation"
            claim["status"] = status
            line.step = f"add {what} to claim"
            await answered_claim(self._api.put, f"{path}/status", claim)
        for order, work in ((wish.order, wish.work) for wish in agreed):
            if work.generated is not None:
                # After the allocation: kubelet must not find a claim that is none yet.
                line.step = "update the pod's ExtendedResourceClaimStatus with claim"
                # Where each container finds its devices.
                found = {"resourceClaimName": work.name, "requestMappings": work.generated.mappings}
                await self._patch_pod(order, {"extendedResourceClaimStatus": found})
            if work.pod_statuses:
                line.step = "update the pod's NodeAllocatableResourceClaimStatuses with claim"
                await self._patch_pod(order, {NODE_ALLOCATABLE: work.pod_statuses})
        return agreed

    def _agreed(self, claim: Json, batch: Sequence[Wish]) -> tuple[list[Wish], Json]:
        status: Json = dict(claim.get("status") or {})
        users = list(status.get("reservedFor") or [])
        reserved = {user.get("uid") for user in users}
        agreed: list[Wish] = []
        # Who allocates the claim comes first: others rely on it.
        for wish in sorted(batch, key=lambda each: not each.work.is_new):
            order, work = wish.order, wish.work
            fate = _fate({**claim, "status": status}, order, work)
            if fate:
                where = f"claim {work.namespace}/{work.name}"
                wish.answer = Refused(f"{where} {fate} in the meantime")
                continue
            consumer = consumer_of(work, order.name, order.uid)
            if consumer.uid not in reserved:
                # The API server's refusal is to meet those alone who are too many.
                if agreed and len(users) >= RESERVED_FOR_MAX:
                    continue
                users.append(msgspec.to_builtins(consumer))
                reserved.add(consumer.uid)
            if status.get("allocation") is None:
                allocation = work.allocation
                if work.ready_timeout_s > 0:
                    # With the time, by which others tell whether devices take too long.
                    now = second_time(self._clock.wall_s())
                    allocation = msgspec.structs.replace(allocation, allocation_timestamp=now)
                status["allocation"] = json_of_allocation(allocation)
            agreed.append(wish)
        return agreed, {**status, "reservedFor": users}

    async def _read(self, line: ClaimLine, order: BindPod, work: ClaimWork) -> Json:
        """The claim as it is; one that is to be made is made if it is not there."""
        line.step = "get updated claim"
        path = resource_claim_path(work.namespace, work.name)
        try:
            return await answered_claim(self._api.get, path)
        except NotFound:
            if work.generated is None:
                raise
        line.step = "create claim for extended resources"
        made = _made(order, work, work.generated)
        try:
            claim = await answered_claim(self._api.post, path.removesuffix(f"/{work.name}"), made)
        except (ApiError, TransportError):
            self._tally.count("claim_creates", ("failure",))
            raise
        self._tally.count("claim_creates", ("success",))
        return claim


def _made(order: BindPod, work: ClaimWork, generated: GeneratedClaim) -> Json:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": order.name,
        "uid": order.uid,
        "controller": True,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": work.name,
            "namespace": work.namespace,
            "annotations": {EXTENDED_RESOURCE_CLAIM: IS_ONE},
            "finalizers": [FINALIZER],
            "ownerReferences": [owner],
        },
        "spec": generated.spec,
    }


def _fate(claim: Json, order: BindPod, work: ClaimWork) -> str:
    """What became of a claim that cannot be bound as it was decided; empty: it can."""
    meta = claim["metadata"]
    owners = {owner.get("uid") for owner in meta.get("ownerReferences") or ()}
    if work.uid and meta.get("uid") != work.uid:
        return "got deleted and made again"
    if work.generated is not None and order.uid not in owners:
        return "got created for another pod"
    if meta.get("deletionTimestamp"):
        return "got deleted"
    raw = (claim.get("status") or {}).get("allocation")
    if raw is None:
        return "" if work.is_new else "got deallocated elsewhere"
    is_same = _devices(read_answer(_allocation_decoder, raw)) == _devices(work.allocation)
    return "" if is_same else "got allocated elsewhere"


def _devices(allocation: AllocationResult) -> list[tuple[str, str, str, str, str | None]]:
    """What tells allocations apart; the API server may fill in other fields."""
    return [
        (each.request, each.driver, each.pool, each.device, each.share_id)
        for each in allocation.devices.results or ()
    ]
