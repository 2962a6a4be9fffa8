"""Why a pod is where it is: refusals, what is missing least, scores, and what the owner knows."""

import msgspec
import pytest

from daemon.trial.explain import explain_in, explanation_lines
from daemon.trial.trial import Subject
from shared.errors import OperationalError
from shared.messages.to_owner import NodeChanged, ObjectChanged, PodChanged
from shared.plugins.images.image_locality import ImageLocality
from tests.support.builders import make_node, make_pod
from tests.support.devices import device, make_claim, make_class, make_slice
from tests.support.subjects import queue_facts_of, subject_with

TAINT = {"key": "gpu", "value": "", "effect": "NoSchedule"}


def cluster_without_room() -> Subject:
    nodes = [
        make_node("n1", cpu="1"),
        make_node("n2", cpu="2"),
        make_node("n3", cpu="8", taints=[TAINT]),
        make_node("n4", cpu="1", unschedulable=True),
    ]
    held = make_pod("held", cpu="300m", node_name="n2")
    return subject_with(nodes, [held, make_pod("big", cpu="2")])


def test_what_stands_alone_is_told_from_what_others_refuse_as_well() -> None:
    diagnosis = explain_in(cluster_without_room(), "default/big").diagnosis
    against = {one.plugin: (one.node_count, one.alone_count) for one in diagnosis.rejections}
    assert against == {
        "NodeResourcesFit": (3, 2),
        "NodeUnschedulable": (1, 0),
        "TaintToleration": (1, 1),
    }
    assert diagnosis.feasible_count == 0
    assert diagnosis.message.startswith("0/4 nodes are available: ")


def test_the_nearest_misses_say_how_much_is_missing() -> None:
    nearest = explain_in(cluster_without_room(), "default/big").diagnosis.nearest
    told = {one.node: one.reason for one in nearest}
    assert told["n2"] == "needs 300m more cpu"
    assert told["n1"] == "needs 1000m more cpu"
    assert "untolerated taint" in told["n3"]
    assert [one.node for one in nearest][-1] == "n1", "what is missing most comes last"


def test_one_node_is_asked_alone() -> None:
    diagnosis = explain_in(cluster_without_room(), "default/big", "n4").diagnosis
    assert {one.plugin for one in diagnosis.rejections} == {"NodeResourcesFit", "NodeUnschedulable"}
    assert [one.node for one in diagnosis.nearest] == ["n4"]
    with pytest.raises(OperationalError, match="there is no node n9"):
        explain_in(cluster_without_room(), "default/big", "n9")


def test_a_resource_that_no_node_has_is_named() -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"example.com/tpu": "1"}}}
    pod = make_pod("p", spec={"containers": [container]})
    (nearest,) = explain_in(subject_with([make_node("n1")], [pod]), "default/p").diagnosis.nearest
    assert nearest.reason == "has no example.com/tpu"


def test_a_plugin_that_raises_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def score(self: ImageLocality, *_: object) -> None:
        raise ValueError("oops")

    monkeypatch.setattr(ImageLocality, "score", score)
    subject = subject_with([make_node("n1")], [make_pod("p")])
    with pytest.raises(
        OperationalError, match=r"default/p: plugin ImageLocality: ValueError: oops"
    ):
        explain_in(subject, "default/p")


def test_a_bound_pod_is_rated_as_if_it_came_now_with_its_own_room_free() -> None:
    nodes = [make_node("n1", cpu="1"), make_node("n2", cpu="4")]
    subject = subject_with(nodes, [make_pod("p", cpu="1", node_name="n1")])
    explanation = explain_in(subject, "default/p")
    assert explanation.node == "n1"
    assert explanation.diagnosis.feasible_count == 2, "its own room is there for it"
    scores = {one.node: one for one in explanation.diagnosis.scores}
    assert scores["n2"].total > scores["n1"].total
    assert scores["n1"].total == sum(scores["n1"].scores.values())
    assert any(line.startswith("n1 *") for line in explanation_lines(explanation))


def test_who_is_not_here_or_of_another_scheduler_is_named() -> None:
    other = make_pod("other", spec={"schedulerName": "someone"})
    subject = subject_with([make_node("n1")], [other])
    with pytest.raises(OperationalError, match="there is no pod default/p"):
        explain_in(subject, "default/p")
    with pytest.raises(OperationalError, match="for the scheduler someone"):
        explain_in(subject, "default/other")


def test_the_owner_tells_what_a_pod_waits_for_and_until_when() -> None:
    trial = cluster_without_room().trial(decides=True)
    facts = queue_facts_of(trial, "default/big", 10.0)
    assert (facts.place, facts.attempts) == ("unschedulable", 1)
    assert facts.rejected_by == ["NodeResourcesFit", "NodeUnschedulable", "TaintToleration"]
    assert facts.here_for_s == facts.pending_for_s == 10.0
    assert facts.next_try_in_s == 290.0
    assert "NodeAdd" in facts.woken_by
    assert not [event for event in facts.woken_by if "PersistentVolume" in event]


def test_attempts_are_told_with_their_outcomes_and_who_waits_for_the_same() -> None:
    nodes = [make_node("n1", cpu="1")]
    pods = [make_pod("mine", cpu="2"), make_pod("other", cpu="3", priority=7)]
    subject = subject_with(nodes, pods)
    trial = subject.trial(decides=True)
    trial.tell([NodeChanged(make_node("n2", cpu="8", unschedulable=True))], 20.0)
    facts = queue_facts_of(trial, "default/mine", 30.0)
    assert [one.ago_s for one in facts.past] == [10.0, 30.0]
    lines = explanation_lines(explain_in(subject, "default/mine", queue=facts))
    assert any(
        line.startswith("against  1 other pod(s) that wait for the same (Insufficient cpu), 1 of")
        for line in lines
    )
    at = next(at for at, line in enumerate(lines) if line.startswith("ATTEMPT"))
    assert lines[at + 1].startswith("10 s ago  0/2 nodes are available: ")
    assert lines[at + 2].startswith("30 s ago  0/1 nodes are available: 1 Insufficient cpu.")


def test_gates_hold_for_who_decides_and_for_who_checks() -> None:
    """Without DRADeviceTaints both of them see a tainted device."""
    taints = [{"key": "k", "effect": "NoSchedule"}]
    named = [{"name": "c", "resourceClaimName": "claim"}]
    pod = make_pod("p", spec={"resourceClaims": named})
    of_kinds = {
        "deviceclasses": make_class(),
        "resourceslices": make_slice("n1", [device("a", taints=taints)]),
        "resourceclaims": make_claim(),
    }
    objects = [
        ObjectChanged(kind, each.metadata.key, msgspec.Raw(msgspec.msgpack.encode(each)))
        for kind, each in of_kinds.items()
    ]
    subject = subject_with([make_node("n1")], [])
    for gates, placed in (("", 0), ("DRADeviceTaints=false", 1)):
        options = msgspec.structs.replace(subject.options, feature_gates=gates)
        trial = subject._replace(options=options).trial(decides=True)
        trial.tell([*objects, PodChanged(pod)], 1.0)
        assert len(trial.placed) == placed
