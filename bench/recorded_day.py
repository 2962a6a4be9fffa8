"""`python -m bench.recorded_day DIR`: a recording as `berth run --record DIR` keeps it, of a day that
nobody had to wait for: nodes that report each five minutes, pods that come, are bound, run and go.

Written by the recorder itself, on a virtual clock. Pods go to any node with room: the day's scheduler is
not what a replay is measured for. The same arguments make the same day.
"""

import argparse
import heapq
import random
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from bench.manual_clock import ManualClock
from daemon.adapter.recording import Recorder
from shared.kube.resources import ALL_KINDS, NODES, PODS

HOUR_S: Final = 3600.0
NODE_REPORT_S: Final = 300.0
"""The kubelet's nodeStatusReportFrequency."""
BOOKMARK_S: Final = 60.0
PAGE_ITEMS: Final = 500
NODE_CPU_MILLI: Final = 32_000
NODE_MEMORY_MIB: Final = 131_072
IMAGES_A_NODE: Final = 20
WORKLOADS: Final = 200
ZONES: Final = 3
PENDING_SHARE: Final = 0.002
"""Of the pods that come: ask for more than a node has, and stay pending until they go."""


class DayPlan(NamedTuple):
    """How large the day is."""

    node_count: int
    pod_count: int
    """That come during the day."""
    bound_count: int
    """That are there when it begins; about as many are there all the time."""
    hours: float


class _Workload(NamedTuple):
    name: str
    cpu_milli: int
    memory_mib: int
    spec: dict[str, Any]


class _Pod(NamedTuple):
    name: str
    workload: _Workload
    came_s: float
    ends_s: float


class RecordedDay:
    """The day in the making."""

    def __init__(self, folder: Path, plan: DayPlan, seed: int) -> None:
        self._plan = plan
        self._draw = random.Random(seed)
        self._clock = ManualClock(1.0)  # A fixed moment, so that files are named alike.
        self._recorder = Recorder(folder, self._clock)
        self._version = count(1)
        self._names = count(1)
        self._free = [[NODE_CPU_MILLI, NODE_MEMORY_MIB] for _ in range(plan.node_count)]
        self._workloads = [self._workload(number) for number in range(WORKLOADS)]
        self._too_large = self._workload(WORKLOADS, 2 * NODE_CPU_MILLI)
        self._due: list[tuple[float, int, Iterator[float]]] = []
        self.event_count = 0

    def write(self) -> None:
        """All of it."""
        there = [self._there_already() for _ in range(self._plan.bound_count)]
        self._lists(there)
        for pod, node in there:
            self._begin(pod.ends_s, self._goes(pod, node))
        for number in range(self._plan.node_count):
            self._begin(self._draw.uniform(0.0, NODE_REPORT_S), self._reports(number))
        self._begin(BOOKMARK_S, self._bookmarks())
        self._begin(0.0, self._pods_come())
        end_s = self._plan.hours * HOUR_S
        while self._due[0][0] < end_s:
            at_s, _, what = heapq.heappop(self._due)
            self._clock.now_s = 1.0 + at_s
            after_s = next(what, None)
            if after_s is not None:
                self._begin(at_s + after_s, what)
        self._recorder.close()

    def _begin(self, at_s: float, what: Iterator[float]) -> None:
        self.event_count += 1
        heapq.heappush(self._due, (at_s, self.event_count, what))

    def _now_s(self) -> float:
        return self._clock.now_s - 1.0

    # What goes on: each yields how long it is until its next event ------------------------------------

    def _pods_come(self) -> Iterator[float]:
        every_s = self._plan.hours * HOUR_S / max(1, self._plan.pod_count)
        while True:
            now_s = self._now_s()
            fits = self._draw.random() >= PENDING_SHARE
            workload = self._draw.choice(self._workloads) if fits else self._too_large
            self._begin(now_s, self._lives(self._pod(workload, now_s)))
            yield self._draw.expovariate(1.0 / every_s)

    def _lives(self, pod: _Pod) -> Iterator[float]:
        self._tell(PODS.plural, "ADDED", self._pod_object(pod, None, "Pending"))
        yield 0.05
        node = self._room_for(pod.workload)
        if node is None:
            yield pod.ends_s - pod.came_s
            self._tell(PODS.plural, "DELETED", self._pod_object(pod, None, "Pending"))
            return
        self._tell(PODS.plural, "MODIFIED", self._pod_object(pod, node, "Pending"))
        yield 2.0
        self._tell(PODS.plural, "MODIFIED", self._pod_object(pod, node, "Running"))
        yield max(1.0, pod.ends_s - self._now_s())
        yield from self._goes(pod, node)

    def _goes(self, pod: _Pod, node: int) -> Iterator[float]:
        self._tell(PODS.plural, "MODIFIED", self._pod_object(pod, node, "Succeeded"))
        self._free[node][0] += pod.workload.cpu_milli
        self._free[node][1] += pod.workload.memory_mib
        yield 5.0
        self._tell(PODS.plural, "DELETED", self._pod_object(pod, node, "Succeeded"))

    def _reports(self, number: int) -> Iterator[float]:
        while True:
            self._tell(NODES.plural, "MODIFIED", self._node_object(number))
            yield NODE_REPORT_S

    def _bookmarks(self) -> Iterator[float]:
        while True:
            for kind in ALL_KINDS:
                meta = {"resourceVersion": str(next(self._version))}
                self._tell(kind.plural, "BOOKMARK", {"metadata": meta})
            yield BOOKMARK_S

    # What the server tells ----------------------------------------------------------------------------

    def _lists(self, there: list[tuple[_Pod, int]]) -> None:
        nodes = [self._node_object(number) for number in range(self._plan.node_count)]
        pods = [self._pod_object(pod, node, "Running") for pod, node in there]
        for kind in ALL_KINDS:
            items = {NODES.plural: nodes, PODS.plural: pods}.get(kind.plural, [])
            self._recorder.record(kind.plural, "list", b"")
            for start in range(0, max(1, len(items)), PAGE_ITEMS):
                meta = {"resourceVersion": str(next(self._version))}
                if start + PAGE_ITEMS < len(items):
                    meta["continue"] = str(start)
                page = {"metadata": meta, "items": items[start : start + PAGE_ITEMS]}
                self._recorder.record(kind.plural, "page", orjson.dumps(page))
            self._recorder.record(kind.plural, "listed", b"")

    def _tell(self, plural: str, event: str, item: dict[str, Any]) -> None:
        self._recorder.record(plural, "line", orjson.dumps({"type": event, "object": item}))

    def _node_object(self, number: int) -> dict[str, Any]:
        name = f"node-{number:05d}"
        zone = f"zone-{number % ZONES}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
        has = {"cpu": "32", "memory": f"{NODE_MEMORY_MIB}Mi", "pods": "110"}
        images = [
            {"names": [f"registry.example/{self._image((number + i) % WORKLOADS)}"],
             "sizeBytes": 50_000_000 + i}
            for i in range(IMAGES_A_NODE)
        ]  # fmt: skip
        heard = f"2026-01-01T{int(self._now_s() // HOUR_S):02d}:00:00Z"
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": heard}
        return {
            "metadata": self._meta(name, "", labels),
            "spec": {},
            "status": {
                "capacity": has,
                "allocatable": has,
                "conditions": [ready],
                "images": images,
            },
        }

    def _pod_object(self, pod: _Pod, node: int | None, phase: str) -> dict[str, Any]:
        spec = pod.workload.spec
        if node is not None:
            spec = {**spec, "nodeName": f"node-{node:05d}"}
        return {
            "metadata": self._meta(pod.name, "default", {"app": pod.workload.name}),
            "spec": spec,
            "status": {"phase": phase},
        }

    def _meta(self, name: str, namespace: str, labels: dict[str, str]) -> dict[str, Any]:
        meta = {"name": name, "uid": f"uid-{name}", "labels": labels}
        if namespace:
            meta["namespace"] = namespace
        version = {"resourceVersion": str(next(self._version))}
        return {**meta, **version, "creationTimestamp": "2026-01-01T00:00:00Z"}

    # Who comes, and where to --------------------------------------------------------------------------

    def _workload(self, number: int, cpu_milli: int = 0) -> _Workload:
        cpu_milli = cpu_milli or self._draw.choice((100, 250, 500, 1000, 2000, 4000))
        memory_mib = self._draw.choice((256, 512, 1024, 2048, 8192))
        requests = {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi"}
        image = f"registry.example/{self._image(number)}"
        spec: dict[str, Any] = {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "image": image, "resources": {"requests": requests}}],
        }
        app = {"matchLabels": {"app": f"app-{number}"}}
        if number % 5 == 0:
            spec["topologySpreadConstraints"] = [
                {"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone",
                 "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": app}
            ]  # fmt: skip
        if number % 10 == 1:
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": app}
            preferred = [{"weight": 100, "podAffinityTerm": term}]
            spec["affinity"] = {
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
            }
        return _Workload(f"app-{number}", cpu_milli, memory_mib, spec)

    def _image(self, number: int) -> str:
        return f"team-{number % 17}/app-{number}:v1"

    def _there_already(self) -> tuple[_Pod, int]:
        pod = self._pod(self._draw.choice(self._workloads), 0.0)
        node = self._room_for(pod.workload)
        assert node is not None, "fewer pods are there than fit"
        return pod, node

    def _pod(self, workload: _Workload, came_s: float) -> _Pod:
        # As many go as come.
        mean_s = self._plan.hours * HOUR_S * self._plan.bound_count / max(1, self._plan.pod_count)
        ends_s = came_s + 10.0 + mean_s * self._draw.expovariate(1.0)
        return _Pod(f"{workload.name}-{next(self._names):07d}", workload, came_s, ends_s)

    def _room_for(self, workload: _Workload) -> int | None:
        """Any node with room."""
        for _ in range(100):
            number = self._draw.randrange(len(self._free))
            free = self._free[number]
            if free[0] >= workload.cpu_milli and free[1] >= workload.memory_mib:
                free[0] -= workload.cpu_milli
                free[1] -= workload.memory_mib
                return number
        return None


def main(arguments: Sequence[str] | None = None) -> None:
    """Write one."""
    parser = argparse.ArgumentParser(prog="python -m bench.recorded_day", allow_abbrev=False)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=100_000, help="that come during the day")
    parser.add_argument("--bound", type=int, default=30_000, help="that are there all the time")
    parser.add_argument("--hours", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    plan = DayPlan(given.nodes, given.pods, given.bound, given.hours)
    RecordedDay(given.folder, plan, given.seed).write()


if __name__ == "__main__":
    main()
