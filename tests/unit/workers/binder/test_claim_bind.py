"""Resource claims before the binding: what is written, what is found there already, what goes wrong,
and what is taken back when the pod is not bound after all."""

import asyncio
import json
from typing import Any, ClassVar

import msgspec
import pytest

from shared.framework.binding_api import ALLOWED, Allowed, Refused
from shared.kube.api.core_v1_parts import (
    ContainerExtendedResourceRequest,
    NodeAllocatableResourceClaimStatus,
)
from shared.kube.api.resource_v1 import (
    AllocatedDevice,
    AllocationResult,
    DeviceAllocationResult,
    DeviceClaim,
    DeviceRequest,
    ResourceClaimConsumer,
    ResourceClaimSpec,
)
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    ConnectionLost,
    NotFound,
    TransportError,
)
from shared.kube.binding_work import ClaimWork, GeneratedClaim
from shared.kube.well_known import EXTENDED_RESOURCE_CLAIM
from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import BindPod, ReleaseClaim
from shared.telemetry.metrics import Tally
from tests.support.binding_work import with_work
from tests.unit.workers.binder.fake_api import make_order
from tests.unit.workers.binder.virtual_time import LoopClock, run_virtual
from workers.binder.api_bodies import resource_claim_path
from workers.binder.bind_call import NotBound
from workers.binder.claim_bind import TRIES_MAX, ClaimBinder
from workers.binder.claim_free import FINALIZER, ClaimFreer, ClaimLines

PATH = resource_claim_path("ns", "gpu")
POD_PATH = "/api/v1/namespaces/ns/pods/pod-u1"
USER = {"resource": "pods", "name": "pod-u1", "uid": "u1"}
OTHER = {"resource": "pods", "name": "other", "uid": "u2"}
STAMP = {"allocationTimestamp": "2026-11-21T01:37:16Z"}


def allocation(device: str = "gpu-0", **fields: Any) -> AllocationResult:
    given = AllocatedDevice(request="r", driver="d", pool="p", device=device, **fields)
    return AllocationResult(devices=DeviceAllocationResult(results=[given]))


WORK = ClaimWork("ns", "gpu", "uid-gpu", allocation(), is_new=True, ready_timeout_s=10.0)
ALLOCATED: dict[str, Any] = msgspec.to_builtins(allocation())
MAPPING = ContainerExtendedResourceRequest("c", "example.com/gpu", "container-0-request-0")
GENERATED = msgspec.structs.replace(
    WORK,
    uid="",
    generated=GeneratedClaim(
        ResourceClaimSpec(devices=DeviceClaim(requests=[DeviceRequest(name="r")])), [MAPPING]
    ),
)
GROUP = ResourceClaimConsumer("scheduling.k8s.io", "podgroups", "pg", "uid-pg")
OF_GROUP = msgspec.structs.replace(WORK, group=GROUP)
BY_GROUP = {
    "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "pg", "uid": "uid-pg",
}  # fmt: skip
PREPARED = allocation(binding_conditions=["Ready"], binding_failure_conditions=["Broken"])


class FakeClaims(ApiClient):
    """One claim (or none yet) with status as a subresource, and its pod. The first `rivals` writes
    come too late; `faults` answer the next requests, each either before or after it is carried out."""

    def __init__(
        self, status: dict[str, Any] | None = None, rivals: int = 0, *, is_there: bool = True
    ) -> None:
        meta = {"name": "gpu", "uid": "uid-gpu", "resourceVersion": "1"}
        self.claim: dict[str, Any] | None = {"metadata": meta, "spec": {"unknown": 1}}
        if status is not None:
            self.claim["status"] = status
        if not is_there:
            self.claim = None
        self.pod: dict[str, Any] = {"metadata": {"uid": "u1"}, "spec": {}, "status": {}}
        self.rivals = rivals
        self.writes: list[str] = []
        self.fault: ApiError | None = None
        self.faults: list[tuple[str, TransportError]] = []
        """(when, what): "before" or "after" the next write is carried out."""
        self.conditions: list[list[str]] = []
        """What the driver says by the next reads of the claim that is allocated."""

    @property
    def status(self) -> dict[str, Any]:
        assert self.claim is not None, "there is no claim"
        status: dict[str, Any] = self.claim.get("status", {})
        return status

    async def get(self, path: str, *, timeout_s: float | None = None) -> bytes:
        if self.fault is not None:
            raise self.fault
        if path == POD_PATH:
            return json.dumps(self.pod).encode()
        assert path == PATH, path
        if self.claim is None:
            raise NotFound(404, "NotFound", "no such claim")
        if self.conditions and self.status.get("allocation"):
            said = [
                {"type": kind, "status": "True", "reason": f"Is{kind}", "message": f'so "{kind}"\a'}
                for kind in self.conditions.pop(0)
            ]
            device = {"driver": "d", "pool": "p", "device": "gpu-0", "conditions": said}
            self.status["devices"] = [device]
        return json.dumps(self.claim).encode()

    async def post(self, path: str, body: bytes, *, timeout_s: float | None = None) -> bytes:
        assert path == PATH.removesuffix("/gpu")
        self._fail("before")
        if self.claim is not None:
            raise AlreadyExists(409, "AlreadyExists", "it is there")
        self.writes.append("POST")
        self.claim = json.loads(body)
        self.claim["metadata"] |= {"uid": "uid-gpu", "resourceVersion": "1"}
        self._fail("after")
        return json.dumps(self.claim).encode()

    async def put(self, path: str, body: bytes, *, timeout_s: float | None = None) -> bytes:
        self._fail("before")
        assert self.claim is not None, "a write to nothing"
        told, meta = json.loads(body), self.claim["metadata"]
        if self.rivals:
            self.rivals -= 1
            meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)
        if told["metadata"]["resourceVersion"] != meta["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        if path == f"{PATH}/status":
            self.writes.append("PUT status")
            self.claim["status"] = told["status"]
        else:
            self.writes.append("PUT")
            self.claim = {**told, "status": self.claim.get("status", {})}
        version = str(int(meta["resourceVersion"]) + 1)
        self.claim["metadata"]["resourceVersion"] = version
        self._fail("after")
        return json.dumps(self.claim).encode()

    async def patch(
        self, path: str, body: bytes, content_type: str = "", *, timeout_s: float | None = None
    ) -> bytes:
        assert path == f"{POD_PATH}/status"
        told = json.loads(body)
        assert told["metadata"]["uid"] == self.pod["metadata"]["uid"]
        self.writes.append("PATCH pod")
        self.pod["status"] |= told["status"]
        return b"{}"

    async def delete(
        self, path: str, body: bytes = b"", *, timeout_s: float | None = None
    ) -> bytes:
        assert self.claim is not None, "deleted twice"
        assert json.loads(body)["preconditions"]["uid"] == self.claim["metadata"]["uid"]
        assert not self.claim["metadata"].get("finalizers"), "it would stay for ever"
        self.writes.append("DELETE")
        self.claim = None
        return b"{}"

    def _fail(self, when: str) -> None:
        if self.faults and self.faults[0][0] == when:
            raise self.faults.pop(0)[1]


def order_of(work: ClaimWork) -> BindPod:
    order = with_work(make_order(), [work])
    assert (order.namespace, order.name, order.uid) == ("ns", "pod-u1", "u1")
    return order


def outcome(
    api: FakeClaims, work: ClaimWork = WORK, waiting: list[BindPod] | None = None
) -> Allowed | Refused | NotBound:
    """`waiting`: takes the orders that had to wait for devices."""
    told: list[BindPod] = [] if waiting is None else waiting

    async def pre_bind() -> Allowed | Refused | NotBound:
        binder = ClaimBinder(api, told.append, ClaimLines(), LoopClock())
        return await binder.pre_bind(order_of(work))

    return run_virtual(pre_bind())


def is_unknown(answer: Allowed | Refused | NotBound) -> bool:
    return isinstance(answer, NotBound) and answer.reason is BindFailureReason.UNREACHABLE


def problem(answer: Allowed | Refused | NotBound) -> str:
    """Empty where there is none."""
    return "" if isinstance(answer, Allowed) else answer.message


def bind(api: FakeClaims, work: ClaimWork = WORK) -> str:
    return problem(outcome(api, work))


def undo(api: FakeClaims, work: ClaimWork = WORK) -> tuple[str, ...]:
    async def run() -> tuple[str, ...]:
        return await ClaimFreer(api, ClaimLines()).undo(order_of(work))

    return run_virtual(run())


def release(api: FakeClaims, *, is_generated: bool = False) -> None:
    async def run() -> None:
        told = ReleaseClaim("ns", "gpu", "uid-gpu", "u1", is_generated)
        await ClaimFreer(api, ClaimLines()).release(told)

    run_virtual(run())


def test_a_claim_is_protected_allocated_and_reserved() -> None:
    api = FakeClaims()
    assert bind(api) == ""
    assert api.writes == ["PUT", "PUT status"]
    assert api.claim is not None
    assert api.claim["metadata"]["finalizers"] == [FINALIZER]
    assert api.status == {"allocation": ALLOCATED | STAMP, "reservedFor": [USER]}
    assert api.claim["spec"] == {"unknown": 1}


def test_an_allocation_has_a_time_only_where_somebody_waits_for_devices() -> None:
    """bindClaim: with DRADeviceBindingConditions and DRAResourceClaimDeviceStatus alone."""
    api = FakeClaims()
    assert bind(api, msgspec.structs.replace(WORK, ready_timeout_s=0.0)) == ""
    assert api.status["allocation"] == ALLOCATED


def test_an_order_that_comes_again_writes_nothing() -> None:
    api = FakeClaims()
    assert bind(api) == bind(api) == ""
    assert len(api.writes) == 2


def test_a_shared_claim_gets_one_more_user() -> None:
    api = FakeClaims({"allocation": ALLOCATED, "reservedFor": [OTHER]})
    assert bind(api, msgspec.structs.replace(WORK, is_new=False)) == ""
    # Without a timestamp it stays without: an allocation cannot be changed.
    assert api.status == {"allocation": ALLOCATED, "reservedFor": [OTHER, USER]}
    assert api.writes == ["PUT status"]


OPAQUE = b'{"a":%d,"b":1e5,"c":-0,"d":1.0,"a":2}' % 2**70


def test_what_is_opaque_is_written_as_it_was_read() -> None:
    """Else the API server takes the claim for changed, which none can be."""

    class Opaque(FakeClaims):
        sent: ClassVar[list[bytes]] = []

        async def get(self, path: str, *, timeout_s: float | None = None) -> bytes:
            answer = await super().get(path, timeout_s=timeout_s)
            return answer.replace(b'"OPAQUE"', OPAQUE)

        async def put(self, path: str, body: bytes, *, timeout_s: float | None = None) -> bytes:
            self.sent.append(body)
            answer = await super().put(path, body.replace(OPAQUE, b'"OPAQUE"'))
            return answer.replace(b'"OPAQUE"', OPAQUE)

    config = [{"opaque": {"driver": "d", "parameters": "OPAQUE"}}]
    data = [{"driver": "d", "pool": "p", "device": "gpu-0", "data": "OPAQUE"}]
    status = {"allocation": {"devices": {**ALLOCATED["devices"], "config": config}}}
    api = Opaque({**status, "devices": data, "reservedFor": [OTHER]})
    assert api.claim is not None
    api.claim["spec"] = {"devices": {"config": config}}
    assert bind(api, msgspec.structs.replace(WORK, is_new=False)) == ""
    assert api.status["reservedFor"] == [OTHER, USER]
    # And one that is allocated now, as the owner was told of it.
    del api.claim["status"]
    devices = msgspec.json.encode(status["allocation"]).replace(b'"OPAQUE"', OPAQUE)
    told = msgspec.json.decode(devices, type=AllocationResult)
    assert bind(api, msgspec.structs.replace(WORK, allocation=told)) == ""
    assert api.status["allocation"]["devices"]["config"] == config
    assert [body.count(OPAQUE) for body in api.sent] == [3, 1, 2]


def test_another_allocation_is_not_overwritten() -> None:
    api = FakeClaims({"allocation": msgspec.to_builtins(allocation("gpu-1"))})
    assert bind(api) == "claim ns/gpu got allocated elsewhere in the meantime"
    assert api.writes == []


def test_a_claim_that_is_not_what_it_was_is_refused() -> None:
    api = FakeClaims()
    assert api.claim is not None
    told = bind(api, msgspec.structs.replace(WORK, is_new=False))
    assert told == "claim ns/gpu got deallocated elsewhere in the meantime"
    assert "made again" in bind(api, msgspec.structs.replace(WORK, uid="before"))
    api.claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert bind(api) == "claim ns/gpu got deleted in the meantime"
    assert bind(FakeClaims(is_there=False)) == "get updated claim ns/gpu: no such claim"
    assert api.writes == []


def test_who_comes_too_late_reads_again_but_not_for_ever() -> None:
    assert bind(FakeClaims(rivals=2)) == ""
    told = bind(FakeClaims(rivals=TRIES_MAX))
    assert told == "add finalizer to claim ns/gpu: the object has been modified"
    shared = FakeClaims({"allocation": ALLOCATED, "reservedFor": [OTHER]}, rivals=TRIES_MAX)
    told = bind(shared, msgspec.structs.replace(WORK, is_new=False))
    assert told == "add reservation to claim ns/gpu: the object has been modified"


TAKEN = NodeAllocatableResourceClaimStatus("gpu", ["c"], {"cpu": "2"})
TAKING = msgspec.structs.replace(WORK, pod_statuses=[TAKEN])


def test_what_devices_take_of_the_node_is_told_with_the_pod_and_taken_back() -> None:
    api = FakeClaims()
    assert bind(api, TAKING) == ""
    assert api.writes == ["PUT", "PUT status", "PATCH pod"]
    told = {"resourceClaimName": "gpu", "containers": ["c"], "resources": {"cpu": "2"}}
    assert api.pod["status"] == {"nodeAllocatableResourceClaimStatuses": [told]}
    undo(api, TAKING)
    assert api.pod["status"] == {"nodeAllocatableResourceClaimStatuses": None}
    assert api.status == {}


# Extended resources -----------------------------------------------------------------------------------


def test_the_claim_for_extended_resources_is_made_and_named_in_the_pod() -> None:
    api = FakeClaims(is_there=False)
    assert bind(api, GENERATED) == bind(api, GENERATED) == ""
    assert api.writes == ["POST", "PUT status", "PATCH pod", "PATCH pod"]
    assert api.claim is not None
    meta = api.claim["metadata"]
    assert meta["annotations"] == {EXTENDED_RESOURCE_CLAIM: "true"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod-u1", "uid": "u1", "controller": True}
    assert meta["ownerReferences"] == [owner]
    assert meta["finalizers"] == [FINALIZER]
    assert api.status == {"allocation": ALLOCATED | STAMP, "reservedFor": [USER]}
    assert api.pod["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": "gpu",
        "requestMappings": [msgspec.to_builtins(MAPPING)],
    }


def test_a_claim_of_that_name_which_is_anothers_is_left_alone() -> None:
    api = FakeClaims()
    work = msgspec.structs.replace(GENERATED, allocation=allocation())
    assert "got created for another pod" in bind(api, work)
    assert api.writes == []


# The API server in trouble ----------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("work", [WORK, GENERATED], ids=["named", "generated"])
def test_a_write_whose_answer_is_lost_is_looked_up(when: str, work: ClaimWork) -> None:
    api = FakeClaims(is_there=work is WORK)
    api.faults = [(when, ConnectionLost("gone")), (when, ConnectionLost("gone"))]
    assert bind(api, work) == ""
    assert api.status["reservedFor"] == [USER]
    assert api.status["allocation"]["devices"] == ALLOCATED["devices"]
    assert sorted(set(api.writes)) == sorted(api.writes), "nothing was written twice"


def test_an_order_that_cannot_be_carried_out_for_long_is_to_be_given_again() -> None:
    api = FakeClaims()
    api.faults = [("before", ConnectionLost("gone"))] * 1000
    answer = outcome(api)
    assert is_unknown(answer), "a write may still be on its way: the devices must stay taken"


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        b"[]",
        b'{"spec": {}}',
        b'{"metadata": {"uid": "uid-gpu"}, "status": {"reservedFor": [1]}}',
        b"[" * 5_000,
    ],
)
def test_what_is_no_claim_says_nothing(body: bytes) -> None:
    class Garbled(FakeClaims):
        async def get(self, path: str, *, timeout_s: float | None = None) -> bytes:
            return body if path == PATH else await super().get(path, timeout_s=timeout_s)

    api = Garbled()
    assert is_unknown(outcome(api))
    release(api)
    undo(api)
    assert api.writes == []


# Devices that are to be prepared ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([[], [], ["Ready"]], ""),
        (
            [[], ["Broken"]],
            'device binding failed: claim=gpu, reason=IsBroken, message="so \\"Broken\\"\\a"',
        ),
        ([[]] * 100, "device binding timeout: claim=gpu"),
    ],
)
def test_a_pod_waits_until_its_devices_are_prepared(said: list[list[str]], expected: str) -> None:
    api, waiting = FakeClaims(), list[BindPod]()
    api.conditions = list(said)
    answer = outcome(api, msgspec.structs.replace(WORK, allocation=PREPARED), waiting)
    assert problem(answer) == expected
    assert [order.uid for order in waiting] == ["u1"], "it is said once that it waits"


@pytest.mark.parametrize(
    "work",
    [
        WORK,
        pytest.param(
            msgspec.structs.replace(WORK, allocation=PREPARED, ready_timeout_s=0.0),
            id="without DRADeviceBindingConditions",
        ),
    ],
)
def test_who_needs_nothing_prepared_does_not_wait(work: ClaimWork) -> None:
    waiting: list[BindPod] = []
    assert outcome(FakeClaims(), work, waiting) is ALLOWED
    assert waiting == []


def test_devices_that_another_pod_has_waited_for_in_vain_are_not_waited_for_again() -> None:
    stamped = msgspec.to_builtins(PREPARED) | {"allocationTimestamp": "2020-01-01T00:00:00Z"}
    api = FakeClaims({"allocation": stamped, "reservedFor": [OTHER]})
    api.conditions = [[]] * 100
    work = msgspec.structs.replace(WORK, allocation=PREPARED, is_new=False)
    assert bind(api, work) == "device binding timeout: claim=gpu"
    assert len(api.conditions) > 95, "it was not waited for"


def pre_bound(api: FakeClaims, work: ClaimWork) -> str:
    """What PreBind says, and then it is all undone."""

    async def run() -> str:
        binder, order = ClaimBinder(api, lambda _: None, ClaimLines(), LoopClock()), order_of(work)
        answer = await binder.pre_bind(order)
        await binder.undo(order)
        return problem(answer)

    return run_virtual(run())


@pytest.mark.parametrize("said", [[[]] * 100, [["Broken"]] * 3], ids=["late", "failed"])
@pytest.mark.parametrize(
    ("users", "left"),
    [
        pytest.param([USER], {}, id="nobody else"),
        pytest.param([], {}, id="not even the pod, since an earlier attempt"),
        pytest.param([OTHER, USER], {"reservedFor": [OTHER]}, id="somebody else"),
    ],
)
def test_devices_that_an_earlier_scheduler_gave_and_that_do_not_get_ready_are_given_back(
    said: list[list[str]], users: list[Any], left: Any
) -> None:
    """After a restart the claim is an old one: each attempt would wait for the same devices."""
    stamped = msgspec.to_builtins(PREPARED) | {"allocationTimestamp": "2020-01-01T00:00:00Z"}
    api = FakeClaims({"allocation": stamped, "reservedFor": users})
    api.conditions = list(said)
    work = msgspec.structs.replace(WORK, allocation=PREPARED, is_new=False)
    assert pre_bound(api, work).startswith("device binding ")
    found = {key: value for key, value in api.status.items() if key != "devices"}
    assert found == (left and {"allocation": stamped, **left})
    assert left or "devices" not in api.status


def test_a_claim_that_is_deallocated_meanwhile_is_not_ready() -> None:
    work = msgspec.structs.replace(WORK, allocation=PREPARED)

    class Deallocates(FakeClaims):
        async def get(self, path: str, *, timeout_s: float | None = None) -> bytes:
            if self.status.get("allocation"):
                self.status["allocation"] = None
            return await super().get(path, timeout_s=timeout_s)

    assert bind(Deallocates(), work) == "device binding timeout: context deadline exceeded"


@pytest.mark.parametrize(
    ("said", "word", "waited_s"),
    [
        ([[], ["Ready"]], "success", 5.0),
        ([["Broken"]], "failure", 0.0),
        ([[]] * 9, "timeout", 10.0),
    ],
)
def test_what_devices_were_waited_for_is_counted_as_kube_scheduler_counts_it(
    said: list[list[str]], word: str, waited_s: float
) -> None:
    """Every device of the claims in the time, those with conditions alone in the count."""
    api, tally = FakeClaims(), Tally()
    api.conditions = list(said)
    results = [*(PREPARED.devices.results or ()), *(allocation("x").devices.results or ())]
    both = AllocationResult(devices=DeviceAllocationResult(results=results))

    async def run() -> None:
        binder = ClaimBinder(api, lambda _: None, ClaimLines(), LoopClock(), tally=tally)
        await binder.pre_bind(order_of(msgspec.structs.replace(WORK, allocation=both)))

    run_virtual(run())
    labels = (order_of(WORK).profile, "d", word)
    assert tally.counts == {("device_waits", labels): 1}
    told = tally.histograms["device_wait_s", labels]
    assert (sum(told.counts), told.sum) == (2, 2 * waited_s)


def test_claims_that_are_made_are_counted() -> None:
    tally = Tally()
    api = FakeClaims(is_there=False)
    api.faults = [("before", ConnectionLost("gone"))]

    async def run() -> None:
        binder = ClaimBinder(api, lambda _: None, ClaimLines(), LoopClock(), tally=tally)
        await binder.pre_bind(order_of(GENERATED))

    run_virtual(run())
    assert tally.counts == {
        ("claim_creates", ("failure",)): 1,
        ("claim_creates", ("success",)): 1,
    }


# Taking back ------------------------------------------------------------------------------------------


def test_what_the_attempt_allocated_is_free_again() -> None:
    api = FakeClaims()
    bind(api)
    undo(api)
    assert api.status == {}
    writes = list(api.writes)
    undo(api)
    assert api.writes == writes, "what is free already is not written"


def test_what_others_use_is_only_left() -> None:
    api = FakeClaims({"allocation": ALLOCATED, "reservedFor": [OTHER, USER]})
    undo(api)
    assert api.status == {"allocation": ALLOCATED, "reservedFor": [OTHER]}
    undo(api)
    assert api.status == {"allocation": ALLOCATED, "reservedFor": [OTHER]}


def test_what_was_allocated_before_stays_allocated() -> None:
    api = FakeClaims({"allocation": ALLOCATED, "reservedFor": [USER], "devices": []})
    undo(api, msgspec.structs.replace(WORK, is_new=False))
    assert api.status == {"allocation": ALLOCATED, "devices": []}


def test_the_claim_for_extended_resources_goes_with_the_attempt() -> None:
    api = FakeClaims(is_there=False)
    bind(api, GENERATED)
    written = len(api.writes)
    undo(api, GENERATED)
    assert api.claim is None
    assert api.writes[written:] == ["PUT status", "PUT", "DELETE"]


def test_a_pod_that_somebody_has_bound_keeps_its_claims() -> None:
    api = FakeClaims()
    bind(api)
    api.pod["spec"]["nodeName"] = "n1"
    assert undo(api) == ("ns/gpu",), "its devices are not free"
    assert api.status["reservedFor"] == [USER]
    assert undo(api, msgspec.structs.replace(WORK, is_new=False)) == (), "as the owner knew"


def test_a_pod_that_somebody_has_bound_before_its_claims_were_written_leaves_none() -> None:
    api = FakeClaims()
    api.pod["spec"]["nodeName"] = "n1"
    assert undo(api) == ()


def test_a_claim_is_released_unless_others_use_it_by_now() -> None:
    api = FakeClaims({"allocation": ALLOCATED, "reservedFor": [USER]}, rivals=1)
    release(api)
    assert api.status == {}
    used = {"allocation": ALLOCATED, "reservedFor": [USER, OTHER]}
    api = FakeClaims(used)
    release(api)
    assert api.status == used
    api = FakeClaims({"allocation": ALLOCATED})
    release(api, is_generated=True)
    assert api.claim is None


# Claims of the pod's group ----------------------------------------------------------------------------


def test_a_claim_of_the_group_is_reserved_for_it_once() -> None:
    api = FakeClaims()
    assert bind(api, OF_GROUP) == ""
    assert api.status == {"allocation": ALLOCATED | STAMP, "reservedFor": [BY_GROUP]}
    written = list(api.writes)
    assert bind(api, msgspec.structs.replace(OF_GROUP, is_new=False)) == ""
    assert api.writes == written, "there is nothing to add for another of its pods"


def test_a_claim_of_the_group_stays_when_a_pod_is_not_bound_after_all() -> None:
    api = FakeClaims()
    assert undo(api, OF_GROUP) == (), "it was not written"
    bind(api, OF_GROUP)
    written = list(api.writes)
    for is_new in (True, False):
        assert undo(api, msgspec.structs.replace(OF_GROUP, is_new=is_new)) == ("ns/gpu",)
    assert api.writes == written


@pytest.mark.parametrize("is_kept", [False, True])
def test_devices_of_the_group_that_do_not_get_ready_are_given_back_unless_others_run_with_them(
    is_kept: bool,
) -> None:
    api = FakeClaims()
    api.conditions = [[]] * 100
    work = msgspec.structs.replace(OF_GROUP, allocation=PREPARED, is_kept=is_kept)
    assert pre_bound(api, work) == "device binding timeout: claim=gpu"
    assert api.status.get("reservedFor", []) == [BY_GROUP] * is_kept
    assert bool(api.status.get("allocation")) is is_kept


def test_a_claim_is_released_that_only_the_group_uses() -> None:
    told = ReleaseClaim("ns", "gpu", "uid-gpu", "u1", is_generated=False, group_uid="uid-pg")
    api = FakeClaims({"allocation": ALLOCATED, "reservedFor": [BY_GROUP]})
    run_virtual(ClaimFreer(api, ClaimLines()).release(told))
    assert api.status == {}


def test_a_claim_is_not_released_when_a_pod_was_bound_with_it_since() -> None:
    """The API server answers at last: first the pod's order, then what was ordered before it."""
    api = FakeClaims({"allocation": ALLOCATED, "reservedFor": [BY_GROUP]})
    told = ReleaseClaim("ns", "gpu", "uid-gpu", "u1", is_generated=False, group_uid="uid-pg")
    work = msgspec.structs.replace(OF_GROUP, is_new=False)

    async def run() -> None:
        lines = ClaimLines()
        binder = ClaimBinder(api, lambda _: None, lines, LoopClock())
        api.fault = ApiError(500, "InternalError", "not now")
        releasing = asyncio.create_task(binder.release(told))
        await asyncio.sleep(0.1)
        api.fault = None
        assert await binder.pre_bind(order_of(work)) is ALLOWED
        await releasing

    run_virtual(run())
    assert api.status["reservedFor"] == [BY_GROUP]
