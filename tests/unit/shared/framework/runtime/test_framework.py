"""How PreFilter answers are put together, and who is named for a refusal."""

from typing import Any, ClassVar

import numpy as np
import pytest

from shared.framework.cluster_view import ClusterView
from shared.framework.plugin_api import ON_NODE, Dependence, PreFilterResult, PreScoreResult
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.diagnosis import FitError, diagnose, filter_candidates
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.plans import PreScoreError, told_of
from shared.framework.runtime.prepared_pod import prepared, run_filters_with_nominated
from shared.framework.status import MORE_REASONS, REASONS_MAX, Code, Status, Verdicts
from tests.support.builders import make_node
from tests.support.cluster import cluster_of, pod_with, rows_of


class Narrowing:
    pre_filter_depends: ClassVar[Dependence | None] = None

    def __init__(self, name: str, nodes: set[str] | None, code: Code = Code.SUCCESS) -> None:
        self.NAME = name
        self._result = PreFilterResult(
            Status(code, ("no",) if code else ()), None if nodes is None else frozenset(nodes)
        )

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        return self._result


def diagnosed(*plugins: Any) -> FitError:
    framework = Framework(plugins, [], [])
    view = cluster_of([make_node("n0"), make_node("n1")]).view
    pod = prepared(framework, pod_with({}), view)
    return diagnose(pod, filter_candidates(pod))


def refusal_of(*plugins: Any) -> tuple[str, frozenset[str]]:
    error = diagnosed(*plugins)
    return error.message(), error.plugins


def test_plugins_that_share_no_node_are_named_together_in_order_of_name() -> None:
    assert refusal_of(Narrowing("Z", {"n0"}), Narrowing("A", {"n1"})) == (
        "0/2 nodes are available: node(s) didn't satisfy plugin(s) [A Z] simultaneously.",
        frozenset({"A", "Z"}),
    )


def test_one_plugin_that_leaves_no_node_is_named_alone() -> None:
    assert refusal_of(Narrowing("A", set())) == (
        "0/2 nodes are available: node(s) didn't satisfy plugin A.",
        frozenset({"A"}),
    )


@pytest.mark.parametrize(
    ("code", "plugins"),
    [(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, {"B"}), (Code.UNSCHEDULABLE, {"A", "B"})],
)
def test_a_rejection_counts_with_those_that_narrowed_unless_it_is_final(
    code: Code, plugins: set[str]
) -> None:
    message, named = refusal_of(Narrowing("A", {"n0"}), Narrowing("B", None, code))
    assert message == "0/2 nodes are available: no."
    assert named == plugins


def test_who_has_to_wait_may_not_say_so_in_pre_filter() -> None:
    """RunPreFilterPlugins in pkg/scheduler/framework/runtime/framework.go, v1.36.2: whatever is no
    success and not unschedulable is an error, and ends PreFilter."""
    error = diagnosed(Narrowing("A", None, Code.PENDING), Narrowing("B", set()))
    assert error.error == 'running PreFilter plugin "A": no'
    assert not error.plugins | error.pending_plugins


def test_nodes_left_out_by_pre_filter_count_with_the_name_of_who_left_them_out() -> None:
    message, named = refusal_of(Narrowing("A", {"gone"}))
    assert message == "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [A]."
    assert named == {"A"}


def test_a_plugin_may_have_any_number_of_reasons_against_all_nodes() -> None:
    class Chatty:
        NAME: ClassVar[str] = "Chatty"
        pre_filter_depends: ClassVar[Dependence | None] = None

        def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
            texts = tuple(f"because of {i}" for i in range(REASONS_MAX + 5))
            return PreFilterResult(Status(Code.UNSCHEDULABLE, texts))

    framework = Framework([Chatty()], [], [])
    view, pod = cluster_of([make_node("n0")]).view, pod_with({})
    found = prepared(framework, pod, view).run_filters(rows_of(0))
    reasons = Verdicts(found.codes, found.reasons, found.refusers[0].texts).status(0, "").reasons
    assert reasons[0] == "because of 0"
    assert reasons[REASONS_MAX - 1 :] == (MORE_REASONS,)


@pytest.mark.parametrize("asked", [(0, 1), (1, 0)])
def test_of_two_nodes_with_an_error_the_first_by_name_is_told(asked: tuple[int, int]) -> None:
    """In whatever order they were asked: nodes with nominated pods are asked for themselves."""
    framework = Framework([], [FailingFilter()], [])
    pod = prepared(framework, pod_with({}), cluster_of([make_node("n0"), make_node("n1")]).view)
    apart = [run_filters_with_nominated(pod, rows_of(row)) for row in asked]
    assert (
        diagnose(pod, told_of(rows_of(*asked), apart)).error
        == 'running "Breaks" filter plugin: on n0'
    )


def test_a_row_that_is_named_twice_is_told_the_same_twice() -> None:
    """As rows are that several filters want to be asked about again."""
    framework = Framework([], [FailingFilter()], [])
    pod = prepared(framework, pod_with({}), cluster_of([make_node("n0"), make_node("n1")]).view)
    told = told_of(rows_of(0, 1, 0), [run_filters_with_nominated(pod, rows_of(0))])
    assert told.passes.tolist() == [False, True, False]


class FailingFilter:
    NAME: ClassVar[str] = "Breaks"
    filter_depends: ClassVar[Dependence] = ON_NODE

    def filter(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Any) -> Verdicts:
        codes = np.full(len(rows), Code.ERROR, np.uint8)
        texts = tuple(f"on {cluster.nodes.name_of(int(row))}" for row in rows)
        return Verdicts(codes, 1 << np.arange(len(rows)), texts)


class Failing:
    NAME: ClassVar[str] = "Failing"
    pre_score_depends: ClassVar[Dependence | None] = None
    score_depends: ClassVar[Dependence] = ON_NODE

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Any) -> PreScoreResult:
        return PreScoreResult(Status(Code.ERROR, ("odd term",)))

    def score(self, state: Any, pod: PodInfo, cluster: ClusterView, rows: Any) -> Any:
        raise AssertionError("not to be asked")


def test_a_pod_that_cannot_be_rated_is_an_error_with_the_plugins_name() -> None:
    framework = Framework([], [], [(Failing(), 1)])
    with pytest.raises(PreScoreError, match='running PreScore plugin "Failing": odd term'):
        framework.prepare_scores(pod_with({}), cluster_of([]).view, rows_of())
