"""Options about workers of other hosts: keys or nothing."""

import stat
from pathlib import Path
from typing import Any

import pytest

from daemon import cli
from daemon.commands.option_problems import option_problems
from shared import exit_codes
from shared.runtime_options import RuntimeOptions

ENTRANCE: dict[str, Any] = {
    "workers_address": "tcp://127.0.0.1:7400",
    "workers_key_file": "/k",
    "workers_allowed_file": "/a",
}


@pytest.mark.parametrize("missing", sorted(ENTRANCE))
def test_without_keys_there_is_no_entrance(missing: str) -> None:
    (problem,) = option_problems(RuntimeOptions(**(ENTRANCE | {missing: ""})))
    assert "are let in with keys only (berth keys makes them)" in problem


def test_there_may_be_no_worker_here_if_there_may_be_some_elsewhere() -> None:
    assert option_problems(RuntimeOptions(workers=0, **ENTRANCE)) == []
    assert option_problems(RuntimeOptions(workers=0)) == ["--workers 0: must lie in 1..256"]


def test_keys_are_made_and_a_second_time_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["keys", "rack1", "--output", str(tmp_path)]) == exit_codes.OK
    assert stat.S_IMODE((tmp_path / "rack1.key").stat().st_mode) == 0o600
    assert "secret, for one host alone" in capsys.readouterr().out
    assert cli.main(["keys", "rack1", "--output", str(tmp_path)]) == exit_codes.UNUSABLE
    assert "is there already" in capsys.readouterr().err


def test_a_worker_without_usable_keys_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["worker", "--connect", "tcp://127.0.0.1:7400", "--key", str(tmp_path / "no.key")]
    code = cli.main([*arguments, "--server-key", str(tmp_path / "no.pub")])
    assert code == exit_codes.UNUSABLE
    assert "no.pub cannot be used" in capsys.readouterr().err
