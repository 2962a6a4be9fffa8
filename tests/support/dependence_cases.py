"""One case for each thing that a plugin says its answers depend on: a change that makes them others.

`CASES` are small clusters and a change to each. Random clusters seldom show what depends on two things
at once (a pod of a node that is not there yet, a volume of one kind), so these are made by hand.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from bench.sim.slow_topology import HOST_NAME, PREFERRED, REQUIRED, ZONE
from daemon.core.cache import Cache
from shared.feature_gates import DRA_NODE_ALLOCATABLE_RESOURCES, VOLUME_LIMIT_SCALING, FeatureGates
from shared.framework.plugin_api import Reads
from shared.kube.api.apps_v1 import ReplicaSet, StatefulSet
from shared.kube.api.core_v1 import Namespace, Node, ReplicationController, Service
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.api.storage_v1 import VolumeAttachment
from tests.support.builders import make_node, make_pod
from tests.support.devices import (
    CLASS,
    allocated,
    device,
    first_available,
    make_claim,
    make_class,
    make_slice,
    request,
)
from tests.support.volumes import (
    claim_volumes,
    put_capacity,
    put_claim,
    put_class,
    put_csi_node,
    put_driver,
    put_volume,
)

Step = Callable[[Cache], object]
NODE: Final = Reads.NODE | Reads.IMAGES
PODS: Final = Reads.USAGE | Reads.PODS
DRIVER: Final = "csi.example.com"
WEB: Final[dict[str, Any]] = {"matchLabels": {"app": "web"}}
GPU: Final = "example.com/gpu"
GATES: Final = FeatureGates({VOLUME_LIMIT_SCALING: True, DRA_NODE_ALLOCATABLE_RESOURCES: True})
"""So that NodeVolumeLimits reads drivers, and DynamicResources what is left of a node."""


@dataclass(frozen=True)
class Case:
    """`pod` is asked about before and after `change`, which is to what `reads` says: to the node called
    `node`, to its pods, or to an object of this kind."""

    name: str
    reads: Reads
    change: Step
    pod: dict[str, Any] = field(default_factory=dict)
    given: Step = lambda cache: None
    node: str = "n0"
    kind: str = ""
    looks_at_feasible: bool = False
    """PreScore is told which nodes pass the filters, and not that all do."""
    has_hard_defaults: bool = False
    """PodTopologySpread has a default constraint that rejects."""

    def before(self) -> Cache:
        cache = Cache(GATES)
        for name, zone in (("n0", "a"), ("n1", "b")):
            cache.add_node(node(name, zone))
        self.given(cache)
        return cache


def node(name: str = "n0", zone: str = "a", **others: Any) -> Node:
    labels = {ZONE: zone, **others.pop("labels", {})}
    return make_node(name, labels=labels, **others)


def adds(**others: Any) -> Step:
    """The node as it is then."""
    made = node(**others)
    return lambda cache: cache.add_node(made)


def places(name: str = "there", at: str = "n0", **others: Any) -> Step:
    """A pod on a node."""
    spec = {**others.pop("spec", {}), "nodeName": at}
    return lambda cache: cache.add_pod(make_pod(name, node_name=at, spec=spec, **others))


def relabels(**labels: str) -> Step:
    """The pod that `places` has placed."""
    return lambda cache: cache.add_pod(
        make_pod("there", node_name="n0", spec={"nodeName": "n0"}, labels=labels)
    )


def puts(kind: str, key: str, body: Any, struct: type | None = None) -> Step:
    value = body if struct is None else msgspec.convert(body, struct)
    return lambda cache: cache.objects.put(kind, key, value)


def all_of(*steps: Step) -> Step:
    def run(cache: Cache) -> None:
        for step in steps:
            step(cache)

    return run


def declaring_features() -> Step:
    made = node()
    status = msgspec.structs.replace(
        made.status, declared_features=["UserNamespacesHostNetworkSupport"]
    )
    return lambda cache: cache.add_node(msgspec.structs.replace(made, status=status))


def affinity(kind: str, how: str, term: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"affinity": {kind: {how: term if kind == "nodeAffinity" else [term]}}}}


def spread(when: str) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": when,
        "labelSelector": WEB,
    }
    return {"labels": {"app": "web"}, "spec": {"topologySpreadConstraints": [constraint]}}


def preferring(kind: str, term: dict[str, Any], key: str = "podAffinityTerm") -> dict[str, Any]:
    return {"spec": {"affinity": {kind: {PREFERRED: [{"weight": 5, key: term}]}}}}


TERM: Final[dict[str, Any]] = {"topologyKey": ZONE, "labelSelector": WEB}
TEAM: Final[dict[str, Any]] = {**TERM, "namespaceSelector": {"matchLabels": {"team": "x"}}}
SSD: Final[dict[str, Any]] = {
    "matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]
}
DISK: Final[dict[str, Any]] = {
    "spec": {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "a"}}]}
}
CLAIM: Final[dict[str, Any]] = {"spec": claim_volumes("c")}
CSI: Final[dict[str, Any]] = {"csi": {"driver": DRIVER, "volumeHandle": "h"}}
SINGLE: Final = ("ReadWriteOncePod",)
DEVICES: Final[dict[str, Any]] = {
    "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
}
ASKING: Final[dict[str, Any]] = {
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {GPU: "1"}}}]}
}


def bound_claim(**volume: Any) -> Step:
    """Claim c has volume v."""
    return all_of(
        lambda cache: put_claim(cache, "c", volume="v"),
        lambda cache: put_volume(cache, "v", claim="c", **volume),
    )


def full(driver: str = DRIVER, count: int = 1) -> Step:
    return lambda cache: put_csi_node(cache, "n0", {driver: count})


def counted_storage() -> list[Step]:
    """A driver that says how much storage n0 has left."""
    return [
        lambda cache: put_class(cache),
        lambda cache: put_driver(cache),
        lambda cache: put_capacity(cache, "cap", "100Gi", host="n0"),
    ]


def of_kind(kind: str) -> dict[str, Any]:
    return device(kind, attributes={"kind": kind})


def kinds_of_devices() -> list[Step]:
    """A class of its own for each kind."""
    test = "device.attributes['gpu.example.com'].kind == '{}'"
    return [
        puts("deviceclasses", kind, make_class(kind, test.format(kind)))
        for kind in ("gpu", "big", "huge")
    ]


def alternatives(*classes: str) -> ResourceClaim:
    requests = [request(f"s{i}", deviceClassName=each) for i, each in enumerate(classes)]
    return make_claim("c", [first_available("r", *requests)])


RACK: Final[dict[str, Any]] = {
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}]
    }
}

_NODES: Final = [
    Case(
        "host of counted storage",
        NODE,
        adds(labels={HOST_NAME: "else"}),
        CLAIM,
        all_of(lambda cache: put_claim(cache, "c"), *counted_storage()),
    ),
    Case(
        "node of a better device",
        NODE,
        adds(labels={"rack": "r"}),
        DEVICES,
        all_of(
            *kinds_of_devices(),
            puts("resourceslices", "own", make_slice("n0", [of_kind("gpu")])),
            puts("resourceslices", "s", make_slice("pool", [of_kind("big")], node=None, **RACK)),
            puts("resourceclaims", "default/c", alternatives("big", "gpu")),
        ),
    ),
    Case("closed", NODE, adds(unschedulable=True)),
    Case("hard taint", NODE, adds(taints=[{"key": "k", "value": "", "effect": "NoSchedule"}])),
    Case(
        "soft taint", NODE, adds(taints=[{"key": "k", "value": "", "effect": "PreferNoSchedule"}])
    ),
    Case("label", NODE, adds(labels={"disk": "ssd"}), {"spec": {"nodeSelector": {"disk": "ssd"}}}),
    Case(
        "wished label",
        NODE,
        adds(labels={"disk": "ssd"}),
        preferring("nodeAffinity", SSD, "preference"),
    ),
    Case(
        "declared feature",
        NODE,
        declaring_features(),
        {"spec": {"hostNetwork": True, "hostUsers": False}},
    ),
    Case("capacity", NODE, adds(cpu="1"), {"cpu": "2"}),
    Case(
        "image",
        NODE,
        adds(images=[{"names": ["img:latest"], "sizeBytes": 900_000_000}]),
    ),
    Case(
        "image elsewhere",
        NODE,
        adds(name="n1", zone="b", images=[{"names": ["img:latest"], "sizeBytes": 900_000_000}]),
        given=adds(images=[{"names": ["img:latest"], "sizeBytes": 900_000_000}]),
        node="n1",
    ),
    Case("zone of a volume", NODE, adds(zone="b"), CLAIM, bound_claim(labels={ZONE: "a"})),
    Case(
        "host of a volume",
        NODE,
        adds(labels={HOST_NAME: "else"}),
        CLAIM,
        bound_claim(hosts=["n0"]),
    ),
    Case(
        "host of a free volume",
        NODE,
        adds(labels={HOST_NAME: "else"}),
        CLAIM,
        all_of(
            lambda cache: put_class(cache, provisioner="kubernetes.io/no-provisioner"),
            lambda cache: put_claim(cache, "c"),
            lambda cache: put_volume(cache, "v", hosts=["n0"]),
        ),
    ),
    Case(
        "domain, hard", NODE, adds(zone="b"), spread("DoNotSchedule"), places(labels={"app": "web"})
    ),
    Case(
        "domain, soft",
        NODE,
        adds(zone="b"),
        spread("ScheduleAnyway"),
        places(labels={"app": "web"}),
    ),
    Case(
        "domain of a needed pod",
        NODE,
        adds(zone="b"),
        {"labels": {"app": "db"}, **affinity("podAffinity", REQUIRED, TERM)},
        places(labels={"app": "web"}),
    ),
    Case(
        "domain of a wished pod",
        NODE,
        adds(zone="b"),
        preferring("podAffinity", TERM),
        places(labels={"app": "web"}),
    ),
    Case(
        "node of a pod that has an exclusive claim",
        NODE,
        adds(name="n9", zone="a"),
        CLAIM,
        all_of(
            lambda cache: put_claim(cache, "c", volume="v", access_modes=SINGLE),
            lambda cache: put_volume(cache, "v", claim="c"),
            places(at="n9", **CLAIM),
        ),
        node="n9",
    ),
    Case(
        "node of a shared slice",
        NODE,
        adds(labels={"rack": "r"}),
        DEVICES,
        all_of(
            puts("deviceclasses", CLASS, make_class()),
            puts("resourceclaims", "default/c", make_claim("c", [request()])),
            puts(
                "resourceslices",
                "s",
                make_slice("pool", [device("d")], node=None, **RACK),
            ),
        ),
    ),
]

USING: Final = {"name": "main", "resources": {"claims": [{"name": "c"}]}}
TWO_CPUS: Final[dict[str, Any]] = {
    "nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": "2"}}
}
_PODS: Final = [
    Case("room", PODS, places(cpu="3"), {"cpu": "2"}),
    Case(
        "room for what a device takes",
        PODS,
        places(cpu="3"),
        {"spec": {**DEVICES["spec"], "containers": [USING]}},
        all_of(
            puts("deviceclasses", CLASS, make_class()),
            puts("resourceclaims", "default/c", make_claim("c", [request()])),
            puts("resourceslices", "s", make_slice("n0", [device("d", **TWO_CPUS)])),
        ),
    ),
    Case("port", PODS, places(host_port=80), {"host_port": 80}),
    Case(
        "spread over domains, hard",
        PODS,
        places(labels={"app": "web"}),
        spread("DoNotSchedule"),
        places("w0", "n1", labels={"app": "web"}),
    ),
    Case(
        "relabelled pod, soft",
        Reads.PODS,
        relabels(app="web"),
        spread("ScheduleAnyway"),
        all_of(places(), places("w0", "n1", labels={"app": "web"})),
    ),
    Case("spread, hard", PODS, places(labels={"app": "web"}), spread("DoNotSchedule")),
    Case("spread, soft", PODS, places(labels={"app": "web"}), spread("ScheduleAnyway")),
    Case(
        "feasible nodes",
        Reads.USAGE,
        places(cpu="4"),
        {**spread("ScheduleAnyway"), "cpu": "1"},
        all_of(
            adds(name="n2", zone="c"),
            places("w0", "n1", labels={"app": "web"}, cpu="0"),
            places("w1", "n2", labels={"app": "web"}, cpu="0"),
            places("w2", "n2", labels={"app": "web"}, cpu="0"),
        ),
        looks_at_feasible=True,
    ),
    Case(
        "needed pod",
        PODS,
        places(labels={"app": "web"}),
        {"labels": {"app": "db"}, **affinity("podAffinity", REQUIRED, TERM)},
    ),
    Case(
        "pod that keeps others away",
        PODS,
        places(**affinity("podAntiAffinity", REQUIRED, TERM)),
        {"labels": {"app": "web"}},
    ),
    Case(
        "wished pod",
        PODS,
        places(labels={"app": "web"}),
        preferring("podAffinity", TERM),
        places("w0", "n1", labels={"app": "web"}),
    ),
    Case("disk", PODS, places(**DISK), DISK),
    Case(
        "exclusive claim",
        PODS,
        places(**CLAIM),
        CLAIM,
        lambda cache: put_claim(cache, "c", volume="v", access_modes=SINGLE),
    ),
    Case(
        "attached volume",
        PODS,
        places(spec=claim_volumes("other")),
        CLAIM,
        all_of(
            bound_claim(source=CSI),
            full(),
            lambda cache: put_claim(cache, "other", volume="w"),
            lambda cache: put_volume(
                cache, "w", claim="other", source={"csi": {"driver": DRIVER, "volumeHandle": "w"}}
            ),
        ),
    ),
]


def _service(app: str) -> Step:
    body = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": app}}}
    return puts("services", "default/s", body, Service)


def _owner(kind: str, struct: type, app: str) -> Step:
    selector: Any = {"app": app}
    if struct is not ReplicationController:
        selector = {"matchLabels": selector}
    body = {"metadata": {"name": "o", "namespace": "default"}, "spec": {"selector": selector}}
    return puts(kind, "default/o", body, struct)


def _owned(kind: str, version: str) -> dict[str, Any]:
    return {"labels": {"app": "web"}, "owner": {"apiVersion": version, "kind": kind, "name": "o"}}


def case(kind: str, change: Step, pod: dict[str, Any], *given: Step, name: str = "") -> Case:
    return Case(name or kind, Reads.OBJECTS, change, pod, all_of(*given), kind=kind)


def claim(**others: Any) -> Step:
    return lambda cache: put_claim(cache, "c", **others)


def volume(**others: Any) -> Step:
    return lambda cache: put_volume(cache, "v", **others)


def storage_class(**others: Any) -> Step:
    return lambda cache: put_class(cache, **others)


WEBS = all_of(places("w0", labels={"app": "web"}), places("w1", labels={"app": "web"}))
NAMESPACE = {"metadata": {"name": "default", "labels": {"team": "x"}}}
ATTACHMENT = {
    "metadata": {"name": "a"},
    "spec": {
        "attacher": DRIVER,
        "nodeName": "n0",
        "source": {"persistentVolumeName": "w"},
    },
}
GPU_CLASS = make_class(extendedResourceName=GPU)
SLICES = make_slice("n0", [device("d")])
ZONAL = {
    "awsElasticBlockStore": {"volumeID": "a"},
    "nodeAffinity": {
        "required": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a", "b"]}]}
            ]
        }
    },
}
WANTED = make_claim("c", [request()])
IN_TREE = {"awsElasticBlockStore": {"volumeID": "a"}}
CONTROLLERS = (
    ("replicasets", ReplicaSet, "ReplicaSet", "apps/v1"),
    ("statefulsets", StatefulSet, "StatefulSet", "apps/v1"),
    ("replicationcontrollers", ReplicationController, "ReplicationController", "v1"),
)

_OBJECTS: Final = [
    case("services", _service("web"), {"labels": {"app": "web"}}, WEBS),
    *(
        case(
            plural,
            _owner(plural, struct, "db"),
            _owned(kind, version),
            WEBS,
            _owner(plural, struct, "web"),
        )
        for plural, struct, kind, version in CONTROLLERS
    ),
    case(
        "namespaces",
        puts("namespaces", "default", NAMESPACE, Namespace),
        {"labels": {"app": "db"}, **affinity("podAffinity", REQUIRED, TEAM)},
        places(labels={"app": "web"}),
    ),
    case(
        "namespaces",
        puts("namespaces", "default", NAMESPACE, Namespace),
        preferring("podAffinity", TEAM),
        places(labels={"app": "web"}),
        name="namespaces, wished",
    ),
    case("persistentvolumeclaims", claim(volume="v"), CLAIM, volume(claim="c")),
    case(
        "persistentvolumeclaims",
        claim(volume="v", access_modes=SINGLE),
        CLAIM,
        claim(volume="v"),
        volume(claim="c"),
        places(**CLAIM),
        name="claim that becomes exclusive",
    ),
    case(
        "persistentvolumeclaims",
        claim(volume="v"),
        CLAIM,
        claim(volume="w"),
        volume(claim="c", source=CSI, labels={ZONE: "b"}),
        lambda cache: put_volume(cache, "w", claim="c", hosts=["n0"]),
        full(count=0),
        name="claim of another volume",
    ),
    case(
        "persistentvolumes",
        volume(claim="c", source=CSI, labels={ZONE: "b"}, hosts=["n1"]),
        CLAIM,
        claim(volume="v"),
        volume(claim="c"),
        full(count=0),
    ),
    case(
        "storageclasses",
        storage_class(mode="Immediate"),
        CLAIM,
        claim(),
        storage_class(),
    ),
    case(
        "storageclasses",
        storage_class(provisioner="kubernetes.io/no-provisioner"),
        CLAIM,
        claim(),
        storage_class(),
        full(count=0),
        name="provisioner",
    ),
    case("csinodes", full(count=0), CLAIM, bound_claim(source=CSI)),
    case(
        "csinodes",
        lambda cache: put_csi_node(cache, "n0", {}, migrated="kubernetes.io/aws-ebs"),
        CLAIM,
        bound_claim(source=ZONAL),
        name="migrated plugin",
    ),
    case(
        "persistentvolumeclaims",
        claim(size="50Gi"),
        CLAIM,
        claim(),
        *counted_storage(),
        name="size of a claim",
    ),
    Case(
        "services, hard",
        Reads.OBJECTS,
        _service("web"),
        {"labels": {"app": "web"}},
        WEBS,
        kind="services",
        has_hard_defaults=True,
    ),
    case(
        "resourceclaims",
        puts("resourceclaims", "default/c", alternatives("huge", "big")),
        DEVICES,
        *kinds_of_devices(),
        puts("resourceslices", "s", make_slice("n0", [of_kind("big"), of_kind("gpu")])),
        puts("resourceclaims", "default/c", alternatives("big", "gpu")),
        name="alternatives",
    ),
    case("csidrivers", lambda cache: put_driver(cache), CLAIM, claim(), storage_class()),
    case(
        "csidrivers",
        lambda cache: put_driver(cache, is_needed=True),
        CLAIM,
        bound_claim(source=CSI),
        name="driver that a node must have",
    ),
    case(
        "csistoragecapacities",
        lambda cache: put_capacity(cache, "cap", "100Gi", host="n0"),
        CLAIM,
        claim(),
        storage_class(),
        lambda cache: put_driver(cache),
    ),
    case(
        "volumeattachments",
        puts("volumeattachments", "a", ATTACHMENT, VolumeAttachment),
        CLAIM,
        bound_claim(source=CSI),
        lambda cache: put_volume(
            cache, "w", claim="x", source={"csi": {"driver": DRIVER, "volumeHandle": "w"}}
        ),
        full(),
    ),
    case(
        "deviceclasses",
        puts("deviceclasses", CLASS, GPU_CLASS),
        ASKING,
        puts("resourceslices", "s", SLICES),
    ),
    case(
        "deviceclasses",
        puts("deviceclasses", CLASS, make_class()),
        DEVICES,
        puts("resourceslices", "s", SLICES),
        puts("resourceclaims", "default/c", WANTED),
        name="class of a claim",
    ),
    case(
        "resourceslices",
        puts("resourceslices", "s", SLICES),
        DEVICES,
        puts("deviceclasses", CLASS, make_class()),
        puts("resourceclaims", "default/c", WANTED),
    ),
    case(
        "resourceclaims",
        puts("resourceclaims", "default/o", make_claim("o", status=allocated("d", pool="n0"))),
        DEVICES,
        puts("deviceclasses", CLASS, make_class()),
        puts("resourceslices", "s", SLICES),
        puts("resourceclaims", "default/c", WANTED),
    ),
    case(
        "persistentvolumes",
        volume(claim="c", source=IN_TREE, labels={ZONE: "b"}),
        CLAIM,
        claim(volume="v"),
        volume(claim="c", source=IN_TREE),
        name="zone of a disk",
    ),
]


CASES: Final = [*_NODES, *_PODS, *_OBJECTS]
