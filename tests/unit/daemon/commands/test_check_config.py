"""`berth check-config`: what it costs to say where a problem stands, and what has no effect."""

import pytest
import yaml

from daemon.commands import check_config
from shared.errors import ConfigurationError

CONSTRAINTS = [
    {"maxSkew": 0, "topologyKey": f"k{number}", "whenUnsatisfiable": "DoNotSchedule"}
    for number in range(50)
]
ARGS = {"defaultingType": "List", "defaultConstraints": CONSTRAINTS}
TEXT = yaml.safe_dump(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "PodTopologySpread", "args": ARGS}]}],
    },
    sort_keys=False,
)


def test_however_many_problems_there_are_the_file_is_read_for_their_lines_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []

    def composed(text: str) -> yaml.Node | None:
        read.append(text)
        return yaml.compose(text, Loader=yaml.SafeLoader)

    monkeypatch.setattr(check_config, "composed", composed)
    with pytest.raises(ConfigurationError) as raised:
        check_config.check_text(TEXT, "config.yaml", "")
    assert len(raised.value.problems) == len(CONSTRAINTS)
    assert all("line " in problem for problem in raised.value.problems)
    assert read == [TEXT]


@pytest.mark.parametrize(
    ("plugin", "args", "place"),
    [
        ("DefaultPreemption", {"minCandidateNodesAbsolute": 2**31}, "minCandidateNodesAbsolute"),
        ("VolumeBinding", {"bindTimeoutSeconds": 2**63}, "bindTimeoutSeconds"),
        (
            "PodTopologySpread",
            {
                "defaultingType": "List",
                "defaultConstraints": [
                    {"maxSkew": 2**31, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}
                ],
            },
            "defaultConstraints[0].maxSkew",
        ),
    ],
)
def test_a_number_that_upstreams_field_cannot_hold_is_refused(
    plugin: str, args: dict[str, object], place: str
) -> None:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": plugin, "args": args}]}],
    }
    with pytest.raises(ConfigurationError) as refused:
        check_config.check_text(yaml.safe_dump(document), "c", "")
    assert place in str(refused.value)


def test_gates_that_only_kube_scheduler_obeys_are_told_apart_from_those_that_nobody_does() -> None:
    shown = check_config.effective_yaml("", "CoordinatedLeaderElection=true,MemoryQoS=true")
    assert shown.splitlines()[:2] == [
        "# --feature-gates CoordinatedLeaderElection=true: no effect, though kube-scheduler would"
        " obey it",
        "# --feature-gates MemoryQoS=true: no effect",
    ]


def test_what_is_shown_of_text_is_text() -> None:
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: "y"}]
"""
    shown = check_config.shown(check_config.check_text(text, "c", ""))
    assert check_config.check_text(shown, "c", "").configuration.profiles[0].scheduler_name == "y"


HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PRE_FILTERS = (
    "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding"
    " VolumeZone PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures"
)
PRE_SCORES = (
    "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread"
    " InterPodAffinity NodeResourcesBalancedAllocation"
)
"""Of pkg/scheduler/framework/plugins of v1.36.2: who implements PreFilterPlugin and PreScorePlugin."""


@pytest.mark.parametrize(
    "profiles", ["", "profiles: [{plugins: {preScore: {disabled: [{name: '*'}]}}}]\n"]
)
def test_what_is_written_names_plugins_where_kube_scheduler_has_them(profiles: str) -> None:
    """It refuses a file that names one elsewhere, and one without the PreScore that a score needs."""
    shown = check_config.shown(check_config.check_text(HEAD + profiles, "c", ""))
    plugins = yaml.safe_load(shown)["profiles"][0]["plugins"]
    named = {
        point: sorted(each["name"] for each in plugins[point]["enabled"])
        for point in ("preFilter", "preScore")
    }
    assert named == {
        "preFilter": sorted(PRE_FILTERS.split()),
        "preScore": sorted(PRE_SCORES.split()),
    }
    again = check_config.check_text(shown, "c", "")
    assert [each.notes for each in again.profiles] == [()]
    assert check_config.shown(again).partition("apiVersion")[2] == shown.partition("apiVersion")[2]


def test_what_is_written_has_the_weights_of_placements() -> None:
    gates = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"
    enabled = "{placementScore: {enabled: [{name: PodGroupPodsCount, weight: 7}]}}"
    text = f"{HEAD}profiles: [{{plugins: {enabled}}}]\n"
    shown = check_config.shown(check_config.check_text(text, "c", gates))
    (profile,) = check_config.check_text(shown, "c", gates).profiles
    weights = {plugin.NAME: weight for plugin, weight in profile.framework.placement_scores}
    assert weights["PodGroupPodsCount"] == 7
