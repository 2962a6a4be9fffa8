"""/metrics/resources. Cases mirror pkg/scheduler/metrics/resources/resources_test.go, v1.36.2."""

import re
from typing import Any

import pytest

from daemon.core.overview_pages import PODS_A_PAGE, pod_resources_page
from daemon.endpoints.metrics_text import resources_text
from shared.messages.admin import PodResources
from tests.support.builders import make_node, make_pod
from tests.support.pipeline import Pipeline

SERIES = re.compile(r"(kube_pod_resource_(?:request|limit))\{(.*)\} (\S+)")


def container(name: str = "c", **amounts: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "resources": amounts}


def told(*pods: dict[str, Any]) -> dict[tuple[str, str], float]:
    """(metric, pod/node/scheduler/priority/resource/unit) -> amount, of pods made of such fields."""
    pipeline = Pipeline()
    made = [make_pod(**fields) for fields in pods]
    pipeline.sync([make_node("n0"), make_node("n1")], made)
    found = {}
    for line in resources_text(pages(pipeline)).splitlines():
        matched = SERIES.fullmatch(line)
        if matched is not None:
            labels = dict(re.findall(r'([a-z]+)="([^"]*)"', matched[2]))
            names = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
            assert tuple(labels) == names
            key = "/".join(labels[name] for name in names[1:])
            found[matched[1].removeprefix("kube_pod_resource_"), key] = float(matched[3])
    return found


def pages(pipeline: Pipeline) -> list[PodResources]:
    found: list[PodResources] = []
    while not found or found[-1].next_start > 0:
        start = found[-1].next_start if found else 0
        found.append(pod_resources_page(pipeline.state.cache, pipeline.state.queue, start))
    return found


def test_requests_and_limits_of_all_containers_with_their_units() -> None:
    spec = {
        "containers": [
            container(requests={"cpu": "1", "memory": "1G"}, limits={"cpu": "1500m"}),
            container("d", requests={"cpu": "0", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"}),
        ],
        "priority": 5,
    }
    on = "p/n1/default-scheduler/5"
    assert told({"name": "p", "node_name": "n1", "spec": spec}) == {
        ("request", f"{on}/cpu/cores"): 1.0,
        ("request", f"{on}/memory/bytes"): 1e9,
        ("request", f"{on}/example.com/gpu/"): 2.0,
        ("request", f"{on}/hugepages-2Mi/bytes"): 4194304.0,
        ("limit", f"{on}/cpu/cores"): 1.5,
    }


def test_init_containers_and_sidecars_count_as_for_scheduling_and_overhead_with_limits() -> None:
    spec = {
        "initContainers": [
            {**container("side", limits={"cpu": "1"}), "restartPolicy": "Always"},
            container("once", limits={"cpu": "4", "memory": "1"}),
        ],
        "containers": [container(limits={"cpu": "2"})],
        "overhead": {"cpu": "1", "memory": "9", "example.com/x": "1"},
    }
    found = told({"name": "p", "node_name": "n0", "spec": spec})
    limits = {key.split("/", 4)[4]: v for (kind, key), v in found.items() if kind == "limit"}
    assert limits == {"cpu/cores": 6.0, "memory/bytes": 10.0}


@pytest.mark.parametrize("node", ["n0", ""])
def test_pods_are_told_wherever_they_are(node: str) -> None:
    spec = {"containers": [container(requests={"cpu": "1"})]}
    found = told({"name": "p", "node_name": node, "spec": spec})
    assert found == {("request", f"p/{node}/default-scheduler/0/cpu/cores"): 1.0}


def test_many_pods_are_told_in_pages_each_once() -> None:
    pipeline = Pipeline()
    spec = {"containers": [container(requests={"cpu": "1m"})]}
    nodes = [make_node(f"n{i}") for i in range(5)]
    count = PODS_A_PAGE * 5 // 4
    pods = [make_pod(f"p{i}", node_name=f"n{i % 4}", spec=spec) for i in range(count)]
    pipeline.sync(nodes, [*pods, make_pod("waits", spec=spec)])
    found = pages(pipeline)
    assert len(found) == 2
    names = [pod.name for page in found for pod in page.pods]
    assert sorted(names) == sorted([*(f"p{i}" for i in range(count)), "waits"])
    assert all(len(page.templates) <= 1 for page in found)


def test_without_pods_nothing_is_told() -> None:
    assert resources_text([PodResources(-1, [], [])]) == ""
