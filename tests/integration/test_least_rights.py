"""All of a berth at an API server that grants it the rights of the manifest and nothing else.

The run uses everything that berth does in a cluster: preemption, volumes that are bound and volumes
that are made, devices, events, conditions. Whatever is not granted is refused with 403, so a missing
right is seen twice: in the list of refusals, and by what does not happen. A right that the run never
used is one too many.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from bench.apiserver import api_status as status
from bench.apiserver.api_faults import AnswerFault, Refuse, RequestFault, WatchFault
from bench.apiserver.router import Request
from bench.apiserver.watching import WatchCursor
from tests.support.kubeconfigs import kubeconfig_of
from tests.support.live_cluster import AUTHORIZATION, LiveCluster
from tests.support.rights import Right, documents, right_needed, rights_of
from tests.support.waiting import HANG_S, Fields

pytestmark = pytest.mark.integration

ROOT: Final = Path(__file__).parents[2]
MANIFESTS: Final = ROOT / "docs" / "manifests"
CORE: Final = "/api/v1"
DEFAULT: Final = "/api/v1/namespaces/default"
STORAGE: Final = "/apis/storage.k8s.io/v1"
DEVICES: Final = "/apis/resource.k8s.io/v1"
EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/default/events"
Json = dict[str, Any]

NO_PATH_OF_ITS_OWN: Final = {
    # kube-apiserver asks for it on top of resourceclaims/status; the simulated server does not
    # (pkg/registry/resource/resourceclaim/strategy.go, v1.36).
    Right("update", "resource.k8s.io", "resourceclaims/binding"),
}
REFUSED_ONCE: Final = "card"
"""The pod that is bound only when berth tries again."""


class Guard:
    """An authorizer: refuses berth what the manifest does not grant, and remembers all it asked for."""

    is_active = True

    def __init__(self, granted: set[Right]) -> None:
        self.granted = granted
        self.used: set[Right] = set()
        self.refused: set[Right] = set()
        self.failed: set[str] = set()
        """Pods of which a binding was refused, whatever the rights."""

    def before_request(self, request: Request) -> RequestFault | None:
        needed = right_needed(request)
        if needed is None or request.authorization == AUTHORIZATION:
            return None
        covering = {right for right in self.granted if right.covers(needed)}
        self.used |= covering
        is_to_fail = needed.resource == "pods/binding" and needed.name == REFUSED_ONCE
        if is_to_fail and not self.failed:
            self.failed.add(needed.name)
            return Refuse(status.forbidden(needed.resource, needed.name, "not yet"))
        if covering:
            return None
        self.refused.add(needed)
        return Refuse(status.forbidden(needed.resource, needed.name, f"may not {needed.verb}"))

    def before_answer(self, request: Request, code: int) -> AnswerFault | None:
        return None

    def before_watch_event(self, cursor: WatchCursor) -> WatchFault | None:
        return None


class Site(LiveCluster):
    """The guarded API server in a thread, and a berth that runs as the manifests say."""

    def __init__(self, folder: Path) -> None:
        self.guard = Guard(set(rights_of("berth", MANIFESTS / "rbac.yaml")))
        super().__init__(faults=self.guard)
        self.folder = folder
        self.log = folder / "berth.log"
        (config_map,) = documents(MANIFESTS / "config.yaml")
        (folder / "berth.yaml").write_text(config_map["data"]["berth.yaml"])
        access = kubeconfig_of({"server": self.address})
        (folder / "kubeconfig").write_text(json.dumps(access))
        with self.log.open("wb") as log:
            self._berth = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "daemon", "run"),
                    *("--config", str(folder / "berth.yaml")),
                    *("--kubeconfig", str(folder / "kubeconfig")),
                    *("--runtime-dir", str(folder / "run")),
                    *("--secure-port", "0"),
                    "--exit-with-parent",
                ],
                stdin=subprocess.PIPE,
                stderr=log,
            )

    def stop_berth(self) -> None:
        """Drains; when it returns berth has said all it had to say."""
        assert self._berth.stdin is not None
        self._berth.stdin.close()
        self._berth.wait(HANG_S)

    def close(self) -> None:
        if self._berth.poll() is None:
            self._berth.kill()
            self._berth.wait()
        if self._berth.stdin is not None:
            self._berth.stdin.close()
        super().close()

    def check(self, what: Callable[[], str]) -> None:
        assert self._berth.poll() is None, self.failure(what())

    def failure(self, what: str) -> AssertionError:
        log = self.log.read_text()[-4000:]
        return AssertionError(f"awaited in vain: {what}\nrefused: {self.guard.refused}\n{log}")

    def make(self, folder: str, kind: str, name: str, **fields: Any) -> Json:
        metadata = {"name": name, **fields.pop("metadata", {})}
        return self.create(folder, kind, {"metadata": metadata, **fields})

    def new_pod(
        self, name: str, cpu: str = "100m", more: dict[str, str] | None = None, **spec: Any
    ) -> None:
        """`more`: resources that it asks for as well."""
        resources = {"requests": {"cpu": cpu, **(more or {})}, "limits": more or {}}
        container = {"name": "c", "image": "i", "resources": resources}
        body = {"schedulerName": "berth", "containers": [container], **spec}
        self.make(f"{DEFAULT}/pods", "Pod", name, spec=body)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


def add_nodes(site: Site) -> None:
    for name in ("n1", "n2"):
        room = {"cpu": "4", "memory": "8Gi", "pods": "20"}
        labels = {"kubernetes.io/hostname": name}
        state = {"allocatable": room, "capacity": room}
        site.make(f"{CORE}/nodes", "Node", name, metadata={"labels": labels}, status=state)


def claim_spec(storage_class: str) -> Json:
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }


def volume_spec(storage_class: str) -> Json:
    return {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
    }


def uses(claim: str) -> list[Json]:
    return [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]


def finish_claim(site: Site, name: str, volume: str) -> None:
    """What the persistent volume controller does when volume and claim belong together."""
    path = f"{DEFAULT}/persistentvolumeclaims/{name}"
    claim = site.ask("GET", path)
    notes = claim["metadata"].setdefault("annotations", {})
    notes["pv.kubernetes.io/bind-completed"] = "yes"
    claim["spec"]["volumeName"] = volume
    site.ask("PUT", path, claim)


def bind_a_volume_that_is_there(site: Site) -> None:
    site.make(
        f"{STORAGE}/storageclasses",
        "StorageClass",
        "local",
        provisioner="kubernetes.io/no-provisioner",
        volumeBindingMode="WaitForFirstConsumer",
    )
    volumes = f"{CORE}/persistentvolumes"
    volume = site.make(volumes, "PersistentVolume", "pv", spec=volume_spec("local"))
    site.ask("PUT", f"{volumes}/pv/status", {**volume, "status": {"phase": "Available"}})
    claims = f"{DEFAULT}/persistentvolumeclaims"
    site.make(claims, "PersistentVolumeClaim", "local", spec=claim_spec("local"))
    site.new_pod("local", volumes=uses("local"))
    site.wait(f"{volumes}/pv", lambda volume: volume["spec"]["claimRef"], "is promised")
    finish_claim(site, "local", "pv")
    site.bound("local")


def have_a_volume_made(site: Site) -> None:
    site.make(
        f"{STORAGE}/storageclasses",
        "StorageClass",
        "made",
        provisioner="csi.example.com",
        volumeBindingMode="WaitForFirstConsumer",
    )
    claims = f"{DEFAULT}/persistentvolumeclaims"
    site.make(claims, "PersistentVolumeClaim", "made", spec=claim_spec("made"))
    site.new_pod("made", volumes=uses("made"))
    chosen = "volume.kubernetes.io/selected-node"
    site.wait(
        f"{claims}/made", lambda claim: claim["metadata"]["annotations"][chosen], "has its node"
    )
    site.make(f"{CORE}/persistentvolumes", "PersistentVolume", "new", spec=volume_spec("made"))
    finish_claim(site, "made", "new")
    site.bound("made")


def claim_devices(site: Site, name: str, count: int) -> None:
    """A claim, and a pod of the same name that uses it."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}
    site.make(
        f"{DEVICES}/namespaces/default/resourceclaims",
        "ResourceClaim",
        name,
        spec={"devices": {"requests": [request]}},
    )
    site.new_pod(name, resourceClaims=[{"name": "c", "resourceClaimName": name}])


def add_device(site: Site, node: str) -> None:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": node, "pool": pool, "devices": [{"name": "g"}]}
    site.make(f"{DEVICES}/resourceslices", "ResourceSlice", f"of-{node}", spec=spec)


def allocate_a_device(site: Site) -> None:
    site.make(f"{DEVICES}/deviceclasses", "DeviceClass", "gpu", spec={})
    add_device(site, "n1")
    claim_devices(site, "one", 1)
    assert site.bound("one") == "n1"


def fail_again_for_one_reason(site: Site) -> None:
    """An event; one of the pod as its condition has changed it, which is another; and that one as a
    series. Each change of a class wakes its pods."""
    claim_devices(site, "many", 5)

    def counts(events: Fields) -> list[int]:
        return [
            each["series"]["count"] or 1
            for each in events["items"]
            if each["regarding"]["name"] == "many" and each["reason"] == "FailedScheduling"
        ]

    def are_told(count: int, events: Fields) -> bool:
        return sum(counts(events)) >= count

    site.wait(EVENTS, counts, "are about the pod")
    for number in (2, 3):
        device_class = site.ask("GET", f"{DEVICES}/deviceclasses/gpu")
        device_class["metadata"]["labels"] = {"seen": f"{number} times"}
        site.ask("PUT", f"{DEVICES}/deviceclasses/gpu", device_class)
        site.wait(EVENTS, partial(are_told, number), f"tell of {number}")
    site.wait(EVENTS, lambda events: max(counts(events)) > 1, "are a series")


def take_back_a_claim_that_was_made(site: Site) -> None:
    """The claim of a pod that asks for an extended resource, as its first binding fails."""
    resource = "example.com/card"
    spec = {"extendedResourceName": resource}
    site.make(f"{DEVICES}/deviceclasses", "DeviceClass", "card", spec=spec)
    add_device(site, "n2")
    site.new_pod(REFUSED_ONCE, more={resource: "1"})
    assert site.bound(REFUSED_ONCE) == "n2"
    assert site.guard.failed == {REFUSED_ONCE}


def preempt(site: Site) -> None:
    for index in range(10):
        site.new_pod(f"low-{index}", cpu="800m", terminationGracePeriodSeconds=0)

    def are_full(pods: Fields) -> bool:
        """Four pods of 800m to each of two nodes: with the others there no more have room."""
        low = [pod for pod in pods["items"] if pod["metadata"]["name"].startswith("low-")]
        return sum("nodeName" in pod["spec"] for pod in low) == 8

    site.wait(f"{DEFAULT}/pods", are_full, "fill both nodes")
    site.make("/apis/scheduling.k8s.io/v1/priorityclasses", "PriorityClass", "high", value=1000)
    site.new_pod("high", cpu="3500m", priorityClassName="high")
    site.bound("high")


def unused_for_a_reason(site: Site) -> set[Right]:
    """Lists are the fall-back for servers that do not begin a watch with the list. A berth that started
    no process for leader election asks for no lease."""
    watched = {right._replace(verb="list") for right in site.guard.used if right.verb == "watch"}
    reasons = NO_PATH_OF_ITS_OWN | watched
    started = [json.loads(line) for line in site.log.read_text().splitlines()]
    if any(line["event"] == "child_started" and line["child"] == "leader" for line in started):
        return reasons
    return reasons | {right for right in site.guard.granted if right.resource == "leases"}


def test_berth_asks_for_what_the_role_grants_and_for_nothing_else(site: Site) -> None:
    add_nodes(site)
    bind_a_volume_that_is_there(site)
    have_a_volume_made(site)
    allocate_a_device(site)
    fail_again_for_one_reason(site)
    take_back_a_claim_that_was_made(site)
    preempt(site)
    site.stop_berth()
    assert site.guard.refused == set()
    unused = site.guard.granted - site.guard.used
    assert unused - unused_for_a_reason(site) == set()
