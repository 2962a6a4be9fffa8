"""Structured log lines on the standard logging: an event's name plus key=value fields.

`start_logging` is called once per process, before anything else speaks. Lines go to stderr: JSON
when stderr is not a terminal (one object a line, for collectors), else text for people. Before a line
that goes to systemd's journal stands its level, as the journal reads it (sd-daemon(3)). Code that
wants fields uses an `EventLog`; plain `logging` calls come out as well, their message is the event.
A level that is off costs one comparison: fields are only looked at when the line is written.

Keys that every line has: time (UTC), level, process (owner, adapter, scorer-0, ...), logger, event.

An API server that is away for an hour must not fill a disk with a line for each pod: of each event only
so many lines a second are written (`BurstFilter`), and the next that is says how many were left out.
"""

import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, TextIO

import orjson

from shared import shown
from shared.clock import SystemClock
from shared.limits import LINES_BURST, LINES_PER_S, LOGGED_EVENTS_MAX
from shared.rate_limit import RateLimit

LEVELS: Final = ("debug", "info", "warning", "error")

FORMAT_VARIABLE: Final = "BERTH_LOGGING_FORMAT"
"""`text` or `json`, for all processes of one berth; empty: what stderr is decides."""
_ROOT: Final = "berth"
_FIELDS: Final = "berth_fields"
_JOURNAL_PRIORITIES: Final = (7, 7, 6, 4, 3)
"""Of the levels, which are tens: debug is 10, error 40. All above is as bad for the journal."""
_JSON_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_UTC_Z


class EventLog:
    """Writes events with fields: `log.info("node_added", node=name, generation=7)`."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        """`name` is the part of the program, such as "supervisor" or "adapter.watch"."""
        self._logger = logging.getLogger(f"{_ROOT}.{name}")

    def debug(self, event: str, /, **fields: Any) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: Any) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: Any) -> None:
        self._write(logging.ERROR, event, fields)

    def exception(self, event: str, /, **fields: Any) -> None:
        """An error with the traceback of the exception that is being handled."""
        self._write(logging.ERROR, event, fields, has_traceback=True)

    def is_on(self, level: int) -> bool:
        """For callers whose fields are costly to make."""
        return self._logger.isEnabledFor(level)

    def _write(
        self, level: int, event: str, fields: dict[str, Any], *, has_traceback: bool = False
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={_FIELDS: fields}, exc_info=has_traceback)


def start_logging(process: str, level: str = "info", stream: TextIO | None = None) -> None:
    """Sends this process's log lines, warnings and uncaught exceptions to `stream` (stderr)."""
    assert level in LEVELS, f"log level {level!r} is not one of {LEVELS}"
    out = stream if stream is not None else sys.stderr
    handler = logging.StreamHandler(out)
    handler.setFormatter(_formatter(process, out))
    if level != "debug":  # Who asks for everything gets it.
        handler.addFilter(BurstFilter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger(_ROOT).setLevel(level.upper())
    logging.captureWarnings(capture=True)
    # A traceback in the middle of JSON lines would be lost to every collector.
    sys.excepthook = _log_uncaught


class BurstFilter(logging.Filter):
    """Lets `LINES_BURST` lines of an event through, and `LINES_PER_S` a second after that."""

    def __init__(self, monotonic_s: Callable[[], float] = SystemClock.monotonic_s) -> None:
        """Not by the time of day that a line bears: set back, it would silence events for as long."""
        super().__init__()
        self._monotonic_s = monotonic_s
        self._limits: dict[tuple[str, str], RateLimit] = {}
        self._left_out: Counter[tuple[str, str]] = Counter()
        """Lines since the last one that was written."""

    def filter(self, record: logging.LogRecord) -> bool:
        # The message before its arguments are put in: for all calls of one place it is the same.
        key = record.name, str(record.msg)
        limit = self._limits.get(key)
        if limit is None:
            if len(self._limits) >= LOGGED_EVENTS_MAX:
                # Texts that are never the same twice; none is limited then.
                self._limits.clear()
                self._left_out.clear()
            limit = self._limits[key] = RateLimit(LINES_PER_S, LINES_BURST)
        now_s = self._monotonic_s()
        if limit.wait_s(now_s):
            self._left_out[key] += 1
            return False
        limit.reserve(now_s)
        left_out = self._left_out.pop(key, 0)
        if left_out:
            setattr(record, _FIELDS, {**_fields_of(record), "left_out_before": left_out})
        return True


class _Formatter(logging.Formatter):
    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process


class JsonFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _utc(record),
            "level": record.levelname.lower(),
            "process": self._process,
            "logger": record.name.removeprefix(f"{_ROOT}."),
            "event": record.getMessage(),
        }
        for key, field in _fields_of(record).items():
            # A field never hides one of the five keys that collectors rely on.
            line[f"field_{key}" if key in line else key] = field
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str, option=_JSON_OPTIONS).decode()


class JournalFormatter(JsonFormatter):
    """JSON lines whose priority the journal can select by (`journalctl -p warning`)."""

    def format(self, record: logging.LogRecord) -> str:
        return f"<{_JOURNAL_PRIORITIES[min(record.levelno // 10, 4)]}>{super().format(record)}"


class TextFormatter(_Formatter):
    """For a terminal: time, level, process, event, key=value."""

    def format(self, record: logging.LogRecord) -> str:
        parts = [
            _utc(record)[11:23],
            f"{record.levelname.lower():7}",
            f"{self._process:10}",
            shown.one_line(record.getMessage()),
            *(f"{key}={_readable(field)}" for key, field in _fields_of(record).items()),
        ]
        text = " ".join(parts)
        if record.exc_info:
            text += "\n" + shown.lines(self.formatException(record.exc_info))
        return text


def _formatter(process: str, out: TextIO) -> logging.Formatter:
    asked_for = os.environ.get(FORMAT_VARIABLE, "")
    if asked_for == "json":
        return JsonFormatter(process)
    if asked_for == "text" or out.isatty():
        return TextFormatter(process)
    return JournalFormatter(process) if _is_journal(out) else JsonFormatter(process)


def _is_journal(out: TextIO) -> bool:
    """Whether systemd connected the stream to its journal: it names it in $JOURNAL_STREAM by device
    and inode (systemd.exec(5)), so that a stream that was redirected is told apart."""
    named = os.environ.get("JOURNAL_STREAM", "")
    if not named:
        return False
    try:
        status = os.fstat(out.fileno())
    except OSError:
        return False  # A stream without a file, as a StringIO is.
    return named == f"{status.st_dev}:{status.st_ino}"


def _fields_of(record: logging.LogRecord) -> Mapping[str, Any]:
    return getattr(record, _FIELDS, {})


def _utc(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _readable(field: Any) -> str:
    text = f"{field:.6g}" if isinstance(field, float) else str(field)
    is_plain = text and shown.one_line(text) == text
    if is_plain and not any(character in text for character in ' "='):
        return text
    # JSON escapes C0, but not DEL, C1 and what turns the direction of writing.
    whole = text.encode("utf-8", "backslashreplace").decode()
    return shown.one_line(orjson.dumps(whole).decode())


def _log_uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    logger = logging.getLogger(f"{_ROOT}.process")
    logger.critical("uncaught_exception", exc_info=(kind, error, traceback))
