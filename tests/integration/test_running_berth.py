"""A whole berth from the outside: endpoints, comparison with the API server, reload."""

import asyncio
import json
import os
import signal
import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from daemon.commands.compare_caches import compare
from daemon.commands.show_status import status_lines
from daemon.overview.overview import BerthStatus
from daemon.trial.explain import explain
from daemon.trial.replay import in_the_shadow
from daemon.trial.trial import running_subject
from daemon.trial.what_if_command import what_if
from shared.config import SchedulerConfiguration
from shared.messages.to_owner import PodChanged
from tests.integration.test_leader import Stage, stage_in
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration


UNVERIFIED = ssl.create_default_context()
"""berth has made its certificate itself."""
UNVERIFIED.check_hostname = False
UNVERIFIED.verify_mode = ssl.CERT_NONE


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def get(port: int, path: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=HANG_S, context=UNVERIFIED) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


async def until_logged(stage: Stage, log: Path, event: bytes, times: int = 1) -> None:
    count = 0
    while count < times:
        stage.berths["a"].check()
        await asyncio.sleep(0.05)
        count = log.read_bytes().count(event)


async def until_page(
    stage: Stage, port: int, path: str, status: int, text: str, token: str = ""
) -> None:
    """A page is what the owner said last, if it answered in time."""
    seen = 0, ""
    while seen[0] != status or text not in seen[1]:
        stage.berths["a"].check()
        seen = await asyncio.to_thread(get, port, path, token)


async def a_berth_from_the_outside(folder: Path) -> None:
    async with stage_in(folder) as stage:
        port = free_port()
        token = folder / "token"
        token.write_text("secret\n")
        stage.start("a", "--secure-port", f"{port}", "--endpoints-token-file", str(token))
        stage.start("observer", "--observe", "--record", f"{folder}/day")
        await until_page(stage, port, "/readyz", 200, "")
        await stage.until_ready("observer")
        await stage.until_ready("a")
        await stage.create_pods(50)
        await stage.until_all_bound()
        await until_page(stage, port, "/livez", 200, "ok")
        await until_page(stage, port, "/readyz?verbose", 200, "[+]leaderElection ok\n")
        assert get(port, "/metrics")[0] == 401
        attempts = (
            'scheduler_schedule_attempts_total{result="scheduled",profile="default-scheduler"}'
        )
        for line in (
            'leader_election_master_status{name="kube-scheduler"} 1',
            'scheduler_cache_size{type="nodes"} 20',
            'scheduler_cache_size{type="pods"} 50',
            f"{attempts} 50",
        ):
            await until_page(stage, port, "/metrics", 200, f"{line}\n", token="secret")
        comparison = await asyncio.to_thread(compare, f"{folder}/a/run")
        assert comparison.differences == []
        assert (comparison.node_count, comparison.pod_count) == (20, 50)
        await explain_and_ask(f"{folder}/a/run")
        await what_the_observer_saw(stage, folder / "day")
        await reload_the_configuration(stage, port)
        await stage.create_pods(50)
        await stage.until_all_bound()


async def explain_and_ask(runtime_dir: str) -> None:
    subject = await asyncio.to_thread(running_subject, runtime_dir)
    record = next(one.pod for one in subject.messages if isinstance(one, PodChanged))
    explanation = await asyncio.to_thread(explain, runtime_dir, record.key)
    assert explanation.node == record.node_name
    assert record.node_name in [one.node for one in explanation.diagnosis.scores]
    assert explanation.queue is None, "it is bound"
    found = what_if(subject, drained=[record.node_name])
    assert record.key in [one.pod for one in found.placed]


async def what_the_observer_saw(stage: Stage, recording: Path) -> None:
    def has_seen_all(status: BerthStatus) -> bool:
        return status.owner is not None and status.owner.counters.get("foreign_binds") == 50

    status = await stage.until("observer", has_seen_all)
    assert "leading     no: it only observes" in status_lines(status)
    assert status.owner is not None
    assert status.owner.counters.get("scheduled", 0) == 0
    assert await asyncio.to_thread(stage.berths["observer"].stop) == 0
    report = in_the_shadow(recording, SchedulerConfiguration())
    assert report.bindings == 50
    assert report.counts["nowhere"] == report.counts["refused"] == 0


async def reload_the_configuration(stage: Stage, port: int) -> None:
    def backoff() -> int:
        document = json.loads(get(port, "/configz", "secret")[1])
        told: int = document["componentconfig"]["podMaxBackoffSeconds"]
        return told

    assert backoff() == 10
    config = stage.folder / "a" / "config.yaml"
    good = config.read_text()
    log = stage.folder / "a" / "berth.log"
    config.write_text(good + "nonsense: 1\n")
    os.kill(stage.berths["a"].pid, signal.SIGHUP)
    await until_logged(stage, log, b'"reload_refused"')
    assert backoff() == 10
    # A child that dies now is started with the configuration that is in use, not with the bad one.
    status = await stage.until("a", lambda s: s.owner is not None)
    os.kill(next(one.pid for one in status.processes if one.name == "scorer-0"), signal.SIGKILL)
    await stage.until(
        "a", lambda s: s.owner is not None and any(p.restart_count for p in s.processes)
    )
    config.write_text(good + "podMaxBackoffSeconds: 7\n")
    os.kill(stage.berths["a"].pid, signal.SIGHUP)
    told = 10
    while told != 7:
        stage.berths["a"].check()
        await asyncio.sleep(0.05)
        told = backoff()
    await until_logged(stage, log, b'"event":"ready"', times=2)


def test_a_berth_is_seen_from_the_outside_and_reloaded(tmp_path: Path) -> None:
    asyncio.run(a_berth_from_the_outside(tmp_path))
