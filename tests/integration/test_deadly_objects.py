"""A whole berth, and a pod that its owner does not survive."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from bench.watched.processes import WatchedProcess, start_berth
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


def owner_deaths(berth: WatchedProcess, runtime_dir: Path) -> int:
    berth.check()
    listed = {entry.name: entry for entry in read_list(runtime_dir).processes}
    return listed["owner"].restart_count


def test_the_owner_dies_of_a_pod_and_the_others_are_scheduled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = install_plugins(tmp_path / "site", {"Deadly": f"{__name__}:Deadly"})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(ROOT)]))
    plugins = {"preEnqueue": {"enabled": [{"name": "Deadly"}]}}
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps(configuration(profile("default-scheduler", plugins))))
    cluster = LiveCluster()
    options = ["--server", cluster.address, "--config", str(config)]
    berth = asyncio.run(start_berth(tmp_path, [*options, "--workers", "1", "--binders", "1"]))
    monkeypatch.setattr(cluster, "check", lambda _: berth.check())
    try:
        cluster.add_node("n1")
        cluster.add_pod("before")
        assert cluster.bound("before") == "n1"
        cluster.add_pod("deadly", labels=DEADLY)
        cluster.add_pod("after")
        assert cluster.bound("after") == "n1"
        assert cluster.unschedulable("deadly", reason="SchedulerError") == WHY
        # The condition has come back to the owner before the next pod.
        cluster.add_pod("later")
        assert cluster.bound("later") == "n1"
        assert owner_deaths(berth, tmp_path / "run") == 3
        cluster.update_pod("deadly", lambda pod: pod["metadata"]["labels"].clear())
        assert cluster.bound("deadly") == "n1"
    finally:
        berth.stop()
        cluster.close()
