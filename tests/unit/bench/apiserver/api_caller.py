"""Calls the API without HTTP: requests go straight to the router, under a time that tests set."""

import json
from typing import Any

from bench.apiserver.api_cluster import Cluster, ClusterOptions
from bench.apiserver.reads import Answer, parse_list_options
from bench.apiserver.router import Request, respond
from bench.apiserver.served_resources import BY_PATH, PODS, Resource
from bench.apiserver.watching import WatchCursor, WatchStart, start_watch

START_S = 1_800_000_000.0
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class Reply:
    """An answer, decoded."""

    def __init__(self, answer: Answer) -> None:
        self.code = answer.code
        self.body: Any = json.loads(answer.body)

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.body["items"]]


class ApiCaller:
    """One cluster and its clock."""

    def __init__(self, **options: Any) -> None:
        self.now_s = START_S
        self.cluster = Cluster(ClusterOptions(**options), now_s=START_S)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Reply:
        data = b"" if body is None else body if isinstance(body, bytes) else _encode(body)
        return Reply(self.raw(method, path, data, content_type=content_type, accept=accept))

    def raw(
        self,
        method: str,
        path: str,
        data: bytes = b"",
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Answer:
        request = Request(method, path, accept, content_type, "", data, True)
        outcome = respond(self.cluster, request, self.now_s, "127.0.0.1:1")
        assert isinstance(outcome, Answer), "use watch() for watches"
        return outcome

    def create_pod(self, name: str, **spec: Any) -> Reply:
        labels = spec.pop("labels", None)
        return self.call("POST", pods_path(), pod(name, labels=labels, **spec))

    def bind(self, name: str, node: str, **metadata: Any) -> Reply:
        body = {
            "metadata": {"name": name, **metadata},
            "target": {"kind": "Node", "name": node},
        }
        return self.call("POST", f"{pods_path(name)}/binding", body)

    def get_pod(self, name: str) -> Any:
        reply = self.call("GET", pods_path(name))
        assert reply.code == 200, reply.body
        return reply.body

    def watch_start(
        self, resource: Resource = PODS, namespace: str | None = None, **query: str
    ) -> WatchStart:
        options = parse_list_options(resource, namespace, None, {"watch": "1", **query})
        return start_watch(self.cluster, resource, options, metadata_only=False)

    def watch(
        self, resource: Resource = PODS, namespace: str | None = None, **query: str
    ) -> WatchCursor:
        cursor = self.watch_start(resource, namespace, **query).cursor
        assert cursor is not None
        return cursor


def _encode(body: Any) -> bytes:
    return json.dumps(body).encode()


def pods_path(name: str = "", namespace: str = "default") -> str:
    path = f"/api/v1/namespaces/{namespace}/pods"
    return f"{path}/{name}" if name else path


def pod(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def resource(plural: str, group: str = "") -> Resource:
    return BY_PATH[group, "v1", plural]


def events_of(frames: bytes) -> list[dict[str, Any]]:
    """Take chunk-framed watch events apart."""
    events = []
    while frames:
        size_text, _, rest = frames.partition(b"\r\n")
        size = int(size_text, 16)
        assert rest[size : size + 2] == b"\r\n"
        events.append(json.loads(rest[:size]))
        frames = rest[size + 2 :]
    return events


def everything(cursor: WatchCursor) -> list[dict[str, Any]]:
    """Take all that a cursor has to give."""
    events = []
    while not cursor.is_current:
        events += events_of(cursor.take(1 << 20))
    return events


def types_and_names(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["type"], each["object"]["metadata"].get("name", "")) for each in events]
