"""The simulated API server under a fault plan, in the test's own event loop, and a mirror of one kind.

The server speaks over real sockets; what the test wants to happen in the cluster is told to it directly,
which no fault touches.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from bench.apiserver.fault_plan import Rule, RulePlan
from bench.apiserver.http_server import ApiServer, ServerOptions
from bench.apiserver.reads import Answer
from bench.apiserver.router import Request, respond
from shared.messages.to_owner import (
    AdapterMessage,
    KindUnavailable,
    NodeChanged,
    NodeDeleted,
    SyncFinished,
    SyncStarted,
)
from tests.support.waiting import HANG_S

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
SHORT_S = 0.5
"""For a server that hangs. On a busy machine it is given up at other times, too, and asked again."""


class FaultyServer:
    """`faulty_server(...)` makes one."""

    def __init__(self, server: ApiServer, rules: Sequence[Rule]) -> None:
        self.server = server
        assert isinstance(server.faults, RulePlan)
        self.plan = server.faults
        self.patience_s = SHORT_S if any(rule.do == "hang" for rule in rules) else HANG_S
        """What a client should give it."""

    @property
    def address(self) -> str:
        return self.server.address

    def do(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Something happens in the cluster."""
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        encoded = b"" if body is None else json.dumps(body).encode()
        token = self.server.options.token
        authorization = f"Bearer {token}" if token else ""
        request = Request(method, path, "", content_type, authorization, encoded, True)
        answer = self.server.carry_out(request)
        assert isinstance(answer, Answer), "not for watches"
        assert answer.code < 300, answer.body
        content: dict[str, Any] = json.loads(answer.body)
        return content

    def add_node(self, name: str) -> None:
        allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
        self.do("POST", NODES, {"metadata": {"name": name}, "status": status})

    def label_node(self, name: str, value: str) -> None:
        self.do("PATCH", f"{NODES}/{name}", {"metadata": {"labels": {"test": value}}})

    def delete_node(self, name: str) -> None:
        self.do("DELETE", f"{NODES}/{name}")

    def add_pod(self, name: str) -> str:
        """Returns its UID."""
        spec = {"containers": [{"name": "c", "image": "i"}]}
        made = self.do("POST", PODS, {"metadata": {"name": name}, "spec": spec})
        uid: str = made["metadata"]["uid"]
        return uid

    def pod(self, name: str) -> dict[str, Any]:
        return self.do("GET", f"{PODS}/{name}")

    def nodes(self) -> dict[str, tuple[str, str]]:
        """Name -> uid and version, as it really is."""
        found = respond(
            self.server.cluster, Request("GET", NODES, "", "", "", b"", True), 0.0, "test"
        )
        assert isinstance(found, Answer)
        metas = [item["metadata"] for item in json.loads(found.body)["items"]]
        return {meta["name"]: (meta["uid"], meta["resourceVersion"]) for meta in metas}


@contextlib.asynccontextmanager
async def faulty_server(*rules: Rule, **options: Any) -> AsyncIterator[FaultyServer]:
    """A running server under these rules."""
    server = ApiServer(ServerOptions(**options), faults=RulePlan(list(rules), seed=1))
    await server.start()
    try:
        yield FaultyServer(server, rules)
    finally:
        await server.stop()


class NodeMirror:
    """Takes what a watch of nodes tells, as the owner does: a list is a difference."""

    is_full = False

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[str, str]] = {}
        self.told: list[str] = []
        """Starts and ends of lists, and unavailability."""
        self._seen: set[str] | None = None
        self._changed = asyncio.Event()

    @property
    def is_listing(self) -> bool:
        return self._seen is not None

    def put(self, message: AdapterMessage, size_bytes: int) -> None:
        match message:
            case NodeChanged(node):
                meta = node.metadata
                self.nodes[meta.name] = (meta.uid, meta.resource_version)
                if self._seen is not None:
                    self._seen.add(meta.name)
            case NodeDeleted(name):
                self.nodes.pop(name, None)
            case SyncStarted():
                self.told.append("started")
                self._seen = set()
            case SyncFinished():
                self.told.append("finished")
                assert self._seen is not None, "a list ends that did not begin"
                self.nodes = {name: self.nodes[name] for name in self._seen if name in self.nodes}
                self._seen = None
            case KindUnavailable():
                self.told.append("unavailable")
            case _:
                self.told.append(type(message).__name__)
        self._changed.set()

    async def room(self) -> None:
        return

    async def until(self, is_so: Callable[["NodeMirror"], bool]) -> None:
        """Waits for something to be so."""
        while not is_so(self):
            self._changed.clear()
            await self._changed.wait()
