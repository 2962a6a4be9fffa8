"""What happens to pods in the scheduling queue. Rules: kube-scheduler v1.36.2 (see the module)."""

import math

import msgspec
import pytest

from daemon.core.queue.queued_pod import Place, QueuedPod
from daemon.core.queue.scheduling_queue import REFUSALS_IN_A_ROW_MAX
from shared.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    Action,
    ClusterEvent,
    Resource,
)
from shared.framework.cluster_view import ClusterView
from shared.framework.queueing_hints import ANY_EVENT, Change, ClusterEventWithHint, PodView
from shared.messages.admin import QueueLengths
from shared.plugin_names import (
    NODE_AFFINITY,
    NODE_NAME,
    NODE_RESOURCES_FIT,
    POD_TOPOLOGY_SPREAD,
    SCHEDULING_GATES,
    TAINT_TOLERATION,
)
from tests.support.builders import make_node, make_pod
from tests.unit.daemon.core.queue.builders import GATED, Bench, labels_of, view_of

NODE = make_node("n1")
BOUND = view_of(make_pod("bound", node_name="n1"))


def wake(bench: Bench, now_s: float) -> int:
    """An event that helps whatever NodeName or NodeResourcesFit rejected."""
    return bench.moved(bench.queue.move_all_to_active_or_backoff, NODE_ADD, None, NODE, now_s)


# Order --------------------------------------------------------------------------------------------


def test_pods_are_popped_by_priority_then_by_age_then_by_arrival() -> None:
    bench = Bench()
    bench.add("low", 1.0, priority=-5)
    bench.add("later", 3.0)
    bench.add("first", 2.0)
    bench.add("second", 2.0)
    bench.add("high", 4.0, priority=1000)
    assert bench.pop() == ["high", "first", "second", "later", "low"]


def test_a_batch_is_no_larger_than_asked_for() -> None:
    bench = Bench()
    for i in range(5):
        bench.add(f"p{i}", float(i))
    assert bench.pop(limit=2) == ["p0", "p1"]
    assert bench.pop(limit=0) == []
    assert bench.pop(limit=9) == ["p2", "p3", "p4"]


def test_a_pod_listed_again_is_updated_and_keeps_its_place_in_the_order() -> None:
    bench = Bench()
    bench.add("old", 1.0)
    bench.add("young", 2.0)
    bench.update("old", 3.0, resource_version="2")
    assert len(bench.queue) == 2
    assert [p.record.resource_version for p in bench.queue.pop_batch(9, 3.0)] == ["2", "1"]


def test_the_same_name_with_another_uid_is_another_pod() -> None:
    bench = Bench()
    bench.put(make_pod("web", uid="first-life"), 0.0)
    bench.pop()
    bench.put(make_pod("web", uid="second-life"), 1.0)
    assert bench.queue.delete("first-life") is not None
    assert bench.queue.requeue_unschedulable("first-life", [NODE_NAME], (), 1.0) is None
    assert [pod.record.uid for pod in bench.queue.pop_batch(9, 1.0)] == ["second-life"]


@pytest.mark.parametrize("place", ["active", "backoff"])
def test_a_changed_priority_changes_the_order(place: str) -> None:
    bench = Bench()
    bench.add("a", 0.0)
    bench.add("b", 0.0)
    if place == "backoff":
        bench.pop()
        for name in ("a", "b"):
            bench.queue.requeue_unschedulable(name, [NODE_NAME], (), 1.0)
        wake(bench, 1.0)
    assert set(bench.places().values()) == {place}
    bench.update("b", 1.0, priority=7)
    assert set(bench.places().values()) == {place}
    assert bench.pop(1.5) == ["b", "a"]


def test_deleting_most_pods_leaves_the_others_in_order() -> None:
    bench = Bench()
    for i in range(100):
        bench.add(f"p{i:02}", float(i))
    for i in range(99):
        if i % 10:
            bench.queue.delete(f"p{i:02}")
            bench.queue.check_invariants()
    kept = [f"p{i:02}" for i in range(0, 100, 10)]
    assert bench.pop() == [*kept, "p99"]


# Failed attempts ----------------------------------------------------------------------------------


def test_a_rejected_pod_is_parked_until_an_event_of_its_plugin() -> None:
    bench = Bench()
    bench.park("p", [NODE_NAME])
    assert bench.places() == {"p": "unschedulable"}
    bench.queue.move_all_to_active_or_backoff(ASSIGNED_POD_ADD, None, BOUND, 20.0)
    assert bench.places() == {"p": "unschedulable"}
    assert wake(bench, 20.0) == 1
    assert bench.places() == {"p": "active"}


def test_a_pod_woken_during_its_back_off_waits_for_its_end() -> None:
    bench = Bench()
    bench.park("p", [NODE_NAME], 0.5)
    wake(bench, 0.6)
    assert bench.places() == {"p": "backoff"}
    assert bench.queue.next_wakeup_s() == 2.0
    assert bench.moved(bench.queue.flush, 1.999) == 0
    assert bench.moved(bench.queue.flush, 2.0) == 1
    assert bench.places() == {"p": "active"}


def test_a_pod_woken_in_the_very_second_in_which_its_back_off_ends_still_waits() -> None:
    bench = Bench()
    bench.park("p", [NODE_NAME], 0.5)
    wake(bench, 1.75)
    assert bench.places() == {"p": "backoff"}


def test_a_pod_woken_after_the_second_in_which_its_back_off_ends_is_active() -> None:
    bench = Bench()
    bench.park("p", [NODE_NAME], 0.5)
    wake(bench, 2.0)
    assert bench.places() == {"p": "active"}


def test_with_nothing_active_a_rejected_pod_is_taken_out_of_its_back_off() -> None:
    bench = Bench()
    bench.park("p", [NODE_NAME], 0.5)
    wake(bench, 0.6)
    assert bench.queue.poppable_count == 1
    assert bench.pop(0.7) == ["p"]


def test_the_back_off_queue_is_not_touched_while_a_pod_is_active() -> None:
    bench = Bench()
    bench.park("important", [NODE_NAME], priority=100)
    wake(bench, 0.1)
    bench.add("plain", 0.2)
    assert bench.pop(0.3, limit=1) == ["plain"]
    assert bench.places()["important"] == "backoff"


def test_pods_whose_back_off_ends_in_the_same_second_are_taken_by_priority() -> None:
    bench = Bench()
    bench.add("low", 0.0)
    bench.add("high", 0.0, priority=5)
    bench.pop()
    bench.queue.requeue_unschedulable("low", [NODE_NAME], (), 0.1)
    bench.queue.requeue_unschedulable("high", [NODE_NAME], (), 0.9)
    wake(bench, 0.95)
    assert bench.pop(0.96) == ["high", "low"]


def test_without_its_gate_no_pod_is_taken_early_and_ends_are_not_cut() -> None:
    bench = Bench(pops_early=False)
    bench.park("p", [NODE_NAME], 0.5)
    wake(bench, 0.6)
    assert (bench.queue.poppable_count, bench.pop(0.7)) == (0, [])
    assert bench.queue.next_wakeup_s() == 2.0
    bench.queue.flush(2.0)
    assert bench.pop(2.0) == ["p"]
    bench.queue.requeue_unschedulable("p", [NODE_NAME], (), 2.5)
    wake(bench, 4.6)
    assert bench.places() == {"p": "active"}


def test_a_pod_that_is_not_taken_early_is_held_back_when_its_back_off_is_over() -> None:
    held = {"p"}
    bench = Bench(
        pops_early=False,
        pre_enqueue=lambda pod: NODE_NAME if pod.record.name in held and pod.attempts else None,
    )
    bench.park("p", [NODE_NAME], 0.5)
    wake(bench, 0.6)
    assert bench.places() == {"p": "backoff"}
    bench.queue.activate(["p"], 0.7)
    assert bench.places() == {"p": "gated"}
    wake(bench, 0.8)
    assert bench.places() == {"p": "backoff"}
    bench.queue.flush(2.0)
    assert bench.places() == {"p": "gated"}
    held.clear()
    wake(bench, 3.0)
    assert bench.places() == {"p": "active"}


def test_a_pod_that_failed_with_an_error_is_never_taken_early() -> None:
    bench = Bench()
    bench.add("p")
    bench.pop()
    assert bench.queue.requeue_unschedulable("p", (), (), 0.0) is Place.BACKOFF
    assert bench.queue.poppable_count == 0
    assert bench.pop(0.5) == []
    bench.queue.flush(2.0)
    assert bench.pop(2.0) == ["p"]


def test_a_rejection_by_nobody_is_an_error() -> None:
    bench = Bench()
    bench.add("p")
    bench.pop()
    assert bench.queue.requeue_unschedulable("p", (), (), 0.0) is Place.BACKOFF
    pod = bench.queue.get("p")
    assert pod is not None
    assert (pod.consecutive_errors_count, pod.unschedulable_count) == (1, 0)


def test_a_rejection_ends_a_row_of_errors() -> None:
    bench = Bench()
    bench.add("p")
    for now_s in (0.0, 10.0, 30.0):
        bench.queue.flush(now_s)
        assert bench.pop(now_s) == ["p"]
        bench.queue.requeue_unschedulable("p", (), (), now_s)
    pod = bench.queue.get("p")
    assert pod is not None
    assert (pod.consecutive_errors_count, pod.backoff_until_s) == (3, 34.0)
    bench.queue.flush(40.0)
    bench.pop(40.0)
    bench.queue.requeue_unschedulable("p", [NODE_NAME], (), 40.0)
    assert (pod.consecutive_errors_count, pod.unschedulable_count) == (0, 1)
    assert pod.backoff_until_s == 41.0


def test_attempts_are_counted_and_rejectors_forgotten_when_a_pod_is_popped() -> None:
    bench = Bench()
    pod = bench.park("p", [NODE_NAME], 0.0, [TAINT_TOLERATION])
    assert (pod.attempts, pod.unschedulable_count) == (1, 1)
    wake(bench, 30.0)
    bench.pop(30.0)
    assert (pod.attempts, pod.unschedulable_count) == (2, 1)
    assert pod.unschedulable_plugins == pod.pending_plugins == frozenset()


def test_without_a_maximum_there_is_no_back_off() -> None:
    bench = Bench(max_backoff_s=0.0)
    bench.park("p", [NODE_NAME])
    wake(bench, 0.1)
    assert bench.places() == {"p": "active"}
    bench.pop(0.2)
    assert bench.queue.requeue_unschedulable("p", (), (), 0.2) is Place.ACTIVE


def test_a_pending_plugin_that_is_answered_spares_the_back_off() -> None:
    bench = Bench()
    bench.park("waits", [NODE_AFFINITY], 0.0, [NODE_NAME])
    wake(bench, 0.1)
    assert bench.places() == {"waits": "active"}


def test_a_pending_plugin_that_is_not_answered_does_not_spare_it() -> None:
    bench = Bench()
    bench.park("waits", [NODE_NAME], 0.0, ["ExamplePlugin"])
    wake(bench, 0.1)
    assert bench.places() == {"waits": "backoff"}


def test_a_refused_proposal_goes_back_before_its_equals_and_is_no_attempt() -> None:
    bench = Bench()
    for name in ("a", "b", "c"):
        bench.add(name, 0.0)
    bench.add("high", 0.0, priority=9)
    assert bench.pop(limit=3) == ["high", "a", "b"]
    # Older than both, and of the same priority: it has not been tried yet.
    bench.put(make_pod("d", uid="d"), -1.0)
    assert bench.queue.requeue_head("b", 1.0) is Place.ACTIVE
    assert bench.queue.requeue_head("a", 1.0) is Place.ACTIVE
    bench.add("higher", 2.0, priority=10)
    assert bench.pop() == ["higher", "a", "b", "d", "c"]
    pod = bench.queue.get("a")
    assert pod is not None
    assert (pod.attempts, pod.unschedulable_count, pod.consecutive_errors_count) == (1, 0, 0)


def test_a_pod_that_is_refused_too_often_in_a_row_goes_through_back_off() -> None:
    bench = Bench()
    bench.add("p")
    for _ in range(REFUSALS_IN_A_ROW_MAX):
        assert bench.pop() == ["p"]
        assert bench.queue.requeue_head("p", 0.0) is Place.ACTIVE
    assert bench.pop() == ["p"]
    assert bench.queue.requeue_head("p", 0.0) is Place.BACKOFF
    assert bench.queue.incoming["backoff", "ProposalRejected"] == 1
    # As after an error it is not taken early, and each further refusal doubles the time.
    assert bench.pop() == []
    assert bench.moved(bench.queue.flush, 2.0) == 1
    assert bench.pop(2.0) == ["p"]
    assert bench.queue.requeue_head("p", 2.0) is Place.BACKOFF
    assert bench.moved(bench.queue.flush, 4.9) == 0
    assert bench.moved(bench.queue.flush, 5.0) == 1
    # A verdict ends the row.
    assert bench.pop(5.0) == ["p"]
    bench.queue.requeue_unschedulable("p", [NODE_NAME], (), 5.0)
    bench.queue.activate(["p"], 5.0)
    assert bench.pop(5.0) == ["p"]
    assert bench.queue.requeue_head("p", 5.0) is Place.ACTIVE


def test_pods_that_a_worker_gave_back_unanswered_are_not_refused() -> None:
    bench = Bench()
    bench.add("p")
    for _ in range(2 * REFUSALS_IN_A_ROW_MAX):
        assert bench.pop() == ["p"]
        assert bench.queue.requeue_head("p", 0.0, is_refused=False) is Place.ACTIVE


def test_a_parked_pod_whose_preemption_failed_is_tried_again_after_a_back_off() -> None:
    bench = Bench()
    bench.park("p", [NODE_NAME], 0.0)
    bench.add("gated", spec=GATED)
    for _ in range(2):
        bench.queue.fail("p", 3.0)
        bench.queue.fail("gated", 3.0)
        bench.queue.fail("nobody", 3.0)
        assert bench.places() == {"p": "backoff", "gated": "gated"}
    assert bench.pop(3.0) == [], "as after any error, it is not taken early"
    assert bench.moved(bench.queue.flush, 5.0) == 1
    assert bench.pop(5.0) == ["p"]
    # The news may come before the attempt's own end.
    bench.queue.fail("p", 5.0)
    assert bench.queue.requeue_unschedulable("p", ["Unheard"], (), 5.0) is Place.BACKOFF


def test_a_pod_that_joins_or_leaves_a_group_in_back_off_is_counted_where_it_waits() -> None:
    """Pods of groups wait in full (a label may name the group of another scheduler's)."""
    bench = Bench()
    for before, after in (("", "gang"), ("gang", "")):
        alone = make_pod("p", uid="p")
        bench.put(msgspec.structs.replace(alone, group=before), 0.0)
        bench.pop(0.0)
        bench.queue.requeue_unschedulable("p", [NODE_NAME], [], 0.0)
        bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, NODE, 0.0)
        assert bench.places() == {"p": "backoff"}
        changed = msgspec.structs.replace(alone, group=after)
        bench.put(changed, 0.0, is_update=True)
        assert bench.queue.poppable_count == (not after)
        bench.queue.delete("p")
        bench.queue.check_invariants()


def test_a_pod_is_filed_under_another_priority_whatever_the_order_looks_at() -> None:
    bench = Bench(queue_key=lambda _priority, queued_at_s: (queued_at_s,))
    bench.add("p", 1.0)
    bench.add("q", 1.0)
    for priority in (1, 2, 3):
        bench.update("p", 1.0, priority=priority)
    assert bench.pop() == ["q", "p"]


def test_pods_whose_back_off_ends_in_the_same_second_are_taken_early_in_the_order_of_the_queue() -> (
    None
):
    """lessBackoffCompletedWithPriority in pkg/scheduler/backend/queue/backoff_queue.go, v1.36.2: the
    profile's QueueSort, whatever that looks at."""
    bench = Bench(queue_key=lambda priority, queued_at_s: (priority, -queued_at_s))
    pods = (("high", 9, 0.0), ("low", 1, 0.1), ("last", 1, 0.2))
    for name, priority, _ in pods:
        bench.add(name, priority=priority)
    bench.pop()
    for name, _, failed_s in pods:
        bench.queue.activate([name], failed_s)
        bench.queue.requeue_unschedulable(name, [NODE_NAME], (), failed_s)
    assert set(bench.places().values()) == {"backoff"}
    assert bench.pop(0.3) == ["last", "low", "high"]


def test_results_for_pods_that_are_not_in_flight_are_refused() -> None:
    bench = Bench()
    bench.add("p")
    assert bench.queue.requeue_unschedulable("p", [NODE_NAME], (), 0.0) is None
    assert bench.queue.requeue_unschedulable("nobody", (), (), 0.0) is None
    assert bench.queue.requeue_head("p", 0.0) is None
    assert bench.queue.done("p") is None
    assert bench.places() == {"p": "active"}


def test_a_bound_pod_leaves_for_good() -> None:
    bench = Bench()
    bench.add("p")
    bench.pop()
    assert bench.queue.done("p") is not None
    assert bench.queue.get("p") is None
    assert bench.queue.done("p") is None


# What happens during an attempt -------------------------------------------------------------------


def test_an_event_during_the_attempt_counts_when_the_pod_is_rejected() -> None:
    bench = Bench()
    bench.add("p")
    bench.pop()
    wake(bench, 0.1)
    assert bench.queue.requeue_unschedulable("p", [NODE_NAME], (), 0.2) is Place.BACKOFF


def test_an_event_before_the_attempt_does_not_count() -> None:
    bench = Bench()
    bench.add("other")
    bench.pop()
    wake(bench, 0.1)
    bench.add("p", 0.2)
    bench.pop(0.2)
    assert bench.queue.requeue_unschedulable("p", [NODE_NAME], (), 0.3) is Place.UNSCHEDULABLE
    assert bench.queue.requeue_unschedulable("other", [NODE_NAME], (), 0.3) is Place.BACKOFF


def test_an_event_of_another_plugin_during_the_attempt_does_not_count() -> None:
    bench = Bench()
    bench.add("p")
    bench.pop()
    wake(bench, 0.1)
    place = bench.queue.requeue_unschedulable("p", ["ExamplePlugin"], (), 0.2)
    assert place is Place.UNSCHEDULABLE


def test_an_event_for_a_pending_plugin_during_the_attempt_spares_the_back_off() -> None:
    bench = Bench()
    bench.add("p")
    bench.pop()
    wake(bench, 0.1)
    place = bench.queue.requeue_unschedulable("p", ["ExamplePlugin"], [NODE_NAME], 0.2)
    assert place is Place.ACTIVE


def test_an_update_of_the_pod_during_the_attempt_counts_when_it_is_rejected() -> None:
    bench = Bench()
    bench.add("p")
    bench.add("other")
    bench.pop()
    tolerations = [{"key": "a", "operator": "Exists"}]
    pod = bench.update("p", 0.1, spec={"tolerations": tolerations})
    assert pod.place is Place.IN_FLIGHT
    assert pod.info.spec.tolerations is not None
    for name, expected in (("p", Place.BACKOFF), ("other", Place.UNSCHEDULABLE)):
        assert bench.queue.requeue_unschedulable(name, [TAINT_TOLERATION], (), 0.2) is expected


def test_labels_of_a_pod_in_flight_concern_the_others_in_flight() -> None:
    bench = Bench()
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    spec = {"topologySpreadConstraints": [{**spread, **labels_of({"a": "b"})}]}
    bench.add("p", spec=spec)
    bench.add("bound", labels={"a": "b"}, nominated_node_name="n1")
    bench.pop()
    bench.update("bound", 0.1, labels={}, nominated_node_name="n1")
    place = bench.queue.requeue_unschedulable("p", [POD_TOPOLOGY_SPREAD], (), 0.2)
    assert place is Place.BACKOFF


def test_a_pod_deleted_during_the_attempt_is_gone() -> None:
    bench = Bench()
    bench.add("p")
    bench.pop()
    assert bench.queue.delete("p") is not None
    assert bench.queue.requeue_unschedulable("p", [NODE_NAME], (), 0.1) is None
    assert len(bench.queue) == 0


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable", "gated", "in_flight"])
def test_a_deleted_pod_is_gone_from_any_place(place: str) -> None:
    bench = Bench()
    if place == "gated":
        bench.add("p", spec=GATED)
    elif place in ("active", "in_flight"):
        bench.add("p")
        if place == "in_flight":
            bench.pop()
    else:
        bench.park("p", [NODE_NAME])
        if place == "backoff":
            wake(bench, 0.1)
    assert bench.places() == {"p": place}
    assert bench.queue.delete("p") is not None
    assert bench.queue.delete("p") is None
    assert bench.queue.pending_lengths() == QueueLengths(0, 0, 0, 0, 0)
    assert bench.pop(100.0) == []
    assert bench.queue.next_wakeup_s() == math.inf


# Updates and gates --------------------------------------------------------------------------------


def test_an_update_that_its_plugin_waits_for_wakes_a_parked_pod() -> None:
    bench = Bench()
    bench.park("p", [TAINT_TOLERATION])
    bench.update("p", 20.0, labels={"a": "b"})
    assert bench.places() == {"p": "unschedulable"}
    tolerations = [{"key": "a", "operator": "Exists"}]
    bench.update("p", 20.0, labels={"a": "b"}, spec={"tolerations": tolerations})
    assert bench.places() == {"p": "active"}


def test_an_update_of_nothing_that_matters_leaves_a_pod_parked_and_is_kept() -> None:
    bench = Bench()
    pod = bench.park("p", [NODE_RESOURCES_FIT], 1.0)
    bench.update("p", 20.0, resource_version="5")
    assert (pod.place, pod.timestamp_s) == (Place.UNSCHEDULABLE, 1.0)
    assert pod.record.resource_version == "5"


def test_a_gated_pod_waits_until_its_last_gate_is_gone() -> None:
    bench = Bench()
    pod = bench.add("p", 1.0, spec=GATED)
    assert bench.places() == {"p": "gated"}
    assert pod.unschedulable_plugins == {SCHEDULING_GATES}
    assert pod.initial_attempt_s is None
    assert bench.queue.pending_lengths() == QueueLengths(0, 0, 0, 1, 0)
    wake(bench, 2.0)
    bench.update("p", 3.0, labels={"a": "b"}, spec=GATED)
    assert bench.places() == {"p": "gated"}
    bench.update("p", 4.0, labels={"a": "b"})
    assert bench.places() == {"p": "active"}
    assert pod.gated_by == ""
    assert [pod.initial_attempt_s] == [4.0]
    assert bench.pop(5.0) == ["p"]
    assert pod.unschedulable_plugins == frozenset()


def test_a_gated_pod_is_not_even_asked_about_events_that_its_gate_does_not_wait_for() -> None:
    asked: list[str] = []

    def hint(pod: PodView, change: Change, cluster: ClusterView) -> bool:
        asked.append(pod.record.name)
        return True

    bench = Bench(
        registrations={
            "Gate": (ClusterEventWithHint(Resource.NODE, (Action.DELETE,), hint),),
            NODE_NAME: (ClusterEventWithHint(Resource.NODE, (Action.ADD,), hint),),
        },
        pre_enqueue=lambda pod: "Gate" if pod.attempts else None,
    )
    pod = bench.add("p")
    bench.pop()
    wake(bench, 0.1)
    assert bench.queue.requeue_unschedulable("p", [NODE_NAME], (), 0.2) is Place.UNSCHEDULABLE
    assert pod.gated_by == "Gate"
    assert pod.unschedulable_plugins == {"Gate", NODE_NAME}
    asked.clear()
    wake(bench, 20.0)
    assert asked == []
    bench.queue.move_all_to_active_or_backoff(
        ClusterEvent(Resource.NODE, Action.DELETE), NODE, None, 20.0
    )
    assert asked == ["p"]
    assert bench.places() == {"p": "gated"}


def test_a_pod_gated_while_its_proposal_was_refused_waits_at_the_gate() -> None:
    gates: list[str] = []
    bench = Bench(pre_enqueue=lambda pod: gates[0] if gates else None)
    bench.add("p")
    bench.pop()
    gates.append("Gate")
    assert bench.queue.requeue_head("p", 1.0) is Place.UNSCHEDULABLE
    assert bench.places() == {"p": "gated"}


# Activation, priorities, groups -------------------------------------------------------------------


def test_activation_ignores_back_off_and_hints() -> None:
    bench = Bench()
    bench.park("parked", ["ExamplePlugin"])
    bench.park("waits", [NODE_NAME])
    wake(bench, 0.1)
    bench.add("gated", spec=GATED)
    bench.add("tried", 0.1)
    bench.pop(0.1)
    # The early pop took "waits" as well; it comes back with an error.
    bench.queue.requeue_unschedulable("waits", (), (), 0.2)
    uids = ["parked", "waits", "gated", "tried", "nobody"]
    assert bench.moved(bench.queue.activate, uids, 0.3) == 2
    assert bench.places() == {
        "parked": "active",
        "waits": "active",
        "gated": "gated",
        "tried": "in_flight",
    }
    assert bench.queue.requeue_unschedulable("tried", ["Unheard"], (), 0.4) is Place.BACKOFF


def test_an_event_may_be_kept_from_more_important_pods() -> None:
    bench = Bench()
    bench.park("low", [NODE_RESOURCES_FIT], priority=1)
    bench.park("high", [NODE_RESOURCES_FIT], priority=2)
    bench.queue.move_all_to_active_or_backoff(
        ASSIGNED_POD_DELETE, BOUND, None, 20.0, priority_max=1
    )
    assert bench.places() == {"low": "active", "high": "unschedulable"}


def test_an_event_that_no_rejecting_plugin_registered_asks_nobody() -> None:
    asked: list[str] = []

    def hint(pod: PodView, change: Change, cluster: ClusterView) -> bool:
        asked.append(pod.record.name)
        return True

    bench = Bench(
        registrations={
            "P": (ClusterEventWithHint(Resource.NODE, (Action.ADD,), hint),),
            "Q": (ClusterEventWithHint(Resource.ASSIGNED_POD, (Action.ADD,), hint),),
        }
    )
    for i in range(10):
        bench.park(f"p{i}", ["P"], labels={"app": f"a{i}"})
    move = bench.queue.move_all_to_active_or_backoff
    assert bench.moved(move, ASSIGNED_POD_ADD, None, BOUND, 20.0) == 0
    assert asked == []


def test_a_plugin_that_does_not_say_what_helps_it_is_woken_by_everything() -> None:
    bench = Bench(registrations={"P": ANY_EVENT})
    for event in (NODE_ADD, ASSIGNED_POD_DELETE, ClusterEvent(Resource.CSI_NODE, Action.UPDATE)):
        bench.park("p", ["P"])
        assert bench.moved(bench.queue.move_all_to_active_or_backoff, event, None, None, 20.0) == 1
        bench.queue.delete("p")


def test_a_hint_is_asked_once_for_all_pods_of_a_class() -> None:
    asked: list[str] = []

    def hint(pod: PodView, change: Change, cluster: ClusterView) -> bool:
        asked.append(pod.record.name)
        return pod.record.name.startswith("a")

    registered = ClusterEventWithHint(Resource.NODE, (Action.ADD,), hint)
    bench = Bench(registrations={"P": (registered,)})
    for name in ("a1", "a2", "a3"):
        bench.park(name, ["P"], 0.0, labels={"app": "a"})
    for name in ("b1", "b2"):
        bench.park(name, ["P"], 0.0, labels={"app": "b"})
    assert wake(bench, 20.0) == 3
    assert asked == ["a1", "b1"]


def test_pods_of_a_class_are_asked_one_by_one_when_a_hint_reads_their_names() -> None:
    def hint(pod: PodView, change: Change, cluster: ClusterView) -> bool:
        return pod.record.name == "a2"

    registered = ClusterEventWithHint(Resource.NODE, (Action.ADD,), hint, reads_identity=True)
    bench = Bench(registrations={"P": (registered,)})
    for name in ("a1", "a2", "a3"):
        bench.park(name, ["P"])
    for name in ("a4", "a2b"):
        bench.add(name)
    bench.pop()
    assert wake(bench, 20.0) == 1
    assert bench.places()["a2"] == "active"


# Time ---------------------------------------------------------------------------------------------


def test_a_pod_parked_for_more_than_five_minutes_is_tried_again() -> None:
    bench = Bench()
    bench.park("p", ["ExamplePlugin"], 10.0)
    assert bench.moved(bench.queue.flush, 310.0) == 0
    assert bench.queue.next_wakeup_s() == 330.0
    assert bench.moved(bench.queue.flush, 330.0) == 1
    assert bench.places() == {"p": "active"}


def test_exactly_five_minutes_are_not_more_than_five_minutes() -> None:
    bench = Bench()
    bench.park("p", ["ExamplePlugin"], 30.0)
    assert bench.moved(bench.queue.flush, 330.0) == 0
    assert bench.queue.next_wakeup_s() == 360.0
    assert bench.moved(bench.queue.flush, 360.0) == 1


def test_leftovers_are_looked_for_every_30_s_whatever_else_wakes_the_queue() -> None:
    bench = Bench()
    bench.park("old", ["ExamplePlugin"], 1.0)
    assert bench.moved(bench.queue.flush, 303.0) == 0
    assert bench.moved(bench.queue.flush, 329.0) == 0
    assert bench.queue.next_wakeup_s() == 330.0
    assert bench.moved(bench.queue.flush, 331.5) == 1


def test_the_flush_of_leftovers_does_not_open_gates() -> None:
    asked: list[str] = []

    def pre_enqueue(pod: QueuedPod) -> str | None:
        asked.append(pod.record.name)
        return "Gate" if pod.record.name == "p" else None

    bench = Bench(pre_enqueue=pre_enqueue)
    bench.add("p")
    bench.park("old", ["ExamplePlugin"], 0.0)
    asked.clear()
    moved = dict(bench.queue.incoming)
    assert bench.moved(bench.queue.flush, 300.0) == 0
    assert bench.queue.next_wakeup_s() == 330.0
    assert bench.moved(bench.queue.flush, 1000.0) == 1
    assert asked == ["old"], "nobody opens a gate by waiting"
    assert bench.queue.incoming == moved | {("active", "UnschedulableTimeout"): 1}
    assert bench.places() == {"p": "gated", "old": "active"}
    assert {pod.record.name for pod in bench.queue if pod.was_flushed} == {"old"}
    assert bench.queue.next_wakeup_s() == 1020.0


def test_a_flush_of_leftovers_counts_for_pods_in_flight() -> None:
    bench = Bench()
    bench.park("old", ["ExamplePlugin"], 0.0)
    bench.add("p", 1.0)
    bench.pop(1.0)
    bench.queue.flush(330.0)
    assert bench.queue.requeue_unschedulable("p", ["Unheard"], (), 331.0) is Place.BACKOFF


def test_nothing_to_wait_for_is_no_wakeup() -> None:
    bench = Bench()
    bench.add("active")
    assert bench.queue.next_wakeup_s() == math.inf
    bench.pop()
    assert bench.queue.next_wakeup_s() == math.inf


# What it shows ------------------------------------------------------------------------------------


def test_lengths_and_moves_are_counted() -> None:
    bench = Bench()
    bench.park("parked", [NODE_AFFINITY, TAINT_TOLERATION])
    bench.add("gated", spec=GATED)
    bench.add("flying")
    bench.pop()
    bench.add("active")
    assert bench.queue.pending_lengths() == QueueLengths(
        active=1, backoff=0, unschedulable=1, gated=1, in_flight=1
    )
    assert bench.queue.incoming == {
        ("active", "UnschedulablePodAdd"): 3,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("unschedulable", "UnschedulablePodAdd"): 1,
    }


def test_a_pod_that_stays_held_back_has_not_come_anew() -> None:
    """An event of the cluster takes it out first, and so is counted (movePodsToActiveOrBackoffQueue
    upstream); what is about the pod alone does not."""
    gate = "Gate"
    bench = Bench(
        registrations={
            SCHEDULING_GATES: ANY_EVENT,
            gate: ANY_EVENT,
        },
        pre_enqueue=lambda pod: SCHEDULING_GATES if pod.info.spec.scheduling_gates else gate,
    )
    bench.add("p", spec=GATED)
    moved = dict(bench.queue.incoming)
    bench.queue.activate(["p"], 1.0)
    assert bench.update("p", 2.0).gated_by == gate
    assert bench.places() == {"p": "gated"}
    assert bench.queue.incoming == moved
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, NODE, 3.0)
    assert bench.queue.incoming == moved | {("unschedulable", NODE_ADD.label): 1}


def test_nominations_follow_the_pods() -> None:
    bench = Bench()
    pod = bench.add("p")
    bench.queue.nominator.nominate(pod.uid, "n1")
    bench.update("p", 1.0, labels={"a": "b"})
    assert bench.queue.nominator.node_of(pod.uid) == "n1"
    bench.queue.delete("p")
    assert len(bench.queue.nominator.node_by_uid) == 0


def test_a_pod_that_is_held_back_claims_no_nomination() -> None:
    bench = Bench()
    gated = make_pod("p", uid="p", spec=GATED, nominated_node_name="n1")
    pod = bench.put(gated, 0.0)
    assert len(bench.queue.nominator.node_by_uid) == 0
    bench.put(make_pod("p", uid="p", nominated_node_name="n1"), 1.0, is_update=True)
    assert bench.places() == {"p": "active"}
    assert bench.queue.nominator.node_of(pod.uid) == "n1"


def test_a_nominated_pod_that_an_event_lets_in_takes_its_room() -> None:
    gates: list[str | None] = ["Gate", None]
    bench = Bench(registrations={"Gate": ANY_EVENT}, pre_enqueue=lambda _: gates.pop(0))
    pod = bench.put(make_pod("p", uid="p", nominated_node_name="n1"), 0.0)
    assert bench.queue.nominator.node_of(pod.uid) is None
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, NODE, 1.0)
    assert bench.places() == {"p": "active"}
    assert bench.queue.nominator.node_of(pod.uid) == "n1"


def test_a_pod_that_is_let_in_at_last_has_the_node_that_its_status_names() -> None:
    """moveToActiveQ in pkg/scheduler/backend/queue/scheduling_queue.go, v1.36.2: with what another pod
    of its group brought about."""
    held: dict[str, str | None] = {"p": "Gate"}
    bench = Bench(pre_enqueue=lambda pod: held.get(pod.uid))
    bench.add("p", nominated_node_name="n1")
    assert len(bench.queue.nominator.node_by_uid) == 0
    held.clear()
    bench.queue.let_in(["p"], "Gate", "UnschedulablePodAdd", 1.0)
    assert bench.places() == {"p": "active"}
    assert bench.queue.nominator.node_of("p") == "n1"
    # What came of an attempt counts for more than a status that is behind.
    assert bench.pop(1.0) == ["p"]
    bench.queue.nominator.clear("p")
    bench.queue.requeue_unschedulable("p", [NODE_NAME], (), 1.0)
    bench.queue.activate(["p"], 2.0)
    assert len(bench.queue.nominator.node_by_uid) == 0


def test_what_the_status_says_of_a_nomination_does_not_count_for_an_assumed_pod() -> None:
    bench = Bench()
    pod = bench.add("p")
    bench.pop()
    said = make_pod("p", uid="p", nominated_node_name="n1")
    bench.queue.update(said, bench.classes.acquire(said), 1.0, is_assumed=True)
    assert len(bench.queue.nominator.node_by_uid) == 0
    assert pod.record is said


def test_the_check_notices_a_pod_in_the_wrong_place() -> None:
    bench = Bench()
    pod = bench.add("p")
    pod.place = Place.BACKOFF
    with pytest.raises(AssertionError, match="ACTIVE counts 1 pods, holds 0"):
        bench.queue.check_invariants()


# Pods that are asked for by name -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "is_popped"),
    [
        pytest.param("active", True, id="Pod is in activeQ"),
        pytest.param("backoff", True, id="Pod is in backoffQ"),
        pytest.param("unschedulable", True, id="Pod is in unschedulablePods"),
        pytest.param("gated", False, id="Pod is gated in unschedulablePods"),
        pytest.param("gated-before", True, id="Pod was gated, but should be no longer"),
        pytest.param("other", False, id="Pod is not in any queue"),
    ],
)
def test_pop_specific_pod(name: str, is_popped: bool) -> None:
    """TestPriorityQueue_PopSpecificPod in backend/queue/scheduling_queue_test.go, v1.36.2."""
    gated = {"gated", "gated-before"}
    bench = Bench(pre_enqueue=lambda pod: "gate" if pod.record.name in gated else None)
    bench.park("unschedulable", [SCHEDULING_GATES])  # No node helps it.
    bench.park("backoff", [NODE_NAME])
    wake(bench, 0.0)
    for each in ("active", "gated", "gated-before"):
        bench.add(each)
    before = bench.places()
    assert before == {
        "active": "active",
        "backoff": "backoff",
        "unschedulable": "unschedulable",
        "gated": "gated",
        "gated-before": "gated",
    }
    gated.discard("gated-before")
    popped = bench.queue.pop_these([name], 0.0)
    assert [pod.record.name for pod in popped] == ([name] if is_popped else [])
    expected = {**before, name: "in_flight"} if is_popped else before
    assert bench.places() == expected
