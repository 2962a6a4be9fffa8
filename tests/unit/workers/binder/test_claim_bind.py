"""Resource claims before the binding: what is written, what is found there already, what goes wrong."""

import json
from typing import Any

import msgspec

from shared.kube.api_errors import ApiError, Conflict, NotFound
from shared.kube.objects import AllocatedDevice, AllocationResult, DeviceAllocationResult
from shared.messages.to_binder import ClaimWork
from tests.unit.workers.binder.fake_api import make_order
from tests.unit.workers.binder.virtual_time import run_virtual
from workers.binder.claim_bind import FINALIZER, TRIES_MAX, ClaimBinder, resource_claim_path

PATH = resource_claim_path("ns", "gpu")
USER = {"resource": "pods", "name": "pod-u1", "uid": "u1"}
OTHER = {"resource": "pods", "name": "other", "uid": "u2"}


def allocation(device: str = "gpu-0") -> AllocationResult:
    given = AllocatedDevice(request="r", driver="d", pool="p", device=device)
    return AllocationResult(devices=DeviceAllocationResult(results=[given]))


WORK = ClaimWork("ns", "gpu", "uid-gpu", allocation(), is_new=True, is_generated=False)
ALLOCATED = msgspec.to_builtins(allocation())


class FakeClaims:
    """One claim, with status as a subresource; the first `rivals` writes come too late."""

    def __init__(self, status: dict[str, Any] | None = None, rivals: int = 0) -> None:
        meta = {"name": "gpu", "uid": "uid-gpu", "resourceVersion": "1"}
        self.claim: dict[str, Any] = {"metadata": meta, "spec": {"unknown": 1}}
        if status is not None:
            self.claim["status"] = status
        self.rivals = rivals
        self.puts: list[str] = []
        self.fault: ApiError | None = None

    async def get(self, path: str, *, timeout_s: float | None = None) -> bytes:
        if self.fault is not None:
            raise self.fault
        assert path == PATH
        return json.dumps(self.claim).encode()

    async def put(self, path: str, body: bytes, *, timeout_s: float | None = None) -> bytes:
        told, meta = json.loads(body), self.claim["metadata"]
        if self.rivals:
            self.rivals -= 1
            meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)
        if told["metadata"]["resourceVersion"] != meta["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        self.puts.append(path)
        if path == f"{PATH}/status":
            self.claim["status"] = told["status"]
        else:
            self.claim = {**told, "status": self.claim.get("status", {})}
        version = str(int(meta["resourceVersion"]) + 1)
        self.claim["metadata"]["resourceVersion"] = version
        return json.dumps(self.claim).encode()


def bind(api: FakeClaims, work: ClaimWork = WORK) -> str:
    order = msgspec.structs.replace(make_order(), claims=[work])
    failed = run_virtual(ClaimBinder(api).bind(order))
    return "" if failed is None else failed.message


def test_a_claim_is_protected_allocated_and_reserved() -> None:
    api = FakeClaims()
    assert bind(api) == ""
    assert api.puts == [PATH, f"{PATH}/status"]
    assert api.claim["metadata"]["finalizers"] == [FINALIZER]
    assert api.claim["status"] == {"allocation": ALLOCATED, "reservedFor": [USER]}
    assert api.claim["spec"] == {"unknown": 1}


def test_an_order_that_comes_again_writes_nothing() -> None:
    api = FakeClaims()
    assert bind(api) == bind(api) == ""
    assert len(api.puts) == 2


def test_a_shared_claim_gets_one_more_user() -> None:
    api = FakeClaims({"allocation": ALLOCATED, "reservedFor": [OTHER]})
    assert bind(api, msgspec.structs.replace(WORK, is_new=False)) == ""
    assert api.claim["status"]["reservedFor"] == [OTHER, USER]
    assert api.puts == [f"{PATH}/status"]


def test_another_allocation_is_not_overwritten() -> None:
    api = FakeClaims({"allocation": msgspec.to_builtins(allocation("gpu-1"))})
    assert bind(api) == "resource claim ns/gpu: allocated differently in the meantime"
    assert api.puts == []


def test_a_claim_that_is_not_what_it_was_is_refused() -> None:
    api = FakeClaims()
    assert "deallocated" in bind(api, msgspec.structs.replace(WORK, is_new=False))
    assert "made again" in bind(api, msgspec.structs.replace(WORK, uid="before"))
    api.claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert "deleted" in bind(api)
    api.fault = NotFound(404, "NotFound", "no such claim")
    assert "no such claim" in bind(api)
    assert api.puts == []


def test_who_comes_too_late_reads_again_but_not_for_ever() -> None:
    assert bind(FakeClaims(rivals=2)) == ""
    assert "changed by others" in bind(FakeClaims(rivals=TRIES_MAX))


def test_claims_for_extended_resources_are_refused_before_anything_is_written() -> None:
    api = FakeClaims()
    assert "does not create" in bind(api, msgspec.structs.replace(WORK, is_generated=True))
    assert api.puts == []
