"""When a write's turn comes."""

import pytest

from bench.apiserver.router import Request
from bench.apiserver.write_pace import WritePace
from bench.watched.server_pace import PaceOptions

POD = "/api/v1/namespaces/ns/pods/p"


def request(method: str, target: str) -> Request:
    return Request(method, target, "", "", "", b"", True)


BINDING = request("POST", f"{POD}/binding")


@pytest.mark.parametrize(
    ("method", "target", "waits"),
    [
        ("POST", f"{POD}/binding", True),
        ("POST", f"{POD}/eviction?fieldManager=me", True),
        ("POST", "/apis/events.k8s.io/v1/namespaces/ns/events", True),
        ("POST", "/api/v1/namespaces/ns/events", True),
        ("PATCH", f"{POD}/status", True),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/berth", True),
        ("DELETE", POD, True),
        ("POST", "/api/v1/namespaces/ns/pods", False),
        ("POST", "/api/v1/nodes", False),
        ("GET", POD, False),
        ("HEAD", POD, False),
        ("POST", "/simulation/compact", False),
    ],
)
def test_what_a_scheduler_writes_waits_and_what_a_workload_makes_does_not(
    method: str, target: str, *, waits: bool
) -> None:
    pace = WritePace(PaceOptions(write_latency_ms=20))
    assert pace.wait_s(request(method, target), 5.0) == (0.02 if waits else 0.0)


def test_writes_take_turns() -> None:
    pace = WritePace(PaceOptions(writes_per_s=4, write_latency_ms=1000))
    assert [pace.wait_s(BINDING, 5.0) for _ in range(3)] == [1.0, 1.25, 1.5]
    assert pace.wait_s(BINDING, 5.5) == 1.25
    # Turns that nobody took are not saved up.
    assert [pace.wait_s(BINDING, 9.0) for _ in range(2)] == [1.0, 1.25]


def test_a_server_that_is_not_slow_asks_nobody_to_wait() -> None:
    assert not WritePace(PaceOptions()).is_active
    assert WritePace(PaceOptions(writes_per_s=1)).is_active


@pytest.mark.parametrize("number", [-1.0, float("inf"), float("nan")])
def test_what_is_no_pace_is_told(number: float) -> None:
    assert PaceOptions().problems() == []
    assert len(PaceOptions(writes_per_s=number).problems()) == 1
    assert len(PaceOptions(write_latency_ms=number).problems()) == 1
