"""Runs a workload's operations, in order, against a cluster; measures between start and stop.

What each opcode does is upstream's (test/integration/scheduler_perf/executor.go, v1.36), with three
differences: bodies are encoded before the first of them is sent, so that the load costs little while
it is measured; pods are named by the client (`object_template.Names`); and where no API server is
between us and the owner, an operation that creates nodes, namespaces or other objects than pods ends
when the owner has them (`ClusterApi.until_taken_in`), as it would have when they had gone through one.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Final, NamedTuple, assert_never

import orjson

from bench.apiserver.resources import BY_PATH
from bench.demo.workload import Workload as Trace
from bench.demo.workload import openb_workload
from bench.perf import operations as ops
from bench.perf.book import PodBook
from bench.perf.cluster_api import ClusterApi
from bench.perf.config_file import Plan, duration_s
from bench.perf.object_template import JsonObject, Names, ObjectTemplate, Series
from bench.perf.owner_metrics import ATTEMPTS
from bench.perf.samples import (
    Buckets,
    Percentiles,
    Throughput,
    latencies_ms,
    throughput,
    total,
)
from shared.clock import Clock
from shared.errors import OperationalError

CHURN_INTERVAL_MS: Final = 500
HOSTNAME: Final = "kubernetes.io/hostname"
NAMESPACES: Final = BY_PATH["", "v1", "namespaces"]
NODES: Final = BY_PATH["", "v1", "nodes"]
PODS: Final = BY_PATH["", "v1", "pods"]

DEFAULT_NODE: Final[JsonObject] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"generateName": "sample-node-"},
    "status": {
        "capacity": {"pods": "110", "cpu": "4", "memory": "32Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "phase": "Running",
    },
}
"""A node where the operation names no template (`getNodePreparer` upstream)."""


_AMOUNTS: Final = {"cpu": "100m", "memory": "500Mi"}
DEFAULT_POD: Final[JsonObject] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "pod-"},
    "spec": {
        "containers": [
            {
                "name": "pause",
                "image": "registry.k8s.io/pause:3.10.1",
                "ports": [{"containerPort": 80}],
                "resources": {"limits": _AMOUNTS, "requests": _AMOUNTS},
            }
        ]
    },
}
"""A pod where neither operation nor case names a template (`makeBasePod` upstream)."""


class WorkloadFailedError(OperationalError):
    """A workload did not come to its end."""


class Interval(NamedTuple):
    """One stretch of a workload that was measured."""

    name: str
    namespaces: tuple[str, ...]
    start_s: float
    end_s: float
    pod_count: int
    """Bound within it."""
    rates: Throughput | None
    latency_ms: Percentiles | None
    attempt_ms: Percentiles | None
    attempts_by_result_ms: Mapping[str, Percentiles]


class _Collecting(NamedTuple):
    name: str
    namespaces: tuple[str, ...]
    labels: Mapping[str, str]
    start_s: float
    attempts: Mapping[str, Buckets]
    """Of the owner, by result, when it began."""


class Executor:
    """One run of one workload."""

    def __init__(
        self,
        plan: Plan,
        cluster: ClusterApi,
        clock: Clock,
        *,
        on_measuring: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """`on_measuring` is told when a measurement begins (True) and ends."""
        self._plan = plan
        self._cluster = cluster
        self._book: PodBook = cluster.book
        self._clock = clock
        self._on_measuring = on_measuring
        self._names = Names()
        self._templates: dict[str, ObjectTemplate] = {}
        self._namespaces: dict[str, int] = {}
        """Known namespaces -> pods that a barrier has to wait for."""
        self._expected: dict[str, int] = {}
        """Pods that were created so far, by namespace."""
        self._background: set[asyncio.Task[None]] = set()
        self._collecting: _Collecting | None = None
        self._node_index = 0
        self._trace: Trace | None = None
        self.intervals: list[Interval] = []
        self.operation_index = -1

    async def run(self) -> None:
        """All operations; raises the first failure, also of those that run beside the others."""
        async with asyncio.TaskGroup() as tasks:
            for index, operation in enumerate(self._plan.operations):
                self.operation_index = index
                await self._run(operation, index, tasks)
            for task in self._background:
                task.cancel()
        if self._collecting is not None:
            raise WorkloadFailedError("startCollectingMetrics without stopCollectingMetrics")

    def told(self) -> str:
        """Where it stands, for the message of a failure."""
        return f"operation {self.operation_index}; pods: {self._book.told()}"

    async def _run(self, operation: ops.Operation, index: int, tasks: asyncio.TaskGroup) -> None:
        match operation:
            case ops.CreateNodes():
                await self._create_nodes(operation)
                await self._cluster.until_taken_in()
            case ops.CreateNamespaces():
                await self._create_namespaces(operation)
                await self._cluster.until_taken_in()
            case ops.CreatePods():
                await self._create_pods(operation, index)
            case ops.CreatePodSets():
                for number in range(operation.count):
                    namespace = f"{operation.namespace_prefix}-{number}"
                    await self._create_pods(operation.create_pods_op, index, namespace)
            case ops.CreateAny():
                await self._create_any(operation)
                await self._cluster.until_taken_in()
            case ops.UpdateAny():
                await self._update_any(operation)
            case ops.DeletePods():
                await self._delete_pods(operation, tasks)
            case ops.Churn():
                await self._churn(operation, index, tasks)
            case ops.Barrier():
                await self._barrier(operation)
            case ops.Sleep():
                await asyncio.sleep(duration_s(operation.duration))
            case ops.StartCollectingMetrics():
                await self._start(operation.name, operation.namespaces, operation.label_selector)
            case ops.StopCollectingMetrics():
                await self._stop()
            case ops.CreateTrace():
                await self._create_trace(operation, index)
            case _:
                assert_never(operation)

    # Objects --------------------------------------------------------------------------------------

    def _template(self, path: str) -> ObjectTemplate:
        template = self._templates.get(path)
        if template is None:
            template = self._templates[path] = ObjectTemplate(self._plan.path(path))
        return template

    async def _create(self, series: Series, arrivals_s: Sequence[float] | None = None) -> None:
        await self._cluster.create(await self._cluster.prepare(series), arrivals_s)

    async def _create_nodes(self, operation: ops.CreateNodes) -> None:
        count, path = operation.count, operation.node_template_path
        template = self._template(path) if path else None
        strategy, unique = (
            operation.label_node_prepare_strategy,
            operation.unique_node_label_strategy,
        )
        first_index = self._node_index
        self._node_index += count

        def make(index: int, value: str) -> JsonObject:
            params = operation.template_params
            body = DEFAULT_NODE if template is None else template.body(index, count, params)
            metadata = body.get("metadata") or {}
            labels = dict(metadata.get("labels") or {})
            if strategy is not None:
                labels[strategy.label_key] = value
            if unique is not None:
                labels[unique.label_key] = f"value-{first_index + index:06d}"
            return {**body, "metadata": {**metadata, "labels": labels}}

        is_uniform = (template is None or template.is_uniform) and unique is None
        values = strategy.label_values if strategy is not None else [""]
        # Nodes of one label value are equal; the values take turns, as upstream's strategy has it.
        by_value = [(value, range(i, count, len(values))) for i, value in enumerate(values)]
        for value, indices in by_value:
            if indices:
                names = [self._names.take(make(i, value)) for i in indices]
                made = partial(_at, make, indices, value)
                await self._create(Series(NODES, "", names, made, is_uniform, (HOSTNAME,)))

    async def _create_namespaces(self, operation: ops.CreateNamespaces) -> None:
        path = operation.namespace_template_path
        for number in range(operation.count):
            name = f"{operation.prefix}-{number}"
            body = self._template(path).body(number, operation.count, {}) if path else {}
            await self._ensure_namespace(name, body)

    async def _ensure_namespace(self, name: str, body: JsonObject | None = None) -> None:
        if name in self._namespaces:
            return
        self._namespaces[name] = 0
        full = {"apiVersion": "v1", "kind": "Namespace", **(body or {})}
        await self._create(Series(NAMESPACES, "", [name], lambda _: full, True))

    async def _create_pods(
        self, operation: ops.CreatePods, index: int, namespace: str = ""
    ) -> None:
        namespace = namespace or operation.namespace or f"namespace-{index}"
        await self._ensure_namespace(namespace)
        path = operation.pod_template_path or self._plan.case.default_pod_template_path
        template, count = self._template(path) if path else None, operation.count
        is_uniform = template is None or template.is_uniform
        make = partial(_pod_body, template, count, operation.template_params)
        names = [self._names.take(make(0 if is_uniform else i)) for i in range(count)]
        series = Series(PODS, namespace, names, make, is_uniform)
        arrivals_s = None
        if operation.arrival_per_second:
            arrivals_s = poisson(count, operation.arrival_per_second, operation.arrival_seed)
        prepared = await self._cluster.prepare(series)
        if operation.collect_metrics:
            await self._start(namespace, (namespace,), {})
        if operation.steady_state:
            await self._create_steadily(operation, namespace, series)
        else:
            await self._cluster.create(prepared, arrivals_s)
            self._expected[namespace] = self._expected.get(namespace, 0) + count
            if operation.skip_wait_to_completion:
                self._namespaces[namespace] += count
            else:
                await self._book.until(namespace, "Scheduled", self._expected[namespace])
        if operation.collect_metrics:
            await self._stop()

    async def _create_steadily(
        self, operation: ops.CreatePods, namespace: str, series: Series
    ) -> None:
        """Keeps `count` pods pending: each that is bound is deleted and another one created."""
        count = operation.count
        gone = bound = 0
        await self._cluster.create(await self._cluster.prepare(series))
        try:
            async with asyncio.timeout(duration_s(operation.duration)):
                while True:
                    await self._book.until(namespace, "Scheduled", bound + 1)
                    placed = list(self._book.of(namespace).bound_s)[bound:]
                    bound += len(placed)
                    for name in placed:
                        await self._cluster.delete(PODS, namespace, name)
                    gone += len(placed)
                    body = series.make(0)
                    names = [self._names.take(body) for _ in placed]
                    await self._create(
                        Series(PODS, namespace, names, series.make, series.is_uniform)
                    )
        except TimeoutError:
            if not gone:
                raise WorkloadFailedError(
                    f"none of {count} pods was bound in {operation.duration}"
                ) from None

    async def _create_any(self, operation: ops.CreateAny) -> None:
        template = self._template(operation.template_path)
        if operation.namespace:
            await self._ensure_namespace(operation.namespace)
        count = 1 if operation.count is None else operation.count
        make = partial(_template_body, template, count, operation.template_params)
        names = [self._names.take(make(i)) for i in range(count)]
        _check_scope(template, operation.namespace)
        await self._create(
            Series(template.resource, operation.namespace, names, make, template.is_uniform)
        )

    async def _update_any(self, operation: ops.UpdateAny) -> None:
        template = self._template(operation.template_path)
        _check_scope(template, operation.namespace)
        count = 1 if operation.count is None else operation.count
        start_s = self._clock.monotonic_s()
        for index in range(count):
            if operation.update_per_second:
                due_s = start_s + (index + 1) / operation.update_per_second
                await asyncio.sleep(max(0.0, due_s - self._clock.monotonic_s()))
            body = template.body(index, count, operation.template_params)
            await self._cluster.update(
                template.resource, operation.namespace, body, operation.subresources
            )

    async def _delete_pods(self, operation: ops.DeletePods, tasks: asyncio.TaskGroup) -> None:
        book = self._book.of(operation.namespace)
        wanted = operation.label_selector.items()
        names = [
            name
            for name in sorted(book.live)
            if all(book.labels.get(name, {}).get(key) == value for key, value in wanted)
        ]
        per_s = operation.delete_pods_per_second

        async def delete_all() -> None:
            start_s = self._clock.monotonic_s()
            for number, name in enumerate(names, 1):
                if per_s:
                    wait_s = start_s + number / per_s - self._clock.monotonic_s()
                    await asyncio.sleep(max(0.0, wait_s))
                await self._cluster.delete(PODS, operation.namespace, name)

        await self._now_or_beside(delete_all(), operation.skip_wait_to_completion, tasks)

    async def _now_or_beside(
        self, work: Coroutine[Any, Any, None], is_beside: bool, tasks: asyncio.TaskGroup
    ) -> None:
        if not is_beside:
            await work
            return
        task = tasks.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _churn(self, operation: ops.Churn, index: int, tasks: asyncio.TaskGroup) -> None:
        namespace = operation.namespace or f"namespace-{index}"
        await self._ensure_namespace(namespace)
        every_s = (operation.interval_milliseconds or CHURN_INTERVAL_MS) / 1000
        templates = [self._template(path) for path in operation.template_paths]
        steps = [
            _Churning(self._create, self._cluster, self._names, t, namespace) for t in templates
        ]
        if operation.mode == "recreate" and not operation.number:
            raise WorkloadFailedError(f"operation {index}: churn: recreate needs a number")

        async def churn() -> None:
            start_s, count = self._clock.monotonic_s(), 0
            while operation.mode == "recreate" or not operation.number or count < operation.number:
                due_s = start_s + (count + 1) * every_s
                await asyncio.sleep(max(0.0, due_s - self._clock.monotonic_s()))
                for step in steps:
                    await step.create_or_delete(
                        count % operation.number if operation.mode == "recreate" else None
                    )
                count += 1

        await self._now_or_beside(churn(), True, tasks)

    async def _barrier(self, operation: ops.Barrier) -> None:
        if operation.label_selector:
            raise WorkloadFailedError("barrier: labelSelector is not supported yet")
        for namespace in operation.namespaces or list(self._namespaces):
            if namespace not in self._namespaces:
                raise WorkloadFailedError(f"barrier: unknown namespace {namespace}")
            count = self._namespaces[namespace]
            await self._book.until(namespace, operation.stage_requirement, count)
            if operation.stage_requirement == "Scheduled":
                self._namespaces[namespace] = 0

    async def _create_trace(self, operation: ops.CreateTrace, index: int) -> None:
        if self._trace is None:
            self._trace = openb_workload()
        if operation.what == "nodes":
            nodes = [orjson.loads(body) for body in self._trace.nodes]
            names = [node["metadata"]["name"] for node in nodes]
            await self._create(Series(NODES, "", names, nodes.__getitem__, False))
            await self._cluster.until_taken_in()
            return
        namespace = operation.namespace or f"namespace-{index}"
        await self._ensure_namespace(namespace)
        pods = [_moved(orjson.loads(pod.body), namespace) for pod in self._trace.pods]
        names = [pod.name for pod in self._trace.pods]
        prepared = await self._cluster.prepare(
            Series(PODS, namespace, names, pods.__getitem__, False)
        )
        if operation.collect_metrics:
            await self._start(namespace, (namespace,), {})
        await self._cluster.create(prepared)
        # A trace asks for more than there is: it is over when every pod has had its answer.
        await self._book.until(namespace, "Attempted", len(names))
        if operation.collect_metrics:
            await self._stop()

    # Measuring ------------------------------------------------------------------------------------

    async def _start(self, name: str, namespaces: Sequence[str], labels: Mapping[str, str]) -> None:
        if self._collecting is not None:
            raise WorkloadFailedError("metrics are collected already; stop that first")
        attempts = await self._cluster.histogram(ATTEMPTS)
        self._on_measuring(True)
        now_s = self._clock.monotonic_s()
        self._collecting = _Collecting(name, tuple(namespaces), labels, now_s, attempts)

    async def _stop(self) -> None:
        if self._collecting is None:
            raise WorkloadFailedError("stopCollectingMetrics without startCollectingMetrics")
        name, namespaces, labels, start_s, before = self._collecting
        end_s = self._clock.monotonic_s()
        self._on_measuring(False)
        self._collecting = None
        attempts = {
            result: now - before.get(result, Buckets())
            for result, now in (await self._cluster.histogram(ATTEMPTS)).items()
        }
        by_result = {result: each.percentiles_ms() for result, each in attempts.items()}
        pods = self._book.selected(namespaces, labels)
        self.intervals.append(
            Interval(
                name=name,
                namespaces=namespaces,
                start_s=start_s,
                end_s=end_s,
                pod_count=sum(start_s <= bound <= end_s for _, bound in pods),
                rates=throughput(pods, start_s, end_s),
                latency_ms=latencies_ms(pods, start_s, end_s),
                attempt_ms=total(list(attempts.values())).percentiles_ms(),
                attempts_by_result_ms={r: each for r, each in by_result.items() if each},
            )
        )


class _Churning:
    """The objects of one template that come and go."""

    def __init__(
        self,
        create: Callable[[Series], Awaitable[None]],
        cluster: ClusterApi,
        names: Names,
        template: ObjectTemplate,
        namespace: str,
    ) -> None:
        self._create = create
        self._cluster = cluster
        self._names = names
        self._template = template
        self._namespace = namespace if template.resource.is_namespaced else ""
        self._there: dict[int, str] = {}

    async def create_or_delete(self, slot: int | None) -> None:
        """None: create one more. Else what is in the slot goes, or something comes into it."""
        resource = self._template.resource
        if slot is not None and slot in self._there:
            await self._cluster.delete(resource, self._namespace, self._there.pop(slot))
            return
        make = partial(_template_body, self._template, 1, {})
        name = self._names.take(make(0))
        await self._create(Series(resource, self._namespace, [name], make, True))
        if slot is not None:
            self._there[slot] = name


def poisson(count: int, per_s: float, seed: int) -> list[float]:
    """When each of `count` pods arrives, in seconds after the beginning."""
    draw = random.Random(seed)
    return list(accumulate(draw.expovariate(per_s) for _ in range(count)))


def _at(make: Callable[[int, str], JsonObject], indices: range, value: str, i: int) -> JsonObject:
    return make(indices[i], value)


def _template_body(
    template: ObjectTemplate, count: int, params: Mapping[str, Any], index: int
) -> JsonObject:
    return template.body(index, count, params)


def _pod_body(
    template: ObjectTemplate | None, count: int, params: Mapping[str, Any], index: int
) -> JsonObject:
    return DEFAULT_POD if template is None else template.body(index, count, params)


def _moved(body: JsonObject, namespace: str) -> JsonObject:
    return {**body, "metadata": {**body["metadata"], "namespace": namespace}}


def _check_scope(template: ObjectTemplate, namespace: str) -> None:
    if template.resource.is_namespaced != bool(namespace):
        needs = "needs a namespace" if template.resource.is_namespaced else "takes no namespace"
        raise WorkloadFailedError(f"{template.path}: {template.resource.kind} {needs}")
