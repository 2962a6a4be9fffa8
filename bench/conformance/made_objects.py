"""Nodes and pods, made up at random one by one."""

import random
from collections.abc import Sequence
from typing import Final

from bench.conformance.made_names import (
    APPS,
    CLAIMS,
    CREATED,
    HOST_NAME,
    MISSING,
    PROFILES,
    VOLUME_CLAIMS,
    ZONE,
    Json,
    meta,
)  # fmt: skip

KEYS: Final = (HOST_NAME, ZONE, ZONE, "rack")
DEVICE: Final = "example.com/device"
OTHER_DEVICE: Final = "example.com/other"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
NAMESPACES: Final = ("default", "default", "other")
CPUS: Final = ("100m", "500m", "1", "1500m", "2", "3")
PRIORITIES: Final = (0, 5, 10, 100, 100)
IMAGES: Final = ("registry.example/a:v1", "registry.example/b:v1")


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
            kinds = (("podAffinity",), ("podAntiAffinity",), ("podAntiAffinity", "podAffinity"))
            affinity |= {kind: self._pod_affinity(app) for kind in rng.choice(kinds)}
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
        labels = {"app": app, "v": rng.choice(("1", "2"))} if rng.random() < 0.95 else {}
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
        if self.draws("images", 0.5):
            mounted = {"name": "i", "image": {"reference": rng.choice(IMAGES)}}
            spec["volumes"] = [*spec.get("volumes", ()), mounted]
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
