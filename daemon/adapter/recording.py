"""What an API server told, kept in files.

A recording is a folder of files, as many as its length takes, each compressed (gzip) JSON lines. The
first line is `{"format": "berth-events", "version": 1}`; each other one is one raw input of one kind's
feed:

    {"at_s": 1.25, "kind": "pods", "input": "line", "text": "{\"type\":\"ADDED\",...}"}

- `at_s`: seconds since the recording began;
- `kind`: the plural, as in `shared.kube.resources`;
- `input`: `list` (a list, or a watch with initial events, begins), `page` (the body of one page),
  `listed` (the list is complete), `line` (one line of a watch), `unavailable` (not served or
  forbidden; `text` is the reason);
- `text`: the bytes as they came; `base64` in its place where they are not UTF-8.

Names of files begin with the moment at which the adapter that wrote them started: its files are one
recording, for it begins with a list of everything. One that was cut off in the middle of a line (the
recorder was killed) ends before that line.
"""

import base64
import contextlib
import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal

import msgspec

from daemon.adapter.kind_feed import KindFeed
from shared.clock import Clock
from shared.errors import UNDECODABLE, OperationalError
from shared.telemetry.log import EventLog

log: Final = EventLog("adapter")

FORMAT: Final = "berth-events"
VERSION: Final = 1
SUFFIX: Final = ".jsonl.gz"
SEGMENT_BYTES: Final = 32 << 20
"""Of a file; about a tenth of what the server sent."""
RECORDING_BYTES_MAX: Final = 2 << 30
_GZIP: Final = 16 + zlib.MAX_WBITS
"""Of zlib: with gzip's header and checksum. How much is written is known after each line, which
`gzip.GzipFile` does not tell: it has a buffer of its own."""

Input = Literal["list", "page", "listed", "line", "unavailable"]


class RecordingError(OperationalError):
    """A recording that cannot be used; names the file and the line."""

    def __init__(self, path: Path, line_number: int, problem: str) -> None:
        super().__init__(f"{path}, line {line_number}: {problem}")


class _Header(msgspec.Struct):
    format: str
    version: int


class RecordedInput(msgspec.Struct, omit_defaults=True):
    at_s: float
    kind: str
    input: Input
    text: str = ""
    base64: str = ""

    def content(self) -> bytes:
        return base64.b64decode(self.base64, validate=True) if self.base64 else self.text.encode()


_encoder: Final = msgspec.json.Encoder()
_input_decoder: Final = msgspec.json.Decoder(RecordedInput)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class Recorder:
    """Writes what it is told to files of a folder, compressed, for one life of the adapter, which begins
    with a list of everything. Close it, or the end is missing.

    Others may not read them: pods are in them whole, and people put secrets into environments.

    All files together take `bytes_max` at most: those of earlier lives go first, and a life that takes
    more by itself is kept up to there. Then, or where the disk is full or gone, the recording ends. That
    is logged once, and the adapter goes on.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        bytes_max: int = RECORDING_BYTES_MAX,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self._clock = clock
        self._started_s = clock.monotonic_s()
        self._folder = folder
        self._bytes_max = bytes_max
        self._segment_bytes = segment_bytes
        self._life = f"{clock.wall_s():017.6f}"
        self._segment_count = 0
        self._closed_bytes = 0
        self._raw: BinaryIO | None = None
        self._compressor = zlib.compressobj(1, wbits=_GZIP)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._begin_segment()
        except OSError as error:
            self._end(str(error))

    def record(self, kind: str, what: str, content: bytes) -> None:
        at_s = round(self._clock.monotonic_s() - self._started_s, 6)
        entry = RecordedInput(at_s, kind, msgspec.convert(what, Input))
        try:
            entry.text = content.decode()
        except UnicodeDecodeError:
            entry.base64 = base64.b64encode(content).decode()
        try:
            self._write(entry)
        except OSError as error:
            self._end(str(error))

    def close(self) -> None:
        try:
            self._end_segment()
        except OSError as error:
            self._end(str(error))

    def _write(self, entry: msgspec.Struct) -> None:
        if self._raw is None:
            return
        self._raw.write(self._compressor.compress(_encoder.encode(entry) + b"\n"))
        if self._raw.tell() < self._segment_bytes:
            return
        self._end_segment()
        if self._make_room():
            self._begin_segment()
        else:
            self._end(f"{self._bytes_max} bytes are full")

    def _begin_segment(self) -> None:
        self._segment_count += 1
        path = self._folder / f"{self._life}-{self._segment_count:06d}{SUFFIX}"
        self._raw = open(path, "wb", opener=_private)  # noqa: SIM115 # Open as long as it is written.
        self._compressor = zlib.compressobj(1, wbits=_GZIP)
        self._write(_Header(FORMAT, VERSION))

    def _end_segment(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            with raw:
                raw.write(self._compressor.flush())
                self._closed_bytes += raw.tell()

    def _make_room(self) -> bool:
        """For one more segment; false where this life's own take everything."""
        for path in _segments(self._folder):
            taken = sum(each.stat().st_size for each in _segments(self._folder))
            if taken + self._segment_bytes <= self._bytes_max:
                break
            if not path.name.startswith(self._life):
                path.unlink()
        return self._closed_bytes + self._segment_bytes <= self._bytes_max

    def _end(self, why: str) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            with contextlib.suppress(OSError):  # What is lost was told with the first error.
                raw.close()
        log.error("recording_ended", folder=str(self._folder), reason=why)


def _segments(folder: Path) -> list[Path]:
    """Of all lives, the oldest first."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def recorded_files(path: Path) -> list[Path]:
    """Those of the newest life in a folder; a file by itself."""
    try:
        if not path.is_dir():
            return [path]
    except (OSError, ValueError) as error:  # Of a path that no file can have.
        raise RecordingError(path, 0, f"cannot be read: {error}") from error
    segments = _segments(path)
    if not segments:
        raise RecordingError(path, 0, "there is no recording in this folder")
    life = segments[-1].name.partition("-")[0]
    return [each for each in segments if each.name.startswith(life)]


def read_recording(path: Path) -> Iterator[RecordedInput]:
    """The inputs in a recording (a folder, or one file of it), in order; raises `RecordingError`."""
    for file in recorded_files(path):
        yield from _read_segment(file)


def _read_segment(path: Path) -> Iterator[RecordedInput]:
    try:
        with gzip.open(path, "rb") as file:
            _read_header(path, file.readline())
            for number, line in enumerate(file, start=2):
                if not line.endswith(b"\n"):
                    log.warning("recording_cut_off", file=str(path), line=number)
                    return
                try:
                    yield _input_decoder.decode(line)
                except UNDECODABLE as error:
                    raise RecordingError(path, number, str(error)) from error
    except EOFError:
        log.warning("recording_cut_off", file=str(path), line=0)
    except (OSError, zlib.error) as error:
        raise RecordingError(path, 0, f"cannot be read: {error}") from error


def _read_header(path: Path, line: bytes) -> None:
    try:
        header = msgspec.json.decode(line, type=_Header)
    except UNDECODABLE as error:
        raise RecordingError(path, 1, f"not a recording of events: {error}") from error
    if header.format != FORMAT or header.version != VERSION:
        raise RecordingError(
            path, 1, f"is {header.format} version {header.version}; this is {FORMAT} {VERSION}"
        )


def tell_feed(feed: KindFeed, entry: RecordedInput) -> None:
    """One input, as the server told it; raises what the feed does."""
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
