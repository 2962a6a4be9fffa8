"""Clusters made up at random, on which the two ways of deciding have to agree.

Each is decided by the engine and by the framework asked about one node at a time (`one_by_one.py`).
One that comes out two ways is made as small as it can be while some attempt still does, and told as a
line that `berth conformance` replays.
"""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Any, Final, NamedTuple

import msgspec

from bench.conformance.compare_decisions import as_upstream_shows
from bench.conformance.engine_evaluator import EngineEvaluator
from bench.conformance.generate import scenario
from bench.conformance.scenario import Scenario, read
from shared.engine import class_filters, row_states
from workers.scorer import evaluator, lone_pods

Json = dict[str, Any]

TRIALS_MAX: Final = 600
"""At about 20 ms each: 12 seconds."""


class Found(NamedTuple):
    """A cluster on which the two ways differ."""

    document: Json
    """A scenario."""
    differences: list[str]
    expected: Json
    """What it comes to when nodes are asked one at a time; empty where that broke."""

    @property
    def line(self) -> str:
        """As a line of a corpus: replayed, it shows what the engine says otherwise."""
        return msgspec.json.encode({"scenario": self.document, "expected": self.expected}).decode()


FROM_SIZE: Final[tuple[tuple[ModuleType, str, int], ...]] = (
    (lone_pods, "FEW_ROWS", 1),
    (row_states, "ROWS_MIN", 2),
    (row_states, "ROWS_A_STATE_MIN", 0),
    (evaluator, "SIZE_MIN", 1),
    (class_filters, "FEW_ROWS", 1),
)
"""From how many nodes on something is worth its while, and what stands for that in small clusters."""


@contextmanager
def as_in_a_large_cluster() -> Iterator[None]:
    """The ways that pay off with many nodes are gone with a few."""
    before = [(module, name, vars(module)[name]) for module, name, _ in FROM_SIZE]
    for module, name, size in FROM_SIZE:
        setattr(module, name, size)
    try:
        yield
    finally:
        for module, name, size in before:
            setattr(module, name, size)


def differing(seed: int, numbers: range) -> Iterator[Found]:
    """Those of the numbers on which the two ways differ, as small as they were found. Odd ones are
    decided as if their clusters were large."""
    evaluator = EngineEvaluator()
    for number in numbers:
        document = scenario(seed, number)
        found = None
        with as_in_a_large_cluster() if number % 2 else nullcontext():
            if decided(evaluator, document).differences:
                found = decided(
                    evaluator,
                    shrink(document, lambda smaller: bool(decided(evaluator, smaller).differences)),
                )
        if found is not None:
            yield found


def decided(evaluator: EngineEvaluator, document: Json) -> Found:
    """A scenario decided in both ways; that one of them broke is a difference, too."""
    try:
        outcome = evaluator.run(read(document, Scenario), is_compact=False)
    except Exception:  # noqa: BLE001  # Whatever it is, it is what is looked for, and it is told.
        empty: Json = {"decisions": [], "nodes": {}, "weights": {}}
        return Found(document, [traceback.format_exc(limit=-6)], empty)
    expected: Json = {"decisions": [], "nodes": outcome.nodes, "weights": outcome.weights}
    differences: list[str] = []
    for decision in outcome.decisions:
        differences += [f"{decision['pod']}: {each}" for each in decision.get("engine", ())]
        slow = {field: value for field, value in decision.items() if field != "engine"}
        expected["decisions"].append(as_upstream_shows(slow))
    return Found(document, differences, expected)


# Making a scenario smaller --------------------------------------------------------------------------


def shrink(document: Json, still_differs: Callable[[Json], bool]) -> Json:
    """Leaves out attempts, changes, objects and parts of pods as long as it still differs."""
    left = TRIALS_MAX
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for smaller in _smaller(document):
            left -= 1
            if left < 0:
                return document
            if still_differs(smaller):
                document, is_smaller = smaller, True
                break
    return document


def _smaller(document: Json) -> Iterator[Json]:
    """The document with something left out, the largest pieces first."""
    for field in ("config", "changes", "attempts"):
        if field == "attempts":
            yield from _without_attempts(document)
        elif document.get(field):
            yield {key: value for key, value in document.items() if key != field}
    objects = document["objects"]
    for kind in objects:
        yield {**document, "objects": {k: v for k, v in objects.items() if k != kind}}
    for kind in objects:
        for fewer in _shorter(objects[kind]):
            yield {**document, "objects": {**objects, kind: fewer}}
    for fewer in _shorter(document.get("changes", [])):
        yield {**document, "changes": fewer}
    for kind in ("pods", "nodes"):
        for at, item in enumerate(objects.get(kind, ())):
            for plainer in _plainer(item):
                changed = [*objects[kind][:at], plainer, *objects[kind][at + 1 :]]
                yield {**document, "objects": {**objects, kind: changed}}
    for at, pod in enumerate(document["pending"]):
        for plainer in _plainer(pod):
            pending = [*document["pending"][:at], plainer, *document["pending"][at + 1 :]]
            yield {**document, "pending": pending}


def _without_attempts(document: Json) -> Iterator[Json]:
    """Fewer attempts; what happened before one that is left out happens before the next one, and a pod
    that is never tried is left out, too."""
    attempts = document["attempts"]
    for begin, end in _pieces(len(attempts)):
        kept = attempts[:begin] + attempts[end:]
        if not kept:
            continue
        changes = [
            {**change, "before": _moved(change["before"], begin, end)}
            for change in document.get("changes", ())
        ]
        pending = [pod for pod in document["pending"] if _key(pod) in kept]
        yield {**document, "attempts": kept, "changes": changes, "pending": pending}


def _moved(before: int, begin: int, end: int) -> int:
    return before if before < begin else max(begin, before - (end - begin))


def _shorter(items: list[Json]) -> Iterator[list[Json]]:
    for begin, end in _pieces(len(items)):
        yield items[:begin] + items[end:]


def _pieces(count: int) -> Iterator[tuple[int, int]]:
    """Halves, quarters and so on down to single ones, the last first."""
    size = (count + 1) // 2
    while size:
        for end in range(count, 0, -size):
            yield max(0, end - size), end
        size //= 2


def _plainer(item: Json) -> Iterator[Json]:
    """An object with a field of its spec, or a label, left out."""
    spec = item["spec"]
    for field in spec:
        if field not in ("containers", "nodeName", "schedulerName"):
            yield {**item, "spec": {k: v for k, v in spec.items() if k != field}}
    for label in item["metadata"].get("labels", ()):
        labels = {k: v for k, v in item["metadata"]["labels"].items() if k != label}
        yield {**item, "metadata": {**item["metadata"], "labels": labels}}


def _key(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
