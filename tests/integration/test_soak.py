"""A few seconds of a soak, with all that belongs to it: churn, a failing server, killed processes."""

import json
from pathlib import Path

import pytest

from bench.soak.soak_run import SoakOptions, run_soak
from daemon import cli
from shared import exit_codes

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


def test_a_short_soak_finds_nothing_wrong(tmp_path: Path) -> None:
    figures_path = tmp_path / "figures.json"
    size = ["--minutes", "0.1", "--rate", "40", "--nodes", "30", "--life-s", "2"]
    # Memory is not judged: nothing is warm after some seconds.
    more = ["--check-every-s", "3", "--node-changes", "5", "--warm-up-s", "3600"]
    code = cli.main(["soak", *size, *more, "--json", str(figures_path)])
    figures = json.loads(figures_path.read_text())
    assert figures["problems"] == []
    assert code == exit_codes.OK
    assert figures["bound_count"] > 0
    assert figures["comparisons"] > 0
    assert figures["node_changes"] > 0
    assert {"plain", "varied"} <= set(figures["bound_by_kind"])


def test_nothing_is_lost_when_processes_are_killed_and_the_server_fails() -> None:
    options = SoakOptions(
        minutes=0.15,
        rate_per_s=30,
        nodes=30,
        life_s=2,
        check_every_s=3,
        warm_up_s=3600,
        kill_every_s=3,
        faults=str(ROOT / "bench" / "soak" / "faults.yaml"),
        seed=1,
    )
    told: list[str] = []
    figures = run_soak(options, told.append)
    assert figures.problems == []
    assert sum(figures.kills.values()) >= 1
    assert figures.bound_count > 0


def test_a_berth_whose_supervisor_is_killed_is_started_anew_and_goes_on() -> None:
    options = SoakOptions(
        minutes=0.15,
        rate_per_s=30,
        nodes=30,
        life_s=2,
        check_every_s=3,
        warm_up_s=3600,
        kill_every_s=4,
        starve_every_s=4,
        kill=("supervisor",),
    )
    told: list[str] = []
    figures = run_soak(options, told.append)
    assert figures.problems == []
    assert figures.kills == {"supervisor": 1, "all": 1}
    assert figures.bound_count > 0


@pytest.mark.parametrize(
    "arguments",
    [["--minutes", "0"], ["--nodes", "3"], ["--kill", "everybody"], ["--faults", "/nowhere.yaml"]],
)
def test_options_that_cannot_work_are_refused_before_anything_starts(arguments: list[str]) -> None:
    assert cli.main(["soak", *arguments]) == exit_codes.UNUSABLE
