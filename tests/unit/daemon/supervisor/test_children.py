"""The table of child processes."""

from collections import UserDict
from pathlib import Path

import msgspec
import pytest

from daemon.commands.option_problems import option_problems
from daemon.supervisor.children import ChildSpec, child_specs
from daemon.supervisor.launcher import limit_threads
from daemon.supervisor.plan import flags_of
from shared.child_plan import PLAN_NAME, ChildPlan
from shared.runtime_options import EndpointOptions, LeaderElection, RuntimeOptions

OPTIONS = RuntimeOptions(
    server="http://127.0.0.1:1",
    runtime_dir="/d",
    workers=2,
    binders=3,
    seed=7,
    assume_ttl_s=2.5,
    endpoints=EndpointOptions(secure_port=0),
)


PLAN = ChildPlan(options=OPTIONS)
READERS = {"owner", "scorer-0", "scorer-1", "binder-0", "binder-1", "binder-2"}
ELECTED = ChildPlan(options=OPTIONS, election=LeaderElection(), identity="me")


def with_options(plan: ChildPlan, **changed: str) -> ChildPlan:
    return msgspec.structs.replace(plan, options=msgspec.structs.replace(plan.options, **changed))


def named(plan: ChildPlan) -> dict[str, ChildSpec]:
    return {spec.name: spec for spec in child_specs(plan, 5)}


def test_the_owner_comes_first_and_every_role_has_its_processes() -> None:
    assert list(named(PLAN)) == [
        *("owner", "adapter", "scorer-0", "scorer-1"),
        *("binder-0", "binder-1", "binder-2"),
    ]


def test_every_child_is_given_the_plan_and_who_it_is() -> None:
    specs = named(ELECTED)
    plan = str(Path("/d") / PLAN_NAME)
    for name, spec in specs.items():
        assert spec.arguments[0] == plan
        assert spec.arguments[-2:] == ("--lifeline-fd", "5")
        number = name.rpartition("-")[2]
        assert spec.arguments[1:-2] == (("--index", number) if number in "12" else ())


def test_workers_of_other_hosts_may_be_all_there_are() -> None:
    options = RuntimeOptions(runtime_dir="/d", workers=0, workers_address="tcp://127.0.0.1:7400")
    assert not any(name.startswith("scorer") for name in named(ChildPlan(options=options)))


def test_only_with_an_election_is_there_an_elector() -> None:
    assert "leader" not in named(PLAN)
    assert "leader" in named(ELECTED)


def test_the_endpoints_have_a_process_where_they_have_a_port() -> None:
    assert "endpoints" not in named(PLAN)
    options = msgspec.structs.replace(OPTIONS, endpoints=EndpointOptions())
    assert named(ChildPlan(options=options))["endpoints"].is_optional


@pytest.mark.parametrize(
    ("plan", "anew"),
    [
        (ELECTED, set()),
        (with_options(ELECTED, kubeconfig="/k"), {"adapter", "leader"}),
        (msgspec.structs.replace(ELECTED, election=LeaderElection(resource_name="l")), {"leader"}),
        (with_options(ELECTED, config="/c"), set()),
    ],
)
def test_who_reads_no_configuration_is_started_anew_where_what_it_goes_by_changes(
    plan: ChildPlan, anew: set[str]
) -> None:
    before, after = named(ELECTED), named(plan)
    changed = {name for name, spec in after.items() if spec != before[name]}
    assert changed - READERS == anew


def test_those_that_read_the_configuration_are_started_anew_by_a_reload() -> None:
    before, after = named(PLAN), named(PLAN)
    assert {name for name, spec in after.items() if spec != before[name]} == READERS


def test_variables_that_are_set_stay_where_they_are() -> None:
    """A process's title is found by where its environment begins, and whatever is set moves."""
    moved: list[str] = []

    class Environment(UserDict[str, str]):
        def __setitem__(self, name: str, value: str) -> None:
            moved.append(name)
            super().__setitem__(name, value)

    environment = Environment({"HOME": "/", "OMP_NUM_THREADS": "3"})
    moved.clear()
    limit_threads(environment)
    assert environment["OPENBLAS_NUM_THREADS"] == "1"
    assert moved == ["OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"]


def test_with_compatible_sampling_there_is_one_scorer() -> None:
    options = msgspec.structs.replace(OPTIONS, compatible_sampling=True)
    (problem,) = option_problems(options)
    assert problem.startswith("--compatible-sampling: ")
    assert option_problems(msgspec.structs.replace(options, workers=1)) == []


def test_flags_are_written_down_by_their_names() -> None:
    told = flags_of(OPTIONS)
    assert told["workers"] == "2"
    assert told["as-default-scheduler"] == "false"
    assert told["authorization-always-allow-paths"] == "[/healthz,/readyz,/livez]"
    assert told["secure-port"] == "0", "of options that belong together each by itself"
    assert "endpoints" not in told


def test_who_observes_never_has_the_lease_and_so_writes_nothing() -> None:
    for plan in (PLAN, ELECTED):
        observing = msgspec.structs.replace(
            plan, options=msgspec.structs.replace(OPTIONS, observe=True)
        )
        assert observing.is_candidate, "for ever"
        assert "leader" not in named(observing)
    assert not PLAN.is_candidate
