"""The live page's way to `berth explain`: one at a time, with rests, bounded, and last in line."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.manual_clock import ManualClock
from daemon.endpoints import explainer as explainer_module
from daemon.endpoints.explainer import NICENESS, Explainer
from tests.support.waiting import HANG_S

SAYS_WHAT_IT_WAS_ASKED = "import json, sys; print(json.dumps(sys.argv[1:]))"
WAITS = "open(sys.argv[1] + '/pid', 'w').write(str(os.getpid())); open(sys.argv[1] + '/go').read()"


def explainer(folder: Path, script: str, clock: ManualClock | None = None) -> Explainer:
    command = [sys.executable, "-c", f"import os, sys; {script}", str(folder)]
    return Explainer(folder, clock or ManualClock(), command)


def asked(one: Explainer, key: str = "default/p") -> Any:
    return msgspec.json.decode(asyncio.run(one.explain(key)))


def test_the_command_is_asked_and_its_answer_handed_on(tmp_path: Path) -> None:
    told = asked(explainer(tmp_path, SAYS_WHAT_IT_WAS_ASKED))
    assert told == [str(tmp_path), "--runtime-dir", str(tmp_path), "default/p"]


@pytest.mark.parametrize(
    "key", ["", "p", "-o/p", "default/--node", "a/b/c", "a/b\0", "A/b", "a/" * 400]
)
def test_what_is_no_pod_reaches_no_command(tmp_path: Path, key: str) -> None:
    assert (
        "is no pod" in asked(explainer(tmp_path, "os.mkdir(sys.argv[1] + '/ran')"), key)["problem"]
    )
    assert not (tmp_path / "ran").exists()


def test_why_it_failed_is_told(tmp_path: Path) -> None:
    told = asked(explainer(tmp_path, "sys.exit('berth: there is no pod default/p')"))
    assert told == {"problem": "berth: there is no pod default/p"}
    nobody = Explainer(tmp_path, ManualClock(), [str(tmp_path / "nothing")])
    assert "cannot be started" in asked(nobody)["problem"]


def test_one_at_a_time_last_in_line_and_ended_with_who_asked(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    os.mkfifo(tmp_path / "pid")
    one = explainer(tmp_path, WAITS)

    async def main() -> None:
        first = asyncio.create_task(one.explain("default/p"))
        pid = int(await asyncio.to_thread((tmp_path / "pid").read_text))
        # It may run before it is put last.
        async with asyncio.timeout(HANG_S):
            score = Path(f"/proc/{pid}/oom_score_adj")
            while score.read_text().strip() != "1000":  # noqa: ASYNC110 # Nobody tells.
                await asyncio.sleep(0)
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, pid) == min(19, own + NICENESS)
        second = msgspec.json.decode(await one.explain("default/q"))
        assert "when that is done" in second["problem"]
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert not Path(f"/proc/{pid}").exists()

    asyncio.run(main())


def test_it_rests_as_long_as_it_worked(tmp_path: Path) -> None:
    clock = ManualClock()
    one = explainer(tmp_path, SAYS_WHAT_IT_WAS_ASKED, clock)
    run = one._run

    async def slow(key: str) -> bytes:
        clock.advance(8.0)
        return await run(key)

    one._run = slow
    assert asked(one)[-1] == "default/p"
    assert asked(one)["problem"].endswith("in 8 s")
    clock.advance(8.0)
    assert asked(one)[-1] == "default/p"


def test_one_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "go")
    monkeypatch.setattr(explainer_module, "EXPLAIN_S_MAX", 0.0)
    assert "no answer after" in asked(explainer(tmp_path, WAITS))["problem"]
