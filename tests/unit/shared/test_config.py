"""KubeSchedulerConfiguration files and the options of `berth run`."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from daemon.commands.option_problems import option_problems
from shared.config import (
    SchedulerConfiguration,
    load_configuration,
    overridden,
    parse_configuration,
)
from shared.errors import ConfigurationError
from shared.framework.runtime.profiles import PluginSet
from shared.limits import CONFIG_BYTES_MAX
from shared.plugin_names import TAKE_ARGUMENTS, TAKE_NONE
from shared.plugins.in_tree import IN_TREE
from shared.runtime_options import EndpointOptions, RuntimeOptions

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def parse(body: str) -> SchedulerConfiguration:
    return parse_configuration(HEAD + dedent(body), "file")


def problems_of(body: str, head: str = HEAD) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        parse_configuration(head + dedent(body), "file")
    return caught.value.problems


def test_without_a_file_the_defaults_are_kube_schedulers() -> None:
    configuration = load_configuration("")
    assert configuration == parse("")
    assert [p.scheduler_name for p in configuration.profiles] == ["default-scheduler"]
    assert (configuration.pod_initial_backoff_s, configuration.pod_max_backoff_s) == (1.0, 10.0)
    assert configuration.parallelism == 16


def test_a_whole_file_is_understood() -> None:
    configuration = parse(
        """
        parallelism: 4
        podInitialBackoffSeconds: 2
        podMaxBackoffSeconds: 20
        percentageOfNodesToScore: 30
        clientConnection: {kubeconfig: /etc/kubeconfig}
        profiles:
        - schedulerName: a
          percentageOfNodesToScore: 50
          plugins:
            multiPoint:
              enabled: [{name: ImageLocality, weight: 3}]
            score:
              enabled: [{name: NodeResourcesFit, weight: 2}, {name: Mine}]
              disabled: [{name: "*"}]
          pluginConfig:
          - name: NodeResourcesFit
            args:
              apiVersion: kubescheduler.config.k8s.io/v1
              kind: NodeResourcesFitArgs
              scoringStrategy: {type: MostAllocated}
        - schedulerName: b
        """
    )
    first, second = configuration.profiles
    assert (configuration.pod_initial_backoff_s, configuration.pod_max_backoff_s) == (2.0, 20.0)
    assert configuration.parallelism == 4
    assert configuration.client_connection.kubeconfig == "/etc/kubeconfig"
    assert first.plugins == {
        "multiPoint": PluginSet(enabled=[("ImageLocality", 3)]),
        "score": PluginSet(enabled=[("NodeResourcesFit", 2), ("Mine", 0)], disabled=["*"]),
    }
    assert first.plugin_config == {
        "NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated"}}
    }
    assert first.percentage_of_nodes_to_score == 50
    assert (second.scheduler_name, second.percentage_of_nodes_to_score) == ("b", 30)


def test_all_problems_are_told_at_once_with_path_and_line() -> None:
    found = problems_of(
        """\
        parallelism: "16"
        percentageOfNodesToScore: 101
        nonsense: 1
        profiles:
        - plugins:
            score:
              enabled: [{name: X, wieght: 3}]
        """
    )
    assert len(found) == 4
    assert any(one.startswith("parallelism (line 3): '16' must be a whole number") for one in found)
    assert any(one.startswith("percentageOfNodesToScore (line 4): 101") for one in found)
    assert any(one.startswith("nonsense (line 5): unknown field") for one in found)
    place = "profiles[0].plugins.score.enabled[0].wieght (line 9): unknown field"
    assert any(one.startswith(place) for one in found)


@pytest.mark.parametrize(
    ("body", "place", "told"),
    [
        ("podInitialBackoffSeconds: 0", "podInitialBackoffSeconds", "must lie in 1.."),
        ("podInitialBackoffSeconds: 11", "podMaxBackoffSeconds", "less than"),
        ("percentageOfNodesToScore: -1", "percentageOfNodesToScore", "must lie in 0..100"),
        ("parallelism: true", "parallelism", "whole number"),
        ("extenders: [{urlPrefix: x}]", "extenders[0].urlPrefix", "must be like http"),
        ("extenders: 3", "extenders", "must be a list"),
        ("clientConnection: [1]", "clientConnection", "must be a mapping"),
        ("clientConnection: {burst: -1}", "clientConnection.burst", "must lie in"),
        ("clientConnection: {qps: .nan}", "clientConnection.qps", "must be a number"),
        (f"clientConnection: {{qps: 1{400 * '0'}}}", "clientConnection.qps", "must be a number"),
        ("leaderElection: {leaderElect: 'yes'}", "leaderElection.leaderElect", "true or false"),
        ("leaderElection: {leaseDuration: soon}", "leaderElection.leaseDuration", "a duration"),
        ("leaderElection: {retryPeriod: -1s}", "leaderElection.retryPeriod", "longer than zero"),
        (
            "leaderElection: {leaderElect: true, leaseDuration: 5s}",
            "leaderElection.leaseDuration",
            "longer than renewDeadline",
        ),
        (
            "leaderElection: {leaderElect: true, renewDeadline: 2s}",
            "leaderElection.renewDeadline",
            "1.2 times retryPeriod",
        ),
        (
            "leaderElection: {leaderElect: true, resourceName: A_b}",
            "leaderElection.resourceName",
            "no name",
        ),
        (
            "leaderElection: {leaderElect: true, resourceLock: endpoints}",
            "leaderElection.resourceLock",
            "must be leases",
        ),
        ("profiles: [{}, {schedulerName: a}]", "profiles[0].schedulerName", "is missing"),
        (
            "profiles: [{schedulerName: a}, {schedulerName: a}]",
            "profiles[1]",
            "also that of profiles[0]",
        ),
        (
            "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {queueSort: {enabled:"
            " [{name: Mine}]}}}]",
            "profiles[1]",
            "must be the same in all profiles",
        ),
        (
            "profiles: [{plugins: {queueSort: {enabled: [{name: A}, {name: B}]}}}]",
            "profiles[0].plugins.queueSort",
            "only one",
        ),
        (
            "profiles: [{plugins: {filter: {enabled: [{weight: 1}]}}}]",
            "profiles[0].plugins.filter.enabled[0].name",
            "is missing",
        ),
        (
            "profiles: [{plugins: {score: {enabled: [{name: A, weight: -1}]}}}]",
            "profiles[0].plugins.score.enabled[0].weight",
            "must lie in 0..",
        ),
        (
            "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]",
            "profiles[0].plugins.filter.enabled[0].name",
            "was removed",
        ),
        (
            "profiles: [{pluginConfig: [{name: A}, {name: A}]}]",
            "profiles[0].pluginConfig[1]",
            "configured twice",
        ),
        (
            "profiles: [{pluginConfig: [{name: VolumeBinding, args: {kind: BArgs}}]}]",
            "profiles[0].pluginConfig[0].args",
            "must be VolumeBindingArgs",
        ),
        (
            "profiles: [{pluginConfig: [{name: A, args: 3}]}]",
            "profiles[0].pluginConfig[0].args",
            "must be a mapping",
        ),
        (
            "profiles: [{pluginConfig: [{name: VolumeBinding, args: {apiVersion: v1}}]}]",
            "profiles[0].pluginConfig[0].args",
            "apiVersion 'v1' must be",
        ),
        ("clientConnection: {qps: 1.0e+40}", "clientConnection.qps", "must be a number"),
        ("parallelism: 3\nparallelism: 4", "parallelism", "stands twice"),
        ("a: &x [*x]", "document", "an alias of itself"),
    ],
)
def test_a_problem_names_its_place(body: str, place: str, told: str) -> None:
    found = problems_of(body)
    assert any(one.startswith(place) and told in one for one in found), found


@pytest.mark.parametrize(
    "body",
    [
        f"podMaxBackoffSeconds: {2**63 - 1}",
        "profiles: [{plugins: {filter: {enabled: [{name: A, weight: -1}]}}}]",
        "profiles: [{plugins: {score: {disabled: [{name: A, weight: -1}]}}}]",
        "leaderElection: {leaderElect: false, retryPeriod: -1s}",
        "profiles: [{pluginConfig: [{name: A, args: {apiVersion: a/v1, kind: B}}]}]",
        "extenders: [{urlPrefix: 'http://a', prioritizeVerb: p, weight: 9999999999}]",
        "extenders: [{managedResources: [{name: x.io/a, ignoredByScheduler: true}]}]",
    ],
)
def test_what_kube_scheduler_takes_is_taken(body: str) -> None:
    parse(body)


def test_a_document_may_begin_as_json_and_be_none_and_null_is_the_default() -> None:
    head = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration"
    text = f"{head}, parallelism: 16.0, leaderElection: {{retryPeriod: null}}}}"
    assert parse_configuration(text, "here") == SchedulerConfiguration()


def test_a_plugin_that_was_removed_may_be_disabled() -> None:
    profiles = parse(
        "profiles: [{plugins: {multiPoint: {disabled: [{name: EBSLimits}]}}}]"
    ).profiles
    assert profiles[0].plugins["multiPoint"].disabled == ["EBSLimits"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("[", "is not YAML"),
        ("- 1", "must be a mapping"),
        ("apiVersion: kubescheduler.config.k8s.io/v1beta3", "must be kubescheduler"),
    ],
)
def test_another_kind_of_file_is_refused(text: str, told: str) -> None:
    assert any(told in one for one in problems_of("", head=text))


def test_arguments_that_refer_to_themselves_are_a_problem_not_an_endless_loop() -> None:
    found = problems_of("profiles: [{pluginConfig: [{name: A, args: &x {b: *x}}]}]")
    assert any("an alias of itself" in one for one in found)


def test_settings_without_effect_are_accepted_and_named() -> None:
    configuration = parse(
        """
        clientConnection: {qps: 50, burst: 100, contentType: application/vnd.kubernetes.protobuf}
        enableProfiling: true
        """
    )
    notes = "\n".join(configuration.notes)
    for setting in ("contentType", "enableProfiling"):
        assert setting in notes


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere.yaml.*cannot be read"):
        load_configuration(str(tmp_path / "nowhere.yaml"))
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        load_configuration(str(binary))
    large = tmp_path / "large"
    large.write_bytes(b"#" * (CONFIG_BYTES_MAX + 1))
    with pytest.raises(ConfigurationError, match="larger than"):
        load_configuration(str(large))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (RuntimeOptions(endpoints=EndpointOptions(bind_address="here")), "--bind-address here"),
        (RuntimeOptions(endpoints=EndpointOptions(tls_min_version="1.2")), "VersionTLS12"),
        (RuntimeOptions(server="a:80"), "http://"),
        (RuntimeOptions(workers=0), "--workers 0"),
        (RuntimeOptions(binders=1000), "--binders 1000"),
        (RuntimeOptions(max_in_flight=0), "--max-in-flight"),
        (RuntimeOptions(seed=-1), "--seed"),
        (RuntimeOptions(assume_ttl_s=float("nan")), "--assume-ttl-s"),
        (RuntimeOptions(drain_s=-1.0), "--drain-s"),
        (RuntimeOptions(log_level="loud"), "--log-level"),
    ],
)
def test_options_that_cannot_work_are_named(options: RuntimeOptions, told: str) -> None:
    found = option_problems(options)
    assert len(found) == 1
    assert told in found[0]


def test_the_default_options_are_fine() -> None:
    assert option_problems(RuntimeOptions()) == []


def test_a_file_is_read_as_go_reads_yaml() -> None:
    configuration = parse(
        """
        parallelism: 1e1
        podMaxBackoffSeconds: 20.0
        profiles:
        - schedulerName: a
          plugins: &some
            score: {disabled: [{name: ImageLocality}]}
        - schedulerName: b
          plugins: {<<: *some}
        ---
        - what follows is another document
        """
    )
    assert (configuration.parallelism, configuration.pod_max_backoff_s) == (10, 20.0)
    a, b = configuration.profiles
    assert a.plugins == b.plugins == {"score": PluginSet(disabled=["ImageLocality"])}


def test_an_argument_stands_once() -> None:
    body = """
        profiles:
        - pluginConfig:
          - {name: InterPodAffinity, args: {hardPodAffinityWeight: 1, hardPodAffinityWeight: 2}}
        """
    (problem,) = problems_of(body)
    assert "stands twice" in problem


def test_empty_names_of_the_lease_are_the_default() -> None:
    stated = parse("leaderElection: {resourceName: '', resourceNamespace: '', resourceLock: ''}\n")
    assert stated.leader_election == parse("").leader_election


def test_the_command_line_changes_what_go_reads() -> None:
    text = overridden(HEAD + "parallelism: 1e1\n---\n[]\n", {"leaderElection.leaderElect": False})
    configuration = parse_configuration(text, "file")
    assert configuration.parallelism == 10
    assert not configuration.leader_election.leader_elect


def test_the_command_line_leaves_text_text() -> None:
    text = overridden(
        HEAD + 'profiles: [{schedulerName: "1e1"}]\nleaderElection: {resourceName: "y"}\n',
        {"leaderElection.leaderElect": True},
    )
    configuration = parse_configuration(text, "command line")
    assert configuration.profiles[0].scheduler_name == "1e1"
    assert configuration.leader_election.resource_name == "y"


def config_of(plugin: str, args: str) -> dict[str, Any]:
    text = f"{HEAD}profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]\n"
    return parse_configuration(text, "c").profiles[0].plugin_config[plugin]


def test_what_arguments_of_others_are_they_know() -> None:
    assert config_of("Foo", "{kind: hard}") == {"kind": "hard"}
    assert config_of("Foo", "{apiVersion: foo.io/v1, kind: Args, a: 1}") == {"a": 1}
    assert config_of("Foo", "{kind: FooArgs, a: 1}") == {"a": 1}
    for nothing in ("text", "[1]", "3"):
        assert config_of("NodeName", nothing) == {}


def test_each_in_tree_plugin_takes_arguments_or_none() -> None:
    assert IN_TREE.keys() == TAKE_ARGUMENTS | TAKE_NONE
    assert not TAKE_ARGUMENTS & TAKE_NONE


def test_there_is_one_queue_with_one_set_of_arguments() -> None:
    profile = "{schedulerName: %s, pluginConfig: [{name: PrioritySort, args: {a: %d}}]}"
    (told,) = problems_of(f"profiles: [{profile % ('a', 1)}, {profile % ('b', 2)}]\n")
    assert told.startswith("profiles[1]")
    text = f"{HEAD}profiles: [{profile % ('a', 1)}, {profile % ('b', 1)}]\n"
    assert len(parse_configuration(text, "c").profiles) == 2
