"""What the demo's watch makes of events."""

import msgspec

from bench.demo.pod_book import PodBook
from bench.watched.pod_events import PodEvent

UNSCHEDULABLE = "0/2 nodes are available: 2 Insufficient cpu."


def event(name: str, node: str = "", reason: str = "", message: str = "") -> PodEvent:
    """As the API server sends it."""
    conditions = []
    if reason:
        conditions = [
            {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        ]
    body = {
        "type": "MODIFIED",
        "object": {
            "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "7"},
            "spec": {"nodeName": node} if node else {},
            "status": {"phase": "Pending", "conditions": conditions},
        },
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=PodEvent)


def test_latency_runs_from_creation_to_the_first_sight_of_a_node() -> None:
    book = PodBook()
    book.created("a", 10.0)
    book.created("b", 10.5)
    book.observed(event("b", node="n"), 11.0)
    book.observed(event("a", node="n"), 12.0)
    book.observed(event("a", node="n"), 13.0)
    assert book.latencies_s() == [0.5, 2.0]
    assert book.pending_count == 0
    assert book.bound_twice() == {}


def test_an_unschedulable_pod_is_not_pending_and_is_told_by_its_message() -> None:
    book = PodBook()
    book.created("a", 0.0)
    assert book.pending_count == 1
    book.observed(event("a", reason="Unschedulable", message=UNSCHEDULABLE), 1.0)
    assert book.pending_count == 0
    assert book.messages() == {UNSCHEDULABLE: 1}


def test_a_pod_that_is_bound_after_all_is_unschedulable_no_more() -> None:
    book = PodBook()
    book.created("a", 0.0)
    book.observed(event("a", reason="Unschedulable", message=UNSCHEDULABLE), 1.0)
    # The condition may still say so when the binding is seen.
    book.observed(event("a", node="n", reason="Unschedulable", message=UNSCHEDULABLE), 2.0)
    assert book.unschedulable == {}
    assert book.latencies_s() == [2.0]


def test_another_reason_keeps_the_pod_pending() -> None:
    book = PodBook()
    book.created("a", 0.0)
    book.observed(event("a", reason="SchedulerError", message="broken"), 1.0)
    assert book.pending_count == 1
    assert book.other_reasons == {"a": "broken"}
    book.observed(event("a", reason="Unschedulable", message=UNSCHEDULABLE), 2.0)
    assert book.other_reasons == {}


def test_a_pod_seen_on_two_nodes_was_bound_twice() -> None:
    book = PodBook()
    book.created("a", 0.0)
    book.observed(event("a", node="n-1"), 1.0)
    book.observed(event("a", node="n-2"), 2.0)
    assert book.bound_twice() == {"a": ["n-1", "n-2"]}
    assert book.bound_s == {"a": 1.0}


def test_a_binding_that_is_taken_back_is_seen_too() -> None:
    book = PodBook()
    book.created("a", 0.0)
    book.observed(event("a", node="n-1"), 1.0)
    book.observed(event("a"), 2.0)
    book.observed(event("a", node="n-1"), 3.0)
    assert book.bound_twice() == {"a": ["n-1", "", "n-1"]}


def test_the_end_of_a_watch_is_understood() -> None:
    ended = (
        b'{"type":"ERROR","object":{"kind":"Status","metadata":{},"status":"Failure",'
        b'"message":"too old","reason":"Expired","code":410}}'
    )
    decoded = msgspec.json.decode(ended, type=PodEvent)
    assert decoded.type == "ERROR"
    assert decoded.object.message == "too old"
