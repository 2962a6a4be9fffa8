"""Results are not lost, and the last one stays until there is another."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.apiserver.__main__ import main as simulate
from bench.demo.__main__ import main as demo
from bench.perf.__main__ import main as bench
from bench.soak.__main__ import main as soak
from bench.watched.output_file import OutputFile, output_folder, put_file
from shared.errors import ConfigurationError


def test_a_result_takes_the_place_of_the_last_one_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(b"last")
    with OutputFile("--json", path) as output:
        assert path.read_bytes() == b"last"
        assert output.put(b"new") == ""
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_that_fails_leaves_the_last_result_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(b"last")
    with pytest.raises(ZeroDivisionError), OutputFile("--json", path):
        raise ZeroDivisionError
    assert path.read_bytes() == b"last"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_in_the_end_is_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with OutputFile("--json", Path("/dev/full")) as output:
        problem = output.put(b"figures")
    (rescued,) = tmp_path.iterdir()
    assert rescued.read_bytes() == b"figures"
    assert problem == f"/dev/full: cannot be written: No space left on device; it is in {rescued}"


def test_and_where_there_is_no_other_place_it_is_printed(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    def full(**_: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkstemp", full)
    assert put_file(Path("/dev/full"), b"figures").endswith("it stands above")
    assert b"figures" in capfdbinary.readouterr().out


@pytest.mark.parametrize("place", ["missing/x", ".", "file/x"])
def test_a_place_that_cannot_be_written_is_told_before_the_work(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"--json .*cannot be written"):
        OutputFile("--json", tmp_path / place)
    with pytest.raises(ConfigurationError, match=r"--output .*cannot be written"):
        output_folder("--output", tmp_path / "file" / "x")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (demo, ["--nodes", "1", "--pods", "1", "--report", "/proc/x"]),
        (demo, ["--nodes", "1", "--pods", "1", "--report", "/dev/null", "--json", "/"]),
        (demo, ["--nodes", "1", "--pods", "1", "--timeout-s", "nan"]),
        (demo, ["--nodes", "1", "--pods", "1", "--rate", "inf"]),
        (soak, ["--json", "/proc/x"]),
        (soak, ["--minutes", "nan"]),
        (soak, ["--rate", "inf"]),
        (bench, ["suite", "--output", "/dev/null"]),
        (bench, ["suite", "--output", "/proc/x"]),
    ],
)
def test_commands_refuse_what_they_cannot_use_before_they_begin(
    command: Callable[[list[str]], int], arguments: list[str]
) -> None:
    with pytest.raises(ConfigurationError):
        command(arguments)


@pytest.mark.parametrize("content", [b"a: !!int x\n", b"\xff\xfe\x00", b"[" * 5000])
def test_a_file_of_workloads_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "performance-config.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="is not YAML"):
        bench(["list", "--config", str(path)])


@pytest.mark.parametrize("port", ["99999", "-1"])
def test_a_port_that_there_is_not_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(["--port", port]) == 2
    assert f"--port {port}: must lie in 0..65535" in capsys.readouterr().err
