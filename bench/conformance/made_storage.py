"""Volumes, claims and devices, made up at random."""

import random
from typing import Final

from bench.conformance.made_names import (
    CLAIMS,
    DRIVER,
    HOST_NAME,
    VOLUME_CLAIMS,
    ZONE,
    Json,
    meta,
)  # fmt: skip

CSI_DRIVER: Final = "csi.example.com"


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


def _device_class(name: str, expression: str) -> Json:
    return {"metadata": meta(name), "spec": {"selectors": [{"cel": {"expression": expression}}]}}
