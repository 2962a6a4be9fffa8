"""Recordings: written, read again, damaged."""

import gzip
import json
import random
import stat
from pathlib import Path

import pytest

from bench.manual_clock import ManualClock
from daemon.adapter.recording import Recorder, RecordingError, read_recording

PAGE = b'{"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"n","uid":"u"}}]}'
ADDED = '{"type":"ADDED","object":{"metadata":{"name":"é","uid":"v"}}}'.encode()
GONE = b'{"type":"ERROR","object":{"reason":"Expired","code":410}}'
DELETED = b'{"type":"DELETED","object":{"metadata":{"name":"n","uid":"u"}}}'

INPUTS = [
    ("list", b""),
    ("page", PAGE),
    ("listed", b""),
    ("line", ADDED),
    ("line", b"\xff\xfe not text"),
    ("line", GONE),
    ("list", b""),
    ("page", PAGE),
    ("listed", b""),
    ("line", DELETED),
]


def record(path: Path) -> None:
    clock = ManualClock(100.0)
    recorder = Recorder(path, clock)
    for what, content in INPUTS:
        recorder.record("nodes", what, content)
        clock.advance(0.5)
    recorder.record("resourceslices", "unavailable", b"404 NotFound")
    recorder.close()


def test_inputs_come_back_byte_for_byte_with_their_times(tmp_path: Path) -> None:
    path = tmp_path / "events"
    record(path)
    entries = list(read_recording(path))
    assert [(e.input, e.content()) for e in entries[:-1]] == INPUTS
    assert [e.at_s for e in entries] == [number * 0.5 for number in range(len(entries))]
    assert entries[4].text == ""


def test_a_recording_that_was_cut_off_ends_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "events"
    record(path)
    (file,) = path.iterdir()
    whole = gzip.decompress(file.read_bytes())
    file.write_bytes(gzip.compress(whole[:-20]))
    assert len(list(read_recording(path))) == len(INPUTS)


def test_a_recording_whose_recorder_was_killed_ends_before_that(tmp_path: Path) -> None:
    path = tmp_path / "events"
    record(path)
    (file,) = path.iterdir()
    file.write_bytes(file.read_bytes()[:-12])
    assert len(list(read_recording(path))) <= len(INPUTS) + 1


def recorded_lines(folder: Path, clock: ManualClock, count: int) -> Recorder:
    recorder = Recorder(folder, clock, bytes_max=100_000, segment_bytes=20_000)
    recorder.record("nodes", "list", b"")
    for _ in range(count):
        recorder.record("nodes", "line", random.randbytes(4000))
    recorder.close()
    return recorder


def test_a_recording_goes_on_in_the_next_file(tmp_path: Path) -> None:
    recorded_lines(tmp_path, ManualClock(1.0), 15)
    assert len(list(tmp_path.iterdir())) > 1
    assert len(list(read_recording(tmp_path))) == 16


def test_earlier_lives_make_room_and_the_newest_is_read(tmp_path: Path) -> None:
    clock = ManualClock(1.0)
    for count in (10, 3, 12):
        recorded_lines(tmp_path, clock, count)
        clock.advance(10.0)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 100_000
    assert len(list(read_recording(tmp_path))) == 13


def test_a_life_that_takes_everything_is_kept_up_to_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "berth")
    recorded_lines(tmp_path, ManualClock(1.0), 100)
    assert 60_000 < sum(path.stat().st_size for path in tmp_path.iterdir()) <= 120_000
    kept = list(read_recording(tmp_path))
    assert kept[0].input == "list"
    assert 10 < len(kept) < 100
    assert [record.message for record in caplog.records].count("recording_ended") == 1


def test_a_folder_without_a_recording_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no recording in this folder"):
        list(read_recording(tmp_path))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "line 1: not a recording"),
        ("{}\n", "line 1: not a recording"),
        ('{"format":"berth-events","version":2}\n', "line 1: is berth-events version 2"),
        ('{"format":"berth-events","version":1}\nx\n', "line 2: "),
        (
            '{"format":"berth-events","version":1}\n{"at_s":0,"kind":"nodes","input":"song"}\n',
            "line 2: Invalid enum value 'song'",
        ),
    ],
)
def test_a_bad_file_is_told_with_the_line(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "events"
    path.write_bytes(gzip.compress(content.encode()))
    with pytest.raises(RecordingError) as caught:
        list(read_recording(path))
    assert told in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="cannot be read"):
        list(read_recording(tmp_path / "nothing"))


def test_a_path_that_no_file_can_have_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="too long"):
        list(read_recording(tmp_path / ("9" * 5000)))


def test_the_first_line_names_the_format(tmp_path: Path) -> None:
    path = tmp_path / "events"
    record(path)
    (file,) = path.iterdir()
    header = json.loads(gzip.decompress(file.read_bytes()).splitlines()[0])
    assert header == {"format": "berth-events", "version": 1}


def test_a_folder_that_cannot_be_written_any_more_costs_the_recording_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    recorder = Recorder(tmp_path / "file" / "folder", ManualClock())
    recorder.record("nodes", "line", b"y")
    recorder.close()
    assert [record.message for record in caplog.records] == ["recording_ended"]


def test_a_full_disk_ends_the_recording_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Recorder(tmp_path, ManualClock()).close()
    (file,) = tmp_path.iterdir()
    file.unlink()
    file.symlink_to("/dev/full")
    recorder = Recorder(tmp_path, ManualClock())
    recorder.record("nodes", "line", random.randbytes(1_000_000))
    recorder.record("nodes", "line", b"y")
    recorder.close()
    told = [record for record in caplog.records if record.message == "recording_ended"]
    assert ["No space left" in str(vars(each)) for each in told] == [True]


def test_nobody_else_may_read_a_recording(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    Recorder(folder, ManualClock()).close()
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
