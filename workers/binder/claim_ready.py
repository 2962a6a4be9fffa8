"""The devices of a pod that a driver has to prepare before the pod is bound: waited for.

A driver says by conditions in a claim's status that a device is ready, or that it gave up. The claims
are looked at again and again; what comes of it is counted under kube-scheduler's names.

Rules: PreBind, isPodReadyForBinding and isClaimTimeout in
pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, v1.36.2.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from shared.clock import Clock
from shared.dra.pod_claims import preparation
from shared.kube.api.meta_v1 import ApiStruct
from shared.kube.api.resource_v1 import ResourceClaimStatus
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import TRANSIENT, ApiError, read_answer
from shared.kube.binding_work import ClaimWork, needs_preparing
from shared.kube.timestamps import seconds_since_1970
from shared.shown import quoted
from shared.telemetry.metrics import Tally
from workers.binder.api_bodies import REQUEST_TIMEOUT_S, resource_claim_path

POLL_S: Final = 5.0


class _Seen(ApiStruct):
    status: ResourceClaimStatus = msgspec.field(default_factory=ResourceClaimStatus)


_seen_decoder: Final = msgspec.json.Decoder(_Seen)


class WaitEnd(NamedTuple):
    """How the waiting ended; `word` is a value of the label `status`."""

    word: str
    message: str = ""
    """Empty: the devices of all claims are prepared."""
    unready: ClaimWork | None = None
    """The claim whose devices will not be prepared any more."""


async def devices_waited_for(
    api: ApiClient, clock: Clock, tally: Tally, claims: Sequence[ClaimWork], profile: str
) -> WaitEnd:
    """`claims`: all of the pod that were written, some with devices that need preparing."""
    begun_s = clock.monotonic_s()
    end = await _end(api, clock, [work for work in claims if needs_preparing(work)])
    waited_s = clock.monotonic_s() - begun_s
    for work in claims:
        for device in work.allocation.devices.results or ():
            labels = (profile, device.driver, end.word)
            tally.observe("device_wait_s", labels, waited_s)
            if device.binding_conditions:
                tally.count("device_waits", labels)
    return end


async def _end(api: ApiClient, clock: Clock, waiting: Sequence[ClaimWork]) -> WaitEnd:
    deadline_s = clock.monotonic_s() + max(work.ready_timeout_s for work in waiting)
    while True:
        try:
            unready = await _first_unready(api, waiting)
        except TRANSIENT:
            unready = waiting[0], ResourceClaimStatus()  # Time will tell, or run out.
        except ApiError as error:
            return WaitEnd("error", str(error))
        if unready is None:
            return WaitEnd("success")
        work, seen = unready
        failed = preparation(seen).failed
        if failed is not None:
            note = f"claim={work.name}, reason={failed.reason}, message={quoted(failed.message)}"
            return WaitEnd("failure", f"device binding failed: {note}", work)
        # Allocated so long ago, perhaps for another pod, that the devices should be ready.
        stamp = seen.allocation.allocation_timestamp if seen.allocation else None
        if stamp and seconds_since_1970(stamp) + work.ready_timeout_s < clock.wall_s():
            return WaitEnd("timeout", f"device binding timeout: claim={work.name}", work)
        left_s = deadline_s - clock.monotonic_s()
        if left_s <= 0:
            told = "device binding timeout: context deadline exceeded"
            return WaitEnd("timeout", told, work)
        await asyncio.sleep(min(POLL_S, left_s))


async def _first_unready(
    api: ApiClient, waiting: Sequence[ClaimWork]
) -> tuple[ClaimWork, ResourceClaimStatus] | None:
    for work in waiting:
        path = resource_claim_path(work.namespace, work.name)
        answer = await api.get(path, timeout_s=REQUEST_TIMEOUT_S)
        seen = read_answer(_seen_decoder, answer).status
        if seen.allocation is None or not preparation(seen).is_done:
            return work, seen
    return None
