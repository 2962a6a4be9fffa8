"""An API client that answers from a script, and time that passes only in sleeps."""

import json
from typing import Any

from bench.manual_clock import ManualClock
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import ApiError, TransportError
from shared.kube.http_connection import Answer as HttpAnswer
from shared.messages.to_binder import BindPod, StatusPatch
from workers.binder.bind_call import NotBound, Outcome

Answer = bytes | ApiError | TransportError


async def at_once(_: BindPod, outcome: NotBound) -> Outcome:
    """What did not bind a pod, where nothing can come late."""
    return outcome


class FakeApi(ApiClient):
    """Answers the n-th request with the n-th entry; the script must be used up."""

    def __init__(self, *script: Answer) -> None:
        self.script = list(script)
        self.requests: list[tuple[str, str]] = []
        """(method, path)"""
        self.bodies: list[Any] = []

    async def get(self, path: str, *, timeout_s: float | None = None) -> bytes:
        return self._answer("GET", path, b"null")

    async def post(self, path: str, body: bytes, *, timeout_s: float | None = None) -> bytes:
        return self._answer("POST", path, body)

    async def request(
        self, method: str, path: str, body: bytes = b"", *_: Any, **settings: Any
    ) -> HttpAnswer:
        assert method == "POST", "what is not urgent"
        return HttpAnswer(201, await self.post(path, body), None)

    async def put(self, path: str, body: bytes, *, timeout_s: float | None = None) -> bytes:
        return self._answer("PUT", path, body)

    async def patch(
        self, path: str, body: bytes, content_type: str = "", *, timeout_s: float | None = None
    ) -> bytes:
        return self._answer("PATCH", path, body)

    async def delete(
        self, path: str, body: bytes = b"", *, timeout_s: float | None = None
    ) -> bytes:
        return self._answer("DELETE", path, body)

    def _answer(self, method: str, path: str, body: bytes) -> bytes:
        self.requests.append((method, path))
        self.bodies.append(json.loads(body))
        assert self.script, f"unexpected {method} {path}"
        answer = self.script.pop(0)
        if isinstance(answer, bytes):
            return answer
        raise answer

    @property
    def methods(self) -> str:
        """ "POST GET POST": what was asked, in order."""
        return " ".join(method for method, _ in self.requests)


class FakeTime:
    """A clock and the sleep that moves it."""

    def __init__(self) -> None:
        self.clock = ManualClock(1000.0)
        self.sleeps: list[float] = []

    async def sleep(self, delay_s: float) -> None:
        self.sleeps.append(delay_s)
        self.clock.advance(delay_s)


def pod_json(uid: str = "u1", node: str = "") -> bytes:
    spec = {"nodeName": node} if node else {}
    return json.dumps({"kind": "Pod", "metadata": {"uid": uid}, "spec": spec}).encode()


def make_order(ticket: int = 0, *, uid: str = "u1", look_first: bool = False) -> BindPod:
    return BindPod(
        ticket=ticket,
        profile="default-scheduler",
        namespace="ns",
        name=f"pod-{uid}",
        uid=uid,
        node_name="n1",
        look_first=look_first,
        resource_version="17",
    )


def make_verdict(
    uid: str = "u1", message: str = "0/1 nodes are available.", *, write_event: bool = True
) -> StatusPatch:
    return StatusPatch(
        profile="default-scheduler",
        namespace="ns",
        name=f"pod-{uid}",
        uid=uid,
        reason="Unschedulable",
        message=message,
        write_event=write_event,
        resource_version="17",
        observed_generation=1,
    )


def make_nomination(node_name: str, uid: str = "u1") -> StatusPatch:
    return StatusPatch(
        profile="default-scheduler",
        namespace="ns",
        name=f"pod-{uid}",
        uid=uid,
        nominated_node_name=node_name,
    )
