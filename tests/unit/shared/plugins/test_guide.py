"""docs/plugins.md names what there is, and its example runs in a profile."""

import importlib.util
import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from shared.config import API_VERSION, KIND, parse_configuration
from shared.framework.out_of_tree import ENTRY_POINT_GROUP
from shared.framework.runtime.prepared_pod import prepared, run_filters_with_nominated
from shared.framework.runtime.profiles import METHODS, PluginSet, ProfileConfig
from shared.framework.status import Code
from shared.plugins.in_tree import InTreeRegistry
from tests.support.builders import make_node, make_pod
from tests.support.cluster import cluster_of, pod_info, pod_with

DOCS = Path(__file__).parents[4] / "docs"
GUIDE = (DOCS / "plugins.md").read_text(encoding="utf-8")


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def first_block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_first_plugin_of_the_guide_prefers_nodes_by_their_label(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "label_preference.py"
    file.write_text(first_block("python"))
    project = tomllib.loads(first_block("toml"))["project"]
    ((name, value),) = project["entry-points"][ENTRY_POINT_GROUP].items()
    point = metadata.EntryPoint(name, value, ENTRY_POINT_GROUP)
    plugin = getattr(loaded(file), point.attr)
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda _self: plugin)
    text = f"apiVersion: {API_VERSION}\nkind: {KIND}\n{first_block('yaml')}"
    (profile,) = parse_configuration(text, "berth.yaml").profiles
    framework = InTreeRegistry(entry_points=[point]).build(profile).framework
    cache = cluster_of([make_node("n0"), make_node("n1", labels={"disktype": "ssd"})], [])
    pod, rows = pod_with({}), cache.nodes.present_rows()
    active = framework.prepare_scores(pod, cache.view, rows).active
    _, normalized, _ = framework.run_scores(pod, cache.view, active, rows)
    scores = {entry.plugin.NAME: i for i, entry in enumerate(active)}
    assert active[scores[name]].weight == 2
    assert normalized[scores[name]].tolist() == [0, 100]


def test_the_example_filters_and_scores_in_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = loaded(DOCS / "example-plugin" / "src" / "berth_example" / "gold_tier.py").GoldTier
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda _self: plugin)
    point = metadata.EntryPoint("GoldTier", "your_package.gold_tier:GoldTier", ENTRY_POINT_GROUP)
    profile = ProfileConfig(plugins={"multiPoint": PluginSet(enabled=[("GoldTier", 2)])})
    framework = InTreeRegistry(entry_points=[point]).build(profile).framework
    nodes = [make_node("n0"), make_node("n1", labels={"tier": "gold"}),
             make_node("n2", labels={"tier": "gold"})]  # fmt: skip
    cache = cluster_of(nodes, [make_pod("a", node_name="n1")])
    pod = pod_info(make_pod("p", labels={"tier": "gold"}))
    asked = prepared(framework, pod, cache.view)
    takes = run_filters_with_nominated(asked, cache.nodes.present_rows()).passes
    assert takes.tolist() == [False, True, True]
    feasible = cache.nodes.present_rows()[takes]
    active = framework.prepare_scores(pod, cache.view, feasible).active
    _, normalized, _ = framework.run_scores(pod, cache.view, active, feasible)
    assert active[-1].plugin.NAME == "GoldTier"
    assert active[-1].weight == 2
    assert normalized[-1].tolist() == [0, 100]
    other = framework.run_pre_filters(pod_with({}), cache.view)
    assert other.each["GoldTier"].code is Code.SKIP


def test_the_guide_names_every_method_that_the_framework_runs() -> None:
    for extension_point, methods in METHODS.items():
        if not methods:
            continue  # Of in-tree plugins alone.
        line = next(
            line for line in GUIDE.splitlines() if line.startswith(f"| {extension_point} |")
        )
        assert f"{methods[0]}(" in line
