"""What each opcode does to the cluster, on a cluster that binds every pod at once."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from bench.perf.config_file import matching, plan_of, read_cases
from bench.perf.executor import Executor, WorkloadFailedError, poisson
from shared.clock import SystemClock
from tests.support.waiting import HANG_S
from tests.unit.bench.perf.recording_cluster import RecordingCluster

WORKLOADS = Path(__file__).parents[4] / "bench/perf/workloads"

POD = "apiVersion: v1\nkind: Pod\nmetadata: {generateName: p-}\nspec: {containers: []}\n"
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: s-{{.Index}}-of-{{.Count}}}\nspec: {}\n"
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n-{{.Index}}, labels: {a: x}}\n"
WORKLOAD = """
- name: Case
  defaultPodTemplatePath: pod.yaml
  workloadTemplate: [%s]
  workloads: [{name: one}]
"""


def run(tmp_path: Path, operations: str) -> tuple[RecordingCluster, Executor]:
    for name, text in (("pod", POD), ("service", SERVICE), ("node", NODE)):
        (tmp_path / f"{name}.yaml").write_text(text)
    file = tmp_path / "performance-config.yaml"
    file.write_text(WORKLOAD % operations)
    return run_file(file, "Case/one")


def run_file(file: Path, name: str) -> tuple[RecordingCluster, Executor]:
    ((case, workload),) = matching(read_cases(file), name, "")
    clock = SystemClock()
    cluster = RecordingCluster(clock)
    executor = Executor(plan_of(file, case, workload), cluster, clock)
    try:
        asyncio.run(asyncio.wait_for(executor.run(), HANG_S))
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    return cluster, executor


def test_pods_come_into_namespaces_of_their_operations() -> None:
    cluster, executor = run_file(WORKLOADS / "affinity.yaml", "SchedulingPodAffinity/5Nodes")
    count = Counter((plural, namespace) for plural, namespace, _ in cluster.created)
    assert count["nodes", ""] == 5
    assert count["pods", "sched-0"] == 5
    assert count["pods", "sched-1"] == 10
    (interval,) = executor.intervals
    assert (interval.name, interval.pod_count) == ("sched-1", 10)


def test_nodes_are_taken_in_before_pods_are_created() -> None:
    cluster, _ = run_file(WORKLOADS / "misc.yaml", "SchedulingBasic/5Nodes")
    first_pod = [plural for plural, _, _ in cluster.created].index("pods")
    created = cluster.created[: cluster.taken_in_at[0]]
    assert [plural for plural, _, _ in created] == ["nodes"] * 5
    assert first_pod >= 5


def test_nodes_have_their_hostname_and_take_label_values_in_turn() -> None:
    cluster, _ = run_file(WORKLOADS / "topology_spreading.yaml", "TopologySpreading/5Nodes")
    nodes = [name for plural, _, name in cluster.created if plural == "nodes"]
    labels = [cluster.bodies[name]["metadata"]["labels"] for name in nodes]
    assert [one["kubernetes.io/hostname"] for one in labels] == nodes
    zones = Counter(one["topology.kubernetes.io/zone"] for one in labels)
    assert zones == {"moon-1": 2, "moon-2": 2, "moon-3": 1}


def test_recorded_nodes_take_label_values_in_turn() -> None:
    cluster, executor = run_file(WORKLOADS / "berth.yaml", "GangsNear/Openb_1Gang")
    nodes = [name for plural, _, name in cluster.created if plural == "nodes"]
    labels = [cluster.bodies[name]["metadata"]["labels"] for name in nodes]
    racks, blocks = ([one[f"example.com/{key}"] for one in labels] for key in ("rack", "block"))
    assert (len(set(racks)), len(set(blocks))) == (1000, 25)
    assert len(set(zip(racks, blocks, strict=True))) == 1000, "each rack is within one block"
    (interval,) = executor.intervals
    assert interval.pod_count == 8


def test_a_set_of_pods_in_each_namespace() -> None:
    cluster, _ = run_file(
        WORKLOADS / "affinity.yaml",
        "SchedulingPreferredAffinityWithNSSelector/10Nodes",
    )
    namespaces = [name for plural, _, name in cluster.created if plural == "namespaces"]
    assert cluster.bodies[namespaces[0]]["metadata"]["labels"] == {"team": "devops"}
    pods = Counter(namespace for plural, namespace, _ in cluster.created if plural == "pods")
    assert len(pods) == 3
    assert len(set(pods.values())) == 2


def test_gated_pods_satisfy_a_barrier_for_attempts_and_others_are_deleted_beside() -> None:
    cluster, executor = run_file(WORKLOADS / "misc.yaml", "SchedulingWhileGated/1Node_10GatedPods")
    pods = Counter(namespace for plural, namespace, _ in cluster.created if plural == "pods")
    assert pods == {"namespace-1": 10, "namespace-3": 10, "namespace-5": 10}
    assert {namespace for _, namespace, _ in cluster.deleted} <= {"namespace-3"}
    assert executor.intervals[0].pod_count == 10
    attempts = executor.intervals[0].attempt_ms
    assert attempts is not None
    assert attempts.average == pytest.approx(500), "of what came between the two looks"
    assert executor.intervals[0].attempts_by_result_ms == {"scheduled": attempts}


def test_churn_that_recreates_deletes_what_it_made(tmp_path: Path) -> None:
    cluster, _ = run(
        tmp_path,
        "{opcode: churn, mode: recreate, number: 2, intervalMilliseconds: 5,"
        " templatePaths: [pod.yaml, service.yaml]}, {opcode: sleep, duration: 150ms}",
    )
    made = [one for one in cluster.created if one[0] in ("pods", "services")]
    assert len(made) >= 4
    assert cluster.deleted == made[: len(cluster.deleted)]
    assert len(cluster.deleted) >= 4
    assert len(made) - len(cluster.deleted) in (0, 1, 2, 3, 4)


def test_churn_that_creates_stops_at_its_number(tmp_path: Path) -> None:
    cluster, _ = run(
        tmp_path,
        "{opcode: churn, mode: create, number: 3, intervalMilliseconds: 5, namespace: ns,"
        " templatePaths: [pod.yaml]}, {opcode: sleep, duration: 200ms}",
    )
    assert [one[1] for one in cluster.created if one[0] == "pods"] == ["ns"] * 3
    assert cluster.deleted == []


def test_any_object_is_created_and_updated_from_its_template(tmp_path: Path) -> None:
    cluster, _ = run(
        tmp_path,
        "{opcode: createAny, templatePath: service.yaml, namespace: ns, count: 2},"
        "{opcode: updateAny, templatePath: node.yaml, count: 2, updatePerSecond: 100}",
    )
    assert cluster.created == [
        ("namespaces", "", "ns"),
        ("services", "ns", "s-0-of-2"),
        ("services", "ns", "s-1-of-2"),
    ]
    assert [body["metadata"]["name"] for body in cluster.updated] == ["n-0", "n-1"]
    assert cluster.statuses == [("nodes", "", "n-0"), ("nodes", "", "n-1")], "as upstream, always"


def test_metrics_are_collected_between_start_and_stop(tmp_path: Path) -> None:
    _, executor = run(
        tmp_path,
        "{opcode: createPods, namespace: a, count: 3},"
        "{opcode: startCollectingMetrics, name: both, namespaces: [a, b]},"
        "{opcode: createPods, namespace: b, count: 4, skipWaitToCompletion: true},"
        "{opcode: barrier, namespaces: [b]}, {opcode: stopCollectingMetrics}",
    )
    (interval,) = executor.intervals
    assert (interval.name, interval.namespaces, interval.pod_count) == ("both", ("a", "b"), 4)


def test_a_steady_state_replaces_each_pod_that_was_bound(tmp_path: Path) -> None:
    cluster, executor = run(
        tmp_path,
        "{opcode: createPods, namespace: a, count: 3, steadyState: true, duration: 100ms,"
        " collectMetrics: true}",
    )
    assert len(cluster.deleted) > 3
    assert executor.intervals[0].pod_count > 3


def test_a_driver_offers_devices_on_the_nodes_that_match(tmp_path: Path) -> None:
    cluster, _ = run(
        tmp_path,
        "{opcode: createNodes, count: 2}, {opcode: createAny, templatePath: node.yaml},"
        " {opcode: createResourceDriver, driverName: d, nodes: 'n-[^1]*', maxClaimsPerNode: 3}",
    )
    slices = [name for plural, _, name in cluster.created if plural == "resourceslices"]
    assert slices == ["n-0"]
    spec = cluster.bodies["n-0"]["spec"]
    assert (spec["nodeName"], spec["pool"]["name"], len(spec["devices"])) == ("n-0", "n-0", 3)


def test_nodes_get_csi_nodes_and_no_other_strategy_counts_beside_that(tmp_path: Path) -> None:
    cluster, _ = run(
        tmp_path,
        "{opcode: createNodes, count: 1, uniqueNodeLabelStrategy: {labelKey: u},"
        " nodeAllocatableStrategy: {csiNodeAllocatable: {d: {count: 7}}, migratedPlugins: [a, b]}}",
    )
    assert [plural for plural, _, _ in cluster.created] == ["nodes", "csinodes"]
    body = cluster.bodies["node-0-00000"]
    (driver,) = body["spec"]["drivers"]
    assert (driver["name"], driver["nodeID"]) == ("d", "node-0-00000")
    assert driver["allocatable"] == {"count": 7}
    assert list(body["metadata"]["annotations"].values()) == ["a,b"]


VOLUME = "{apiVersion: v1, kind: PersistentVolume, spec: {csi: {driver: d}}}"
CLAIM = "{apiVersion: v1, kind: PersistentVolumeClaim, spec: {accessModes: [ReadOnlyMany]}}"


def test_pods_come_each_after_a_claim_and_a_volume_that_are_bound(tmp_path: Path) -> None:
    (tmp_path / "pv.yaml").write_text(VOLUME)
    (tmp_path / "pvc.yaml").write_text(CLAIM)
    cluster, _ = run(
        tmp_path,
        "{opcode: createPods, count: 2, namespace: a, persistentVolumeTemplatePath: pv.yaml,"
        " persistentVolumeClaimTemplatePath: pvc.yaml}",
    )
    of_second = [("persistentvolumeclaims", "a", "pvc-1"), ("persistentvolumes", "", "a-vol-1")]
    assert cluster.created[-3:] == [*of_second, ("pods", "a", "p-00001")]
    claim, volume, pod = (cluster.bodies[name] for *_, name in cluster.created[-3:])
    assert (claim["spec"]["volumeName"], claim["status"]) == ("a-vol-1", {"phase": "Bound"})
    assert volume["spec"]["claimRef"]["name"] == "pvc-1"
    assert volume["spec"]["csi"] == {"driver": "d", "volumeHandle": "a-vol-1"}
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "pvc-1"}


def test_a_barrier_waits_for_the_pods_that_are_labelled_so(tmp_path: Path) -> None:
    _, executor = run(
        tmp_path,
        "{opcode: createPods, namespace: a, count: 3, skipWaitToCompletion: true},"
        "{opcode: barrier, namespaces: [a], stageRequirement: Attempted},"
        "{opcode: barrier, namespaces: [a]}",
    )
    assert executor.operation_index == 2


def test_pods_may_arrive_as_a_poisson_process(tmp_path: Path) -> None:
    cluster, _ = run(
        tmp_path, "{opcode: createPods, count: 4, arrivalPerSecond: 100, arrivalSeed: 3}"
    )
    assert cluster.arrivals_s == poisson(4, 100, 3)
    many = poisson(20_000, 1000, 0)
    assert many == sorted(many)
    assert many[-1] == pytest.approx(20, rel=0.05)


@pytest.mark.parametrize(
    ("operations", "problem"),
    [
        ("{opcode: stopCollectingMetrics}", "without startCollectingMetrics"),
        ("{opcode: startCollectingMetrics, namespaces: [a]}", "without stopCollectingMetrics"),
        ("{opcode: barrier, namespaces: [a]}", "unknown namespace a"),
        ("{opcode: createAny, templatePath: service.yaml}", "Service needs a namespace"),
        (
            "{opcode: updateAny, templatePath: node.yaml, namespace: a}",
            "Node takes no namespace",
        ),
    ],
)
def test_what_makes_no_sense_ends_the_run(tmp_path: Path, operations: str, problem: str) -> None:
    with pytest.raises(WorkloadFailedError, match=problem):
        run(tmp_path, operations)
