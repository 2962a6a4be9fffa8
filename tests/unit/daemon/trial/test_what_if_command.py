"""What would come out differently: pods that are not there, drains, nodes, another configuration."""

import contextlib
from pathlib import Path

import msgspec
import pytest

from daemon.trial import what_if_command as command
from daemon.trial.manifests import nodes_of, pods_of
from daemon.trial.trial import Subject
from daemon.trial.what_if_command import lines_of, what_if
from shared.config import parse_configuration
from shared.errors import ConfigurationError, OperationalError
from shared.kube.foreign_groups import FOREIGN_GROUPS
from shared.kube.pod_record import decode_template
from shared.messages.to_owner import AdapterMessage, PodChanged
from shared.runtime_options import RuntimeOptions
from tests.support.builders import make_node, make_pod
from tests.support.subjects import PACKING, subject_with

SCHEDULER = "default-scheduler"


def manifest(folder: Path, text: str) -> str:
    path = folder / "file.yaml"
    path.write_text(text)
    return str(path)


def pods(
    folder: Path, count: int | None = None, cpu: str = "1", **fields: object
) -> list[AdapterMessage]:
    extra = "".join(f"  {name}: {value}\n" for name, value in fields.items())
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: new}\nspec:\n"
        f"{extra}  containers: [{{name: c, image: i, resources: {{limits: {{cpu: '{cpu}'}}}}}}]\n"
    )
    return pods_of(manifest(folder, text), count, SCHEDULER)


def test_so_many_pods_are_placed_each_on_top_of_those_before(tmp_path: Path) -> None:
    subject = subject_with([make_node("n1", cpu="2"), make_node("n2", cpu="1")], [])
    found = what_if(subject, pods(tmp_path, 4))
    assert sorted(one.node for one in found.placed) == ["n1", "n1", "n2"]
    assert {one.was for one in found.placed} == {"new"}
    (pending,) = found.pending
    assert pending.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert lines_of(found)[0] == "3 pod(s) placed, 1 more pending, 0 evicted; 0 pending as it is"


def test_who_would_have_to_go_is_named(tmp_path: Path) -> None:
    subject = subject_with([make_node("n1", cpu="1")], [make_pod("p", cpu="1", node_name="n1")])
    found = what_if(subject, pods(tmp_path, priority=10))
    assert [(one.pod, one.node, one.preemptor) for one in found.evicted] == [
        ("default/p", "n1", "default/new")
    ]
    assert [(one.pod, one.node) for one in found.placed] == [("default/new", "n1")]


def test_pods_of_a_drained_node_go_elsewhere_but_for_those_of_daemon_sets() -> None:
    daemon = {"kind": "DaemonSet", "apiVersion": "apps/v1", "name": "d"}
    held = [
        make_pod("a", cpu="1", node_name="n1"),
        make_pod("b", cpu="1", node_name="n1"),
        make_pod("c", node_name="n1", owner=daemon),
        make_pod("d", node_name="n1", spec={"schedulerName": "someone"}),
    ]
    subject = subject_with([make_node("n1"), make_node("n2", cpu="1")], held)
    found = what_if(subject, drained=["n1"])
    assert [(one.pod, one.was, one.node) for one in found.placed] == [("default/a", "n1", "n2")]
    assert [one.pod for one in found.pending] == ["default/b"]
    assert found.left_alone == ["default/c", "default/d"]
    with pytest.raises(OperationalError, match="there is no node n9"):
        what_if(subject, drained=["n9"])


def test_nodes_that_are_added_take_pods_that_wait(tmp_path: Path) -> None:
    subject = subject_with([make_node("n1", cpu="1")], [make_pod(f"p{n}", cpu="1") for n in "123"])
    text = (
        "kind: Node\nmetadata: {name: new}\n"
        "status: {allocatable: {cpu: '1', memory: 1Gi, pods: '9'}}\n"
    )
    found = what_if(subject, nodes_of(manifest(tmp_path, text), 2))
    assert found.pending_as_it_is == 2
    assert [one.was for one in found.placed] == ["pending", "pending"]
    assert sorted(one.node for one in found.placed) == ["new-1", "new-2"]
    assert found.pending == []


def test_another_configuration_is_compared_with_the_one_in_use() -> None:
    nodes = [make_node("n1"), make_node("n2")]
    subject = subject_with(nodes, [make_pod("a", node_name="n1", cpu="2"), make_pod("p")])
    found = what_if(subject, config=parse_configuration(PACKING, "packing"))
    assert [(one.pod, one.was, one.node) for one in found.placed] == [("default/p", "n2", "n1")]
    assert what_if(subject, config=subject.config).placed == []


@pytest.mark.parametrize("gates", ["StorageCapacityScoring=true", ""])
def test_another_configuration_is_read_by_the_gates_that_are_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gates: str
) -> None:
    subject = subject_with([make_node("n1")], [])
    options = msgspec.structs.replace(subject.options, feature_gates=gates)
    running = Subject(subject.config, options, subject.messages)
    monkeypatch.setattr(command, "running_subject", lambda _: running)
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: 0, score: 0}]}}]\n"
    )
    arguments = ["--config", manifest(tmp_path, text)]
    with contextlib.nullcontext() if gates else pytest.raises(ConfigurationError, match="shape"):
        assert command.main(arguments) == 0


def test_the_pods_of_a_workload_are_its_replicas(tmp_path: Path) -> None:
    text = (
        "kind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 3, template:"
        " {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}\n"
    )
    path = manifest(tmp_path, text)
    found = what_if(subject_with([make_node("n1")], []), pods_of(path, None, SCHEDULER))
    assert [one.pod for one in found.placed] == ["shop/web-1", "shop/web-2", "shop/web-3"]


def test_what_states_the_beginning_of_a_name_alone_is_called_by_that(tmp_path: Path) -> None:
    text = "kind: Pod\nmetadata: {generateName: web-}\nspec: {containers: [{name: c, image: i}]}\n"
    path = manifest(tmp_path, text)
    found = what_if(subject_with([make_node("n1")], []), pods_of(path, 2, SCHEDULER))
    assert [one.pod for one in found.placed] == ["default/web--1", "default/web--2"]


def test_manifests_are_read_as_kubectl_reads_them(tmp_path: Path) -> None:
    """By go-yaml's rules, not by those of YAML 1.1: there `7:30` is 450, and no label."""
    text = (
        "---\nkind: Pod\nmetadata: {name: p, labels: {shift: 7:30}}\nspec: {containers: []}\n---\n"
    )
    (told,) = pods_of(manifest(tmp_path, text), None, SCHEDULER)
    assert isinstance(told, PodChanged)
    assert decode_template(told.pod.template).labels == {"shift": "7:30"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kind: Service\nmetadata: {name: s}\n", "is a Service"),
        ("kind: Pod\n", "metadata.name is missing"),
        ("[1]", "is no manifest"),
        ("{", "file.yaml"),
        ("kind: Pod\nmetadata: {name: p}\nspec: {containers: 7}\n", "default/p"),
    ],
)
def test_what_is_no_pod_is_refused_by_name(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        pods_of(manifest(tmp_path, text), None, SCHEDULER)


@pytest.mark.parametrize(
    "arguments", [[], ["-f", "x", "--count", "0"], ["--drain", "n", "--count", "1"]]
)
def test_arguments_that_say_nothing_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(arguments)
    assert end.value.code == 2


@pytest.mark.parametrize("whose", ["", *FOREIGN_GROUPS])
def test_a_gang_that_is_not_there_goes_somewhere_as_a_whole_or_stays(
    whose: str, tmp_path: Path
) -> None:
    subject = subject_with([make_node("n1", cpu="2")], [])._replace(
        options=RuntimeOptions(
            feature_gates="GenericWorkload=true,GangScheduling=true", pod_groups=whose
        )
    )
    groups = FOREIGN_GROUPS.get(whose)
    named = groups and groups.named_by
    for quorum, placed_count in ((3, 0), (2, 2)):
        policy = "minMember: %d" if whose else "schedulingPolicy: {gang: {minCount: %d}}"
        text = (
            f"kind: PodGroup\nmetadata: {{name: train}}\nspec: {{{policy % quorum}}}\n---\n"
            "kind: Job\nmetadata: {name: train}\nspec:\n  parallelism: 3\n  template:\n"
            f"    metadata: {{labels: {{{named}: train}}, annotations: {{{named}: train}}}}\n"
            "    spec:\n      schedulingGroup: {podGroupName: train}\n"
            "      containers: [{name: c, image: i, resources: {limits: {cpu: '1'}}}]\n"
        )
        made = pods_of(manifest(tmp_path, text), None, SCHEDULER, whose)
        found = what_if(subject, made)
        assert len(found.placed) == placed_count
