"""Answers of extenders: read as the calls read them, and acted on by a scorer of a live cluster.

An input is a verb and the body of the answer to it; what else is asked is answered as an extender does
that has nothing against anything. With each comes a pod to ask about.
"""

import json
import random
from typing import Any, Final, cast

from bench.fuzz.fuzz_cluster import SmallCluster
from bench.fuzz.fuzz_objects import clusters, told
from bench.fuzz.harness import Story, Surface, Target
from bench.fuzz.mutation import mutated, mutated_bytes
from shared.errors import OperationalError
from shared.extenders.extender_config import ExtenderConfig
from shared.extenders.extender_wire import (
    ExtenderVerdicts,
    check_bind_result,
    filter_answer,
    preempt_result,
    priorities,
)
from workers.scorer.extended_pods import ExtenderAnswer, FilterQuestion, Question
from workers.scorer.extender_calls import ExtenderCaller

CLUSTER: Final = 120
"""With more pods than there is room for."""
STORY_MAX: Final = 40
_CAPABLE: Final = ExtenderConfig(
    url_prefix="http://extender", filter_verb="filter", prioritize_verb="prioritize", weight=3,
    preempt_verb="preempt", bind_verb="bind", node_cache_capable=True,
)  # fmt: skip


class _PlayedCaller:
    """Answers at once what a scorer asks (`workers.scorer.extender_calls.ExtenderCaller`)."""

    extenders = (_CAPABLE,)
    fd = -1

    def __init__(self) -> None:
        self.cluster: SmallCluster | None = None
        self.verb, self.body = "", b""
        self.problem: OperationalError | None = None
        self._answers: list[ExtenderAnswer] = []

    def ask(self, question: Question) -> None:
        try:
            self._answers.append(self._answer(question))
        except OperationalError as error:
            self.problem = error
            self._answers.append(ExtenderAnswer(question.number, error=str(error)))
        assert self.cluster is not None, "who asks is there"
        self.cluster.scorer.wake()

    def take(self) -> list[ExtenderAnswer]:
        answers, self._answers = self._answers, []
        return answers

    def _answer(self, question: Question) -> ExtenderAnswer:
        if not isinstance(question, FilterQuestion):
            victims = question.victims
            if self.verb == "preempt":
                victims = preempt_result(self.body, is_ignorable=len(self.body) % 2 == 0)
            return ExtenderAnswer(question.number, victims=victims)
        names = question.node_names
        verdicts = ExtenderVerdicts(names)
        if self.verb == "filter":
            is_capable = len(self.body) % 3 > 0
            verdicts.take(filter_answer(self.body, names, "http://e", is_cache_capable=is_capable))
        elif self.verb == "prioritize":
            verdicts.scores.update(priorities(self.body, _CAPABLE.weight))
        return ExtenderAnswer(question.number, verdicts=verdicts)


def _names() -> tuple[list[str], list[str]]:
    listed = clusters()[CLUSTER]
    nodes = [each.item["metadata"]["name"] for each in listed if each.plural == "nodes"]
    return nodes, [each.item["metadata"]["uid"] for each in listed if each.plural == "pods"]


def _valid(rng: random.Random) -> tuple[str, Any]:
    nodes, uids = _names()
    some = rng.sample(nodes, rng.randrange(len(nodes) + 1))
    match rng.randrange(5):
        case 0:
            failed = dict.fromkeys(rng.sample(nodes, len(nodes) // 2), "no")
            return "filter", {"NodeNames": some, "FailedNodes": failed, "Error": ""}
        case 1:
            items = [{"metadata": {"name": name}} for name in some]
            rest = {"FailedAndUnresolvableNodes": {nodes[0]: "never"}}
            return "filter", {"Nodes": {"metadata": {}, "items": items}, **rest}
        case 2:
            return "prioritize", [{"Host": name, "Score": rng.randrange(11)} for name in some]
        case 3:
            pods = [{"UID": uid} for uid in rng.sample(uids, min(2, len(uids)))]
            on_nodes = {name: {"Pods": pods, "NumPDBViolations": 1} for name in some}
            return "preempt", {"NodeNameToMetaVictims": on_nodes}
        case _:
            return "bind", {"Error": ""}


def _story(rng: random.Random) -> Story:
    return [_input(rng) for _ in range(rng.randrange(1, STORY_MAX))]


def _input(rng: random.Random) -> bytes:
    verb, value = _valid(rng)
    if rng.random() < 0.8:
        value = mutated(rng, value, others=_valid(rng)[1])
    body = json.dumps(value).encode()
    if rng.random() < 0.25:
        body = mutated_bytes(rng, body)
    return verb.encode() + b" " + body


def _start() -> Target:
    caller = _PlayedCaller()
    cluster = SmallCluster(caller=cast("ExtenderCaller", caller))
    caller.cluster = cluster
    pods = []
    for line in told(clusters()[CLUSTER]):
        pods += [line] if line.startswith(b"pods") and b'"nodeName"' not in line else []
        cluster.take_line(line)
    count = 0

    def take(data: bytes) -> None:
        nonlocal count
        verb, _, caller.body = data.partition(b" ")
        caller.verb, caller.problem = verb.decode(), None
        count += 1
        pod = json.loads(pods[count % len(pods)].partition(b" ")[2])
        pod["object"]["metadata"] |= {"name": f"asked-{count}", "uid": f"asked-{count}"}
        cluster.take_line(b"pods " + json.dumps(pod).encode())
        if caller.verb == "bind":
            check_bind_result(caller.body)
        if caller.problem is not None:
            raise caller.problem

    def finish() -> None:
        caller.verb = ""  # Nothing against anything.
        cluster.check()

    return Target(take, finish)


SURFACE: Final = Surface(about="answers of extenders", story=_story, start=_start)
