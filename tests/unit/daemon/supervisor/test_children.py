"""The table of child processes."""

import msgspec

from daemon.endpoints.__main__ import parse_options
from daemon.supervisor.children import child_specs
from daemon.supervisor.launcher import child_environment
from daemon.supervisor.plan import flags_of
from shared.config import LeaderElection
from shared.runtime_options import EndpointOptions, RuntimeOptions

OPTIONS = RuntimeOptions(
    server="http://127.0.0.1:1",
    runtime_dir="/d",
    workers=2,
    binders=3,
    seed=7,
    assume_ttl_s=2.5,
    endpoints=EndpointOptions(secure_port=0),
)


def test_the_owner_comes_first_and_every_role_has_its_processes() -> None:
    names = [spec.name for spec in child_specs(OPTIONS, 5)]
    assert names == [
        *("owner", "adapter", "scorer-0", "scorer-1"),
        *("binder-0", "binder-1", "binder-2"),
    ]


def test_every_child_gets_directory_lifeline_and_log_level() -> None:
    for spec in child_specs(OPTIONS, 5):
        common = ("--runtime-dir", "/d", "--lifeline-fd", "5", "--log-level", "info")
        assert spec.arguments[:6] == common


def test_only_those_that_speak_with_the_api_server_get_its_address() -> None:
    for spec in child_specs(OPTIONS, 5):
        # Scorers hand it on to nobody: they may have to ask extenders.
        speaks = spec.name != "owner"
        assert ("--server" in spec.arguments) is speaks


def test_the_kubeconfig_is_handed_on_when_there_is_no_server() -> None:
    specs = child_specs(RuntimeOptions(kubeconfig="/k", config="/c", runtime_dir="/d"), 5)
    by_name = {spec.name: spec.arguments for spec in specs}
    assert by_name["adapter"][-2:] == ("--kubeconfig", "/k")
    for name in ("owner", "scorer-0", "binder-0"):
        at = by_name[name].index("--config")
        assert by_name[name][at + 1] == "/c"


def test_the_owner_learns_the_size_of_the_pools_seed_and_ttl() -> None:
    owner = child_specs(OPTIONS, 5)[0].arguments
    assert owner[6:] == (
        *("--workers", "2", "--binders", "3"),
        *("--seed", "7", "--assume-ttl-s", "2.5", "--leftover-after-s", "300"),
    )


def test_who_must_heed_the_lease_is_told_and_only_then_is_there_an_elector() -> None:
    election = LeaderElection(leader_elect=True, lease_duration_s=4.0, resource_name="l")
    specs = {spec.name: spec for spec in child_specs(OPTIONS, 5, election, "me")}
    heeding = {name for name, spec in specs.items() if "--elect-leader" in spec.arguments}
    assert heeding == {"owner", "binder-0", "binder-1", "binder-2"}
    elector = specs["leader"].arguments
    for option, given in (
        ("--identity", "me"),
        ("--lease-duration-s", "4"),
        ("--lease-name", "l"),
        ("--server", "http://127.0.0.1:1"),
    ):
        assert elector[elector.index(option) + 1] == given
    without = child_specs(OPTIONS, 5)
    assert not any("--elect-leader" in spec.arguments for spec in without)


def test_the_endpoints_have_a_process_where_they_have_a_port() -> None:
    options = msgspec.structs.replace(OPTIONS, endpoints=EndpointOptions(client_ca_file="/ca"))
    spec = child_specs(options, 5)[-1]
    assert spec.name == "endpoints"
    assert spec.is_optional
    read = parse_options(list(spec.arguments)).options
    assert msgspec.json.decode(read, type=EndpointOptions) == options.endpoints
    nowhere = msgspec.structs.replace(options, endpoints=EndpointOptions(secure_port=0))
    assert "endpoints" not in {spec.name for spec in child_specs(nowhere, 5)}


def test_those_that_read_the_configuration_are_started_anew_by_a_reload() -> None:
    reading = {spec.name for spec in child_specs(OPTIONS, 5) if spec.reads_configuration}
    assert reading == {"owner", "scorer-0", "scorer-1", "binder-0", "binder-1", "binder-2"}


def test_children_keep_their_assertions_and_one_thread_for_arithmetic() -> None:
    environment = child_environment({"PYTHONOPTIMIZE": "1", "OMP_NUM_THREADS": "3", "A": "b"})
    assert "PYTHONOPTIMIZE" not in environment
    assert environment["OPENBLAS_NUM_THREADS"] == "1"
    assert environment["OMP_NUM_THREADS"] == "3"
    assert environment["A"] == "b"


def test_whoever_runs_plugins_learns_the_feature_gates() -> None:
    options = RuntimeOptions(runtime_dir="/d", feature_gates="A=true")
    told = [s.name for s in child_specs(options, 5) if "--feature-gates" in s.arguments]
    assert told == ["owner", "adapter", "scorer-0"], "a binder carries in-tree plugins out itself"
    assert not any("--feature-gates" in s.arguments for s in child_specs(OPTIONS, 5))


def test_only_the_scorer_knows_of_compatible_sampling_and_there_is_one() -> None:
    options = msgspec.structs.replace(OPTIONS, compatible_sampling=True)
    (problem,) = options.problems()
    assert problem.startswith("--compatible-sampling: ")
    one = msgspec.structs.replace(options, workers=1)
    assert one.problems() == []
    told = [spec.name for spec in child_specs(one, 5) if "--compatible-sampling" in spec.arguments]
    assert told == ["scorer-0"]


def test_flags_are_written_down_by_their_names() -> None:
    told = flags_of(OPTIONS)
    assert told["workers"] == "2"
    assert told["as-default-scheduler"] == "false"
    assert told["secure-port"] == "0", "of options that belong together each by itself"
    assert "endpoints" not in told
