"""Volumes of a plan that are there before anybody asks for them: the scheduler chooses one with the
node, and the binder takes it for the claim."""

from itertools import zip_longest
from typing import Final

from bench.sim.draw import Action, Draw, Json, create
from bench.sim.plan_claims import DISKS, NO_PROVISIONER, STORAGE, VOLUMES, alike, controllers
from bench.sim.sim_objects import on_node

CLASS: Final = "static"
MODE: Final = "ReadWriteOnce"


def static(draw: Draw) -> list[Action]:
    """More than are wanted, or less; some are meant for a claim; some change, or go, or cannot be
    written to for a while."""
    rng = draw.rng
    provided: Json = {"provisioner": NO_PROVISIONER, "volumeBindingMode": "WaitForFirstConsumer"}
    made = [create(f"{STORAGE}/storageclasses", CLASS, **provided)]
    claims = [f"static-{number}" for number in draw.some(5)]
    volumes = [f"volume-{number}" for number in draw.some(6)]
    for name, claim in zip_longest(volumes, claims[: len(volumes)]):
        at_s = rng.choice((0.0, 0.0, draw.time_s()))
        made.append(create(VOLUMES, name, at_s, spec=_volume(draw, claim)))
    for name in claims:
        requests = {"storage": rng.choice(("1Gi", "3Gi"))}
        spec = {
            "storageClassName": CLASS,
            "accessModes": [MODE],
            "resources": {"requests": requests},
        }
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
