"""Pod groups that extenders have a say in: owner and scorers in one process, extenders as rules."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from daemon.core.scorer_links import CHOOSES_VICTIMS
from shared.columns.schema import Rows
from shared.extenders.extender_config import EXTENDER, ExtenderConfig
from shared.extenders.extender_wire import ExtenderVerdicts
from shared.kube.pod_record import PodRecord
from shared.messages.from_scorer import Proposals
from shared.messages.to_scorer import PodTask, SchedulePods
from tests.support.builders import make_node, make_pod
from tests.unit.daemon.core.test_pod_groups import NO_QUORUM, Gangs, gang, lone
from workers.scorer.cycle import Cycle
from workers.scorer.evaluator import RoomMaker, RoomSearch
from workers.scorer.extended_pods import ExtenderAnswer, FilterQuestion, Question

LICENCE = "example.com/licence"
NAME_LABEL = "kubernetes.io/hostname"
FILTERS = ExtenderConfig(
    url_prefix="http://h",
    filter_verb="f",
    managed_resources=frozenset({LICENCE}),
    ignored_by_scheduler=frozenset({LICENCE}),
)


class Asked(Gangs):
    """Nodes of 2 cpu, of racks where these are said."""

    def __init__(
        self,
        nodes: str = "abcd",
        racks: Mapping[str, str] | None = None,
        extender: ExtenderConfig = FILTERS,
        **more: Any,
    ) -> None:
        self.questions: list[tuple[str, str]] = []
        """Pod and names of nodes, each of one letter."""
        self.refused: set[tuple[str, str]] = set()
        """Pod or "*", and node."""
        self.scores: Counter[str] = Counter()
        self.failing: set[str] = set()
        """Pods for which the extender fails."""
        made = [
            make_node(name, cpu="2", labels={NAME_LABEL: name, "rack": (racks or {}).get(name, "")})
            for name in nodes
        ]
        more = {"extenders": (extender,), "says": self._say, **more}
        super().__init__(made, has_placements=racks is not None, **more)

    def _say(self, question: Question) -> ExtenderAnswer:
        assert isinstance(question, FilterQuestion), "of a group none is asked about victims"
        pod, names = question.pod.name, question.node_names
        self.questions.append((pod, "".join(sorted(names))))
        if pod in self.failing:
            return ExtenderAnswer(question.number, error="out of order")
        refused = {n: "no licence" for n in names if {(pod, n), ("*", n)} & self.refused}
        left = [name for name in names if name not in refused]
        scores = Counter({name: self.scores[name] for name in left})
        verdicts = ExtenderVerdicts(left, refused, scores=scores)
        return ExtenderAnswer(question.number, verdicts=verdicts)

    def refuse(self, nodes: Iterable[str], pod: str = "*") -> None:
        self.refused |= {(pod, node) for node in nodes}

    def to_question(self, count: int) -> None:
        """Up to where so many were answered, and the next one is out."""
        while len(self.questions) < count or not self.scorers[0].questions:
            assert self.step_owner() or self.step_scorer(0)

    def node_of(self, pod: str) -> str:
        return self.bound[f"uid-{pod}"][-1]

    def nodes_of(self, *pods: str) -> str:
        return "".join(sorted(self.node_of(pod) for pod in pods))


def licensed(*names: str, group: str = "pg1", cpu: str = "2", **more: Any) -> list[PodRecord]:
    """Pods that the extender is asked about; each fills a node unless it is said otherwise."""
    resources = {"requests": {"cpu": cpu}, "limits": {LICENCE: "1"}}
    containers = [{"name": "c", "resources": resources}]
    return gang(*names, group=group, spec={"containers": containers}, **more)


def test_each_pod_is_asked_about_with_those_before_it_in_place() -> None:
    berth = Asked()
    berth.refuse("a")
    berth.scores.update({"b": 1000, "c": 500})
    berth.add_group("pg1", 3)
    berth.add(*licensed("p1", "p2", "p3"))
    assert [berth.node_of(name) for name in ("p1", "p2", "p3")] == ["b", "c", "d"]
    assert berth.questions == [("p1", "abcd"), ("p2", "acd"), ("p3", "ad")]
    assert berth.condition("pg1") == (True, "Scheduled", "")


def test_where_too_few_may_go_none_does() -> None:
    berth = Asked()
    berth.refuse("abc")
    berth.add_group("pg1", 2)
    berth.add(*licensed("p1", "p2"))
    assert not berth.bound
    assert berth.told("p1") == NO_QUORUM
    assert berth.told("p2").startswith(
        "0/4 nodes are available: 1 Insufficient cpu, 3 no licence. "
    )
    assert berth.condition("pg1") == (False, "Unschedulable", "pod group is unschedulable")
    assert berth.lack("pg1") == "1 of 2 members fit; 1 need 2 cpu each"
    # Any event may change an extender's mind.
    refused = berth.state.queue.get("uid-p2")
    assert refused is not None
    assert EXTENDER in refused.unschedulable_plugins
    berth.refused.clear()
    berth.wait()
    assert berth.nodes_of("p1", "p2")


def test_a_basic_group_is_placed_as_far_as_extenders_let_it() -> None:
    berth = Asked()
    berth.refuse("abcd", pod="p2")
    berth.add_group("pg1")
    berth.add(*licensed("p1", "p2", "p3"))
    assert berth.bound_names() == {"p1", "p3"}
    assert berth.told("p2").startswith(
        "0/4 nodes are available: 1 Insufficient cpu, 3 no licence. "
    )


def test_an_extender_that_fails_ends_the_attempt_of_all() -> None:
    berth = Asked()
    berth.failing.add("p2")
    berth.add_group("pg1", 3)
    berth.add(*licensed("p1", "p2", "p3"))
    assert not berth.bound
    assert berth.told("p2") == "out of order"
    told = "failed to schedule other pod from a pod group: out of order"
    assert berth.told("p1") == berth.told("p3") == told
    assert berth.condition("pg1") == (False, "SchedulerError", told)
    assert [pod for pod, _ in berth.questions] == ["p1", "p2"]


def test_only_those_that_the_extender_manages_are_asked_about() -> None:
    berth = Asked("ab")
    berth.add_group("pg1", 6)
    plain = gang("q1", "q2", "q3", "q4", "q5", cpu="500m")
    berth.add(*plain, *licensed("p1", cpu="1"))
    assert berth.bound_names() == {"p1", "q1", "q2", "q3", "q4", "q5"}
    assert [pod for pod, _ in berth.questions] == ["p1"]


def test_others_are_placed_meanwhile_and_nothing_of_the_group_is_in_their_way() -> None:
    berth = Asked("ab")
    berth.add_group("pg1", 2)
    for pod in licensed("p1", "p2"):
        berth.add_pod(pod)
    berth.to_question(1)
    requested = berth.scorers[0].replica.nodes.requested
    assert not requested.any()
    berth.add_pod(lone("other", "2"))
    while "uid-other" not in berth.bound:
        assert berth.step_owner() or berth.step_binder() or berth.step_scorer(0)
    assert berth.scorers[0].questions
    berth.settle()
    assert berth.bound_names() == {"other"}
    assert berth.condition("pg1")[1] == "Unschedulable"


def test_whose_node_was_taken_meanwhile_goes_elsewhere_without_being_asked_about_again() -> None:
    berth = Asked("abc")
    berth.scores["a"] = 1000
    berth.add_group("pg1", 2)
    for pod in licensed("p1", "p2"):
        berth.add_pod(pod)
    berth.to_question(1)
    other = msgspec.structs.replace(lone("other", "2"), node_name="a")
    berth.add(other)
    assert berth.nodes_of("p1", "p2") == "bc"
    assert berth.questions == [("p1", "abc"), ("p2", "bc")]


def test_whose_nodes_were_all_taken_meanwhile_is_asked_about_those_that_are_new() -> None:
    berth = Asked("ab")
    berth.refuse("b")
    berth.add_group("pg1", 2)
    for pod in licensed("p1", "p2"):
        berth.add_pod(pod)
    berth.to_question(1)
    berth.add_pod(msgspec.structs.replace(lone("other", "2"), node_name="a"))
    for name in "cd":
        berth.add_node(make_node(name, cpu="2"))
    berth.settle()
    assert berth.nodes_of("p1", "p2") == "cd"
    assert berth.questions[:3] == [("p1", "ab"), ("p2", "b"), ("p1", "cd")]


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_lost_scorer_takes_no_group_with_it(is_silent: bool) -> None:
    berth = Asked()
    berth.add_group("pg1", 2)
    for pod in licensed("p1", "p2"):
        berth.add_pod(pod)
    berth.to_question(1)
    if is_silent:
        berth.stuck.add(0)
        berth.advance(61.0)
        berth.handle()
        berth.stuck.clear()
    berth.lose_scorer(0)
    berth.start_scorer(0)
    berth.settle()
    assert berth.bound_names() == {"p1", "p2"}


def test_pods_that_are_deleted_or_added_while_the_group_is_out_are_no_harm() -> None:
    berth = Asked()
    berth.add_group("pg1", 2)
    first, second, third = licensed("p1", "p2", "p3")
    berth.add_pod(first)
    berth.add_pod(second)
    berth.to_question(1)
    berth.delete_pod(first)
    berth.add_pod(third)
    berth.settle()
    berth.wait()
    assert berth.bound_names() == {"p2", "p3"}


def test_a_group_that_waits_for_extenders_takes_nobodys_place_and_holds_up_no_stop() -> None:
    berth = Asked()
    berth.add_group("pg1", 2)
    for pod in licensed("p1", "p2"):
        berth.add_pod(pod)
    before = berth.state.scorers.credit()
    berth.to_question(1)
    assert berth.state.scorers.credit() == before
    assert berth.state.scorers.awaited_count() == 0


def test_what_only_a_refused_placement_kept_away_is_tried_again_at_once() -> None:
    """Though the group was asked about for so long that the copy has it right by the end."""
    berth = Asked("ab", {"a": "r1"})
    berth.refuse("b", pod="p1")
    berth.add_group("pg1", 2)
    other = make_pod("other", cpu="2", memory=None, spec={"nodeSelector": {"rack": "r1"}})
    berth.add_pod(other)
    while not berth.to_owner:
        assert berth.step_scorer(0)
    for pod in licensed("p1", "p2"):
        berth.add_pod(pod)
    while len(berth.questions) < 1 or not berth.scorers[0].questions:
        assert berth.step_scorer(0)
    assert berth.questions == [("p1", "b")]
    berth.delete_pod(other)
    berth.settle()
    assert [berth.node_of(name) for name in ("p1", "p2")] == ["a", "b"]


def test_what_is_known_of_a_pod_is_not_worked_out_anew_with_each_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched = Counter[int]()
    attempt = RoomMaker.attempt

    def counted(self: RoomMaker, task: PodTask, *rest: Any) -> RoomSearch:
        searched[task.ticket] += 1
        return attempt(self, task, *rest)

    monkeypatch.setattr(RoomMaker, "attempt", counted)
    berth = Asked()
    berth.refuse("abcd")
    berth.add_group("pg1", 8)
    berth.add(*licensed(*(f"p{number}" for number in range(8))))
    assert len(berth.questions) == 8
    assert list(searched.values()) == [1] * 8


# Placements --------------------------------------------------------------------------------------

RACKS = {"a": "r1", "b": "r1", "c": "r1", "d": "r2", "e": "r2", "f": "r3", "g": "r3"}


def constrain(berth: Asked, min_count: int) -> None:
    topology = {"topology": [{"key": "rack"}]}
    berth.add_group("pg1", min_count, schedulingConstraints=topology)


def test_racks_are_asked_about_from_the_best_on_until_one_takes_the_group() -> None:
    berth = Asked("abcdefg", RACKS)
    berth.refuse("d")
    berth.scores["f"] = 1000
    constrain(berth, 2)
    berth.add(*licensed("p1", "p2"))
    assert berth.nodes_of("p1", "p2") == "fg"
    # They would leave a part of the first rack free, which nobody is asked about.
    assert berth.questions == [("p1", "de"), ("p2", "d"), ("p1", "fg"), ("p2", "g")]


def test_a_group_that_no_rack_takes_is_told_of_the_one_that_takes_most_of_it() -> None:
    berth = Asked("abcdefg", RACKS)
    berth.refuse("bcdefg")
    constrain(berth, 2)
    berth.add(*licensed("p1", "p2"))
    assert not berth.bound
    told = "0/3 placements are available, first placement status: pod group is unschedulable"
    assert berth.condition("pg1") == (False, "Unschedulable", told)
    assert berth.lack("pg1") == "1 of 2 members fit in rack r1; 1 need 2 cpu each"
    assert Counter(berth.questions).most_common(1)[0][1] == 1


def test_a_rack_that_does_not_take_the_group_is_tried_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = Counter[bytes]()
    place = Cycle._place_group

    def counted(self: Cycle, batch: SchedulePods, rows: Rows, *rest: Any) -> Proposals:
        answers = place(self, batch, rows, *rest)
        tried[rows.tobytes()] += 1  # To the end: nobody is left to ask.
        return answers

    monkeypatch.setattr(Cycle, "_place_group", counted)
    berth = Asked("abcdefg", RACKS)
    berth.refuse("abcdefg")
    constrain(berth, 2)
    berth.add(*licensed("p1", "p2"))
    assert sorted(tried.values()) == [1, 1, 1]


def test_where_no_rack_has_room_one_is_asked_about_all_the_same() -> None:
    berth = Asked("abcdefg", RACKS)
    constrain(berth, 4)
    berth.add(*licensed("p1", "p2", "p3", "p4"))
    assert not berth.bound
    assert {asked for _, asked in berth.questions} <= {"abc", "ab", "bc", "ac", "a", "b", "c"}


# Who has to go -----------------------------------------------------------------------------------


def test_a_pod_of_a_group_has_others_go_if_extenders_let_it() -> None:
    berth = Asked("ab")
    berth.add(lone("low-a", "2", priority=0), lone("low-b", "2", priority=0))
    berth.add_group("pg1", 2)
    berth.add(*licensed("p1", "p2", priority=5))
    berth.wait()
    assert berth.bound_names() == {"p1", "p2"}
    assert berth.evicted == {"uid-low-a", "uid-low-b"}


def test_nobody_goes_for_a_pod_of_a_group_whose_extender_chooses_victims() -> None:
    berth = Asked("ab", extender=msgspec.structs.replace(FILTERS, preempt_verb="p"))
    berth.add(lone("low-a", "2", priority=0), lone("low-b", "2", priority=0))
    berth.add_group("pg1", 2)
    berth.add(*licensed("p1", "p2", priority=5))
    berth.wait()
    assert not berth.evicted
    assert berth.told("p1").endswith(f"preemption: {CHOOSES_VICTIMS}")


WHOLE = frozenset({"default-scheduler"})


def test_room_for_a_whole_group_is_where_extenders_let_it_be() -> None:
    berth = Asked("abcd", preempting=WHOLE)
    berth.add(*(lone(f"low-{n}", "2", priority=0) for n in "1234"))
    berth.refuse("ac")
    berth.add_group("pg1", 2, priority=10)
    berth.questions.clear()
    berth.add(*licensed("p1", "p2"))
    # With all of them gone each was asked about once, and not again for each look.
    assert [pod for pod, _ in berth.questions] == ["p1", "p2"]
    assert berth.questions[0] == ("p1", "abcd")
    berth.wait()
    assert berth.nodes_of("p1", "p2") == "bd"
    assert len(berth.evicted) == 2


def test_nobody_goes_for_a_group_that_extenders_let_nowhere() -> None:
    berth = Asked("abcd", preempting=WHOLE)
    berth.add(*(lone(f"low-{n}", "2", priority=0) for n in "1234"))
    berth.refuse("abc")
    berth.add_group("pg1", 2, priority=10)
    berth.add(*licensed("p1", "p2"))
    assert not berth.evicted
    assert not berth.condition("pg1")[0]


def test_an_extender_that_fails_where_all_are_gone_ends_the_attempt() -> None:
    berth = Asked("ab", preempting=WHOLE)
    berth.add(lone("low-a", "2", priority=0), lone("low-b", "2", priority=0))
    berth.failing.add("p2")
    berth.add_group("pg1", 2, priority=10)
    berth.add(*licensed("p1", "p2"))
    assert not berth.evicted
    assert berth.condition("pg1")[1] == "SchedulerError"


@pytest.mark.parametrize(("preempting", "others"), [(None, (5, 5)), (WHOLE, (-3, 3))])
def test_what_an_extender_refuses_is_as_what_an_affinity_does(
    preempting: frozenset[str] | None, others: tuple[int, int]
) -> None:
    """The same groups in the same clusters, once with each. Where others have to go for all of a group,
    its pods keep their places from one look to the next as long as they can, so that fewer may go."""
    placed_count = evicted_count = 0
    for seed in range(20):
        rng = random.Random(seed)
        nodes = "abcdef"[: rng.randint(2, 6)]
        refused = "".join(rng.sample(nodes, rng.randint(0, len(nodes) - 1)))
        running = [
            lone(f"low-{number}", rng.choice(["500m", "1", "2"]), priority=rng.randint(*others))
            for number in range(rng.randint(0, 6))
        ]
        names = [f"p{number}" for number in range(rng.randint(2, 5))]
        cpus = {name: rng.choice(["500m", "1", "2"]) for name in names}
        min_count, priority = rng.randint(2, len(names)), rng.randint(0, 4)
        rule = {"key": NAME_LABEL, "operator": "NotIn", "values": [*refused] or ["none"]}
        told = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": told}}
        came_to = []
        for is_asked in (True, False):
            berth = Asked(nodes, preempting=preempting)
            berth.add(*running)
            berth.refuse(refused if is_asked else "", pod="*")
            for name, cpu in cpus.items():
                (pod,) = licensed(name, cpu=cpu, priority=priority)
                if not is_asked:
                    (pod,) = gang(name, cpu=cpu, priority=priority, spec={"affinity": affinity})
                berth.add_pod(pod)
            berth.add_group("pg1", min_count, priority=priority)
            for _ in range(3):
                berth.wait()
            where = {uid: berth.bound[uid][-1] for uid in sorted(berth.bound)}
            came_to.append((where, berth.evicted))
        (asked, asked_evicted), (plain, plain_evicted) = came_to
        if len(asked_evicted) == len(plain_evicted):
            assert (asked, asked_evicted) == (plain, plain_evicted), seed
        assert len(asked_evicted) <= len(plain_evicted), seed
        placed = {uid for uid in asked if uid.startswith("uid-p")}
        assert placed == {uid for uid in plain if uid.startswith("uid-p")}, seed
        placed_count += bool(placed)
        evicted_count += bool(asked_evicted)
    assert placed_count > 10
    assert evicted_count > 3 or preempting is None
