"""A real binder process between an owner's sockets and the simulated API server over HTTP.

The API server misbehaves on request: before it has carried a request out, or after, when only the
answer is lost. The objects that it holds in the end say what really happened.
"""

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from bench.apiserver import status
from bench.apiserver.faults import AnswerFault, Delay, Disconnect, Refuse, RequestFault, WatchFault
from bench.apiserver.router import Request
from bench.apiserver.server import ApiServer, ServerOptions
from bench.apiserver.watching import WatchCursor
from shared.messages.frames import PROTOCOL_VERSION
from shared.messages.from_binder import (
    BinderHello,
    BinderReady,
    BindFailed,
    BindFailureReason,
    BindReport,
)
from shared.messages.to_binder import (
    BindPod,
    BindPods,
    Drain,
    PodVerdict,
    ReportPods,
    ToBinder,
    Welcome,
)
from shared.transport.channels import Channel
from shared.transport.endpoints import Endpoints
from shared.transport.owner_sockets import OwnerSockets, Received
from shared.transport.parent import make_lifeline

pytestmark = pytest.mark.integration

M = TypeVar("M", BinderHello, BinderReady, BindReport)
POLL_MS = 5000
EPOCH = 7


class ScriptedFaults:
    """Goes wrong the next time that a request of a kind comes, in the order of the script."""

    is_active = True

    def __init__(self) -> None:
        self.before: dict[str, list[RequestFault]] = {}
        """ "POST name": faults before it is carried out."""
        self.after: dict[str, list[AnswerFault]] = {}
        self.seen: Counter[str] = Counter()

    def before_request(self, request: Request) -> RequestFault | None:
        self.seen[self._kind(request)] += 1
        return self._next(self.before, request)

    def before_answer(self, request: Request, code: int) -> AnswerFault | None:
        return self._next(self.after, request)

    def before_watch_event(self, cursor: WatchCursor) -> WatchFault | None:
        return None

    def _next(self, script: dict[str, list[Any]], request: Request) -> Any:
        faults = script.get(self._kind(request))
        return faults.pop(0) if faults else None

    @staticmethod
    def _kind(request: Request) -> str:
        parts = request.target.split("/")
        if parts[-1] in ("binding", "status"):
            del parts[-1]
        return f"{request.method} {parts[-1]}"


class World:
    """The API server, in a thread of its own, and a client to it."""

    def __init__(self) -> None:
        self.faults = ScriptedFaults()
        self._loop = asyncio.new_event_loop()
        self._server = ApiServer(ServerOptions(), faults=self.faults)
        self.address = self._loop.run_until_complete(self._server.start())
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        connection = http.client.HTTPConnection(self.address.removeprefix("http://"), timeout=10)
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        content: dict[str, Any] = json.loads(answer.read())
        connection.close()
        assert answer.status < 300, content
        return content

    def add_pod(self, name: str) -> str:
        """Makes a pod; returns its UID."""
        containers = [{"name": "c", "image": "i"}]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": containers},
        }
        pod = self.ask("POST", "/api/v1/namespaces/default/pods", body)
        uid: str = pod["metadata"]["uid"]
        return uid

    def pod(self, name: str) -> dict[str, Any]:
        return self.ask("GET", f"/api/v1/namespaces/default/pods/{name}")

    def node_of(self, name: str) -> str:
        node: str = self.pod(name)["spec"].get("nodeName", "")
        return node

    def bind(self, name: str, node: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": node},
        }
        self.ask("POST", f"/api/v1/namespaces/default/pods/{name}/binding", body)

    def events(self) -> list[dict[str, Any]]:
        path = "/apis/events.k8s.io/v1/namespaces/default/events"
        items: list[dict[str, Any]] = self.ask("GET", path)["items"]
        return items


class Stage:
    """An owner's sockets and one binder process."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.endpoints = Endpoints(folder)
        self.owner = OwnerSockets(self.endpoints)
        self.peer = b""
        reading, self.lifeline = make_lifeline()
        command = [
            *(sys.executable, "-m", "workers.binder", "--index", "0"),
            *("--runtime-dir", str(folder), "--server", world.address),
            *("--max-in-flight", "8", "--lifeline-fd", str(reading)),
        ]
        self.process = subprocess.Popen(
            command, pass_fds=[reading], stderr=subprocess.PIPE, text=True
        )
        os.close(reading)
        self._orders: dict[int, BindPod] = {}
        self._inbox: deque[Received] = deque()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()
        self.owner.close()
        if self.lifeline >= 0:
            os.close(self.lifeline)

    def next_of(self, kind: type[M]) -> M:
        """The next message of a kind; others are passed over."""
        while True:
            while self._inbox:
                received = self._inbox.popleft()
                if isinstance(received.message, kind):
                    self.peer = received.peer
                    return received.message
            self._inbox.extend(self.owner.poll(POLL_MS))

    def say(self, message: ToBinder) -> None:
        assert self.owner.send(Channel.BINDERS, self.peer, message)

    def welcome(self, epoch: int = EPOCH) -> None:
        hello = self.next_of(BinderHello)
        assert (hello.protocol_version, hello.binder_index) == (PROTOCOL_VERSION, 0)
        self.say(Welcome(epoch))
        assert self.next_of(BinderReady) == BinderReady(0, epoch)

    def order(
        self, name: str, *, uid: str = "", look_first: bool = False, epoch: int = EPOCH
    ) -> int:
        """Orders a binding to node n1; makes the pod unless its UID is stated."""
        order = self._order(name, uid or self.world.add_pod(name), look_first=look_first)
        self.say(BindPods(epoch, [order]))
        return order.order_id

    def orders(self, names: list[str]) -> set[int]:
        """Orders several at once: the binder has either all of them or none."""
        orders = [self._order(name, self.world.add_pod(name), look_first=False) for name in names]
        self.say(BindPods(EPOCH, orders))
        return {order.order_id for order in orders}

    def _order(self, name: str, uid: str, *, look_first: bool) -> BindPod:
        order_id = len(self._orders) + 1
        order = BindPod(
            order_id, "default-scheduler", "default", name, uid, "n1", look_first=look_first
        )
        self._orders[order_id] = order
        return order

    def outcomes(self, count: int, epoch: int = EPOCH) -> dict[int, BindFailed | None]:
        """Order -> how it failed, or None, of the next so many."""
        found: dict[int, BindFailed | None] = {}
        while len(found) < count:
            report = self.next_of(BindReport)
            assert report.epoch == epoch
            found.update(dict.fromkeys(f.order_id for f in report.finished))
            found.update({f.order_id: f for f in report.failed})
        return found

    def outcome(self, order_id: int) -> BindFailureReason | None:
        found = self.outcomes(1)
        assert list(found) == [order_id]
        failed = found[order_id]
        return failed.reason if failed else None


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


@pytest.fixture
def stage(world: World) -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="berth-") as folder:
        stage = Stage(world, Path(folder))
        stage_is_ready = False
        try:
            stage.welcome()
            stage_is_ready = True
            yield stage
        finally:
            stage.close()
            assert stage_is_ready


def posts(world: World, name: str) -> int:
    return world.faults.seen[f"POST {name}"]


def eventually(world: World, condition: Callable[[], bool]) -> None:
    """Waits for what another process does; each look is a request, the test's limit ends it."""
    changed = threading.Event()
    while not condition():
        changed.wait(0.02)


def test_pods_are_bound_and_reported(stage: Stage, world: World) -> None:
    order_ids = {stage.order(f"p{i}") for i in range(40)}
    assert stage.outcomes(40) == dict.fromkeys(order_ids)
    assert {world.node_of(f"p{i}") for i in range(40)} == {"n1"}


def test_a_pod_that_is_bound_elsewhere_is_a_conflict(stage: Stage, world: World) -> None:
    uid = world.add_pod("p")
    world.bind("p", "n2")
    assert stage.outcome(stage.order("p", uid=uid)) is BindFailureReason.CONFLICT
    assert world.node_of("p") == "n2"


def test_a_pod_that_is_gone_or_was_made_anew_is_gone(stage: Stage, world: World) -> None:
    uid = "00000000-0000-0000-0000-000000000000"
    assert stage.outcome(stage.order("nope", uid=uid)) is BindFailureReason.GONE
    world.add_pod("p")
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


def test_after_two_resets_it_is_not_posted_a_third_time(stage: Stage, world: World) -> None:
    world.faults.before["POST p"] = [Disconnect(), Disconnect()]
    assert stage.outcome(stage.order("p")) is BindFailureReason.TIMEOUT
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
    uid = world.add_pod("p")
    world.bind("p", "n1")
    assert stage.outcome(stage.order("p", uid=uid, look_first=True)) is None
    assert posts(world, "p") == 1  # Ours, above.
    assert stage.outcome(stage.order("q", look_first=True)) is None
    assert world.node_of("q") == "n1"


def test_a_slow_binding_holds_up_no_other(stage: Stage, world: World) -> None:
    world.faults.before["POST slow"] = [Delay(0.5)]
    slow = stage.order("slow")
    quick = {stage.order(f"p{i}") for i in range(10)}
    assert set(stage.outcomes(10)) == quick
    assert stage.outcome(slow) is None


def test_a_new_epoch_voids_what_is_queued_and_awaits_what_is_in_flight(
    stage: Stage, world: World
) -> None:
    # Eight are in flight, held up by the server; the others are queued in the binder.
    for number in range(8):
        world.faults.before[f"POST p{number}"] = [Delay(1.0)]
    for number in range(20):
        stage.order(f"p{number}")
    eventually(world, lambda: all(posts(world, f"p{i}") for i in range(8)))
    stage.say(Welcome(EPOCH + 1))
    assert stage.next_of(BinderReady) == BinderReady(0, EPOCH + 1)
    bound = {number for number in range(20) if world.node_of(f"p{number}")}
    assert bound == set(range(8))
    stage.order("of-the-old-owner")
    order_id = stage.order("new", epoch=EPOCH + 1)
    assert stage.outcomes(1, EPOCH + 1) == {order_id: None}
    assert world.node_of("of-the-old-owner") == ""


def test_a_restarted_owner_is_greeted_without_being_asked(stage: Stage, world: World) -> None:
    assert stage.outcome(stage.order("before")) is None
    stage.owner.close()
    stage.owner = OwnerSockets(stage.endpoints)
    stage.welcome(EPOCH + 1)
    order_id = stage.order("after", epoch=EPOCH + 1)
    assert stage.outcomes(1, EPOCH + 1) == {order_id: None}


@pytest.mark.parametrize("is_signal", [False, True])
def test_draining_finishes_and_reports_and_writes_events_then_ends_well(
    stage: Stage, world: World, is_signal: bool
) -> None:
    for number in range(8):
        world.faults.before[f"POST p{number}"] = [Delay(0.2)]
    order_ids = stage.orders([f"p{number}" for number in range(12)])
    eventually(world, lambda: all(posts(world, f"p{i}") for i in range(8)))
    if is_signal:
        stage.process.send_signal(signal.SIGTERM)
    else:
        stage.say(Drain())
    assert stage.outcomes(12) == dict.fromkeys(order_ids)
    assert stage.process.wait(10) == 0
    assert len(world.events()) == 12


def test_without_its_supervisor_the_binder_stops(stage: Stage) -> None:
    os.close(stage.lifeline)
    stage.lifeline = -1
    assert stage.process.wait(10) == 1


def test_conditions_and_events_are_written_as_users_know_them(stage: Stage, world: World) -> None:
    uid = world.add_pod("stuck")
    message = "0/5 nodes are available: 5 Insufficient cpu."
    verdict = PodVerdict(
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
    eventually(world, lambda: len(world.events()) == 2)
    eventually(world, lambda: bool(world.pod("stuck")["status"].get("conditions")))
    (condition,) = world.pod("stuck")["status"]["conditions"]
    del condition["lastTransitionTime"]
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastProbeTime": None,
        "observedGeneration": 1,
    }
    told = {e["reason"]: (e["type"], e["action"], e["note"]) for e in world.events()}
    assert told == {
        "FailedScheduling": ("Warning", "Scheduling", message),
        "Scheduled": ("Normal", "Binding", "Successfully assigned default/fine to n1"),
    }


def test_a_repeated_failure_becomes_a_series_of_one_event(stage: Stage, world: World) -> None:
    uid = world.add_pod("stuck")
    verdict = PodVerdict("p", "default", "stuck", uid, "Unschedulable", "no", write_event=True)
    stage.say(ReportPods(EPOCH, [verdict]))
    eventually(world, lambda: len(world.events()) == 1)
    stage.say(ReportPods(EPOCH, [verdict]))
    eventually(world, lambda: world.events()[0].get("series", {}).get("count") == 2)
    assert len(world.events()) == 1
    assert world.faults.seen["PATCH stuck"] == 1


def test_a_condition_does_not_land_on_another_pod_of_the_same_name(
    stage: Stage, world: World
) -> None:
    world.add_pod("p")
    other = "00000000-0000-0000-0000-000000000000"
    verdict = PodVerdict("p", "default", "p", other, "Unschedulable", "no", write_event=False)
    stage.say(ReportPods(EPOCH, [verdict]))
    eventually(world, lambda: world.faults.seen["PATCH p"] == 1)
    assert stage.outcome(stage.order("q")) is None
    assert not world.pod("p")["status"].get("conditions")


def test_an_option_that_cannot_be_used_is_one_line_and_status_1(world: World) -> None:
    with tempfile.TemporaryDirectory(prefix="berth-") as folder:
        command = [
            *(sys.executable, "-m", "workers.binder", "--index", "0"),
            *("--runtime-dir", folder, "--server", "ftp://x"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "ftp://x" in done.stderr
