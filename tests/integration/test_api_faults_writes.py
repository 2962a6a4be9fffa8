"""Bindings, conditions and events when the API server refuses, breaks, or answers to nobody.

Each case is a fault plan of the simulated server; the binder's own parts and client speak to it over
sockets. What the cluster holds in the end says what really happened.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from unittest.mock import patch

import pytest

from bench.apiserver.fault_plan import Rule
from shared.clock import SystemClock
from shared.kube.api_client import ApiClient
from shared.kube.cluster_access import access_at
from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import BindPod, StatusPatch
from shared.rate_limit import RateLimit
from tests.support.faulty_server import FaultyServer, faulty_server
from tests.support.waiting import HANG_S
from workers.binder.bind_call import Bound, DefaultBinder, NotBound
from workers.binder.recorder import PATIENCE, EventRecorder, RecorderSettings

pytestmark = pytest.mark.integration

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(HANG_S):
            await main()

    asyncio.run(bounded())


@contextlib.asynccontextmanager
async def client_of(server: FaultyServer, **options: Any) -> AsyncIterator[ApiClient]:
    client = ApiClient(access_at(server.address), timeout_s=server.patience_s, **options)
    try:
        yield client
    finally:
        await client.close()


# Bindings -----------------------------------------------------------------------------------------


def order(uid: str, name: str = "p") -> BindPod:
    return BindPod(1, "default-scheduler", "default", name, uid, "n1", False)


BIND: dict[str, Any] = {"method": "POST", "path": "*/binding"}
LOOK: dict[str, Any] = {"method": "GET", "path": "*/pods/p"}

BOUND_CASES: dict[str, list[Rule]] = {
    "429 with a wish": [
        Rule(at="request", do="refuse", code=429, retry_after_s=1, times=3, **BIND)
    ],
    "429 without a wish": [Rule(at="request", do="refuse", code=429, times=5, **BIND)],
    "500 once": [Rule(at="request", do="refuse", code=500, **BIND)],
    "503 with a wish": [
        Rule(at="request", do="refuse", code=503, **BIND),
        Rule(at="request", do="refuse", code=503, retry_after_s=2, times=2, **LOOK),
    ],
    "503 once, then the look fails as well": [
        Rule(at="request", do="refuse", code=503, **BIND),
        Rule(at="request", do="refuse", code=500, times=4, **LOOK),
    ],
    "reset before it was done": [Rule(at="request", do="reset", **BIND)],
    "closed before it was done": [Rule(at="request", do="disconnect", times=5, **BIND)],
    "answer lost after it was done": [Rule(at="answer", do="disconnect", **BIND)],
    "reset after it was done": [Rule(at="answer", do="reset", **BIND)],
    "answer cut off after it was done": [Rule(at="answer", do="cut", **BIND)],
    "no answer after it was done": [Rule(at="answer", do="hang", **BIND)],
    "no answer, and nothing was done": [Rule(at="request", do="hang", **BIND)],
    "a slow answer": [Rule(at="answer", do="delay", delay_s=0.02, **BIND)],
    "answer lost, and the look is half a pod": [
        Rule(at="answer", do="disconnect", **BIND),
        Rule(at="answer", do="cut", times=2, **LOOK),
    ],
    "answer lost, and the look is throttled": [
        Rule(at="answer", do="disconnect", **BIND),
        Rule(at="request", do="refuse", code=429, retry_after_s=1, **LOOK),
    ],
}


@pytest.mark.parametrize("rules", BOUND_CASES.values(), ids=BOUND_CASES.keys())
def test_a_pod_is_bound_all_the_same_and_once(rules: list[Rule]) -> None:
    delays: list[float] = []

    async def sleep(delay_s: float) -> None:
        delays.append(delay_s)
        await asyncio.sleep(0)

    async def main() -> None:
        async with faulty_server(*rules) as server, client_of(server) as client:
            uid = server.add_pod("p")
            with patch("workers.binder.retries.sleep", sleep):
                outcome = await DefaultBinder(client, SystemClock()).bind(order(uid))
            assert isinstance(outcome, Bound)
            assert server.pod("p")["spec"]["nodeName"] == "n1"
            assert not server.plan.is_active
            for rule in rules:
                assert delays.count(rule.retry_after_s or 0.0) == (
                    rule.times if rule.retry_after_s else 0
                )

    run(main)


@pytest.mark.parametrize(
    ("rules", "reason", "node"),
    [
        (
            [Rule(at="request", do="refuse", code=409, message="gated", **BIND)],
            BindFailureReason.CONFLICT,
            None,
        ),
        (
            [Rule(at="request", do="refuse", code=403, message="no role", **BIND)],
            BindFailureReason.REJECTED,
            None,
        ),
        (
            [Rule(at="request", do="refuse", code=404, message="gone", **BIND)],
            BindFailureReason.GONE,
            None,
        ),
        (
            [Rule(at="request", do="disconnect", times=0, **BIND)],
            BindFailureReason.TIMEOUT,
            None,
        ),
        (
            [Rule(at="request", do="refuse", code=429, times=0, **BIND)],
            BindFailureReason.UNREACHABLE,
            None,
        ),
        (
            [
                Rule(at="answer", do="disconnect", **BIND),
                Rule(at="answer", do="halve", times=0, **LOOK),
            ],
            BindFailureReason.UNREACHABLE,
            "n1",
        ),
    ],
    ids=["409", "403", "404", "lost for ever", "429 for ever", "no look is a pod"],
)
def test_what_cannot_be_bound_is_told_by_its_reason(
    rules: list[Rule], reason: BindFailureReason, node: str | None
) -> None:
    async def main() -> None:
        async with faulty_server(*rules) as server, client_of(server) as client:
            uid = server.add_pod("p")

            async def sleep(delay_s: float) -> None:
                await asyncio.sleep(0)

            with patch("workers.binder.retries.sleep", sleep):
                outcome = await DefaultBinder(client, SystemClock()).bind(order(uid))
            assert isinstance(outcome, NotBound)
            assert outcome.reason == reason
            assert server.pod("p")["spec"].get("nodeName") == node

    run(main)


def test_a_pod_that_another_scheduler_has_bound_is_a_conflict() -> None:
    async def main() -> None:
        async with faulty_server() as server, client_of(server) as client:
            uid = server.add_pod("p")
            target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "theirs"}}
            server.do("POST", "/api/v1/namespaces/default/pods/p/binding", target)
            outcome = await DefaultBinder(client, SystemClock()).bind(order(uid))
            assert outcome == NotBound(
                BindFailureReason.CONFLICT, "the pod is bound to node theirs"
            )

    run(main)


class StandingRate(RateLimit):
    """A limit for which no time passes; keeps what it said."""

    def __init__(self) -> None:
        super().__init__(per_s=100.0, burst=2)
        self.waits: list[float] = []

    def reserve(self, now_s: float) -> float:
        self.waits.append(super().reserve(0.0))
        return self.waits[-1]


def test_each_binding_waits_its_turn_once_also_when_it_is_repeated() -> None:
    rate = StandingRate()

    async def main() -> None:
        refused = Rule(at="request", do="refuse", code=401, **BIND)
        async with faulty_server(refused) as server, client_of(server, rate_limit=rate) as client:
            binder = DefaultBinder(client, SystemClock())
            uids = {f"p{number}": server.add_pod(f"p{number}") for number in range(5)}
            outcomes = [await binder.bind(order(uid, name)) for name, uid in uids.items()]
            assert [isinstance(outcome, Bound) for outcome in outcomes] == [False, *[True] * 4]

    run(main)
    assert rate.waits == pytest.approx([0.0, 0.0, 0.01, 0.02, 0.03])


# Conditions and events ----------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def recorder_of(
    server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[EventRecorder]:
    patience = PATIENCE._replace(pause_s=0.001)
    monkeypatch.setattr("workers.binder.recorder.PATIENCE", patience)
    monkeypatch.setattr("workers.binder.recorder.REQUEST_TIMEOUT_S", server.patience_s)
    async with client_of(server) as client:
        recorder = EventRecorder(client, RecorderSettings(), SystemClock(), "host")
        yield recorder
        recorder.close()


def verdict(uid: str, name: str = "p", message: str = "0/1 nodes are available") -> StatusPatch:
    return StatusPatch(
        "default-scheduler", "default", name, uid, "Unschedulable", message, write_event=True
    )


STATUS: dict[str, Any] = {"method": "PATCH", "path": "*/status"}
EVENT: dict[str, Any] = {"method": "POST", "path": "*/events"}

RECORD_CASES: dict[str, list[Rule]] = {
    "5xx": [
        Rule(at="request", do="refuse", code=500, times=2, **STATUS),
        Rule(at="request", do="refuse", code=503, times=2, **EVENT),
    ],
    "429": [
        Rule(at="request", do="refuse", code=429, times=2, **STATUS),
        Rule(at="request", do="refuse", code=429, times=2, **EVENT),
    ],
    "resets": [Rule(at="request", do="reset", **STATUS), Rule(at="request", do="reset", **EVENT)],
    "answers lost after it was done": [
        Rule(at="answer", do="disconnect", **STATUS),
        Rule(at="answer", do="disconnect", times=2, **EVENT),
    ],
    "no answers": [Rule(at="answer", do="hang", **STATUS), Rule(at="answer", do="hang", **EVENT)],
    "answers cut off": [
        Rule(at="answer", do="cut", **STATUS),
        Rule(at="answer", do="cut", **EVENT),
    ],
}


@pytest.mark.parametrize("rules", RECORD_CASES.values(), ids=RECORD_CASES.keys())
def test_condition_and_event_are_written_once(
    rules: list[Rule], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with faulty_server(*rules) as server, recorder_of(server, monkeypatch) as recorder:
            recorder.patch_status(verdict(server.add_pod("p")))
            await recorder.drain(HANG_S)
            assert (recorder.events_dropped_count, recorder.patches_dropped_count) == (0, 0)
            assert not server.plan.is_active
            conditions = server.pod("p")["status"]["conditions"]
            assert [(c["type"], c["status"], c["reason"]) for c in conditions] == [
                ("PodScheduled", "False", "Unschedulable")
            ]
            events = server.do("GET", EVENTS)["items"]
            assert [(e["reason"], e["note"]) for e in events] == [
                ("FailedScheduling", "0/1 nodes are available")
            ]

    run(main)


@pytest.mark.parametrize("code", [403, 422])
def test_what_is_refused_for_good_is_given_up_and_counted(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [
        Rule(at="request", do="refuse", code=code, times=0, **STATUS),
        Rule(at="request", do="refuse", code=code, times=0, **EVENT),
    ]

    async def main() -> None:
        async with faulty_server(*rules) as server, recorder_of(server, monkeypatch) as recorder:
            recorder.patch_status(verdict(server.add_pod("p")))
            await recorder.drain(HANG_S)
            assert (recorder.events_dropped_count, recorder.patches_dropped_count) == (1, 1)
            assert server.plan.ordered_counts == [1, 1]

    run(main)


def test_a_pod_that_is_gone_gets_no_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with faulty_server() as server, recorder_of(server, monkeypatch) as recorder:
            recorder.patch_status(verdict("nobody's", "never-made"))
            await recorder.drain(HANG_S)
            assert recorder.patches_dropped_count == 0

    run(main)
