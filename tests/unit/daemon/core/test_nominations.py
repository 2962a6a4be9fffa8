"""Preemption through the whole pipeline: proposed by a worker, checked and carried out by the owner."""

import msgspec
import pytest

from daemon.core.owner_counts import Count
from daemon.core.queue.queued_pod import Place
from shared.kube.pod_record import PodRecord
from shared.messages.from_scorer import Failure, Placements, PreemptionProposal, Proposals
from shared.messages.to_owner import PodChanged, PodDeleted
from shared.transport.heard import Said
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import EPOCH, Pipeline
from tests.support.tasks import tasks_of


def bound_pods(count: int, *, priority: int = 0, node: str = "n0") -> list[PodRecord]:
    return [
        make_pod(f"low{i}-{node}", cpu="1", node_name=node, priority=priority) for i in range(count)
    ]


def told(pipeline: Pipeline) -> list[tuple[str, str | None]]:
    """What statuses are to say, request by request."""
    return [(patch.reason, patch.nominated_node_name) for patch in pipeline.patches]


def test_victims_go_and_the_preemptor_takes_their_room() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="4")], bound_pods(4))
    high = make_pod("high", cpu="2", priority=10)
    pipeline.add_pod(high)
    pipeline.run_until_quiet()
    assert pipeline.nominated[high.uid] == "n0"
    assert pipeline.state.counters[Count.PREEMPTIONS] == 1
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    assert pipeline.bound[high.uid] == ["n0"]
    assert pipeline.state.cache.pod_count() == 3
    assert not len(pipeline.state.cache.view.nominations)
    pipeline.check()


def test_why_a_pod_failed_and_where_it_is_nominated_is_written_together() -> None:
    """updatePod in pkg/scheduler/schedule_one.go, v1.36.2."""
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="4")], bound_pods(4))
    middle, high = (make_pod(n, cpu="4", priority=p) for n, p in (("middle", 5), ("high", 10)))
    for pod in (middle, high):
        pipeline.add_pod(pod)
        while not pipeline.nominated.get(pod.uid):
            assert pipeline.step_owner() or pipeline.step_scorer(0)
    assert [patch.name for patch in pipeline.patches] == ["middle", "middle", "high"]
    assert told(pipeline) == [("Unschedulable", "n0"), ("", ""), ("Unschedulable", "n0")]


@pytest.mark.parametrize("is_async", [True, False])
def test_a_preemptors_status_is_written_while_its_victims_are_asked_to_go(is_async: bool) -> None:
    pipeline = Pipeline(preempts_async=is_async)
    pipeline.sync([make_node("n0", cpu="4")], bound_pods(4))
    pipeline.add_pod(make_pod("high", cpu="4", priority=10))
    while not pipeline.victims:
        assert pipeline.step_owner() or pipeline.step_scorer(0)
    assert told(pipeline) == [("Unschedulable", "n0")]


def test_the_queue_tells_of_all_victims_also_those_that_were_going_away() -> None:
    pipeline = Pipeline()
    going = make_pod("going", cpu="2", node_name="n0", deleted="2026-01-01T00:00:00Z")
    pipeline.sync([make_node("n0", cpu="4")], [*bound_pods(2), going])
    high = make_pod("high", cpu="4", priority=10)
    pipeline.add_pod(high)
    while not pipeline.victims:
        assert pipeline.step_owner() or pipeline.step_scorer(0)
    book = pipeline.state.nominations
    ordered = {victim.uid for victim in pipeline.victims}
    assert going.uid not in ordered, "it is on its way"
    assert set(book.awaited_victims(high.uid)) == ordered | {going.uid}
    pipeline.delete_pod(going)
    assert set(book.awaited_victims(high.uid)) == ordered
    pipeline.delete_pod(high)
    assert book.awaited_victims(high.uid) == []
    pipeline.check()


def test_the_room_of_victims_is_kept_for_the_preemptor() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="4")], bound_pods(4))
    high = make_pod("high", cpu="2", priority=10)
    pipeline.add_pod(high)
    while not pipeline.victims:
        assert pipeline.step_owner() or pipeline.step_scorer(0)
    others = [make_pod(f"other{i}", cpu="1", priority=5) for i in range(4)]
    for other in others:
        pipeline.add_pod(other)
    pipeline.run_until_quiet()
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    assert pipeline.bound[high.uid] == ["n0"]
    # Two of the four took the room that was left to less important pods.
    assert sum(other.uid in pipeline.bound for other in others) == 2
    pipeline.check()


def test_a_preemptor_waits_for_its_victims_instead_of_asking_for_more() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="4"), make_node("n1", cpu="4")], bound_pods(4))
    for pod in bound_pods(4, node="n1"):
        pipeline.add_pod(pod)
    high = make_pod("high", cpu="2", priority=10)
    pipeline.add_pod(high)
    while not pipeline.victims:
        assert pipeline.step_owner() or pipeline.step_scorer(0)
    assert len(pipeline.victims) == 2
    # Tried again for another reason while they are still there, but going.
    while pipeline.step_victim(lingers=True):
        pass
    while pipeline.step_owner():
        pass
    pipeline.state.queue.activate([high.uid], pipeline.now_s)
    pipeline.advance(1.0)
    for _ in range(50):
        pipeline.step_owner()
        pipeline.step_scorer(0)
    assert not pipeline.victims
    messages = [v.message for v in pipeline.verdicts]
    assert "not eligible due to a terminating pod on the nominated node." in messages[-1]


def test_a_victim_that_cannot_be_deleted_gives_the_preemptor_another_try() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="4")], bound_pods(4))
    high = make_pod("high", cpu="4", priority=10)
    pipeline.add_pod(high)
    while not pipeline.victims:
        assert pipeline.step_owner() or pipeline.step_scorer(0)
    while pipeline.victims:
        assert pipeline.step_victim(fails=True)
    pipeline.run_until_quiet()
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    assert pipeline.bound[high.uid] == ["n0"]
    assert {note.event for note in pipeline.notes} >= {"victim_not_deleted"}


def test_victims_that_the_api_server_keeps_are_not_ordered_to_go_again_and_again() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="4")], bound_pods(1))
    pipeline.add_pod(make_pod("high", cpu="4", priority=10))
    refused = 0
    for _ in range(100):
        if not (pipeline.step_owner() or pipeline.step_scorer(0)):
            refused += pipeline.step_victim(fails=True)
    assert refused == 1
    pipeline.advance(2.0)
    pipeline.run_until_quiet()
    assert "uid-default-high" in pipeline.bound


def test_a_proposal_whose_victims_changed_is_refused() -> None:
    pipeline = Pipeline()
    pods = bound_pods(4)
    pipeline.sync([make_node("n0", cpu="4")], pods)
    high = make_pod("high", cpu="2", priority=10)
    pipeline.add_pod(high)
    while not pipeline.to_owner or not pipeline.scorers[0].proposal_sequence:
        assert pipeline.step_scorer(0) or pipeline.step_owner()
    # Before the proposal is read, the pods are replaced by more important ones.
    for pod in pods:
        pipeline.delete_pod(pod)
    for pod in bound_pods(4, priority=20):
        pipeline.add_pod(msgspec.structs.replace(pod, uid=pod.uid + "-again"))
    pipeline.run_until_quiet()
    assert pipeline.state.counters[Count.PREEMPTIONS_REJECTED] == 1
    assert not pipeline.victims
    assert high.uid not in pipeline.bound
    pipeline.check()


def test_less_important_nominations_on_the_node_end() -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="4")], bound_pods(4))
    middle = make_pod("middle", cpu="4", priority=5)
    pipeline.add_pod(middle)
    while not pipeline.victims:
        assert pipeline.step_owner() or pipeline.step_scorer(0)
    high = make_pod("high", cpu="4", priority=10)
    pipeline.add_pod(high)
    while pipeline.step_owner() or pipeline.step_scorer(0):
        pass
    assert pipeline.nominated == {middle.uid: "", high.uid: "n0"}
    assert len(pipeline.victims) == 4  # Those of `middle`: none is deleted twice.
    pipeline.run_until_quiet()
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    assert pipeline.bound == {high.uid: ["n0"]}


@pytest.mark.parametrize("is_async", [True, False])
def test_nobody_loses_a_nomination_where_all_victims_are_going_already(is_async: bool) -> None:
    """Nothing is done there, so nothing is counted either (prepareCandidateAsync upstream); unlike
    with the feature gate SchedulerAsyncPreemption off (prepareCandidate)."""
    pipeline = Pipeline(preempts_async=is_async)
    going = [
        msgspec.structs.replace(
            make_pod(f"going{i}", cpu="2", node_name="n0", deleted="2026-01-01T00:00:00Z"),
            is_preempted=True,
        )
        for i in range(2)
    ]
    low = msgspec.structs.replace(make_pod("low", cpu="1", priority=5), nominated_node_name="n0")
    pipeline.sync([make_node("n0", cpu="4")], [*going, low])
    high = make_pod("high", cpu="4", priority=10)
    pipeline.add_pod(high)
    pipeline.run_until_quiet()
    state = pipeline.state
    assert pipeline.nominated[high.uid] == "n0"
    assert state.queue.nominator.node_of(low.uid) == ("n0" if is_async else None)
    assert state.counters[Count.PREEMPTIONS] == 1
    (told,) = (each for each in state.counters.measured().histograms if each.name == "victims")
    assert any(told.counts) != is_async
    assert not pipeline.evicted


def preemption_under_way(*, is_async: bool = True) -> tuple[Pipeline, PodRecord]:
    """Four victims of one pod, which a binder has been told of; nothing is answered yet."""
    pipeline = Pipeline(preempts_async=is_async)
    pipeline.sync([make_node("n0", cpu="4")], bound_pods(4))
    high = make_pod("high", cpu="4", priority=10)
    pipeline.add_pod(high)
    while len(pipeline.victims) < 4:
        assert pipeline.step_owner() or pipeline.step_scorer(0)
    return pipeline, high


def settle(pipeline: Pipeline) -> None:
    """Owner and scorer come to rest; the binder does nothing."""
    while pipeline.step_owner() or pipeline.step_scorer(0):
        pass


@pytest.mark.parametrize("is_async", [True, False])
def test_a_preemptor_is_gated_while_its_victims_are_being_asked_to_go(is_async: bool) -> None:
    """By DefaultPreemption's PreEnqueue, with SchedulerAsyncPreemption only
    (default_preemption.go:165)."""
    pipeline, high = preemption_under_way(is_async=is_async)
    queue, counters = pipeline.state.queue, pipeline.state.counters
    assert queue.pending_lengths().gated == 0, "nobody asked yet whether it may be tried"
    pipeline.step_victim()
    pipeline.advance(2.0)
    settle(pipeline)
    pod = queue.get(high.uid)
    assert pod is not None
    assert pod.gated_by == ("DefaultPreemption" if is_async else "")
    assert queue.pending_lengths().gated == is_async
    assert counters[Count.UNSCHEDULABLE] == (1 if is_async else 2), "attempts"
    pipeline.run_until_quiet()
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    assert pipeline.bound == {high.uid: ["n0"]}
    assert queue.pending_lengths().gated == 0
    pipeline.check()


def test_the_gate_opens_once_the_last_victim_is_going() -> None:
    """As it does upstream for a victim with a grace period, whose end wakes the pod."""
    pipeline, high = preemption_under_way()
    order = pipeline.victims[3]
    for _ in range(3):
        pipeline.step_victim()
    held = pipeline.state.cache.get_pod(order.uid)
    assert held is not None
    settle(pipeline)
    going = msgspec.structs.replace(
        held.record, node_name="n0", deleted="2026-01-01T00:00:00Z", is_preempted=True
    )
    pipeline.tell(PodChanged(going))
    assert not pipeline.state.evictions.holds_back(high), "before the binder has said so"
    pipeline.tell(PodDeleted(going))
    pipeline.advance(20.0)
    settle(pipeline)
    assert [order.uid for order in pipeline.orders] == [high.uid]


def super_wants_the_same_room(pipeline: Pipeline) -> PodRecord:
    """A more important pod chooses the victims that are to go already, and is tried anew."""
    wanted = make_pod("super", cpu="4", priority=20)
    pipeline.add_pod(wanted)
    settle(pipeline)
    assert len(pipeline.victims) == 4, "nobody is deleted twice"
    pipeline.advance(2.0)
    settle(pipeline)
    return wanted


def test_a_preemptor_is_gated_while_victims_are_being_asked_to_go_for_another_pod() -> None:
    pipeline, high = preemption_under_way()
    wanted = super_wants_the_same_room(pipeline)
    pod = pipeline.state.queue.get(wanted.uid)
    assert pod is not None
    assert (pod.place, pod.gated_by) == (Place.UNSCHEDULABLE, "DefaultPreemption")
    pipeline.run_until_quiet()
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    assert pipeline.bound == {wanted.uid: ["n0"]}
    assert pipeline.state.queue.get(high.uid) is not None
    pipeline.check()


def test_a_deletion_that_fails_concerns_each_pod_that_waits_for_it() -> None:
    pipeline, _ = preemption_under_way()
    wanted = super_wants_the_same_room(pipeline)
    for fails in (True, False, False, False):
        pipeline.step_victim(fails=fails)
    settle(pipeline)
    assert pipeline.state.queue.pending_lengths().gated == 0
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    assert pipeline.bound == {wanted.uid: ["n0"]}
    pipeline.check()


def test_a_deletion_that_fails_opens_the_gate_when_no_other_is_under_way() -> None:
    pipeline, high = preemption_under_way()
    queue = pipeline.state.queue
    pipeline.step_victim()
    pipeline.step_victim(fails=True)
    pipeline.advance(2.0)
    settle(pipeline)
    assert queue.pending_lengths().gated == 1, "two more are to be asked to go"
    pipeline.step_victim()
    pipeline.step_victim()
    settle(pipeline)
    assert queue.pending_lengths().gated == 0
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    pipeline.advance(20.0)
    pipeline.run_until_quiet()
    assert pipeline.bound == {high.uid: ["n0"]}, "its second attempt asked the last one again"
    pipeline.check()


def test_nominations_of_the_api_server_hold_after_a_restart() -> None:
    pipeline = Pipeline()
    waiting = msgspec.structs.replace(
        make_pod("waiting", cpu="4", priority=10), nominated_node_name="n1"
    )
    pipeline.sync([make_node("n0", cpu="4"), make_node("n1", cpu="4")], [waiting])
    pipeline.run_until_quiet()
    assert pipeline.bound[waiting.uid] == ["n1"]
    assert not len(pipeline.state.cache.view.nominations)


def nominated_pod(node: str) -> PodRecord:
    """As the API server shows a pod that was nominated before."""
    pod = make_pod("waiting", cpu="4", priority=10)
    return msgspec.structs.replace(pod, nominated_node_name=node)


def test_a_nomination_ends_with_a_binding_that_fails() -> None:
    pipeline = Pipeline()
    waiting = nominated_pod("n0")
    pipeline.sync([make_node("n0", cpu="4")], [waiting])
    while not pipeline.orders:
        assert pipeline.step_owner() or pipeline.step_scorer(0)
    pipeline.step_binder(fails=True)
    while pipeline.step_owner():
        pass
    assert told(pipeline) == [("", "")]
    assert pipeline.state.queue.nominator.node_of(waiting.uid) is None
    pipeline.check()


def test_a_nomination_ends_when_there_are_no_nodes() -> None:
    pipeline = Pipeline()
    waiting = nominated_pod("n0")
    pipeline.sync([], [waiting])
    pipeline.run_until_quiet()
    assert told(pipeline) == [("Unschedulable", "")]
    pipeline.check()


def test_room_is_sought_beside_a_placement_whose_pod_is_deleted() -> None:
    """The last pod of its class goes between its placement and the owner's verdict on that."""
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="4")], [])
    pipeline.run_until_quiet()
    lone = make_pod("lone", cpu="3", labels={"job": "unique"})
    pipeline.add_pod(lone)
    while not pipeline.to_owner:
        assert pipeline.step_scorer(0)
    pipeline.delete_pod(lone)
    high = make_pod("high", cpu="3", priority=100)
    pipeline.add_pod(high)
    while pipeline.step_scorer(0):
        pass
    pipeline.run_until_quiet()
    assert pipeline.bound == {high.uid: ["n0"]}
    pipeline.check()


def test_a_nomination_ends_where_nobody_looks_for_room() -> None:
    pipeline = Pipeline()
    (framework,) = pipeline.frameworks.values()
    framework.post_filters = ()
    waiting = nominated_pod("n0")
    pipeline.sync([make_node("n0", cpu="2")], [waiting])
    pipeline.run_until_quiet()
    assert told(pipeline) == [("Unschedulable", "")]
    assert pipeline.state.queue.nominator.node_of(waiting.uid) is None
    pipeline.check()


def test_who_waits_for_room_is_told_of_a_nomination_that_no_status_came_to_name() -> None:
    """One that matters more takes the node, and leaves alone what was kept of it besides."""
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="4")], bound_pods(4))
    pipeline.add_pod(make_pod("middle", cpu="4", priority=5, host_port=80))
    while not pipeline.victims:
        assert pipeline.step_owner() or pipeline.step_scorer(0)
    waiting = make_pod("waiting", cpu=None, host_port=80)
    pipeline.add_pod(waiting)
    while pipeline.step_owner() or pipeline.step_scorer(0):
        pass
    assert not pipeline.orders
    pipeline.add_pod(make_pod("high", cpu="4", priority=10))
    while pipeline.step_owner() or pipeline.step_scorer(0):
        pass
    pipeline.advance(20.0)
    while pipeline.step_owner() or pipeline.step_scorer(0):
        pass
    assert [order.uid for order in pipeline.orders] == [waiting.uid]
    pipeline.check()


@pytest.mark.parametrize(("gone_count", "victim_count"), [(1, 1), (2, 0)])
def test_nobody_goes_for_room_that_came_while_a_proposal_was_under_way(
    gone_count: int, victim_count: int
) -> None:
    pipeline = Pipeline()
    pods = bound_pods(4)
    pipeline.sync([make_node("n0", cpu="4")], pods)
    pipeline.add_pod(make_pod("high", cpu="2", priority=10))
    while not pipeline.to_owner or not pipeline.scorers[0].proposal_sequence:
        assert pipeline.step_scorer(0) or pipeline.step_owner()
    for pod in pods[:gone_count]:  # The search takes the last ones that came.
        pipeline.delete_pod(pod)
    while pipeline.step_owner() or pipeline.step_scorer(0):
        pass
    assert pipeline.state.counters[Count.PREEMPTIONS_REJECTED] == 1
    assert len(pipeline.victims) == victim_count
    assert pods[0].uid not in {victim.uid for victim in pipeline.victims}
    pipeline.check()


def searched(
    pipeline: Pipeline, ticket: int, generation: int, proposal: PreemptionProposal | None
) -> None:
    """The worker says that a pod fits nowhere, and perhaps where room can be made for it."""
    failure = Failure([ticket], "0/1 nodes", ["NodeResourcesFit"], [], False, proposal)
    (scorer,) = pipeline.state.scorers.ready()
    sequence = pipeline.state.scorers.settled[scorer.index] + 1
    told = Proposals(EPOCH, 1, sequence, generation, Placements([], []), [failure], [])
    pipeline.handle(Said(scorer.peer, told))


@pytest.mark.parametrize("is_second_proposed", [True, False])
@pytest.mark.parametrize("is_first_gone", [True, False])
def test_what_was_found_on_top_of_room_that_was_not_made_is_no_verdict(
    is_first_gone: bool, is_second_proposed: bool
) -> None:
    """The worker took the first pod for nominated: the second would need more to go, or fits nowhere."""
    pipeline = Pipeline()
    pipeline.sync([make_node("n0", cpu="2")], bound_pods(2))
    pods = [make_pod(name, cpu="1", priority=10) for name in ("first", "second")]
    for pod in pods:
        pipeline.add_pod(pod)
    scorer = pipeline.scorers[0]
    while not scorer.work:
        assert pipeline.step_scorer(0) or pipeline.step_owner()
    first, second = (task.ticket for work in scorer.work for task in tasks_of(work))
    generation = scorer.replica.generation
    one, other = (held.row for held in pipeline.state.cache.pods())
    if is_first_gone:
        pipeline.delete_pod(pods[0])
        pipeline.step_owner()
    else:
        pipeline.state.scorers.ready()[0].refused_generation = generation
    searched(pipeline, first, generation - 1, PreemptionProposal(0, [one]))
    both = PreemptionProposal(0, [one, other]) if is_second_proposed else None
    searched(pipeline, second, generation, both)
    assert not pipeline.victims
    waiting = pipeline.state.queue.get(pods[1].uid)
    assert waiting is not None
    assert waiting.place in (Place.ACTIVE, Place.IN_FLIGHT), "it is tried at once"
    pipeline.check()
