"""The health checks: their names, who of them counts, and the words."""

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from daemon.endpoints.access import HEALTH_PATHS
from daemon.endpoints.health import Check, Facts, all_checks_answer, checks_for, one_check_answer
from shared.messages.admin import StatusAnswer

WELL = Facts(
    state="running",
    owner_problem="",
    status=StatusAnswer(synced=True, scorers_ready=1, binders_ready=1),
    lease_lapsed_s=None,
    adapter_silent_s=1.5,
    api_word_age_s=0.25,
    api_problem="",
)


def but(**change: Any) -> Facts:
    """All is well but for this."""
    told = {name: change.pop(name) for name in [*change] if name in StatusAnswer.__struct_fields__}
    return WELL._replace(status=replace(WELL.status, **told), **change)


def failed(facts: Facts, path: str = "/readyz") -> list[str]:
    return [check.name for check in checks_for(path, facts) if check.problem]


def test_a_berth_that_is_well_is_ready() -> None:
    assert failed(WELL) == []
    assert all_checks_answer("/readyz", checks_for("/readyz", WELL), (), is_verbose=False) == (
        200,
        "ok",
    )


def test_it_lives_whatever_the_others_do() -> None:
    ill = but(owner_problem="no answer", synced=False, state="stopping")
    assert failed(ill, "/livez") == []


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"synced": False}, ["sched-handler-sync", "informer-sync"]),
        ({"state": "draining"}, ["shutdown"]),
        ({"scorers_ready": 0}, ["scorers"]),
        ({"binders_ready": 0}, ["binders"]),
        ({"adapter_silent_s": 11.0}, ["api-server"]),
        ({"api_word_age_s": 661.0}, ["api-server"]),
        ({"api_word_age_s": inf}, ["api-server"]),
        ({"api_problem": "list nodes: 401"}, ["api-server"]),
        ({"lease_lapsed_s": 21.0}, ["leaderElection"]),
        (
            {"owner_problem": "no answer"},
            ["sched-handler-sync", "informer-sync", "owner", "api-server", "scorers", "binders"],
        ),
    ],
)
def test_what_is_missing_is_named(change: dict[str, Any], names: list[str]) -> None:
    assert failed(but(**change)) == names


def test_checks_have_kube_schedulers_names_and_then_ours() -> None:
    """`newEndpointsHandler` in cmd/kube-scheduler/app/server.go: ping only where there is no other."""
    synced = ["shutdown", "sched-handler-sync", "informer-sync"]
    for facts, election in ((WELL, []), (but(lease_lapsed_s=0.0), ["leaderElection"])):
        named = {path: [c.name for c in checks_for(path, facts)] for path in HEALTH_PATHS}
        assert named["/healthz"] == (election or ["ping"])
        assert named["/livez"][0] == "ping"
        assert named["/readyz"][: len(election) + 3] == [*election, *synced]


def test_a_list_that_does_not_come_is_named() -> None:
    facts = but(synced=False, awaited_kinds=["pods", "poddisruptionbudgets"])
    status, text = one_check_answer(checks_for("/readyz", facts), "informer-sync")
    assert status == 500
    assert "is being listed: pods, poddisruptionbudgets" in text


def test_a_standby_and_a_leader_whose_lease_has_just_lapsed_are_well() -> None:
    for lapsed_s in (0.0, 19.0):
        facts = but(lease_lapsed_s=lapsed_s)
        assert failed(facts) == failed(facts, "/healthz") == []


CHECKS = [Check("ping", ""), Check("owner", "no answer in 1 s")]


def test_a_failure_is_told_without_its_reason_to_everybody() -> None:
    told = all_checks_answer("/readyz", CHECKS, (), is_verbose=False)
    assert told == (500, "[+]ping ok\n[-]owner failed: reason withheld\nreadyz check failed\n")


def test_one_check_by_its_name_tells_the_reason() -> None:
    assert one_check_answer(CHECKS, "ping") == (200, "ok")
    assert one_check_answer(CHECKS, "owner") == (500, "internal server error: no answer in 1 s\n")
    assert one_check_answer(CHECKS, "pong")[0] == 404


def test_what_is_excluded_does_not_count_and_unknown_names_are_told() -> None:
    told = all_checks_answer("/livez", CHECKS, {"owner", "a"}, is_verbose=True)
    assert told == (
        200,
        "[+]ping ok\n[+]owner excluded: ok\n"
        'warn: some health checks cannot be excluded: no matches for "a"\nlivez check passed\n',
    )


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_how_old_the_newest_word_of_the_api_server_is_stands_in_the_answer(path: str) -> None:
    told = "newest word from the API server 0.2 s ago"
    checks = checks_for(path, WELL)
    _, text = all_checks_answer(path, checks, (), is_verbose=True)
    assert f"[+]api-server ok: {told}\n" in text
    assert one_check_answer(checks, "api-server") == (200, f"ok: {told}")
    stale = checks_for(path, but(adapter_silent_s=60.0, api_word_age_s=61.0))
    assert "61.0 s ago" in one_check_answer(stale, "api-server")[1]
