"""performance-config.yaml: upstream's files as they are, and what is refused with which words."""

from pathlib import Path

import pytest

from bench.perf import operations as ops
from bench.perf.config_file import (
    OUR_FILES,
    Case,
    Plan,
    chosen,
    duration_s,
    matching,
    plan_of,
    read_cases,
)
from shared.errors import ConfigurationError
from shared.feature_gates import NODE_DECLARED_FEATURES, parse_feature_gates

WORKLOADS = Path(__file__).parents[4] / "bench/perf/workloads"

SMALL = """\
- name: Small
  defaultPodTemplatePath: pod.yaml
  featureGates: {%(gate)s}
  workloadTemplate:
  - opcode: createNodes
    countParam: $nodes
  - opcode: createPods
    count: 3
    %(field)s
  workloads:
  - name: one
    labels: [short, performance]
    params: {nodes: %(nodes)s}
  - name: two
    labels: [performance]
    params: {nodes: 2}
"""


def cases_of(tmp_path: Path, *, gate: str = "", field: str = "", nodes: str = "1") -> list[Case]:
    path = tmp_path / "performance-config.yaml"
    path.write_text(SMALL % {"gate": gate, "field": field, "nodes": nodes})
    return read_cases(path)


def problems_of(tmp_path: Path, **changes: str) -> str:
    def plan_it() -> None:
        case = cases_of(tmp_path, **changes)[0]
        plan_of(tmp_path / "performance-config.yaml", case, case.workloads[0])

    with pytest.raises(ConfigurationError) as caught:
        plan_it()
    return "\n".join(caught.value.problems)


@pytest.mark.parametrize("file", OUR_FILES, ids=lambda file: file.stem)
def test_every_workload_is_read_and_none_is_refused(file: Path) -> None:
    for _, case, workload in chosen([file], "", ""):
        plan = plan_of(file, case, workload)
        assert not any(isinstance(each, ops.CreatePodSets) for each in plan.operations), "unrolled"


def test_parameters_thresholds_and_paths_of_a_workload() -> None:
    file = WORKLOADS / "misc.yaml"
    ((case, workload),) = matching(read_cases(file), "SchedulingBasic/5000Nodes_10000Pods", "")
    plan = plan_of(file, case, workload)
    nodes, first, measured = plan.operations
    assert isinstance(nodes, ops.CreateNodes)
    assert isinstance(first, ops.CreatePods)
    assert isinstance(measured, ops.CreatePods)
    assert (nodes.count, first.count, measured.count) == (5000, 1000, 10000)
    assert (first.collect_metrics, measured.collect_metrics) == (False, True)
    assert (plan.name, plan.topic) == ("SchedulingBasic/5000Nodes_10000Pods", "misc")
    assert plan.threshold == 270
    common = WORKLOADS / "objects/common.yaml"
    assert str(plan.path(case.default_pod_template_path)) == f"{common}#pod"
    assert plan.notes == (
        "SchedulerQueueingHints: false in the workload; queueing hints are always on in berth",
    )


def test_workloads_are_chosen_by_name_and_labels(tmp_path: Path) -> None:
    cases = cases_of(tmp_path)

    def chosen(name: str, labels: str) -> list[str]:
        return [workload.name for _, workload in matching(cases, name, labels)]

    assert chosen("", "") == ["one", "two"]
    assert chosen("Small", "performance") == ["one", "two"]
    assert chosen("Small/two", "") == ["two"]
    assert chosen("", "+short") == ["one"]
    assert chosen("", "performance,-short") == ["two"]
    assert chosen("Smal", "") == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"field": "conut: 3"}, "unknown field `conut`"),
        ({"field": "countParam: $pods"}, "operation 1: $pods is not among the workload's params"),
        ({"field": "countParam: pods"}, "operation 1: pods: a parameter is written $pods"),
        ({"nodes": "many"}, "operation 0: count 'many': must be a number"),
        ({"nodes": "-1"}, "operation 0: count -1: must be a number, 0 or more"),
        ({"nodes": "1, more: 2"}, "parameters that no operation uses: more"),
        ({"gate": "Fancy: true"}, "featureGates.Fancy: kube-scheduler v1.36 has no such gate"),
        (
            {"gate": "NodeInclusionPolicyInPodTopologySpread: false"},
            "cannot be set to false, it is locked to its default",
        ),
        ({"field": "steadyState: true"}, "steadyState needs a duration"),
        (
            {"field": "persistentVolumeClaimTemplatePath: pvc.yaml"},
            "persistentVolumeClaimTemplatePath needs persistentVolumeTemplatePath",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_place(
    tmp_path: Path, changes: dict[str, str], problem: str
) -> None:
    assert problem in problems_of(tmp_path, **changes)


def plan_with(tmp_path: Path, operations: str, more: str = "") -> Plan:
    path = tmp_path / "performance-config.yaml"
    text = "- {name: A, workloadTemplate: [%s], workloads: [{name: b, %s}]}"
    path.write_text(text % (operations, more))
    ((case, workload),) = matching(read_cases(path), "A/b", "")
    return plan_of(path, case, workload)


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        ("{opcode: createResourceDriver, driverName: d, nodes: ''}", "nodes: must be set"),
        (
            "{opcode: createResourceDriver, driverName: d, nodes: n, maxClaimsPerNode: -1}",
            "max_claims_per_node -1",
        ),
        (
            "{opcode: createResourceClaims, templatePath: a, namespace: ''}",
            "namespace: must be set",
        ),
        ("{opcode: churn, mode: recreate, templatePaths: [a]}", "recreate needs a number"),
        ("{opcode: churn, mode: create, templatePaths: []}", "templatePaths must be given"),
        (
            "{opcode: updateAny, templatePath: a, updatePerSecond: -1}",
            "update_per_second -1: must not",
        ),
        ("{opcode: startCollectingMetrics}", "namespaces must be given"),
        (
            "{opcode: createPods, steadyState: true, duration: 1s, skipWaitToCompletion: true}",
            "steadyState and skipWaitToCompletion exclude",
        ),
    ],
)
def test_operations_that_upstream_finds_invalid_are_refused(
    tmp_path: Path, operation: str, problem: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        plan_with(tmp_path, operation)
    assert problem in "\n".join(caught.value.problems)


def test_what_has_no_effect_is_named(tmp_path: Path) -> None:
    nodes = "{opcode: createNodes, nodeAllocatableStrategy: {nodeAllocatable: {a: '1'}}}"
    pods = "{opcode: createPods, persistentVolumeTemplatePath: pv.yaml}"
    gates = "featureGates: {SchedulerQueueingHints: false, NativeHistograms: true}"
    plan = plan_with(
        tmp_path, f"{nodes}, {pods}", f"{gates}, params: {{numNodeDeclaredFeatures: 7}}"
    )
    told = [note.partition(":")[0] for note in plan.notes]
    assert told == [
        "NativeHistograms=true",
        "SchedulerQueueingHints",
        "numNodeDeclaredFeatures",
        "nodeAllocatableStrategy.nodeAllocatable",
        "persistentVolumeTemplatePath",
    ]
    assert plan.declared_features == 7


def test_gates_that_berth_obeys_are_passed_on(tmp_path: Path) -> None:
    gates = "featureGates: {SchedulerAsyncPreemption: false, DRAExtendedResource: true}"
    plan = plan_with(tmp_path, "{opcode: sleep}", gates)
    assert plan.feature_gates == "DRAExtendedResource=true,SchedulerAsyncPreemption=false"
    assert plan.notes == ()


def test_gates_that_need_one_another_are_looked_at_together(tmp_path: Path) -> None:
    gates = "featureGates: {GenericWorkload: true, GangScheduling: true}"
    plan = plan_with(tmp_path, "{opcode: sleep}", gates)
    assert plan.feature_gates == "GangScheduling=true,GenericWorkload=true"
    with pytest.raises(ConfigurationError, match="GangScheduling: needs GenericWorkload=true"):
        plan_with(tmp_path, "{opcode: sleep}", "featureGates: {GangScheduling: true}")


def test_a_gate_that_is_turned_off_takes_those_with_it_that_need_it(tmp_path: Path) -> None:
    gates = "featureGates: {GenericWorkload: true, GangScheduling: false}"
    plan = plan_with(tmp_path, "{opcode: sleep}", gates)
    told = "GangScheduling=false,GenericWorkload=true,WorkloadAwarePreemption=false"
    assert plan.feature_gates == told
    assert plan.notes == ()
    plan = plan_with(tmp_path, "{opcode: sleep}", "featureGates: {NodeDeclaredFeatures: false}")
    assert "ExtendWebSocketsToKubelet=false" in plan.feature_gates
    assert parse_feature_gates(plan.feature_gates)[NODE_DECLARED_FEATURES] is False


def test_an_opcode_that_is_not_known_names_the_case(tmp_path: Path) -> None:
    path = tmp_path / "performance-config.yaml"
    path.write_text("- {name: A, workloadTemplate: [{opcode: fly}], workloads: []}")
    with pytest.raises(ConfigurationError, match="test case A: Invalid value 'fly'"):
        read_cases(path)


@pytest.mark.parametrize("content", ["{", "just words", "{}"])
def test_a_file_that_is_no_list_of_cases_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "performance-config.yaml"
    path.write_text(content)
    with pytest.raises(ConfigurationError):
        read_cases(path)


def test_durations_are_read_as_go_writes_them() -> None:
    assert duration_s("500ms") == pytest.approx(0.5)
    assert duration_s("1m30s") == pytest.approx(90)
    assert duration_s("1.5h") == pytest.approx(5400)
    for wrong in ("10", "s", "1x", "1.2.3s"):
        with pytest.raises(ConfigurationError):
            duration_s(wrong)
