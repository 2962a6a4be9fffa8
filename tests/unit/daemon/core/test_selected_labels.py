"""Labels that nobody selects by tell no pods apart; those that somebody selects by do from then on."""

from typing import Any

import msgspec
import pytest

from daemon.core import adapter_links, selected_labels
from daemon.core.queue.queued_pod import Place
from shared.framework.pod_info import PodInfo
from shared.kube.pod_record import decode_template
from shared.kube.resources import KINDS_BY_PLURAL
from shared.messages.to_owner import ObjectChanged, PodChanged
from shared.plugins.node.node_filters import NodeName
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline
from tests.unit.daemon.core.test_suspects import Deadly

INDEX = "batch.kubernetes.io/job-completion-index"
ZONE = "topology.kubernetes.io/zone"
HOST_NAME = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def selecting(kind: str, selector: dict[str, Any], namespace: str = "default") -> ObjectChanged:
    meta = {"name": "it", "namespace": namespace, "resourceVersion": "1"}
    struct = KINDS_BY_PLURAL[kind].struct_type
    value = msgspec.convert({"metadata": meta, "spec": {"selector": selector}}, struct)
    return ObjectChanged(kind, f"{namespace}/it", msgspec.Raw(msgspec.msgpack.encode(value)))


def away_from(**labels: str) -> dict[str, Any]:
    terms = [{"topologyKey": HOST_NAME, "labelSelector": {"matchLabels": labels}}]
    return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}


def running(node_count: int = 2) -> Pipeline:
    pipeline = Pipeline()
    pipeline.sync([make_node(f"n{i}") for i in range(node_count)], [])
    pipeline.run_until_quiet()
    return pipeline


def class_count(pipeline: Pipeline) -> int:
    """Of those that have pods."""
    return sum(each.pod_count > 0 for each in pipeline.state.cache.classes)


def placed(pipeline: Pipeline, *pods: Any) -> list[str]:
    """Their nodes, as the watch confirms them with labels of the node's zone."""
    pipeline.tell(*map(PodChanged, pods))
    pipeline.run_until_quiet()
    nodes = [pipeline.bound[pod.uid][0] for pod in pods]
    for pod, node in zip(pods, nodes, strict=True):
        labels = {**(decode_template(pod.template).labels or {}), ZONE: "a"}
        made = make_pod(pod.name, labels=labels, node_name=node, resource_version="2")
        pipeline.tell(PodChanged(made))
    pipeline.run_until_quiet()
    return nodes


def test_pods_of_an_indexed_job_are_of_one_class_before_and_after_they_are_bound() -> None:
    pipeline = running()
    placed(pipeline, *(make_pod(f"p{i}", labels={INDEX: str(i)}) for i in range(20)))
    assert class_count(pipeline) == 1
    pipeline.check()


def test_so_are_pods_of_many_jobs_but_not_of_two_replica_sets() -> None:
    pipeline = running()
    jobs = [{"kind": "Job", "apiVersion": "batch/v1", "name": f"j{i}"} for i in range(5)]
    sets = [{"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": f"r{i}"} for i in range(2)]
    owners = [*jobs, *sets]
    pods = [make_pod(f"p{i}", labels={"a": str(i)}, owner=each) for i, each in enumerate(owners)]
    pipeline.tell(*map(PodChanged, pods))
    assert class_count(pipeline) == 3


@pytest.mark.parametrize(
    ("kind", "selector"),
    [
        ("services", {INDEX: "0"}),
        ("replicationcontrollers", {INDEX: "0"}),
        ("replicasets", {"matchLabels": {INDEX: "0"}}),
        ("statefulsets", {"matchExpressions": [{"key": INDEX, "operator": "Exists"}]}),
        ("poddisruptionbudgets", {"matchExpressions": [{"key": INDEX, "operator": "Exists"}]}),
    ],
)
def test_an_object_that_selects_by_a_label_tells_pods_apart(
    kind: str, selector: dict[str, Any]
) -> None:
    pipeline = running()
    placed(pipeline, *(make_pod(f"p{i}", labels={INDEX: str(i)}) for i in range(3)))
    waiting = [make_pod(f"w{i}", labels={INDEX: str(i)}, cpu="100") for i in range(2)]
    pipeline.tell(*map(PodChanged, waiting))
    pipeline.run_until_quiet()
    assert class_count(pipeline) == 2
    pipeline.tell(selecting(kind, selector, "elsewhere"))
    assert class_count(pipeline) == 5
    for i, pod in enumerate(waiting):
        queued = pipeline.state.queue.get(pod.uid)
        assert queued is not None
        assert queued.place is Place.UNSCHEDULABLE
        assert queued.info.labels == {INDEX: str(i)}
    pipeline.check()


def test_who_keeps_away_from_a_label_that_nobody_selected_by_does_so() -> None:
    pipeline = running()
    (taken,) = placed(pipeline, make_pod("db", labels={"role": "db"}))
    placed(pipeline, *(make_pod(f"p{i}", spec=away_from(role="db")) for i in range(3)))
    for i in range(3):
        assert pipeline.bound[make_pod(f"p{i}").uid] != [taken]
    pipeline.check()


def test_a_pod_may_select_by_a_label_of_its_own() -> None:
    pipeline = running()
    spec = away_from(role="db")
    pods = [make_pod(f"p{i}", labels={"role": "db", INDEX: str(i)}, spec=spec) for i in range(3)]
    pipeline.tell(*map(PodChanged, pods))
    pipeline.run_until_quiet()
    assert sorted(node for (node,) in pipeline.bound.values()) == ["n0", "n1"]
    assert class_count(pipeline) == 1


def test_a_constraint_may_tell_pods_apart_by_the_key_alone() -> None:
    """matchLabelKeys: each revision is spread by itself."""
    constraint = {
        "topologyKey": HOST_NAME, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {}, "matchLabelKeys": ["revision"],
    }  # fmt: skip
    spec = {"topologySpreadConstraints": [constraint]}
    pipeline = running()
    for revision in ("old", "new"):
        names = [f"{revision}-{i}" for i in range(4)]
        pods = [make_pod(each, labels={"revision": revision}, spec=spec) for each in names]
        assert sorted(placed(pipeline, *pods)) == ["n0", "n0", "n1", "n1"]
    labels = [each.info.labels for each in pipeline.state.cache.classes if each.pod_count]
    assert sorted(each["revision"] for each in labels) == ["new", "old"]


@pytest.mark.parametrize("is_read", [False, True])
def test_an_attempt_under_way_does_not_count_when_its_pod_is_told_apart(is_read: bool) -> None:
    """A pod that keeps away from it was bound meanwhile, by somebody else."""
    pipeline = running(node_count=1)
    pod = make_pod("p", labels={"role": "db"})
    pipeline.tell(PodChanged(pod))
    if is_read:
        while pipeline.step_scorer(0):
            pass
    pipeline.tell(PodChanged(make_pod("other", node_name="n0", spec=away_from(role="db"))))
    pipeline.run_until_quiet()
    assert pod.uid not in pipeline.bound
    pipeline.delete_pod(make_pod("other", node_name="n0", spec=away_from(role="db")))
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    assert pipeline.bound[pod.uid] == ["n0"]
    pipeline.check()


def test_a_nominated_pod_keeps_its_room_as_one_of_another_class() -> None:
    pipeline = running(node_count=1)
    pipeline.tell(PodChanged(make_pod("low", cpu="4", node_name="n0")))
    high = make_pod("high", cpu="4", priority=10, labels={INDEX: "0"})
    pipeline.tell(PodChanged(high))
    while not pipeline.victims:
        assert pipeline.step_scorer(0) or pipeline.step_owner()
    pipeline.tell(selecting("services", {INDEX: "1"}))
    queued = pipeline.state.queue.get(high.uid)
    nomination = pipeline.state.cache.view.nominations.get(high.uid)
    assert queued is not None
    assert nomination is not None
    assert nomination.class_id == queued.class_id
    pipeline.tell(PodChanged(make_pod("other", cpu="4", priority=5)))
    pipeline.run_until_quiet()
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    assert pipeline.bound == {high.uid: ["n0"]}
    pipeline.check()


class DeadlyAmount(Deadly):
    """Scorers die of a pod that asks for a certain amount."""

    amount = "13m"

    def is_deadly(self, pod: PodInfo) -> bool:
        resources = pod.spec.containers[0].resources
        return resources is not None and (resources.requests or {}).get("cpu") == self.amount


def test_a_pod_that_no_scorer_survived_is_tried_again_as_one_of_another_class() -> None:
    deadly = DeadlyAmount()
    pod = make_pod("bad", cpu="13m", labels={INDEX: "0"})
    deadly.pipeline.sync([make_node("n0")], [pod])
    deadly.run()
    assert deadly.is_parked(pod)
    deadly.pipeline.tell(selecting("services", {INDEX: "1"}))
    assert not deadly.is_parked(pod)
    deadly.amount = ""
    deadly.run()
    assert deadly.pipeline.bound.keys() == {pod.uid}
    assert not deadly.pipeline.state.suspects.parked
    deadly.pipeline.check()


def test_a_label_of_its_own_that_changes_wakes_a_pod_whoever_selects_by_it() -> None:
    """As it wakes one that InterPodAffinity refused (`isSchedulableAfterPodChange` in
    pkg/scheduler/framework/plugins/interpodaffinity/plugin.go, v1.36.2)."""
    pipeline = running(node_count=1)
    placed(pipeline, make_pod("db", labels={"role": "db"}))
    pod = make_pod("p", spec=away_from(role="db"))
    pipeline.tell(PodChanged(pod))
    pipeline.run_until_quiet()
    pipeline.advance(20.0)
    queued = pipeline.state.queue.get(pod.uid)
    assert queued is not None
    assert queued.place is Place.UNSCHEDULABLE
    newer = make_pod("p", labels={"any": "1"}, spec=away_from(role="db"), resource_version="2")
    pipeline.tell(PodChanged(newer))
    assert queued.place is not Place.UNSCHEDULABLE
    pipeline.run_until_quiet()
    assert pod.uid not in pipeline.bound


@pytest.mark.parametrize(("labels", "is_spared"), [({INDEX: "0"}, True), ({}, False)])
def test_a_budget_for_pods_without_a_label_is_one_for_pods_with_others(
    labels: dict[str, str], is_spared: bool
) -> None:
    """A pod without any violates none (`filterPodsWithPDBViolation` in
    pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, v1.36.2)."""
    pipeline = running()
    without = {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    pipeline.tell(selecting("poddisruptionbudgets", without))
    victims = [
        make_pod("spared", labels=labels, cpu="4", node_name="n0"),
        make_pod("other", cpu="4", node_name="n1", priority=1),
    ]
    pipeline.tell(*map(PodChanged, victims))
    pipeline.tell(PodChanged(make_pod("high", cpu="4", priority=10)))
    pipeline.run_until_quiet()
    assert pipeline.evicted == {victims[1 if is_spared else 0].uid}


def test_with_too_many_keys_all_labels_count(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (selected_labels, adapter_links):
        monkeypatch.setattr(module, "SELECTED_KEYS_MAX", 2)
    pipeline = running()
    pods = [make_pod(f"p{i}", labels={INDEX: str(i)}, cpu="100") for i in range(3)]
    pipeline.tell(*map(PodChanged, pods))
    pipeline.tell(selecting("services", {"a": "", "b": ""}))
    assert class_count(pipeline) == 1
    pipeline.tell(selecting("services", {"a": "", "c": ""}))
    assert class_count(pipeline) == 3
    warnings = [
        note.fields for note in pipeline.notes if note.event == "all_labels_tell_pods_apart"
    ]
    assert warnings == [{"problem": "selectors name more than 2 different keys"}]
    placed(pipeline, make_pod("q", labels={"x": "y"}))
    held = pipeline.state.cache.get_pod(make_pod("q").uid)
    assert held is not None
    pipeline.advance(1.0)
    assert held.pod_class.info.labels == {"x": "y", ZONE: "a"}
    pipeline.check()


@pytest.mark.parametrize("keys", [frozenset({INDEX}), None])
def test_a_plugin_is_shown_the_labels_that_it_reads_and_any_where_it_states_none(
    monkeypatch: pytest.MonkeyPatch, keys: frozenset[str] | None
) -> None:
    monkeypatch.setattr(NodeName, "reads_labels", keys)
    pipeline = running()
    placed(pipeline, *(make_pod(f"p{i}", labels={INDEX: str(i), "a": "b"}) for i in range(3)))
    pipeline.advance(1.0)
    found = [each.info.labels for each in pipeline.state.cache.classes if each.pod_count]
    more = {"a": "b", ZONE: "a"} if keys is None else {}
    assert found == [{INDEX: str(i), **more} for i in range(3)]
