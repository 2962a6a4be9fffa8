"""Profiles made into plugins: kube-scheduler's order and override rules, and clear refusals."""

from importlib import metadata
from itertools import chain
from typing import Any, ClassVar

import pytest

from shared import plugin_names
from shared.errors import ConfigurationError
from shared.feature_gates import FeatureGates, parse_feature_gates
from shared.framework.out_of_tree import ENTRY_POINT_GROUP
from shared.framework.plugin_api import ON_NODE, Dependence, PreScoreResult
from shared.framework.runtime.plans import PreScoreError
from shared.framework.runtime.profiles import EXTENSION_POINTS, PluginSet, ProfileConfig
from shared.framework.runtime.registry import BuiltProfile
from shared.framework.status import Code, Status
from shared.plugins.in_tree import IN_TREE, InTreeRegistry
from tests.support.builders import make_node
from tests.support.cluster import cluster_of, pod_with

SCORES = [("TaintToleration", 3), ("NodeAffinity", 2), ("NodeResourcesFit", 1), ("VolumeBinding", 1),
          ("PodTopologySpread", 2), ("InterPodAffinity", 2), ("DynamicResources", 2),
          ("NodeResourcesBalancedAllocation", 1), ("ImageLocality", 1)]  # fmt: skip
FILTERS = ["NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts",
           "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding",
           "VolumeZone", "PodTopologySpread", "InterPodAffinity", "DynamicResources",
           "NodeDeclaredFeatures"]  # fmt: skip


def build(**plugins: PluginSet) -> BuiltProfile:
    return InTreeRegistry(entry_points=()).build(ProfileConfig(plugins=plugins))


def problems_of(profile: ProfileConfig, **given: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        InTreeRegistry(**{"entry_points": (), **given}).build(profile)
    assert caught.value.source == f"profile {profile.scheduler_name}"
    return caught.value.problems


def scores_of(built: BuiltProfile) -> list[tuple[str, int]]:
    return [(entry.plugin.NAME, entry.weight) for entry in built.framework.scores if entry.weight]


def filters_of(built: BuiltProfile) -> list[str]:
    return [plugin.NAME for plugin in built.framework.filters]


def test_the_default_profile_runs_upstreams_plugins_in_upstreams_order() -> None:
    built = build()
    assert filters_of(built) == FILTERS
    assert scores_of(built) == SCORES
    assert built.queue_sort.NAME == "PrioritySort"
    assert [p.NAME for p in built.plugins_at["bind"]] == ["DefaultBinder"]
    gates = [p.NAME for p in built.plugins_at["preEnqueue"]]
    assert gates[:2] == ["SchedulingGates", "DynamicResources"]
    assert set(built.plugins_at) == set(EXTENSION_POINTS)


def test_every_default_plugin_is_built() -> None:
    gates = ("GenericWorkload", *{one.gate for one in IN_TREE.values() if one.gate})
    with_all = parse_feature_gates(",".join(f"{gate}=true" for gate in gates))
    built = InTreeRegistry(with_all, ()).build(ProfileConfig())
    assert {plugin.NAME for plugin in chain(*built.plugins_at.values())} == set(IN_TREE)
    assert built.labels_read == frozenset(), "beside those that somebody selects by"


def test_gang_scheduling_is_a_default_plugin_with_its_gate() -> None:
    gates = parse_feature_gates("GenericWorkload=true,GangScheduling=true")
    for point in ("preEnqueue", "permit"):
        plugins = InTreeRegistry(gates, ()).build(ProfileConfig()).plugins_at[point]
        assert plugins[-1].NAME == plugin_names.GANG_SCHEDULING
        assert (
            plugins[-1]
            not in InTreeRegistry(entry_points=()).build(ProfileConfig()).plugins_at[point]
        )


def test_placements_have_default_plugins_with_their_gate() -> None:
    gates = parse_feature_gates("GenericWorkload=true,TopologyAwareWorkloadScheduling=true")
    built = InTreeRegistry(gates, ()).build(ProfileConfig())
    assert [each.NAME for each in built.plugins_at["placementGenerate"]] == [
        plugin_names.TOPOLOGY_PLACEMENT_GENERATOR
    ]
    weights = {plugin.NAME: weight for plugin, weight in built.framework.placement_scores}
    assert weights == {"NodeResourcesFit": 1, "PodGroupPodsCount": 1}


def test_placements_are_scored_with_the_weights_of_their_point() -> None:
    """A file that kube-scheduler writes with the gate on, and a point that overrides it."""
    profile = ProfileConfig(
        plugins={
            "multiPoint": PluginSet(
                enabled=[("TopologyPlacementGenerator", 0), ("PodGroupPodsCount", 1)]
            ),
            "placementScore": PluginSet(
                enabled=[("PodGroupPodsCount", 5)], disabled=["NodeResourcesFit"]
            ),
        }
    )
    framework = InTreeRegistry(entry_points=()).build(profile).framework
    weights = {plugin.NAME: weight for plugin, weight in framework.placement_scores}
    assert weights == {"PodGroupPodsCount": 5}


def test_gang_scheduling_needs_generic_workload() -> None:
    with pytest.raises(ConfigurationError, match="GangScheduling: needs GenericWorkload=true"):
        parse_feature_gates("GangScheduling=true")


def test_a_score_that_is_disabled_and_enabled_again_comes_last_with_its_new_weight() -> None:
    score = PluginSet(enabled=[("NodeAffinity", 9)], disabled=["NodeAffinity"])
    expected = [entry for entry in SCORES if entry[0] != "NodeAffinity"]
    assert scores_of(build(score=score)) == [*expected, ("NodeAffinity", 9)]


def test_a_score_that_is_only_enabled_again_comes_first_with_its_new_weight() -> None:
    score = PluginSet(enabled=[("ImageLocality", 7)])
    assert scores_of(build(score=score)) == [("ImageLocality", 7), *SCORES[:-1]]


def test_a_weight_of_multi_point_replaces_the_default_in_its_place() -> None:
    built = build(multiPoint=PluginSet(enabled=[("NodeAffinity", 5)]))
    assert scores_of(built) == [SCORES[0], ("NodeAffinity", 5), *SCORES[2:]]


def test_a_star_disables_all_of_an_extension_point() -> None:
    built = build(score=PluginSet(enabled=[("NodeResourcesFit", 0)], disabled=["*"]))
    assert scores_of(built) == [("NodeResourcesFit", 1)]
    assert filters_of(built) == FILTERS


def test_a_profile_of_its_own_starts_from_nothing() -> None:
    own = [("PrioritySort", 0), ("DefaultBinder", 0), ("NodePorts", 0)]
    built = build(multiPoint=PluginSet(enabled=own, disabled=["*"]))
    assert filters_of(built) == ["NodePorts"]


def test_arguments_reach_their_plugin() -> None:
    term = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    added = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    config: dict[str, dict[str, Any]] = {"NodeAffinity": {"addedAffinity": added}}
    built = InTreeRegistry(entry_points=()).build(ProfileConfig(plugin_config=config))
    affinity = next(p for p in built.framework.filters if p.NAME == "NodeAffinity")
    assert vars(affinity)["_added_terms"] != ()


@pytest.mark.parametrize(
    ("plugins", "problem"),
    [
        ({"filter": PluginSet(enabled=[("NodePort", 0)])},
         "plugins.filter.enabled[NodePort]: there is no plugin NodePort; there are DefaultBinder, "),
        ({"score": PluginSet(enabled=[("NodePorts", 1)])},
         "plugins.score.enabled: NodePorts does not take part in score"),
        ({"filter": PluginSet(enabled=[("NodePorts", 0), ("NodePorts", 0)])},
         "plugins.filter.enabled: NodePorts stands there twice"),
        ({"queueSort": PluginSet(disabled=["*"])},
         "plugins.queueSort: exactly one plugin is needed, not none"),
        ({"bind": PluginSet(disabled=["DefaultBinder"])}, "plugins.bind: at least one"),
    ],
)  # fmt: skip
def test_a_profile_that_cannot_be_built_is_refused_with_the_place(
    plugins: dict[str, PluginSet], problem: str
) -> None:
    found = problems_of(ProfileConfig("mine", plugins=plugins))
    assert any(text.startswith(problem) for text in found), found


def test_arguments_of_a_plugin_that_is_not_there_are_named_as_without_effect() -> None:
    """As in kube-scheduler, which keeps them without looking at them."""
    built = InTreeRegistry(entry_points=()).build(ProfileConfig(plugin_config={"Nope": {"x": 1}}))
    assert "pluginConfig: Nope: no effect; there is no such plugin" in built.notes


def test_wrong_arguments_are_refused_even_of_plugins_that_do_not_run() -> None:
    profile = ProfileConfig(
        plugins={"multiPoint": PluginSet(disabled=["NodeAffinity"])},
        plugin_config={"NodeAffinity": {"x": 1}, "NodeResourcesFit": {"y": 2}},
    )
    found = problems_of(profile)
    assert found == [
        "pluginConfig[NodeAffinity].args: Object contains unknown field `x`",
        "pluginConfig[NodeResourcesFit].args: Object contains unknown field `y`",
    ]


def test_a_plugin_without_arguments_does_not_look_at_any() -> None:
    InTreeRegistry(entry_points=()).build(ProfileConfig(plugin_config={"NodePorts": {"x": 1}}))


def test_a_wrong_name_does_not_hide_wrong_arguments() -> None:
    problems = problems_of(
        ProfileConfig(
            plugins={"score": PluginSet([("NodeResourcesFitt", 1)])},
            plugin_config={"NodeResourcesFit": {"scoringStrategy": {"type": "Middling"}}},
        )
    )
    assert [problem.partition(":")[0] for problem in problems] == [
        "plugins.score.enabled[NodeResourcesFitt]",
        "pluginConfig[NodeResourcesFit].args",
    ]


def test_disabling_what_does_not_exist_is_only_noted() -> None:
    built = build(filter=PluginSet(disabled=["NodePreferAvoidPods"]))
    assert filters_of(built) == FILTERS
    assert "NodePreferAvoidPods: no effect" in built.notes[0]


# Plugins of others --------------------------------------------------------------------------------


class Quiet:
    NAME: ClassVar[str] = "Quiet"
    score_depends: ClassVar[Dependence] = ON_NODE

    def __init__(self, args: dict[str, Any]) -> None:
        self.args = args

    def score(self) -> None: ...


class Undeclared:
    NAME: ClassVar[str] = "Other"

    def __init__(self, args: dict[str, Any]) -> None: ...

    def filter(self) -> None: ...

    def normalize(self) -> None: ...


def entry_point(name: str, value: str) -> metadata.EntryPoint:
    return metadata.EntryPoint(name, f"{__name__}:{value}", ENTRY_POINT_GROUP)


def enabling(name: str, args: dict[str, Any] | None = None) -> ProfileConfig:
    plugins = {"multiPoint": PluginSet(enabled=[(name, 4)])}
    return ProfileConfig(plugins=plugins, plugin_config={name: args or {}})


def test_a_plugin_of_another_package_runs_with_its_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda _self: Quiet)
    own = InTreeRegistry(entry_points=[entry_point("Quiet", "Quiet")])
    built = own.build(enabling("Quiet", {"a": 1}))
    assert scores_of(built)[-1] == ("Quiet", 4)
    assert built.plugins_at["score"][-1].args == {"a": 1}
    assert "Quiet" in own.names()


def test_a_plugin_of_another_package_that_nobody_enables_is_not_made() -> None:
    profile = ProfileConfig(plugin_config={"Quiet": {"a": 1}})
    InTreeRegistry(entry_points=[entry_point("Quiet", "NotThere")]).build(profile)


def test_a_plugin_may_stand_twice_in_multi_point_where_its_only_point_names_it() -> None:
    twice = PluginSet(enabled=[("ImageLocality", 2), ("ImageLocality", 3)])
    built = build(multiPoint=twice, score=PluginSet(enabled=[("ImageLocality", 5)]))
    assert scores_of(built)[0] == ("ImageLocality", 5)
    assert problems_of(ProfileConfig(plugins={"multiPoint": twice})) == [
        "plugins.multiPoint.enabled (for score): ImageLocality stands there twice"
    ]


def test_a_plugin_of_another_package_that_does_not_fit_is_refused_with_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda _self: Undeclared)
    found = problems_of(
        enabling("Undeclared"), entry_points=[entry_point("Undeclared", "Undeclared")]
    )
    text = "; ".join(found)
    assert "NAME must be 'Undeclared'" in text
    assert "has filter but no filter_depends" in text
    assert "normalize and normalization go together" in text


def test_a_plugin_that_cannot_be_imported_is_named() -> None:
    point = metadata.EntryPoint("Gone", "no_such_module_here:Gone", ENTRY_POINT_GROUP)
    (problem,) = problems_of(enabling("Gone"), entry_points=[point])
    assert problem.startswith("plugin Gone (no_such_module_here:Gone): cannot be loaded")


def test_nobody_takes_the_name_of_an_in_tree_plugin() -> None:
    with pytest.raises(ConfigurationError, match="NodePorts: is the name of an in-tree plugin"):
        InTreeRegistry(entry_points=[entry_point("NodePorts", "Quiet")])


def test_a_gate_that_nothing_obeys_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="NoSuchGate"):
        FeatureGates({"NoSuchGate": True})


# What may be named where --------------------------------------------------------------------------

UPSTREAM_POINTS = {
    "preEnqueue": ["SchedulingGates", "DynamicResources", "DefaultPreemption"],
    "preFilter": ["NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions",
                  "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread",
                  "InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures"],
    "filter": FILTERS,
    "postFilter": ["DynamicResources", "DefaultPreemption"],
    "preScore": ["TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity",
                 "VolumeBinding"],
    "score": [name for name, _ in SCORES],
    "reserve": ["VolumeBinding", "DynamicResources"],
    "preBind": ["VolumeBinding", "DynamicResources"],
    "bind": ["DefaultBinder"],
}  # fmt: skip
"""kube-scheduler's plugins by the extension points that they implement, v1.36."""


@pytest.mark.parametrize("point", sorted(UPSTREAM_POINTS))
def test_a_plugin_may_be_enabled_by_name_at_each_of_its_points(point: str) -> None:
    for name in UPSTREAM_POINTS[point]:
        plugins = {point: PluginSet(enabled=[(name, 0)], disabled=["*"])}
        built = InTreeRegistry(entry_points=()).build(ProfileConfig(plugins=plugins))
        assert [plugin.NAME for plugin in built.plugins_at[point]] == [name]


def test_the_default_profile_prepares_volumes_and_claims_before_binding() -> None:
    assert [p.NAME for p in build().plugins_at["preBind"]] == ["VolumeBinding", "DynamicResources"]


def test_a_plugin_that_raises_over_its_arguments_is_named_with_the_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(given: dict[str, Any]) -> None:
        raise KeyError("tier")

    monkeypatch.setattr(metadata.EntryPoint, "load", lambda _self: broken)
    found = problems_of(enabling("Broken"), entry_points=[entry_point("Broken", "broken")])
    assert found == ["pluginConfig[Broken].args: KeyError: 'tier'"]


class LooksOnly:
    NAME: ClassVar[str] = "LooksOnly"
    pre_score_depends: ClassVar[Dependence | None] = ON_NODE

    def __init__(self, args: dict[str, Any]) -> None: ...

    def pre_score(self, *_: Any) -> PreScoreResult:
        return PreScoreResult(Status(Code.ERROR, ("no",)))


def test_a_plugin_of_pre_score_alone_is_asked_and_never_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda _self: LooksOnly)
    own = InTreeRegistry(entry_points=[entry_point("LooksOnly", "LooksOnly")])
    framework = own.build(enabling("LooksOnly")).framework
    view = cluster_of([make_node("n0")]).view
    with pytest.raises(PreScoreError, match='running PreScore plugin "LooksOnly": no'):
        framework.prepare_scores(pod_with({}), view, view.nodes.present_rows())


def test_what_could_score_and_does_not_is_asked_only_where_it_may_refuse_the_pod() -> None:
    framework = build(score=PluginSet(disabled=["NodeAffinity", "PodTopologySpread"])).framework
    others = [plugin.NAME for plugin, weight, *_ in framework.scores if not weight]
    assert others == ["NodeAffinity"]
    wish = {"key": "size", "operator": "Gt", "values": ["large"]}
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [wish]}}
    ]}  # fmt: skip
    view = cluster_of([make_node("n0")]).view
    with pytest.raises(
        PreScoreError, match=r'PreScore plugin "NodeAffinity": .*Invalid value: "large"'
    ):
        framework.prepare_scores(
            pod_with({"affinity": {"nodeAffinity": affinity}}), view, view.nodes.present_rows()
        )
