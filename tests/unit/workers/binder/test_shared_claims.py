"""Pods that share a resource claim: written together, one writer at a time."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from shared.framework.binding_api import ALLOWED, Allowed, Refused
from shared.kube.api.resource_v1 import RESERVED_FOR_MAX
from shared.kube.api_errors import ApiError, RequestTimeout
from shared.kube.binding_work import ClaimWork
from shared.messages.to_binder import BindPod
from tests.support.binding_work import with_work
from tests.unit.workers.binder.fake_api import make_order
from tests.unit.workers.binder.test_claim_bind import ALLOCATED, WORK, FakeClaims, is_unknown
from tests.unit.workers.binder.virtual_time import LoopClock, run_virtual
from workers.binder.bind_call import NotBound
from workers.binder.claim_bind import ClaimBinder
from workers.binder.claim_free import ClaimLines

SHARED = msgspec.structs.replace(WORK, is_new=False)


class SlowClaims(FakeClaims):
    """Each request takes a second; notes how many there were, and at most at a time."""

    def __init__(self, user_count: int = 0) -> None:
        users = [
            {"resource": "pods", "name": f"old{i}", "uid": f"old{i}"} for i in range(user_count)
        ]
        super().__init__({"allocation": ALLOCATED, "reservedFor": users})
        self.at_once = self.at_once_max = 0

    async def _pass_through(self) -> None:
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        await asyncio.sleep(1)
        self.at_once -= 1

    async def get(self, path: str, *, timeout_s: float | None = None) -> bytes:
        if "/pods/" in path:
            return b'{"metadata": {"uid": "another"}}'
        await self._pass_through()
        return await super().get(path)

    async def put(self, path: str, body: bytes, *, timeout_s: float | None = None) -> bytes:
        await self._pass_through()
        if len(msgspec.json.decode(body)["status"].get("reservedFor", ())) > RESERVED_FOR_MAX:
            raise ApiError(422, "Invalid", "too many")
        return await super().put(path, body)

    def users(self) -> set[str]:
        return {user["uid"] for user in self.status.get("reservedFor", ())}


def order(number: int, work: ClaimWork = SHARED) -> BindPod:
    made = make_order(number, uid=f"u{number}")
    return with_work(made, [work])


class Binding:
    def __init__(self, api: SlowClaims) -> None:
        self.binder = ClaimBinder(api, lambda _: None, ClaimLines(), LoopClock())

    def start(self, orders: Sequence[BindPod]) -> list[asyncio.Task[Allowed | Refused | NotBound]]:
        return [asyncio.create_task(self.binder.pre_bind(each)) for each in orders]


def bind(api: SlowClaims, orders: Sequence[BindPod]) -> list[str]:
    async def run() -> list[str]:
        outcomes = await asyncio.gather(*Binding(api).start(orders))
        return ["" if isinstance(each, Allowed) else each.message for each in outcomes]

    return run_virtual(run())


def test_pods_that_share_a_claim_are_written_together() -> None:
    api = SlowClaims()
    assert bind(api, [order(i) for i in range(200)]) == [""] * 200
    assert api.users() == {f"u{i}" for i in range(200)}
    # The first by itself at most, as the others come while it reads.
    assert len(api.writes) <= 2
    assert api.at_once_max == 1


def test_who_comes_while_others_are_being_written_is_written_next() -> None:
    api = SlowClaims()

    async def run() -> None:
        binding = Binding(api)
        tasks = binding.start([order(i) for i in range(10)])
        await asyncio.sleep(1.5)
        tasks += binding.start([order(i) for i in range(10, 20)])
        assert await asyncio.gather(*tasks) == [ALLOWED] * 20

    run_virtual(run())
    assert api.writes == ["PUT status"] * 2
    assert len(api.users()) == 20


def test_one_that_cannot_be_written_costs_no_other() -> None:
    api = SlowClaims()
    replaced = msgspec.structs.replace(SHARED, uid="of before")
    told = bind(api, [order(0, replaced), order(1), order(2, replaced), order(3)])
    assert [bool(each) for each in told] == [True, False, True, False]
    assert api.users() == {"u1", "u3"}


def test_only_those_who_are_too_many_are_refused() -> None:
    api = SlowClaims(user_count=RESERVED_FOR_MAX - 3)
    told = bind(api, [order(i) for i in range(5)])
    assert [each for each in told if each] == ["add reservation to claim ns/gpu: too many"] * 2
    assert len(api.users()) == RESERVED_FOR_MAX


def test_who_gives_up_while_it_writes_for_others_leaves_that_to_the_next() -> None:
    api = SlowClaims()

    async def run() -> list[Any]:
        tasks = Binding(api).start([order(i) for i in range(5)])
        await asyncio.sleep(1.5)
        tasks[0].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, *others = run_virtual(run())
    assert isinstance(first, asyncio.CancelledError)
    assert others == [ALLOWED] * 4
    assert api.users() >= {f"u{i}" for i in range(1, 5)}


def test_claims_are_given_back_in_the_same_line() -> None:
    api = SlowClaims()

    async def run() -> None:
        binding = Binding(api)
        await asyncio.gather(*binding.start([order(i) for i in range(10)]))
        undone = [asyncio.create_task(binding.binder.undo(order(i))) for i in range(10)]
        await asyncio.gather(*undone, *binding.start([order(i) for i in range(10, 20)]))

    run_virtual(run())
    assert api.users() == {f"u{i}" for i in range(10, 20)}
    assert api.at_once_max == 1


def test_a_server_that_does_not_answer_costs_all_that_wait_together_no_more_than_one() -> None:
    class Dead(SlowClaims):
        async def get(self, path: str, *, timeout_s: float | None = None) -> bytes:
            raise RequestTimeout("no answer")

    async def run() -> tuple[list[Any], float]:
        begun_s = asyncio.get_running_loop().time()
        outcomes = await asyncio.gather(*Binding(Dead()).start([order(i) for i in range(50)]))
        return outcomes, asyncio.get_running_loop().time() - begun_s

    outcomes, took_s = run_virtual(run())
    assert all(map(is_unknown, outcomes))
    assert took_s < 100, "virtual seconds"
