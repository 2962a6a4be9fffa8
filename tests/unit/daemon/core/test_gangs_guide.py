"""The examples of docs/gangs.md: pods as whoever reads such a manifest makes them are in the group that
the guide's PodGroup is, and are placed together or not at all."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

from daemon.adapter.kind_feed import KindFeed
from shared.kube.api.core_v1 import Node
from shared.kube.foreign_groups import kinds_with
from shared.messages.to_owner import AdapterMessage, ObjectChanged, PodChanged
from tests.support.builders import make_node
from tests.unit.daemon.core.test_pod_groups import Gangs

GUIDE: Final = Path(__file__).parents[4] / "docs" / "gangs.md"
OBJECTS: Final = [
    each
    for block in re.findall("```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    for each in yaml.safe_load_all(block)
]
WORKLOADS: Final = [each for each in OBJECTS if each.get("kind") in ("Job", "PyTorchJob", "JobSet")]


def templates(workload: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Of each pod that its controller makes."""
    spec = workload["spec"]
    if workload["kind"] == "Job":
        yield from [spec["template"]] * spec["parallelism"]
    elif workload["kind"] == "PyTorchJob":
        for replicas in spec["pytorchReplicaSpecs"].values():
            yield from [replicas["template"]] * replicas["replicas"]
    else:
        for job in spec["replicatedJobs"]:
            yield from list(templates({"kind": "Job", **job["template"]})) * job["replicas"]


def told(whose: str, plural: str, items: list[dict[str, Any]]) -> list[AdapterMessage]:
    """What the owner hears of the objects."""
    messages: list[AdapterMessage] = []
    (kind,) = (each for each in kinds_with(whose) if each.plural == plural)
    feed = KindFeed(kind, lambda message, _: messages.append(message))
    feed.list_started()
    feed.page(json.dumps({"metadata": {"resourceVersion": "9"}, "items": items}).encode())
    return [one for one in messages if isinstance(one, PodChanged | ObjectChanged)]


def made(template: dict[str, Any], number: int) -> dict[str, Any]:
    """A pod of it; as the API server has it, limits are requests where nothing else is said."""
    (container,) = template["spec"]["containers"]
    resources = {"requests": container["resources"]["limits"], **container["resources"]}
    spec = {**template["spec"], "containers": [{**container, "resources": resources}]}
    return {"metadata": named(f"p{number}", **template.get("metadata", {})), "spec": spec}


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1", **more}


def node(number: int) -> Node:
    plain = make_node(f"n{number}", cpu="4")
    room = {**(plain.status.allocatable or {}), "example.com/gpu": "8"}
    status = msgspec.structs.replace(plain.status, allocatable=room)
    return msgspec.structs.replace(plain, status=status)


def test_there_is_one_example_of_each() -> None:
    assert [each["kind"] for each in WORKLOADS] == ["Job", "PyTorchJob", "JobSet"]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda each: each["kind"])
def test_the_pods_of_an_example_are_one_gang(workload: dict[str, Any]) -> None:
    wanted = list(templates(workload))
    is_own = "schedulingGroup" in wanted[0]["spec"]
    version = "scheduling.k8s.io/v1alpha2" if is_own else "scheduling.x-k8s.io/v1alpha1"
    (group,) = (each for each in OBJECTS if each.get("apiVersion") == version)
    whose = "" if is_own else "coscheduling"
    groups = told(whose, "podgroups", [{**group, "metadata": named(group["metadata"]["name"])}])
    pods = told(whose, "pods", [made(each, number) for number, each in enumerate(wanted)])
    assert len(pods) == 64
    berth = Gangs([node(number) for number in range(63)], are_foreign=not is_own)
    berth.tell(*groups, *pods)
    berth.settle()
    assert not berth.bound
    berth.add_node(node(63))
    berth.wait()
    assert len(berth.bound) == 64
