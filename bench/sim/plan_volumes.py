"""Volumes of a plan that are there before anybody asks for them: the scheduler chooses one with the
node, and the binder takes it for the claim."""

from itertools import zip_longest
from typing import Final

from bench.sim.draw import Action, Draw, Json, create
from bench.sim.plan_claims import DISKS, NO_PROVISIONER, STORAGE, VOLUMES, alike, controllers
from bench.sim.sim_objects import DRIVER, on_node

CLASS: Final = "static"
MADE_CLASS: Final = "made"
MODE: Final = "ReadWriteOnce"


def static(draw: Draw) -> list[Action]:
    """More than are wanted, or less; some are meant for a claim; some change, or go, or cannot be
    written to for a while."""
    rng = draw.rng
    made = [_class()]
    claims = [f"static-{number}" for number in draw.some(5)]
    volumes = [f"volume-{number}" for number in draw.some(6)]
    for name, claim in zip_longest(volumes, claims[: len(volumes)]):
        at_s = rng.choice((0.0, 0.0, draw.time_s()))
        made.append(create(VOLUMES, name, at_s, spec=_volume(draw, claim)))
    for name in claims:
        spec = _claim(rng.choice(("1Gi", "3Gi")))
        made.append(create(DISKS, name, draw.late_s(draw.time_s()), spec=spec))
    for _ in draw.some(6):
        wanted = [
            {"name": name, "persistentVolumeClaim": {"claimName": name}}
            for name in rng.sample(claims, min(len(claims), rng.choice((1, 1, 2))))
        ]
        made += alike(draw, {**rng.choice(draw.shapes)["spec"], "volumes": wanted})
    made += _later(draw, claims, volumes)
    if not {"volumes", "devices"} & draw.features:
        made.append(controllers(draw))
    return made


def remade(draw: Draw) -> list[Action]:
    """Claims that are deleted and made again while volumes are being taken or made for them, and volumes
    that are taken away again, while the binder is kept waiting for what it asks."""
    rng, mode = draw.rng, "WaitForFirstConsumer"
    path = f"{STORAGE}/storageclasses"
    made = [_class(), create(path, MADE_CLASS, provisioner=DRIVER, volumeBindingMode=mode)]
    for number in draw.some(3):
        at_s, name = draw.time_s(), f"remade-{number}"
        volume = f"volume-{name}"
        made.append(create(VOLUMES, volume, spec=_volume(draw, None)))
        claim = _claim("1Gi") | rng.choice(({}, {"storageClassName": MADE_CLASS}))
        made.append(create(DISKS, name, at_s - 0.1, spec=claim))
        wanted = [{"name": name, "persistentVolumeClaim": {"claimName": name}}]
        spec = {**rng.choice(draw.shapes)["spec"], "volumes": wanted}
        pod: Json = {"namespace": "default", "name": f"p{len(draw.pods)}"}
        draw.pods.append(pod)
        made.append(Action(at_s, "create_pod", {**pod, "labels": {"app": "a"}, "spec": spec}))
        late: Json = {"at": "request", "do": "delay", "delay_s": 1.5, "method": "GET"}
        gone_s = at_s + 10 ** rng.uniform(-1, 0)
        if rng.random() < 0.3:
            made.append(Action(at_s, "api_fault", late | {"path": f"*/persistentvolumes/{volume}"}))
            what = {"path": f"{VOLUMES}/{volume}", "body": {"spec": {"claimRef": None}}}
            made.append(Action(gone_s, "change", what))
            continue
        path = f"*/persistentvolumeclaims/{name}"
        made.append(Action(at_s, "api_fault", late | {"path": path}))
        made.append(Action(gone_s, "delete", {"path": f"{DISKS}/{name}"}))
        made.append(create(DISKS, name, gone_s + 10 ** rng.uniform(-3, -1), spec=claim))
    if not {"volumes", "devices"} & draw.features:
        made.append(controllers(draw))
    return made


def _class() -> Action:
    provided: Json = {"provisioner": NO_PROVISIONER, "volumeBindingMode": "WaitForFirstConsumer"}
    return create(f"{STORAGE}/storageclasses", CLASS, **provided)


def _claim(size: str) -> Json:
    return {
        "storageClassName": CLASS,
        "accessModes": [MODE],
        "resources": {"requests": {"storage": size}},
    }


def _volume(draw: Draw, claim: str | None) -> Json:
    """Meant for the claim, perhaps: no two for the same, of which kube-scheduler would take the first
    that it comes across (`FindMatchingVolume` in component-helpers/storage/volume, v1.36.2)."""
    rng = draw.rng
    spec: Json = {
        "storageClassName": CLASS,
        "accessModes": [MODE],
        "capacity": {"storage": rng.choice(("1Gi", "3Gi", "5Gi"))},
        "local": {"path": "/disk"},
        "nodeAffinity": on_node(rng.choice(draw.nodes)),
    }
    if claim is not None and rng.random() < 0.4:
        spec["claimRef"] = {"namespace": "default", "name": claim}
    return spec


def _later(draw: Draw, claims: list[str], volumes: list[str]) -> list[Action]:
    rng, made = draw.rng, []
    for _ in draw.some(4):
        labelled: Json = {"metadata": {"labels": {"app": rng.choice(("a", "b"))}}}
        path = f"{VOLUMES}/{rng.choice(volumes)}"
        made.append(Action(draw.time_s(), "change", {"path": path, "body": labelled}))
    for _ in draw.some(2):
        path = rng.choice((f"{VOLUMES}/{rng.choice(volumes)}", f"{DISKS}/{rng.choice(claims)}"))
        made.append(Action(draw.time_s(), "delete", {"path": path}))
    for _ in draw.some(3):
        fault = rng.choice(
            ({"at": "request", "do": "refuse", "code": rng.choice((409, 500))},
             {"at": "answer", "do": "disconnect"})
        )  # fmt: skip
        rule = {"method": "PATCH", "path": "*/persistentvolumes/*", "times": rng.randint(1, 3)}
        made.append(Action(draw.time_s(), "api_fault", rule | fault))
    return made
