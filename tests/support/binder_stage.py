"""A real binder process between an owner's sockets and a simulated API server that fails as told."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from bench.apiserver.api_faults import AnswerFault, Hold, RequestFault, WatchFault
from bench.apiserver.router import Request
from bench.apiserver.watching import WatchCursor
from shared.child_plan import ChildPlan
from shared.messages.from_binder import (
    BinderHello,
    BinderReady,
    BindFailed,
    BindFailureReason,
    BindReport,
)
from shared.messages.to_binder import BindPod, BindPods, ToBinder, Welcome
from shared.runtime_options import RuntimeOptions
from shared.transport.channels import Channel
from shared.transport.heard import PeerGone, Said
from shared.transport.owner_sockets import OwnerSockets
from tests.support.live_cluster import LiveCluster, pods_path

M = TypeVar("M", BinderHello, BinderReady, BindReport)
POLL_MS = 5000
EPOCH = 7
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


class ScriptedFaults:
    """Goes wrong the next time that a request of a kind comes, in the order of the script."""

    is_active = True

    def __init__(self, on_request: Callable[[], None]) -> None:
        self._on_request = on_request
        self.before: dict[str, list[RequestFault]] = {}
        """ "POST name": faults before it is carried out."""
        self.after: dict[str, list[AnswerFault]] = {}
        self.seen: Counter[str] = Counter()

    def before_request(self, request: Request) -> RequestFault | None:
        self.seen[self._kind(request)] += 1
        self._on_request()
        fault: RequestFault | None = self._next(self.before, request)
        return fault

    def before_answer(self, request: Request, code: int) -> AnswerFault | None:
        fault: AnswerFault | None = self._next(self.after, request)
        return fault

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


class World(LiveCluster):
    """The API server that fails as told, and a user of it."""

    def __init__(self) -> None:
        self.faults = ScriptedFaults(self._tell)
        super().__init__(faults=self.faults)

    def new_pod(self, name: str) -> str:
        """Makes a pod; returns its UID."""
        grace = {"terminationGracePeriodSeconds": 30}
        uid: str = self.add_pod(name, spec=grace)["metadata"]["uid"]
        return uid

    def node_of(self, name: str) -> str:
        node: str = self.pod(name)["spec"]["nodeName"] or ""
        return node

    def bind(self, name: str, node: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": node},
        }
        self.ask("POST", f"{pods_path()}/{name}/binding", body)

    def events(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.get(EVENTS)["items"]
        return items

    @contextlib.contextmanager
    def holding(self, *names: str) -> Iterator[None]:
        """Bindings of these pods are not carried out before the end."""
        released = self._loop.create_future()
        for name in names:
            self.faults.before[f"POST {name}"] = [Hold(released)]
        yield
        self._loop.call_soon_threadsafe(released.set_result, None)


class Stage:
    """An owner's sockets and one binder process."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.runtime_dir = folder
        self.owner = OwnerSockets(self.runtime_dir)
        self.peer = b""
        reading, self.lifeline = os.pipe()
        options = RuntimeOptions(runtime_dir=str(folder), server=world.address, max_in_flight=8)
        plan = ChildPlan(options=options)
        plan.path.write_bytes(plan.encoded())
        command = [
            *(sys.executable, "-m", "workers.binder", str(plan.path)),
            *("--lifeline-fd", str(reading)),
        ]
        self.process = subprocess.Popen(
            command, pass_fds=[reading], stderr=subprocess.PIPE, text=True
        )
        os.close(reading)
        self._orders: dict[int, BindPod] = {}
        self._inbox: deque[Said | PeerGone] = deque()

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
                if isinstance(received, Said) and isinstance(received.message, kind):
                    self.peer = received.peer
                    return received.message
            self._inbox.extend(self.owner.poll(POLL_MS))

    def say(self, message: ToBinder) -> None:
        assert self.owner.send(Channel.BINDERS, self.peer, message)

    def welcome(self, epoch: int = EPOCH) -> None:
        hello = self.next_of(BinderHello)
        assert hello.binder_index == 0
        self.say(Welcome(epoch))
        assert self.next_of(BinderReady) == BinderReady(epoch)

    def order(
        self, name: str, *, uid: str = "", look_first: bool = False, epoch: int = EPOCH
    ) -> int:
        """Orders a binding to node n1; makes the pod unless its UID is stated."""
        order = self._order(name, uid or self.world.new_pod(name), look_first=look_first)
        self.say(BindPods(epoch, [order]))
        return order.ticket

    def orders(self, names: list[str]) -> set[int]:
        """Orders several at once: the binder has either all of them or none."""
        orders = [self._order(name, self.world.new_pod(name), look_first=False) for name in names]
        self.say(BindPods(EPOCH, orders))
        return {order.ticket for order in orders}

    def _order(self, name: str, uid: str, *, look_first: bool) -> BindPod:
        ticket = len(self._orders) + 1
        order = BindPod(
            ticket, "default-scheduler", "default", name, uid, "n1", look_first=look_first
        )
        self._orders[ticket] = order
        return order

    def outcomes(self, count: int, epoch: int = EPOCH) -> dict[int, BindFailed | None]:
        """Order -> how it failed, or None, of the next so many."""
        found: dict[int, BindFailed | None] = {}
        while len(found) < count:
            report = self.next_of(BindReport)
            assert report.epoch == epoch
            found.update(dict.fromkeys(f for f in report.finished))
            found.update({f.ticket: f for f in report.failed})
        return found

    def outcome(self, ticket: int) -> BindFailureReason | None:
        found = self.outcomes(1)
        assert list(found) == [ticket]
        failed = found[ticket]
        return failed.reason if failed else None


@contextlib.contextmanager
def binder_stage() -> Iterator[Stage]:
    """A binder that was welcomed, and an API server of its own."""
    world = World()
    with tempfile.TemporaryDirectory(prefix="berth-") as folder:
        stage = Stage(world, Path(folder))
        try:
            stage.welcome()
            yield stage
        finally:
            stage.close()
            world.close()
