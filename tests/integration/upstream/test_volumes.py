"""Pods and their volumes: found, taken, made, waited for, through real processes.

Mirrors test/integration/volumescheduling of kube-scheduler, v1.36 (volume_binding_test.go and
storage_capacity_scoring_test.go): each test names its test there, each case is called as it is there.
As there, a volume controller is at work (tests/support/volume_controller.py), which finishes what the
scheduler has begun. The gate StorageCapacityScoring is on for all of them; it changes which node is
best, not which nodes will do.

Left out is TestRescheduleProvisioning, in which only the controller is at work.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.integration.upstream.volume_observer import AVAILABLE, ENTRY_POINTS, VolumeObserver
from tests.support.live import Json, LiveBerth, configuration, profile
from tests.support.live_cluster import LiveCluster
from tests.support.volume_controller import (
    CLAIMS,
    CLASSES,
    NOT_DYNAMIC,
    SELECTED_NODE,
    VOLUMES,
    VolumeController,
    on_node,
    set_phase,
)

pytestmark = pytest.mark.integration

OBSERVER: Final = VolumeObserver.NAME
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
WAIT: Final = "WaitForFirstConsumer"
CSI_DRIVERS: Final = "/apis/storage.k8s.io/v1/csidrivers"
CAPACITIES: Final = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities"

NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"
NOT_BOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
NO_SPACE: Final = "node(s) did not have enough free storage"
NOT_SELECTED: Final = "node(s) didn't match Pod's node affinity/selector"


# What is there all the time -----------------------------------------------------------------------


def storage_class(name: str, provisioner: str, mode: str = WAIT, node: str = "") -> Json:
    body: Json = {
        "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode,
    }  # fmt: skip
    if node:
        values = {"key": HOSTNAME, "values": [node]}
        body["allowedTopologies"] = [{"matchLabelExpressions": [values]}]
    return body


STATIC: Final = {
    "immediate": storage_class("immediate", NOT_DYNAMIC, "Immediate"),
    "wait": storage_class("wait", NOT_DYNAMIC),
    "ssd": storage_class("ssd", NOT_DYNAMIC),
    "hdd": storage_class("hdd", NOT_DYNAMIC),
    "immediate-made": storage_class("immediate-made", "mock", "Immediate"),
    "wait-made": storage_class("wait-made", "mock"),
    "topomismatch": storage_class("topomismatch", "mock", node="node-2"),
    "full": storage_class("full", "measured"),
    "spacious": storage_class("spacious", "measured"),
    "ignored": storage_class("ignored", "mock"),
    "driver-a": storage_class("driver-a", "driver-a"),
    "driver-b": storage_class("driver-b", "driver-b"),
    "driver-enabled": storage_class("driver-enabled", "driver-enabled"),
    "driver-disabled": storage_class("driver-disabled", "driver-disabled"),
}
MEASURED: Final = {
    "measured": True, "driver-a": True, "driver-b": True,
    "driver-enabled": True, "driver-disabled": False,
}  # fmt: skip
"""Drivers, and whether they tell their capacity."""
SPACE: Final = [
    ("spacious", "", "6Gi"), ("ignored", "", "1Gi"),
    ("driver-a", "zone-a", "6Gi"), ("driver-a", "zone-b", "12Gi"),
    ("driver-b", "zone-a", "12Gi"), ("driver-b", "zone-b", "6Gi"),
    ("driver-enabled", "zone-b", "12Gi"),
]  # fmt: skip
"""Class, zone (all if empty), capacity; a claim wants 5Gi."""


def _prepare(cluster: LiveCluster) -> None:
    for body in STATIC.values():
        cluster.create(CLASSES, "StorageClass", body)
    for name, tells in MEASURED.items():
        body = {"metadata": {"name": name}, "spec": {"storageCapacity": tells}}
        cluster.create(CSI_DRIVERS, "CSIDriver", body)
    for name, zone, capacity in SPACE:
        body = {
            "metadata": {"name": f"{name}-{zone or 'all'}"},
            "storageClassName": name, "capacity": capacity,
            "nodeTopology": {"matchLabels": {ZONE: zone}} if zone else {},
        }  # fmt: skip
        cluster.create(CAPACITIES, "CSIStorageCapacity", body)


def start_berth() -> LiveBerth:
    alone = {"disabled": [{"name": "*"}], "enabled": [
        {"name": name} for name in ("PrioritySort", "DefaultBinder", OBSERVER)
    ]}  # fmt: skip
    observing = profile(OBSERVER, {"multiPoint": alone})
    config = configuration(profile("default-scheduler"), observing)
    gates = "StorageCapacityScoring=true"
    return LiveBerth(config, ENTRY_POINTS, feature_gates=gates, before=_prepare)


# What a test makes --------------------------------------------------------------------------------

_TESTS = itertools.count()


class Storage:
    """The claims and volumes of one test.

    Their names are its own: news of what the test before took away may come late.
    """

    def __init__(
        self, live: LiveBerth, *nodes: str, labels: Mapping[str, Json] | None = None
    ) -> None:
        self.live = live
        self.controller = VolumeController(live)
        self._prefix = f"t{next(_TESTS)}-"
        for name in nodes:
            live.add_node(name, labels=(labels or {}).get(name, {}))
        live.add_pod(OBSERVER.lower(), scheduler=OBSERVER)

    def volume(self, name: str, of: str, claim: str = "", near: str = "", **more: Any) -> None:
        """Available, and known to the scheduler; `near`: the only node that reaches it."""
        spec: Json = {
            "storageClassName": of, "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": more.get("size", "5Gi")}, "local": {"path": "/test"},
        }  # fmt: skip
        if near:
            spec["nodeAffinity"] = on_node(near, more.get("key", HOSTNAME))
        if claim:
            spec["claimRef"] = {"namespace": "default", "name": self._prefix + claim}
        made = {"metadata": {"name": self._prefix + name}, "spec": spec}
        self.live.create(VOLUMES, "PersistentVolume", made)
        set_phase(self.live, f"{VOLUMES}/{self._prefix}{name}", "Available")
        self.live.wait_call(OBSERVER, AVAILABLE, self._prefix + name)

    def claim(self, name: str, of: str, volume: str = "", size: str = "5Gi") -> None:
        spec = {
            "storageClassName": of, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        }  # fmt: skip
        if volume:
            spec["volumeName"] = self._prefix + volume
        made = {"metadata": {"name": self._prefix + name}, "spec": spec}
        self.live.create(CLAIMS, "PersistentVolumeClaim", made)

    def pod(self, name: str, *claims: str, **given: Any) -> None:
        sources = [
            {"name": claim, "persistentVolumeClaim": {"claimName": self._prefix + claim}}
            for claim in claims
        ]
        spec = {"volumes": sources, **given.pop("spec", {})}
        self.live.add_pod(name, spec=spec, **given)

    def bound(self, name: str) -> str:
        """Works until the pod is bound; its node."""
        self.controller.work_until(lambda: self._node_of(name), f"pod {name} is bound")
        return self._node_of(name)

    def settle(self, claims: Sequence[str], volumes: Sequence[str] = ()) -> None:
        """Works until these are bound; the test fails if they will not be."""

        def are_bound() -> bool:
            return all(self._phase(CLAIMS, name) == "Bound" for name in claims) and all(
                self._phase(VOLUMES, name) == "Bound" for name in volumes
            )

        self.controller.work_until(are_bound, f"{claims} and {volumes} are bound")

    def are_free(self, claims: Sequence[str], volumes: Sequence[str]) -> None:
        """These were not bound, and nobody has begun to."""
        for name in claims:
            assert self._phase(CLAIMS, name) == "Pending"
            assert not self.was_made(name)
        for name in volumes:
            assert self._phase(VOLUMES, name) == "Available"
            assert "claimRef" not in self._get(VOLUMES, name)["spec"]

    def was_made(self, claim: str) -> bool:
        """A node was chosen to make the claim's volume for."""
        metadata = self._get(CLAIMS, claim)["metadata"]
        return SELECTED_NODE in metadata.get("annotations", {})

    def _node_of(self, name: str) -> str:
        node: str = self.live.pod(name)["spec"]["nodeName"] or ""
        return node

    def _get(self, path: str, name: str) -> Json:
        return self.live.ask("GET", f"{path}/{self._prefix}{name}")

    def _phase(self, path: str, name: str) -> str:
        phase: str = self._get(path, name)["status"]["phase"]
        return phase


@dataclass(frozen=True)
class Case:
    name: str
    claims: Mapping[str, str]
    """Claim -> class, with a volume behind a slash that it names itself; they are bound in the end."""
    volumes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Volume -> (class, with a claim behind a slash that it names itself; node); bound in the end."""
    free_volumes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    made: Mapping[str, str] = field(default_factory=dict)
    """Claims whose volumes are made for the pod."""
    why_not: str = ""
    """What is said of a pod that does not fit, and whose claims nobody touches."""


def play(live: LiveBerth, case: Case, *nodes: str) -> None:
    storage = Storage(live, *nodes)
    for name, (given, node) in {**case.volumes, **case.free_volumes}.items():
        of, _, claim = given.partition("/")
        storage.volume(name, of, claim, near=node)
    for name, given in {**case.claims, **case.made}.items():
        of, _, volume = given.partition("/")
        storage.claim(name, of, volume)
    claims = [*case.claims, *case.made]
    storage.pod("pod", *claims)
    if case.why_not:
        storage.controller.work()
        assert live.unschedulable("pod", contains=case.why_not)
        storage.are_free(claims, [*case.volumes, *case.free_volumes])
        return
    storage.bound("pod")
    storage.settle(claims, list(case.volumes))
    storage.are_free([], list(case.free_volumes))
    assert [name for name in claims if storage.was_made(name)] == list(case.made)


# Binding ------------------------------------------------------------------------------------------

BINDINGS: Final = [
    Case("immediate can bind", {"c": "immediate"}, {"v": ("immediate", "node-1")}),
    Case("immediate cannot bind", {"c": "immediate"}, why_not=NOT_BOUND),
    Case("immediate pvc prebound", {"c": "immediate/v"}, {"v": ("immediate", "node-1")}),
    Case("immediate pv prebound", {"c": "immediate"}, {"v": ("immediate/c", "node-1")}),
    Case("wait can bind", {"c": "wait"}, {"v": ("wait", "node-1")}),
    Case("wait cannot bind", {"c": "wait"}, why_not=NO_VOLUME),
    Case("wait pvc prebound", {"c": "wait/v"}, {"v": ("wait", "node-1")}),
    Case("wait pv prebound", {"c": "wait"}, {"v": ("wait/c", "node-1")}),
    Case("wait can bind two", {"c1": "wait", "c2": "wait"},
         {"v1": ("wait", "node-2"), "v2": ("wait", "node-2")}, {"v3": ("wait", "node-1")}),
    Case("wait cannot bind two", {"c1": "wait", "c2": "wait"}, {},
         {"v1": ("wait", "node-2"), "v2": ("wait", "node-1")}, why_not=NO_VOLUME),
    Case("mix immediate and wait", {"c1": "wait", "c2": "immediate"},
         {"v1": ("wait", "node-1"), "v2": ("immediate", "node-1")}),
]  # fmt: skip


@pytest.mark.parametrize("case", BINDINGS, ids=lambda case: case.name)
def test_volume_binding(live: LiveBerth, case: Case) -> None:
    """TestVolumeBinding, the case of the same name."""
    play(live, case, "node-1", "node-2")


def add_dynamic_class(storage: Storage, name: str) -> None:
    storage.live.create(CLASSES, "StorageClass", storage_class(name, "mock"))


def add_static_class(storage: Storage, name: str) -> None:
    storage.live.create(CLASSES, "StorageClass", storage_class(name, NOT_DYNAMIC))
    storage.volume("v", name, near="node-1")


def add_claim(storage: Storage, _: str) -> None:
    storage.claim("c", "wait")


@pytest.mark.parametrize(
    ("is_there", "rescue"),
    [
        pytest.param(
            "claim", add_dynamic_class,
            id="reschedule on WaitForFirstConsumer dynamic storage class add",
        ),
        pytest.param(
            "claim", add_static_class,
            id="reschedule on WaitForFirstConsumer static storage class add",
        ),
        pytest.param("volume", add_claim, id="reschedule on delay binding PVC add"),
    ],
)  # fmt: skip
def test_volume_binding_rescheduling(
    live: LiveBerth, is_there: str, rescue: Callable[[Storage, str], None]
) -> None:
    """TestVolumeBindingRescheduling, the case of the same name."""
    storage = Storage(live, "node-1", "node-2")
    name = f"local-storage-{next(_TESTS)}"
    if is_there == "claim":
        storage.claim("c", name)
    else:
        storage.volume("v", "wait", near="node-1")
    storage.pod("pod", "c")
    live.unschedulable("pod")
    rescue(storage, name)
    node = storage.bound("pod")
    storage.settle(["c"])
    assert rescue is add_dynamic_class or node == "node-1"


@pytest.mark.parametrize("of", ["wait", "wait-made"])
def test_volume_binding_stress(live: LiveBerth, of: str) -> None:
    """TestVolumeBindingStress ("wait") and TestVolumeBindingDynamicStressFast, with fewer pods; as
    there, every other volume is promised to its claim."""
    storage = Storage(live, "node-1")
    pods = {f"pod-{number}": [f"c{number}-{each}" for each in range(3)] for number in range(4)}
    claims = [claim for names in pods.values() for claim in names]
    for index, claim in enumerate(claims):
        if of == "wait":
            storage.volume(f"v-{claim}", of, claim if index % 2 else "", near="node-1")
        storage.claim(claim, of)
    for name, names in pods.items():
        storage.pod(name, *names)
    for name in pods:
        assert storage.bound(name) == "node-1"
    storage.settle(claims, [f"v-{claim}" for claim in claims] if of == "wait" else [])


def test_volume_binding_with_anti_affinity(live: LiveBerth) -> None:
    """TestVolumeBindingWithAntiAffinity: most volumes are on one node, and still each pod gets one of
    its own."""
    nodes = [f"node-{number}" for number in range(1, 5)]
    storage = Storage(live, *nodes)
    for index, node in enumerate([*nodes, *["node-1"] * 4]):
        storage.volume(f"v{index}", "wait", near=node)
    far = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "db"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [far]}
    spec = {"affinity": {"podAntiAffinity": required}}
    for index in range(len(nodes)):
        storage.claim(f"c{index}", "wait")
        storage.pod(f"pod-{index}", f"c{index}", labels={"app": "db"}, spec=spec)
    assert {storage.bound(f"pod-{index}") for index in range(len(nodes))} == set(nodes)
    storage.settle([f"c{index}" for index in range(len(nodes))])


@pytest.mark.parametrize("by", ["affinity", "selector"])
def test_pv_affinity_conflict(live: LiveBerth, by: str) -> None:
    """TestPVAffinityConflict: the volume is on another node than the pod wants to be."""
    storage = Storage(live, "node-1", "node-2", "node-3")
    storage.volume("v", "immediate", near="node-1")
    storage.claim("c", "immediate")
    storage.settle(["c"], ["v"])
    required = {"requiredDuringSchedulingIgnoredDuringExecution": on_node("node-2")["required"]}
    spec = {
        "affinity": {"affinity": {"nodeAffinity": required}},
        "selector": {"nodeSelector": {HOSTNAME: "node-2"}},
    }
    storage.pod("pod", "c", spec=spec[by])
    assert live.unschedulable("pod", contains=NOT_SELECTED).startswith("0/3 nodes are available")


# Making volumes -----------------------------------------------------------------------------------

PROVISIONS: Final = [
    Case("wait provisioned", {}, made={"m": "wait-made"}),
    Case("topolgy unsatisfied", {"c": "topomismatch"}, why_not=NO_VOLUME),
    Case("wait one bound, one provisioned", {"c": "wait-made"}, {"v": ("wait-made", "node-1")},
         made={"m": "wait-made"}),
    Case("one immediate pv prebound, one wait provisioned", {"c": "immediate-made"},
         {"v": ("immediate-made/c", "node-1")}, made={"m": "wait-made"}),
    Case("wait one pv prebound, one provisioned", {"c": "wait-made"},
         {"v": ("wait-made/c", "node-1")}, made={"m": "wait-made"}),
    Case("immediate provisioned by controller", {"c": "immediate-made"}),
]  # fmt: skip


@pytest.mark.parametrize("case", PROVISIONS, ids=lambda case: case.name)
def test_volume_provision(live: LiveBerth, case: Case) -> None:
    """TestVolumeProvision, the case of the same name."""
    play(live, case, "node-1")


SPACES: Final = [
    Case("baseline", {}, made={"m": "wait-made"}),
    Case("out of space", {"c": "full"}, why_not=NO_SPACE),
    Case("with space", {}, made={"m": "spacious"}),
    Case("ignored", {}, made={"m": "ignored"}),
]


@pytest.mark.parametrize("case", SPACES, ids=lambda case: case.name)
def test_capacity(live: LiveBerth, case: Case) -> None:
    """TestCapacity, the case of the same name."""
    play(live, case, "node-1")


# The emptiest storage -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Scored:
    name: str
    claims: Mapping[str, tuple[str, str]]
    """Claim -> (class, size)."""
    of: tuple[str, str]
    """Classes of the two volumes that each node has."""
    key: str = HOSTNAME


TWO_OF_SSD: Final = {"c1": ("ssd", "80Gi"), "c2": ("ssd", "80Gi")}
ONE_OF_EACH: Final = {"c1": ("ssd", "80Gi"), "c2": ("hdd", "80Gi")}
SIZES: Final = {"node-0": ("100Gi", "100Gi"), "node-1": ("200Gi", "200Gi"),
                "node-2": ("100Gi", "50Gi")}  # fmt: skip
"""The biggest are not on the first node, where a pod would go otherwise."""

SCORED: Final = [
    Scored("local volumes with max capacity are preferred", {"c1": ("ssd", "20Gi")}, ("ssd", "ssd")),
    Scored("local volumes with max capacity are preferred (multiple pvcs)", TWO_OF_SSD,
           ("ssd", "ssd")),
    Scored("local volumes with max capacity are preferred (multiple pvcs, multiple classes)",
           ONE_OF_EACH, ("ssd", "hdd")),
    Scored("zonal volumes with max capacity are preferred (multiple pvcs, multiple classes)",
           ONE_OF_EACH, ("ssd", "hdd"), ZONE),
]  # fmt: skip


@pytest.mark.parametrize("case", SCORED, ids=lambda case: case.name)
def test_storage_capacity_scoring(live: LiveBerth, case: Scored) -> None:
    """TestStorageCapacityScoring, the case of the same name."""
    zones = {node: {ZONE: f"zone-of-{node}"} for node in SIZES}
    storage = Storage(live, *SIZES, labels=zones)
    for node, sizes in SIZES.items():
        near = node if case.key == HOSTNAME else zones[node][ZONE]
        for index, (of, size) in enumerate(zip(case.of, sizes, strict=True)):
            storage.volume(f"v-{node}-{index}", of, near=near, key=case.key, size=size)
    for name, (of, size) in case.claims.items():
        storage.claim(name, of, size=size)
    storage.pod("pod", *case.claims)
    assert storage.bound("pod") == "node-1"
    storage.settle(list(case.claims))


@pytest.mark.parametrize(
    "drivers",
    [
        pytest.param(
            {"driver-a": ("node-2", {}), "driver-b": ("node-1", {})},
            id="multiple CSI drivers with storage capacity reporting enabled",
        ),
        pytest.param(
            {"driver-enabled": ("node-2", {}),
             "driver-disabled": ("node-1", {"nodeSelector": {ZONE: "zone-a"}})},
            id="mixed CSI driver storage capacity reporting enabled and disabled",
        ),
    ],
)  # fmt: skip
def test_storage_capacity_scoring_multi_driver(
    live: LiveBerth, drivers: Mapping[str, tuple[str, Json]]
) -> None:
    """TestStorageCapacityScoringMultiDriver, the case of the same name; nodes change places, so that
    the first pod does not go to the first node."""
    zones = {"node-1": {ZONE: "zone-a"}, "node-2": {ZONE: "zone-b"}}
    storage = Storage(live, *zones, labels=zones)
    for name in drivers:
        storage.claim(name, name)
    for name, (_, spec) in drivers.items():
        storage.pod(f"pod-{name}", name, spec=spec)
    assert {name: storage.bound(f"pod-{name}") for name in drivers} == {
        name: node for name, (node, _) in drivers.items()
    }
