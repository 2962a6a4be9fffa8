"""A whole berth, and a pod that its owner, or its adapter, does not survive."""

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.watched.watched_processes import WatchedProcess, start_berth
from daemon.supervisor.process_list import read_list
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.status import SUCCESS, Status
from shared.in_hand import WHY
from tests.support.live import ROOT, configuration, install_plugins, profile
from tests.support.live_cluster import LiveCluster

pytestmark = pytest.mark.integration

DEADLY = {"for-whom": "the-owner"}


class Deadly:
    """What no boundary in the owner contains; PreEnqueue."""

    NAME = "Deadly"

    def __init__(self, given: dict[str, Any]) -> None:
        pass

    def pre_enqueue(self, pod: PodInfo, cluster: ClusterView) -> Status:
        if pod.labels.items() >= DEADLY.items():
            os._exit(3)
        return SUCCESS


DEADLY_ADAPTER = """
import os
import sys

if "daemon" in sys.orig_argv:
    from daemon.adapter import kind_feed

    message_of = kind_feed.message_of

    def deadly(kind, item, *, is_gone):
        if (item.metadata.labels or {}).get("for-whom") == "the-adapter":
            os._exit(3)
        return message_of(kind, item, is_gone=is_gone)

    kind_feed.message_of = deadly
"""
"""As `sitecustomize` of the supervisor, whose fork the adapter is. The adapter has no plugins, so what
it does not survive is put into it."""


def deaths(berth: WatchedProcess, runtime_dir: Path, child: str) -> int:
    berth.check()
    listed = {entry.name: entry for entry in read_list(runtime_dir).processes}
    return listed[child].restart_count


@contextmanager
def running(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str
) -> Iterator[tuple[LiveCluster, WatchedProcess]]:
    """A cluster with a node, and a berth that has bound a pod there."""
    cluster = LiveCluster()
    arguments = ["--server", cluster.address, *options, "--workers", "1", "--binders", "1"]
    berth = asyncio.run(start_berth(folder, arguments))
    monkeypatch.setattr(cluster, "check", lambda _: berth.check())
    try:
        cluster.add_node("n1")
        cluster.add_pod("before")
        assert cluster.bound("before") == "n1"
        yield cluster, berth
    finally:
        berth.stop()
        cluster.close()


def test_the_owner_dies_of_a_pod_and_the_others_are_scheduled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = install_plugins(tmp_path / "site", {"Deadly": f"{__name__}:Deadly"})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(ROOT)]))
    plugins = {"preEnqueue": {"enabled": [{"name": "Deadly"}]}}
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps(configuration(profile("default-scheduler", plugins))))
    with running(tmp_path, monkeypatch, "--config", str(config)) as (cluster, berth):
        cluster.add_pod("deadly", labels=DEADLY)
        cluster.add_pod("after")
        assert cluster.bound("after") == "n1"
        assert cluster.unschedulable("deadly", reason="SchedulerError") == WHY
        # The condition has come back to the owner before the next pod.
        cluster.add_pod("later")
        assert cluster.bound("later") == "n1"
        assert deaths(berth, tmp_path / "run", "owner") == 3
        cluster.update_pod("deadly", lambda pod: pod["metadata"]["labels"].clear())
        assert cluster.bound("deadly") == "n1"


def test_the_adapter_dies_of_a_pod_and_the_others_are_scheduled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(DEADLY_ADAPTER)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(ROOT)]))
    with running(tmp_path, monkeypatch) as (cluster, berth):
        cluster.add_pod("deadly", labels={"for-whom": "the-adapter"})
        cluster.add_pod("after")
        assert cluster.bound("after") == "n1"
        assert deaths(berth, tmp_path / "run", "adapter") == 3
        log = (tmp_path / "berth.log").read_text()
        assert "pods default/deadly" in log
        assert WHY in log
        cluster.update_pod("deadly", lambda pod: pod["metadata"]["labels"].clear())
        assert cluster.bound("deadly") == "n1"
        assert deaths(berth, tmp_path / "run", "adapter") == 3
