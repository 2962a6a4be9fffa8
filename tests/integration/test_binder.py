"""A real binder process between an owner's sockets and the simulated API server over HTTP.

The API server misbehaves on request: before it has carried a request out, or after, when only the
answer is lost. The objects that it holds in the end say what really happened.
"""

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from bench.apiserver import api_status as status
from bench.apiserver.api_faults import Disconnect, Refuse
from shared import exit_codes
from shared.child_plan import ChildPlan
from shared.messages.codec import Drain
from shared.messages.from_binder import BinderReady, BindFailureReason
from shared.messages.to_binder import ReportPods, StatusPatch, Welcome
from shared.runtime_options import RuntimeOptions
from shared.transport.owner_sockets import OwnerSockets
from tests.support.binder_stage import EPOCH, EVENTS, Stage, World
from tests.support.waiting import HANG_S, Fields

pytestmark = pytest.mark.integration


def posts(world: World, name: str) -> int:
    return world.faults.seen[f"POST {name}"]


def until_posted(world: World, count: int) -> None:
    world.await_news(
        lambda: all(posts(world, f"p{number}") for number in range(count)),
        lambda: f"{count} pods are posted; seen was {world.faults.seen}",
    )


def test_pods_are_bound_and_reported(stage: Stage, world: World) -> None:
    tickets = {stage.order(f"p{i}") for i in range(40)}
    assert stage.outcomes(40) == dict.fromkeys(tickets)
    assert {world.node_of(f"p{i}") for i in range(40)} == {"n1"}


def test_a_pod_that_is_bound_elsewhere_is_a_conflict(stage: Stage, world: World) -> None:
    uid = world.new_pod("p")
    world.bind("p", "n2")
    assert stage.outcome(stage.order("p", uid=uid)) is BindFailureReason.CONFLICT
    assert world.node_of("p") == "n2"


def test_a_pod_that_is_gone_or_was_made_anew_is_gone(stage: Stage, world: World) -> None:
    uid = "00000000-0000-0000-0000-000000000000"
    assert stage.outcome(stage.order("nope", uid=uid)) is BindFailureReason.GONE
    world.new_pod("p")
    assert stage.outcome(stage.order("p", uid=uid)) is BindFailureReason.GONE
    assert world.node_of("p") == ""


def test_a_reset_after_the_server_bound_the_pod_is_success_without_a_second_post(
    stage: Stage, world: World
) -> None:
    world.faults.after["POST p"] = [Disconnect()]
    assert stage.outcome(stage.order("p")) is None
    assert (world.node_of("p"), posts(world, "p")) == ("n1", 1)


def test_a_reset_before_the_server_did_anything_is_posted_again_after_a_look(
    stage: Stage, world: World
) -> None:
    world.faults.before["POST p"] = [Disconnect()]
    assert stage.outcome(stage.order("p")) is None
    assert world.node_of("p") == "n1"
    assert (posts(world, "p"), world.faults.seen["GET p"]) == (2, 2)


def test_it_is_posted_until_somebody_answers(stage: Stage, world: World) -> None:
    world.faults.before["POST p"] = [Disconnect()] * 4
    assert stage.outcome(stage.order("p")) is None
    assert (world.node_of("p"), posts(world, "p")) == ("n1", 5)


def test_a_post_that_is_carried_out_late_is_seen_though_the_next_was_refused(
    stage: Stage, world: World
) -> None:
    refused = status.ApiError(422, "no", reason="Invalid")
    world.faults.before["POST p"] = [Disconnect(), Refuse(refused)]
    ticket = stage.order("p")
    world.await_news(
        lambda: world.faults.seen["GET p"] >= 4, lambda: f"looks go on; {world.faults.seen}"
    )
    assert (world.node_of("p"), posts(world, "p")) == ("", 2)
    world.bind("p", "n1")
    assert stage.outcome(ticket) is None


def test_after_two_errors_it_is_given_up(stage: Stage, world: World) -> None:
    broken = Refuse(status.internal("etcdserver: request timed out"))
    world.faults.before["POST p"] = [broken, broken]
    assert stage.outcome(stage.order("p")) is BindFailureReason.REJECTED
    assert (world.node_of("p"), posts(world, "p")) == ("", 2)


def test_an_internal_error_is_resolved_by_a_look(stage: Stage, world: World) -> None:
    broken = Refuse(status.internal("etcdserver: request timed out"))
    world.faults.before["POST p"] = [broken]
    assert stage.outcome(stage.order("p")) is None
    assert (world.node_of("p"), posts(world, "p")) == ("n1", 2)


def test_too_many_requests_is_tried_again_when_the_server_says(stage: Stage, world: World) -> None:
    busy = status.ApiError(429, "too many", reason="TooManyRequests", retry_after_s=0)
    world.faults.before["POST p"] = [Refuse(busy), Refuse(busy)]
    assert stage.outcome(stage.order("p")) is None
    assert (world.node_of("p"), posts(world, "p")) == ("n1", 3)


def test_an_order_to_look_first_does_not_post_what_is_bound(stage: Stage, world: World) -> None:
    uid = world.new_pod("p")
    world.bind("p", "n1")
    assert stage.outcome(stage.order("p", uid=uid, look_first=True)) is None
    assert posts(world, "p") == 1  # Ours, above.
    assert stage.outcome(stage.order("q", look_first=True)) is None
    assert world.node_of("q") == "n1"


def test_a_slow_binding_holds_up_no_other(stage: Stage, world: World) -> None:
    with world.holding("slow"):
        slow = stage.order("slow")
        quick = {stage.order(f"p{i}") for i in range(10)}
        assert set(stage.outcomes(10)) == quick
    assert stage.outcome(slow) is None


def test_a_new_epoch_voids_what_is_queued_and_awaits_what_is_in_flight(
    stage: Stage, world: World
) -> None:
    # Eight are in flight, held up by the server; the others are queued in the binder.
    with world.holding(*(f"p{number}" for number in range(8))):
        for number in range(20):
            stage.order(f"p{number}")
        until_posted(world, 8)
        stage.say(Welcome(EPOCH + 1))
        assert stage.next_of(BinderReady) == BinderReady(EPOCH + 1, 8)
    assert stage.next_of(BinderReady) == BinderReady(EPOCH + 1)
    bound = {number for number in range(20) if world.node_of(f"p{number}")}
    assert bound == set(range(8))
    stage.order("of-the-old-owner")
    ticket = stage.order("new", epoch=EPOCH + 1)
    assert stage.outcomes(1, EPOCH + 1) == {ticket: None}
    assert world.node_of("of-the-old-owner") == ""


def test_a_restarted_owner_is_greeted_without_being_asked(stage: Stage, world: World) -> None:
    assert stage.outcome(stage.order("before")) is None
    stage.owner.close()
    stage.owner = OwnerSockets(stage.runtime_dir)
    stage.welcome(EPOCH + 1)
    ticket = stage.order("after", epoch=EPOCH + 1)
    assert stage.outcomes(1, EPOCH + 1) == {ticket: None}


@pytest.mark.parametrize("is_signal", [False, True])
def test_draining_finishes_and_reports_and_writes_events_then_ends_well(
    stage: Stage, world: World, is_signal: bool
) -> None:
    with world.holding(*(f"p{number}" for number in range(8))):
        tickets = stage.orders([f"p{number}" for number in range(12)])
        until_posted(world, 8)
        if is_signal:
            stage.process.send_signal(signal.SIGTERM)
        else:
            stage.say(Drain())
    assert stage.outcomes(12) == dict.fromkeys(tickets)
    assert stage.process.wait(HANG_S) == 0
    assert len(world.events()) == 12


def test_without_its_supervisor_the_binder_stops(stage: Stage) -> None:
    os.close(stage.lifeline)
    stage.lifeline = -1
    assert stage.process.wait(HANG_S) == 1


def test_conditions_and_events_are_written_as_users_know_them(stage: Stage, world: World) -> None:
    uid = world.new_pod("stuck")
    message = "0/5 nodes are available: 5 Insufficient cpu."
    verdict = StatusPatch(
        profile="default-scheduler",
        namespace="default",
        name="stuck",
        uid=uid,
        reason="Unschedulable",
        message=message,
        write_event=True,
        resource_version="5",
        observed_generation=1,
    )
    stage.say(ReportPods(EPOCH, [verdict]))
    assert stage.outcome(stage.order("fine")) is None
    told_of = world.wait(EVENTS, lambda events: len(events["items"]) == 2, "are about both")
    pod = world.wait_pod("stuck", lambda pod: pod["status"]["conditions"], "has a condition")
    (condition,) = pod["status"]["conditions"]
    del condition["lastTransitionTime"]
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastProbeTime": None,
        "observedGeneration": 1,
    }
    told = {e["reason"]: (e["type"], e["action"], e["note"]) for e in told_of["items"]}
    assert told == {
        "FailedScheduling": ("Warning", "Scheduling", message),
        "Scheduled": ("Normal", "Binding", "Successfully assigned default/fine to n1"),
    }


def test_a_repeated_failure_becomes_a_series_of_one_event(stage: Stage, world: World) -> None:
    uid = world.new_pod("stuck")
    verdict = StatusPatch("p", "default", "stuck", uid, "Unschedulable", "no", write_event=True)
    stage.say(ReportPods(EPOCH, [verdict]))
    world.wait(EVENTS, lambda events: len(events["items"]) == 1, "are about it")
    stage.say(ReportPods(EPOCH, [verdict]))

    def is_series(events: Fields) -> bool:
        return [event["series"]["count"] for event in events["items"]] == [2]

    world.wait(EVENTS, is_series, "are one series")
    assert world.faults.seen["PATCH stuck"] == 1


def test_a_condition_does_not_land_on_another_pod_of_the_same_name(
    stage: Stage, world: World
) -> None:
    world.new_pod("p")
    other = "00000000-0000-0000-0000-000000000000"
    verdict = StatusPatch("p", "default", "p", other, "Unschedulable", "no", write_event=False)
    stage.say(ReportPods(EPOCH, [verdict]))
    world.await_news(lambda: world.faults.seen["PATCH p"] == 1, lambda: "the condition is sent")
    assert stage.outcome(stage.order("q")) is None
    assert not world.pod("p")["status"].get("conditions")


def test_a_server_that_cannot_be_found_is_one_line_and_a_status_that_has_it_tried_again() -> None:
    with tempfile.TemporaryDirectory(prefix="berth-") as folder:
        plan = ChildPlan(options=RuntimeOptions(runtime_dir=folder, server="ftp://x"))
        plan.path.write_bytes(plan.encoded())
        command = [sys.executable, "-m", "workers.binder", str(plan.path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG_S)
    assert done.returncode == exit_codes.FILE_UNUSABLE
    assert len(done.stderr.splitlines()) == 1
    assert "ftp://x" in done.stderr
