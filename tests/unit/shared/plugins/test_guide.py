"""The plugin in docs/plugins.md does what the guide says."""

import re
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from shared.framework.profiles import PluginSet, ProfileConfig
from shared.framework.registry import ENTRY_POINT_GROUP, METHODS, Registry
from shared.framework.status import Code
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, pod_info, pod_with

GUIDE = (Path(__file__).parents[4] / "docs" / "plugins.md").read_text(encoding="utf-8")


def gold_tier() -> Any:
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    return namespace["GoldTier"]


def test_the_example_filters_and_scores_in_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = gold_tier()
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda _self: plugin)
    point = metadata.EntryPoint("GoldTier", "your_package.gold_tier:GoldTier", ENTRY_POINT_GROUP)
    profile = ProfileConfig(plugins={"multiPoint": PluginSet(enabled=[("GoldTier", 2)])})
    framework = Registry(entry_points=[point]).build(profile).framework
    nodes = [make_node("n0"), make_node("n1", labels={"tier": "gold"}),
             make_node("n2", labels={"tier": "gold"})]  # fmt: skip
    cache = cluster_of(nodes, [make_pod("a", node_name="n1")])
    pod = pod_info(make_pod("p", labels={"tier": "gold"}))
    outcome = framework.run_pre_filters(pod, cache.view)
    passing = framework.passing(pod, cache.view, outcome, cache.nodes.present_rows())
    assert passing.tolist() == [False, True, True]
    feasible = cache.nodes.present_rows()[passing]
    active, _ = framework.run_pre_score(pod, cache.view, feasible)
    _, normalized, _ = framework.run_scores(pod, cache.view, active, feasible)
    assert active[-1].plugin.NAME == "GoldTier"
    assert active[-1].weight == 2
    assert normalized[-1].tolist() == [0, 100]
    other = framework.run_pre_filters(pod_with({}), cache.view)
    assert other.each["GoldTier"].code is Code.SKIP


def test_the_guide_names_every_method_that_the_framework_runs() -> None:
    run = {"preEnqueue", "queueSort", "preFilter", "filter", "preScore", "score", "bind"}
    for extension_point in run:
        assert f"| {extension_point} | `{METHODS[extension_point]}(" in GUIDE
