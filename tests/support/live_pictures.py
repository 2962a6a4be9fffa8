"""A whole berth that can be looked at in a browser.

`python -m tests.support.live_pictures` makes the pictures in docs/pictures: of the demo's cluster in
three zones, of the demo's report, and of a day that was replayed.
"""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import orjson

from bench.demo.__main__ import main as run_demo_command
from bench.demo.workload import NAMESPACE, openb_workload
from bench.manual_clock import ManualClock
from bench.watched.watched_listing import NODES_PATH
from bench.watched.watched_load import create_all
from bench.watched.watched_processes import start_api_server, start_berth
from daemon.adapter.recording import Recorder
from daemon.trial import replay
from daemon.trial.trial import Placed
from shared import exit_codes
from shared.config import SchedulerConfiguration
from shared.kube.api_client import ApiClient
from shared.kube.cluster_access import access_at
from shared.kube.resources import ALL_KINDS
from tests.support.browser import Browser
from tests.support.free_ports import free_port_pair
from tests.support.subjects import openb_subject
from tests.support.waiting import HANG_S
from tests.support.watched_cluster import ZONES

PICTURES: Final = Path(__file__).parents[2] / "docs" / "pictures"
HISTORY: Final = 100_000


@asynccontextmanager
async def berth_to_look_at(
    folder: Path, nodes: Sequence[bytes], pods: Sequence[bytes]
) -> AsyncIterator[str]:
    """The address of its endpoints, when all pods were sent."""
    server, address = await start_api_server(folder, HISTORY, 0)
    client = ApiClient(access_at(address), timeout_s=60.0)
    try:
        await create_all(client, NODES_PATH, nodes)
        port = free_port_pair()
        at = ["--secure-port", f"{port}", "--bind-address", "127.0.0.1"]
        berth = await start_berth(folder, ["--server", address, *at])
        try:
            await create_all(client, f"/api/v1/namespaces/{NAMESPACE}/pods", pods)
            await _listening(port)
            yield f"https://127.0.0.1:{port}"
        finally:
            berth.stop()
    finally:
        await client.close()
        server.stop()


async def _listening(port: int) -> None:
    """A berth is ready without its endpoints, and a browser asks once."""
    async with asyncio.timeout(HANG_S):
        while True:
            with suppress(ConnectionError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.02)


def openb_bodies() -> tuple[list[bytes], list[bytes]]:
    """The demo's nodes, in zones, and its pods."""
    workload = openb_workload()
    nodes = []
    for index, body in enumerate(workload.nodes):
        node = orjson.loads(body)
        zone = ZONES[index * len(ZONES) // len(workload.nodes)]
        node["metadata"].setdefault("labels", {})["topology.kubernetes.io/zone"] = zone
        nodes.append(orjson.dumps(node))
    return nodes, [pod.body for pod in workload.pods]


def take(browser: Browser, url: str, folder: Path) -> None:
    """The pictures, of a berth whose pods were all tried."""
    folder.mkdir(exist_ok=True)
    browser.look(1280, 800)
    browser.go(f"{url}/ui")
    browser.wait("document.querySelectorAll('.zone').length === 3")
    browser.wait("state.seen.queue.unschedulable > 900 && !state.seen.queue.in_flight")
    browser.wait("state.history.length > 5 && !state.seen.rates.scheduled")
    browser.picture(folder / "live.png")
    browser.look(1280, 800, is_dark=True)
    browser.picture(folder / "live-dark.png")
    browser.look(390, 844)
    browser.picture(folder / "live-narrow.png")
    browser.look(1280, 800)
    browser.ask("document.querySelector('#pending button').click()")
    browser.wait("document.querySelector('#facts dl')")
    browser.ask("document.querySelector('#facts button').click()")
    browser.wait("facts.innerText.includes('Least missing on')")
    browser.ask("document.querySelector('#facts table').scrollIntoView()")
    browser.picture(folder / "live-pod.png", is_whole=False)


async def main(folder: Path) -> None:
    """Takes them all."""
    with tempfile.TemporaryDirectory(prefix="berth-pictures-") as scratch:
        nodes, pods = openb_bodies()
        async with berth_to_look_at(Path(scratch), nodes, pods) as url:
            with Browser() as browser:
                await asyncio.to_thread(take, browser, url, folder)


def take_report(folder: Path) -> None:
    """Of a run of the demo."""
    with tempfile.TemporaryDirectory(prefix="berth-pictures-") as scratch:
        report = Path(scratch) / "report.html"
        assert run_demo_command(["--report", str(report)]) == exit_codes.OK
        with Browser() as browser:
            for name, is_dark in (("report", False), ("report-dark", True)):
                browser.look(1280, 1180, is_dark=is_dark)
                browser.go(report.as_uri())
                browser.wait("document.querySelector('footer')")
                browser.picture(folder / f"{name}.png", is_whole=False)


def record_openb(
    folder: Path,
    pods_at_once: int = 40,
    pod_count: int | None = None,
    decided_by: SchedulerConfiguration | None = None,
) -> None:
    """The demo's cluster as a recorded day on which its pods came, some each ten seconds, and were bound
    right then where a configuration puts them, if one is given."""
    clock, workload = ManualClock(1.0), openb_workload()
    recorder = Recorder(folder, clock)
    for kind in ALL_KINDS:
        nodes = workload.nodes if kind.plural == "nodes" else []
        page = {
            "metadata": {"resourceVersion": "1"},
            "items": [_stored(body, f"node-{number}", 1) for number, body in enumerate(nodes)],
        }
        recorder.record(kind.plural, "list", b"")
        recorder.record(kind.plural, "page", orjson.dumps(page))
        recorder.record(kind.plural, "listed", b"")
    placed: dict[str, Placed] = {}
    if decided_by is not None:
        placed = openb_subject(pod_count).trial(decides=True, config=decided_by).placed
    for number, pod in enumerate(workload.pods[:pod_count]):
        if number % pods_at_once == 0:
            clock.advance(10.0)
        item = _stored(pod.body, f"pod-{number}", 2 * number + 2)
        recorder.record("pods", "line", orjson.dumps({"type": "ADDED", "object": item}))
        found = placed.get(f"pods-{number}")
        if found is not None:
            item["spec"]["nodeName"] = found.node_name
            item["metadata"]["resourceVersion"] = f"{2 * number + 3}"
            recorder.record("pods", "line", orjson.dumps({"type": "MODIFIED", "object": item}))
    recorder.close()


def _stored(body: bytes, uid: str, version: int) -> dict[str, Any]:
    item: dict[str, Any] = orjson.loads(body)
    item["metadata"] |= {"uid": uid, "resourceVersion": f"{version}"}
    return item


def take_replay(folder: Path) -> None:
    """Of that day by a configuration that packs, beside the defaults."""
    with tempfile.TemporaryDirectory(prefix="berth-pictures-") as scratch:
        day, config, page = (Path(scratch) / name for name in ("day", "other.yaml", "page.html"))
        record_openb(day)
        config.write_text(PACKING)
        arguments = [str(day), "--config", str(config), "--page", str(page)]
        assert replay.main(arguments) == exit_codes.OK
        with Browser() as browser:
            browser.look(1280, 1180)
            browser.go(page.as_uri())
            browser.wait("document.querySelector('footer')")
            browser.picture(folder / "replay.png", is_whole=False)


PACKING: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: nvidia.com/gpu, weight: 5}, {name: cpu, weight: 1}]
"""


if __name__ == "__main__":
    pictures = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    asyncio.run(main(pictures))
    take_report(pictures)
    take_replay(pictures)
