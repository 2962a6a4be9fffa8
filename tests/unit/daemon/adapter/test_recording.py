"""Recordings: written, read again, damaged."""

import asyncio
import json
from pathlib import Path

import pytest

from daemon.adapter.recording import FileRecorder, RecordedSource, RecordingError, read_recording
from shared.clock import ManualClock
from shared.errors import ConfigurationError
from shared.messages.to_owner import (
    AdapterMessage,
    KindUnavailable,
    NodeChanged,
    NodeDeleted,
    ObjectRejected,
    SyncFinished,
    SyncStarted,
)

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


class Collector:
    def __init__(self) -> None:
        self.messages: list[AdapterMessage] = []

    def put(self, message: AdapterMessage, size_bytes: int) -> None:
        self.messages.append(message)

    async def room(self) -> None:
        pass


def record(path: Path) -> None:
    clock = ManualClock(100.0)
    recorder = FileRecorder(path, clock)
    for what, content in INPUTS:
        recorder.record("nodes", what, content)
        clock.advance(0.5)
    recorder.record("resourceslices", "unavailable", b"404 NotFound")
    recorder.close()


def told_by(source: RecordedSource) -> list[AdapterMessage]:
    collector = Collector()
    asyncio.run(source.run(collector))
    return collector.messages


def test_inputs_come_back_byte_for_byte_with_their_times(tmp_path: Path) -> None:
    path = tmp_path / "events"
    record(path)
    entries = list(read_recording(path))
    assert [(e.input, e.content()) for e in entries[:-1]] == INPUTS
    assert [e.at_s for e in entries] == [number * 0.5 for number in range(len(entries))]
    assert entries[4].text == ""


def test_a_recording_is_told_as_the_server_told_it(tmp_path: Path) -> None:
    path = tmp_path / "events"
    record(path)
    told = told_by(RecordedSource(path))
    assert [type(message) for message in told] == [
        *(SyncStarted, NodeChanged, SyncFinished),
        *(NodeChanged, ObjectRejected),
        *(SyncStarted, NodeChanged, SyncFinished, NodeDeleted),
        KindUnavailable,
    ]
    # It can be told again: a new life of the owner begins at its start.
    assert told_by(RecordedSource(path)) == told


def test_it_can_be_told_at_its_own_pace(tmp_path: Path) -> None:
    path = tmp_path / "events"
    record(path)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    told_by(RecordedSource(path, speed=2.0, sleep=sleep))
    assert slept == [0.25] * len(INPUTS)


def test_a_recording_that_was_cut_off_ends_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "events"
    record(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert len(list(read_recording(path))) == len(INPUTS)


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
        (
            '{"format":"berth-events","version":1}\n{"at_s":0,"kind":"gnus","input":"list"}\n',
            "line 2: unknown kind 'gnus'",
        ),
        (
            '{"format":"berth-events","version":1}\n'
            '{"at_s":0,"kind":"nodes","input":"line","base64":"?"}\n',
            "line 2: base64",
        ),
    ],
)
def test_a_bad_file_is_told_with_the_line(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "events"
    path.write_text(content)
    with pytest.raises(RecordingError) as caught:
        told_by(RecordedSource(path))
    assert told in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="cannot be read"):
        told_by(RecordedSource(tmp_path / "nothing"))


def test_the_first_line_names_the_format(tmp_path: Path) -> None:
    path = tmp_path / "events"
    record(path)
    header = json.loads(path.read_text().splitlines()[0])
    assert header == {"format": "berth-events", "version": 1}


def test_a_file_that_cannot_be_written_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--record"):
        FileRecorder(tmp_path / "no" / "such" / "folder", ManualClock())


def test_a_full_disk_ends_the_recording_and_nothing_else() -> None:
    recorder = FileRecorder(Path("/dev/full"), ManualClock())
    recorder.record("nodes", "line", b"x" * 1_000_000)
    recorder.record("nodes", "line", b"y")
    recorder.close()
