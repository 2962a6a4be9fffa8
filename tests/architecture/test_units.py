"""The unit files of `systemd/`: what they say fits berth, and systemd finds nothing wrong with them."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from daemon import cli
from shared import exit_codes
from shared.limits import CHILD_STOP_S, DRAIN_S, OWNER_SILENCE_S
from tests.support.waiting import HANG_S

ROOT: Final = Path(__file__).parents[2]
UNITS: Final = ROOT / "systemd"
EXPOSURE_MAX: Final = 20
"""Tenths, as `systemd-analyze security --threshold` takes them."""
UNIT_S: Final = {"s": 1.0, "min": 60.0}
REPEATABLE: Final = {"Environment", "EnvironmentFile", "SystemCallFilter"}

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


def lines_of(name: str) -> dict[str, list[str]]:
    """Setting -> its values, over all sections (no name stands in two of them here)."""
    found: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith(("#", "[")):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def service(key: str) -> str:
    (value,) = lines_of("berth.service")[key]
    return value


def seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+)(s|min)", text)
    assert match is not None, f"{text}: write a number and s or min"
    return int(match[1]) * UNIT_S[match[2]]


@pytest.mark.parametrize("name", ["berth.service", "berth.slice"])
def test_a_unit_says_nothing_twice(name: str) -> None:
    parser = configparser.ConfigParser(strict=False, allow_no_value=False, interpolation=None)
    parser.read_string((UNITS / name).read_text(encoding="utf-8"))
    repeated = {key for key, values in lines_of(name).items() if len(values) > 1}
    assert repeated <= REPEATABLE


def test_the_command_is_one_that_berth_understands() -> None:
    variables = dict(each.split("=", 1) for each in service("Environment").split())
    command = service("ExecStart").replace("%t", "/run")
    for name, value in variables.items():
        command = command.replace(f"${{{name}}}", value or "''").replace(f"${name}", value)
    program, *arguments = shlex.split(command)
    assert program == "/opt/berth/venv/bin/berth"
    parsed = cli._parser().parse_args(arguments)
    assert parsed.runtime_dir == f"/run/{service('RuntimeDirectory')}"
    assert service("RuntimeDirectoryMode") == service("StateDirectoryMode") == "0700"


def test_the_guide_records_where_the_service_may_write() -> None:
    guide = (ROOT / "docs" / "shadow.md").read_text(encoding="utf-8")
    (recorded,) = set(re.findall(r"--record (\S+)", guide)) - {"DIR`:"}
    assert Path(recorded).parent == Path("/var/lib") / service("StateDirectory")


def test_the_settings_file_names_only_variables_that_the_unit_reads() -> None:
    offered = re.findall(r"^#?(BERTH_\w+)=", (UNITS / "berth.env").read_text(), re.MULTILINE)
    assert len(offered) == 3
    assert all(f"{name}=" in service("Environment") for name in offered)
    assert all(name in service("ExecStart") for name in offered)


def test_systemd_is_more_patient_than_berth_is_itself() -> None:
    assert seconds(service("TimeoutStopSec")) > DRAIN_S + CHILD_STOP_S
    assert seconds(service("WatchdogSec")) > 2 * OWNER_SILENCE_S
    assert service("KillMode") == "mixed"


def test_what_needs_a_person_is_not_tried_again() -> None:
    codes = {int(code) for code in service("RestartPreventExitStatus").split()}
    assert codes == {exit_codes.UNUSABLE, exit_codes.ALREADY_RUNNING}
    assert service("Restart") == "on-failure"


def test_user_and_slice_of_the_service_are_there() -> None:
    (user,) = [
        line.split()[1]
        for line in (UNITS / "berth.sysusers").read_text().splitlines()
        if line.startswith("u ")
    ]
    assert service("User") == service("Group") == user
    assert (UNITS / service("Slice")).is_file()


@needs_systemd
def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    # It looks whether the programs are there: this Python stands in for the installed command.
    text = (UNITS / "berth.service").read_text(encoding="utf-8")
    (tmp_path / "berth.service").write_text(
        text.replace("/opt/berth/venv/bin/berth", sys.executable)
    )
    shutil.copy(UNITS / "berth.slice", tmp_path)
    told = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "berth.service", "berth.slice"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert (told.returncode, told.stdout + told.stderr) == (0, "")


@needs_systemd
def test_the_service_is_exposed_no_more_than_it_has_to_be() -> None:
    path = str(UNITS / "berth.service")
    options = ["--offline=true", "--json=short", f"--threshold={EXPOSURE_MAX}", "--no-pager"]
    told = subprocess.run(
        ["systemd-analyze", "security", *options, path],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    exposed = [f"{r['name']} {r['exposure']}" for r in json.loads(told.stdout) if r.get("exposure")]
    assert told.returncode == 0, exposed
