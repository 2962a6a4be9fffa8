"""Which candidates a search for room keeps (DryRunPreemption in
pkg/scheduler/framework/preemption/preemption.go, v1.36.2)."""

import msgspec
import pytest

from daemon.core.cache import Cache
from shared.feature_gates import DEFAULT_GATES
from shared.framework.runtime.profiles import ProfileConfig
from shared.kube.api.policy_v1 import PodDisruptionBudget
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node, make_pod
from workers.scorer.engine import Engine
from workers.scorer.evaluator import post_filter


def candidates(nodes: str, percentage: int, absolute: int) -> list[str]:
    """Each letter is a node with one victim, upper case where a budget forbids that it goes."""
    args = {"minCandidateNodesPercentage": percentage, "minCandidateNodesAbsolute": absolute}
    profile = ProfileConfig(plugin_config={"DefaultPreemption": args})
    built = InTreeRegistry(entry_points=()).build(profile)
    cache = Cache(DEFAULT_GATES)
    for name in nodes:
        cache.add_node(make_node(f"node-{name}", cpu="1"))
        labels = {"app": "kept"} if name.isupper() else None
        cache.add_pod(make_pod(name, cpu="1", node_name=f"node-{name}", labels=labels))
    budget = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "kept"}}},
    }
    cache.objects.put(
        "poddisruptionbudgets", "default/b", msgspec.convert(budget, PodDisruptionBudget)
    )
    pod_class = cache.classes.acquire(make_pod("p", cpu="1", priority=9))
    engine = Engine(cache.view, {built.scheduler_name: built.framework})
    evaluation = engine.evaluate(pod_class.class_id, pod_class.info, built.scheduler_name)
    preemption = post_filter(evaluation, lambda ties: int(ties[0])).preemption
    assert preemption is not None
    rows = preemption.candidates.rows.tolist()
    return [cache.nodes.name_of(row).removeprefix("node-") for row in rows]


@pytest.mark.parametrize(
    ("nodes", "absolute", "kept"),
    [
        ("ABCD", 1, "A"),
        ("ABCD", 2, "AB"),
        ("ABCd", 2, "ABd"),
        ("aBcd", 3, "aBc"),
        ("ABCD", 9, "ABCD"),
    ],
)
def test_of_candidates_that_violate_budgets_no_more_than_are_wanted_are_kept(
    nodes: str, absolute: int, kept: str
) -> None:
    assert candidates(nodes, 0, absolute) == list(kept)


def test_a_tenth_of_a_few_nodes_is_none() -> None:
    assert candidates("ab", 10, 0) == []
