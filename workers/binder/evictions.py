"""What PostFilter ordered: victims are marked and deleted, claims freed.

Deletions carry the victim's UID, which the API server checks, so that another pod of the same name is
never deleted, and one that is repeated (by another binder, after ours was lost) does no harm. Each is
answered to the owner once: accepted, needless because the pod is gone, or given up with the problem.

What is sent: `PreemptPod` in pkg/scheduler/framework/preemption/preemption.go and pkg/scheduler/util
(PatchPodStatus, DeletePod), v1.36.2, the latter without the UID.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from shared.clock import Clock
from shared.faults import fault_text
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import TRANSIENT, ApiError, Conflict, NotFound, TransportError
from shared.messages.from_binder import VictimDone
from shared.messages.to_binder import DeleteVictim, PreemptPods, ReleaseClaim
from shared.telemetry.log import EventLog
from workers.binder.api_bodies import (
    REQUEST_TIMEOUT_S,
    delete_options,
    disruption_patch,
    pod_path,
    seen_pod,
)
from workers.binder.claim_free import ClaimFreer
from workers.binder.fences import Fence, Fences
from workers.binder.retries import Patience, Retries

IN_FLIGHT_MAX: Final = 32
PATIENCE: Final = Patience(pause_s=0.25, pause_s_max=2.0, pauses_max=4)


class Evictor:
    """Carries out what the owner's preemptions need. `on_deleted` hears of each deletion."""

    def __init__(
        self,
        api: ApiClient,
        clock: Clock,
        on_deleted: Callable[[DeleteVictim], None],
        freer: ClaimFreer,
        fences: Fences,
    ) -> None:
        self._freer = freer
        self._fences = fences
        self._api = api
        self._clock = clock
        self._on_deleted = on_deleted
        self._log = EventLog("binder.evictions")
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)

    def begin(self, message: PreemptPods, answer: Callable[[VictimDone], None]) -> None:
        """Starts on all of it; `answer` is called once for each victim."""
        for order in message.victims:
            self._fences.start(self._evict(order, answer), Fence())
        for claim in message.releases:
            self._fences.start(self._release(claim), Fence())

    async def _evict(self, order: DeleteVictim, answer: Callable[[VictimDone], None]) -> None:
        try:
            async with self._slots:
                problem = await self._deleted(order)
        except Exception as error:  # noqa: BLE001 # Whoever waits for the room has to hear of it.
            problem = fault_text(error)
        if problem:
            pod = f"{order.namespace}/{order.name}"
            preemptor = f"{order.preemptor_namespace}/{order.preemptor_name}"
            whose = {"pod": pod, "preemptor": preemptor, "ticket": order.ticket}
            self._log.warning("victim_not_deleted", problem=problem, **whose)
        elif problem is not None:
            self._on_deleted(order)
        answer(VictimDone(order.order_id, problem or ""))

    async def _deleted(self, order: DeleteVictim) -> str | None:
        """As `_tried`."""
        path = pod_path(order.namespace, order.name)
        patch = disruption_patch(order, self._clock.wall_s())
        options = delete_options(order.uid)
        mark = partial(self._api.patch, path + "/status", patch, timeout_s=REQUEST_TIMEOUT_S)
        delete = partial(self._api.delete, path, options, timeout_s=REQUEST_TIMEOUT_S)
        problem = await self._tried(mark, path, order.uid)
        return await self._tried(delete, path, order.uid) if problem == "" else problem

    async def _release(self, claim: ReleaseClaim) -> None:
        async with self._slots:
            await self._freer.release(claim)

    async def _tried(
        self, call: Callable[[], Awaitable[object]], path: str, uid: str
    ) -> str | None:
        """Tries until it works or makes no sense any more. Returns the problem; empty: it is done. None:
        the pod was gone before, or is another one by now."""
        retries = Retries(PATIENCE, self._clock)
        while True:
            try:
                await call()
            except NotFound:
                # It may be gone by an earlier try, of which the answer was lost.
                return "" if retries.count else None
            except Conflict as error:
                # Where somebody was only in the way, whoever waits for the room has to hear of it.
                return str(error) if await self._is_there(path, uid) else None
            except TRANSIENT as error:
                if not await retries.pause(error):
                    return str(error)
            except ApiError as error:
                return str(error)
            else:
                return ""

    async def _is_there(self, path: str, uid: str) -> bool:
        """Whether this pod, and no other one of its name, is; yes, where nobody can tell."""
        try:
            await seen_pod(self._api, path, uid)
        except NotFound:
            return False
        except (ApiError, TransportError):
            pass
        return True
