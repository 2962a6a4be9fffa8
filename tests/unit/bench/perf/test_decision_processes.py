"""What the processes of a decisions run say, and who hears of it when nobody understands it."""

import asyncio
import os
from pathlib import Path

import pytest

from bench.perf.decision_processes import DecisionOptions, DecisionProcesses


def test_output_that_cannot_be_taken_ends_the_run(tmp_path: Path) -> None:
    def take(data: bytes) -> None:
        raise KeyError(data)

    async def scenario() -> None:
        processes = DecisionProcesses(tmp_path, DecisionOptions(), take)
        output, binder = os.pipe()
        os.write(binder, b"line")
        processes._read(output)
        os.close(output)
        os.close(binder)
        with pytest.raises(KeyError, match="line"):
            processes.check()

    asyncio.run(scenario())
