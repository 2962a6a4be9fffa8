"""A cluster decides the same whether pods are told apart by labels that nobody selects by or not.

Pods with labels at random, which some select by and others do not, come, go and change beside objects
that select pods, one event after the other; once with the classes of pods as they are, and once as with
a plugin that may look at any label.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.framework.runtime.registry import BuiltProfile
from shared.kube.pod_record import PodRecord
from shared.kube.resources import KINDS_BY_PLURAL
from shared.messages.to_owner import (
    AdapterMessage,
    ObjectChanged,
    ObjectDeleted,
    PodChanged,
    PodDeleted,
)
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline

ZONE = "topology.kubernetes.io/zone"
HOST_NAME = "kubernetes.io/hostname"
KEYS = st.sampled_from(["a", "b", "c", "d"])
VALUES = st.sampled_from(["1", "2"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)
EXPRESSIONS = st.one_of(
    st.builds(lambda key, v: {"key": key, "operator": "In", "values": [v]}, KEYS, VALUES),
    st.builds(lambda key, v: {"key": key, "operator": "NotIn", "values": [v]}, KEYS, VALUES),
    st.builds(lambda key: {"key": key, "operator": "DoesNotExist"}, KEYS),
)
SELECTORS = st.one_of(
    st.builds(lambda labels: {"matchLabels": labels}, LABELS),
    st.builds(lambda each: {"matchExpressions": [each]}, EXPRESSIONS),
)
TOPOLOGIES = st.sampled_from([ZONE, HOST_NAME])
TERMS = st.builds(lambda key, s: {"topologyKey": key, "labelSelector": s}, TOPOLOGIES, SELECTORS)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _affinity(kind: str, term: dict[str, Any], *, is_hard: bool) -> dict[str, Any]:
    wished = {PREFERRED: [{"weight": 10, "podAffinityTerm": term}]}
    return {"affinity": {kind: {REQUIRED: [term]} if is_hard else wished}}


def _spread(key: str, selector: dict[str, Any], keys: list[str], when: str) -> dict[str, Any]:
    constraint = {
        "topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": when, "labelSelector": selector,
        "matchLabelKeys": keys,
    }  # fmt: skip
    return {"topologySpreadConstraints": [constraint]}


SPECS = st.one_of(
    st.just({}),
    st.builds(
        lambda kind, term, is_hard: _affinity(kind, term, is_hard=is_hard),
        st.sampled_from(["podAffinity", "podAntiAffinity"]),
        TERMS,
        st.booleans(),
    ),
    st.builds(
        _spread,
        TOPOLOGIES,
        SELECTORS,
        st.lists(KEYS, max_size=1),
        st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    ),
)
OWNERS = st.sampled_from(
    [
        None,
        {"kind": "Job", "apiVersion": "batch/v1", "name": "it"},
        {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "it"},
    ]
)
SELECTING = ("services", "replicasets", "poddisruptionbudgets")
PODS = st.integers(0, 11)
POD_EVENTS = st.tuples(st.just("pod"), PODS, LABELS, SPECS, OWNERS, st.integers(0, 2))
PLAIN_PODS = st.tuples(st.just("pod"), PODS, LABELS, st.just({}), OWNERS, st.integers(0, 2))
EVENTS = st.lists(
    st.one_of(
        POD_EVENTS,
        st.tuples(st.just("label"), PODS, LABELS),
        st.tuples(st.just("delete"), PODS),
        st.tuples(st.just("object"), st.sampled_from(SELECTING), SELECTORS, st.booleans()),
        st.tuples(st.just("wait"), st.integers(1, 30)),
    ),
    min_size=5,
    max_size=30,
)


class Story:
    """What becomes of a cluster by some events."""

    def __init__(self) -> None:
        self.pipeline = Pipeline()
        nodes = [make_node(f"n{i}", cpu="1", labels={ZONE: f"z{i % 2}"}) for i in range(4)]
        self.pipeline.sync(nodes, [])
        self._made: dict[int, dict[str, Any]] = {}
        self._version = 0

    def tell(self, event: tuple[Any, ...]) -> None:
        if event[0] == "wait":
            self.pipeline.advance(float(event[1]))
        else:
            self.pipeline.tell(*self._messages(*event))
        self.pipeline.run_until_quiet()
        self.pipeline.check()

    def _messages(self, kind: str, *of: Any) -> list[AdapterMessage]:
        if kind == "object":
            plural, selector, is_gone = of
            if is_gone:
                return [ObjectDeleted(plural, "default/it")]
            spec = selector.get("matchLabels", {}) if plural == "services" else selector
            self._version += 1
            meta = {"name": "it", "namespace": "default", "resourceVersion": str(self._version)}
            body = {"metadata": meta, "spec": {"selector": spec}}
            value = msgspec.convert(body, KINDS_BY_PLURAL[plural].struct_type)
            raw = msgspec.Raw(msgspec.msgpack.encode(value))
            return [ObjectChanged(plural, "default/it", raw)]
        number = of[0]
        if kind == "pod" and number not in self._made:
            _, labels, spec, owner, priority = of
            self._made[number] = {
                "labels": labels, "spec": spec, "owner": owner, "priority": priority,
                "cpu": "400m",
            }  # fmt: skip
            return [PodChanged(self._pod(number))]
        if kind == "label" and number in self._made:
            self._made[number]["labels"] = of[1]
            return [PodChanged(self._pod(number))]
        if kind == "delete" and number in self._made:
            gone = self._pod(number)
            del self._made[number]
            return [PodDeleted(gone)]
        return []

    def _pod(self, number: int) -> PodRecord:
        self._version += 1
        node = self.pipeline.bound.get(f"uid-default-p{number}", [""])[-1]
        facts = {**self._made[number], "resource_version": str(self._version)}
        return make_pod(f"p{number}", node_name=node, **facts)

    @property
    def outcome(self) -> tuple[object, ...]:
        queued = {
            pod.key: (pod.place, pod.attempts, sorted(pod.rejected_by))
            for pod in self.pipeline.state.queue
        }
        return self.pipeline.bound, self.pipeline.evicted, queued, self.pipeline.nominated


@given(st.lists(PLAIN_PODS, min_size=6, max_size=12), EVENTS)
def test_labels_that_nobody_selects_by_decide_nothing(
    pods: list[tuple[Any, ...]], events: list[tuple[Any, ...]]
) -> None:
    here = Story()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BuiltProfile, "labels_read", None)
        there = Story()
    for event in [*pods, *events]:
        here.tell(event)
        there.tell(event)
        assert here.outcome == there.outcome
