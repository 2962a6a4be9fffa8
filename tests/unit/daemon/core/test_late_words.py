"""What becomes of a pod by its binding and on its node (labels of the node's zone, when it began, what
its containers have): it voids nothing that is foreseen of others, and is known soon."""

import math

import pytest
from msgspec.structs import replace

from daemon.core.cluster_changes import LATE_S
from daemon.core.owner_counts import Count
from shared.kube.pod_record import PodRecord
from shared.messages.to_owner import PodChanged
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline
from tests.unit.daemon.core.test_foresight import calm, foresee, place, quiet, used

pytestmark = pytest.mark.usefixtures("all_labels_matter")

ZONE = "topology.kubernetes.io/zone"


def confirmed(pipeline: Pipeline, name: str) -> PodRecord:
    """The pod as the watch shows it once it is bound."""
    (node,) = pipeline.bound[make_pod(name).uid]
    return make_pod(name, node_name=node, labels={ZONE: "a"}, resource_version="2")


def labels(pipeline: Pipeline, name: str) -> dict[str, str]:
    held = pipeline.state.cache.get_pod(make_pod(name).uid)
    assert held is not None
    return dict(held.pod_class.info.labels)


def bound_in_zones(count: int) -> Pipeline:
    """So many pods were placed as they were foreseen, as two more are, and the watch tells."""
    pipeline = calm(count=count + 2)
    for i in range(count):
        place(pipeline, f"p{i}", is_ahead=False)
        pipeline.tell(PodChanged(confirmed(pipeline, f"p{i}")))
    assert used(pipeline) == count
    return pipeline


def test_what_is_foreseen_stays_and_the_labels_are_known_within_a_second() -> None:
    pipeline = bound_in_zones(3)
    place(pipeline, "q", is_ahead=False)
    assert used(pipeline) == 4
    for i in range(3):
        assert not pipeline.state.cache.is_assumed_pod(make_pod(f"p{i}").uid)
    assert pipeline.state.wakes_at_s <= pipeline.now_s + LATE_S
    quiet(pipeline)
    assert [labels(pipeline, f"p{i}") for i in range(3)] == [{ZONE: "a"}] * 3
    assert labels(pipeline, "q") == {}
    assert pipeline.state.wakes_at_s == math.inf
    pipeline.check()


def test_with_work_for_a_scorer_they_are_told() -> None:
    """It has to hear what changed anyway."""
    pipeline = calm(is_ahead=False)
    place(pipeline, "big0", is_ahead=False, cpu="2")
    place(pipeline, "first0", is_ahead=False)
    foresee(pipeline, 3)
    place(pipeline, "p", is_ahead=False)
    pipeline.tell(PodChanged(confirmed(pipeline, "p")))
    assert labels(pipeline, "p") == {}
    pipeline.tell(PodChanged(make_pod("big1", cpu="2")))
    assert labels(pipeline, "p") == {ZONE: "a"}


def test_where_nothing_is_foreseen_they_wait_for_one_another() -> None:
    pipeline = calm(is_ahead=False)
    pipeline.tell(PodChanged(confirmed(pipeline, "first")))
    assert labels(pipeline, "first") == {}
    began = replace(
        confirmed(pipeline, "first"), resource_version="3", started="2026-01-01T00:00:00Z"
    )
    pipeline.tell(PodChanged(began))
    quiet(pipeline)
    held = pipeline.state.cache.get_pod(began.uid)
    assert held is not None
    assert (labels(pipeline, "first"), held.record.started) == ({ZONE: "a"}, began.started)


def test_whoever_waits_for_them_is_woken() -> None:
    pipeline = calm(is_ahead=False)
    terms = [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {ZONE: "a"}}}
    ]
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    waiting = make_pod("waiting", spec={"affinity": affinity})
    pipeline.add_pod(waiting)
    pipeline.run_until_quiet()
    foresee(pipeline, 3)
    place(pipeline, "p", is_ahead=False)
    pipeline.tell(PodChanged(confirmed(pipeline, "p")))
    for _ in range(3):  # And its back-off.
        pipeline.advance(10.0)
        pipeline.run_until_quiet()
    assert pipeline.bound[waiting.uid] == pipeline.bound[make_pod("p").uid]


RUNNING = {
    "containerStatuses": [
        {
            "name": "c",
            "allocatedResources": {"cpu": "200m"},
            "resources": {"requests": {"cpu": "100m"}},
        }
    ]
}


@pytest.mark.parametrize("generation", [1, 2])
def test_what_the_kubelet_says_waits_unless_the_spec_has_changed(generation: int) -> None:
    pipeline = calm(is_ahead=False)
    (node,) = pipeline.bound[make_pod("first").uid]
    told = replace(make_pod("first", node_name=node, resource_version="2"), generation=1)
    pipeline.tell(PodChanged(told))
    place(pipeline, "before", is_ahead=False)
    foresee(pipeline, 3)
    began = "2026-01-01T00:00:00Z"
    running = make_pod("first", node_name=node, status=RUNNING, resource_version="3")
    pipeline.tell(PodChanged(replace(running, generation=generation, started=began)))
    place(pipeline, "p", is_ahead=False)
    assert used(pipeline) == (1 if generation == 1 else 0)
    pipeline.advance(LATE_S)
    pipeline.run_until_quiet()
    held = pipeline.state.cache.get_pod(running.uid)
    assert held is not None
    assert held.record.started == began
    assert held.pod_class.info.template.status is not None
    assert pipeline.state.cache.pod_table.start_s[held.row] > 0
    pipeline.check()


def test_a_pod_that_is_going_is_known_to_be_at_once() -> None:
    pipeline = bound_in_zones(1)
    (node,) = pipeline.bound[make_pod("p0").uid]
    going = make_pod("p0", node_name=node, deleted="2026-01-01T00:00:00Z", resource_version="3")
    pipeline.tell(PodChanged(replace(going, started="2026-01-01T00:00:00Z")))
    held = pipeline.state.cache.get_pod(going.uid)
    assert held is not None
    assert pipeline.state.cache.pod_table.is_terminating[held.row]


@pytest.mark.parametrize("is_newer", [False, True])
def test_what_the_watch_says_later_is_what_counts(*, is_newer: bool) -> None:
    pipeline = bound_in_zones(1)
    (node,) = pipeline.bound[make_pod("p0").uid]
    if is_newer:
        newer = make_pod("p0", node_name=node, labels={"app": "b"}, resource_version="3")
        pipeline.tell(PodChanged(newer))
    else:
        pipeline.delete_pod(make_pod("p0", node_name=node))
    quiet(pipeline)
    assert (pipeline.state.cache.get_pod(make_pod("p0").uid) is not None) is is_newer
    assert pipeline.state.wakes_at_s == math.inf
    if is_newer:
        assert labels(pipeline, "p0") == {"app": "b"}
    pipeline.check()


def test_a_pod_that_cannot_be_read_as_it_is_bound_stays_as_it_was_placed() -> None:
    pipeline = calm(count=3)
    place(pipeline, "p", is_ahead=False)
    (node,) = pipeline.bound[make_pod("p").uid]
    broken = make_pod("p", node_name=node, cpu="lots", resource_version="2")
    pipeline.tell(PodChanged(broken))
    pipeline.advance(LATE_S)
    pipeline.run_until_quiet()
    assert pipeline.state.counters[Count.OBJECTS_REJECTED] == 1
    assert labels(pipeline, "p") == {}
    pipeline.add_node(make_node("new"))
    pipeline.run_until_quiet()
    pipeline.check()
