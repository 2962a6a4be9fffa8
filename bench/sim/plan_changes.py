"""Objects of a plan that stay and become others: what nodes say of themselves, what pods ask for."""

from bench.sim.door import DOOR, STATES
from bench.sim.draw import Action, Draw, Json
from bench.sim.plan_claims import alike
from bench.sim.plan_cluster import EXISTS, NAMESPACES, pods_at
from bench.sim.sim_objects import NODES

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"

FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")
"""What a node may declare, and a pod need."""


def declared(draw: Draw) -> list[Action]:
    """Nodes that say otherwise what they can do, how they are, and what is noted of them; and pods that
    need what they can do."""
    rng, made = draw.rng, []
    for node in draw.nodes:
        for at_s in (0.0, draw.time_s(), draw.time_s()):
            told = rng.choice((FEATURES, FEATURES[:1], FEATURES[1:], ()))
            ready = {"type": "Ready", "status": rng.choice(("True", "False", "Unknown"))}
            status = rng.choice(
                ({"declaredFeatures": told}, {"declaredFeatures": told}, {"conditions": [ready]})
            )
            made.append(_change(at_s, f"{NODES}/{node}/status", {"status": status}))
        noted = {"annotations": {"example.com/note": rng.choice(("a", "b"))}}
        made.append(_change(draw.time_s(), f"{NODES}/{node}", {"metadata": noted}))
    for _ in draw.some(4):
        spec = dict(rng.choice(draw.shapes)["spec"])
        if rng.random() < 0.5:
            spec |= {"hostNetwork": True, "hostUsers": False}
        else:
            (container,) = spec["containers"]
            exits = {"operator": "In", "values": [1]}
            rules = [{"action": "RestartAllContainers", "exitCodes": exits}]
            restarts = {"restartPolicy": "Never", "restartPolicyRules": rules}
            spec["containers"] = [container | restarts]
        made += alike(draw, spec)
    return made


def started(draw: Draw) -> list[Action]:
    """Pods that run, since some time."""
    return [Action(draw.time_s(), "start_pod", draw.pod()) for _ in draw.some(8)]


def _change(at_s: float, path: str, body: Json) -> Action:
    return Action(at_s, "change", {"path": path, "body": body})


def altered(draw: Draw) -> list[Action]:
    """Pods that tolerate more than before, or ask for more or less; best while they are on their way."""
    rng, made = draw.rng, []
    for _ in draw.some(12):
        at_s = draw.time_s()
        if rng.random() < 0.5:
            at_s = rng.choice(draw.burst_times_s) + 10 ** rng.uniform(-3, 0)
        if rng.random() < 0.4:
            toleration = rng.choice((EXISTS, {"key": "t"} | EXISTS, {"key": "u"} | EXISTS))
            made.append(Action(at_s, "tolerate", {**draw.pod(), "toleration": toleration}))
        else:
            cpu = rng.choice(("50m", "100m", "400m", "1", "2", "4"))
            made.append(Action(at_s, "resize_pod", {**draw.pod(), "cpu": cpu}))
    return made


def doors(draw: Draw) -> list[Action]:
    """Pods that wait for doors, which come, open, shut and go; nobody may know of one yet."""
    rng, made = draw.rng, []
    small = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}]}
    for door in ("front", "back"):
        for _ in draw.some(6):
            body = {
                "metadata": {"namespace": "default", "name": door},
                "spec": {"holderIdentity": rng.choice(STATES)},
            }
            made.append(Action(draw.time_s(), "put_raw", {"plural": "leases", "body": body}))
        path = {"path": f"{LEASES}/{door}"}
        made += [Action(draw.time_s(), "delete", path) for _ in draw.some(2)]
        for _ in draw.some(4):
            spec = rng.choice((small, rng.choice(draw.shapes)["spec"]))
            made += alike(draw, spec, **{DOOR: door})
    return made


def ended(draw: Draw) -> list[Action]:
    """A namespace is deleted with all that is in it, and made anew."""
    rng, made = draw.rng, []
    for _ in draw.some(2):
        what: Json = {"name": NAMESPACES[1], "labels": {"team": rng.choice("xy")}}
        what["after_s"] = rng.choice((0.0, 0.01, 10 ** rng.uniform(-2, 0.5)))
        made.append(Action(draw.time_s(), "end_namespace", what))
        for _ in draw.some(3):
            made += pods_at(draw, draw.time_s(), NAMESPACES[1])
    return made
