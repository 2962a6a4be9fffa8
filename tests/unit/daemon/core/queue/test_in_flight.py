"""The log of events during attempts, and its bounds."""

import sys

import pytest

from daemon.core.pod_classes import PodClasses
from daemon.core.queue import in_flight as in_flight_log
from daemon.core.queue.in_flight import InFlight
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.queue.wakeups import Strategy
from shared.columns.table import NodeTable
from shared.framework.cluster_event import NODE_ADD, Action, ClusterEvent, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.queueing_hints import Change, ClusterEventWithHint, PodView
from shared.limits import OWN_EVENT_COUNT_MAX
from tests.support.builders import make_node, make_pod
from tests.support.wakeups import wakeups_of

NODE = make_node("n1")
REMOVED = ClusterEvent(Resource.NODE, Action.DELETE)


def only_n2(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    return bool(getattr(change.new, "metadata", NODE.metadata).name == "n2")


CLASSES = PodClasses(NodeTable())
WAKEUPS = wakeups_of({"P": (ClusterEventWithHint(Resource.NODE, (Action.ADD,), only_n2),)})


def queued(name: str, plugins: frozenset[str] = frozenset({"P"})) -> QueuedPod:
    record = make_pod(name, uid=name)
    pod_class = CLASSES.acquire(record)
    return QueuedPod(
        record=record,
        pod_class=pod_class,
        tried_as=pod_class,
        priority=0,
        timestamp_s=0.0,
        arrival=0,
        added_s=0.0,
        unschedulable_plugins=plugins,
    )


def logged(in_flight: InFlight) -> int:
    """Events in the log."""
    return in_flight.events_by_label().total() - len(in_flight)


def strategy(in_flight: InFlight, uid: str) -> Strategy:
    pod = in_flight.get(uid)
    assert pod is not None
    return in_flight.strategy(pod)


def end(in_flight: InFlight, uid: str) -> None:
    pod = in_flight.get(uid)
    assert pod is not None
    in_flight.remove(pod)


def test_no_events_are_kept_for_nobody() -> None:
    in_flight = InFlight(WAKEUPS)
    in_flight.record(Change(NODE_ADD, None, NODE))
    assert logged(in_flight) == 0
    in_flight.start(queued("p"))
    in_flight.record(Change(NODE_ADD, None, NODE))
    assert logged(in_flight) == 1
    end(in_flight, "p")
    assert logged(in_flight) == 0
    in_flight.check_invariants()


def test_events_go_when_the_attempts_that_need_them_end() -> None:
    in_flight = InFlight(WAKEUPS)
    for i in range(10):
        in_flight.start(queued(f"p{i}"))
        in_flight.record(Change(NODE_ADD, None, NODE))
    for i in (5, 3, 9, 0, 1, 2, 4, 6, 7):
        end(in_flight, f"p{i}")
        in_flight.check_invariants()
    # Only p8 is left; it started after the eighth event.
    assert logged(in_flight) <= 4
    assert strategy(in_flight, "p8") is Strategy.SKIP


def test_events_that_nobody_needs_any_more_go_before_they_are_many() -> None:
    in_flight, change = InFlight(WAKEUPS), Change(NODE_ADD, None, NODE)
    references = sys.getrefcount(change)
    in_flight.start(queued("p0"))
    for i in range(1000):
        in_flight.start(queued(f"p{i + 1}"))
        in_flight.record(change)
        end(in_flight, f"p{i}")
        assert sys.getrefcount(change) - references < 100


def test_the_hint_sees_each_event_since_the_start_and_no_other() -> None:
    in_flight = InFlight(WAKEUPS)
    in_flight.start(queued("early"))
    in_flight.record(Change(NODE_ADD, None, make_node("n2")))
    in_flight.start(queued("late"))
    in_flight.record(Change(NODE_ADD, None, NODE))
    in_flight.record(Change(REMOVED, NODE, None))
    assert strategy(in_flight, "early") is Strategy.AFTER_BACKOFF
    assert strategy(in_flight, "late") is Strategy.SKIP
    in_flight.record(Change(NODE_ADD, None, make_node("n2")))
    assert strategy(in_flight, "late") is Strategy.AFTER_BACKOFF


def test_an_attempt_whose_events_were_dropped_is_treated_as_helped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_flight_log, "EVENT_COUNT_MAX", 10)
    in_flight = InFlight(WAKEUPS)
    in_flight.start(queued("long"))
    for _ in range(11):
        in_flight.record(Change(NODE_ADD, None, NODE))
    in_flight.check_invariants()
    assert logged(in_flight) <= 10
    assert strategy(in_flight, "long") is Strategy.AFTER_BACKOFF
    in_flight.start(queued("short"))
    assert strategy(in_flight, "short") is Strategy.SKIP
    in_flight.record(Change(NODE_ADD, None, NODE))
    assert strategy(in_flight, "short") is Strategy.SKIP
    for uid in ("long", "short"):
        end(in_flight, uid)
        in_flight.check_invariants()
    assert logged(in_flight) == 0


def test_the_log_stays_bounded_however_long_an_attempt_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_flight_log, "EVENT_COUNT_MAX", 10)
    in_flight = InFlight(WAKEUPS)
    in_flight.start(queued("hangs"))
    for i in range(1000):
        in_flight.start(queued(f"p{i}"))
        in_flight.record(Change(NODE_ADD, None, NODE))
        end(in_flight, f"p{i}")
        assert logged(in_flight) <= 10
    in_flight.check_invariants()
    assert strategy(in_flight, "hangs") is Strategy.AFTER_BACKOFF


def test_more_updates_of_one_pod_than_can_be_kept_are_treated_as_help() -> None:
    in_flight = InFlight(WAKEUPS)
    pod = queued("p")
    in_flight.start(pod)
    for _ in range(OWN_EVENT_COUNT_MAX):
        in_flight.record_own(pod, Change(REMOVED, pod.view, pod.view))
    assert strategy(in_flight, "p") is Strategy.SKIP
    in_flight.record_own(pod, Change(REMOVED, pod.view, pod.view))
    assert strategy(in_flight, "p") is Strategy.AFTER_BACKOFF
    assert len(pod.own_events) == OWN_EVENT_COUNT_MAX
    end(in_flight, "p")
    assert not pod.own_events


def test_events_are_counted_by_label_with_the_attempts_that_keep_them() -> None:
    in_flight = InFlight(WAKEUPS)
    assert in_flight.events_by_label() == {"PodPopped": 0}
    in_flight.start(queued("a"))
    in_flight.start(queued("b"))
    for _ in range(3):
        in_flight.record(Change(NODE_ADD, None, NODE))
    in_flight.record(Change(REMOVED, NODE, None))
    assert in_flight.events_by_label() == {"PodPopped": 2, "NodeAdd": 3, "NodeDelete": 1}
    pod = in_flight.get("b")
    assert pod is not None
    in_flight.record_own(pod, Change(REMOVED, pod.view, pod.view))
    end(in_flight, "a")
    assert in_flight.events_by_label()["NodeDelete"] == 2, "with what is about one of them alone"
    end(in_flight, "b")
    assert in_flight.events_by_label() == {"PodPopped": 0, "NodeAdd": 0, "NodeDelete": 0}


def test_nothing_is_kept_of_attempts_that_ended_during_a_longer_one() -> None:
    in_flight = InFlight(WAKEUPS)
    in_flight.start(queued("hangs"))
    pod = queued("p")
    references = sys.getrefcount(pod)
    for _ in range(100):
        in_flight.start(pod)
        end(in_flight, "p")
    assert sys.getrefcount(pod) == references
