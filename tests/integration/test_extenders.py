"""HTTP extenders from end to end: API server, every process of a berth, extenders over real HTTP."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from bench.watched.watched_processes import WatchedProcess, start_api_server, start_berth
from daemon.supervisor.process_list import read_list
from shared.kube.api_client import ApiClient
from shared.kube.cluster_access import access_at
from tests.support.fake_extender import FakeExtender, keeping, names_in, preferring
from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration

PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
RESOURCE = "example.com/foo"


class Stage:
    """An API server and a berth with extenders."""

    def __init__(self, folder: Path, extenders: list[dict[str, Any]]) -> None:
        self.folder = folder
        self.config = folder / "config.yaml"
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": extenders,
        }
        self.config.write_text(yaml.safe_dump(document))
        self.berth: WatchedProcess | None = None

    async def __aenter__(self) -> "Stage":
        self.server, self.address = await start_api_server(self.folder, 100_000, seed=1)
        self.client = ApiClient(access_at(self.address))
        return self

    async def start(self, *nodes: dict[str, Any]) -> None:
        """The cluster is there when berth begins."""
        for node in nodes:
            await self.client.post("/api/v1/nodes", json.dumps(node).encode())
        await self.client.post(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            json.dumps({"metadata": {"name": "high"}, "value": 10}).encode(),
        )
        gates = "--feature-gates=GenericWorkload=true,GangScheduling=true"
        self.berth = await start_berth(
            self.folder, ["--server", self.address, "--config", str(self.config), gates]
        )

    async def __aexit__(self, *_: object) -> None:
        if self.berth is not None:
            self.berth.stop()
        await self.client.close()
        self.server.stop()

    async def add_pod(self, name: str, cpu: str = "100m", **fields: Any) -> dict[str, Any]:
        body = await self.client.post(PODS, json.dumps(pod(name, cpu, **fields)).encode())
        made: dict[str, Any] = orjson.loads(body)
        return made

    async def add_gang(self, name: str, *pods: str, min_count: int) -> None:
        """Each pod asks for one of the extender's."""
        policy = {"gang": {"minCount": min_count}}
        body = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}}
        await self.client.post(GROUPS, json.dumps(body).encode())
        member = {"schedulingGroup": {"podGroupName": name}}
        for each in pods:
            await self.add_pod(each, limits={RESOURCE: "1"}, more=member)

    async def pod(self, name: str, is_so: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The pod once it is as awaited; the test's timeout is the limit."""
        while True:
            found: dict[str, Any] = orjson.loads(await self.client.get(f"{PODS}/{name}"))
            if is_so(found):
                return found
            if self.berth is not None:
                self.berth.check()
            await asyncio.sleep(0.02)

    async def node_of(self, name: str) -> str:
        found = await self.pod(name, lambda p: p["spec"].get("nodeName"))
        node: str = found["spec"]["nodeName"]
        return node

    async def refusal_of(self, name: str) -> dict[str, Any]:
        """Its PodScheduled condition once it has been refused."""
        found = await self.pod(name, lambda p: conditions(p))
        return conditions(found)[0]


def conditions(found: dict[str, Any]) -> list[dict[str, Any]]:
    told = found.get("status", {}).get("conditions") or []
    return [c for c in told if c["type"] == "PodScheduled" and c["status"] == "False"]


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"example.com/rack": f"rack of {name}"}},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
    }


def pod(
    name: str,
    cpu: str,
    priority_class: str = "",
    limits: Any = None,
    more: dict[str, Any] | None = None,
) -> dict[str, Any]:
    resources: dict[str, Any] = {"requests": {"cpu": cpu, **(limits or {})}}
    if limits:
        resources["limits"] = limits
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"example.com/note": "seen by extenders"}},
        "spec": {
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 0,
            **(more or {}),
            **({"priorityClassName": priority_class} if priority_class else {}),
            "containers": [{"name": "c", "image": "i", "resources": resources}],
        },
    }


def run(folder: Path, extenders: list[dict[str, Any]], body: Callable[[Stage], Any]) -> None:
    async def all_of_it() -> None:
        async with Stage(folder, extenders) as stage:
            await body(stage)

    asyncio.run(all_of_it())


def test_scheduler_extender(tmp_path: Path) -> None:
    """TestSchedulerExtender (test/integration/scheduler/extender/extender_test.go): three extenders,
    one of which keeps nodes itself; the second binds."""
    made: list[Stage] = []

    def bind(arguments: dict[str, Any]) -> dict[str, Any]:
        name, target = arguments["PodName"], arguments["Node"]
        bound = asyncio.run(post_binding(made[0].address, name, arguments["PodUID"], target))
        return {"Error": bound}

    first = FakeExtender(filter=keeping("machine1", "machine2", "machine3"),
                         prioritize=preferring("machine2"))  # fmt: skip
    second = FakeExtender(filter=keeping("machine2", "machine3", "machine5"),
                          prioritize=preferring("machine3"), bind=bind)  # fmt: skip
    third = FakeExtender(filter=keeping("machine1", "machine2", "machine3"),
                         prioritize=preferring("machine2"))  # fmt: skip
    with first, second, third:
        verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize"}
        extenders = [
            {"urlPrefix": first.url, **verbs, "weight": 3},
            {"urlPrefix": second.url, **verbs, "weight": 4, "bindVerb": "bind"},
            {"urlPrefix": third.url, **verbs, "weight": 10, "nodeCacheCapable": True},
        ]

        async def body(stage: Stage) -> None:
            made.append(stage)
            await stage.start(*(node(f"machine{i}") for i in range(1, 6)))
            await stage.add_pod("p")
            assert await stage.node_of("p") == "machine2"

        run(tmp_path, extenders, body)
    asked = first.asked("filter")[0]
    assert asked["Pod"]["metadata"]["annotations"] == {"example.com/note": "seen by extenders"}
    assert len(names_in(asked)) == 5
    sent = asked["Nodes"]["items"][0]["metadata"]
    assert sent["annotations"]["example.com/rack"] == f"rack of {sent['name']}"
    assert sorted(names_in(second.asked("filter")[0])) == ["machine1", "machine2", "machine3"]
    assert sorted(third.asked("filter")[0]["NodeNames"]) == ["machine2", "machine3"]
    assert len(second.asked("bind")) == 1


async def post_binding(address: str, name: str, uid: str, target: str) -> str:
    client = ApiClient(access_at(address))
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "uid": uid},
        "target": {"kind": "Node", "name": target},
    }
    await client.post(f"{PODS}/{name}/binding", json.dumps(body).encode())
    await client.close()
    return ""


def test_a_pod_that_extenders_refuse_everywhere_says_why(tmp_path: Path) -> None:
    with FakeExtender(filter=keeping()) as extender:
        extenders = [{"urlPrefix": extender.url, "filterVerb": "filter", "nodeCacheCapable": True}]

        async def body(stage: Stage) -> None:
            await stage.start(node("a"), node("b", cpu="50m"))
            await stage.add_pod("p")
            told = await stage.refusal_of("p")
            assert told["reason"] == "Unschedulable"
            assert told["message"].startswith(
                "0/2 nodes are available: 1 Insufficient cpu, 1 a is not for us. "
            )
            # Any event may change an extender's mind.
            extender._handlers["filter"] = keeping("a")
            await stage.client.post("/api/v1/nodes", json.dumps(node("c")).encode())
            assert await stage.node_of("p") == "a"

        run(tmp_path, extenders, body)


def test_an_extender_that_cannot_be_reached_fails_its_pods_and_no_others(tmp_path: Path) -> None:
    with FakeExtender() as gone:
        url = gone.url
    extenders = [
        {
            "urlPrefix": url,
            "filterVerb": "filter",
            "managedResources": [{"name": RESOURCE, "ignoredByScheduler": True}],
        }
    ]

    async def body(stage: Stage) -> None:
        await stage.start(node("a"))
        await stage.add_pod("wants", limits={RESOURCE: "1"})
        await stage.add_pod("plain")
        assert await stage.node_of("plain") == "a"
        told = await stage.refusal_of("wants")
        assert told["reason"] == "SchedulerError"
        assert f"failed filter with extender at URL {url}/filter" in told["message"]

    run(tmp_path, extenders, body)


def test_a_slow_extender_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    let_go = threading.Event()

    def wait(arguments: dict[str, Any]) -> dict[str, Any]:
        let_go.wait(HANG_S)
        answer: dict[str, Any] = keeping("a")(arguments)
        return answer

    with FakeExtender(filter=wait) as extender:
        extenders = [
            {
                "urlPrefix": extender.url,
                "filterVerb": "filter",
                "httpTimeout": f"{HANG_S:.0f}s",
                "managedResources": [{"name": RESOURCE, "ignoredByScheduler": True}],
            }
        ]

        async def body(stage: Stage) -> None:
            await stage.start(node("a"), node("b"))
            # More than are asked about at a time, and than a worker is given of other pods.
            for number in range(20):
                await stage.add_pod(f"slow-{number}", cpu="10m", limits={RESOURCE: "1"})
            await stage.pod("slow-0", lambda _: extender.calls)
            await stage.add_pod("plain")
            await stage.node_of("plain")
            let_go.set()
            for number in range(20):
                assert await stage.node_of(f"slow-{number}") == "a"

        try:
            run(tmp_path, extenders, body)
        finally:
            let_go.set()


def test_preemption_with_extenders(tmp_path: Path) -> None:
    """TestPreemption's part with extenders: they choose the node and are told the victims."""

    def preempt(arguments: dict[str, Any]) -> dict[str, Any]:
        victims = arguments["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {"b": victims["b"]}}

    with FakeExtender(preempt=preempt) as extender:
        extenders = [
            {"urlPrefix": extender.url, "preemptVerb": "preempt", "nodeCacheCapable": True}
        ]

        async def body(stage: Stage) -> None:
            await stage.start(node("a", cpu="1"), node("b", cpu="1"))
            for name in ("one", "two"):
                await stage.add_pod(name, cpu="900m")
                await stage.node_of(name)
            await stage.add_pod("important", cpu="900m", priority_class="high")
            assert await stage.node_of("important") == "b"

        run(tmp_path, extenders, body)
    asked = extender.asked("preempt")[0]
    assert sorted(asked["NodeNameToMetaVictims"]) == ["a", "b"]
    assert all(len(each["Pods"]) == 1 for each in asked["NodeNameToMetaVictims"].values())


def test_whole_victims_are_sent_to_an_extender_without_a_cache(tmp_path: Path) -> None:
    def preempt(arguments: dict[str, Any]) -> dict[str, Any]:
        answer = {
            name: {
                "Pods": [{"UID": p["metadata"]["uid"]} for p in victims["Pods"]],
                "NumPDBViolations": victims["NumPDBViolations"],
            }
            for name, victims in arguments["NodeNameToVictims"].items()
        }
        return {"NodeNameToMetaVictims": answer}

    with FakeExtender(preempt=preempt) as extender:
        extenders = [{"urlPrefix": extender.url, "preemptVerb": "preempt"}]

        async def body(stage: Stage) -> None:
            await stage.start(node("a", cpu="1"))
            await stage.add_pod("low", cpu="900m")
            await stage.node_of("low")
            await stage.add_pod("important", cpu="900m", priority_class="high")
            assert await stage.node_of("important") == "a"

        run(tmp_path, extenders, body)
    victim = extender.asked("preempt")[0]["NodeNameToVictims"]["a"]["Pods"][0]
    assert victim["metadata"]["name"] == "low"
    assert victim["spec"]["containers"][0]["image"] == "i"


class Devices:
    """An extender as those for shares of GPUs: it knows how many each node has, chooses the node in
    Filter, and counts what it gave."""

    def __init__(self, **counts: int) -> None:
        self.free = counts
        self.given: dict[str, str] = {}
        """Pod -> node."""

    def filter(self, arguments: dict[str, Any]) -> dict[str, Any]:
        name = arguments["Pod"]["metadata"]["name"]
        former = self.given.pop(name, None)
        if former is not None:
            self.free[former] += 1
        fitting = [node for node in arguments["NodeNames"] if self.free[node]]
        if not fitting:
            full = dict.fromkeys(arguments["NodeNames"], "no device")
            return {"NodeNames": [], "FailedNodes": full}
        chosen = min(fitting)
        self.given[name] = chosen
        self.free[chosen] -= 1
        return {"NodeNames": [chosen]}


MANAGED = {
    "filterVerb": "filter",
    "nodeCacheCapable": True,
    "managedResources": [{"name": RESOURCE, "ignoredByScheduler": True}],
}


def test_a_gang_is_placed_where_the_extender_has_devices_for_all_of_it(tmp_path: Path) -> None:
    devices = Devices(a=1, b=2, c=0)
    with FakeExtender(filter=devices.filter) as extender:

        async def body(stage: Stage) -> None:
            await stage.start(node("a"), node("b"), node("c"))
            await stage.add_gang("train", "p1", "p2", "p3", min_count=3)
            found = {name: await stage.node_of(name) for name in ("p1", "p2", "p3")}
            assert found == devices.given
            assert sorted(found.values()) == ["a", "b", "b"]

        run(tmp_path, [{"urlPrefix": extender.url, **MANAGED}], body)
    asked = [each["Pod"]["metadata"]["name"] for each in extender.asked("filter")]
    assert asked == ["p1", "p2", "p3"]


def test_a_gang_that_the_extender_has_too_few_devices_for_is_not_placed_before_it_has(
    tmp_path: Path,
) -> None:
    devices = Devices(a=1, b=0, c=2)
    with FakeExtender(filter=devices.filter) as extender:

        async def body(stage: Stage) -> None:
            await stage.start(node("a"), node("b"))
            await stage.add_gang("train", "p1", "p2", "p3", min_count=3)
            told = await stage.refusal_of("p3")
            assert told["reason"] == "Unschedulable"
            assert told["message"].startswith("0/2 nodes are available: 2 no device. ")
            await stage.add_pod("plain")
            assert await stage.node_of("plain")
            await stage.client.post("/api/v1/nodes", json.dumps(node("c")).encode())
            found = [await stage.node_of(name) for name in ("p1", "p2", "p3")]
            assert sorted(found) == ["a", "c", "c"]

        run(tmp_path, [{"urlPrefix": extender.url, **MANAGED}], body)


def test_a_gang_outlives_an_extender_that_fails_and_the_scorer_that_asks_it(
    tmp_path: Path,
) -> None:
    devices, let_go = Devices(a=9), threading.Event()
    kinds = iter(["fails", "is silent"])

    def answer(arguments: dict[str, Any]) -> Any:
        kind = next(kinds, "")
        if kind == "fails":
            return 500
        if kind == "is silent":
            let_go.wait(HANG_S)
        return devices.filter(arguments)

    with FakeExtender(filter=answer) as extender:

        async def body(stage: Stage) -> None:
            await stage.start(node("a"))
            await stage.add_gang("train", "p1", "p2", min_count=2)
            told = await stage.refusal_of("p1")
            assert told["reason"] == "SchedulerError"
            await stage.pod("p1", lambda _: len(extender.calls) > 1)
            await stage.add_pod("plain")
            assert await stage.node_of("plain") == "a"
            processes = read_list(stage.folder / "run").processes
            os.kill(next(one.pid for one in processes if one.name == "scorer-0"), signal.SIGKILL)
            assert [await stage.node_of(name) for name in ("p1", "p2")] == ["a", "a"]

        try:
            silent = {"httpTimeout": f"{HANG_S:.0f}s"}
            run(tmp_path, [{"urlPrefix": extender.url, **MANAGED, **silent}], body)
        finally:
            let_go.set()
