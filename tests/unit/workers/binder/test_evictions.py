"""Victims are marked, then deleted by uid."""

import asyncio
from collections.abc import Callable
from unittest.mock import patch

import pytest

from shared.kube.api_errors import (
    Conflict,
    ConnectionLost,
    Forbidden,
    NotFound,
    ServerError,
    TooManyRequests,
)
from shared.messages.from_binder import VictimDone
from shared.messages.to_binder import DeleteVictim, PreemptPods
from tests.unit.workers.binder.fake_api import Answer, FakeApi, FakeTime
from workers.binder.claim_free import ClaimFreer, ClaimLines
from workers.binder.evictions import IN_FLIGHT_MAX, Evictor
from workers.binder.fences import Fences

OK = b"{}"
GONE = NotFound(404, "NotFound", 'pods "v1" not found')
OTHER = Conflict(409, "Conflict", "the UID in the precondition (u1) does not match")
BROKEN = ServerError(500, "InternalError", "etcd")
BUSY = TooManyRequests(429, "TooManyRequests", "later")
LOST = ConnectionLost("reset")
DENIED = Forbidden(403, "Forbidden", "not allowed")
POD = "/api/v1/namespaces/ns/pods/v1"


def victim(number: int = 1) -> DeleteVictim:
    return DeleteVictim(
        number, "default-scheduler", "ns", f"v{number}", f"u{number}", "9", "n1", "ns", "p", "up",
        observed_generation=4,
    )  # fmt: skip


class Run:
    """One evictor, what it asked, and what it said."""

    def __init__(self, *script: Answer) -> None:
        self.api, self.time = FakeApi(*script), FakeTime()
        self.answers: list[VictimDone] = []
        self.deleted: list[DeleteVictim] = []

    def of(self, message: PreemptPods) -> "Run":
        async def all_of_it() -> None:
            freer, fences = ClaimFreer(self.api, ClaimLines()), Fences()
            evictor = Evictor(self.api, self.time.clock, self.deleted.append, freer, fences)
            evictor.begin(message, self.answers.append)
            await until(lambda: not fences._fences)

        with patch("workers.binder.retries.sleep", self.time.sleep):
            asyncio.run(all_of_it())
        assert not self.api.script, "not all of the script was asked for"
        return self


async def until(is_so: Callable[[], bool]) -> None:
    """Turns of the loop, no time."""
    for _ in range(10_000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come to an end")


def evicted(*script: Answer) -> Run:
    return Run(*script).of(PreemptPods(7, [victim()], []))


def test_a_victim_is_marked_first_and_deleted_by_uid() -> None:
    run = evicted(OK, OK)
    assert run.api.requests == [("PATCH", POD + "/status"), ("DELETE", POD)]
    patch, options = run.api.bodies
    assert patch["metadata"] == {"uid": "u1"}
    (condition,) = patch["status"]["conditions"]
    assert condition["type"] == "DisruptionTarget"
    assert condition["reason"] == "PreemptionByScheduler"
    assert condition["observedGeneration"] == 4
    assert condition["message"] == (
        "default-scheduler: preempting to accommodate a higher priority pod"
    )
    assert options["preconditions"] == {"uid": "u1"}
    assert run.answers == [VictimDone(1, "")]
    assert run.deleted == [victim()]


def test_a_victim_that_is_gone_is_as_good_as_deleted() -> None:
    for script in ([GONE], [OK, GONE]):
        run = evicted(*script)
        assert run.answers == [VictimDone(1, "")]
        assert run.deleted == [], "nobody had it go"


def test_a_victim_that_went_when_an_answer_was_lost_was_deleted() -> None:
    assert evicted(OK, LOST, GONE).deleted == [victim()]


@pytest.mark.parametrize("before", [[], [OK]])
@pytest.mark.parametrize("shown", [b'{"metadata":{"uid":"of-another"}}', GONE])
def test_a_victim_of_which_only_the_name_is_there_is_as_good_as_deleted(
    before: list[Answer], shown: Answer
) -> None:
    run = evicted(*before, OTHER, shown)
    assert run.answers == [VictimDone(1, "")]
    assert run.deleted == []


@pytest.mark.parametrize("before", [[], [OK]])
@pytest.mark.parametrize("shown", [b'{"metadata":{"uid":"u1"}}', BROKEN, LOST])
def test_a_conflict_about_a_victim_that_is_there_is_a_problem(
    before: list[Answer], shown: Answer
) -> None:
    """Or nothing might ever wake whoever waits for its room."""
    run = evicted(*before, OTHER, shown)
    assert run.answers == [VictimDone(1, str(OTHER))]
    assert run.deleted == []


@pytest.mark.parametrize("answer", [BROKEN, BUSY, LOST])
def test_what_may_pass_is_tried_again(answer: Answer) -> None:
    run = evicted(answer, OK, answer, answer, OK)
    assert run.api.methods == "PATCH PATCH DELETE DELETE DELETE"
    assert run.answers == [VictimDone(1, "")]
    assert run.time.sleeps == [0.25, 0.25, 0.5]


def test_what_does_not_pass_is_given_up_and_told_once() -> None:
    run = evicted(*[BROKEN] * 5)
    assert run.api.methods == " ".join(["PATCH"] * 5)
    assert [done.problem for done in run.answers] == [str(BROKEN)]
    assert run.deleted == []


def test_a_refusal_is_not_argued_with_and_a_pod_that_is_not_marked_is_not_deleted() -> None:
    run = evicted(DENIED)
    assert [done.problem for done in run.answers] == [str(DENIED)]
    run = evicted(OK, DENIED)
    assert [done.problem for done in run.answers] == [str(DENIED)]


def test_whatever_ends_an_eviction_is_told() -> None:
    class Broken(FakeApi):
        async def patch(self, *_: object, **__: object) -> bytes:
            raise ValueError("nobody thought of this")

    run = Run()
    run.api = Broken()
    run.of(PreemptPods(7, [victim()], []))
    assert [done.order_id for done in run.answers] == [1]
    assert "nobody thought of this" in run.answers[0].problem
    assert run.deleted == []


def test_one_victim_that_fails_keeps_no_other() -> None:
    run = Run(DENIED, OK, OK).of(PreemptPods(7, [victim(1), victim(2)], []))
    assert {done.order_id: bool(done.problem) for done in run.answers} == {1: True, 2: False}


class HeldApi(FakeApi):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.script = [OK] * 1000
        self.is_open = asyncio.Event()
        self.held_count = 0

    async def patch(
        self, path: str, body: bytes, content_type: str = "", *, timeout_s: float | None = None
    ) -> bytes:
        self.held_count += 1
        await self.is_open.wait()
        return await super().patch(path, body, timeout_s=timeout_s)


def test_so_many_at_a_time_and_cancelled_at_once() -> None:
    async def all_of_it() -> int:
        api, time = HeldApi(), FakeTime()
        freer, fences = ClaimFreer(api, ClaimLines()), Fences()
        evictor = Evictor(api, time.clock, lambda _: None, freer, fences)
        victims = [victim(number) for number in range(3 * IN_FLIGHT_MAX)]
        evictor.begin(PreemptPods(7, victims, []), lambda _: None)
        assert len(fences._fences) == len(victims)
        for _ in range(10):
            await asyncio.sleep(0)
        fences.cut_all()
        await until(lambda: not fences._fences)
        return api.held_count

    assert asyncio.run(all_of_it()) == IN_FLIGHT_MAX
