"""What an API server told, kept in a file, and the source that tells it again.

The format is JSON lines. The first is `{"format": "berth-events", "version": 1}`; each other one is
one raw input of one kind's feed:

    {"at_s": 1.25, "kind": "pods", "input": "line", "text": "{\"type\":\"ADDED\",...}"}

- `at_s`: seconds since the recording began;
- `kind`: the plural, as in `shared.kube.resources`;
- `input`: `list` (a list, or a watch with initial events, begins), `page` (the body of one page),
  `listed` (the list is complete), `line` (one line of a watch), `unavailable` (not served or
  forbidden; `text` is the reason);
- `text`: the bytes as they came; `base64` in its place where they are not UTF-8.

A recording that was cut off in the middle of a line (the recorder was killed) ends before that line.
"""

import asyncio
import base64
import binascii
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal

import msgspec

from daemon.adapter.event_source import MessageSink
from daemon.adapter.kind_feed import DamagedStreamError, KindFeed
from shared.clock import Clock
from shared.errors import ConfigurationError, OperationalError
from shared.faults import UNDECODABLE
from shared.kube.api_errors import ApiError
from shared.kube.decode import UnreadableListError
from shared.kube.resources import KINDS_BY_PLURAL
from shared.telemetry.log import EventLog

log: Final = EventLog("adapter")

FORMAT: Final = "berth-events"
VERSION: Final = 1

Input = Literal["list", "page", "listed", "line", "unavailable"]


class RecordingError(OperationalError):
    """A recording that cannot be used; names the file and the line."""

    def __init__(self, path: Path, line_number: int, problem: str) -> None:
        super().__init__(f"{path}, line {line_number}: {problem}")


class _Header(msgspec.Struct):
    format: str
    version: int


class RecordedInput(msgspec.Struct, omit_defaults=True):
    """One line of the file."""

    at_s: float
    kind: str
    input: Input
    text: str = ""
    base64: str = ""

    def content(self) -> bytes:
        """The bytes as they came from the server."""
        return base64.b64decode(self.base64, validate=True) if self.base64 else self.text.encode()


_encoder: Final = msgspec.json.Encoder()
_header_decoder: Final = msgspec.json.Decoder(_Header)
_input_decoder: Final = msgspec.json.Decoder(RecordedInput)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class FileRecorder:
    """Writes what it is told to a file. Close it, or the end is missing.

    Others may not read it: pods are in it whole, and people put secrets into environments.

    A disk that is full ends the recording, which is logged once, and not the adapter.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._started_s = clock.monotonic_s()
        self._path = path
        self._is_broken = False
        try:
            self._file: BinaryIO = open(path, "wb", opener=_private)  # noqa: SIM115 # Open as long as the adapter runs.
        except OSError as error:
            raise ConfigurationError(f"--record {path}", [f"cannot be written: {error}"]) from error
        self._write(_Header(FORMAT, VERSION))

    def record(self, kind: str, what: str, content: bytes) -> None:
        """Keep one raw input."""
        at_s = round(self._clock.monotonic_s() - self._started_s, 6)
        entry = RecordedInput(at_s, kind, msgspec.convert(what, Input))
        try:
            entry.text = content.decode()
        except UnicodeDecodeError:
            entry.base64 = base64.b64encode(content).decode()
        self._write(entry)

    def close(self) -> None:
        """Write out what is buffered."""
        try:
            self._file.close()
        except OSError as error:
            self._give_up(error)

    def _write(self, entry: msgspec.Struct) -> None:
        if self._is_broken:
            return
        try:
            self._file.write(_encoder.encode(entry) + b"\n")
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._is_broken = True
        log.error("recording_ended", file=str(self._path), error=str(error))


def read_recording(path: Path) -> Iterator[RecordedInput]:
    """The inputs in a recording, in order; raises `RecordingError`."""
    try:
        with path.open("rb") as file:
            _read_header(path, file.readline())
            for number, line in enumerate(file, start=2):
                if not line.endswith(b"\n"):
                    log.warning("recording_cut_off", file=str(path), line=number)
                    return
                try:
                    yield _input_decoder.decode(line)
                except UNDECODABLE as error:
                    raise RecordingError(path, number, str(error)) from error
    except OSError as error:
        raise RecordingError(path, 0, f"cannot be read: {error}") from error


def _read_header(path: Path, line: bytes) -> None:
    try:
        header = _header_decoder.decode(line)
    except UNDECODABLE as error:
        raise RecordingError(path, 1, f"not a recording of events: {error}") from error
    if header.format != FORMAT or header.version != VERSION:
        raise RecordingError(
            path, 1, f"is {header.format} version {header.version}; this is {FORMAT} {VERSION}"
        )


class RecordedSource:
    """Tells a recording again, as fast as it is taken or at a multiple of its own pace."""

    def __init__(
        self,
        path: Path,
        *,
        speed: float = 0.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        assert speed >= 0, "0 is as fast as possible"
        self._path = path
        self._speed = speed
        self._sleep = sleep

    async def run(self, sink: MessageSink) -> None:
        """Tell all of it; returns at its end."""
        feeds: dict[str, KindFeed] = {}
        told_s = 0.0
        for number, entry in enumerate(read_recording(self._path), start=2):
            if self._speed > 0 and entry.at_s > told_s:
                await self._sleep((entry.at_s - told_s) / self._speed)
                told_s = entry.at_s
            kind = KINDS_BY_PLURAL.get(entry.kind)
            if kind is None:
                raise RecordingError(self._path, number, f"unknown kind {entry.kind!r}")
            feed = feeds.get(entry.kind)
            if feed is None:
                feed = feeds[entry.kind] = KindFeed(kind, sink.put)
            try:
                _tell(feed, entry)
            except (ApiError, DamagedStreamError, UnreadableListError) as error:
                # What it led to (waiting, listing anew) comes next in the recording.
                log.info("recorded_failure", kind=entry.kind, error=str(error))
            except binascii.Error as error:
                raise RecordingError(self._path, number, f"base64: {error}") from error
            await sink.room()


def _tell(feed: KindFeed, entry: RecordedInput) -> None:
    match entry.input:
        case "list":
            feed.list_started()
        case "page":
            feed.page(entry.content())
        case "listed":
            feed.list_finished()
        case "line":
            feed.line(entry.content())
        case "unavailable":
            feed.unavailable(entry.content().decode("utf-8", "replace"))
