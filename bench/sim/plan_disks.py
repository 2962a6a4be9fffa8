"""Disks of a plan that are built into Kubernetes, which drivers have taken over on most nodes."""

from typing import Final

from bench.sim.draw import Action, Draw, Json, create
from bench.sim.plan_claims import DISKS, STORAGE, VOLUMES, alike, controllers
from bench.sim.sim_objects import NODES
from bench.sim.slow_migration import MIGRATED_PLUGINS, SERVED, ZONE

CLASS: Final = "disks"
NAMES: Final = ("vol-1", "vol-2")


def migrated(draw: Draw) -> list[Action]:
    """Named by pods outright, by volumes that claims have already, and made for claims."""
    rng = draw.rng
    kind = rng.choice(tuple(SERVED))
    served = SERVED[kind]
    path, mode = f"{STORAGE}/storageclasses", "WaitForFirstConsumer"
    made = [create(path, CLASS, provisioner=served.plugin, volumeBindingMode=mode)]
    for node in draw.nodes:
        made += _node(draw, node, kind)
    for name in NAMES:
        made += _bound_claim(draw, name, kind)
    for _ in draw.some(5):
        volume = rng.choice((_inline(draw, kind), _named(rng.choice(NAMES)), _named("fresh")))
        spec = {**rng.choice(draw.shapes)["spec"], "volumes": [{"name": "disk", **volume}]}
        made += alike(draw, spec)
    fresh = {
        "storageClassName": CLASS,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    made.append(create(DISKS, "fresh", draw.time_s(), spec=fresh))
    if not {"volumes", "devices"} & draw.features:
        made.append(controllers(draw))
    return made


def _node(draw: Draw, name: str, kind: str) -> list[Action]:
    """Whether the driver is there, how many it can attach, and in which zone it says that it is."""
    rng, served = draw.rng, SERVED[kind]
    made = []
    if served.zone and rng.random() < 0.8:
        labels = {served.zone: rng.choice(("z1", "z2"))}
        body = {"metadata": {"labels": labels}}
        made.append(Action(0.0, "change", {"path": f"{NODES}/{name}", "body": body}))
    if rng.random() < 0.8:
        told = {MIGRATED_PLUGINS: served.plugin} if rng.random() < 0.8 else {}
        limit = {
            "name": served.driver, "nodeID": name, "allocatable": {"count": rng.randint(0, 2)},
        }  # fmt: skip
        spec = {"drivers": [limit]}
        path, at_s = f"{STORAGE}/csinodes", rng.choice((0.0, draw.time_s()))
        made.append(create(path, name, at_s, spec=spec))
        changed = {"metadata": {"annotations": told}, "spec": spec}
        made.append(Action(at_s, "change", {"path": f"{path}/{name}", "body": changed}))
    return made


def _bound_claim(draw: Draw, name: str, kind: str) -> list[Action]:
    """In some zone, as its labels or its affinity say, or nobody."""
    rng = draw.rng
    spec: Json = {
        "storageClassName": CLASS,
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": "default", "name": name},
        kind: {SERVED[kind].named_by: name},
    }
    zone = rng.choice(("z1", "z2"))
    labels = {ZONE: zone} if rng.random() < 0.3 else {}
    if rng.random() < 0.5:
        line = {"key": ZONE, "operator": "In", "values": [zone]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}}
    wanted = {
        "storageClassName": CLASS,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": name,
    }
    body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    return [
        Action(0.0, "create", {"path": VOLUMES, "body": body}),
        create(DISKS, name, spec=wanted),
    ]


def _inline(draw: Draw, kind: str) -> Json:
    disk = {SERVED[kind].named_by: draw.rng.choice((*NAMES, "vol-3"))}
    if kind == "azureDisk":
        disk["diskName"] = disk["diskURI"]
    elif kind == "awsElasticBlockStore" and draw.rng.random() < 0.5:
        disk["volumeID"] = f"aws://z1/{disk['volumeID']}"
    return {kind: disk}


def _named(claim: str) -> Json:
    return {"persistentVolumeClaim": {"claimName": claim}}
