"""Every flag of kube-scheduler v1.36 is taken, and does what it can."""

import argparse
from pathlib import Path

import pytest

from daemon import cli
from daemon.commands.check_config import check_text
from daemon.commands.option_problems import option_problems
from daemon.commands.run_berth import check_endpoints, make_plan, read_configuration
from daemon.commands.run_flags import _WITHOUT_EFFECT, add_run_flags, options_of, with_dashes
from shared import exit_codes
from shared.errors import ConfigurationError
from shared.feature_gates import parse_feature_gates
from shared.runtime_options import RuntimeOptions

KUBE_SCHEDULER = """
allow-metric-labels allow-metric-labels-manifest authentication-kubeconfig
authentication-skip-lookup authentication-token-webhook-cache-ttl
authentication-tolerate-lookup-failure authorization-always-allow-paths authorization-kubeconfig
authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl
bind-address cert-dir client-ca-file config contention-profiling disable-http2-serving
disabled-metrics emulated-version feature-gates http2-max-streams-per-connection kube-api-burst
kube-api-content-type kube-api-qps kubeconfig leader-elect leader-elect-lease-duration
leader-elect-renew-deadline leader-elect-resource-lock leader-elect-resource-name
leader-elect-resource-namespace leader-elect-retry-period log-flush-frequency
log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream
logging-format master min-compatibility-version permit-address-sharing permit-port-sharing
pod-max-in-unschedulable-pods-duration profiling requestheader-allowed-names
requestheader-client-ca-file requestheader-extra-headers-prefix requestheader-group-headers
requestheader-uid-headers requestheader-username-headers secure-port
show-hidden-metrics-for-version tls-cert-file tls-cipher-suites tls-curve-preferences
tls-min-version tls-private-key-file tls-sni-cert-key v version vmodule write-config-to
"""
"""What `kube-scheduler --help` of v1.36.2 names, without --help."""

KUBEADM = (
    "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
    "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
    "--bind-address=127.0.0.1",
    "--kubeconfig=/etc/kubernetes/scheduler.conf",
    "--leader-elect=true",
)
"""The arguments of the static pod that kubeadm writes."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(allow_abbrev=False)
    add_run_flags(made)
    return made


def read(*arguments: str) -> RuntimeOptions:
    return options_of(parser().parse_args(with_dashes(arguments)))


def test_every_flag_of_kube_scheduler_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    told = capsys.readouterr().out
    assert [flag for flag in KUBE_SCHEDULER.split() if f"--{flag}" not in told] == []


def test_the_arguments_of_kubeadms_static_pod_are_enough() -> None:
    options = read(*KUBEADM)
    assert option_problems(options) == []
    assert options.notes == ()
    _, checked = read_configuration(options)
    assert checked.configuration.leader_election.leader_elect
    assert options.endpoints.secure_port == 10259


def test_flags_set_fields_of_the_configuration(tmp_path: Path) -> None:
    given = ("--leader-elect-lease-duration", "30s", "--kube-api-qps", "50", "--kube-api-burst=100")
    _, checked = read_configuration(read(*given))
    assert checked.configuration.leader_election.lease_duration_s == 30
    assert checked.configuration.client_connection.qps == 50
    assert checked.configuration.client_connection.burst == 100


def test_with_a_file_leader_election_is_overridden_and_the_rest_is_passed_over(
    tmp_path: Path,
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "clientConnection: {qps: 7}\nleaderElection: {resourceName: mine, leaderElect: true}\n"
    )
    options = read("--config", str(path), "--leader-elect=false", "--kube-api-qps=50")
    text, checked = read_configuration(options)
    election = checked.configuration.leader_election
    assert (election.leader_elect, election.resource_name) == (False, "mine")
    assert checked.configuration.client_connection.qps == 7
    (note,) = options.notes
    assert note.startswith("--kube-api-qps: no effect")
    assert "leaderElect: false" in text, "the children read it"


def test_a_file_need_be_right_with_the_flags_alone(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    path.write_text(f"{head}leaderElection: {{leaseDuration: 5s}}\n")
    for flag in ("--leader-elect-lease-duration=15s", "--leader-elect=false"):
        read_configuration(read("--config", str(path), flag))
    with pytest.raises(ConfigurationError, match=r"line 3\): must be longer than renewDeadline"):
        read_configuration(read("--config", str(path), "--leader-elect-retry-period=1s"))
    for text in ("[]", "a: [", f"{head}leaderElection: []\n", f"{head}unknown: 1\n"):
        path.write_text(text)
        with pytest.raises(ConfigurationError, match="line") as refused:
            read_configuration(read("--config", str(path), "--leader-elect=false"))
        assert refused.value.source == str(path)


@pytest.mark.parametrize(
    ("name", "nothing"),
    [
        ("lease-duration", "0s"),
        ("lease-duration", "0"),
        ("renew-deadline", "0s"),
        ("retry-period", "0s"),
        ("resource-name", ""),
        ("resource-lock", ""),
        ("resource-namespace", ""),
    ],
)
def test_nothing_is_no_default_as_a_flag(name: str, nothing: str) -> None:
    with pytest.raises(ConfigurationError, match="must"):
        read_configuration(read(f"--leader-elect-{name}", nothing))
    read_configuration(read(f"--leader-elect-{name}", nothing, "--leader-elect=false"))


def test_what_a_flag_sets_is_checked_as_in_a_file() -> None:
    with pytest.raises(ConfigurationError, match="renewDeadline"):
        read_configuration(read("--leader-elect-renew-deadline", "20s"))
    with pytest.raises(ConfigurationError, match="write it like 15s"):
        read_configuration(read("--leader-elect-retry-period=2"))


@pytest.mark.parametrize("text", ["--leader-elect", "--leader-elect=T", "--leader_elect=1"])
def test_truths_are_written_as_go_writes_them(text: str) -> None:
    assert read(text).overrides == {"leaderElection.leaderElect": True}
    with pytest.raises(SystemExit):
        read("--leader-elect=yes")


def test_whole_numbers_and_addresses_are_written_as_go_writes_them() -> None:
    for text, number in (("0x10", 16), ("010", 8), ("0b11", 3), ("1_000", 1000), ("-5", -5)):
        assert read(f"--secure-port={text}").endpoints.secure_port == number
    for text in ("", "1.5", " 5", "08", "1e2"):
        with pytest.raises(SystemExit):
            read(f"--secure-port={text}")
    assert read("--bind-address=").endpoints.bind_address == "0.0.0.0"  # Theirs.
    assert read("--bind-address= ::1 ").endpoints.bind_address == "::1"


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("--workers=many", "'many' is not a whole number"),
        ("--leader-elect=maybe", "'maybe' is neither true nor false"),
        ("--pod-max-in-unschedulable-pods-duration=5", "write it like 15s"),
    ],
)
def test_what_is_wrong_with_a_value_is_told(
    argument: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        read(argument)
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ([], ("/healthz", "/readyz", "/livez")),
        (["/a", "/b,/c"], ("/a", "/b", "/c")),
        (['"/a","/b,c"'], ("/a", "/b,c")),
        (["", "/healthz"], ("/healthz",)),
        (["/a,"], ("/a", "")),
    ],
)
def test_lists_add_up_and_take_the_place_of_the_default(
    given: list[str], paths: tuple[str, ...]
) -> None:
    options = read(*(f"--authorization-always-allow-paths={each}" for each in given))
    assert options.endpoints.authorization_always_allow_paths == paths
    assert option_problems(options) == []


@pytest.mark.parametrize(
    "flag",
    [
        "--tls-cipher-suites=foo",
        "--tls-cipher-suites=HIGH",
        "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,",
        "--tls-cipher-suites=tls_aes_128_gcm_sha256",
        "--authorization-always-allow-paths=*/x",
        "--authorization-always-allow-paths=/a,/b**",
    ],
)
def test_entries_of_lists_that_kube_scheduler_refuses_are_refused(flag: str) -> None:
    name = flag.partition("=")[0]
    (problem,) = option_problems(read(flag))
    assert problem.startswith(name)
    assert option_problems(read(flag, "--secure-port=0")) == [], "nothing is served"


def test_a_list_is_csv() -> None:
    for text in ('a"b', '"a"b', '"a', "a\nb"):
        with pytest.raises(SystemExit):
            read(f"--tls-cipher-suites={text}")


def test_ciphers_that_openssl_lacks_are_named_and_the_others_spoken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lacking = "TLS_RSA_WITH_RC4_128_SHA"
    options = read(f"--tls-cipher-suites={lacking},TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    assert option_problems(options) == []
    check_endpoints(options.endpoints)
    (line,) = caplog.records
    assert lacking in getattr(line, "berth_fields")["note"]  # noqa: B009 # Set by the log.


def test_a_pod_may_be_left_alone_for_as_long_as_one_likes() -> None:
    flag = "--pod-max-in-unschedulable-pods-duration"
    assert option_problems(read(f"{flag}=720h")) == []
    assert option_problems(read(f"{flag}=-1s")) == []  # As 0: at each look.


def test_what_has_no_effect_is_named_with_its_reason_unless_it_asks_for_what_is() -> None:
    assert read("--profiling=false", "--disable-http2-serving").notes == ()
    (note,) = read("--profiling", "true").notes
    assert "profiled from outside" in note


def test_verbosity_is_a_level_of_the_log() -> None:
    assert [read(*given).log_level for given in (["-v=2"], ["--v", "4"], ["-v", "10"])] == [
        *("info", "debug", "debug")
    ]
    assert read("-v=9", "--log-level=error").log_level == "error"


def test_the_name_default_scheduler_is_shared_by_turns() -> None:
    plan = make_plan(read("--server", "http://a"))
    assert plan.children.election is not None
    assert plan.children.election.resource_name == "kube-scheduler"
    for alone in (["--leader-elect=false"], ["--leader-elect-resource-name=mine"]):
        with pytest.raises(ConfigurationError, match="without kube-scheduler's lease"):
            make_plan(read("--server", "http://a", *alone))


def test_the_configuration_is_written_and_means_the_same_when_read(tmp_path: Path) -> None:
    path = tmp_path / "written.yaml"
    arguments = ["run", "--leader-elect-resource-name=mine", "--write-config-to", str(path)]
    assert cli.main(arguments) == exit_codes.OK
    _, checked = read_configuration(read("--config", str(path)))
    assert checked.configuration.leader_election.resource_name == "mine"
    nowhere = str(tmp_path / "no" / "folder")
    assert cli.main(["run", "--write-config-to", nowhere]) == exit_codes.UNUSABLE


def test_an_unknown_flag_is_refused_with_the_commands_own_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "--leader-elec=true"])
    assert ended.value.code == exit_codes.UNUSABLE
    told = capsys.readouterr().err
    assert told.startswith("usage: berth run")
    assert "--leader-elec" in told


def test_the_guide_names_every_flag_without_effect() -> None:
    guide = (Path(__file__).parents[4] / "docs" / "migrate.md").read_text(encoding="utf-8")
    assert [flag.name for flag in _WITHOUT_EFFECT if f"`{flag.name}`" not in guide] == []


def test_the_guide_names_every_field_without_effect() -> None:
    guide = (Path(__file__).parents[4] / "docs" / "migrate.md").read_text(encoding="utf-8")
    section = guide.partition("## Fields of the configuration")[2].partition("\n## ")[0]
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
enableProfiling: true
enableContentionProfiling: true
delayCacheUntilActive: true
clientConnection: {contentType: application/vnd.kubernetes.protobuf, acceptContentTypes: text/plain}
profiles:
- plugins: {preScore: {disabled: [{name: NodeAffinity}]}}
"""
    checked = check_text(text, "config", "")
    notes = [*checked.configuration.notes, *checked.profiles[0].notes]
    assert len(notes) == 6
    for note in notes:
        field, _, reason = note.partition(": no effect")
        assert f"`{field}`" in section, note
        assert reason.strip("; ") in section, note


def test_empty_arguments_are_passed_over(tmp_path: Path) -> None:
    written = tmp_path / "written"
    assert cli.main(["run", "", "--write-config-to", str(written), ""]) == exit_codes.OK


@pytest.mark.parametrize("text", ["kube:GenericWorkload=true", " kube: GenericWorkload = true ,"])
def test_gates_are_written_as_kube_scheduler_reads_them(text: str) -> None:
    assert parse_feature_gates(text)["GenericWorkload"]
