"""Volumes before the binding: what is written, what is waited for, what goes wrong."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from shared.framework.binding_api import Allowed
from shared.kube.api_client import MERGE_PATCH
from shared.kube.api_errors import ApiError, Conflict, NotFound, RequestTimeout
from shared.kube.binding_work import MakeVolume, TakeVolume, VolumeWork
from tests.support.binding_work import with_work
from tests.unit.workers.binder.fake_api import FakeApi, make_order
from tests.unit.workers.binder.virtual_time import run_virtual
from workers.binder.api_bodies import node_path, volume_claim_path, volume_path
from workers.binder.volume_bind import VolumeBinder

POD = "/api/v1/namespaces/ns/pods/pod-u1"
TAKE = TakeVolume("pv", "1", True, "ns", "taking", "7", "uid-taking")
MAKE = MakeVolume("ns", "making", "1", "uid-making")


class FakeCluster(FakeApi):
    """Objects by path, with resource versions; `on_get` plays the controllers."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, dict[str, Any]] = {POD: {"metadata": {"name": "pod-u1"}}}
        self.patches: list[tuple[str, Any]] = []
        self.gets = 0
        self.on_get: Callable[[FakeCluster], None] = lambda _: None
        self.faults: list[ApiError | RequestTimeout] = []
        for path in (
            volume_path("pv"),
            volume_claim_path("ns", "taking"),
            volume_claim_path("ns", "making"),
        ):
            meta = {"resourceVersion": "1", "uid": "uid-" + path.rpartition("/")[2]}
            self.objects[path] = {"metadata": meta, "spec": {}}
        self.objects[node_path("n1")] = {"metadata": {"name": "n1", "labels": {"zone": "a"}}}

    async def get(self, path: str, *, timeout_s: float | None = None) -> bytes:
        self.gets += 1
        self.on_get(self)
        if self.faults:
            raise self.faults.pop()
        if path not in self.objects:
            raise NotFound(404, "NotFound", f"{path} not found")
        return json.dumps(self.objects[path]).encode()

    async def patch(
        self, path: str, body: bytes, content_type: str = "", *, timeout_s: float | None = None
    ) -> bytes:
        assert content_type == MERGE_PATCH
        patch = json.loads(body)
        held = self.objects[path]
        version = held["metadata"]["resourceVersion"]
        if patch["metadata"].pop("resourceVersion") != version:
            raise Conflict(409, "Conflict", "the object has been modified")
        self.patches.append((path, patch))
        annotations = held["metadata"].setdefault("annotations", {})
        annotations.update(patch["metadata"].get("annotations", {}))
        held["spec"].update(patch.get("spec", {}))
        held["metadata"]["resourceVersion"] = str(int(version) + 1)
        return b"{}"

    def replace(self, name: str, **annotations: str) -> None:
        """The claim is deleted, and one of the same name made, that is bound."""
        meta = {"resourceVersion": "9", "uid": "another", "annotations": annotations}
        self.objects[volume_claim_path("ns", name)] = {"metadata": meta, "spec": {}}
        self.bind(name)

    def bind(self, name: str) -> None:
        claim = self.objects[volume_claim_path("ns", name)]
        claim["spec"]["volumeName"] = "pv"
        annotations = claim["metadata"].setdefault("annotations", {})
        annotations["pv.kubernetes.io/bind-completed"] = "yes"


def bind(cluster: FakeCluster, *parts: TakeVolume | MakeVolume, timeout_s: float = 600) -> str:
    """The problem, or nothing."""
    take = [part for part in parts if isinstance(part, TakeVolume)]
    make = [part for part in parts if isinstance(part, MakeVolume)]
    work = VolumeWork(take, make, timeout_s)
    order = with_work(make_order(), work)
    answer = run_virtual(VolumeBinder(cluster).pre_bind(order))
    return "" if isinstance(answer, Allowed) else answer.message


def after(count: int, what: Callable[[FakeCluster], object]) -> Callable[[FakeCluster], None]:
    def on_get(cluster: FakeCluster) -> None:
        if cluster.gets >= count:
            what(cluster)

    return on_get


def test_volumes_are_given_and_asked_for_and_then_awaited() -> None:
    cluster = FakeCluster()

    def controllers(cluster: FakeCluster) -> None:
        cluster.bind("taking")
        cluster.bind("making")

    cluster.on_get = after(9, controllers)
    assert bind(cluster, TAKE, MAKE) == ""
    reference = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "ns", "name": "taking",
        "uid": "uid-taking", "resourceVersion": "7",
    }  # fmt: skip
    marked = {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}
    selected = {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}
    assert cluster.patches == [
        (volume_path("pv"), {"metadata": marked, "spec": {"claimRef": reference}}),
        (volume_claim_path("ns", "making"), {"metadata": selected}),
    ]


def test_a_volume_that_was_asked_for_is_not_marked() -> None:
    cluster = FakeCluster()
    cluster.bind("taking")
    assert bind(cluster, TakeVolume("pv", "1", False, "ns", "taking", "7", "uid-taking")) == ""
    ((_, patch),) = cluster.patches
    assert "annotations" not in patch["metadata"]


def test_an_order_that_comes_again_finds_its_own_words() -> None:
    cluster = FakeCluster()
    cluster.bind("taking")
    cluster.bind("making")
    assert bind(cluster, TAKE, MAKE) == ""
    assert bind(cluster, TAKE, MAKE) == ""
    assert len(cluster.patches) == 2


def test_somebody_elses_word_is_not_overwritten() -> None:
    cluster = FakeCluster()
    cluster.objects[volume_path("pv")]["metadata"]["resourceVersion"] = "2"
    told = "the object has been modified"
    assert bind(cluster, TAKE) == told
    cluster.objects[volume_claim_path("ns", "making")]["metadata"]["resourceVersion"] = "2"
    assert bind(cluster, MAKE) == told
    assert cluster.patches == []


@pytest.mark.parametrize(
    ("left", "problem"),
    [({}, "selectedNode annotation reset"), ({"another": "one"}, "provisioning failed")],
)
def test_a_node_that_is_taken_back_ends_it(left: dict[str, str], problem: str) -> None:
    cluster = FakeCluster()

    def give_up(cluster: FakeCluster) -> None:
        cluster.objects[volume_claim_path("ns", "making")]["metadata"]["annotations"] = left

    cluster.on_get = after(5, give_up)
    assert bind(cluster, MAKE) == f'binding volumes: {problem} for PVC "making"'


def test_a_volume_that_is_taken_back_ends_it() -> None:
    cluster = FakeCluster()

    def reset(cluster: FakeCluster) -> None:
        cluster.objects[volume_path("pv")]["spec"]["claimRef"] = None

    cluster.on_get = after(5, reset)
    assert bind(cluster, TAKE) == 'binding volumes: ClaimRef got reset for pv "pv"'


def test_a_claim_that_is_another_one_by_now_is_not_bound_in_place_of_the_reserved_one() -> None:
    told = 'binding volumes: PVC "{}" was deleted and made again in the meantime'
    cluster = FakeCluster()
    cluster.replace("taking")
    assert bind(cluster, TAKE) == told.format("taking")
    cluster = FakeCluster()
    cluster.replace("making", **{"volume.kubernetes.io/selected-node": "n1"})
    assert "modified" in bind(cluster, MAKE)
    cluster = FakeCluster()
    selected = {"volume.kubernetes.io/selected-node": "n1"}
    cluster.on_get = after(5, lambda c: c.replace("making", **selected))
    assert bind(cluster, MAKE) == told.format("making")


def reached_from(zone: str, **source: Any) -> dict[str, Any]:
    """A volume's spec."""
    here = [{"key": "zone", "operator": "In", "values": [zone]}]
    terms = {"nodeSelectorTerms": [{"matchExpressions": here}]}
    return {"nodeAffinity": {"required": terms}, **source}


@pytest.mark.parametrize("part", [TAKE, MAKE])
def test_a_volume_that_the_node_cannot_reach_ends_it(part: TakeVolume | MakeVolume) -> None:
    reason = 'node affinity doesn\'t match node "n1": no matching NodeSelectorTerms'
    for zone, expected in (("a", ""), ("b", f'binding volumes: pv "pv" {reason}')):
        cluster = FakeCluster()
        cluster.objects[volume_path("pv")]["spec"].update(reached_from(zone))
        cluster.bind("taking")
        cluster.bind("making")
        assert bind(cluster, part) == expected


def test_a_volume_for_another_node_by_name_does_not_end_it() -> None:
    cluster = FakeCluster()
    elsewhere = [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]
    terms = {"nodeSelectorTerms": [{"matchFields": elsewhere}]}
    spec = cluster.objects[volume_path("pv")]["spec"]
    spec["nodeAffinity"] = {"required": terms}
    cluster.bind("taking")
    assert bind(cluster, TAKE) == ""


def test_how_volumes_of_in_tree_plugins_are_reached_is_left_to_others() -> None:
    cluster = FakeCluster()
    disk = {"gcePersistentDisk": {"pdName": "disk"}}
    cluster.objects[volume_path("pv")]["spec"].update(reached_from("b", **disk))
    cluster.bind("taking")
    assert bind(cluster, TAKE) == ""


def test_a_new_volume_that_cannot_be_seen_yet_is_waited_for() -> None:
    cluster = FakeCluster()
    cluster.bind("making")
    volume = cluster.objects.pop(volume_path("pv"))
    cluster.on_get = after(6, lambda c: c.objects.setdefault(volume_path("pv"), volume))
    assert bind(cluster, MAKE) == ""
    assert cluster.gets >= 6


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (node_path("n1"), 'failed to get node "n1": node "n1" not found'),
        (POD, 'pod does not exist any more: pod "pod-u1" not found'),
        (volume_path("pv"), 'failed to check binding: persistentvolumes "pv" not found'),
        (
            volume_claim_path("ns", "taking"),
            'failed to check binding: persistentvolumeclaims "ns/taking" not found',
        ),
        (
            volume_claim_path("ns", "making"),
            'failed to check provisioning pvc: persistentvolumeclaims "ns/making" not found',
        ),
    ],
)
def test_what_is_gone_is_not_waited_for(path: str, problem: str) -> None:
    cluster = FakeCluster()
    cluster.on_get = after(5, lambda c: c.objects.pop(path, None))
    part = MAKE if path == volume_claim_path("ns", "making") else TAKE
    assert bind(cluster, part) == f"binding volumes: {problem}"


def test_by_the_labels_that_the_node_has_now_a_volume_is_reached() -> None:
    cluster = FakeCluster()
    cluster.objects[volume_path("pv")]["spec"].update(reached_from("b"))
    cluster.objects[node_path("n1")]["metadata"]["labels"]["zone"] = "b"
    cluster.bind("taking")
    assert bind(cluster, TAKE) == ""


def test_it_does_not_wait_for_ever() -> None:
    assert bind(FakeCluster(), MAKE, timeout_s=30) == "binding volumes: context deadline exceeded"


class SlowCluster(FakeCluster):
    """One that takes two seconds for each write."""

    async def patch(self, *args: Any, **others: Any) -> bytes:
        await asyncio.sleep(2.0)
        return await super().patch(*args, **others)


def test_the_time_is_for_the_waiting_not_for_what_is_written() -> None:
    cluster = SlowCluster()
    assert bind(cluster, TAKE, MAKE, timeout_s=0) == "binding volumes: context deadline exceeded"
    assert [path for path, _ in cluster.patches] == [
        volume_path("pv"),
        volume_claim_path("ns", "making"),
    ]
    cluster = SlowCluster()
    cluster.bind("taking")
    cluster.bind("making")
    assert bind(cluster, TAKE, MAKE, timeout_s=1) == ""


def test_a_server_in_trouble_is_asked_again() -> None:
    cluster = FakeCluster()
    cluster.faults = [ApiError(503, "", "later"), RequestTimeout("no answer")]
    cluster.bind("making")
    assert bind(cluster, MAKE) == ""
