"""For whom PostFilter plugins are asked: each pod that fits nowhere, but where a plugin speaks for all
pods of a class (RunPostFilterPlugins in pkg/scheduler/schedule_one.go schedulingAlgorithm, v1.36.2)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from shared.framework.post_filter import FailedAttempt, PostFilterResult
from shared.framework.status import Code, Status
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline


class Counts:
    """Says how often it was asked."""

    NAME: ClassVar[str] = "Counts"

    def __init__(self, *, answers_for_class: bool) -> None:
        self.answers_for_class = answers_for_class
        self.states: list[Mapping[str, Any]] = []
        """Of each pod that it was asked about."""

    def post_filter(self, attempt: FailedAttempt) -> PostFilterResult:
        assert not attempt.filtered.passes.any()
        self.states.append(attempt.pod.outcome.states)
        return PostFilterResult(Status(Code.UNSCHEDULABLE, (f"asked {len(self.states)} times",)))


def tried(*plugins: Counts, pod_count: int) -> list[str]:
    """What pods are told that fit nowhere: of one class, and of one batch."""
    pipeline = Pipeline()
    (framework,) = pipeline.frameworks.values()
    framework.post_filters = (*framework.post_filters, *plugins)
    pods = [make_pod(f"p{i}", cpu="2") for i in range(pod_count)]
    pipeline.sync([make_node("n0", cpu="1")], pods)
    pipeline.run_until_quiet()
    assert [patch.name for patch in pipeline.patches] == [pod.name for pod in pods]
    return [patch.message for patch in pipeline.patches]


@pytest.mark.parametrize("pod_count", [1, 5])
def test_a_post_filter_plugin_is_asked_for_each_pod_with_states_of_its_own(pod_count: int) -> None:
    plugin = Counts(answers_for_class=False)
    messages = tried(plugin, pod_count=pod_count)
    numbers = range(1, pod_count + 1)
    assert all(f"asked {i} times" in each for i, each in zip(numbers, messages, strict=True))
    assert len({id(states) for states in plugin.states}) == pod_count


def test_one_that_answers_for_a_class_is_asked_once() -> None:
    plugin = Counts(answers_for_class=True)
    (message,) = set(tried(plugin, pod_count=5))
    assert "asked 1 times" in message


def test_one_that_does_not_has_the_others_asked_as_well() -> None:
    speaks, counts = Counts(answers_for_class=True), Counts(answers_for_class=False)
    tried(speaks, counts, pod_count=5)
    assert len(speaks.states) == len(counts.states) == 5
