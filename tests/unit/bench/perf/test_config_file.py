"""performance-config.yaml: upstream's files as they are, and what is refused with which words."""

from pathlib import Path

import pytest

from bench.perf import operations as ops
from bench.perf.config_file import Case, duration_s, matching, plan_of, read_cases
from shared.errors import ConfigurationError

UPSTREAM = Path(__file__).parents[4] / "bench/perf/upstream"
FILES = sorted(UPSTREAM.glob("*/performance-config.yaml"))

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


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_every_workload_of_upstreams_files_is_read_and_only_dra_is_refused(file: Path) -> None:
    refused = []
    for case, workload in matching(read_cases(file), "", ""):
        try:
            plan = plan_of(file, case, workload)
        except ConfigurationError as error:
            refused.append((case.name, *error.problems))
        else:
            assert len(plan.operations) == len(case.workload_template)
    words = "featureGates.DRAExtendedResource: berth cannot decide as with this gate on"
    expected = [("SchedulingWithExtendedResource", words)] * (
        3 if file.parent.name == "misc" else 0
    )
    assert refused == expected


def test_parameters_thresholds_and_paths_of_an_upstream_workload() -> None:
    file = UPSTREAM / "misc/performance-config.yaml"
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
    assert plan.path(case.default_pod_template_path) == UPSTREAM / "templates/pod-default.yaml"
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
        ({"gate": "Fancy: true"}, "featureGates.Fancy: berth does not know this gate"),
        (
            {"gate": "NodeInclusionPolicyInPodTopologySpread: false"},
            "berth cannot decide as with this gate off",
        ),
        ({"field": "steadyState: true"}, "steadyState needs a duration"),
        (
            {"field": "persistentVolumeTemplatePath: pv.yaml"},
            "persistentVolumeTemplatePath is not supported yet",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_place(
    tmp_path: Path, changes: dict[str, str], problem: str
) -> None:
    assert problem in problems_of(tmp_path, **changes)


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
