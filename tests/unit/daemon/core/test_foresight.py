"""Lone pods that are placed where their worker said before they came: what that saves, and when it does
not count."""

from typing import Any

import msgspec
import pytest

from daemon.core.checker import Checker
from daemon.core.cluster_changes import LATE_S
from daemon.core.events import Tell
from daemon.core.owner_counts import Count
from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import PermitResult
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.profiles import ProfileConfig
from shared.framework.runtime.registry import BuiltProfile
from shared.framework.status import SUCCESS, Code, Status
from shared.kube.pod_record import PodRecord
from shared.messages.admin import StopRequest
from shared.messages.from_scorer import Forecast
from shared.messages.to_binder import BindPods
from shared.messages.to_owner import AdapterBatch, PodChanged
from shared.plugins.in_tree import InTreeRegistry
from shared.transport.channels import Channel
from shared.transport.heard import Said
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import ADAPTER, EPOCH, Pipeline
from tests.unit.daemon.core.test_waiting_pods import Asks

NODE_COUNT = 6
SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }
    ]
}


def calm(worker_count: int = 1, *, is_ahead: bool = True, count: int = 1) -> Pipeline:
    """A cluster in which one pod was placed, and the worker then looked ahead for so many."""
    pipeline = Pipeline(worker_count)
    pipeline.sync([make_node(f"n{i}") for i in range(NODE_COUNT)], [])
    pipeline.run_until_quiet()
    place(pipeline, "first", is_ahead=False)
    if is_ahead:
        foresee(pipeline, count)
    return pipeline


def place(pipeline: Pipeline, name: str, *, is_ahead: bool = True, cpu: str = "100m") -> str:
    """The node that a pod came to, alone."""
    pod = make_pod(name, cpu=cpu)
    pipeline.add_pod(pod)
    pipeline.run_until_quiet()
    if is_ahead:
        foresee(pipeline)
    (node,) = pipeline.bound[pod.uid]
    return node


def quiet(pipeline: Pipeline) -> None:
    """Nothing happens for a while, and whatever could wait is told."""
    pipeline.advance(LATE_S)
    pipeline.run_until_quiet()


def foresee(pipeline: Pipeline, count: int = 1) -> None:
    quiet(pipeline)
    for index in pipeline.scorers:
        pipeline.foresee(index, count)
    while pipeline.step_owner():
        pass


def used(pipeline: Pipeline) -> int:
    return pipeline.state.counters[Count.FORECASTS_USED]


def last_forecast(pipeline: Pipeline) -> Forecast:
    """What the worker says now; the owner does not hear it."""
    quiet(pipeline)
    assert pipeline.foresee(0)
    said = pipeline.to_owner.pop()
    assert isinstance(said, Said)
    assert isinstance(said.message, Forecast)
    return said.message


def test_the_binding_is_ordered_in_the_turn_in_which_the_pod_comes() -> None:
    pipeline = calm()
    arrival = Said(ADAPTER, AdapterBatch(EPOCH, [PodChanged(make_pod("p"))]))
    (order,) = pipeline.state.decide([arrival], pipeline.now_s)
    assert isinstance(order, Tell)
    assert isinstance(order.message, BindPods)
    assert [each.name for each in order.message.orders] == ["p"]
    told = pipeline.state.spread(pipeline.now_s)
    assert not [each for each in told if isinstance(each, Tell) and each.channel is Channel.SCORERS]


@pytest.mark.parametrize("worker_count", [1, 2])
def test_decisions_are_those_without_it(worker_count: int) -> None:
    names = [f"p{i}" for i in range(2 * NODE_COUNT)]
    pipeline, plain = calm(worker_count), calm(worker_count, is_ahead=False)
    nodes = [place(pipeline, name) for name in names]
    assert used(pipeline) == len(names)
    assert nodes == [place(plain, name, is_ahead=False) for name in names]
    assert used(plain) == 0


def test_a_worker_goes_on_from_a_pod_that_it_was_not_asked_about() -> None:
    names = [f"p{i}" for i in range(4)]
    pipeline, plain = calm(), calm(is_ahead=False)
    nodes = [place(pipeline, name, is_ahead=i % 2 == 0) for i, name in enumerate(names)]
    assert used(pipeline) == 3, "all but the one before which nobody looked ahead"
    assert nodes == [place(plain, name, is_ahead=False) for name in names]


def test_it_counts_once() -> None:
    pipeline = calm()
    place(pipeline, "a", is_ahead=False)
    place(pipeline, "b", is_ahead=False)
    assert used(pipeline) == 1


@pytest.mark.parametrize("worker_count", [1, 2])
@pytest.mark.parametrize("spread", [False, True])
def test_several_are_foreseen_at_once_and_decisions_are_the_same(
    worker_count: int, *, spread: bool
) -> None:
    pods = [
        make_pod(f"p{i}", labels={"app": "a"}, spec=SPREAD if spread else None) for i in range(20)
    ]
    pipeline, plain = calm(worker_count), calm(worker_count, is_ahead=False)
    for number, pod in enumerate(pods):
        for each in (pipeline, plain):
            each.add_pod(pod)
            each.run_until_quiet()
        if number in (0, 9):
            foresee(pipeline, 8)
    assert pipeline.bound == plain.bound
    assert used(pipeline) == 16


def test_pods_that_come_together_go_where_they_were_foreseen_and_the_rest_is_handed_out() -> None:
    pipeline, plain = calm(count=4), calm(is_ahead=False)
    for each in (pipeline, plain):
        each.tell(*(PodChanged(make_pod(f"p{i}")) for i in range(7)))
        each.run_until_quiet()
    assert used(pipeline) == 4
    assert pipeline.bound == plain.bound
    pipeline.check()


class RefusesOne(Asks):
    """A Permit plugin."""

    def permit(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Any:
        is_refused = record.name == "p1"
        return PermitResult(Status(Code.UNSCHEDULABLE, ("no",)) if is_refused else SUCCESS, 0.0)


def test_what_was_foreseen_on_top_of_a_pod_that_permit_refuses_is_void() -> None:
    pipelines = [Pipeline(permit=[RefusesOne("A")]) for _ in range(2)]
    for pipeline in pipelines:
        pipeline.sync([make_node(f"n{i}", cpu=f"{4 + i}") for i in range(NODE_COUNT)], [])
        pipeline.run_until_quiet()
        for name in ("first", "p0", "p1", "p2", "p3"):
            pipeline.add_pod(make_pod(name, cpu="2"))
            pipeline.run_until_quiet()
            if pipeline is pipelines[0] and name == "first":
                foresee(pipeline, NODE_COUNT)
        pipeline.check()
    assert [used(pipeline) for pipeline in pipelines] == [2, 0]
    assert pipelines[0].bound == pipelines[1].bound


def test_a_pod_that_comes_with_more_important_ones_of_another_class_waits_for_them() -> None:
    pipeline, plain = calm(count=4), calm(is_ahead=False)
    for each in (pipeline, plain):
        pods = make_pod("p"), make_pod("first", priority=5, cpu="1"), make_pod("q")
        each.tell(*(PodChanged(pod) for pod in pods))
        each.run_until_quiet()
    assert pipeline.bound == plain.bound
    pipeline.check()


def test_a_worker_is_told_of_what_it_foresaw_when_a_quarter_is_left_and_when_it_is_used_up() -> (
    None
):
    pipeline = calm(count=8)
    before = pipeline.state.snapshots.sequence
    told = []
    for i in range(8):
        place(pipeline, f"p{i}", is_ahead=False)
        told.append(pipeline.state.snapshots.sequence - before)
    assert told == [0, 0, 0, 0, 0, 1, 1, 2]
    assert used(pipeline) == 8
    pipeline.check()


@pytest.mark.parametrize("meanwhile", [0, 1, 2])
def test_what_it_says_then_goes_on_from_the_pods_that_were_placed_meanwhile(meanwhile: int) -> None:
    names = [f"p{i}" for i in range(6 + 8)]
    pipeline, plain = calm(count=8), calm(is_ahead=False)
    for name in names[:6]:
        place(pipeline, name, is_ahead=False)
    assert pipeline.foresee(0, 8)
    said = pipeline.to_owner.pop()
    for name in names[6 : 6 + meanwhile]:
        place(pipeline, name, is_ahead=False)
    pipeline.handle(said)
    for name in names[6 + meanwhile :]:
        place(pipeline, name, is_ahead=False)
    for name in names:
        place(plain, name, is_ahead=False)
    assert pipeline.bound == plain.bound
    assert used(pipeline) == (len(names) if meanwhile < 2 else 8), "of all that were foreseen"
    pipeline.check()


def test_what_it_says_is_void_where_pods_that_were_placed_meanwhile_would_go_elsewhere() -> None:
    pipeline = calm(count=8)
    for i in range(6):
        place(pipeline, f"p{i}", is_ahead=False)
    told = last_forecast(pipeline)
    place(pipeline, "p6", is_ahead=False)
    other = next(row for row in range(NODE_COUNT) if row != told.node_rows[0])
    wrong = msgspec.structs.replace(told, node_rows=[other, other])
    pipeline.handle(Said(pipeline.scorers[0].peer, wrong))
    place(pipeline, "p7", is_ahead=False)
    assert used(pipeline) == 7
    pipeline.check()


def test_what_was_foreseen_and_done_comes_with_whatever_else_happens() -> None:
    pipeline = calm(count=4)
    place(pipeline, "p", is_ahead=False)
    pipeline.add_node(make_node("new", cpu="64", memory="512Gi"))
    pipeline.run_until_quiet()
    assert place(pipeline, "q", is_ahead=False) == "new", "the rest is void"
    assert used(pipeline) == 1
    pipeline.check()


def test_who_is_handed_a_pod_knows_of_those_that_it_foresaw() -> None:
    pipeline = calm(count=8)
    taken = {place(pipeline, f"p{i}", is_ahead=False) for i in range(NODE_COUNT - 2)}
    assert used(pipeline) == NODE_COUNT - 2
    taken.update(pipeline.bound["uid-default-first"])
    pods = [make_pod(f"q{i}", cpu="1") for i in range(2)]
    pipeline.tell(*(PodChanged(pod) for pod in pods))
    pipeline.run_until_quiet()
    assert pipeline.state.counters[Count.PROPOSALS_REJECTED] == 0
    assert pipeline.bound[pods[0].uid][0] not in taken, "one node is empty"
    pipeline.check()


def test_a_worker_that_comes_gets_all_that_was_foreseen_and_done() -> None:
    pipeline = calm(count=4)
    place(pipeline, "p", is_ahead=False)
    pipeline.start_scorer(0)
    pipeline.run_until_quiet()
    pipeline.check()
    assert place(pipeline, "q", is_ahead=False)
    assert used(pipeline) == 1


def test_each_is_checked_when_its_turn_is_next() -> None:
    pipeline = calm(is_ahead=False)
    pipeline.add_node(make_node("small", cpu="150m"))
    quiet(pipeline)
    assert pipeline.foresee(0, 4)
    said = pipeline.to_owner.pop()
    assert isinstance(said, Said)
    told = said.message
    assert isinstance(told, Forecast)
    row = pipeline.state.cache.nodes.row_of("small")
    wrong = msgspec.structs.replace(told, node_rows=[row, row, row])
    pipeline.handle(Said(said.peer, wrong))
    assert place(pipeline, "p", is_ahead=False) == "small"
    assert place(pipeline, "q", is_ahead=False) != "small"
    assert used(pipeline) == 1
    pipeline.check()


def test_what_goes_to_nodes_apart_is_checked_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a lone pod costs its owner no check of its own."""
    pipeline = calm(is_ahead=False)
    asked: list[int] = []
    passing = Checker.passing

    def counting(checker: Checker, class_id: int, *rest: Any) -> Any:
        asked.append(class_id)
        return passing(checker, class_id, *rest)

    monkeypatch.setattr(Checker, "passing", counting)
    foresee(pipeline, 4)
    nodes = {place(pipeline, f"p{i}", is_ahead=False) for i in range(4)}
    assert len(nodes) == used(pipeline) == 4
    assert len(asked) == 1
    pipeline.check()


def test_pods_that_keep_one_another_away_are_checked_one_by_one() -> None:
    zone = "topology.kubernetes.io/zone"
    term = {"topologyKey": zone, "labelSelector": {"matchLabels": {"app": "a"}}}
    apart = {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    }
    pods = [make_pod(f"p{i}", labels={"app": "a"}, spec=apart) for i in range(3)]
    pipeline = Pipeline(1)
    zones = {f"{z}{i}": z for z in "abc" for i in range(2)}
    pipeline.sync([make_node(name, labels={zone: z}) for name, z in zones.items()], [])
    pipeline.add_pod(pods[0])
    pipeline.run_until_quiet()
    told = last_forecast(pipeline)
    (taken,) = pipeline.bound[pods[0].uid]
    others = [name for name in zones if zones[name] != zones[taken]]
    rows = [pipeline.state.cache.nodes.row_of(name) for name in others[:2]]
    wrong = msgspec.structs.replace(told, node_rows=rows)
    pipeline.handle(Said(pipeline.scorers[0].peer, wrong))
    for pod in pods[1:]:
        pipeline.add_pod(pod)
        pipeline.run_until_quiet()
    nodes = [node for pod in pods for node in pipeline.bound[pod.uid]]
    assert len({zones[node] for node in nodes}) == len(pods)
    assert used(pipeline) == 1
    pipeline.check()


def test_after_a_change_the_worker_is_asked() -> None:
    pipeline = calm()
    pipeline.add_node(make_node("new", cpu="64", memory="512Gi"))
    assert place(pipeline, "p") == "new"
    assert used(pipeline) == 0


def test_a_change_that_comes_with_the_pod_counts_too() -> None:
    pipeline = calm()
    pod = make_pod("p")
    others = [make_pod(f"on-n{i}", cpu="4", node_name=f"n{i}") for i in range(NODE_COUNT)]
    pipeline.tell(*(PodChanged(each) for each in (*others, pod)))
    pipeline.run_until_quiet()
    assert used(pipeline) == 0
    assert pod.uid not in pipeline.bound, "no node has room left"


def test_what_was_said_before_the_last_snapshot_is_void() -> None:
    pipeline = calm()
    forecast = last_forecast(pipeline)
    pipeline.add_node(make_node("new"))
    pipeline.handle(Said(pipeline.scorers[0].peer, forecast))
    place(pipeline, "p")
    assert used(pipeline) == 0


@pytest.mark.parametrize("row", [-1, 10_000])
def test_a_row_that_does_not_exist_is_no_forecast(row: int) -> None:
    pipeline = calm(is_ahead=False)
    told = last_forecast(pipeline)
    wrong = Forecast(EPOCH, told.sequence, told.ticket, told.class_id, [row], 0.0)
    pipeline.handle(Said(pipeline.scorers[0].peer, wrong))
    place(pipeline, "p")
    assert used(pipeline) == 0


def test_a_node_that_does_not_take_the_pod_is_no_forecast() -> None:
    pipeline = calm(is_ahead=False)
    pipeline.add_node(make_node("small", cpu="10m"))
    pipeline.run_until_quiet()
    told = last_forecast(pipeline)
    row = pipeline.state.cache.nodes.row_of("small")
    wrong = Forecast(EPOCH, told.sequence, told.ticket, told.class_id, [row], 0.0)
    pipeline.handle(Said(pipeline.scorers[0].peer, wrong))
    assert place(pipeline, "p") != "small"
    assert used(pipeline) == 0


def test_a_forecast_of_another_ticket_is_not_used() -> None:
    pipeline = calm(is_ahead=False)
    told = last_forecast(pipeline)
    other = Forecast(EPOCH, told.sequence, told.ticket + 1, told.class_id, told.node_rows, 0.0)
    pipeline.handle(Said(pipeline.scorers[0].peer, other))
    place(pipeline, "p")
    assert used(pipeline) == 0


def test_a_pod_of_another_class_is_not_placed_so() -> None:
    pipeline = calm()
    pipeline.add_pod(make_pod("large", cpu="2"))
    pipeline.run_until_quiet()
    place(pipeline, "small")
    pipeline.add_pod(make_pod("large2", cpu="2"))
    assert used(pipeline) == 0


def test_while_the_worker_has_a_pod_in_hand_none_is_placed_so() -> None:
    pipeline = calm()
    pipeline.add_pod(make_pod("other", cpu="200m"))
    pipeline.add_pod(make_pod("p"))
    assert used(pipeline) == 0
    pipeline.run_until_quiet()
    assert len(pipeline.bound) == 3


def test_a_pod_that_is_being_deleted_is_not_placed() -> None:
    pipeline = calm()
    pipeline.add_pod(make_pod("p", deleted="2026-01-01T00:00:00Z"))
    pipeline.run_until_quiet()
    assert used(pipeline) == 0
    assert len(pipeline.bound) == 1


def test_an_owner_that_stops_places_nothing_more() -> None:
    pipeline = calm()
    pipeline.handle(Said(b"admin", StopRequest()))
    pipeline.add_pod(make_pod("p"))
    assert used(pipeline) == 0
    assert not pipeline.orders


def test_what_a_worker_foresaw_goes_with_it() -> None:
    pipeline = calm()
    pipeline.start_scorer(0)
    while pipeline.step_owner():
        pass
    pipeline.add_pod(make_pod("p"))
    assert used(pipeline) == 0


def test_nothing_is_foreseen_while_room_is_kept_for_a_nominated_pod() -> None:
    pipeline = calm()
    gated = make_pod("gated", spec={"schedulingGates": [{"name": "later"}]})
    pipeline.add_pod(gated)
    pipeline.add_pod(msgspec.structs.replace(gated, nominated_node_name="n3"))
    pipeline.run_until_quiet()
    foresee(pipeline)
    place(pipeline, "p")
    assert used(pipeline) == 0


def test_a_pod_that_comes_nominated_goes_the_usual_way() -> None:
    pipeline = calm()
    pipeline.add_pod(msgspec.structs.replace(make_pod("p"), nominated_node_name="n3"))
    assert used(pipeline) == 0
    pipeline.run_until_quiet()
    assert pipeline.bound["uid-default-p"] == ["n3"]


class Reserver:
    """A Reserve plugin with a say about every pod."""

    NAME = "Reserver"

    def __init__(self) -> None:
        self.reserved: list[str] = []

    def reserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Status:
        del pod, cluster, row
        self.reserved.append(record.name)
        return SUCCESS

    def unreserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> None:
        raise AssertionError("nothing fails here")


def test_reserve_plugins_are_asked_about_their_pods() -> None:
    pipeline, reserver = Pipeline(), Reserver()
    reserve = pipeline.plugins.reserve
    assert isinstance(reserve, dict)
    reserve["default-scheduler"] = (reserver,)
    pipeline.sync([make_node("n0")], [])
    pipeline.run_until_quiet()
    for name in ("a", "b", "c"):
        place(pipeline, name)
    assert reserver.reserved == ["a", "b", "c"]
    assert used(pipeline) == 0


def test_a_sample_of_nodes_is_not_looked_at_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking moves on where the next sample begins, and decisions would be others."""

    def sampling(_gates: str) -> BuiltProfile:
        return InTreeRegistry().build(ProfileConfig(percentage_of_nodes_to_score=50))

    monkeypatch.setattr("tests.support.pipeline.default_profile", sampling)
    pipeline = calm()
    assert not pipeline.foresee(0)
    place(pipeline, "p")
    assert used(pipeline) == 0
