"""`berth-worker@.service`: its command is berth's, and it is shut in as the scheduler itself is."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from daemon import cli
from shared import exit_codes
from tests.architecture.test_units import EXPOSURE_MAX, UNITS, lines_of, needs_systemd
from tests.support.waiting import HANG_S

UNIT = "berth-worker@.service"
OWN = {
    *("Description", "Type", "Environment", "EnvironmentFile", "ExecStart", "SyslogIdentifier"),
    *("TimeoutStopSec", "Restart", "RestartSec", "RestartPreventExitStatus", "LimitNOFILE"),
}
NOT_NEEDED = {
    *("NotifyAccess", "TimeoutStartSec", "WatchdogSec", "RuntimeDirectory", "ExecReload"),
    *(
        "RuntimeDirectoryMode",
        "StateDirectory",
        "StateDirectoryMode",
        "OOMPolicy",
        "OOMScoreAdjust",
    ),
}


def test_the_command_is_one_that_berth_understands_with_the_settings_of_the_file() -> None:
    lines = lines_of(UNIT)
    variables = dict(each.split("=", 1) for each in lines["Environment"][0].split())
    settings = (UNITS / "worker.env").read_text(encoding="utf-8")
    offered = dict(re.findall(r"^#?(BERTH_\w+)=(.*)$", settings, re.MULTILINE))
    assert set(offered) == set(variables)
    command = lines["ExecStart"][0]
    for name, value in offered.items():
        command = command.replace(f"${{{name}}}", value).replace(f"${name}", value)
    program, *arguments = shlex.split(command)
    assert program == "/opt/berth/venv/bin/berth"
    parsed = cli._parser().parse_args(arguments)
    assert parsed.connect == "tcp://scheduler.example:7400"
    assert (parsed.server_key, parsed.key) == ("/etc/berth/berth.pub", "/etc/berth/worker.key")


def test_it_is_shut_in_as_the_scheduler_is() -> None:
    worker, berth = lines_of(UNIT), lines_of("berth.service")
    assert set(berth) - set(worker) == NOT_NEEDED
    assert {key for key in worker if worker[key] != berth.get(key)} == OWN
    assert worker["RestartPreventExitStatus"] == [str(exit_codes.UNUSABLE)]


@needs_systemd
def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    # It looks whether the program is there: this Python stands in for the installed command.
    text = (UNITS / UNIT).read_text(encoding="utf-8")
    (tmp_path / "berth-worker@1.service").write_text(
        text.replace("/opt/berth/venv/bin/berth", sys.executable), encoding="utf-8"
    )
    shutil.copy(UNITS / "berth.slice", tmp_path)
    for command in (
        ["systemd-analyze", "verify", "--man=no", "berth-worker@1.service"],
        ["systemd-analyze", "security", "--offline=true", "--no-pager",
         f"--threshold={EXPOSURE_MAX}", str(tmp_path / "berth-worker@1.service")],
    ):  # fmt: skip
        told = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False
        )
        assert told.returncode == 0, told.stdout + told.stderr
