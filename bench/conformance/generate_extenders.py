"""Clusters with scripted extenders, made up at random: the family `extenders` of the corpus.

Nodes and pods are those of `generate.py`. Extenders come in a few casts, since each cast costs a set
of processes in the replay, and what they answer is drawn for each scenario: whom they refuse and how,
scores, victims, refused binds, failures, Go's names in three spellings. Corner cases are by hand.
`python -m bench.conformance.generate_extenders SEED COUNT` prints them, one a line, in order of cast.
"""

import copy
import json
import random
import sys
from typing import Final

from bench.conformance.generate import ClusterMaker
from bench.conformance.made_names import CREATED, Json, meta
from bench.conformance.scripted_extenders import ANYBODY, SPELLINGS, WRITTEN

MANAGED: Final = "example.com/licence"
OFTEN: Final = 0.8
SCORE_MAX: Final = 10
"""Of an extender (MaxExtenderPriority)."""
BROKEN: Final = (
    {"code": 500},
    {"code": 204, "body": ""},
    {"body": "null"},
    {"body": '{"Error": "out of order"}'},
    {"body": '{"ERROR": "out of order", "other": [1, {"Error": 2}]}'},
)
TRAITS: Final = (
    "affinity",
    "budgets",
    "interpod",
    "namespaces",
    "nominated",
    "ports",
    "spread",
    "taints",
)


def _extender(position: int, *verbs: str, **fields: object) -> Json:
    made: Json = {"urlPrefix": f"{WRITTEN}{position}", **fields}
    made |= {f"{verb}Verb": verb for verb in verbs}
    if "prioritize" in verbs:
        made.setdefault("weight", 1)
    return made


_IGNORED: Final = [{"name": MANAGED, "ignoredByScheduler": True}]
_COUNTED: Final = [{"name": MANAGED}]
CASTS: Final[tuple[tuple[Json, ...], ...]] = (
    (_extender(0, "filter", nodeCacheCapable=True),),
    (_extender(0, "filter", "prioritize", weight=3),),
    (
        _extender(0, "filter", "prioritize", "bind", weight=5, nodeCacheCapable=True),
        _extender(1, "filter", "prioritize", weight=2),
    ),
    (
        _extender(0, "filter", "preempt", nodeCacheCapable=True),
        _extender(1, "preempt"),
    ),
    (
        _extender(0, "filter", "bind", nodeCacheCapable=True, managedResources=_IGNORED),
        _extender(1, "filter", "prioritize", weight=1),
    ),
    (
        _extender(0, "filter", "prioritize", "preempt", weight=10, ignorable=True),
        _extender(1, "filter", nodeCacheCapable=True),
        _extender(2, "prioritize", weight=1, nodeCacheCapable=True),
    ),
    (
        _extender(0, "prioritize", "bind", weight=4, ignorable=True, nodeCacheCapable=True),
        _extender(1, "filter", managedResources=_COUNTED),
    ),
    (
        _extender(0, "preempt", nodeCacheCapable=True, ignorable=True),
        _extender(1, "filter", "preempt", "bind", managedResources=_IGNORED),
    ),
)  # fmt: skip


def scenario(seed: int, number: int) -> Json:
    """The scenario of this number, always the same."""
    rng = random.Random(f"extenders/{seed}/{number}")
    cast = CASTS[number % len(CASTS)]
    families = {each for each in TRAITS if rng.random() < 0.2} | {"preemption"}
    made = ClusterMaker(rng, frozenset(families)).scenario()
    made["pending"] = copy.deepcopy(made["pending"])
    for pod in made["pending"]:
        if any("managedResources" in each for each in cast) and rng.random() < 0.5:
            _give(rng, pod)
    nodes = [node["metadata"]["name"] for node in made["objects"]["nodes"]]
    pods = [pod["metadata"]["name"] for pod in made["pending"]]
    made["config"] = {"extenders": list(cast)}
    made["answers"] = [ScriptMaker(rng, nodes, pods, each).script() for each in cast]
    return {"name": f"extenders-{number:04}", **made}


def _give(rng: random.Random, pod: Json) -> None:
    """The pod asks for what an extender manages, in one of its containers."""
    container = pod["spec"]["containers"][0]
    if rng.random() < 0.2:
        container = {"name": "first", "image": container["image"]}
        pod["spec"].setdefault("initContainers", []).append(container)
    resources = container.setdefault("resources", {})
    for part in ("requests", "limits"):
        resources[part] = {**resources.get(part, {}), MANAGED: "1"}


class ScriptMaker:
    """Draws what one extender answers."""

    def __init__(
        self, rng: random.Random, nodes: list[str], pods: list[str], extender: Json
    ) -> None:
        self._rng = rng
        self._nodes = nodes
        self._pods = pods
        self._extender = extender

    def script(self) -> Json:
        """Verb -> pod, or anybody -> answer."""
        makers = {"filter": self._filter, "prioritize": self._prioritize,
                  "preempt": self._preempt, "bind": self._bind}  # fmt: skip
        return {
            verb: {who: self._answer(make) for who in self._asked()}
            for verb, make in makers.items()
            if f"{verb}Verb" in self._extender
        }

    def _asked(self) -> list[str]:
        return [ANYBODY, *(pod for pod in self._pods if self._rng.random() < 0.4)]

    def _answer(self, make: object) -> Json:
        rng = self._rng
        if rng.random() < 0.08:
            return dict(rng.choice(BROKEN))
        assert callable(make)
        made: Json = make()
        if rng.random() < 0.4:
            made["spelling"] = rng.choice(list(SPELLINGS))
        return made

    def _some(self, chance: float) -> list[str]:
        return [name for name in self._nodes if self._rng.random() < chance]

    def _filter(self) -> Json:
        rng = self._rng
        made: Json = {}
        for kind in ("failed", "unresolvable"):
            if rng.random() < 0.5:
                made[kind] = {name: f"{kind}: {rng.choice('xy')}" for name in self._some(0.3)}
        if rng.random() < 0.2:
            made["silent"] = self._some(0.3)
        if rng.random() < 0.04 and self._extender.get("nodeCacheCapable"):
            made["added"] = ["nowhere"]
        if rng.random() < 0.05:
            made["error"] = "the extender does not know"
        return made

    def _prioritize(self) -> Json:
        rng = self._rng
        scores = {name: rng.randint(0, SCORE_MAX) for name in self._some(OFTEN)}
        if rng.random() < 0.1:
            scores["nowhere"] = SCORE_MAX
        return {"scores": scores}

    def _preempt(self) -> Json:
        rng = self._rng
        made: Json = {}
        if rng.random() < 0.5:
            made["nodes"] = self._some(OFTEN)
        if rng.random() < 0.1:
            made["without_victims"] = self._some(0.3)
        if rng.random() < 0.2:
            made["violations"] = {name: rng.randint(0, 3) for name in self._nodes}
        if rng.random() < 0.05:
            made["added"] = {rng.choice(self._nodes): "uid-of-nobody"}
        return made

    def _bind(self) -> Json:
        return {"error": self._rng.choice(("denied", "", "", ""))}


# By hand ------------------------------------------------------------------------------------------


def corners() -> list[Json]:
    """One question each, which `notes` states."""
    return [*_filter_corners(), *_score_corners(), *_bind_corners(), *_preempt_corners()]


def _filter_corners() -> list[Json]:
    failed = {"failed": {"a": "low"}, "unresolvable": {"a": "never", "b": "never"}}
    return [
        _corner("both-maps", 0, [{"filter": {"*": failed}}],
                "a node in both maps is unresolvable"),
        _corner("silent", 0, [{"filter": {"*": {"silent": ["a", "b"], "failed": {"c": "no"}}}}],
                "nodes passed over in silence have no status"),
        _corner("unknown-failed", 0, [{"filter": {"*": {"failed": {"x": "no such node"}}}}],
                "a node that nobody asked about is refused"),
        _corner("unknown-left", 0, [{"filter": {"*": {"added": ["x"]}}}],
                "a node that nobody asked about is left: an error where nodes go by name"),
        _corner("twice", 0, [{"filter": {"*": {"body": '{"NodeNames":["b","b"]}'}}}],
                "a node is left twice"),
        _corner("names-to-whole", 1, [{"filter": {"*": {"body": '{"NodeNames":["b"]}'}}}],
                "names are not looked at where whole nodes were sent"),
        _corner("lower-upper", 0,
                [{"filter": {"*": {"body": '{"nodenames":["a"],"NODENAMES":["b"]}'}}}],
                "of names that differ in case the last one counts"),
        _corner("not-interested", 4, [{"filter": {"*": {"code": 500}}}, {}],
                "a pod that asks for nothing managed is not sent"),
        _corner("ignored-error", 5, [{"filter": {"*": {"code": 503}}}, {}, {}],
                "an ignorable extender that fails is left out"),
        _corner("second-after-none", 4,
                [{}, {"filter": {"*": {"failed": {"a": "x", "b": "x", "c": "x"}}}}],
                "all nodes are refused"),
    ]  # fmt: skip


def _score_corners() -> list[Json]:
    return [
        _corner("scores", 1, [{"prioritize": {"*": {"scores": {"c": 10}}}}],
                "score times weight times ten is added"),
        _corner("scores-add-up", 2, [{"prioritize": {"*": {"scores": {"b": 3}}}},
                                     {"prioritize": {"*": {"scores": {"c": 8}}}}],
                "15 for b is less than 16 for c"),
        _corner("scores-fail", 2, [{"prioritize": {"*": {"code": 500}}},
                                   {"prioritize": {"*": {"scores": {"c": 1}}}}],
                "an extender that fails to score is left out, though it is not ignorable"),
        _corner("scores-below", 1, [{"prioritize": {"*": {"scores": {"a": -2, "b": -1}}}}],
                "scores may be negative"),
        _corner("scores-too-high", 1, [{"prioritize": {"*": {"scores": {"b": 1000}}}}],
                "scores are not bounded"),
        _corner("scores-lower", 1,
                [{"prioritize": {"*": {"scores": {"b": 1}, "spelling": "lower"}}}],
                "Go reads names of members whatever their case"),
    ]  # fmt: skip


def _bind_corners() -> list[Json]:
    denied = {"bind": {"p": {"error": "denied"}}}
    made = [
        _corner("denied", 2, [denied, {}], "a refused bind: the pod stays pending, its room is free"),
        _corner("denied-upper", 2, [{"bind": {"p": {"error": "denied", "spelling": "upper"}}}, {}],
                "the same in upper case"),
        _corner("denied-ignored", 6, [denied, {}],
                "an ignorable extender that refuses leaves the binding to the Bind plugin"),
        _corner("bind-null", 2, [{"bind": {"*": {"body": "null"}}}, {}], "null is success"),
        _corner("bind-500", 2, [{"bind": {"*": {"code": 500}}}, {}], "a code is no answer"),
    ]  # fmt: skip
    for each in made:  # A second attempt, and a pod that takes the room.
        each["pending"].append(_pod("q", "", "2", 0))
        each["attempts"] = ["default/p", "default/q", "default/p"]
    return made


def _preempt_corners() -> list[Json]:
    only_b = {"preempt": {"*": {"nodes": ["b"]}}}
    made = [
        _corner("preempt-one", 3, [only_b, {}], "an extender leaves one node"),
        _corner("preempt-none", 3, [{"preempt": {"*": {"nodes": []}}}, {}], "no node is left"),
        _corner("preempt-violations", 3,
                [{"preempt": {"*": {"violations": {"a": 3, "b": 1, "c": 2}}}}, {}],
                "an extender counts violated budgets in its own way"),
        _corner("preempt-empty", 3, [{"preempt": {"*": {"without_victims": ["b"]}}}, {}],
                "a node without victims is an error"),
        _corner("preempt-empty-ignored", 7, [{"preempt": {"*": {"without_victims": ["a"]}}}, {}],
                "of an ignorable extender it is one node less"),
        _corner("preempt-unknown", 3, [{"preempt": {"*": {"added": {"b": "uid-of-nobody"}}}}, {}],
                "a victim that is not on the node is an error"),
        _corner("preempt-500", 3, [{"preempt": {"*": {"code": 500}}}, {}], "a code is an error"),
        _corner("preempt-500-ignored", 7, [{"preempt": {"*": {"code": 500}}}, {}],
                "of an ignorable extender it is nothing"),
        _corner("preempt-lower", 3, [{"preempt": {"*": {"nodes": ["c"], "spelling": "lower"}}}, {}],
                "Go reads names of members whatever their case"),
        _corner("preempt-failed", 3, [{"filter": {"*": {"failed": {"a": "x", "b": "x"}}}}, {}],
                "what an extender refused, though not for good, may be won by preemption"),
    ]  # fmt: skip
    for each in made:
        each["preemption_mode"] = "evict"
        each["objects"]["pods"] = [_pod(f"low-{node}", node, "3", -1) for node in ("a", "b", "c")]
        each["pending"][0]["spec"]["priority"] = 10
        each["attempts"] = ["default/p", "default/p"]
    return made


def _corner(name: str, cast: int, answers: list[Json], notes: str) -> Json:
    nodes = [_node(each) for each in ("a", "b", "c")]
    return {
        "name": f"extenders-{name}",
        "objects": {"nodes": nodes, "pods": []},
        "pending": [_pod("p", "", "2", 0)],
        "config": {"extenders": list(CASTS[cast])},
        "answers": answers,
        "preemption_mode": "nominate",
        "notes": notes,
    }


def _node(name: str) -> Json:
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    return {"metadata": meta(name), "spec": {}, "status": {"allocatable": room, "capacity": room}}


def _pod(name: str, node: str, cpu: str, priority: int) -> Json:
    resources = {"requests": {"cpu": cpu}}
    containers = [{"name": "c", "image": "registry.example/a:v1", "resources": resources}]
    spec: Json = {"containers": containers, "priority": priority}
    status: Json = {}
    if node:
        spec["nodeName"] = node
        status = {"phase": "Running", "startTime": CREATED}
    return {"metadata": meta(name, "default"), "spec": spec, "status": status}


def main(seed: int, count: int) -> None:
    """Prints them."""
    made = [*corners(), *(scenario(seed, number) for number in range(count))]
    for each in sorted(made, key=lambda one: CASTS.index(tuple(one["config"]["extenders"]))):
        print(json.dumps(each))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
