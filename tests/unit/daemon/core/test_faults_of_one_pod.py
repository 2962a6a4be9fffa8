"""A plugin that fails for one pod, anywhere: that pod is an error, and all others are scheduled.

The plugins here stand for whatever nobody has thought of.
"""

from collections.abc import Callable
from typing import Any

import pytest

from daemon.core.checker import Checker
from daemon.core.queue.queued_pod import Place
from shared.errors import ObjectError
from shared.faults import ObjectFaultError, changing, reading
from shared.kube.pod_record import PodRecord
from shared.plugins.resources.node_resources_fit import NodeResourcesFit
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline
from workers.scorer.engine import Engine
from workers.scorer.evaluator import RoomMaker

BAD = {"is": "bad"}


def is_bad(arguments: tuple[object, ...]) -> bool:
    """Whether a pod with the label is among the arguments of a call."""
    return any(getattr(each, "labels", None) == BAD for each in arguments)


def failing(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: object, **named: object) -> object:
        result = original(*arguments, **named)
        if is_bad(arguments):
            raise KeyError("nobody thought of that")
        return result

    return call


def verdicts_of(pipeline: Pipeline) -> dict[str, tuple[str, str]]:
    """Of each pod the last."""
    return {verdict.name: (verdict.reason, verdict.message) for verdict in pipeline.verdicts}


def schedule(bad: list[PodRecord], good: list[PodRecord]) -> Pipeline:
    pipeline = Pipeline()
    mixed = [pod for pair in zip(good, bad, strict=True) for pod in pair]
    pipeline.sync([make_node(f"n{i}", cpu="16") for i in range(3)], mixed)
    pipeline.run_until_quiet()
    return pipeline


@pytest.mark.usefixtures("all_labels_matter")
@pytest.mark.parametrize(
    ("owner", "method"),
    [
        (Engine, "evaluate"),
        (Engine, "place_run"),
        (NodeResourcesFit, "filter"),
        (NodeResourcesFit, "score"),
        (NodeResourcesFit, "pre_filter"),
        (Checker, "passing"),
        (Checker, "known"),
    ],
)
@pytest.mark.parametrize("is_crowd", [False, True])
def test_a_pod_that_nobody_can_evaluate_is_an_error_and_others_are_placed(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str, is_crowd: bool
) -> None:
    monkeypatch.setattr(owner, method, failing(getattr(owner, method)))
    count = 6
    # By their labels alone they would be of the family of the others, who are asked in their place.
    spec = {"tolerations": [{"key": "bad", "operator": "Exists"}]}
    bad = [make_pod(f"bad{i}", labels=BAD, spec=spec) for i in range(count)]
    good = [make_pod(f"good{i}", cpu="100m" if is_crowd else f"{100 + i}m") for i in range(count)]
    pipeline = schedule(bad, good)
    pipeline.check()
    assert {pod.uid for pod in good} <= pipeline.bound.keys()
    told = verdicts_of(pipeline)
    for pod in bad:
        if pod.uid not in pipeline.bound:
            assert told[pod.name][0] == "SchedulerError"
            assert told[pod.name][1].startswith("KeyError: 'nobody thought of that' (")
            queued = pipeline.state.queue.get(pod.uid)
            assert queued is not None
            assert queued.place is Place.BACKOFF
    if method not in ("known", "place_run"):
        assert len(told) == count
    monkeypatch.undo()
    pipeline.advance(60.0)
    pipeline.run_until_quiet()
    assert len(pipeline.bound) == 2 * count
    pipeline.check()


def test_a_search_for_room_that_fails_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline()
    low = [make_pod(f"low{i}", cpu="3", node_name=f"n{i}") for i in range(2)]
    pipeline.sync([make_node(f"n{i}") for i in range(2)], low)

    def attempt(*_: object) -> None:
        raise KeyError("nobody thought of that")

    with monkeypatch.context() as broken:
        broken.setattr(RoomMaker, "attempt", attempt)
        pipeline.add_pod(make_pod("high", cpu="3", priority=10))
        pipeline.run_until_quiet()
    assert verdicts_of(pipeline)["high"][0] == "SchedulerError"
    assert not pipeline.evicted
    pipeline.check()
    pipeline.advance(60.0)
    pipeline.run_until_quiet()
    assert len(pipeline.evicted) == 1
    pipeline.check()


def test_a_preemption_that_cannot_be_checked_is_not_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = Pipeline()
    pipeline.sync([make_node("n0")], [make_pod("low", cpu="3", node_name="n0")])

    def fits_without(*_: object) -> bool:
        raise KeyError("nobody thought of that")

    with monkeypatch.context() as broken:
        broken.setattr("daemon.core.preemptions.fits_without", fits_without)
        pipeline.add_pod(make_pod("high", cpu="3", priority=10))
        pipeline.run_until_quiet()
    assert verdicts_of(pipeline)["high"][0] == "SchedulerError"
    assert not pipeline.evicted
    assert not pipeline.nominated
    pipeline.check()


def test_an_error_that_names_its_place_is_told_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate(*_: object) -> None:
        raise ObjectError("persistentvolumes pv: spec.capacity", "no quantity")

    monkeypatch.setattr(Engine, "evaluate", evaluate)
    pipeline = schedule([], [])
    monkeypatch.setattr("workers.scorer.lone_pods.LonePods.choose", lambda *_, **__: None)
    pipeline.add_pod(make_pod("p", host_port=80))
    pipeline.run_until_quiet()
    told = verdicts_of(pipeline)
    assert told["p"] == ("SchedulerError", "persistentvolumes pv: spec.capacity: no quantity")


def test_the_plugin_that_raised_is_named() -> None:
    class Careless:
        NAME = "Careless"

        def filter(self) -> int:
            return int("seven")

    with pytest.raises(ObjectFaultError) as raised, reading("pod", "default/p"):
        Careless().filter()
    assert raised.value.told().startswith("plugin Careless: ValueError: invalid literal")


def test_what_is_half_changed_is_a_bug_of_ours() -> None:
    with pytest.raises(ObjectError, match=r"pod p: KeyError: 'x' \(test_"), reading("pod p"):
        raise KeyError("x")
    with pytest.raises(AssertionError), reading("pod p"), changing():
        raise KeyError("x")
    with pytest.raises(AssertionError), reading("pod p"):
        raise AssertionError("ours")
    with pytest.raises(MemoryError), reading("pod p"):
        raise MemoryError
