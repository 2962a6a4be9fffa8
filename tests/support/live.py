"""A whole berth at work: the simulated API server, and owner, adapter, scorer and binder as processes.

Whoever uses it is a user of the cluster: makes nodes and pods at the API server and waits for what
becomes of them. Nothing sleeps: every wait ends with a watch event, with a line of a plugin, or with
an answer of the owner, and fails after `WAIT_S` with the ends of the processes' logs.

    with LiveBerth(configuration(profile("mine", ...)), {"Mine": "tests.x.plugins:Mine"}) as live:
        live.add_node("n1")
        live.add_pod("p", scheduler="mine")
        assert live.bound("p") == "n1"

Start one for a module (fixture of scope "module"), with a profile for each test, and call `reset`
between tests: starting takes seconds, a test then some 50 ms. Plugins of tests are entry points of a
package that is installed for the processes alone; they tell the test what they do by `tell`.
"""

import asyncio
import http.client
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from bench.apiserver.cluster import ClusterOptions
from bench.apiserver.faults import FaultPlan
from bench.apiserver.server import ApiServer, ServerOptions
from bench.unsupervised import UnsupervisedProcesses
from shared.messages.admin import (
    AdminRequest,
    MetricsAnswer,
    MetricsRequest,
    PendingPod,
    QueueAnswer,
    QueueRequest,
    StatusAnswer,
    StatusRequest,
)
from shared.transport.admin_client import AdminClient, NoAnswerError
from shared.transport.endpoints import Endpoints

WAIT_S: Final = 30.0
"""For what takes milliseconds; a busy machine may need more."""
CHECK_S: Final = 1.0
"""After so long without news we look whether the processes are still there."""
QUESTIONS_MAX: Final = 50_000
"""To the owner in one wait: some 20 s of them."""
CONFLICTS_MAX: Final = 20
"""berth writes a pod's condition once in an attempt, and an attempt needs an event."""
CALLS_ENV: Final = "BERTH_TEST_CALLS"
MARK: Final = b"mark"
ROOT: Final = Path(__file__).parents[2]
T = TypeVar("T")
A = TypeVar("A", StatusAnswer, QueueAnswer, MetricsAnswer)
Json = dict[str, Any]


def profile(scheduler_name: str, plugins: Json | None = None, **args: Json) -> Json:
    """A profile as in a file; `args` by plugin name."""
    config = [{"name": name, "args": given} for name, given in args.items()]
    return {"schedulerName": scheduler_name, "plugins": plugins or {}, "pluginConfig": config}


def enabled(**at: Sequence[str]) -> Json:
    """`plugins` of a profile that enables these at these extension points."""
    return {point: {"enabled": [{"name": name} for name in names]} for point, names in at.items()}


def configuration(*profiles: Json, **fields: Any) -> Json:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": list(profiles),
        **fields,
    }


def tell(plugin: str, point: str, about: str = "") -> None:
    """Called by a plugin under test: the test reads it with `LiveBerth.calls`."""
    path = os.environ.get(CALLS_ENV)
    if path:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.write(fd, json.dumps([plugin, point, about]).encode() + b"\n")
        os.close(fd)


class LiveBerth:
    """From start to end of the processes. Not thread-safe."""

    def __init__(
        self,
        config: Json,
        plugins: Mapping[str, str] | None = None,
        *,
        feature_gates: str = "",
        plugin_path: Sequence[Path] = (),
        disabled_admission: frozenset[str] = frozenset(),
        faults: FaultPlan | None = None,
    ) -> None:
        """`plugins`: entry points (name -> "module:object") to install for the processes;
        `plugin_path`: folders with packages that are installed already."""
        self._folder = Path(tempfile.mkdtemp(prefix="berth-live-"))
        self._changed = threading.Condition()
        self._made: list[str] = []
        """Paths of what is neither pod nor node; `reset` takes it away."""
        self._pods: dict[tuple[str, str], Json] = {}
        self._told: list[tuple[str, str, str]] = []
        self._marks_made = self._marks_read = 0
        """Our own lines among those of the plugins."""
        self._loop = asyncio.new_event_loop()
        self._server = ApiServer(
            ServerOptions(cluster=ClusterOptions(disabled_admission=disabled_admission)),
            faults=faults,
        )
        self.address = self._loop.run_until_complete(self._server.start())
        self._threads = [threading.Thread(target=self._loop.run_forever)]
        self._client = http.client.HTTPConnection(self._host, timeout=WAIT_S)
        self._commands: dict[str, list[str]] = {}
        self._calls_fd = self._open_calls()
        self._threads += [
            threading.Thread(target=self._watch_pods, daemon=True),
            threading.Thread(target=self._read_calls, daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        runtime_dir = self._folder / "run"
        runtime_dir.mkdir(mode=0o700)
        environment = self._make_environment(plugins or {}, plugin_path)
        self._processes = UnsupervisedProcesses(self._folder, runtime_dir, environment)
        self._admin = AdminClient(Endpoints(runtime_dir))
        try:
            self._start(config, feature_gates)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The cluster ---------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Json | None = None, kind: str = "json") -> Json:
        """A request to the API server; the test fails on an error answer."""
        code, content = self._request(method, path, body, kind)
        assert code < http.HTTPStatus.MULTIPLE_CHOICES, content
        return content

    def create(self, path: str, kind: str, body: Json) -> Json:
        """`path` of the collection: "/api/v1/nodes"; the version is read from it."""
        group = path.removeprefix("/api/").removeprefix("/apis/").split("/namespaces/")[0]
        version = group if "/namespaces/" in path else group.rpartition("/")[0]
        made = self.ask("POST", path, {"apiVersion": version, "kind": kind, **body})
        if kind not in ("Node", "Pod"):
            self._made.append(f"{path}/{made['metadata']['name']}")
        return made

    def update(self, path: str, change: Callable[[Json], None], subresource: str = "") -> None:
        """Reads the object, has it changed, writes it to the subresource; anew after a conflict."""
        content: Json = {}
        for _ in range(CONFLICTS_MAX):
            found = self.ask("GET", path)
            change(found)
            code, content = self._request("PUT", f"{path}/{subresource}".rstrip("/"), found)
            if code != http.HTTPStatus.CONFLICT:
                assert code < http.HTTPStatus.MULTIPLE_CHOICES, content
                return
        raise AssertionError(content)

    def delete(self, path: str) -> None:
        """An object that `create` made."""
        self.ask("DELETE", path)
        self._made.remove(path)

    def add_node(self, name: str, *, settle: bool = True, **given: Any) -> None:
        """A ready node, known to the owner on return unless `settle` is False.

        `cpu`, `memory`, `pods`, `labels`, `taints`, `extra` (allocatable), `spec`, `images`.
        """
        sizes = {
            k: str(given.get(k, d)) for k, d in (("cpu", 4), ("memory", "32Gi"), ("pods", 110))
        }
        sizes |= given.get("extra", {})
        labels = {"kubernetes.io/hostname": name, **given.get("labels", {})}
        spec = {"taints": list(given.get("taints", ())), **given.get("spec", {})}
        status = {"capacity": sizes, "allocatable": sizes, "images": given.get("images", [])}
        before = self._node_names() if settle else []
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}
        made = self.create("/api/v1/nodes", "Node", body)
        if made["spec"].get("taints", []) != spec["taints"]:
            made["spec"]["taints"] = spec["taints"]  # No node controller here to do so.
            self.ask("PUT", f"/api/v1/nodes/{name}", made)
        if settle:
            self.until(lambda s: s.node_count == len(before) + 1, f"the owner knows node {name}")

    def add_nodes(self, *names: str, **given: Any) -> None:
        for name in names:
            self.add_node(name, **given)

    def update_node(self, name: str, change: Callable[[Json], None]) -> None:
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
        return self.create(f"/api/v1/namespaces/{namespace}/pods", "Pod", body)

    def update_pod(
        self, name: str, change: Callable[[Json], None], namespace: str = "default"
    ) -> None:
        self.update(f"/api/v1/namespaces/{namespace}/pods/{name}", change)

    def delete_pod(self, name: str, namespace: str = "default") -> None:
        self.ask("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0")

    def reset(self) -> None:
        """Takes all pods, nodes and what `create` made away, and what plugins told; returns when the
        owner knows of pods and nodes."""
        for pod in self.ask("GET", "/api/v1/pods")["items"]:
            self.delete_pod(pod["metadata"]["name"], pod["metadata"]["namespace"])
        self.until(lambda s: s.pod_count == 0 and not any(_lengths(s)), "no pod is left")
        for path in reversed(self._made):
            self._request("DELETE", path)  # One that the test has deleted is not found.
        self._made.clear()
        for name in self._node_names():
            self.delete_node(name)
        self.until(lambda s: s.node_count == 0, "no node is left")
        with self._changed:
            self._changed.wait_for(lambda: not self._pods, WAIT_S)
            self._told.clear()

    # What becomes of it --------------------------------------------------------------------------

    def pod(self, name: str, namespace: str = "default") -> Json | None:
        """As watched last; None: there is none (any more)."""
        with self._changed:
            return self._pods.get((namespace, name))

    def wait_pod(
        self, name: str, is_so: Callable[[Json], Any], what: str, namespace: str = "default"
    ) -> Json:
        """The pod as soon as `is_so` of it."""
        key = (namespace, name)
        pod: Json = self._wait(
            lambda: self._pods.get(key) if key in self._pods and is_so(self._pods[key]) else None,
            lambda: f"pod {namespace}/{name} {what}; it is {json.dumps(self._pods.get(key))}",
        )
        return pod

    def bound(self, name: str, namespace: str = "default") -> str:
        """Waits until the pod is bound; its node."""
        pod = self.wait_pod(name, lambda p: p["spec"].get("nodeName"), "is bound", namespace)
        node: str = pod["spec"]["nodeName"]
        return node

    def unschedulable(
        self, name: str, *, contains: str = "", reason: str = "Unschedulable",
        namespace: str = "default",
    ) -> str:  # fmt: skip
        """Waits until the PodScheduled condition is False with this text; the whole message."""

        def told(pod: Json) -> str | None:
            condition = condition_of(pod)
            if condition is None or condition["status"] != "False":
                return None
            message: str = condition.get("message", "")
            return message if condition.get("reason") == reason and contains in message else None

        pod = self.wait_pod(name, lambda p: told(p) is not None, f"is {reason}", namespace)
        message = told(pod)
        assert message is not None
        return message

    def gone(self, name: str, namespace: str = "default") -> None:
        key = (namespace, name)
        self._wait(lambda: key not in self._pods, lambda: f"pod {namespace}/{name} is gone")

    def nominated(self, name: str, namespace: str = "default") -> str:
        """Waits until the pod is nominated; the node."""

        def node(pod: Json) -> str:
            found: str = pod["status"].get("nominatedNodeName", "")
            return found

        return node(self.wait_pod(name, node, "is nominated", namespace))

    def calls(self, plugin: str, point: str = "") -> list[str]:
        """What a plugin has told so far (`about`), of one extension point or of all."""
        self._hear_all()
        with self._changed:
            return [a for p, at, a in self._told if p == plugin and point in ("", at)]

    def _hear_all(self) -> None:
        """Until what was told by now has been read: lines are read as they were written."""
        self._marks_made += 1
        os.write(self._calls_fd, MARK + b"\n")
        self._wait(
            lambda: self._marks_read == self._marks_made, lambda: "what plugins told is read"
        )

    def wait_call(self, plugin: str, point: str, about: str = "", count: int = 1) -> None:
        """Waits until a plugin has told it so often; an empty `about` stands for all."""

        def seen() -> int:
            return sum((p, at) == (plugin, point) and about in ("", a) for p, at, a in self._told)

        self._wait(
            lambda: seen() >= count,
            lambda: f"{plugin}.{point} {about} {count} times; told was {self._told}",
        )

    def status(self) -> StatusAnswer:
        """What the owner says of itself."""
        return self.until(lambda _: True, "the owner answers")

    def until(self, is_so: Callable[[StatusAnswer], bool], what: str) -> StatusAnswer:
        """Asks the owner until `is_so` of its status."""
        return self._ask_until(StatusRequest(), StatusAnswer, is_so, what)

    def queue(
        self, is_so: Callable[[dict[str, PendingPod]], bool], what: str
    ) -> dict[str, PendingPod]:
        """Asks the owner for its queue, by names of pods, until `is_so` of it."""

        def by_name(answer: QueueAnswer) -> dict[str, PendingPod]:
            return {pod.key.partition("/")[2]: pod for pod in answer.pods}

        found = self._ask_until(QueueRequest(), QueueAnswer, lambda a: is_so(by_name(a)), what)
        return by_name(found)

    def moves(self, event: str, at_least: int = 0) -> int:
        """How many pods of the queue this event moved since the owner's start ("NodeAdd"); waits
        until so many did."""

        def count(answer: MetricsAnswer) -> int:
            counts = answer.labelled
            return sum(
                c.count for c in counts if c.name == "queue_incoming" and c.labels[1] == event
            )

        what = f"{at_least} pods are moved by {event}"
        return count(
            self._ask_until(MetricsRequest(), MetricsAnswer, lambda a: count(a) >= at_least, what)
        )

    def _ask_until(
        self, question: AdminRequest, kind: type[A], is_so: Callable[[A], bool], what: str
    ) -> A:
        answer: A | None = None
        silent_count = 0
        for _ in range(QUESTIONS_MAX):
            try:
                said = self._admin.ask(question, CHECK_S)
            except NoAnswerError:
                silent_count += 1
                self._check(lambda: what)
                if silent_count * CHECK_S >= WAIT_S:
                    break
                continue
            assert isinstance(said, kind), f"the owner answered {type(said).__name__}"
            answer = said
            if is_so(answer):
                return answer
        raise self._failure(f"{what}; the owner says {answer}")

    # Processes -----------------------------------------------------------------------------------

    def restart(self, name: str) -> None:
        """Kills a process ("owner", "adapter", "scorer", "binder") and starts it anew, as the
        supervisor would."""
        self._processes.kill(name)
        self._spawn(name)
        self._await_ready()

    def close(self) -> None:
        """Ends everything. Twice is harmless."""
        self._processes.close()
        if not self._loop.is_closed():
            self._admin.close()
            self._client.close()
            asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(WAIT_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            os.write(self._calls_fd, b"\n")  # An empty line ends the reader.
            for thread in self._threads:
                thread.join(WAIT_S)
            self._loop.close()
            os.close(self._calls_fd)
        shutil.rmtree(self._folder, ignore_errors=True)

    # Inside --------------------------------------------------------------------------------------

    def _request(
        self, method: str, path: str, body: Json | None = None, kind: str = "json"
    ) -> tuple[int, Json]:
        headers = {"Content-Type": f"application/{kind}"}
        self._client.request(method, path, json.dumps(body) if body else None, headers)
        answer = self._client.getresponse()
        content: Json = json.loads(answer.read() or b"{}")
        return answer.status, content

    @property
    def _host(self) -> str:
        return self.address.removeprefix("http://")

    def _open_calls(self) -> int:
        path = self._folder / "calls"
        os.mkfifo(path)
        return os.open(path, os.O_RDWR)  # Our own writing end keeps it open.

    def _make_environment(
        self, plugins: Mapping[str, str], plugin_path: Sequence[Path]
    ) -> dict[str, str]:
        site = self._folder / "site"
        info = site / "berth_test_plugins-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: berth-test-plugins\nVersion: 1.0\n"
        )
        lines = [f"{name} = {target}" for name, target in plugins.items()]
        (info / "entry_points.txt").write_text("\n".join(["[berth.plugins]", *lines, ""]))
        path = os.pathsep.join(str(p) for p in (site, *plugin_path, ROOT))
        return {**os.environ, "PYTHONPATH": path, CALLS_ENV: str(self._folder / "calls")}

    def _start(self, config: Json, feature_gates: str) -> None:
        path = self._folder / "config.yaml"
        path.write_text(json.dumps(config))  # JSON is YAML.
        profiles = ["--config", str(path)]
        gates = ["--feature-gates", feature_gates]
        server = ["--server", self.address]
        self._commands = {
            "owner": ["daemon.owner", *profiles, *gates, "--binders", "1"],
            "adapter": ["daemon.adapter", *server],
            "scorer": ["workers.scorer", *profiles, *gates, "--tie-break", "name"],
            "binder": ["workers.binder", "--index", "0", *profiles, *server],
        }
        for name in self._commands:
            self._spawn(name)
        self._await_ready()

    def _await_ready(self) -> None:
        self.until(lambda s: s.synced and s.scorers_ready > 0 and s.binders_ready > 0, "it starts")

    def _spawn(self, name: str) -> None:
        module, *arguments = self._commands[name]
        self._processes.start(name, module, ["--log-level", "warning", *arguments])

    def _check(self, what: Callable[[], str]) -> None:
        for name, code in self._processes.exit_codes().items():
            raise self._failure(f"{what()}; {name} ended with {code}")

    def _failure(self, what: str) -> AssertionError:
        logs = [f"{name}: {self._processes.log_tail(name)}" for name in self._commands]
        return AssertionError("\n  ".join([f"awaited in vain: {what}", *logs]))

    def _wait(self, found: Callable[[], T | None], what: Callable[[], str]) -> T:
        with self._changed:
            for _ in range(int(WAIT_S / CHECK_S)):
                answer = self._changed.wait_for(found, CHECK_S)
                if answer:
                    return answer
                self._check(what)
            raise self._failure(what())

    def _node_names(self) -> list[str]:
        items = self.ask("GET", "/api/v1/nodes")["items"]
        return [node["metadata"]["name"] for node in items]

    def _watch_pods(self) -> None:
        connection = http.client.HTTPConnection(self._host)
        connection.request("GET", "/api/v1/pods?watch=1&resourceVersion=0")
        answer = connection.getresponse()
        for line in answer:
            event = json.loads(line)
            if event["type"] == "BOOKMARK":
                continue
            pod = event["object"]
            key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
            with self._changed:
                if event["type"] == "DELETED":
                    self._pods.pop(key, None)
                else:
                    self._pods[key] = pod
                self._changed.notify_all()
        answer.close()
        connection.close()

    def _read_calls(self) -> None:
        rest = b""
        while True:
            *lines, rest = (rest + os.read(self._calls_fd, 1 << 16)).split(b"\n")
            with self._changed:
                for line in lines:
                    if not line:
                        return
                    if line == MARK:
                        self._marks_read += 1
                        continue
                    plugin, point, about = json.loads(line)
                    self._told.append((plugin, point, about))
                self._changed.notify_all()


def condition_of(pod: Json, kind: str = "PodScheduled") -> Json | None:
    """A condition of a pod."""
    conditions = pod["status"].get("conditions") or []
    return next((c for c in conditions if c["type"] == kind), None)


def _lengths(status: StatusAnswer) -> list[int]:
    queue = status.queue
    return [getattr(queue, name) for name in queue.__struct_fields__]
