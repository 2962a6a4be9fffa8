"""The folder in which a run keeps its logs, and what is left of it when the run fails."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.errors import OperationalError


@contextmanager
def run_folder(name: str, failed: type[OperationalError]) -> Iterator[Path]:
    """A new folder. The caller removes it after a run that went well.

    An OperationalError becomes `failed`, which says where the logs are; they are kept.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"berth-{name}-"))
    try:
        yield folder
    except KeyboardInterrupt:
        shutil.rmtree(folder)
        raise
    except BaseException as error:
        first = _first_of(error)
        if not isinstance(first, OperationalError):
            raise
        raise failed(f"{first}\n(all logs are in {folder})") from error


def _first_of(error: BaseException) -> BaseException:
    """The failure that ended a group of tasks; the others were only cancelled for it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
