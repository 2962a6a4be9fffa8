"""Volumes and devices of a plan: what there is of them, who wants them, and what becomes of them."""

from typing import Final

from bench.sim.draw import Action, Draw, Json, create
from bench.sim.sim_objects import DRIVER, on_node

STORAGE: Final = "/apis/storage.k8s.io/v1"
DEVICES: Final = "/apis/resource.k8s.io/v1"
VOLUMES: Final = "/api/v1/persistentvolumes"
DISKS: Final = "/api/v1/namespaces/default/persistentvolumeclaims"
CLAIMS: Final = f"{DEVICES}/namespaces/default/resourceclaims"
SLICES: Final = f"{DEVICES}/resourceslices"
CARD: Final = "example.com/card"
DEVICE: Final = "example.com/device"
GPU_DRIVER: Final = "gpu.example.com"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
PARTS_DRIVER: Final = "parts.example.com"
SHARED: Final = ("a", "b")
"""Ends of names of claims that many pods want."""


def storage(draw: Draw) -> list[Action]:
    """Classes of storage, a few volumes that are there already, and how many a node can attach."""
    rng = draw.rng
    made = [
        create(f"{STORAGE}/storageclasses", name, provisioner=provisioner, volumeBindingMode=mode)
        for name, provisioner, mode in (
            ("late", DRIVER, "WaitForFirstConsumer"),
            ("now", DRIVER, "Immediate"),
            ("local", NO_PROVISIONER, "WaitForFirstConsumer"),
        )
    ]
    for number in draw.some(4):
        node = rng.choice(draw.nodes)
        spec = {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
            "capacity": {"storage": rng.choice(("1Gi", "5Gi"))},
            "local": {"path": "/disk"},
            "nodeAffinity": on_node(node),
        }
        made.append(create(VOLUMES, f"local-{number}", spec=spec))
    for node in draw.nodes:
        if rng.random() < 0.6:
            limit = {
                "name": DRIVER,
                "nodeID": node,
                "allocatable": {"count": rng.randint(0, 2)},
            }
            made.append(create(f"{STORAGE}/csinodes", node, spec={"drivers": [limit]}))
    return made


def _claim_spec(draw: Draw) -> Json:
    rng = draw.rng
    return {
        "storageClassName": rng.choice(("late", "late", "now", "local", "local")),
        "accessModes": [rng.choice(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"))],
        "resources": {"requests": {"storage": rng.choice(("1Gi", "3Gi"))}},
    }


def add_claims(draw: Draw, spec: Json, at_s: float) -> list[Action]:
    """Has some pods want volumes and devices, their own and ones that they share; what they want
    may come later than they, or not at all."""
    rng, made = draw.rng, []
    volumes, wanted = [], []
    if "volumes" in draw.features and rng.random() < 0.5:
        if rng.random() < 0.2:
            template = {"volumeClaimTemplate": {"spec": _claim_spec(draw)}}
            volumes.append({"name": "own", "ephemeral": template})
        for _ in range(rng.choice((1, 1, 2))):
            name = _claim_name(draw, "disk")
            volumes.append({"name": name, "persistentVolumeClaim": {"claimName": name}})
            if rng.random() < 0.9:
                made.append(create(DISKS, name, draw.late_s(at_s), spec=_claim_spec(draw)))
    if "devices" in draw.features and rng.random() < 0.5:
        if rng.random() < 0.5:
            wanted.append({"name": "own", "resourceClaimTemplateName": rng.choice(("one", "two"))})
        else:
            name = _claim_name(draw, "claim")
            wanted.append({"name": "shared", "resourceClaimName": name})
            made.append(named_claim(draw, name, at_s))
    if volumes:
        spec["volumes"] = volumes
    if wanted:
        spec["resourceClaims"] = wanted
    return made


def named_claim(draw: Draw, name: str, at_s: float) -> Action:
    """A claim for devices, which may come later."""
    devices = _devices_spec(draw, draw.rng.choice((1, 1, 2)))
    return create(CLAIMS, name, draw.late_s(at_s), spec={"devices": devices})


def _claim_name(draw: Draw, kind: str) -> str:
    """Often one that another pod has, too."""
    if draw.rng.random() < 0.4:
        return f"{kind}-{draw.rng.choice(SHARED)}"
    return f"{kind}-{len(draw.pods)}"


def device_pools(draw: Draw) -> list[Action]:
    """A class, templates for claims, and what each node has."""
    expression = f'device.driver == "{GPU_DRIVER}"'
    selectors = [{"cel": {"expression": expression}}]
    made = [create(f"{DEVICES}/deviceclasses", "gpu", spec={"selectors": selectors})]
    for name, count in (("one", 1), ("two", 2)):
        spec = {"spec": {"devices": _devices_spec(draw, count)}}
        path = f"{DEVICES}/namespaces/default/resourceclaimtemplates"
        made.append(create(path, name, spec=spec))
    return made + [create(SLICES, node, spec=_pool(draw, node)) for node in draw.nodes]


def _pool(draw: Draw, node: str) -> Json:
    rng = draw.rng
    devices = [
        {"name": f"gpu-{number}", "attributes": {"model": {"string": rng.choice(("a", "b"))}}}
        for number in range(rng.randint(0, 3))
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {"driver": GPU_DRIVER, "nodeName": node, "pool": pool, "devices": devices}


def _devices_spec(draw: Draw, count: int) -> Json:
    exactly: Json = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    if draw.rng.random() < 0.3:
        model = f'device.attributes["{GPU_DRIVER}"].model == "a"'
        exactly["selectors"] = [{"cel": {"expression": model}}]
    return {"requests": [{"name": "r", "exactly": exactly}]}


def volumes(draw: Draw) -> list[Action]:
    """What becomes of claims and volumes later."""
    rng, made = draw.rng, []
    for _ in draw.some(4):
        disk = f"{DISKS}/disk-{rng.choice((*SHARED, *range(len(draw.pods))))}"
        node = rng.choice(draw.nodes)
        at_s = draw.time_s()
        choice = rng.random()
        if choice < 0.4:
            made.append(Action(at_s, "delete", {"path": disk}))
            if rng.random() < 0.7:
                name = disk.rpartition("/")[2]
                made.append(create(DISKS, name, at_s + rng.random(), spec=_claim_spec(draw)))
        elif choice < 0.6:
            made.append(Action(at_s, "delete", {"path": f"{VOLUMES}/local-{rng.randint(0, 3)}"}))
        elif choice < 0.8:
            made.append(Action(at_s, "delete", {"path": f"{STORAGE}/csinodes/{node}"}))
        else:
            limit = {
                "name": DRIVER,
                "nodeID": node,
                "allocatable": {"count": rng.randint(0, 3)},
            }
            spec = {"drivers": [limit]}
            made.append(create(f"{STORAGE}/csinodes", node, at_s, spec=spec))
    return made


def devices(draw: Draw) -> list[Action]:
    """What becomes of devices later."""
    rng, made = draw.rng, []
    for _ in draw.some(4):
        node, at_s = rng.choice(draw.nodes), draw.time_s()
        choice = rng.random()
        if choice < 0.4:
            spec = _pool(draw, node)
            spec["pool"]["generation"] = 2
            made.append(
                Action(at_s, "change", {"path": f"{SLICES}/{node}", "body": {"spec": spec}})
            )
        elif choice < 0.6:
            made.append(Action(at_s, "delete", {"path": f"{SLICES}/{node}"}))
            again_s = at_s + rng.random() * 3
            made.append(create(SLICES, node, again_s, spec=_pool(draw, node)))
        else:
            name = f"claim-{rng.choice((*SHARED, *range(len(draw.pods))))}"
            made.append(Action(at_s, "delete", {"path": f"{CLAIMS}/{name}"}))
    return made


def controllers(draw: Draw) -> Action:
    """What makes volumes for claims and claims of templates."""
    return Action(0.0, "start_controllers", {"period_s": draw.rng.choice((0.1, 0.5, 2.0))})


def device_resources(draw: Draw) -> list[Action]:
    """Devices that pods ask for as an amount: by a name that their class has, maybe one that nodes know
    otherwise, too, or by the class itself."""
    rng = draw.rng
    name = rng.choice((CARD, CARD, DEVICE))
    made = _devices_of_class(draw, "card", extendedResourceName=name)
    for _ in draw.some(6):
        asked = rng.choice((name, name, "deviceclass.resource.kubernetes.io/card"))
        amounts = {asked: str(rng.choice((1, 1, 2)))}
        spec = dict(rng.choice(draw.shapes)["spec"])
        (container,) = spec["containers"]
        requests = {**container["resources"]["requests"], **amounts}
        limits = {**container["resources"].get("limits", {}), **amounts}
        resources = {"requests": requests, "limits": limits}
        made += alike(draw, spec | {"containers": [{**container, "resources": resources}]})
    return made


def matched(draw: Draw) -> list[Action]:
    """Claims of which all devices have to be of one model."""
    rng = draw.rng
    made = _devices_of_class(draw, "matched")
    same = [{"matchAttribute": f"{GPU_DRIVER}/model"}]
    for number in draw.some(4):
        requests = [
            {
                "name": f"r{each}",
                "exactly": {"deviceClassName": "matched", "count": rng.randint(1, 2)},
            }
            for each in draw.some(2)
        ]
        template = {"spec": {"devices": {"requests": requests, "constraints": same}}}
        path = f"{DEVICES}/namespaces/default/resourceclaimtemplates"
        made.append(create(path, f"matched-{number}", spec=template))
        wanted = [{"name": "own", "resourceClaimTemplateName": f"matched-{number}"}]
        made += alike(draw, {**rng.choice(draw.shapes)["spec"], "resourceClaims": wanted})
    return made


def partitions(draw: Draw) -> list[Action]:
    """Devices that are cut out of one card, each of which takes its size of what the card has; of some
    cards the part that says how much that is goes for a while."""
    rng = draw.rng
    selectors = [{"cel": {"expression": f'device.driver == "{PARTS_DRIVER}"'}}]
    made = [create(f"{DEVICES}/deviceclasses", "part", spec={"selectors": selectors})]
    for node in draw.nodes:
        counters = _card(node, sharedCounters=[{"name": "card", "counters": _memory(4)}])
        made += [
            create(SLICES, f"{node}-card", spec=counters),
            create(SLICES, f"{node}-parts", spec=_card(node, devices=_parts(draw))),
        ]
        if rng.random() < 0.2:
            at_s = draw.time_s()
            made.append(Action(at_s, "delete", {"path": f"{SLICES}/{node}-card"}))
            made.append(create(SLICES, f"{node}-card", at_s + rng.random() * 3, spec=counters))
    for number in draw.some(4):
        exactly: Json = {"deviceClassName": "part", "count": rng.choice((1, 1, 2))}
        if rng.random() < 0.6:
            size = f'device.attributes["{PARTS_DRIVER}"].size == {rng.choice((1, 2, 4))}'
            exactly["selectors"] = [{"cel": {"expression": size}}]
        template = {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
        path = f"{DEVICES}/namespaces/default/resourceclaimtemplates"
        made.append(create(path, f"part-{number}", spec=template))
        wanted = [{"name": "own", "resourceClaimTemplateName": f"part-{number}"}]
        made += alike(draw, {**rng.choice(draw.shapes)["spec"], "resourceClaims": wanted})
    if not {"volumes", "devices"} & draw.features:
        made.append(controllers(draw))
    return made


def _card(node: str, **what: list[Json]) -> Json:
    pool = {"name": f"{node}-card", "generation": 1, "resourceSliceCount": 2}
    return {"driver": PARTS_DRIVER, "nodeName": node, "pool": pool, **what}


def _memory(size: int) -> Json:
    return {"memory": {"value": f"{size}Gi"}}


def _parts(draw: Draw) -> list[Json]:
    sizes = draw.rng.choice(((4, 2, 2), (4, 2, 1, 1), (2, 2, 2), (4, 1), (2, 1, 1, 1)))
    return [
        {
            "name": f"part-{number}",
            "attributes": {"size": {"int": size}},
            "consumesCounters": [{"counterSet": "card", "counters": _memory(size)}],
        }
        for number, size in enumerate(sizes)
    ]


def _devices_of_class(draw: Draw, name: str, **fields: str) -> list[Action]:
    selectors = [{"cel": {"expression": f'device.driver == "{GPU_DRIVER}"'}}]
    made = [create(f"{DEVICES}/deviceclasses", name, spec={"selectors": selectors, **fields})]
    if "devices" not in draw.features:
        made += [create(SLICES, node, spec=_pool(draw, node)) for node in draw.nodes]
    if not {"volumes", "devices"} & draw.features:
        made.append(controllers(draw))
    return made


def alike(draw: Draw, spec: Json, **labels: str) -> list[Action]:
    """A few pods of one spec at a time."""
    at_s, made = draw.time_s(), []
    for _ in draw.some(3):
        pod: Json = {"namespace": "default", "name": f"p{len(draw.pods)}"}
        draw.pods.append(pod)
        made.append(
            Action(at_s, "create_pod", {**pod, "labels": {"app": "a", **labels}, "spec": spec})
        )
    return made
