"""Alerts and dashboard: every series that they name is served, with the labels that they ask for."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from msgspec.structs import replace

from daemon.core.counters import Counters
from daemon.core.owner_counts import ALL_METRICS
from daemon.endpoints.metrics_text import metrics_text
from daemon.supervisor.process_list import ProcessUse
from tests.support.owner_answers import metrics_answer, status_answer
from tests.support.rights import documents
from tests.support.waiting import HANG_S

ROOT: Final = Path(__file__).parents[2]
MONITORING: Final = ROOT / "docs" / "manifests-monitoring"
DASHBOARD: Final = MONITORING / "grafana-dashboard.json"
SELECTOR: Final = re.compile(r"([a-z_]+)\{([^}]*)\}")
OF_PROMETHEUS: Final = {"job", "instance"}


def rules() -> list[dict[str, Any]]:
    (document,) = documents(MONITORING / "alerts.yaml")
    (group,) = document["spec"]["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def served() -> dict[str, set[str]]:
    """Series -> its labels."""
    counters = Counters()
    status = replace(status_answer(counters=counters.plain()), api_heard_s={"nodes": 1.0})
    process = ProcessUse(
        "owner",
        7,
        0.0,
        2,
        "",
        is_alive=True,
        cpu_s=1.5,
        rss_bytes=1000,
        rss_peak_bytes=2000,
        running_s=60.0,
    )
    text = metrics_text(metrics_answer(counters, status), [process], is_leading=True, now_s=2.0)
    series: dict[str, set[str]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, labels = line.partition(" ")[0].partition("{")
            series.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    for metric in ALL_METRICS.values():
        if metric.bounds:
            series[f"{metric.name}_bucket"] = {"le", *metric.label_names}
        else:
            series[metric.name] = set(metric.label_names)
    series["scheduler_schedule_attempts_total"] = {"result", "profile"}
    return series


def test_every_series_that_is_asked_for_is_served() -> None:
    known = served()
    asked = [selector for each in expressions() for selector in SELECTOR.findall(each)]
    assert len(asked) > 20
    for name, matchers in asked:
        assert name in known, name
        assert set(re.findall(r"(\w+)=", matchers)) <= known[name] | OF_PROMETHEUS, name


def test_every_alert_is_explained() -> None:
    told = (ROOT / "docs" / "operating.md").read_text()
    for rule in rules():
        assert f"`{rule['alert']}`" in told
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_the_files_are_applied_together_with_the_manifests() -> None:
    (listed,) = documents(MONITORING / "kustomization.yaml")
    files = {path.name for path in MONITORING.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(listed["resources"]) == {str(Path("..") / "manifests"), *files}
    (_, _, monitor) = documents(MONITORING / "servicemonitor.yaml")
    services = documents(ROOT / "docs" / "manifests" / "endpoints.yaml")
    (service,) = [each for each in services if each["kind"] == "Service"]
    assert monitor["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    (port,) = service["spec"]["ports"]
    assert monitor["spec"]["endpoints"][0]["port"] == port["name"]


def test_prometheus_takes_every_expression(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    panels = [{"record": f"panel:{n}", "expr": each} for n, each in enumerate(expressions())]
    path = tmp_path / "rules.yaml"
    groups = [{"name": "alerts", "rules": rules()}, {"name": "panels", "rules": panels}]
    path.write_text(yaml.safe_dump({"groups": groups}))
    done = subprocess.run(
        [promtool, "check", "rules", str(path)], capture_output=True, text=True, check=False,
        timeout=HANG_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
