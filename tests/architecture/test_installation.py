"""Our packages, the locks that they are installed from, and how children are started."""

import ast
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from itertools import chain
from pathlib import Path
from zipfile import ZipFile

import pytest

from daemon.cli import BENCH_COMMANDS
from daemon.commands import installation
from daemon.commands.installation import DISTRIBUTION, OPTIONAL, REQUIRED, installation_problems
from shared import exit_codes
from tests.support.waiting import HANG_S

ROOT = Path(__file__).parents[2]


def test_our_packages_are_ours_and_lie_side_by_side() -> None:
    assert installation_problems() == []


def test_a_foreign_package_of_the_same_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {"daemon": ["berth-scheduler", "python-daemon"], "shared": ["berth-scheduler"]}
    monkeypatch.setattr(installation, "packages_distributions", lambda: owners)
    (problem,) = installation_problems()
    assert "package daemon also belongs to python-daemon" in problem


def test_a_missing_package_is_found_but_bench_may_be_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = importlib.util.find_spec
    hidden = {"workers", "bench"}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in hidden else find(name)
    )
    assert installation_problems() == ["package workers is missing; install berth again"]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both distributions, built as docs/install.md says: name -> its wheel."""
    folder = tmp_path_factory.mktemp("wheels")
    for where in (ROOT, ROOT / "bench"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=where, check=True, capture_output=True, timeout=HANG_S)
    return {path.name.partition("-")[0]: path for path in folder.iterdir()}


def test_the_scheduler_s_wheel_has_no_bench_and_the_other_nothing_else(
    wheels: dict[str, Path],
) -> None:
    held = {
        name: {entry.partition("/")[0] for entry in ZipFile(path).namelist()}
        for name, path in wheels.items()
    }
    version = importlib.metadata.version(DISTRIBUTION)
    assert held == {
        "berth_scheduler": {*REQUIRED, f"berth_scheduler-{version}.dist-info"},
        "berth_bench": {*OPTIONAL, f"berth_bench-{version}.dist-info"},
    }
    held_files = set(ZipFile(wheels["berth_bench"]).namelist())
    files = (path for path in (ROOT / "bench").rglob("*") if path.is_file())
    made = {".pyc", ".whl"}  # The latter by whoever followed docs/install.md.
    tracked = {str(one.relative_to(ROOT)) for one in files if one.suffix not in made}
    assert tracked <= held_files


def test_the_commands_of_bench_say_what_to_install(wheels: dict[str, Path], tmp_path: Path) -> None:
    ZipFile(wheels["berth_scheduler"]).extractall(tmp_path)
    # Without the packages of the clone: -S leaves out the .pth by which they are found.
    path = f"{tmp_path}{os.pathsep}{sysconfig.get_path('purelib')}"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": path}

    def berth(*arguments: str) -> subprocess.CompletedProcess[str]:
        start = "import sys; from daemon.cli import main; sys.exit(main(sys.argv[1:]))"
        command = [sys.executable, "-S", "-P", "-c", start, *arguments]
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True,
            timeout=HANG_S, check=False,
        )  # fmt: skip

    for name in BENCH_COMMANDS:
        refused = berth(name, "--help")
        assert refused.returncode == exit_codes.UNUSABLE, name
        assert "install berth-bench of version" in refused.stderr, name
    ZipFile(wheels["berth_bench"]).extractall(tmp_path)
    assert berth("simulate", "--help").returncode == exit_codes.OK


def locked(name: str) -> dict[str, list[str]]:
    """`package==version` -> its hashes. Markers may differ: more packages want one for the tests."""
    entries: dict[str, list[str]] = {}
    current = ""
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if "==" in line and not line.startswith((" ", "#")):
            current = line.rstrip(" \\").partition(" ;")[0]
            entries[current] = []
        elif line.strip().startswith("--hash="):
            entries[current].append(line.strip().rstrip(" \\"))
    return entries


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_every_locked_package_has_hashes(name: str) -> None:
    entries = locked(name)
    assert entries
    for package, hashes in entries.items():
        assert hashes, f"{package} in {name}: run .ci/lock"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes)


def test_production_runs_the_versions_that_the_tests_ran_with() -> None:
    production, tested = locked("requirements.lock"), locked("requirements-dev.lock")
    assert {name: tested.get(name) for name in production} == production


def test_the_locks_name_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for lock, wanted in (
        ("requirements.lock", project["dependencies"]),
        ("requirements-dev.lock", [*chain(*project["optional-dependencies"].values())]),
    ):
        names = {entry.partition("==")[0] for entry in locked(lock)}
        missing = {re.split(r"[<>=!~\[ ]", one)[0].lower() for one in wanted} - names
        assert missing == set(), f"run .ci/lock: {lock} lacks {missing}"


def test_no_process_is_ever_started_without_its_assertions() -> None:
    for package in ("daemon", "bench"):
        for path in sorted((ROOT / package).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            strings = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
            assert "-O" not in strings, path
            assert "-OO" not in strings, path


def test_a_python_without_ensurepip_gets_one_line_with_the_package_to_install(
    tmp_path: Path,
) -> None:
    for name in ("berth", "pyproject.toml", "requirements-dev.lock"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\ncase "$*" in *pip*) exit 1 ;; esac\n')
    python.chmod(0o755)
    done = subprocess.run(
        [tmp_path / "berth", "version"], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        "berth: this Python comes without pip (ensurepip); on Debian: apt-get install python3-venv\n"
    )


@pytest.mark.parametrize("script", ["berth", ".ci/run", ".ci/lock", ".ci/prove"])
def test_the_shell_scripts_are_executable_and_well_formed(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & 0o111 == 0o111
    assert path.read_text(encoding="utf-8").startswith("#!/bin/sh\n")
    subprocess.run(["sh", "-n", str(path)], check=True)
