"""The example package as its user has it: installed, found by its entry points, in real processes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared import exit_codes
from tests.support.live import ROOT, Fields, LiveBerth, SharedBerth
from tests.support.live_cluster import pods_path
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration

EXAMPLE = ROOT / "docs" / "example-plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the package."""
    target = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source")
    # Of a copy: building leaves nothing behind in the tree.
    subprocess.run(["cp", "-r", f"{EXAMPLE}/.", str(source)], check=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(target)]
    subprocess.run([*pip, *offline, str(source)], check=True, capture_output=True, timeout=HANG_S)
    return target


@pytest.fixture(scope="module")
def shared_berth(installed: Path) -> Iterator[SharedBerth]:
    config = yaml.safe_load((EXAMPLE / "scheduler.yaml").read_text())
    config["profiles"][0]["pluginConfig"][2]["args"]["waitSeconds"] = 0.3
    no_priority = frozenset({"Priority"})

    def start() -> LiveBerth:
        return LiveBerth(config, plugin_path=[installed], disabled_admission=no_priority)

    with SharedBerth(start) as shared:
        yield shared


def test_a_filter_over_columns_decides(live: LiveBerth) -> None:
    live.add_node("n1", labels={"tier": "silver"})
    live.add_node("n2", labels={"tier": "gold"})
    live.add_pod("p", labels={"tier": "gold"})
    assert live.bound("p") == "n2"
    live.delete_node("n2")
    live.add_pod("q", labels={"tier": "gold"})
    told = live.unschedulable("q")
    assert told.startswith("0/1 nodes are available: 1 node(s) were not of the pod's tier.")


def test_a_filter_per_pod_and_node_decides(live: LiveBerth) -> None:
    live.add_node("n1")
    for index in range(3):
        live.add_pod(f"p{index}", labels={"app": "x"})
    pods = live.wait(pods_path(), lambda pods: len(unbound(pods)) == 1, "are bound but for one")
    (left,) = unbound(pods)
    assert "1 node(s) had enough pods of the application" in live.unschedulable(left)
    live.delete_pod(next(name for name in ("p0", "p1") if name != left))
    assert live.bound(left) == "n1"


def unbound(pods: Fields) -> list[str]:
    """Names of the pods of a list that are on no node."""
    return [pod["metadata"]["name"] for pod in pods["items"] if not pod["spec"]["nodeName"]]


def group(size: int) -> dict[str, str]:
    return {"example.com/group": "g", "example.com/group-size": f"{size}"}


def test_a_permit_plugin_decides(live: LiveBerth) -> None:
    live.add_node("n1")
    live.add_pod("early", labels=group(2))
    told = live.unschedulable("early")
    assert "rejected due to timeout after waiting 300ms at plugin PodGroup" in told
    live.add_pod("late", labels=group(2))
    live.add_node("n2")
    assert live.bound("early")
    assert live.bound("late")


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(installed), str(ROOT)))
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        check=False,
        env={**os.environ, "PYTHONPATH": path},
        cwd=installed,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )


def test_its_own_tests_pass_against_what_is_installed(installed: Path) -> None:
    done = run(installed, "pytest", "-q", "-p", "no:cacheprovider", f"{EXAMPLE}/tests",
               "-c", os.devnull, "--rootdir", str(installed))  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


@pytest.mark.parametrize(
    ("plugin", "args", "problem"),
    [
        (
            "GoldTier",
            {"tiers": "gold"},
            "pluginConfig[GoldTier].args: tiers (line 6): Expected `array`",
        ),
        (
            "RackLimit",
            {"maxPerNode": 0},
            "pluginConfig[RackLimit].args: maxPerNode (line 12): 0 must be",
        ),
        (
            "PodGroup",
            {"wait": 1},
            "pluginConfig[PodGroup].args (line 15): Object contains unknown field",
        ),
    ],
)
def test_check_config_names_what_is_wrong_with_an_argument(
    installed: Path, tmp_path: Path, plugin: str, args: dict[str, Any], problem: str
) -> None:
    config = yaml.safe_load((EXAMPLE / "scheduler.yaml").read_text())
    for entry in config["profiles"][0]["pluginConfig"]:
        if entry["name"] == plugin:
            entry["args"] = args
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    done = run(installed, "daemon", "check-config", str(path))
    assert done.returncode == exit_codes.UNUSABLE
    assert problem in done.stderr
    assert f"{path}" in done.stderr


def test_check_config_shows_the_plugins_where_they_take_part(installed: Path) -> None:
    done = run(installed, "daemon", "check-config", str(EXAMPLE / "scheduler.yaml"))
    assert done.returncode == 0, done.stderr
    (profile,) = yaml.safe_load(done.stdout)["profiles"]
    at = {
        point: [entry["name"] for entry in plugins.get("enabled", ())]
        for point, plugins in profile["plugins"].items()
    }
    assert at["permit"] == ["PodGroup"]
    assert {"GoldTier", "RackLimit"} <= set(at["filter"]) & set(at["score"])
    assert at["reserve"][-1] == "PodGroup"


def test_what_the_readme_says_to_run_is_accepted(installed: Path, tmp_path: Path) -> None:
    lines = (EXAMPLE / "README.md").read_text().splitlines()
    commands = [line.split("#")[0].split() for line in lines if line.startswith("    berth ")]
    assert [command[1] for command in commands] == ["check-config", "run"]
    for _, *arguments in commands:
        arguments = [
            str(EXAMPLE / each) if each == "scheduler.yaml" else each for each in arguments
        ]
        # Up to where it would begin.
        ends = ["--write-config-to", str(tmp_path / "out")] if arguments[0] == "run" else []
        done = run(installed, "daemon", *arguments, *ends)
        assert done.returncode == exit_codes.OK, done.stderr


def test_without_the_package_its_plugins_are_unknown(tmp_path: Path) -> None:
    done = run(tmp_path, "daemon", "check-config", str(EXAMPLE / "scheduler.yaml"))
    assert done.returncode == exit_codes.UNUSABLE
    assert "there is no plugin GoldTier" in done.stderr
