"""Pods that wait for extenders: whose turn it is, and what comes of answers, on a copy that moves on."""

from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest

from shared.columns.nomination_columns import Nomination
from shared.columns.pod_table import name_hash
from shared.columns.schema import CPU
from shared.extenders.extender_config import EXTENDER, ExtenderConfig
from shared.extenders.extender_wire import ExtenderVerdicts, MetaPod, MetaVictims
from shared.framework.post_filter import PostFilterResult
from shared.framework.runtime.profiles import ProfileConfig
from shared.kube.pod_record import PodRecord
from shared.messages.from_scorer import AskForPods, FromScorer, Proposals
from shared.messages.to_scorer import ExtendedTask, PodOnNode, PodsOnNodes, SnapshotFull
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import EPOCH, Pipeline
from workers.scorer.extended_pods import (
    PODS_AT_A_TIME,
    ExtendedCycle,
    ExtenderAnswer,
    FilterQuestion,
    PreemptQuestion,
    Question,
)


class FakeCaller:
    """Keeps what is asked."""

    def __init__(self, *extenders: ExtenderConfig) -> None:
        self.extenders = extenders
        self.questions: list[Question] = []

    def ask(self, question: Question) -> None:
        self.questions.append(question)

    def take(self) -> FilterQuestion:
        question = self.questions.pop(0)
        assert isinstance(question, FilterQuestion)
        return question


FILTERS = ExtenderConfig(url_prefix="http://a", filter_verb="f")
PREEMPTS = ExtenderConfig(url_prefix="http://a", preempt_verb="p")


class World:
    """A worker's copy of a small cluster, and its extended pods."""

    def __init__(
        self,
        *extenders: ExtenderConfig,
        pods: list[PodRecord],
        running: Sequence[PodRecord] = (),
        node_names: Sequence[str] = ("a", "b", "c"),
        percentage: int | None = None,
    ) -> None:
        pipeline = Pipeline(worker_count=1)
        pipeline.start_scorer(0)
        # Nobody but the test moves messages on, so the pending pods are placed by nobody else.
        nodes = [make_node(name, cpu="1") for name in node_names]
        pipeline.sync(nodes, [*running, *pods])
        pipeline.step_owner()
        pipeline.step_owner()
        scorer = pipeline.scorers[0]
        while scorer.inbox:
            pipeline._read(scorer, scorer.inbox.popleft())
        self.replica, self.state = scorer.replica, pipeline.state
        self.pipeline = pipeline
        self.caller = FakeCaller(*extenders)
        self.asked_for: list[tuple[int, int, list[int]]] = []
        built = InTreeRegistry().build(ProfileConfig(percentage_of_nodes_to_score=percentage))
        self.cycle = ExtendedCycle(
            self.caller.extenders,
            self.caller.ask,
            self._ask_for_pods,
            self.replica,
            {built.scheduler_name: built.framework},
            0,
        )

    def make_copy_anew(self) -> None:
        """From a full snapshot, as another scorer is sent it."""
        self.pipeline.start_scorer(1)
        while self.pipeline.step_owner():
            pass
        for effect in self.pipeline.scorers[1].inbox:
            if isinstance(effect.message, SnapshotFull):
                self.replica.apply_full(effect.message, list(effect.buffers))
        self.cycle.start_over()

    def _ask_for_pods(self, message: FromScorer) -> None:
        assert isinstance(message, AskForPods)
        self.asked_for.append((message.request_id, message.generation, message.node_rows))

    def add(self, *records: PodRecord, is_nominated: bool = False) -> list[Proposals]:
        tasks = []
        for number, record in enumerate(records, 1):
            queued = self.state.queue.get(record.uid)
            assert queued is not None
            tasks.append(
                ExtendedTask(
                    number, queued.class_id, is_nominated, "default", record.name, record.uid
                )
            )
        self.cycle.add(tasks)
        return self.cycle.work([])

    def answer(self, question: Question, *passing: str, **scores: int) -> list[Proposals]:
        assert isinstance(question, FilterQuestion)
        refused = {name: "no" for name in question.node_names if name not in passing}
        verdicts = ExtenderVerdicts(list(passing), refused, {}, Counter(scores))
        return self.cycle.work([ExtenderAnswer(question.number, verdicts=verdicts)])

    def search_room(
        self, task: ExtendedTask, verdicts: ExtenderVerdicts
    ) -> PostFilterResult | None:
        return self.cycle.search_room(task, verdicts, self.cycle._room_maker()).result

    def row(self, name: str) -> int:
        return self.replica.nodes.row_of(name)


def placements(settled: list[Proposals]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for each in settled:
        made = each.placements
        found += zip(made.tickets, made.node_rows, strict=True)
    return found


def test_the_most_important_are_asked_about_first_and_not_all_at_once() -> None:
    pods = [make_pod(f"p{i}", cpu="10m", priority=i) for i in range(PODS_AT_A_TIME + 2)]
    world = World(FILTERS, pods=pods)
    assert world.add(*pods) == []
    names = [question.pod.name for question in world.caller.questions]
    assert names == [f"p{i}" for i in range(PODS_AT_A_TIME + 1, 1, -1)]
    settled = world.answer(world.caller.take(), "a")
    assert placements(settled) == [(PODS_AT_A_TIME + 2, world.row("a"))]
    assert world.caller.questions[-1].pod.name == "p1"
    assert len(world.cycle._waiting) + len(world.cycle._open) == PODS_AT_A_TIME + 1


def test_all_nodes_that_take_the_pod_are_sent() -> None:
    """Also where fewer would be scored of a pod that no extender is asked about."""
    pod, names = make_pod("p"), [f"n{i:03}" for i in range(200)]
    world = World(FILTERS, pods=[pod], node_names=names, percentage=1)
    world.add(pod)
    assert sorted(world.caller.take().node_names) == names


def test_the_scores_of_extenders_count() -> None:
    pod = make_pod("p")
    world = World(FILTERS, pods=[pod])
    world.add(pod)
    settled = world.answer(world.caller.take(), "a", "b", "c", c=1000)
    assert placements(settled) == [(1, world.row("c"))]


@pytest.mark.parametrize(("are_bare", "best"), [(False, "c"), (True, "a")])
def test_nodes_that_an_extender_sent_back_are_rated_without_their_pods(
    are_bare: bool, best: str
) -> None:
    pod = make_pod("p", cpu="100m")
    running = [make_pod("on-a", cpu="500m", node_name="a", phase="Running")]
    world = World(FILTERS, pods=[pod], running=running)
    world.add(pod)
    # Alike but for the pod on "a", and the extender likes "a" a little.
    verdicts = ExtenderVerdicts(["a", "c"], scores=Counter({"a": 1}), are_bare=are_bare)
    settled = world.cycle.work([ExtenderAnswer(world.caller.take().number, verdicts=verdicts)])
    assert placements(settled) == [(1, world.row(best))]
    cpu_milli = {name: world.replica.nodes.requested[CPU, world.row(name)] for name in "ac"}
    assert cpu_milli == {"a": 500, "c": 0, best: {"a": 600, "c": 100}[best]}


def test_a_node_that_filled_up_meanwhile_is_not_taken() -> None:
    pods = [make_pod("one", cpu="900m"), make_pod("two", cpu="900m")]
    world = World(FILTERS, pods=pods)
    world.add(*pods)
    first, second = world.caller.take(), world.caller.take()
    assert placements(world.answer(first, "a")) == [(1, world.row("a"))]
    (settled,) = world.answer(second, "a")
    assert settled.skipped == [2]


def test_a_pod_refused_everywhere_is_refused_by_extenders() -> None:
    pod = make_pod("p")
    world = World(FILTERS, pods=[pod])
    world.add(pod)
    (settled,) = world.answer(world.caller.take())
    (failure,) = settled.failures
    assert failure.plugins == [EXTENDER]
    assert not failure.is_error
    assert failure.message.startswith("0/3 nodes are available: 3 no.")


def test_of_a_node_that_filters_refused_the_extenders_word_counts() -> None:
    """As in findNodesThatPassExtenders (schedule_one.go), which writes over what the filters said."""
    full = make_pod("on-b", cpu="900m", node_name="b", phase="Running", priority=-5)
    pod = make_pod("p", cpu="900m")
    world = World(FILTERS, pods=[pod], running=[full])
    world.add(pod)
    question = world.caller.take()
    assert sorted(question.node_names) == ["a", "c"]
    verdicts = ExtenderVerdicts([], {"a": "no"}, {"b": "never", "c": "never", "elsewhere": "what"})
    (settled,) = world.cycle.work([ExtenderAnswer(question.number, verdicts=verdicts)])
    (failure,) = settled.failures
    # Nothing is won on b, though a less important pod is there.
    assert failure.preemption is None
    assert failure.message.startswith("0/3 nodes are available: 1 no, 1 what, 2 never. ")
    assert failure.plugins == [EXTENDER, "NodeResourcesFit"]


def test_a_node_that_filters_refused_for_good_may_be_won_if_an_extender_says_so() -> None:
    big = make_pod("p", cpu="1500m", priority=5)
    pods = [make_pod("on-a", cpu="100m", node_name="a", phase="Running"), big]
    world = World(FILTERS, pods=pods[1:], running=pods[:1])
    queued = world.state.queue.get(big.uid)
    assert queued is not None
    task = ExtendedTask(1, queued.class_id, False, "default", "p", big.uid)
    found = world.search_room(task, ExtenderVerdicts([], {"a": "no"}, {}))
    assert found is not None
    assert found.preemption is not None
    assert found.preemption.potential.tolist() == [world.row("a")]


@pytest.mark.parametrize("is_for_good", [False, True])
def test_whoever_an_extender_keeps_from_its_nominated_node_for_good_need_not_wait_there(
    is_for_good: bool,
) -> None:
    going = make_pod(
        "going", cpu="100m", node_name="a", phase="Running", deleted="2026-01-01T00:00:00Z"
    )
    going = msgspec.structs.replace(going, is_preempted=True)
    less_important = make_pod("on-b", cpu="900m", node_name="b", phase="Running")
    pod = make_pod("p", cpu="500m", priority=5)
    world = World(FILTERS, pods=[pod], running=[going, less_important], node_names=("a", "b"))
    queued = world.state.queue.get(pod.uid)
    assert queued is not None
    world.replica.nominate(Nomination(pod.uid, queued.class_id, 5, world.row("a")))
    task = ExtendedTask(1, queued.class_id, True, "default", "p", pod.uid)
    said = {"a": "no"}
    verdicts = ExtenderVerdicts([], *(({}, said) if is_for_good else (said, {})))
    found = world.search_room(task, verdicts)
    assert found is not None
    assert found.preemption is not None
    waits = "not eligible due to a terminating pod on the nominated node."
    assert found.preemption.ineligible_reason == ("" if is_for_good else waits)


def test_an_extender_that_fails_makes_an_error() -> None:
    pod = make_pod("p")
    world = World(FILTERS, pods=[pod])
    world.add(pod)
    (settled,) = world.cycle.work([ExtenderAnswer(world.caller.take().number, error="unreachable")])
    (failure,) = settled.failures
    assert (failure.is_error, failure.message) == (True, "unreachable")
    assert failure.ends_nomination


def test_where_there_is_no_node_a_nomination_ends() -> None:
    pod = make_pod("p")
    (settled,) = World(FILTERS, pods=[pod], node_names=()).add(pod)
    (failure,) = settled.failures
    assert failure.message == "no nodes available to schedule pods"
    assert failure.ends_nomination


def test_a_pod_that_nobody_filters_waits_for_nobody() -> None:
    pod = make_pod("p")
    world = World(PREEMPTS, pods=[pod])
    assert len(placements(world.add(pod))) == 1
    assert not world.caller.questions


def test_the_nominated_node_is_asked_about_first_and_is_not_the_last_word() -> None:
    pod = make_pod("p")
    world = World(FILTERS, pods=[pod])
    class_id = next(iter(world.replica.classes))
    world.replica.nominate(Nomination(pod.uid, class_id, 0, world.row("b")))
    world.add(pod, is_nominated=True)
    question = world.caller.take()
    assert question.node_names == ["b"]
    world.answer(question)
    question = world.caller.take()
    assert sorted(question.node_names) == ["a", "b", "c"]
    assert placements(world.answer(question, "c")) == [(1, world.row("c"))]


def test_answers_to_pods_that_were_taken_back_are_to_nobody() -> None:
    pod = make_pod("p")
    world = World(FILTERS, pods=[pod])
    world.add(pod)
    world.cycle.clear()
    assert world.answer(world.caller.take(), "a") == []
    assert not world.cycle._waiting
    assert not world.cycle._open


# Preemption ------------------------------------------------------------------------------------------


ON_EACH = [
    make_pod(f"on-{name}", uid=f"uid-on-{name}", cpu="900m", node_name=name, phase="Running")
    for name in "abc"
]


def seeking_room(
    running: Sequence[PodRecord] = ON_EACH, node_names: Sequence[str] = ("a", "b", "c")
) -> tuple[World, PodsOnNodes]:
    """Up to the owner's answer, which is not told yet."""
    pod = make_pod("p", cpu="900m", priority=5)
    world = World(PREEMPTS, pods=[pod], running=running, node_names=node_names)
    assert world.add(pod) == []
    ((request_id, generation, _),) = world.asked_for
    assert generation == world.replica.generation
    pods = []
    for record in running:
        row = world.row(record.node_name)
        (pod_row,) = (
            each
            for each in world.replica.pods.rows_on(row).tolist()
            if world.replica.pods.name_hash[each] == name_hash(record.name)
        )
        pods.append(PodOnNode(pod_row, row, "default", record.name, record.uid))
    return world, PodsOnNodes(EPOCH, request_id, pods)


def preempting(
    running: Sequence[PodRecord] = ON_EACH, node_names: Sequence[str] = ("a", "b", "c")
) -> tuple[World, PreemptQuestion]:
    world, message = seeking_room(running, node_names)
    world.cycle.on_pods(message)
    question = world.caller.questions.pop()
    assert isinstance(question, PreemptQuestion)
    return world, question


def test_extenders_choose_among_the_victims() -> None:
    world, question = preempting()
    assert sorted(question.victims) == ["a", "b", "c"]
    assert set(question.pods) == {(name, f"uid-on-{name}") for name in "abc"}
    left = {"b": question.victims["b"]}
    (settled,) = world.cycle.work([ExtenderAnswer(question.number, victims=left)])
    (failure,) = settled.failures
    assert failure.preemption is not None
    assert failure.preemption.node_row == world.row("b")
    assert failure.preemption.victims == world.replica.pods.rows_on(world.row("b")).tolist()


def test_the_most_important_victims_say_who_started_last() -> None:
    """In whichever order an extender names them."""
    started = {("a", 1): 5, ("a", 2): 1, ("b", 1): 0, ("b", 2): 3}
    running = [
        msgspec.structs.replace(
            make_pod(
                f"{priority}-on-{node}",
                cpu="450m",
                node_name=node,
                priority=priority,
                phase="Running",
            ),
            started=f"2026-01-01T00:00:0{second}Z",
        )
        for (node, priority), second in started.items()
    ]
    world, question = preempting(running, node_names=("a", "b"))
    turned = {
        node: MetaVictims([*reversed(each.pods or ())], 0)
        for node, each in question.victims.items()
    }
    (settled,) = world.cycle.work([ExtenderAnswer(question.number, victims=turned)])
    (failure,) = settled.failures
    assert failure.preemption is not None
    assert failure.preemption.node_row == world.row("b")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            ExtenderAnswer(0, victims={}),
            ". no new claims to deallocate, preemption: no candidate node for preemption",
        ),
        (ExtenderAnswer(0, error="out of order"), ". preemption: out of order"),
        (
            ExtenderAnswer(0, victims={"b": MetaVictims([MetaPod("uid-on-a")], 0)}),
            "not all found on that node",
        ),
    ],
)
def test_what_extenders_leave_may_be_nothing(answer: ExtenderAnswer, told: str) -> None:
    world, question = preempting()
    (settled,) = world.cycle.work([answer._replace(number=question.number)])
    (failure,) = settled.failures
    assert failure.preemption is None
    assert told in failure.message
    assert not failure.is_error


def test_a_node_to_which_somebody_came_meanwhile_is_no_fault_of_the_extender() -> None:
    """The pods that it chose would have made room when it was asked: the pod is tried again at once."""
    world, question = preempting()
    left = {"b": question.victims["b"]}
    queued = world.state.queue.get("uid-default-p")
    assert queued is not None
    world.replica.place(queued.class_id, world.row("b"))
    (settled,) = world.cycle.work([ExtenderAnswer(question.number, victims=left)])
    assert settled.failures == []
    assert settled.skipped == [1]


def test_a_node_to_which_nobody_came_is_the_extenders_fault() -> None:
    world, question = preempting()
    queued = world.state.queue.get("uid-default-p")
    assert queued is not None
    world.replica.place(queued.class_id, world.row("a"))
    too_few = {"b": MetaVictims([], 0)}
    (settled,) = world.cycle.work([ExtenderAnswer(question.number, victims=too_few)])
    (failure,) = settled.failures
    assert "gone from node b do not make room" in failure.message


def test_a_copy_that_was_made_anew_meanwhile_is_no_fault_of_the_extender() -> None:
    world, question = preempting()
    world.make_copy_anew()
    left = {"b": MetaVictims([], 0)}
    (settled,) = world.cycle.work([ExtenderAnswer(question.number, victims=left)])
    assert (settled.failures, settled.skipped) == ([], [1])


def test_what_an_extender_says_of_itself_holds_whatever_the_copy_is() -> None:
    world, question = preempting()
    world.make_copy_anew()
    (settled,) = world.cycle.work([ExtenderAnswer(question.number, error="out of order")])
    (failure,) = settled.failures
    assert "preemption: out of order" in failure.message


def test_extenders_are_not_asked_about_victims_of_another_copy() -> None:
    world, message = seeking_room()
    world.make_copy_anew()
    world.cycle.on_pods(message)
    (settled,) = world.cycle.work([])
    assert not world.caller.questions
    assert (settled.failures, settled.skipped) == ([], [1])
