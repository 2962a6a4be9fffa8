"""The simulated API server as a child process of a test."""

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.waiting import HANG_S

_ROOT = Path(__file__).parents[2]


class RunningServer(NamedTuple):
    """Where a running server listens."""

    address: str
    host: str
    port: int
    process: "subprocess.Popen[str]"


@contextmanager
def running_server(*options: str) -> Iterator[RunningServer]:
    """Run `python -m bench.apiserver` with these options; it ends with the block, or with us."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.apiserver", "--exit-with-parent", *options],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        readable, _, _ = select.select([process.stdout], [], [], HANG_S)
        assert readable, "the server did not say that it listens"
        line = process.stdout.readline()
        assert line, f"the server ended with exit code {process.wait()} before it listened"
        address = json.loads(line)["address"]
        host, port = address.partition("://")[2].split(":")
        yield RunningServer(address, host, int(port), process)
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
