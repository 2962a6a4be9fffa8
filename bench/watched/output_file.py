"""Where the result of a run goes: opened before the work begins, and not lost in the end.

A result is written aside and then put in its place as a whole, so a run that fails leaves the last one.
What cannot be written in the end, as on a disk that has filled up meanwhile, goes to the system's folder
for temporary files, or else to standard output.
"""

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from shared.errors import ConfigurationError


class OutputFile:
    """One file. Close it (`with`), or what was made aside stays."""

    def __init__(self, option: str, path: Path) -> None:
        """ConfigurationError where it cannot be written."""
        self.path = path
        # What is no file, as /dev/stdout, is written as it is.
        is_special = path.exists() and not path.is_file()
        place = path.resolve() if path.is_file() else path
        self._aside = place if is_special else place.with_name(f".{place.name}.{os.getpid()}")
        self._place = place
        try:
            if path.is_dir() or not path.name:
                raise IsADirectoryError(0, "it is a folder")
            self._file = self._aside.open("wb")
        except OSError as error:
            problem = f"cannot be written: {error.strerror}; choose another place"
            raise ConfigurationError(f"{option} {path}", [problem]) from error

    def put(self, content: bytes) -> str:
        """Writes all of it; empty, or what is wrong and where it went instead."""
        try:
            with self._file:
                self._file.write(content)
            if self._aside != self._place:
                self._aside.replace(self._place)
        except OSError as error:
            return (
                f"{self.path}: cannot be written: {error.strerror}; {_rescued(self.path, content)}"
            )
        return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):  # `put` has told it.
            self._file.close()
        if self._aside != self._place:
            self._aside.unlink(missing_ok=True)


def put_file(path: Path, content: bytes) -> str:
    """As `OutputFile.put`, for a file of a folder that was found fit for it (`output_folder`)."""
    try:
        with OutputFile("", path) as file:
            return file.put(content)
    except ConfigurationError as error:
        return f"{path}: {error.problems[0]}; {_rescued(path, content)}"


def output_folder(option: str, path: Path) -> Path:
    """Makes the folder if need be; ConfigurationError where nothing can be written there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        problem = f"cannot be written: {error.strerror}; choose another place"
        raise ConfigurationError(f"{option} {path}", [problem]) from error


def figures_json(figures: msgspec.Struct) -> bytes:
    """Indented."""
    return msgspec.json.format(msgspec.json.encode(figures), indent=2) + b"\n"


def _rescued(path: Path, content: bytes) -> str:
    try:
        fd, rescued = tempfile.mkstemp(prefix=f"{path.stem}-", suffix=path.suffix)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
    except OSError:
        sys.stdout.buffer.write(content + b"\n")
        sys.stdout.flush()
        return "it stands above"
    return f"it is in {rescued}"
