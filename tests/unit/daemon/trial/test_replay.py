"""Recorded days: judged in the shadow, decided anew by other configurations, made anonymous."""

import json
import random
import sys
import tomllib
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from shutil import copytree
from types import MappingProxyType
from typing import Any, Self

import pytest

from bench.manual_clock import ManualClock
from bench.recorded_day import DayPlan, RecordedDay
from daemon.adapter.recording import Recorder, read_recording
from daemon.trial import replay
from daemon.trial.anonymity import Anonymiser
from daemon.trial.replay import compare, explain_binding, in_the_shadow, lines_of, moments
from daemon.trial.replay_page import Comparison
from daemon.trial.rerun import Rerun
from daemon.trial.trial import Trial
from shared.config import SchedulerConfiguration, parse_configuration
from shared.errors import ConfigurationError, OperationalError
from shared.kube.decode import INITIAL_EVENTS_END
from shared.kube.foreign_groups import FOREIGN_GROUPS
from shared.kube.pod_group_rules import ELASTIC, TOPOLOGY_KEYS
from shared.kube.resources import ALL_KINDS
from shared.kube.well_known import SELECTED_NODE
from shared.messages.to_owner import NodeChanged, ObjectRejected, PodChanged
from shared.runtime_options import RuntimeOptions
from tests.support.subjects import PACKING

SECRET = "customer-7"
DEFAULTS = SchedulerConfiguration()
NOTHING: Mapping[str, str] = MappingProxyType({})
GATES = "GenericWorkload=true,GangScheduling=true"
PREEMPTING = f"{GATES},WorkloadAwarePreemption=true,TopologyAwareWorkloadScheduling=true"


class Day:
    """A recording in the making."""

    def __init__(self, folder: Path, nodes: Mapping[str, str]) -> None:
        """`nodes`: name -> cpu."""
        self._clock = ManualClock(1.0)
        self._recorder = Recorder(folder, self._clock)
        self._version = 100
        for kind in ALL_KINDS:
            items = []
            if kind.plural == "nodes":
                items = [self._node(name, cpu) for name, cpu in nodes.items()]
            page = {"metadata": {"resourceVersion": "1"}, "items": items}
            self._recorder.record(kind.plural, "list", b"")
            if kind.plural != "pods":
                self._recorder.record(kind.plural, "page", json.dumps(page).encode())
                self._recorder.record(kind.plural, "listed", b"")
                continue
            # A list by a watch.
            end = {INITIAL_EVENTS_END: "true"}
            item = {"metadata": {"resourceVersion": "100", "annotations": end}}
            later = {"metadata": {"resourceVersion": "100"}}
            for each in (item, later):
                line = json.dumps({"type": "BOOKMARK", "object": {"kind": "Pod", **each}})
                self._recorder.record(kind.plural, "line", line.encode())

    def _node(self, name: str, cpu: str) -> dict[str, Any]:
        allocatable = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
        meta = {"name": name, "uid": name, "resourceVersion": "1", "labels": {"team": SECRET}}
        return {"metadata": meta, "spec": {}, "status": {"allocatable": allocatable}}

    def group(self, name: str, spec: dict[str, Any], **annotations: str) -> None:
        meta = {"name": name, "namespace": SECRET, "uid": f"uid-{name}", "resourceVersion": "200"}
        item = {"metadata": {**meta, "annotations": annotations}, "spec": spec}
        line = json.dumps({"type": "ADDED", "object": item}).encode()
        self._recorder.record("podgroups", "line", line)

    def pod(
        self,
        name: str,
        node: str = "",
        cpu: str = "1",
        event: str = "MODIFIED",
        more: Mapping[str, str] = NOTHING,
        **of_spec: Any,
    ) -> None:
        """`more`: labels and annotations."""
        self._version += 1
        self._clock.advance(1.0)
        container = {
            "name": "c",
            "image": f"registry/{SECRET}",
            "env": [{"name": "TOKEN", "value": SECRET}],
            "resources": {"requests": {"cpu": cpu}},
        }
        meta = {
            "name": name,
            "namespace": SECRET,
            "uid": f"uid-{name}",
            "resourceVersion": str(self._version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"owner": SECRET, **more},
            "annotations": {SECRET: "yes", **more},
        }
        spec = {"containers": [container], "nodeName": node, "nodeSelector": {"team": SECRET}}
        spec |= of_spec
        item = {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
        line = json.dumps({"type": event, "object": item}).encode()
        self._recorder.record("pods", "line", line)

    def end(self) -> None:
        self._recorder.close()


EXAMPLES = Path(__file__).parents[4] / "docs" / "example-plugin"
LIMIT = "RackLimit"
ONE_A_NODE = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{multiPoint: {{enabled: [{{name: {LIMIT}}}]}}}}
  pluginConfig: [{{name: {LIMIT}, args: {{maxPerNode: 1}}}}]
"""


class InPlace:
    """Does at once what another process would do beside."""

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(self, work: Callable[..., Any], *given: Any) -> Future[Any]:
        done = Future[Any]()
        done.set_result(work(*given))
        return done


@pytest.fixture
def in_two_processes() -> None:
    """As in earnest: it takes a second to begin another process."""


@pytest.fixture(autouse=True)
def _beside(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "in_two_processes" not in request.fixturenames:
        monkeypatch.setattr(replay, "ProcessPoolExecutor", InPlace)


@pytest.fixture
def day(tmp_path: Path) -> Path:
    """Four pods; the third was put where berth rates lower, the fourth where it does not fit."""
    folder = tmp_path / "day"
    made = Day(folder, {"n1": "4", "n2": "4", "n3": "3"})
    for name, node in (("a", "n1"), ("b", "n2"), ("c", "n1")):
        made.pod(name, event="ADDED")
        made.pod(name, node)
    made.pod("d", event="ADDED", cpu="3")
    made.pod("d", "n1", cpu="3")
    made.end()
    return folder


def test_each_binding_is_judged_on_the_cluster_as_it_was(day: Path) -> None:
    report = in_the_shadow(day, DEFAULTS)
    assert report.bindings == 4
    assert report.counts["same"] + report.counts["equal"] == 2
    assert (report.counts["better"], report.counts["refused"]) == (1, 1)
    better, refused = report.examples
    assert (better.pod, better.node) == (f"{SECRET}/c", "n1")
    assert better.score_difference > 0
    assert (refused.pod, refused.reason) == (f"{SECRET}/d", "needs 1000m more cpu")
    assert lines_of(report)[0] == "4 bindings in 8 s"


@pytest.mark.usefixtures("in_two_processes")
def test_the_day_is_decided_anew_by_two_configurations(day: Path, tmp_path: Path) -> None:
    packing = parse_configuration(PACKING, "packing")
    found = compare(day, DEFAULTS, packing)
    assert (found.now.came, found.now.placed, found.now.never_placed) == (4, 4, 0)
    assert found.other.placed == 4
    assert found.other.nodes_in_use < found.now.nodes_in_use == 3
    assert found.other.cpu_share_of_nodes_in_use > found.now.cpu_share_of_nodes_in_use
    assert found.placed_elsewhere > 0
    assert compare(day, DEFAULTS, DEFAULTS).placed_elsewhere == 0


@pytest.mark.usefixtures("in_two_processes")
def test_the_other_configuration_may_name_a_plugin_that_only_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    day, folder, config = tmp_path / "day", tmp_path / "plugins", tmp_path / "other.yaml"
    made = Day(day, {"n1": "4", "n2": "4"})
    for name in ("a", "b", "c"):
        made.pod(name, event="ADDED", more={"app": "web"})
    made.end()
    copytree(EXAMPLES / "src", folder)
    about = folder / "examples-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: examples\nVersion: 0.1.0\n")
    points = tomllib.loads((EXAMPLES / "pyproject.toml").read_text())["project"]["entry-points"]
    (limit,) = (
        f"{key} = {value}" for key, value in points["berth.plugins"].items() if key == LIMIT
    )
    (about / "entry_points.txt").write_text(f"[berth.plugins]\n{limit}\n")
    config.write_text(ONE_A_NODE)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    replay.main([str(day), "--config", str(config), "--plugin", str(folder), "-o", "json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["now"]["placed"], found["other"]["placed"]) == (3, 2)


def test_the_comparison_is_a_page_as_well(day: Path, tmp_path: Path) -> None:
    config = tmp_path / "other.yaml"
    config.write_text(PACKING)
    written = tmp_path / "page.html"
    assert replay.main([str(day), "--config", str(config), "--page", str(written)]) == 0
    page = written.read_text()
    assert page.count("<figure") == 4
    assert "Placed differently" in page
    assert "n1" in page
    assert "<script" not in page
    nowhere = str(tmp_path / "no" / "page.html")
    with pytest.raises(ConfigurationError, match="--page: "):
        replay.main([str(day), "--config", str(config), "--page", nowhere])
    with pytest.raises(SystemExit):
        replay.main([str(day), "--page", str(written)])


@pytest.mark.parametrize("other", ["--config", "--page", "--anonymise"])
def test_what_would_have_no_effect_beside_a_pod_is_refused(
    other: str, day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        replay.main([str(day), "--pod", "ns/a", other, str(tmp_path / "other")])
    assert other in capsys.readouterr().err


def test_room_that_no_pod_of_the_day_can_have_is_stranded(tmp_path: Path) -> None:
    day = Day(tmp_path / "day", {"n1": "3", "n2": "3"})
    for name in ("a", "b", "c"):
        day.pod(name, cpu="2", event="ADDED")
    day.end()
    found = compare(tmp_path / "day", DEFAULTS, DEFAULTS)
    assert (found.now.placed, found.now.never_placed) == (2, 1)
    assert found.now.stranded_cpu_share == 1.0, "1 CPU is free on each, and 2 are wanted"
    assert [(one.text, one.pod_count) for one in found.now_detail.pending] == [("CPU short", 1)]
    assert found.now_detail.cpu_shares == {"n1": 0.667, "n2": 0.667}
    assert found.moved == []


def test_pods_that_go_make_room_and_waiting_counts(tmp_path: Path) -> None:
    made = Day(tmp_path / "day", {"n1": "1"})
    made.pod("a", event="ADDED")
    made.pod("a", "n1")
    made.pod("b", event="ADDED")
    for _ in range(5):
        made.pod("c", event="ADDED", cpu="9")
    made.pod("a", "n1", event="DELETED")
    made.pod("b", "n1")
    made.end()
    day = compare(tmp_path / "day", DEFAULTS, DEFAULTS).now
    assert (day.came, day.placed, day.never_placed) == (3, 2, 1)
    assert 2.0 < day.mean_wait_s <= 4.0, "b waited for a to go"


def test_a_recording_without_names_is_judged_alike(day: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert replay.main([str(day), "--anonymise", str(out)]) == 0
    told = b"".join(entry.content() for entry in read_recording(out))
    for name in (SECRET, "registry/", "TOKEN", "owner", "uid-a"):
        assert name.encode() not in told, name
    assert not [one for _, some in moments(out) for one in some if isinstance(one, ObjectRejected)]
    before, after = in_the_shadow(day, DEFAULTS), in_the_shadow(out, DEFAULTS)
    assert {**after.counts, "same": 0, "equal": 0} == {**before.counts, "same": 0, "equal": 0}
    assert after.examples[1].reason == before.examples[1].reason
    assert compare(out, DEFAULTS, DEFAULTS).now == compare(day, DEFAULTS, DEFAULTS).now


def test_what_is_no_recording_is_told_with_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from daemon import cli

    assert cli.main(["replay", str(tmp_path)]) == 1
    assert "there is no recording in this folder" in capsys.readouterr().err


def test_a_day_made_for_measuring_is_one_that_can_be_replayed(tmp_path: Path) -> None:
    day = tmp_path / "day"
    plan = DayPlan(node_count=20, pod_count=300, bound_count=40, hours=0.5)
    RecordedDay(day, plan, seed=1).write()
    told = [message for _, some in moments(day) for message in some]
    pods = [message.pod for message in told if isinstance(message, PodChanged)]
    came = {pod.uid for pod in pods if not pod.node_name}
    bound = came & {pod.uid for pod in pods if pod.node_name}
    report = in_the_shadow(day, DEFAULTS)
    assert report.bindings == len(bound) > 200
    assert not report.counts["refused"]
    found = compare(day, DEFAULTS, DEFAULTS).now
    assert (found.came, found.placed) == (len(came), len(bound))


def test_of_one_pod_it_says_how_nodes_were_rated_when_it_was_bound(
    day: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = explain_binding(day, DEFAULTS, f"{SECRET}/c")
    assert found.node == "n1"
    scores = {one.node: one.total for one in found.diagnosis.scores}
    better = in_the_shadow(day, DEFAULTS).examples[0]
    assert scores["n3"] - scores["n1"] == better.score_difference, "as when it was judged"
    assert replay.main([str(day), "--pod", f"{SECRET}/c"]) == 0
    printed = capsys.readouterr().out
    assert "SCORES THEN" in printed
    assert "n1 *" in printed
    with pytest.raises(OperationalError, match="default/nobody is not bound"):
        explain_binding(day, DEFAULTS, "nobody")


def test_a_node_that_reports_what_it_reported_is_told_once_a_list(tmp_path: Path) -> None:
    folder = tmp_path / "day"
    RecordedDay(folder, DayPlan(3, 0, 0, hours=0.5), seed=1).write()
    lines = [one for one in read_recording(folder) if (one.kind, one.input) == ("nodes", "line")]
    assert len(lines) > 15
    told = [message for _, some in moments(folder) for message in some]
    assert sum(isinstance(message, NodeChanged) for message in told) == 3


def decided_alike(day: Path, out: Path, options: RuntimeOptions) -> Comparison:
    """As recorded, and without its names."""
    assert replay.main([str(day), "--anonymise", str(out)]) == 0
    told = b"".join(entry.content() for entry in read_recording(out))
    assert SECRET.encode() not in told
    found = compare(day, DEFAULTS, DEFAULTS, options)
    assert found.moved == [], "twice by one configuration"
    assert compare(out, DEFAULTS, DEFAULTS, options).now == found.now
    return found


def test_groups_of_a_day_are_decided_again_and_so_is_who_makes_room_for_them(
    tmp_path: Path,
) -> None:
    made = Day(tmp_path / "day", {"n1": "2", "n2": "2", "n3": "1"})
    whole = {"disruptionMode": "PodGroup", "schedulingPolicy": {"gang": {"minCount": 2}}}
    rack = {TOPOLOGY_KEYS: "team, kubernetes.io/hostname"}
    made.group("low", {**whole, "priority": 1})
    made.group("high", {"priority": 9, "schedulingPolicy": {"gang": {"minCount": 4}}})
    made.group("racked", {"schedulingPolicy": {"gang": {"minCount": 2}}}, **rack)
    for name, group, priority in (
        *(("l1", "low", 1), ("l2", "low", 1)),
        *((f"h{number}", "high", 9) for number in range(4)),
        *(("r1", "racked", 0), ("r2", "racked", 0)),
    ):
        member = {"podGroupName": group}
        made.pod(name, event="ADDED", schedulingGroup=member, priority=priority)
    made.end()
    found = decided_alike(
        tmp_path / "day", tmp_path / "out", RuntimeOptions(feature_gates=PREEMPTING)
    )
    assert (found.now.came, found.now.placed, found.now.evicted) == (8, 6, 2)
    assert {key.partition("/")[2][0] for key in placed_in(tmp_path / "day", PREEMPTING)} == {"h"}
    alone = compare(tmp_path / "day", DEFAULTS, DEFAULTS, RuntimeOptions()).now
    assert (alone.placed, alone.evicted) == (6, 1), "groups are not looked at"


def placed_in(day: Path, gates: str) -> dict[str, str]:
    rerun = Rerun(Trial(DEFAULTS, RuntimeOptions(feature_gates=gates)))
    rerun.tell(moments(day))
    return rerun.placements


@pytest.mark.parametrize("whose", FOREIGN_GROUPS)
def test_groups_of_other_schedulers_are_read_from_a_recording(whose: str, tmp_path: Path) -> None:
    made = Day(tmp_path / "day", {"n1": "2"})
    made.group("train", {"minMember": 3})
    named = {FOREIGN_GROUPS[whose].named_by: "train"}
    for number in range(3):
        made.pod(f"p{number}", event="ADDED", more=named)
    made.end()
    options = RuntimeOptions(feature_gates=GATES, pod_groups=whose)
    assert decided_alike(tmp_path / "day", tmp_path / "out", options).now.placed == 0
    assert compare(tmp_path / "day", DEFAULTS, DEFAULTS).now.placed == 2


def test_what_is_no_kind_of_pod_groups_is_refused(
    day: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        replay.main([str(day), "--pod-groups", "nobody"])
    assert "--pod-groups nobody: must be one of" in capsys.readouterr().err


class RackedDay(Day):
    """Its nodes are in racks, and each has one of three images."""

    def _node(self, name: str, cpu: str) -> dict[str, Any]:
        item, number = super()._node(name, cpu), int(name[1:])
        item["metadata"]["labels"]["example.com/rack"] = f"rack-{number % 3}"
        images = [{"names": [f"registry/tool-{number % 3}:latest"], "sizeBytes": 500_000_000}]
        item["status"]["images"] = images
        return item


def decisions(day: Path) -> list[tuple[int, int]]:
    """Who is where, told by the order in which pods and nodes came."""
    pods, nodes = dict[str, None](), dict[str, None]()
    for _, some in moments(day):
        for one in some:
            match one:
                case PodChanged(pod):
                    pods[pod.key] = None
                case NodeChanged(node):
                    nodes[node.metadata.name] = None
                case _:
                    pass
    found, order, rows = placed_in(day, PREEMPTING), list(pods), list(nodes)
    return sorted((order.index(pod), rows.index(node)) for pod, node in found.items())


def test_without_its_names_each_pod_of_a_recording_goes_where_it_went(tmp_path: Path) -> None:
    """As they do not decide among equals, and what decides is kept: who is elastic, which image, which
    node a daemon is for."""
    draw = random.Random(2)
    made = RackedDay(tmp_path / "day", {f"n{number}": "4" for number in range(9)})
    gang = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 1}
    rack = {"schedulingConstraints": {"topology": [{"key": "example.com/rack"}]}}
    made.group("elastic", gang, **{ELASTIC: "true"})
    for number in range(3):
        made.group(f"racked{number}", {**gang, **rack})
    for number in range(40):
        group = draw.choice(("elastic", "racked0", "racked1", "racked2", ""))
        more: dict[str, Any] = {"schedulingGroup": {"podGroupName": group}} if group else {}
        if not group:
            fields = [{"key": "metadata.name", "operator": "In", "values": [f"n{number % 9}"]}]
            required = {"nodeSelectorTerms": [{"matchFields": fields}]}
            node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
            more = {"affinity": {"nodeAffinity": node_affinity}, "priority": 9}
        asked = {"requests": {"cpu": draw.choice("12")}}
        container = {"name": "c", "image": f"registry/tool-{number % 3}", "resources": asked}
        made.pod(f"p{number}", event="ADDED", **{"priority": 1, "containers": [container], **more})
    made.end()
    found = decisions(tmp_path / "day")
    assert len(found) > 20
    for number in range(3):
        out = tmp_path / f"out{number}"
        assert replay.main([str(tmp_path / "day"), "--anonymise", str(out)]) == 0
        assert decisions(out) == found


def test_of_a_text_of_which_decisions_read_parts_these_are_still_to_be_told_apart() -> None:
    text = Anonymiser().text
    assert text(f"{SECRET}/tool:latest") == f"{text(SECRET)}/{text('tool')}:latest"
    assert text(f"{SECRET}__zone") == f"{text(SECRET)}__{text('zone')}"
    assert SECRET not in text(f"{SECRET}/tool")
    for meant in ("scheduling.k8s.io", "podgroups"):
        assert text(meant) == meant, "for whom a claim is reserved"
    for meant in ("metadata.name", "0.0.0.0", "1e3", "ebs.csi.aws.com", "topology.gke.io/zone"):
        assert text(meant) == meant


def test_annotations_that_somebody_reads_are_kept_name_by_name() -> None:
    anonymiser = Anonymiser()
    labels = anonymiser.value({"rack": "r1", "kubernetes.io/hostname": "n1"}, "labels")
    given = {TOPOLOGY_KEYS: "rack, kubernetes.io/hostname", SELECTED_NODE: "n1", SECRET: "yes"}
    assert anonymiser.value(given, "annotations") == {
        TOPOLOGY_KEYS: ",".join(labels), SELECTED_NODE: labels["kubernetes.io/hostname"],
    }  # fmt: skip


def test_a_group_of_another_scheduler_makes_room_by_the_priority_of_its_pods(
    tmp_path: Path,
) -> None:
    made = Day(tmp_path / "day", {"n1": "2"})
    made.pod("low", event="ADDED", priority=1)
    made.group("train", {"minMember": 2})
    named = {FOREIGN_GROUPS["volcano"].named_by: "train"}
    for name in ("p1", "p2"):
        made.pod(name, event="ADDED", more=named, priority=9)
    for _ in range(3):
        made.pod("late", event="ADDED", cpu="9")
    made.end()
    options = RuntimeOptions(feature_gates=PREEMPTING, pod_groups="volcano")
    found = decided_alike(tmp_path / "day", tmp_path / "out", options)
    assert (found.now.placed, found.now.evicted) == (3, 1)
