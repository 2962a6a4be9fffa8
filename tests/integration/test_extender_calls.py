"""The thread that asks extenders: over real HTTP, with an extender that answers, fails or is silent.

Cases of TestSchedulerWithExtenders and TestIsInterested (pkg/scheduler/extender_test.go) that need
more than the deciding parts.
"""

import asyncio
import queue
import select
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from shared import exit_codes
from shared.extenders.extender_config import ExtenderConfig, ExtenderTls
from shared.extenders.extender_wire import MetaPod, MetaVictims, PodName
from shared.kube.cluster_access import access_at
from shared.kube.connection_problems import Problem
from shared.messages.from_binder import BindFailureReason
from shared.messages.to_binder import BindPod
from tests.support.binder_stage import World
from tests.support.fake_extender import FakeExtender, keeping, preferring
from tests.support.waiting import HANG_S
from workers.binder.bind_call import BOUND, Outcome
from workers.binder.extender_bind import ExtenderBinder
from workers.scorer.extended_pods import ExtenderAnswer, FilterQuestion, PreemptQuestion, Question
from workers.scorer.extender_calls import ExtenderCaller

pytestmark = pytest.mark.integration


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    world.new_pod("p")
    for name in ("a", "b", "c"):
        world.ask("POST", "/api/v1/nodes", {"metadata": {"name": name}})
    try:
        yield world
    finally:
        world.close()


def asked(world: World, question: Question, *extenders: ExtenderConfig) -> ExtenderAnswer:
    with ExtenderCaller(extenders, access_at(world.address)) as caller:
        caller.ask(question)
        select.select([caller.fd], [], [])
        (answer,) = caller.take()
        return answer


def question(world: World, *, extenders: int = 1, pod: str = "p") -> FilterQuestion:
    return FilterQuestion(1, PodName("default", pod, "u"), tuple(range(extenders)), ["a", "b", "c"])


def config(url: str, **fields: Any) -> ExtenderConfig:
    return ExtenderConfig(url_prefix=url, filter_verb="filter", **fields)


def test_each_extender_is_asked_about_what_the_one_before_left(world: World) -> None:
    with FakeExtender(filter=keeping("a", "b")) as one, FakeExtender(filter=keeping("b")) as two:
        both = (config(one.url), config(two.url, node_cache_capable=True))
        answer = asked(world, question(world, extenders=2), *both)
        assert answer.verdicts is not None
        assert answer.verdicts.passing == ["b"]
        assert answer.verdicts.refused == {"c": "c is not for us", "a": "a is not for us"}
        assert two.asked("filter")[0]["NodeNames"] == ["a", "b"]


def test_an_extender_that_cannot_be_reached_is_named_with_what_is_wrong(world: World) -> None:
    with FakeExtender() as gone:
        pass
    error = asked(world, question(world), config(gone.url)).error
    assert error.startswith(f"failed filter with extender at URL {gone.url}/filter, ")


def test_nobody_is_asked_once_no_node_is_left(world: World) -> None:
    with FakeExtender(filter=keeping()) as one, FakeExtender() as two:
        both = (config(one.url), config(two.url))
        answer = asked(world, question(world, extenders=2), *both)
        assert answer.verdicts is not None
        assert (answer.verdicts.passing, two.calls) == ([], [])


def test_scores_are_added_up_and_a_failing_prioritizer_gives_none(world: World) -> None:
    with FakeExtender(p=preferring("b")) as one, FakeExtender(p=lambda _: 500) as two:
        both = [
            ExtenderConfig(url_prefix=each.url, prioritize_verb="p", weight=2)
            for each in (one, two)
        ]
        answer = asked(world, question(world, extenders=2), *both)
        assert answer.verdicts is not None
        assert answer.verdicts.scores == {"a": 20, "b": 200, "c": 20}


def test_an_extender_that_does_not_answer_is_a_problem_of_the_process_until_it_does(
    world: World,
) -> None:
    """As `berth status` shows it; also one that is ignorable, which no pod tells of."""
    notes: queue.Queue[list[Problem]] = queue.Queue()
    answers = iter([503, 503, {"NodeNames": ["b"]}])

    def take(note: bytes) -> None:
        notes.put(msgspec.json.decode(note, type=list[Problem]))

    def told(times: int, *, is_over: bool) -> Problem:
        while True:
            (problem,) = notes.get(timeout=HANG_S)
            if (problem.times, problem.is_over) == (times, is_over):
                return problem

    with FakeExtender(filter=lambda _: next(answers)) as extender:
        one = config(extender.url, node_cache_capable=True, ignorable=True)
        with ExtenderCaller([one], access_at(world.address), take) as caller:
            for _ in range(2):
                caller.ask(question(world))
            problem = told(2, is_over=False)
            assert problem.concerns == [f"ask extender {extender.url}/filter"]
            assert problem.error.endswith("code 503")
            assert "urlPrefix" in problem.remedy
            caller.ask(question(world))
            told(2, is_over=True)


def test_a_whole_node_that_nobody_asked_about_is_an_error(world: World) -> None:
    """It would be tried again at once, for ever: nothing can be put on it."""
    whole = {"Nodes": {"items": [{"metadata": {"name": "elsewhere"}}]}}
    with FakeExtender(filter=lambda _: whole) as extender:
        answer = asked(world, question(world), config(extender.url))
    said = f'extender "{extender.url}" claims a filtered node "elsewhere" which is not found in'
    assert answer.error == f"{said} the input node list"


@pytest.mark.parametrize(("node", "uid"), [("a", "nobody"), ("a", "v"), ("c", "u")])
@pytest.mark.parametrize("is_capable", [True, False])
def test_a_victim_that_is_not_on_the_node_is_an_error(
    world: World, is_capable: bool, node: str, uid: str
) -> None:
    victims = {"a": MetaVictims([MetaPod("u")], 0), "b": MetaVictims([MetaPod("v")], 0)}
    pods = {key: PodName("default", "p", key[1]) for key in (("a", "u"), ("b", "v"))}
    ask = PreemptQuestion(1, PodName("default", "p", "u"), (0,), victims, pods)
    said = {"NodeNameToMetaVictims": {node: {"Pods": [{"UID": uid}]}}}
    with FakeExtender(preempt=lambda _: said) as extender:
        one = ExtenderConfig(
            url_prefix=f"{extender.url}/", preempt_verb="preempt", node_cache_capable=is_capable
        )
        answer = asked(world, ask, one)
        ignored = asked(world, ask, msgspec.structs.replace(one, ignorable=True))
    told = f"extender: {extender.url}/ claims to preempt pod (UID: &{{{uid}}}) on node: {node}"
    assert answer.error == f"{told}, but the pod is not found on that node"
    assert (ignored.error, ignored.victims) == ("", victims)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (500, "failed filter with extender at URL .*/filter, code 500"),
        (201, "code 201"),
        (b"<html>", "the answer to filter cannot be used"),
        ({"Error": "out of order"}, "out of order"),
        ({"NodeNames": ["z"]}, 'filtered node "z"'),
    ],
)
def test_a_failing_extender_fails_the_pod_unless_it_is_ignorable(
    world: World, said: Any, told: str
) -> None:
    with FakeExtender(filter=lambda _: said) as one, FakeExtender(filter=keeping("b")) as two:
        failing = config(one.url, node_cache_capable=True)
        answer = asked(world, question(world), failing)
        assert answer.verdicts is None
        with pytest.raises(AssertionError, match=told):
            raise AssertionError(answer.error)
        ignored = msgspec.structs.replace(failing, ignorable=True)
        answer = asked(world, question(world, extenders=2), ignored, config(two.url))
        assert answer.verdicts is not None
        assert answer.verdicts.passing == ["b"]


def test_an_extender_that_says_nothing_is_given_up(world: World) -> None:
    let_go = threading.Event()

    def wait(_: dict[str, Any]) -> dict[str, Any]:
        let_go.wait(HANG_S)
        return {}

    with FakeExtender(filter=wait) as extender:
        try:
            answer = asked(world, question(world), config(extender.url, http_timeout_s=0.05))
        finally:
            let_go.set()
    assert "no answer within 0.05 s" in answer.error


def test_a_pod_that_is_gone_is_an_error(world: World) -> None:
    with FakeExtender() as extender:
        answer = asked(world, question(world, pod="gone"), config(extender.url))
        assert "not found" in answer.error
        assert extender.calls == []


def test_a_node_that_came_since_is_sent_as_well(world: World) -> None:
    access = access_at(world.address)
    with (
        FakeExtender(filter=keeping("d")) as extender,
        ExtenderCaller([config(extender.url)], access) as caller,
    ):
        caller.ask(question(world))
        select.select([caller.fd], [], [])
        caller.take()
        world.ask("POST", "/api/v1/nodes", {"metadata": {"name": "d"}})
        caller.ask(question(world)._replace(node_names=["d"]))
        select.select([caller.fd], [], [])
        (answer,) = caller.take()
    assert answer.verdicts is not None
    assert answer.verdicts.passing == ["d"]


@pytest.mark.parametrize("code", [307, 503])
def test_an_ignorable_extender_may_fail_to_preempt(world: World, code: int) -> None:
    victims = {"a": MetaVictims([MetaPod("u1")], 0)}
    ask = PreemptQuestion(1, PodName("default", "p", "u"), (0,), victims, {})
    with FakeExtender(preempt=lambda _: code) as extender:
        ignorable = ExtenderConfig(
            url_prefix=f"{extender.url}/",
            preempt_verb="preempt",
            ignorable=True,
            node_cache_capable=True,
        )
        assert asked(world, ask, ignorable).victims == victims
        answer = asked(world, ask, msgspec.structs.replace(ignorable, ignorable=False))
        told = f"failed preempt with extender at URL {extender.url}/preempt, code {code}"
        assert (answer.victims, answer.error) == (None, told)


# Binding ---------------------------------------------------------------------------------------------


class FakeLooker:
    """Finds the pod as the test says; None: not bound."""

    def __init__(self, seen: Outcome | None = None) -> None:
        self.seen = seen
        self.look_count = 0

    async def look(self, order: BindPod) -> Outcome | None:
        self.look_count += 1
        return self.seen


ORDER = BindPod(1, "default-scheduler", "default", "p", "u", "a", False, extenders=[0])


def bound(extender: FakeExtender, looker: FakeLooker, order: BindPod = ORDER, **fields: Any) -> Any:
    config = ExtenderConfig(url_prefix=extender.url, bind_verb="bind", **fields)

    async def bind_once() -> Any:
        binder = ExtenderBinder({0: config}, looker.look)
        try:
            return await binder.bind(order)
        finally:
            await binder.close()

    return asyncio.run(bind_once())


def test_an_extender_binds() -> None:
    looker = FakeLooker()
    with FakeExtender(bind=lambda _: {}) as extender:
        assert bound(extender, looker) == BOUND
        sent = {"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "a"}
        assert extender.asked("bind") == [sent]
    assert looker.look_count == 0


def test_a_pod_of_nobodys_interest_is_left_to_the_plugins() -> None:
    with FakeExtender() as extender:
        order = msgspec.structs.replace(ORDER, extenders=[])
        assert type(bound(extender, FakeLooker(), order)).__name__ == "Skipped"


def test_after_a_failure_the_api_server_has_the_last_word() -> None:
    with FakeExtender(bind=lambda _: {"Error": "no"}) as extender:
        assert bound(extender, FakeLooker(BOUND)) == BOUND
        outcome = bound(extender, FakeLooker())
        assert outcome.reason is BindFailureReason.REJECTED
        assert outcome.message == "no"
        skipped = bound(extender, FakeLooker(), ignorable=True)
        assert type(skipped).__name__ == "Skipped"


def test_an_extender_that_does_not_answer_may_bind_the_pod_later() -> None:
    def vanish(_: object) -> object:
        raise ConnectionError

    with FakeExtender(bind=vanish) as extender:
        assert bound(extender, FakeLooker()).reason is BindFailureReason.TIMEOUT
    # Nobody is there any more, so nobody has heard of it.
    assert bound(extender, FakeLooker()).reason is BindFailureReason.REJECTED


def test_an_order_that_was_lost_is_looked_up_first() -> None:
    again = msgspec.structs.replace(ORDER, look_first=True)
    with FakeExtender(bind=lambda _: {}) as extender:
        assert bound(extender, FakeLooker(BOUND), again) == BOUND
        assert extender.calls == []
        assert bound(extender, FakeLooker(), again) == BOUND
        assert len(extender.calls) == 1


def test_a_certificate_that_is_being_rewritten_has_the_scorer_tried_again() -> None:
    """An extender that is never asked needs none."""
    tls = ExtenderTls(ca_file="/nowhere")
    asked = ExtenderConfig(url_prefix="https://e", filter_verb="f", tls_config=tls)
    silent = ExtenderConfig(url_prefix="", managed_resources=frozenset(("x.io/a",)))
    access = access_at("http://127.0.0.1:1")
    with ExtenderCaller([silent], access) as caller:
        assert caller.take() == []
    with ExtenderCaller([silent, asked], access) as caller, pytest.raises(SystemExit) as ended:
        caller.take()
    assert ended.value.code == exit_codes.FILE_UNUSABLE
