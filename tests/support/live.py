"""A whole berth at work: the simulated API server, and owner, adapter, scorer and binder as processes.

Whoever uses it is a user of the cluster: makes nodes and pods at the API server and waits for what
becomes of them. Nothing sleeps: every wait ends with a change at the API server, with a line of a
plugin, or with an answer of the owner; what hangs fails after `HANG_S` with the ends of the processes'
logs.

    def start_berth() -> LiveBerth:
        config = configuration(profile("mine", ...))
        return LiveBerth(config, {"Mine": "tests.x.plugins:Mine"})

    def test_it(live: LiveBerth) -> None:
        live.add_node("n1")
        live.add_pod("p", scheduler="mine")
        assert live.bound("p") == "n1"

A file's tests share the processes (`SharedBerth`; the fixture `live` lends them), with a profile for
each test: starting takes seconds, a test then some 50 ms. Plugins of tests are entry points of a package
that is installed for the processes alone; they tell the test what they do by `tell`.

Three have something to say, and each is asked for itself. The API server's word is never behind
(`LiveCluster`). The owner's may be, so it is only ever waited for (`until`, `queue`, `nodes`, `moves`):
what is asserted of it stands in the wait, or is asserted of the answer that the wait returns. A plugin
tells before its answer counts, so `calls` has all that led to what was waited for before; what comes
after is waited for (`wait_call`).
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import msgspec

from bench.apiserver.api_faults import FaultPlan
from bench.conformance.shapes import node_shapes
from bench.unsupervised import UnsupervisedProcesses
from shared.child_plan import BindingPlan, ChildPlan
from shared.messages.admin import (
    AdminRequest,
    DumpRequest,
    MetricsAnswer,
    MetricsRequest,
    PendingPod,
    QueueAnswer,
    QueueRequest,
    StatusAnswer,
    StatusRequest,
    TextAnswer,
)
from shared.runtime_options import RuntimeOptions
from shared.transport.owner_link import NoAnswerError, OwnerLink
from tests.support import binding_file
from tests.support.live_cluster import EVENTS as EVENTS
from tests.support.live_cluster import Json as Json
from tests.support.live_cluster import LiveCluster
from tests.support.waiting import HANG_S, Listed
from tests.support.waiting import Fields as Fields
from tests.support.waiting import condition_of as condition_of

ANSWER_S: Final = 1.0
"""The owner is asked anew after so long, and then after twice as long: it may have died meanwhile."""
PAUSE_S: Final = 0.005
"""Between two questions to the owner, unless something changes: it is to work, too."""
CALLS_ENV: Final = "BERTH_TEST_CALLS"
MARK: Final = b"mark"
ROOT: Final = Path(__file__).parents[2]
A = TypeVar("A", StatusAnswer, QueueAnswer, TextAnswer, MetricsAnswer)

_NO_NODE: Final[Json] = {"allocatable": {}}
_NO_POD: Final = PendingPod("", "", "", 0, [], [], "", "")


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


def install_plugins(site: Path, plugins: Mapping[str, str]) -> Path:
    """A folder for the path of processes that are to find these entry points; it is made."""
    info = site / "berth_test_plugins-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: berth-test-plugins\nVersion: 1.0\n"
    )
    lines = [f"{name} = {target}" for name, target in plugins.items()]
    (info / "entry_points.txt").write_text("\n".join(["[berth.plugins]", *lines, ""]))
    return site


MODULES: Final = {
    "owner": "daemon.owner",
    "adapter": "daemon.adapter",
    "scorer": "workers.scorer",
    "binder": "workers.binder",
}


def _binding(options: RuntimeOptions, environment: Mapping[str, str]) -> BindingPlan:
    """The binders' part of the configuration, made by who can load the plugins."""
    made = subprocess.run(
        [sys.executable, "-P", "-m", binding_file.__name__, options.config, options.feature_gates],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    return msgspec.msgpack.decode(made.stdout, type=BindingPlan)


class LiveBerth(LiveCluster):
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
        before: Callable[[LiveCluster], object] = lambda _: None,
        log_level: str = "warning",
        gang_reservation_s: float = 0.0,
        custom_kinds: tuple[str, ...] = (),
    ) -> None:
        """`plugins`: entry points (name -> "module:object") to install for the processes;
        `custom_kinds`: what they register that berth does not know;
        `plugin_path`: folders with packages that are installed already; `before`: makes what is
        there when the processes start, and stays after `reset`."""
        super().__init__(disabled_admission=disabled_admission, faults=faults)
        self._folder = Path(tempfile.mkdtemp(prefix="berth-live-"))
        self._told: list[tuple[str, str, str]] = []
        self._marks_made = self._marks_read = 0
        """Our own lines among those of the plugins."""
        self._calls_fd = self._open_calls()
        self._reader = threading.Thread(target=self._read_calls, daemon=True)
        self._reader.start()
        runtime_dir = self._folder / "run"
        runtime_dir.mkdir(mode=0o700)
        environment = self._make_environment(plugins or {}, plugin_path)
        config_path = self._folder / "config.yaml"
        config_path.write_text(json.dumps(config))  # JSON is YAML.
        options = RuntimeOptions(
            server=self.address,
            runtime_dir=str(runtime_dir),
            config=str(config_path),
            feature_gates=feature_gates,
            log_level=log_level,
            gang_reservation_s=gang_reservation_s,
            custom_kinds=custom_kinds,
        )
        binding = _binding(options, environment) if config else BindingPlan()
        plan = ChildPlan(options=options, binding=binding, breaks_ties_by_name=True)
        self._processes = UnsupervisedProcesses(self._folder, plan, environment)
        self._admin = OwnerLink(runtime_dir)
        self._runner = asyncio.Runner()
        try:
            before(self)
            self._made.clear()
            self._start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The cluster, known to the owner -------------------------------------------------------------

    def add_node(self, name: str, *, settle: bool = True, **given: Any) -> None:
        """As `LiveCluster.add_node`; known to the owner on return unless `settle` is False."""
        super().add_node(name, **given)
        if settle:
            self.settle_nodes()

    def delete_node(self, name: str) -> None:
        """The owner has forgotten it on return."""
        super().delete_node(name)
        self.settle_nodes()

    def settle_nodes(self) -> None:
        """Until the owner knows the nodes that there are, and no others."""
        names = self.node_names()
        self.nodes(lambda known: known.keys() == names, f"the owner knows the nodes {names}")

    def reset(self) -> None:
        """Takes all pods, nodes and what `create` made away, and what plugins told; returns when the
        owner knows of pods and nodes."""
        self.delete_all_pods()
        self.until(_is_idle, "no pod is left")
        self.delete_what_was_made()
        for name in self.node_names():
            super().delete_node(name)
        self.settle_nodes()
        self._hear_all()
        with self._changed:
            self._told.clear()

    # What plugins tell ---------------------------------------------------------------------------

    def calls(self, plugin: str, point: str = "") -> list[str]:
        """What a plugin has told so far (`about`), of one extension point or of all."""
        self._hear_all()
        with self._changed:
            return [a for p, at, a in self._told if p == plugin and point in ("", at)]

    def _hear_all(self) -> None:
        """Until what was told by now has been read: lines are read as they were written."""
        self._marks_made += 1
        os.write(self._calls_fd, MARK + b"\n")
        self.await_news(
            lambda: self._marks_read == self._marks_made, lambda: "what plugins told is read"
        )

    def wait_call(self, plugin: str, point: str, about: str = "", count: int = 1) -> None:
        """Waits until a plugin has told it so often; an empty `about` stands for all."""

        def is_told() -> bool:
            with self._changed:
                of_it = [(p, at, a) for p, at, a in self._told if about in ("", a)]
            return sum((p, at) == (plugin, point) for p, at, _ in of_it) >= count

        self.await_news(
            is_told, lambda: f"{plugin}.{point} {about} {count} times; told was {self._told}"
        )

    # What the owner knows ------------------------------------------------------------------------

    def until(self, is_so: Callable[[StatusAnswer], bool], what: str) -> StatusAnswer:
        """Asks the owner until `is_so` of its status. What it has not counted yet is 0."""

        def counted(answer: StatusAnswer) -> StatusAnswer:
            return msgspec.structs.replace(answer, counters=Listed(answer.counters, 0))

        request = StatusRequest()
        found = self._ask_until(request, StatusAnswer, lambda a: is_so(counted(a)), what)
        return counted(found)

    def queue(self, is_so: Callable[[Listed[PendingPod]], bool], what: str) -> Listed[PendingPod]:
        """Asks the owner for its queue, by names of pods, until `is_so` of it. A pod that is not in it
        has no place and no attempts."""

        def by_name(answer: QueueAnswer) -> Listed[PendingPod]:
            return Listed({pod.key.partition("/")[2]: pod for pod in answer.pods}, _NO_POD)

        found = self._ask_until(QueueRequest(), QueueAnswer, lambda a: is_so(by_name(a)), what)
        return by_name(found)

    def nodes(self, is_so: Callable[[Listed[Json]], bool], what: str) -> Listed[Json]:
        """Asks the owner for its nodes, by name, until `is_so` of them, in the shape of the corpus. One
        that it does not know has nothing."""

        def by_name(answer: TextAnswer) -> Listed[Json]:
            return Listed(node_shapes(answer.lines), _NO_NODE)

        found = self._ask_until(DumpRequest(), TextAnswer, lambda a: is_so(by_name(a)), what)
        return by_name(found)

    def moves(self, event: str, at_least: int = 0) -> int:
        """How many pods of the queue this event moved since the owner's start ("NodeAdd"); waits
        until so many did."""

        def count(answer: MetricsAnswer) -> int:
            counts = answer.measured.counts
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
        patience_s = ANSWER_S
        end_s = time.monotonic() + HANG_S
        while time.monotonic() < end_s:
            seen_count = self._news_count
            try:
                said = self._runner.run(self._admin.ask(question, kind, patience_s))
            except NoAnswerError:
                patience_s *= 2
                self.check(lambda: what)
                continue
            answer = said
            if is_so(answer):
                return answer
            self.check(lambda: what)
            self.until_news(seen_count, PAUSE_S)
        raise self.failure(f"{what}; the owner says {answer}")

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
        self._runner.close()
        if self._reader.is_alive():
            os.write(self._calls_fd, b"\n")  # An empty line ends the reader.
            self._reader.join()
            os.close(self._calls_fd)
        super().close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def check(self, what: Callable[[], str]) -> None:
        for name, code in self._processes.exit_codes().items():
            raise self.failure(f"{what()}; {name} ended with {code}")

    def failure(self, what: str) -> AssertionError:
        logs = [f"{name}: {self._processes.log_tail(name)}" for name in MODULES]
        return AssertionError("\n  ".join([f"awaited in vain: {what}", *logs]))

    def grep(self, text: str) -> list[str]:
        """The lines of all processes' logs that have it."""
        return [
            line
            for path in sorted(self._folder.glob("*.log"))
            for line in path.read_text(encoding="utf-8").splitlines()
            if text in line
        ]

    # Inside --------------------------------------------------------------------------------------

    def _open_calls(self) -> int:
        path = self._folder / "calls"
        os.mkfifo(path)
        return os.open(path, os.O_RDWR)  # Our own writing end keeps it open.

    def _make_environment(
        self, plugins: Mapping[str, str], plugin_path: Sequence[Path]
    ) -> dict[str, str]:
        site = install_plugins(self._folder / "site", plugins)
        path = os.pathsep.join(str(p) for p in (site, *plugin_path, ROOT))
        return {**os.environ, "PYTHONPATH": path, CALLS_ENV: str(self._folder / "calls")}

    def _start(self) -> None:
        for name in MODULES:
            self._spawn(name)
        self._await_ready()

    def _await_ready(self) -> None:
        self.until(lambda s: s.synced and s.scorers_ready > 0 and s.binders_ready > 0, "it starts")

    def _spawn(self, name: str) -> None:
        self._processes.start(name, MODULES[name])

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
            self._tell()


class SharedBerth:
    """The processes that a file's tests share: started for the first test, and for the next one after
    whatever failed to start or to be put back as it was."""

    def __init__(self, start: Callable[[], AbstractContextManager[LiveBerth]]) -> None:
        self._start = start
        self._berth: LiveBerth | None = None
        self._running = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @contextmanager
    def lend(
        self, put_back: Callable[[LiveBerth], object] = lambda berth: berth.reset()
    ) -> Iterator[LiveBerth]:
        """For one test; without anything that another has made."""
        if self._berth is None:
            self._berth = self._running.enter_context(self._start())
        try:
            yield self._berth
            put_back(self._berth)
        except BaseException:
            self._berth = None
            self._running.close()
            raise


def _is_idle(status: StatusAnswer) -> bool:
    queue = status.queue
    lengths = [getattr(queue, name) for name in queue.__struct_fields__]
    return not any((status.pod_count, status.assumed_pod_count, status.binds_in_flight, *lengths))
