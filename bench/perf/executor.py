"""Runs a workload's operations, in order, against a cluster; measures between start and stop.

What each opcode does is upstream's (test/integration/scheduler_perf/{executor,update,dra}.go, v1.36.2),
with four differences: bodies are encoded before the first of them is sent, so that the load costs
little while it is measured; pods are named by the client (`object_template.Names`); who waits for the
pods of an operation waits for these, where upstream counts all of the namespace; and where no API server
is between us and the owner, an operation that creates nodes, namespaces or other objects than pods ends
when the owner has them (`ClusterApi.until_taken_in`), as it would have when they had gone through one.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any, Final, NamedTuple, assert_never

import orjson

from bench.apiserver.served_resources import BY_PATH
from bench.demo.workload import Workload as Trace
from bench.demo.workload import openb_workload
from bench.perf import operations as ops
from bench.perf.book import NamespaceBook, PodBook
from bench.perf.claim_allocation import allocated_claims
from bench.perf.cluster_api import ClusterApi
from bench.perf.config_file import Plan, duration_s
from bench.perf.dependent_objects import bound_volumes, csi_node, resource_slice
from bench.perf.object_template import MARK, JsonObject, Names, ObjectTemplate, Series
from bench.perf.owner_metrics import ATTEMPTS
from bench.perf.samples import Buckets, Percentiles, Throughput, latencies_ms, throughput, total
from shared.clock import Clock
from shared.dra.search_work import AllocationError
from shared.errors import OperationalError

CHURN_INTERVAL_MS: Final = 500
HOSTNAME: Final = "kubernetes.io/hostname"
NAMESPACES: Final = BY_PATH["", "v1", "namespaces"]
NODES: Final = BY_PATH["", "v1", "nodes"]
CSI_NODES: Final = BY_PATH["storage.k8s.io", "v1", "csinodes"]
SLICES: Final = BY_PATH["resource.k8s.io", "v1", "resourceslices"]
CLAIMS: Final = BY_PATH["resource.k8s.io", "v1", "resourceclaims"]
PODS: Final = BY_PATH["", "v1", "pods"]

DEFAULT_NODE: Final[JsonObject] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {},
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
        self._background: set[asyncio.Task[None]] = set()
        self._collecting: _Collecting | None = None
        self._nodes: list[str] = []
        """Names of all that were created."""
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
                await self._create_nodes(operation, index)
                await self._cluster.until_taken_in()
            case ops.CreateNamespaces():
                await self._create_namespaces(operation)
                await self._cluster.until_taken_in()
            case ops.CreatePods():
                await self._create_pods(operation, index)
            case ops.CreatePodSets():
                raise AssertionError("a plan has its sets unrolled")
            case ops.CreateAny():
                count = 1 if operation.count is None else operation.count
                await self._create_objects(operation.template_path, operation.namespace, count)
            case ops.CreateResourceClaims():
                path, namespace = operation.template_path, operation.namespace
                await self._create_objects(path, namespace, operation.count)
            case ops.CreateResourceDriver():
                await self._create_driver(operation)
                await self._cluster.until_taken_in()
            case ops.AllocResourceClaims():
                await self._allocate_claims(operation)
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

    async def _create(self, *several: Series) -> None:
        await self._cluster.create([await self._cluster.prepare(series) for series in several])

    async def _create_nodes(self, operation: ops.CreateNodes, index: int) -> None:
        count, path = operation.count, operation.node_template_path
        template = self._template(path) if path else None
        first = len(self._nodes)
        plain = {**DEFAULT_NODE, "metadata": {"generateName": f"node-{index}-"}}
        # Nodes of one label value are equal; the values take turns, as upstream's strategy has it.
        values = _label_values(operation)
        is_uniform = (template is None or template.is_uniform) and values is not None
        series = []
        for number, value in enumerate(values or [""]):
            indices = range(number, count, len(values or [""]))

            def make(i: int, indices: range = indices, value: str = value) -> JsonObject:
                node = plain if template is None else template.body(indices[i], count)
                return self._prepared_node(node, operation, value, first + indices[i])

            names = [self._names.take(make(i)) for i in range(len(indices))]
            if names:
                series.append(Series(NODES, "", names, make, is_uniform))
                self._nodes += names
        for each in series:
            await self._create(each)
            if operation.node_allocatable_strategy is not None:
                body = csi_node(operation.node_allocatable_strategy)
                await self._create(Series(CSI_NODES, "", each.names, lambda _, b=body: b, True))  # type: ignore[misc] # The loop's variable, kept.

    def _prepared_node(
        self, node: JsonObject, operation: ops.CreateNodes, value: str, number: int
    ) -> JsonObject:
        metadata = node.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), HOSTNAME: MARK}
        label, unique = (
            operation.label_node_prepare_strategy,
            operation.unique_node_label_strategy,
        )
        if operation.node_allocatable_strategy is not None:
            pass
        elif label is not None:
            labels[label.label_key] = value
        elif unique is not None:
            labels[unique.label_key] = f"value-{number:06d}"
        made = {**node, "metadata": {**metadata, "labels": labels}}
        if self._plan.declared_features:
            features = [f"Feature{i}" for i in range(1, self._plan.declared_features + 1)]
            status = node.get("status") or {}
            made["status"] = {**status, "declaredFeatures": sorted(features)}
        return made

    async def _create_namespaces(self, operation: ops.CreateNamespaces) -> None:
        path = operation.namespace_template_path
        for number in range(operation.count):
            name = f"{operation.prefix}-{number}"
            body = self._template(path).body(number, operation.count) if path else {}
            await self._ensure_namespace(name, body)

    async def _ensure_namespace(self, name: str, body: JsonObject | None = None) -> None:
        if name in self._namespaces:
            return
        self._namespaces[name] = 0
        full = {"apiVersion": "v1", "kind": "Namespace", **(body or {})}
        await self._create(Series(NAMESPACES, "", [name], lambda _: full, True))

    async def _create_pods(self, operation: ops.CreatePods, index: int) -> None:
        namespace = operation.namespace or f"namespace-{index}"
        await self._ensure_namespace(namespace)
        several = self._pod_series(operation, namespace)
        names, count = set(several[-1].names), operation.count
        arrivals_s = None
        if operation.arrival_per_second:
            arrivals_s = poisson(count, operation.arrival_per_second, operation.arrival_seed)
        prepared = [await self._cluster.prepare(series) for series in several]
        if operation.collect_metrics:
            await self._start(namespace, (namespace,), {})
        if operation.steady_state:
            await self._create_steadily(operation, namespace)
        else:
            await self._cluster.create(prepared, arrivals_s)
            if operation.skip_wait_to_completion:
                self._namespaces[namespace] += count
            else:
                await self._book.until(namespace, "Scheduled", count, names.__contains__)
        if operation.collect_metrics:
            await self._stop()

    def _pod_series(self, operation: ops.CreatePods, namespace: str) -> list[Series]:
        """The pods, with new names, after what each of them needs."""
        path = operation.pod_template_path or self._plan.case.default_pod_template_path
        template, count = self._template(path) if path else None, operation.count
        is_uniform = template is None or template.is_uniform

        def make(i: int) -> JsonObject:
            return DEFAULT_POD if template is None else template.body(i, count)

        names = [self._names.take(make(0 if is_uniform else i)) for i in range(count)]
        pods = Series(PODS, namespace, names, make, is_uniform)
        claim_path = operation.persistent_volume_claim_template_path
        if not claim_path:
            return [pods]
        volume = self._template(operation.persistent_volume_template_path)
        return bound_volumes(self._template(claim_path), volume, pods)

    async def _create_steadily(self, operation: ops.CreatePods, namespace: str) -> None:
        """So many pods, again and again: when all are bound, all of the namespace go and the next
        come."""
        count, rounds = operation.count, 0
        try:
            async with asyncio.timeout(duration_s(operation.duration)):
                while True:
                    several = self._pod_series(operation, namespace)
                    await self._create(*several)
                    names = set(several[-1].names)
                    await self._book.until(namespace, "Scheduled", 1, names.__contains__)
                    rounds += 1
                    await self._book.until(namespace, "Scheduled", count, names.__contains__)
                    for name in sorted(self._book.of(namespace).live):
                        await self._cluster.delete(PODS, namespace, name, at_once=True)
        except TimeoutError:
            if not rounds:
                raise WorkloadFailedError(
                    f"none of {count} pods was bound in {operation.duration}"
                ) from None

    async def _create_objects(self, path: str, namespace: str, count: int) -> None:
        template = self._template(path)
        _check_scope(template, namespace)
        if namespace:
            await self._ensure_namespace(namespace)

        def make(i: int) -> JsonObject:
            return template.body(i, count)

        names = [self._names.take(make(i)) for i in range(count)]
        if template.resource is NODES:
            self._nodes += names
        await self._create(Series(template.resource, namespace, names, make, template.is_uniform))
        await self._cluster.until_taken_in()

    async def _create_driver(self, operation: ops.CreateResourceDriver) -> None:
        # Go negates a class of characters with ^.
        pattern = operation.nodes.replace("[^", "[!")
        nodes = [name for name in self._nodes if fnmatchcase(name, pattern)]
        body = resource_slice(operation.driver_name, operation.max_claims_per_node)
        await self._create(Series(SLICES, "", nodes, lambda _: body, True))

    async def _allocate_claims(self, operation: ops.AllocResourceClaims) -> None:
        rng = random.Random(self.operation_index)
        listed = {
            resource.plural: await self._cluster.listed(resource)
            for resource in BY_PATH.values()
            if resource.plural in ("nodes", "deviceclasses", "resourceslices", "resourceclaims")
        }
        try:
            for claim in allocated_claims(listed, operation.namespace, rng):
                namespace = claim["metadata"]["namespace"]
                await self._cluster.put_status(CLAIMS, namespace, claim)
        except AllocationError as error:
            raise WorkloadFailedError(f"allocResourceClaims: {error}") from error

    async def _update_any(self, operation: ops.UpdateAny) -> None:
        template = self._template(operation.template_path)
        _check_scope(template, operation.namespace)
        if operation.namespace:
            await self._ensure_namespace(operation.namespace)
        count = 1 if operation.count is None else operation.count
        start_s = self._clock.monotonic_s()
        for index in range(count):
            if operation.update_per_second:
                due_s = start_s + (index + 1) / operation.update_per_second
                await asyncio.sleep(max(0.0, due_s - self._clock.monotonic_s()))
            body = template.body(index, count)
            await self._cluster.update(
                template.resource, operation.namespace, body, operation.subresources
            )
            await self._cluster.put_status(template.resource, operation.namespace, body)

    async def _delete_pods(self, operation: ops.DeletePods, tasks: asyncio.TaskGroup) -> None:
        book = self._book.of(operation.namespace)
        names = [n for n in sorted(book.live) if book.has(n, operation.label_selector)]
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
        for namespace in operation.namespaces or list(self._namespaces):
            if namespace not in self._namespaces:
                raise WorkloadFailedError(f"barrier: unknown namespace {namespace}")
            count = self._namespaces[namespace]
            book, labels = self._book.of(namespace), operation.label_selector

            def counts(
                name: str, book: NamespaceBook = book, labels: Mapping[str, str] = labels
            ) -> bool:
                return book.has(name, labels)

            await self._book.until(namespace, operation.stage_requirement, count, counts)
            if operation.stage_requirement == "Scheduled":
                self._namespaces[namespace] = 0

    async def _create_trace(self, operation: ops.CreateTrace, index: int) -> None:
        if self._trace is None:
            self._trace = openb_workload()
        if operation.what == "nodes":
            nodes = [orjson.loads(body) for body in self._trace.nodes]
            for number, node in enumerate(nodes):
                values = {key: f"v{number % count}" for key, count in operation.labels.items()}
                node["metadata"].setdefault("labels", {}).update(values)
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
        await self._cluster.create([prepared])
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
        body = self._template.body(0, 1)
        name = self._names.take(body)
        await self._create(Series(resource, self._namespace, [name], lambda _: body, True))
        if slot is not None:
            self._there[slot] = name


def poisson(count: int, per_s: float, seed: int) -> list[float]:
    """When each of `count` pods arrives, in seconds after the beginning."""
    draw = random.Random(seed)
    return list(accumulate(draw.expovariate(per_s) for _ in range(count)))


def _label_values(operation: ops.CreateNodes) -> list[str] | None:
    """Those that nodes get in turn; None where each gets one of its own."""
    if operation.node_allocatable_strategy is not None:
        return [""]
    if operation.label_node_prepare_strategy is not None:
        return operation.label_node_prepare_strategy.label_values
    return [""] if operation.unique_node_label_strategy is None else None


def _moved(body: JsonObject, namespace: str) -> JsonObject:
    return {**body, "metadata": {**body["metadata"], "namespace": namespace}}


def _check_scope(template: ObjectTemplate, namespace: str) -> None:
    if template.resource.is_namespaced != bool(namespace):
        needs = "needs a namespace" if template.resource.is_namespaced else "takes no namespace"
        raise WorkloadFailedError(f"{template.path}: {template.resource.kind} {needs}")
