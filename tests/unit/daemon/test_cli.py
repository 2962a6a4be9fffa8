"""The command line: what it refuses, with which exit code, and what check-config prints."""

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from daemon import cli
from daemon.adapter.api_source import watched_kinds
from daemon.commands.check_config import check, effective_yaml
from daemon.commands.run_berth import (
    check_endpoints,
    check_recording,
    make_plan,
    with_configuration,
)
from shared import exit_codes
from shared.config import load_configuration, parse_configuration
from shared.errors import ConfigurationError
from shared.framework.cluster_event import Action
from shared.framework.cluster_view import ClusterView
from shared.framework.out_of_tree import ENTRY_POINT_GROUP
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import ClusterEventWithHint
from shared.framework.runtime.profiles import DEFAULT_SCHEDULER_NAME, is_named, runs_anyway
from shared.framework.status import Status
from shared.runtime_options import EndpointOptions, RuntimeOptions

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

CUSTOM = (
    HEAD
    + """\
parallelism: 3
percentageOfNodesToScore: 40
profiles:
- schedulerName: packing
  plugins:
    score:
      disabled: [{name: ImageLocality}]
      enabled: [{name: NodeResourcesFit, weight: 7}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
- schedulerName: default-scheduler
"""
)


@pytest.fixture
def custom(tmp_path: Path) -> str:
    path = tmp_path / "custom.yaml"
    path.write_text(CUSTOM)
    return str(path)


def test_every_command_is_listed_with_its_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    for command in (
        *("run", "demo", "simulate", "status", "check-config"),
        *("conformance", "dump", "compare", "version", "test"),
    ):
        assert f"\n    {command}" in told


@pytest.mark.parametrize("command", ["explain", "run", "check-config", "fuzz"])
def test_what_is_no_text_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, os.fsdecode(b"default/\xff")]) == exit_codes.UNUSABLE
    told = capsys.readouterr().err
    assert told == "berth: the command line cannot be used:\nberth:   default/\\xff is not UTF-8\n"


def test_a_command_is_needed() -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == exit_codes.UNUSABLE


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--workers", "0"], "--workers 0"),
        (["--server", "http://a", "--config", "/nowhere.yaml"], "/nowhere.yaml cannot be used"),
        (["--server", "http://a", "--leader-elect=false"], "say --as-default-scheduler"),
        (["--secure-port", "70000"], "--secure-port 70000"),
        (["--secure-port", "1", "--bind-address", "here"], "--bind-address here"),
        (["--secure-port", "1", "--tls-cert-file", "c"], "give both or none"),
    ],
)
def test_run_refuses_what_cannot_work_before_it_starts_anything(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    runtime_dir = tmp_path / "run"
    code = cli.main(["run", "--runtime-dir", str(runtime_dir), *options])
    assert code == exit_codes.UNUSABLE
    assert told in capsys.readouterr().err
    assert not runtime_dir.exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--kubeconfig", "/nowhere"],
        ["--server", "http://a", "--authorization-kubeconfig", "/nowhere"],
        [
            *("--server", "http://a", "--workers-address", "tcp://127.0.0.1:1"),
            *("--workers-key-file", "/nowhere", "--workers-allowed-file", "/nowhere"),
        ],
    ],
)
def test_a_file_that_others_write_and_that_is_not_there_yet_is_worth_another_try(
    options: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """By the service manager, which leaves alone what cannot be used (`RestartPreventExitStatus`)."""
    where = ["--runtime-dir", str(tmp_path / "run"), "--as-default-scheduler"]
    assert cli.main(["run", *where, *options]) == exit_codes.FAILED
    assert "/nowhere" in capsys.readouterr().err


def test_the_name_default_scheduler_is_kube_schedulers_unless_told_otherwise(custom: str) -> None:
    alone = {"leaderElection.leaderElect": False}
    server = RuntimeOptions(server="http://a", config=custom, overrides=alone)
    with pytest.raises(ConfigurationError, match="kube-scheduler's"):
        make_plan(server)
    allowed = msgspec.structs.replace(server, as_default_scheduler=True)
    plan = make_plan(allowed)
    assert plan.config_text.startswith(HEAD)
    profiles = msgspec.json.decode(plan.configz)["componentconfig"]["profiles"]
    assert [profile["schedulerName"] for profile in profiles] == ["packing", "default-scheduler"]


def test_a_name_of_its_own_needs_no_permission(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        HEAD + "profiles: [{schedulerName: berth}]\nleaderElection: {leaderElect: true}\n"
    )
    plan = make_plan(RuntimeOptions(server="http://a", config=str(path)))
    assert plan.children.election is not None
    overridden = RuntimeOptions(
        server="http://a", config=str(path), overrides={"leaderElection.leaderElect": False}
    )
    assert make_plan(overridden).children.election is None


class Listens:
    """A plugin that wants to hear of what it is told to."""

    NAME: ClassVar[str] = "Listens"

    def __init__(self, given: dict[str, str]) -> None:
        self._resource = given["resource"]

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(self._resource, (Action.ADD,))]

    def pre_enqueue(self, pod: PodInfo, cluster: ClusterView) -> Status:
        raise AssertionError("nothing is scheduled")


def listening(path: Path, resource: str, monkeypatch: pytest.MonkeyPatch) -> RuntimeOptions:
    point = metadata.EntryPoint("Listens", f"{__name__}:Listens", ENTRY_POINT_GROUP)
    monkeypatch.setattr(metadata, "entry_points", lambda **_: [point])
    path.write_text(
        f"{HEAD}profiles:\n- schedulerName: berth\n"
        "  plugins: {multiPoint: {enabled: [name: Listens]}}\n"
        f"  pluginConfig: [{{name: Listens, args: {{resource: '{resource}'}}}}]\n"
    )
    return RuntimeOptions(server="http://a", config=str(path))


def test_an_extenders_certificates_are_looked_at_before_anything_is_started(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: mine}]\n"
        "extenders: [{urlPrefix: 'https://e', filterVerb: f, tlsConfig: {caFile: /nowhere}}]\n"
    )
    with pytest.raises(ConfigurationError, match="extender https://e: tlsConfig"):
        make_plan(RuntimeOptions(server="http://a", config=str(path)))


def test_resources_that_plugins_name_are_in_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = listening(tmp_path / "own.yaml", "foos.v1.example.com", monkeypatch)
    plan = make_plan(options)
    assert plan.children.options.custom_kinds == ("foos.v1.example.com",)
    assert watched_kinds(plan.children.options)[-1].api_path == "/apis/example.com/v1"


def test_a_resource_that_cannot_be_is_refused_with_its_place_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own.yaml"
    listening(path, "foos.v1", monkeypatch)
    assert cli.main(["check-config", str(path)]) == exit_codes.UNUSABLE
    told = capsys.readouterr().err
    assert "plugin Listens: events_to_register" in told
    assert "'foos.v1' is no resource; name a member of Resource, or plural.version.group" in told


def test_files_of_the_endpoints_are_checked_before_anything_starts(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    for options in (
        EndpointOptions(endpoints_token_file=str(empty)),
        EndpointOptions(endpoints_token_file="/nowhere"),
        EndpointOptions(tls_cert_file=str(empty), tls_private_key_file=str(empty)),
        EndpointOptions(client_ca_file=str(empty)),
        EndpointOptions(authentication_kubeconfig="/nowhere"),
    ):
        with pytest.raises(ConfigurationError):
            check_endpoints(options)


def test_a_recording_that_cannot_be_kept_is_told_before_anything_starts(tmp_path: Path) -> None:
    check_recording(str(tmp_path / "new" / "day"))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="--record"):
        check_recording(str(tmp_path / "file" / "day"))


def test_status_and_dump_say_when_nothing_is_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("status", "dump", "compare"):
        assert cli.main([command, "--runtime-dir", str(tmp_path)]) == exit_codes.NOT_RUNNING
        assert "no berth is running" in capsys.readouterr().err


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["version"]) == exit_codes.OK
    assert capsys.readouterr().out.startswith("berth 0.")


@pytest.mark.parametrize("flag", ["--version", "--version=true", "--version=raw", "--version=1"])
def test_the_version_is_asked_for_as_of_kube_scheduler(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in ([flag], ["run", flag]):
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        assert ended.value.code == exit_codes.OK
        assert capsys.readouterr().out.startswith("berth 0.")


def test_a_version_that_is_not_asked_for_is_not_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "c.yaml"
    arguments = ["run", "--version=false", "--write-config-to", str(written)]
    assert cli.main(arguments) == exit_codes.OK
    assert written.exists()
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "--version=v1.35.0"])
    assert ended.value.code == exit_codes.UNUSABLE
    assert "neither true nor false nor raw" in capsys.readouterr().err


def test_an_installation_without_bench_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(importlib, "import_module", missing)
    assert cli.main(["demo"]) == exit_codes.UNUSABLE
    assert "not part of this installation" in capsys.readouterr().err


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(_: str) -> Any:
        raise ModuleNotFoundError("No module named 'rich'", name="rich")

    monkeypatch.setattr(importlib, "import_module", missing)
    assert cli.main(["demo"]) == exit_codes.UNUSABLE
    assert "needs rich" in capsys.readouterr().err


def test_the_commands_of_bench_get_their_own_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    class Module:
        @staticmethod
        def main(arguments: Sequence[str]) -> int:
            given.extend(arguments)
            return 7

    monkeypatch.setattr(importlib, "import_module", lambda _: Module)
    assert cli.main(["simulate", "--port", "1", "--help"]) == 7
    assert given == ["--port", "1", "--help"]


def test_every_bench_command_can_be_imported_and_has_a_main() -> None:
    for name in cli.BENCH_COMMANDS:
        module, _ = cli.OTHER_COMMANDS[name]
        assert callable(importlib.import_module(module).main)


# check-config -------------------------------------------------------------------------------------


def test_what_check_config_prints_means_the_same_as_what_it_read(
    custom: str, tmp_path: Path
) -> None:
    printed = tmp_path / "printed.yaml"
    printed.write_text(effective_yaml(custom))
    stated, read, _ = check(custom)
    stated_again, again, _ = check(str(printed))

    def percentages(configuration: Any) -> Any:
        return [each.percentage_of_nodes_to_score for each in configuration.profiles]

    def plugins(built: Any) -> Any:
        return [
            (
                one.scheduler_name,
                {
                    # Some that run anyway are not to be named.
                    point: [
                        plugin.NAME
                        for plugin in (*at, *runs_anyway(point, one.plugins_at))
                        if is_named(plugin, point)
                    ]
                    for point, at in one.plugins_at.items()
                },
                [(entry.plugin.NAME, entry.weight) for entry in one.framework.scores],
            )
            for one in built
        ]

    assert plugins(again) == plugins(read)
    assert percentages(stated_again) == percentages(stated) != [None] * len(read)


def test_check_config_shows_weights_and_arguments(custom: str) -> None:
    text = effective_yaml(custom)
    assert "- name: NodeResourcesFit\n        weight: 7\n" in text
    assert "type: MostAllocated" in text
    assert "percentageOfNodesToScore: 40" in text
    assert "ImageLocality" not in text.partition("default-scheduler\n")[0].rpartition("packing")[2]


def test_check_config_shows_extenders(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "extenders: [{urlPrefix: 'http://h:1', filterVerb: f, managedResources:"
        " [{name: x.io/a, ignoredByScheduler: true}]}]\n"
    )
    shown = effective_yaml(str(config))
    again = tmp_path / "again.yaml"
    again.write_text(shown)
    before, after = load_configuration(str(config)), load_configuration(str(again))
    assert after.extenders == before.extenders
    assert after.extenders[0].filter_verb == "f"
    assert effective_yaml(str(again)) == shown


def test_check_config_names_all_problems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(HEAD + "profiles: [{plugins: {score: {enabled: [{name: Nobody}]}}}]\n")
    assert cli.main(["check-config", str(bad)]) == exit_codes.UNUSABLE
    told = capsys.readouterr().err
    assert "there is no plugin Nobody" in told
    bad.write_text(HEAD + "nonsense: 1\nparallelism: 0\n")
    assert cli.main(["check-config", str(bad)]) == exit_codes.UNUSABLE
    told = capsys.readouterr().err
    assert "nonsense (line 3)" in told
    assert "parallelism (line 4)" in told


def test_problems_of_plugins_have_their_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(
        HEAD
        + """\
profiles:
- schedulerName: a
  plugins:
    score:
      enabled:
      - name: NodeResourcesFit
      - name: Nobody
- schedulerName: b
  pluginConfig:
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 1}
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: Foo
"""
    )
    assert cli.main(["check-config", str(bad)]) == exit_codes.UNUSABLE
    told = capsys.readouterr().err
    assert "profile a: plugins.score.enabled[Nobody] (line 9): there is no plugin Nobody" in told
    place = "profile b: pluginConfig[NodeResourcesFit].args: scoringStrategy.type (line 17): "
    assert f"{place}'Foo' is not one of" in told


def test_check_config_without_a_file_shows_the_defaults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["check-config", "-"]) == exit_codes.OK
    assert f"schedulerName: {DEFAULT_SCHEDULER_NAME}" in capsys.readouterr().out


def test_the_configuration_completes_the_options() -> None:
    configuration = parse_configuration(
        HEAD + "parallelism: 2\nclientConnection: {kubeconfig: /k}\n", "file"
    )
    completed = with_configuration(RuntimeOptions(workers=8), configuration)
    assert (completed.kubeconfig, completed.workers) == ("/k", 2)
    named = with_configuration(RuntimeOptions(kubeconfig="/own"), configuration)
    assert named.kubeconfig == "/own"
    by_server = with_configuration(RuntimeOptions(server="http://a"), configuration)
    assert by_server.kubeconfig == ""


def test_a_reader_who_stops_early_ends_the_command_without_a_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        program = "import sys; from daemon.cli import main; sys.exit(main(['check-config', '-']))"
        command = [sys.executable, "-c", program]
        ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    assert ended.returncode == -signal.SIGPIPE
    assert ended.stderr == b""


@pytest.mark.parametrize(
    ("fields", "is_elected"),
    [
        ("leaderElection: {resourceName: mine}\nprofiles: [{schedulerName: mine}]", True),
        ("leaderElection: {leaderElect: null}", True),
        ("leaderElection: {leaderElect: false}", False),
    ],
)
def test_a_leader_is_elected_unless_it_is_switched_off(
    fields: str, is_elected: bool, tmp_path: Path
) -> None:
    path = tmp_path / "berth.yaml"
    path.write_text(HEAD + fields)
    options = RuntimeOptions(server="http://a", config=str(path), as_default_scheduler=True)
    assert (make_plan(options).children.election is not None) == is_elected


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("profiles: [{schedulerName: mine}]", "the lease is kube-scheduler's"),
        ("enableProfiling: true", "enableProfiling: no effect"),
        (
            "profiles: [{pluginConfig: [{name: Nope}]}]",
            "profile default-scheduler: pluginConfig: Nope: no effect",
        ),
        ("leaderElection: {resourceName: a}\nprofiles: [{schedulerName: mine}]", ""),
    ],
)
def test_what_may_not_be_meant_so_is_told_at_the_start_as_by_check_config(
    fields: str, told: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "berth.yaml"
    path.write_text(HEAD + fields)
    make_plan(RuntimeOptions(server="http://a", config=str(path)))
    logged = [vars(each)["berth_fields"]["note"] for each in caplog.records]
    assert len(logged) == bool(told)
    assert all(note.startswith(told) for note in logged)
    assert f"# {told}" in effective_yaml(str(path))
