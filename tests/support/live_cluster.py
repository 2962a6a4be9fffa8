"""A simulated API server in a thread of the test, and a user of its cluster.

What a test knows of the cluster it has from the API server, asked now (`get`, `pod`, `pod_names`) or as
soon as it is so (`wait`, `wait_pod`, `bound`, ...). No copy is kept that could be behind, so what others
were told, and what the test itself has written, is there. What a process of berth knows may be behind
the API server: that is asked of the process, until it is so (`LiveBerth`).

Nothing sleeps: whoever waits looks again when something has changed at the server.
"""

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from bench.apiserver.api_cluster import ClusterOptions
from bench.apiserver.api_faults import FaultPlan
from bench.apiserver.http_server import ApiServer, ServerOptions
from tests.support.waiting import HANG_S, Fields, condition_of, fields_of

CHECK_S: Final = 1.0
"""After so long without news we look whether the processes are still there."""
CONFLICTS_MAX: Final = 20
"""berth writes a pod's condition once in an attempt, and an attempt needs an event."""
EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/default/events"
Json = dict[str, Any]


class _ToldServer(ApiServer):
    """Tells when something has changed."""

    on_change: Callable[[], None]

    def _flush_changes(self) -> None:
        super()._flush_changes()
        self.on_change()


AUTHORIZATION: Final = "Bearer of-the-test"
"""Whoever comes without it is not the test."""


class LiveCluster:
    """From start to end of the server. Not thread-safe."""

    def __init__(
        self,
        *,
        disabled_admission: frozenset[str] = frozenset(),
        faults: FaultPlan | None = None,
    ) -> None:
        self._changed = threading.Condition()
        self._news_count = 0
        self._made: list[str] = []
        """Paths of what is neither pod nor node; `clear` takes it away."""
        self._loop = asyncio.new_event_loop()
        cluster = ClusterOptions(disabled_admission=disabled_admission)
        self._server = _ToldServer(ServerOptions(cluster=cluster), faults=faults)
        self._server.on_change = self._tell
        self.address = self._loop.run_until_complete(self._server.start())
        host = self.address.removeprefix("http://")
        self._client = http.client.HTTPConnection(host, timeout=HANG_S)
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def close(self) -> None:
        """Ends the server. Twice is harmless."""
        if not self._loop.is_closed():
            self._client.close()
            asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(HANG_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    # What the user does --------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Json | None = None, kind: str = "json") -> Json:
        """A request to the API server; the test fails on an error answer."""
        code, text = self._request(method, path, body, kind)
        assert code < http.HTTPStatus.MULTIPLE_CHOICES, text
        content: Json = json.loads(text or b"{}")
        return content

    def create(self, path: str, kind: str, body: Json) -> Json:
        """`path` of the collection: "/api/v1/nodes"; the version is read from it."""
        group = path.removeprefix("/api/").removeprefix("/apis/").split("/namespaces/")[0]
        version = group if "/namespaces/" in path else group.rpartition("/")[0]
        made = self.ask("POST", path, {"apiVersion": version, "kind": kind, **body})
        if kind not in ("Node", "Pod"):
            self._made.append(f"{path}/{made['metadata']['name']}")
        return made

    def update(self, path: str, change: Callable[[Json], object], subresource: str = "") -> None:
        """Reads the object, has it changed, writes it to the subresource; anew after a conflict."""
        text = b""
        for _ in range(CONFLICTS_MAX):
            found = self.ask("GET", path)
            change(found)
            code, text = self._request("PUT", f"{path}/{subresource}".rstrip("/"), found)
            if code != http.HTTPStatus.CONFLICT:
                assert code < http.HTTPStatus.MULTIPLE_CHOICES, text
                return
        raise AssertionError(text)

    def delete(self, path: str) -> None:
        """An object that `create` made."""
        self.ask("DELETE", path)
        self._made.remove(path)

    def add_node(self, name: str, **given: Any) -> None:
        """A ready node: `cpu`, `memory`, `pods`, `labels`, `taints`, `extra` (allocatable), `spec`,
        `images`."""
        sizes = {
            k: str(given.get(k, d)) for k, d in (("cpu", 4), ("memory", "32Gi"), ("pods", 110))
        }
        sizes |= given.get("extra", {})
        labels = {"kubernetes.io/hostname": name, **given.get("labels", {})}
        spec = {"taints": list(given.get("taints", ())), **given.get("spec", {})}
        status = {"capacity": sizes, "allocatable": sizes, "images": given.get("images", [])}
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}
        made = self.create("/api/v1/nodes", "Node", body)
        if made["spec"].get("taints", []) != spec["taints"]:
            made["spec"]["taints"] = spec["taints"]  # No node controller here to do so.
            self.ask("PUT", f"/api/v1/nodes/{name}", made)

    def add_nodes(self, *names: str, **given: Any) -> None:
        for name in names:
            self.add_node(name, **given)

    def update_node(self, name: str, change: Callable[[Json], object]) -> None:
        self.update(f"/api/v1/nodes/{name}", change)

    def delete_node(self, name: str) -> None:
        self.ask("DELETE", f"/api/v1/nodes/{name}")

    def add_pod(self, name: str, *, namespace: str = "default", **given: Any) -> Json:
        """`scheduler`, `cpu`, `memory`, `labels`, `priority`, `node` (bound already), `spec`."""
        requests = {k: str(given[k]) for k in ("cpu", "memory") if k in given}
        requests |= given.get("requests", {})
        container = {"name": "c", "image": "img", "resources": {"requests": requests}}
        spec: Json = {"containers": [container], "terminationGracePeriodSeconds": 0}
        for field, key in (
            ("schedulerName", "scheduler"), ("priority", "priority"), ("nodeName", "node"),
        ):  # fmt: skip
            if key in given:
                spec[field] = given[key]
        metadata: Json = {"name": name, "labels": given.get("labels", {})}
        metadata["annotations"] = given.get("annotations", {})
        body = {"metadata": metadata, "spec": {**spec, **given.get("spec", {})}}
        return self.create(pods_path(namespace), "Pod", body)

    def update_pod(
        self, name: str, change: Callable[[Json], object], namespace: str = "default"
    ) -> None:
        self.update(f"{pods_path(namespace)}/{name}", change)

    def delete_pod(self, name: str, namespace: str = "default") -> None:
        self.ask("DELETE", f"{pods_path(namespace)}/{name}?gracePeriodSeconds=0")

    def delete_all_pods(self) -> None:
        for pod in self.ask("GET", "/api/v1/pods")["items"]:
            self.delete_pod(pod["metadata"]["name"], pod["metadata"]["namespace"])

    def delete_what_was_made(self) -> None:
        """All that `create` made but pods and nodes."""
        for path in reversed(self._made):  # One that the test has deleted is not found.
            # As a claim's that is in use.
            self._request("PATCH", path, {"metadata": {"finalizers": None}}, "merge-patch+json")
            self._request("DELETE", path)
        self._made.clear()

    # What becomes of it --------------------------------------------------------------------------

    def get(self, path: str) -> Fields:
        """An object or a list as the API server has it now."""
        code, text = self._request("GET", path)
        assert code == http.HTTPStatus.OK, text
        return fields_of(text)

    def pod(self, name: str, namespace: str = "default") -> Fields:
        """The pod as the API server has it now; the test fails if there is none."""
        return self.get(f"{pods_path(namespace)}/{name}")

    def pod_names(self, namespace: str = "default") -> set[str]:
        """Of the pods that are there now."""
        return {pod["metadata"]["name"] for pod in self.get(pods_path(namespace))["items"]}

    def node_names(self) -> set[str]:
        """Of the nodes that are there now."""
        return {node["metadata"]["name"] for node in self.get("/api/v1/nodes")["items"]}

    def wait(self, path: str, is_so: Callable[[Fields], Any], what: str) -> Fields:
        """The object (or list) as soon as it is there and `is_so` of it."""
        found = Fields()

        def look() -> Any:
            nonlocal found
            code, text = self._request("GET", path)
            found = fields_of(text) if code == http.HTTPStatus.OK else Fields()
            return found and is_so(found)

        self.await_news(look, lambda: f"{path} {what}; it is {json.dumps(found)}")
        return found

    def wait_pod(
        self, name: str, is_so: Callable[[Fields], Any], what: str, namespace: str = "default"
    ) -> Fields:
        """The pod as soon as it is there and `is_so` of it."""
        return self.wait(f"{pods_path(namespace)}/{name}", is_so, what)

    def bound(self, name: str, namespace: str = "default") -> str:
        """Waits until the pod is bound; its node."""
        pod = self.wait_pod(name, lambda p: p["spec"]["nodeName"], "is bound", namespace)
        node: str = pod["spec"]["nodeName"]
        return node

    def unschedulable(
        self, name: str, *, contains: str = "", reason: str = "Unschedulable",
        namespace: str = "default",
    ) -> str:  # fmt: skip
        """Waits until the PodScheduled condition is False with this text; the whole message."""

        def is_told(pod: Fields) -> bool:
            told = condition_of(pod)
            if (told["status"], told["reason"]) != ("False", reason):
                return False
            return contains in (told["message"] or "")

        pod = self.wait_pod(name, is_told, f"is {reason}: {contains}", namespace)
        message: str = condition_of(pod)["message"] or ""
        return message

    def gone(self, name: str, namespace: str = "default") -> None:
        """Waits until there is no such pod."""
        self.await_news(
            lambda: name not in self.pod_names(namespace),
            lambda: f"pod {namespace}/{name} is gone",
        )

    def nominated(self, name: str, namespace: str = "default") -> str:
        """Waits until the pod is nominated; the node."""
        pod = self.wait_pod(name, nominated_node, "is nominated", namespace)
        return nominated_node(pod)

    def await_news(self, look: Callable[[], Any], what: Callable[[], str]) -> None:
        """Looks after all that changes, until there is what is looked for."""
        end_s = time.monotonic() + HANG_S
        while True:
            seen_count = self._news_count
            if look():
                return
            if time.monotonic() > end_s:
                raise self.failure(what())
            self.check(what)
            self.until_news(seen_count, CHECK_S)

    def until_news(self, seen_count: int, timeout_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._news_count != seen_count, timeout_s)

    def check(self, what: Callable[[], str]) -> None:
        """Fails if nobody is there any more who could bring what is awaited."""

    def failure(self, what: str) -> AssertionError:
        return AssertionError(f"awaited in vain: {what}")

    # Inside --------------------------------------------------------------------------------------

    def _tell(self) -> None:
        with self._changed:
            self._news_count += 1
            self._changed.notify_all()

    def _request(
        self, method: str, path: str, body: Json | None = None, kind: str = "json"
    ) -> tuple[int, bytes]:
        headers = {"Content-Type": f"application/{kind}", "Authorization": AUTHORIZATION}
        self._client.request(method, path, json.dumps(body) if body else None, headers)
        answer = self._client.getresponse()
        return answer.status, answer.read()


def pods_path(namespace: str = "default") -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def nominated_node(pod: Fields) -> str:
    """Empty if the pod is not nominated."""
    found: str = pod["status"]["nominatedNodeName"] or ""
    return found
