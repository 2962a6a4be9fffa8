"""The cluster in memory: the watch lines that it tells, as the adapter's own code reads them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from bench.apiserver import api_status as status
from bench.null_binder import Bound, Evicted, Line, Nominated, Refused
from bench.perf.decision_processes import DecisionOptions, DecisionProcesses
from bench.perf.executor import DEFAULT_NODE, DEFAULT_POD, HOSTNAME, NODES, PODS
from bench.perf.memory_cluster import ClusterBrokenError, FeederSource, MemoryCluster
from bench.perf.object_template import MARK, JsonObject, Series
from shared.clock import SystemClock
from shared.kube.pod_record import decode_template
from shared.messages.to_owner import (
    AdapterMessage,
    NodeChanged,
    NodeDeleted,
    ObjectRejected,
    PodChanged,
    PodDeleted,
    SyncFinished,
    SyncStarted,
)
from tests.support.waiting import HANG_S


class Told:
    """Keeps what the owner would be told."""

    is_full = False

    def __init__(self) -> None:
        self.messages: list[AdapterMessage] = []

    def put(self, message: AdapterMessage, size_bytes: int) -> None:
        assert size_bytes > 0
        self.messages.append(message)

    async def room(self) -> None:
        pass


def with_cluster(
    tmp_path: Path, scenario: Callable[[MemoryCluster, Told], Awaitable[None]]
) -> list[AdapterMessage]:
    """Runs the scenario on a cluster without processes; returns what was told after the sync."""

    async def run() -> list[AdapterMessage]:
        source, told = FeederSource(), Told()
        processes = DecisionProcesses(tmp_path, DecisionOptions(), lambda _: None)
        cluster = MemoryCluster(source, processes, SystemClock())
        running = asyncio.create_task(source.run(told))
        await source.synced.wait()
        await scenario(cluster, told)
        running.cancel()
        await asyncio.wait([running])
        return told.messages

    messages = asyncio.run(run())
    assert not any(isinstance(one, ObjectRejected) for one in messages)
    return [one for one in messages if not isinstance(one, SyncStarted | SyncFinished)]


def pods(names: list[str], body: JsonObject = DEFAULT_POD, *, is_uniform: bool = True) -> Series:
    return Series(PODS, "ns", names, lambda _: body, is_uniform)


def with_spec(**fields: object) -> JsonObject:
    return {**DEFAULT_POD, "spec": {**DEFAULT_POD["spec"], **fields}}


def line(one: Line) -> bytes:
    return msgspec.json.encode(one) + b"\n"


@pytest.mark.parametrize("is_uniform", [True, False])
def test_pods_are_told_as_the_api_server_would_show_them(tmp_path: Path, is_uniform: bool) -> None:
    async def scenario(cluster: MemoryCluster, _: Told) -> None:
        series = pods(["a", "b"], with_spec(priority=7), is_uniform=is_uniform)
        await cluster.create([await cluster.prepare(series)])

    a, b = (one.pod for one in with_cluster(tmp_path, scenario) if isinstance(one, PodChanged))
    assert (a.key, b.key) == ("ns/a", "ns/b")
    assert a.uid != b.uid
    assert a.node_name == ""
    assert int(b.resource_version) > int(a.resource_version)
    assert bytes(a.template) == bytes(b.template), "one class"
    template = decode_template(a.template)
    assert template.spec.priority == 7
    assert len(template.spec.tolerations or ()) == 2, "the defaults of admission are there"


def test_a_binding_and_a_refusal_come_back_as_changes(tmp_path: Path) -> None:
    async def scenario(cluster: MemoryCluster, told: Told) -> None:
        await cluster.create([await cluster.prepare(pods(["a", "b"]))])
        a, b = (one.pod for one in told.messages if isinstance(one, PodChanged))
        data = line(Bound(a.uid, a.key, "node-1", 1.0))
        data += line(Refused(b.uid, b.key, "Unschedulable", 'none "fits"'))
        # Pipes cut where they like.
        cluster.take_output(data[:20])
        cluster.take_output(data[20:])
        assert cluster.book.nodes == {("ns", "a"): "node-1"}
        assert cluster.book.of("ns").refused == {"b": 'none "fits"'}

    *_, bound, refused = with_cluster(tmp_path, scenario)
    assert isinstance(bound, PodChanged)
    assert isinstance(refused, PodChanged)
    assert (bound.pod.key, bound.pod.node_name) == ("ns/a", "node-1")
    assert (refused.pod.key, refused.pod.node_name) == ("ns/b", "")


def test_deleting_a_pod_depends_on_node_grace_and_finalizers(tmp_path: Path) -> None:
    async def scenario(cluster: MemoryCluster, told: Told) -> None:
        held = with_spec(terminationGracePeriodSeconds=0)
        held = {**held, "metadata": {"generateName": "p-", "finalizers": ["x.io/y"]}}
        for series in (
            pods(["pending", "graceful"]),
            pods(["at-once"], with_spec(terminationGracePeriodSeconds=0)),
            pods(["held"], held),
        ):
            await cluster.create([await cluster.prepare(series)])
        records = [one.pod for one in told.messages if isinstance(one, PodChanged)]
        for pod in records:
            if pod.name != "pending":
                cluster.take_output(line(Bound(pod.uid, pod.key, "n", 1.0)))
        told.messages.clear()
        for name in ("pending", "graceful", "at-once", "held", "nobody"):
            await cluster.delete(PODS, "ns", name)

    pending, graceful, at_once, held = with_cluster(tmp_path, scenario)
    assert isinstance(pending, PodDeleted)
    assert isinstance(graceful, PodChanged)
    assert graceful.pod.deleted
    assert isinstance(at_once, PodDeleted)
    assert isinstance(held, PodChanged)
    assert held.pod.deleted


def test_preemption_shows_as_nomination_and_deletion(tmp_path: Path) -> None:
    async def scenario(cluster: MemoryCluster, told: Told) -> None:
        small = with_spec(terminationGracePeriodSeconds=0)
        await cluster.create([await cluster.prepare(pods(["victim", "preemptor"], small))])
        victim, preemptor = (one.pod for one in told.messages if isinstance(one, PodChanged))
        cluster.take_output(line(Bound(victim.uid, victim.key, "n1", 1.0)))
        cluster.take_output(line(Refused(preemptor.uid, preemptor.key, "Unschedulable", "full")))
        told.messages.clear()
        cluster.take_output(line(Nominated(preemptor.uid, preemptor.key, "n1")))
        cluster.take_output(line(Evicted(victim.uid, victim.key, preemptor.uid)))
        cluster.take_output(line(Refused(preemptor.uid, preemptor.key, "Unschedulable", "again")))
        # Told twice, as after the loss of a binder.
        cluster.take_output(line(Evicted(victim.uid, victim.key, preemptor.uid)))
        cluster.take_output(line(Bound(preemptor.uid, preemptor.key, "n1", 1.0)))

    nominated, gone, refused, bound = with_cluster(tmp_path, scenario)
    assert isinstance(nominated, PodChanged)
    assert nominated.pod.nominated_node_name == "n1"
    assert isinstance(gone, PodDeleted)
    assert gone.pod.name == "victim"
    assert isinstance(refused, PodChanged)
    assert refused.pod.nominated_node_name == "n1", "a new condition does not end the nomination"
    assert isinstance(bound, PodChanged)
    assert bound.pod.node_name == "n1"


def test_nodes_are_told_with_their_allocatable_and_can_go(tmp_path: Path) -> None:
    async def scenario(cluster: MemoryCluster, _: Told) -> None:
        node = {**DEFAULT_NODE, "metadata": {"labels": {HOSTNAME: MARK}}}
        series = Series(NODES, "", ["n1", "n2"], lambda _: node, True)
        await cluster.create([await cluster.prepare(series)])
        await cluster.delete(NODES, "", "n2")
        with pytest.raises(ClusterBrokenError, match="there is no Node"):
            await cluster.delete(NODES, "", "n2")

    first, second, gone = with_cluster(tmp_path, scenario)
    assert isinstance(first, NodeChanged)
    assert isinstance(second, NodeChanged)
    assert first.node.status.allocatable == {"pods": "110", "cpu": "4", "memory": "32Gi"}
    assert first.node.metadata.labels == {HOSTNAME: "n1"}
    assert second.node.metadata.uid not in ("", first.node.metadata.uid)
    assert gone == NodeDeleted("n2")


def test_a_gated_pod_is_refused_from_the_beginning(tmp_path: Path) -> None:
    async def scenario(cluster: MemoryCluster, _: Told) -> None:
        gated = with_spec(schedulingGates=[{"name": "x.io/hold"}])
        await cluster.create([await cluster.prepare(pods(["a"], gated))])
        await asyncio.wait_for(cluster.book.until("ns", "Attempted", 1), HANG_S)

    with_cluster(tmp_path, scenario)


def test_a_body_that_the_api_server_refuses_is_refused_here(tmp_path: Path) -> None:
    async def scenario(cluster: MemoryCluster, _: Told) -> None:
        with pytest.raises(status.ApiError):
            await cluster.prepare(pods(["a"], with_spec(containers=[])))

    with_cluster(tmp_path, scenario)
