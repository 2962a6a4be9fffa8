"""Clusters made up at random: scenarios as the corpus has them, of all families at once.

A number draws which families take part, then the objects. Pods come in a few shapes, of which there
are several pods each, so that what is kept of a class is used again; between attempts the cluster
changes. Everything is plain JSON that an API server would take, and a scenario that differs is saved
and replayed like any other. The same seed and number always make the same scenario.
"""

import random
from collections.abc import Sequence
from typing import Any, Final

Json = dict[str, Any]

FAMILIES: Final = (
    "affinity", "aggregates", "budgets", "changes", "devices", "extended", "gates", "huge", "images",
    "interpod", "namespaces", "nominated", "ports", "preemption", "profiles", "services", "spread",
    "taints", "terminating", "volumes",
)  # fmt: skip
RARE: Final = {
    "aggregates": 0.2, "devices": 0.3, "gates": 0.1, "huge": 0.1, "images": 0.2, "interpod": 0.35,
    "preemption": 0.75, "profiles": 0.2, "services": 0.2, "spread": 0.35, "volumes": 0.3,
}  # fmt: skip
"""How likely a family is; one half where nothing is said."""

HOST_NAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
KEYS: Final = (HOST_NAME, ZONE, ZONE, "rack")
DEVICE: Final = "example.com/device"
OTHER_DEVICE: Final = "example.com/other"
DRIVER: Final = "gpu.example.com"
CSI_DRIVER: Final = "csi.example.com"
CREATED: Final = "2026-01-01T00:00:00Z"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
APPS: Final = ("a", "a", "b", "c")
NAMESPACES: Final = ("default", "default", "other")
CPUS: Final = ("100m", "500m", "1", "1500m", "2", "3")
PRIORITIES: Final = (0, 5, 10, 100, 100)
LOW_PRIORITIES: Final = (-1, 0, 0, 0, 5, 10)
"""Of pods that are there already."""
IMAGES: Final = ("registry.example/a:v1", "registry.example/b:v1")
WEIGHTED: Final = ("NodeResourcesFit", "PodTopologySpread", "InterPodAffinity", "TaintToleration",
                   "NodeAffinity", "ImageLocality", "NodeResourcesBalancedAllocation")  # fmt: skip
PROFILES: Final = ("default-scheduler", "second")


def scenario(seed: int, number: int) -> Json:
    """The scenario of this number, always the same."""
    rng = random.Random(f"{seed}/{number}")
    families = frozenset(each for each in FAMILIES if rng.random() < RARE.get(each, 0.5))
    return {"name": f"generated-{seed}-{number}", **ClusterMaker(rng, families).scenario()}


def meta(name: str, namespace: str = "", **fields: Any) -> Json:
    """A metadata that is complete."""
    said = {"name": name, "uid": f"uid-{namespace}-{name}", "resourceVersion": "1"}
    said["creationTimestamp"] = CREATED
    return {**said, **({"namespace": namespace} if namespace else {}), **fields}


class ObjectMaker:
    """Draws single objects. What belongs to a family that does not take part is left out."""

    def __init__(self, rng: random.Random, families: frozenset[str]) -> None:
        self.rng = rng
        self.families = families
        self._started_s = 0
        """Of the pod that was made last."""
        self.node_names = [f"n{number}" for number in range(rng.choice((2, 3, 3, 4, 5, 7)))]

    def draws(self, family: str, chance: float = 1.0) -> bool:
        """Whether a trait of a family is drawn."""
        return family in self.families and self.rng.random() < chance

    # Nodes ------------------------------------------------------------------------------------------

    def node(self, name: str) -> Json:
        rng = self.rng
        labels = {
            HOST_NAME: rng.choice((name, name, name, name, "shared", "")),
            ZONE: rng.choice(("z1", "z1", "z2", "z3", "")),
            "rack": rng.choice(("r1", "r2", "")),
            "disk": rng.choice(("ssd", "hdd", "")),
            "tier": rng.choice(("1", "5", "")),
        }
        room: Json = {
            "cpu": rng.choice(("2", "4", "4", "8", "3500m")),
            "memory": rng.choice(("4Gi", "8Gi", "8Gi", "16Gi")),
            "ephemeral-storage": "100Gi",
            "pods": rng.choice(("3", "6", "110")),
        }
        if self.draws("huge", 0.3):
            room["memory"] = "7Ei"
        if self.draws("extended", 0.6):
            room[DEVICE] = str(rng.randint(0, 3))
        if self.draws("extended", 0.2):
            room[OTHER_DEVICE] = "4"
        spec: Json = {}
        if self.draws("taints", 0.25):
            spec["taints"] = [self._taint() for _ in range(rng.choice((1, 1, 2)))]
        if self.draws("taints", 0.1):
            spec["unschedulable"] = True
        status: Json = {"allocatable": room, "capacity": room}
        if "images" in self.families:
            status["images"] = [
                {"names": [image], "sizeBytes": rng.choice((1 << 20, 200 << 20, 900 << 20))}
                for image in IMAGES
                if rng.random() < 0.5
            ]
        kept = {key: value for key, value in labels.items() if value}
        return {"metadata": meta(name, labels=kept), "spec": spec, "status": status}

    def _taint(self) -> Json:
        effect = self.rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
        return {"key": self.rng.choice(("t", "u")), "value": "v", "effect": effect}

    # Pods -------------------------------------------------------------------------------------------

    def shape(self, priorities: Sequence[int] = PRIORITIES) -> Json:
        """What several pods have in common: their namespace, labels and spec."""
        rng = self.rng
        app = rng.choice(APPS)
        container: Json = {"name": "c", "image": rng.choice(IMAGES)}
        container["resources"] = self._resources()
        spec: Json = {"containers": [container]}
        namespace = rng.choice(NAMESPACES) if "namespaces" in self.families else "default"
        if self.draws("preemption"):
            spec["priority"] = rng.choice(priorities)
            if rng.random() < 0.05:
                spec["preemptionPolicy"] = "Never"
        if self.draws("ports", 0.2):
            container["ports"] = [self._port()]
        if self.draws("taints", 0.5):
            spec["tolerations"] = [self._toleration()]
        if rng.random() < 0.15:
            spec["nodeSelector"] = {"disk": "ssd"}
        affinity: Json = {}
        if self.draws("affinity", 0.4):
            affinity["nodeAffinity"] = self._node_affinity()
        if self.draws("interpod", 0.6):
            kind = rng.choice(("podAffinity", "podAntiAffinity", "podAntiAffinity"))
            affinity[kind] = self._pod_affinity(app)
        if affinity:
            spec["affinity"] = affinity
        if self.draws("spread", 0.6):
            spec["topologySpreadConstraints"] = self._constraints(app)
        if self.draws("aggregates", 0.5):
            self._aggregate(spec)
        if self.draws("volumes", 0.6):
            spec["volumes"] = [self._volume(at) for at in range(rng.choice((1, 1, 2)))]
        if self.draws("devices", 0.6):
            names = rng.sample(CLAIMS, rng.choice((1, 1, 2)))
            if rng.random() < 0.03:
                names[0] = MISSING
            spec["resourceClaims"] = [
                {"name": f"d{at}", "resourceClaimName": name} for at, name in enumerate(names)
            ]
            namespace = "default"
        if spec.get("volumes"):
            namespace = "default"
        if self.draws("profiles", 0.5):
            spec["schedulerName"] = PROFILES[1]
        labels = {"app": app, "v": rng.choice(("1", "2"))}
        return {"namespace": namespace, "labels": labels, "spec": spec}

    def _resources(self) -> Json:
        rng = self.rng
        requests: Json = {}
        if rng.random() < 0.9:
            requests["cpu"] = rng.choice(CPUS)
        if rng.random() < 0.4:
            requests["memory"] = rng.choice(("0", "64Mi", "1Gi", "3Gi"))
        if self.draws("huge", 0.3):
            requests |= rng.choice(({"cpu": "9Ei"}, {"memory": "5E"}))
        limits: Json = {}
        if self.draws("extended", 0.25):
            limits[rng.choice((DEVICE, DEVICE, OTHER_DEVICE))] = str(rng.randint(1, 2))
        requests |= limits
        return {"requests": requests, **({"limits": limits} if limits else {})}

    def _port(self) -> Json:
        rng = self.rng
        port: Json = {"containerPort": 80, "hostPort": rng.choice((80, 80, 81))}
        port["protocol"] = rng.choice(("TCP", "TCP", "UDP"))
        if rng.random() < 0.3:
            port["hostIP"] = rng.choice(("127.0.0.1", "10.0.0.1"))
        return port

    def _toleration(self) -> Json:
        return dict(
            self.rng.choice(
                (
                    {"operator": "Exists"},
                    {"key": "t", "operator": "Exists"},
                    {"key": "u", "operator": "Equal", "value": "v", "effect": "NoSchedule"},
                    {"key": "t", "operator": "Exists", "effect": "PreferNoSchedule"},
                )
            )
        )

    def _node_affinity(self) -> Json:
        rng = self.rng
        made: Json = {}
        if rng.random() < 0.6:
            terms = [self._node_term() for _ in range(rng.choice((1, 1, 2)))]
            made[REQUIRED] = {"nodeSelectorTerms": terms}
        if not made or rng.random() < 0.5:
            made[PREFERRED] = [
                {"weight": rng.choice((1, 10, 100)), "preference": self._node_term()}
            ]
        return made

    def _node_term(self) -> Json:
        rng = self.rng
        if rng.random() < 0.15:
            names = {"key": "metadata.name", "operator": "In", "values": [self._node_name()]}
            return {"matchFields": [names]}
        return {
            "matchExpressions": [
                rng.choice(
                    (
                        {"key": ZONE, "operator": "In", "values": ["z1", "z2"]},
                        {"key": ZONE, "operator": "NotIn", "values": ["z1"]},
                        {"key": "disk", "operator": "Exists"},
                        {"key": "rack", "operator": "DoesNotExist"},
                        {"key": "tier", "operator": "Gt", "values": ["2"]},
                    )
                )
            ]
        }

    def _node_name(self) -> str:
        return self.rng.choice(self.node_names)

    def _pod_affinity(self, app: str) -> Json:
        rng = self.rng
        made: Json = {}
        if rng.random() < 0.7:
            made[REQUIRED] = [self._pod_term(app) for _ in range(rng.choice((1, 1, 2)))]
        if not made or rng.random() < 0.4:
            made[PREFERRED] = [
                {"weight": rng.choice((1, 10, 100)), "podAffinityTerm": self._pod_term(app)}
                for _ in range(rng.choice((1, 1, 2)))
            ]
        return made

    def _pod_term(self, app: str) -> Json:
        rng = self.rng
        term: Json = {
            "topologyKey": rng.choice(KEYS),
            "labelSelector": self._selector(rng.choice((app, *APPS))),
        }
        if self.draws("namespaces", 0.5):
            term |= rng.choice(
                (
                    {"namespaces": ["other"]},
                    {"namespaceSelector": {}},
                    {"namespaceSelector": {"matchLabels": {"team": "x"}}},
                )
            )
        return term

    def _selector(self, app: str) -> Json:
        return dict(
            self.rng.choice(
                (
                    {"matchLabels": {"app": app}},
                    {"matchLabels": {"app": app}},
                    {"matchLabels": {"app": app, "v": "1"}},
                    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]},
                    {"matchExpressions": [{"key": "v", "operator": "Exists"}]},
                )
            )
        )

    def _constraints(self, app: str) -> list[Json]:
        made: dict[tuple[str, str], Json] = {}
        for _ in range(self.rng.choice((1, 1, 2, 2, 3))):
            constraint = self._constraint(app)
            made[constraint["topologyKey"], constraint["whenUnsatisfiable"]] = constraint
        return list(made.values())

    def _constraint(self, app: str) -> Json:
        rng = self.rng
        made: Json = {
            "maxSkew": rng.choice((1, 1, 2, 5)),
            "topologyKey": rng.choice(KEYS),
            "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": self._selector(rng.choice((app, app, *APPS))),
        }
        if made["whenUnsatisfiable"] == "DoNotSchedule" and rng.random() < 0.2:
            made["minDomains"] = rng.choice((2, 3))
        if rng.random() < 0.2:
            made["nodeTaintsPolicy"] = "Honor"
        if rng.random() < 0.2:
            made["nodeAffinityPolicy"] = "Ignore"
        if rng.random() < 0.1:
            made["matchLabelKeys"] = ["v"]
        return made

    def _aggregate(self, spec: Json) -> None:
        """Requests that are not those of containers alone."""
        rng = self.rng
        first: Json = {"name": "i", "image": IMAGES[0], "resources": self._resources()}
        if rng.random() < 0.5:
            first["restartPolicy"] = "Always"
            if self.draws("ports", 0.2):
                first["ports"] = [self._port()]
        spec["initContainers"] = [first]
        if rng.random() < 0.3:
            spec["overhead"] = {"cpu": "250m", "memory": "64Mi"}
        if rng.random() < 0.3:
            spec["containers"].append({"name": "d", "image": IMAGES[1]})

    def _volume(self, at: int) -> Json:
        rng = self.rng
        volume: Json = {"name": f"v{at}"}
        if rng.random() < 0.15:
            disk = {"pdName": rng.choice(("disk-1", "disk-2")), "readOnly": rng.random() < 0.3}
            return volume | {"gcePersistentDisk": disk}
        name = MISSING if rng.random() < 0.03 else rng.choice(VOLUME_CLAIMS)
        return volume | {"persistentVolumeClaim": {"claimName": name}}

    def pod(self, name: str, shape: Json, node: str = "") -> Json:
        """One of a shape, on a node or waiting."""
        rng = self.rng
        spec = {"schedulerName": PROFILES[0], **shape["spec"]}
        metadata = meta(name, shape["namespace"], labels=shape["labels"])
        status: Json = {"phase": "Pending"}
        if node:
            spec["nodeName"] = node
            # No two in the same second: who of such pods goes first follows from nothing.
            self._started_s += 1
            started = f"2025-12-31T{rng.randint(10, 12)}:00:{self._started_s:02}Z"
            status = {"phase": "Running", "startTime": started}
            if self.draws("terminating", 0.15):
                metadata |= {"deletionTimestamp": CREATED, "deletionGracePeriodSeconds": 30}
        return {"metadata": metadata, "spec": spec, "status": status}


class StorageMaker:
    """Draws volumes, claims and devices, under names that pods draw from."""

    def __init__(self, rng: random.Random, node_names: list[str]) -> None:
        self._rng = rng
        self._node_names = node_names

    def volumes(self) -> Json:
        rng = self._rng
        claims, volumes = [], []
        for name in VOLUME_CLAIMS:
            mode = "ReadWriteOncePod" if name == "solo" else "ReadWriteOnce"
            is_late = name in ("late", "made")
            spec: Json = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
            spec["storageClassName"] = {"late": "late", "made": "made"}.get(name, "now")
            volume: Json = {
                "accessModes": [mode],
                "capacity": {"storage": "2Gi"},
                "csi": {"driver": CSI_DRIVER, "volumeHandle": name},
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": spec["storageClassName"],
            }
            affinity = rng.choice((None, "z1", "z2", self._node_names[0]))
            if affinity is not None:
                key = ZONE if affinity.startswith("z") else HOST_NAME
                matched = {"key": key, "operator": "In", "values": [affinity]}
                terms = [{"matchExpressions": [matched]}]
                volume["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
            labels = {ZONE: rng.choice(("z1", "z2"))} if rng.random() < 0.2 else {}
            metadata = meta(name, "default")
            if not is_late:
                spec["volumeName"] = f"pv-{name}"
                metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
                ref = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name}
                volume["claimRef"] = ref | {"uid": metadata["uid"], "apiVersion": "v1"}
            phase = "Pending" if is_late else "Bound"
            claims.append({"metadata": metadata, "spec": spec, "status": {"phase": phase}})
            if name != "made":
                phase = "Available" if is_late else "Bound"
                volumes.append(
                    {
                        "metadata": meta(f"pv-{name}", labels=labels),
                        "spec": volume,
                        "status": {"phase": phase},
                    }
                )
        return {
            "pvcs": claims,
            "pvs": volumes,
            "storageclasses": self._storage_classes(),
            "csinodes": self._csi_nodes(),
        }

    def _storage_classes(self) -> list[Json]:
        made: list[Json] = [
            {"metadata": meta("now"), "provisioner": CSI_DRIVER, "volumeBindingMode": "Immediate"}
        ]
        for name, provisioner in (("late", "kubernetes.io/no-provisioner"), ("made", CSI_DRIVER)):
            late = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
            made.append({"metadata": meta(name), **late})
        if self._rng.random() < 0.5:
            values = [{"key": ZONE, "values": ["z1", "z3"]}]
            made[-1]["allowedTopologies"] = [{"matchLabelExpressions": values}]
        return made

    def _csi_nodes(self) -> list[Json]:
        made = []
        for name in self._node_names:
            driver: Json = {"name": CSI_DRIVER, "nodeID": name, "topologyKeys": None}
            if self._rng.random() < 0.7:
                driver["allocatable"] = {"count": self._rng.choice((1, 2, 3))}
            made.append({"metadata": meta(name), "spec": {"drivers": [driver]}})
        return made

    def devices(self) -> Json:
        rng = self._rng
        slices = [self._slice(name) for name in self._node_names if rng.random() < 0.7]
        return {
            "deviceclasses": [
                _device_class("any", f'device.driver == "{DRIVER}"'),
                _device_class("big", f'device.capacity["{DRIVER}"].memory.isGreaterThan('
                              'quantity("10Gi"))'),
            ],
            "resourceslices": slices,
            "resourceclaims": [self._claim(name) for name in CLAIMS],
        }  # fmt: skip

    def _slice(self, node: str) -> Json:
        rng = self._rng
        devices: list[Json] = []
        for at in range(rng.choice((1, 2, 3))):
            body: Json = {
                "name": f"d{at}",
                "attributes": {
                    "model": {"string": rng.choice(("x", "y"))},
                    "numa": {"int": at % 2},
                },
                "capacity": {"memory": {"value": rng.choice(("8Gi", "16Gi"))}},
            }
            if rng.random() < 0.1:
                body["taints"] = [{"key": "bad", "effect": "NoSchedule"}]
            devices.append(body)
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        return {"metadata": meta(f"slice-{node}"), "spec": spec}

    def _claim(self, name: str) -> Json:
        rng = self._rng
        requests = [self._request(f"r{at}") for at in range(rng.choice((1, 1, 2, 3)))]
        devices: Json = {"requests": requests}
        if len(requests) > 1 and rng.random() < 0.5:
            attribute = f"{DRIVER}/{rng.choice(('model', 'numa'))}"
            some = [request["name"] for request in rng.sample(requests, 2)]
            devices["constraints"] = [
                {"matchAttribute": attribute, "requests": rng.choice(([], sorted(some)))}
            ]
        if rng.random() < 0.3:
            some = rng.sample(requests, rng.randint(1, len(requests)))
            opaque = {"driver": DRIVER, "parameters": {"of": "some"}}
            names = sorted(request["name"] for request in some)
            devices["config"] = [{"opaque": opaque, "requests": rng.choice(([], names))}]
        claim: Json = {"metadata": meta(name, "default"), "spec": {"devices": devices}}
        return claim | {"status": {}}

    def _request(self, name: str) -> Json:
        rng = self._rng
        if rng.random() < 0.25:
            listed = [self._exactly() | {"name": f"s{at}"} for at in range(2)]
            return {"name": name, "firstAvailable": listed}
        exactly = self._exactly()
        if rng.random() < 0.05:
            exactly["adminAccess"] = True
        return {"name": name, "exactly": exactly}

    def _exactly(self) -> Json:
        rng = self._rng
        made: Json = {"deviceClassName": rng.choice(("any", "any", "big"))}
        if rng.random() < 0.1:
            return made | {"allocationMode": "All"}
        made |= {"allocationMode": "ExactCount", "count": rng.choice((1, 1, 2))}
        if rng.random() < 0.3:
            model = rng.choice(("x", "y"))
            text = f'device.attributes["{DRIVER}"].model == "{model}"'
            made["selectors"] = [{"cel": {"expression": text}}]
        if rng.random() < 0.2:
            made["tolerations"] = [{"key": "bad", "operator": "Exists"}]
        return made


CLAIMS: Final = ("g0", "g1", "g2", "g3")
VOLUME_CLAIMS: Final = ("solo", "c0", "c1", "c2", "late", "made")
MISSING: Final = "missing"


def _device_class(name: str, expression: str) -> Json:
    return {"metadata": meta(name), "spec": {"selectors": [{"cel": {"expression": expression}}]}}


class ClusterMaker:
    """Draws a whole scenario."""

    def __init__(self, rng: random.Random, families: frozenset[str]) -> None:
        self._rng = rng
        self._families = families
        self._objects = ObjectMaker(rng, families)
        self._names = self._objects.node_names
        self._shapes = [self._objects.shape() for _ in range(rng.choice((2, 3, 4)))]
        self._bound: list[Json] = []

    def scenario(self) -> Json:
        rng = self._rng
        cluster = self._cluster()
        pending = [self._pending(f"p{at}") for at in range(rng.randint(2, 7))]
        keys = [f"{p['metadata']['namespace']}/{p['metadata']['name']}" for p in pending]
        attempts = keys + rng.choices(keys, k=rng.randint(0, 3))
        made: Json = {"objects": cluster, "pending": pending, "attempts": attempts}
        made["preemption_mode"] = rng.choice(("none", "nominate", "nominate", "evict", "evict"))
        config = self._config()
        if config:
            made["config"] = config
        if "changes" in self._families:
            made["changes"] = self._changes(keys, len(attempts))
        return made

    def _cluster(self) -> Json:
        rng, objects = self._rng, self._objects
        cluster: Json = {"nodes": [objects.node(name) for name in self._names]}
        shapes = [rng.choice(self._shapes), *(objects.shape(LOW_PRIORITIES) for _ in range(2))]
        for at in range(rng.choice((0, 5, 10, 15))):
            node = rng.choice(self._names) if rng.random() < 0.97 else "ghost"
            self._bound.append(objects.pod(f"b{at}", rng.choice(shapes), node))
        cluster["pods"] = list(self._bound)
        cluster["namespaces"] = [_namespace("default", {}), _namespace("other", {"team": "x"})]
        if "budgets" in self._families:
            cluster["pdbs"] = [self._budget(app) for app in sorted(set(APPS))]
        if "services" in self._families:
            selector = {"app": rng.choice(APPS)}
            service = {"metadata": meta("s", "default"), "spec": {"selector": selector}}
            cluster["services"] = [service]
        storage = StorageMaker(rng, self._names)
        if "volumes" in self._families:
            cluster |= storage.volumes()
        if "devices" in self._families:
            cluster |= storage.devices()
        return cluster

    def _budget(self, app: str) -> Json:
        allowed = self._rng.choice((0, 0, 1, 2))
        return {
            "metadata": meta(f"budget-{app}", "default"),
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1,
                       "expectedPods": 2},
        }  # fmt: skip

    def _pending(self, name: str) -> Json:
        rng = self._rng
        pod = self._objects.pod(name, rng.choice(self._shapes))
        if self._objects.draws("nominated", 0.3):
            pod["status"]["nominatedNodeName"] = rng.choice((*self._names, *self._names, "ghost"))
        elif self._objects.draws("gates", 0.3):
            pod["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]
        return pod

    def _config(self) -> Json:
        """Two profiles; the second weighs otherwise and may lack a plugin."""
        if "profiles" not in self._families:
            return {}
        rng = self._rng
        some = rng.sample(WEIGHTED, rng.randint(1, 3))
        weighted = [{"name": name, "weight": rng.randint(1, 9)} for name in some]
        score = {"disabled": [{"name": name} for name in some], "enabled": weighted}
        second: Json = {"schedulerName": PROFILES[1], "plugins": {"score": score}}
        if rng.random() < 0.3:
            others = [each for each in WEIGHTED if each not in some]
            second["plugins"]["multiPoint"] = {"disabled": [{"name": rng.choice(others)}]}
        if rng.random() < 0.4:
            second["pluginConfig"] = [rng.choice(PLUGIN_CONFIGS)]
        return {"profiles": [{"schedulerName": PROFILES[0]}, second]}

    # What changes between attempts ------------------------------------------------------------------

    def _changes(self, keys: list[str], attempt_count: int) -> list[Json]:
        makers = (self._node_changes, self._pod_comes, self._pod_goes, self._pod_goes,
                  self._pod_changes, self._object_changes)  # fmt: skip
        count = self._rng.randint(1, 2 + attempt_count // 2)
        moments = sorted(self._rng.randrange(attempt_count) for _ in range(count))
        made = []
        for moment in moments:
            change = self._rng.choice(makers)(keys)
            if change:
                made.append({"before": moment, **change})
        return made

    def _node_changes(self, _: list[str]) -> Json:
        name = self._rng.choice((*self._names, "n8"))
        if self._rng.random() < 0.3:
            return {"kind": "nodes", "key": name}
        return {"kind": "nodes", "key": name, "becomes": self._objects.node(name)}

    def _pod_comes(self, _: list[str]) -> Json:
        shape = self._rng.choice((*self._shapes, self._objects.shape(LOW_PRIORITIES)))
        pod = self._objects.pod(f"b{len(self._bound)}", shape, self._rng.choice(self._names))
        self._bound.append(pod)
        return {"kind": "pods", "key": _key_of(pod), "becomes": pod}

    def _pod_goes(self, keys: list[str]) -> Json:
        """A pod that was there, or one that was pending: if it is bound by then."""
        all_keys = [*keys, *(_key_of(pod) for pod in self._bound)]
        return {"kind": "pods", "key": self._rng.choice(all_keys)}

    def _pod_changes(self, _: list[str]) -> Json:
        """Its labels do, or it is deleted with a grace period."""
        if not self._bound:
            return {}
        pod = self._rng.choice(self._bound)
        metadata = dict(pod["metadata"])
        if self._rng.random() < 0.7:
            metadata["labels"] = {"app": self._rng.choice(APPS), "v": "1"}
        else:
            metadata |= {"deletionTimestamp": CREATED, "deletionGracePeriodSeconds": 30}
        return {"kind": "pods", "key": _key_of(pod), "becomes": {**pod, "metadata": metadata}}

    def _object_changes(self, _: list[str]) -> Json:
        rng = self._rng
        if "budgets" in self._families and rng.random() < 0.5:
            budget = self._budget(rng.choice(APPS))
            return {"kind": "pdbs", "key": _key_of(budget), "becomes": budget}
        if "services" in self._families and rng.random() < 0.5:
            return {"kind": "services", "key": "default/s"}
        other = _namespace("other", rng.choice(({"team": "x"}, {"team": "y"})))
        return {"kind": "namespaces", "key": "other", "becomes": other}


PLUGIN_CONFIGS: Final[tuple[Json, ...]] = (
    {
        "name": "NodeResourcesFit",
        "args": {
            "scoringStrategy": {
                "type": "MostAllocated",
                "resources": [{"name": "cpu", "weight": 2}, {"name": "memory", "weight": 1}],
            }
        },
    },
    {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 50}},
    {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 10,
                                           "minCandidateNodesAbsolute": 1}},
    {
        "name": "PodTopologySpread",
        "args": {
            "defaultingType": "List",
            "defaultConstraints": [
                {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
            ],
        },
    },
)  # fmt: skip


def _namespace(name: str, labels: Json) -> Json:
    return {"metadata": meta(name, labels={"kubernetes.io/metadata.name": name, **labels})}


def _key_of(thing: Json) -> str:
    return f"{thing['metadata']['namespace']}/{thing['metadata']['name']}"
