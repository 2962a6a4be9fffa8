"""Pods that extenders have a say in, in the owner: handed out apart, in nobody's way."""

import msgspec

from daemon.core.dispatch import CREDIT_PODS
from daemon.core.owner_counts import Count
from shared.extenders.extender_config import ExtenderConfig
from shared.kube.pod_record import PodRecord
from shared.messages.admin import StopRequest
from shared.messages.codec import Drain
from shared.messages.from_scorer import AskForPods, Failure, Placements, Proposals
from shared.messages.to_scorer import PodsOnNodes, ScheduleExtended, SchedulePods
from shared.transport.heard import Said
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import EPOCH, Pipeline

RESOURCE = "example.com/foo"


def pipeline_with(extender: ExtenderConfig) -> Pipeline:
    pipeline = Pipeline(worker_count=1, extenders=(extender,))
    pipeline.sync([make_node("a"), make_node("b")], [])
    pipeline.run_until_quiet()
    return pipeline


FILTERS = ExtenderConfig(
    url_prefix="http://h", filter_verb="f", managed_resources=frozenset({RESOURCE})
)


def extended(name: str, **fields: object) -> PodRecord:
    resources = {"requests": {"cpu": "1m"}, "limits": {RESOURCE: "1"}}
    spec = {"containers": [{"name": "c", "resources": resources}], **fields}
    return make_pod(name, spec=spec)


def taken(pipeline: Pipeline) -> list[object]:
    """What the worker has been sent and not read."""
    inbox = pipeline.scorers[0].inbox
    messages = [effect.message for effect in inbox]
    inbox.clear()
    return list(messages)


def test_only_pods_of_interest_go_apart() -> None:
    pipeline = pipeline_with(FILTERS)
    pipeline.add_pod(extended("one"))
    pipeline.add_pod(make_pod("plain"))
    messages = taken(pipeline)
    (apart,) = [m for m in messages if isinstance(m, ScheduleExtended)]
    assert [(t.namespace, t.name, t.is_nominated) for t in apart.tasks] == [
        ("default", "one", False)
    ]
    (work,) = [m for m in messages if isinstance(m, SchedulePods)]
    assert work.pod_count == 1


def test_however_many_wait_for_extenders_others_are_handed_out() -> None:
    pipeline = pipeline_with(FILTERS)
    for number in range(CREDIT_PODS + 10):
        pipeline.add_pod(extended(f"p{number}"))
    taken(pipeline)
    pipeline.add_pod(make_pod("plain"))
    (work,) = [m for m in taken(pipeline) if isinstance(m, SchedulePods)]
    assert work.pod_count == 1


def test_an_answer_settles_one_pod_and_what_it_took() -> None:
    pipeline = pipeline_with(FILTERS)
    pipeline.add_pod(extended("one"))
    pipeline.add_pod(extended("two"))
    tasks = [t for m in taken(pipeline) if isinstance(m, ScheduleExtended) for t in m.tasks]
    scorer = pipeline.scorers[0]
    row = scorer.replica.nodes.row_of("a")
    generation = pipeline.state.cache.generation
    placed = Proposals(EPOCH, 0, 1, generation, Placements([tasks[0].ticket], [row]), [], [])
    pipeline.handle(Said(scorer.peer, placed))
    failure = Failure([tasks[1].ticket], "unreachable", [], [], is_error=True)
    failed = Proposals(EPOCH, 0, 2, generation, Placements([], []), [failure], [])
    pipeline.handle(Said(scorer.peer, failed))
    assert [order.name for order in pipeline.orders] == ["one"]
    assert pipeline.orders[0].extenders == []
    assert pipeline.state.counters[Count.ERRORS] == 1
    assert sum(len(each.attempts) for each in pipeline.state.scorers) == 0


def test_the_order_says_which_extender_binds() -> None:
    pipeline = pipeline_with(msgspec.structs.replace(FILTERS, filter_verb="", bind_verb="b"))
    pipeline.add_pod(extended("one"))
    pipeline.add_pod(make_pod("plain"))
    while len(pipeline.orders) != 2:
        assert pipeline.step_scorer(0) or pipeline.step_owner()
    found = {order.name: order.extenders for order in pipeline.orders}
    assert found == {"one": [0], "plain": []}


def test_a_worker_is_told_who_is_on_a_node_as_far_as_it_can_know() -> None:
    pipeline = pipeline_with(FILTERS)
    pipeline.add_pod(make_pod("old", node_name="a", phase="Running"))
    generation = pipeline.state.cache.generation
    pipeline.add_pod(make_pod("new", node_name="a", phase="Running"))
    row = pipeline.state.cache.nodes.row_of("a")
    taken(pipeline)

    def names(epoch: int, generation: int, rows: list[int]) -> list[str]:
        question = AskForPods(epoch, 5, generation, rows)
        pipeline.handle(Said(pipeline.scorers[0].peer, question))
        (answer,) = [m for m in taken(pipeline) if isinstance(m, PodsOnNodes)]
        assert answer.request_id == 5
        return [pod.name for pod in answer.pods]

    assert names(EPOCH, generation, [row]) == ["old"]
    assert sorted(names(EPOCH, pipeline.state.cache.generation, [row])) == ["new", "old"]
    assert names(EPOCH, generation, [99, -1]) == []
    assert names(EPOCH - 1, generation, [row]) == []


def test_a_stop_does_not_wait_for_extenders() -> None:
    pipeline = pipeline_with(FILTERS)
    pipeline.add_pod(extended("one"))
    assert sum(len(each.attempts) for each in pipeline.state.scorers) == 1
    taken(pipeline)
    pipeline.handle(Said(b"cli", StopRequest()))
    assert any(isinstance(message, Drain) for message in taken(pipeline))
