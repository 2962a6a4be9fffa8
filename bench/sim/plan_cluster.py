"""Nodes and pods of a plan, and what happens to them without anything going wrong."""

from typing import Final

from bench.sim import plan_claims
from bench.sim.deadly import (
    DEADLY,
    EXCEPTION,
    FAILS_AS,
    FAILURES,
    OWNER,
    SCORER,
    SIGHT,
    WHOEVER_SEES,
)
from bench.sim.draw import STARTS_S, Action, Draw, Json
from bench.sim.extender import LICENCE, SEAT
from bench.sim.permit import GROUP
from bench.sim.permit import SIZE as GROUP_SIZE
from bench.sim.poison import PREFIX, poisonous_pod
from bench.sim.poison import poison as poisonous
from bench.sim.refusal import CODES, PERMIT, REFUSED_AS, REFUSED_AT, RESERVE
from bench.sim.sim_objects import HOST, NODES

ZONE: Final = "topology.kubernetes.io/zone"
APPS: Final = ("a", "b")
NAMESPACES: Final = ("default", "other")
CONFIGURATIONS: Final = 5
"""So many files there are beside the first."""
EXISTS: Final[Json] = {"operator": "Exists"}


def new_node(draw: Draw, name: str) -> Json:
    """A node as `put_node` is told of it."""
    rng = draw.rng
    if name not in draw.nodes:
        draw.nodes.append(name)
    labels = {HOST: name, ZONE: rng.choice(("z1", "z2"))}
    if rng.random() < 0.4:
        labels["disk"] = "ssd"
    room: Json = {
        "cpu": str(rng.choice((1, 2, 4, 6))),
        "memory": rng.choice(("2Gi", "8Gi")),
        "pods": str(rng.choice((3, 110))),
    }
    if "extended" in draw.features and rng.random() < 0.6:
        room[plan_claims.DEVICE] = str(rng.randint(1, 3))
    taints: list[Json] = []
    if "taints" in draw.features and rng.random() < 0.3:
        effect = rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
        taints = [{"key": "t", "value": "v", "effect": effect}]
    cordoned = "taints" in draw.features and rng.random() < 0.1
    return {"name": name, "labels": labels, "room": room, "taints": taints,
            "unschedulable": cordoned}  # fmt: skip


def shape(draw: Draw) -> Json:
    """Labels and spec that several pods have in common."""
    rng, features = draw.rng, draw.features
    requests: Json = {"cpu": rng.choice(("100m", "500m", "1", "1500m", "2", "3", "5"))}
    if rng.random() < 0.3:
        requests["memory"] = rng.choice(("64Mi", "1Gi", "3Gi"))
    container: Json = {"name": "c", "image": "i", "resources": {"requests": requests}}
    app = rng.choice(APPS)
    spec: Json = {
        "containers": [container],
        "terminationGracePeriodSeconds": rng.choice((0, 0, 1, 4)),
    }
    if "extended" in features and rng.random() < 0.5:
        count = str(rng.randint(1, 2))
        requests[plan_claims.DEVICE] = count
        container["resources"]["limits"] = {plan_claims.DEVICE: count}
    if "ports" in features and rng.random() < 0.4:
        container["ports"] = [{"containerPort": 80, "hostPort": rng.choice((80, 81))}]
    if "preemption" in features:
        spec["priority"] = rng.choice((0, 0, 10, 100, 1000))
        if rng.random() < 0.1:
            spec["preemptionPolicy"] = "Never"
    if "taints" in features and rng.random() < 0.4:
        spec["tolerations"] = [rng.choice(({"operator": "Exists"}, {"key": "t"} | EXISTS))]
    if rng.random() < 0.2:
        spec["nodeSelector"] = {"disk": "ssd"}
    if "spread" in features and rng.random() < 0.6:
        spec["topologySpreadConstraints"] = [_constraint(draw, app)]
    if "affinity" in features and rng.random() < 0.6:
        spec["affinity"] = _affinity(draw, app)
    return {"labels": {"app": app}, "spec": spec}


def _constraint(draw: Draw, app: str) -> Json:
    rng = draw.rng
    return {
        "maxSkew": rng.choice((1, 1, 2)),
        "topologyKey": rng.choice((HOST, ZONE)),
        "whenUnsatisfiable": rng.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": {"matchLabels": {"app": app}},
    }


def _affinity(draw: Draw, app: str) -> Json:
    rng = draw.rng
    term: Json = {
        "topologyKey": rng.choice((HOST, ZONE)),
        "labelSelector": {"matchLabels": {"app": rng.choice((app, *APPS))}},
    }
    if "namespaces" in draw.features and rng.random() < 0.5:
        term["namespaceSelector"] = rng.choice(({}, {"matchLabels": {"team": "x"}}))
    kind = rng.choice(("podAffinity", "podAntiAffinity", "podAntiAffinity"))
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def budget(draw: Draw, app: str) -> Action:
    """One over the pods of an app."""
    allowed = draw.rng.randint(0, 1)
    return Action(0.0, "create_budget", {"name": f"b-{app}", "app": app, "allowed": allowed})


def pods_at(draw: Draw, at_s: float, namespace: str = "default") -> list[Action]:
    """A burst of pods of one shape, with what they want."""
    rng = draw.rng
    draw.burst_times_s.append(at_s or STARTS_S)
    shape = rng.choice(draw.shapes)
    made = []
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        if "namespaces" in draw.features:
            namespace = rng.choice(NAMESPACES)
        pod: Json = {"namespace": namespace, "name": f"p{len(draw.pods)}"}
        draw.pods.append(pod)
        given, labels = dict(shape["spec"]), shape["labels"]
        made += plan_claims.add_claims(draw, given, at_s)
        if "groups" in draw.features and rng.random() < 0.3:
            labels = {
                **labels,
                GROUP: rng.choice(APPS),
                GROUP_SIZE: rng.choice(("1", "2", "3")),
            }
        if "gates" in draw.features and rng.random() < 0.2:
            given["schedulingGates"] = [{"name": "example.com/gate"}]
        made.append(Action(at_s, "create_pod", {**pod, "labels": labels, "spec": given}))
        at_s += rng.choice((0.0, 0.0, rng.random() * 0.02))
    return made


def deletions(draw: Draw) -> list[Action]:
    """Pods that somebody deletes."""
    return [Action(draw.time_s(), "delete_pod", draw.pod()) for _ in draw.some(8)]


def short_lived(draw: Draw) -> list[Action]:
    """Pods that end by themselves."""
    return [Action(draw.time_s(), "finish_pod", draw.pod()) for _ in draw.some(8)]


def gates(draw: Draw) -> list[Action]:
    """Most gates are opened some time."""
    return [
        Action(draw.time_s(), "open_gates", pod) for pod in draw.pods if draw.rng.random() < 0.7
    ]


def renames(draw: Draw) -> list[Action]:
    """Pods that are deleted and created anew under the same name, as a StatefulSet's."""
    made = []
    for _ in draw.some(4):
        shape = draw.rng.choice(draw.shapes)
        what = {**draw.pod(), "labels": shape["labels"], "spec": dict(shape["spec"])}
        made.append(Action(draw.time_s(), "recreate_pod", what))
    return made


def namespaces(draw: Draw) -> list[Action]:
    """Another label of the namespace that selectors mean."""
    labels = draw.rng.choice(({"team": "y"}, {"team": "x"}, {}))
    return [Action(draw.time_s(), "label_namespace", {"name": "other", "labels": labels})]


def foreign(draw: Draw) -> list[Action]:
    """Bindings by somebody else, and labels that change."""
    rng, made = draw.rng, []
    for _ in draw.some(4):
        what = {**draw.pod(), "node": rng.choice(draw.nodes)}
        made.append(Action(draw.time_s(), "foreign_bind", what))
    for _ in draw.some(3):
        what = {**draw.pod(), "labels": {"app": rng.choice(APPS)}}
        made.append(Action(draw.time_s(), "label_pod", what))
    for _ in draw.some(4):  # Best while it is on its way to its node.
        at_s = rng.choice(draw.burst_times_s) + 10 ** rng.uniform(-3, 0)
        made.append(Action(at_s, "mark_preempted", draw.pod()))
    return made


def node_churn(draw: Draw) -> list[Action]:
    """Nodes that come, go and change."""
    rng, made = draw.rng, []
    for _ in draw.some(8):
        name = rng.choice((*draw.nodes, f"n{len(draw.nodes)}"))
        if rng.random() < 0.3:
            made.append(Action(draw.time_s(), "delete_node", {"name": name}))
        elif rng.random() < 0.5:
            # While pods are on their way to the nodes that were there when they came.
            at_s = rng.choice(draw.burst_times_s) + 10 ** rng.uniform(-4, -1.5)
            other = new_node(draw, f"n{len(draw.nodes)}")
            made.append(Action(at_s, "replace_node", {"old": name, "new": other}))
        else:
            made.append(Action(draw.time_s(), "put_node", new_node(draw, name)))
    for burst_s in draw.burst_times_s:
        if rng.random() < 0.2:
            made += _swap(draw, burst_s)
    return made


def _swap(draw: Draw, burst_s: float) -> list[Action]:
    """A node that is still empty, and that pods like best, is replaced while they are on their way
    to it: the next one takes its row."""
    old, new = (new_node(draw, f"n{len(draw.nodes)}") for _ in range(2))
    for node in (old, new):
        node["room"] = {"cpu": "6", "memory": "8Gi", "pods": "110", plan_claims.DEVICE: "3"}
        node["taints"], node["unschedulable"] = [], False
        node["labels"] = {HOST: node["name"], ZONE: "z1", "disk": "ssd"}
    at_s = burst_s + 10 ** draw.rng.uniform(-3.7, -2)
    return [
        Action(max(0.0, burst_s - 0.3), "put_node", old),
        Action(at_s, "replace_node", {"old": old["name"], "new": new}),
    ]


def poison(draw: Draw) -> list[Action]:
    """Objects that should not be."""
    rng, made = draw.rng, []
    for number in draw.some(12):
        plural, body = poisonous(rng, rng.randint(0, number))
        at_s = rng.choice((0.0, draw.time_s()))
        made.append(Action(at_s, "put_raw", {"plural": plural, "body": body}))
    return made


def reloads(draw: Draw) -> list[Action]:
    """Another configuration, and the signal to read it."""
    rng = draw.rng
    return [
        Action(
            draw.time_s(),
            "reload",
            {"berth": rng.choice((0, 0, 1)), "configuration": rng.randint(0, CONFIGURATIONS)},
        )
        for _ in draw.some(3)
    ]


def deadly(draw: Draw) -> list[Action]:
    """Pods that a process does not survive. They fit nowhere, if anybody gets so far."""
    made = []
    for number in draw.some(2):
        spec = {"nodeSelector": {"nowhere": "x"}, "containers": [{"name": "c", "image": "i"}]}
        labels = {DEADLY: draw.rng.choice((OWNER, SCORER))}
        what = {"namespace": "default", "name": f"{PREFIX}deadly-{number}", "labels": labels}
        made.append(Action(draw.time_s(), "create_pod", {**what, "spec": spec}))
    return made


def seen(draw: Draw) -> list[Action]:
    """Nodes and drivers that an owner does not survive while certain pods wait, which fit nowhere."""
    rng, made = draw.rng, []
    spec = {"nodeSelector": {"nowhere": "x"}, "containers": [{"name": "c", "image": "i"}]}
    for number in draw.some(2):
        named = {"namespace": "default", "name": f"{PREFIX}watches-{number}"}
        what = {**named, "labels": {DEADLY: WHOEVER_SEES}, "spec": spec}
        made.append(Action(draw.time_s(), "create_pod", what))
    room = {"cpu": "0", "memory": "0", "pods": "0"}
    objects: dict[str, Json] = {"nodes": {"status": {"allocatable": room}}, "csidrivers": {}}
    for plural in rng.sample(sorted(objects), rng.choice((1, 2))):
        body = {"metadata": {"name": f"{SIGHT}-{plural}"}, **objects[plural]}
        made.append(Action(draw.time_s(), "put_raw", {"plural": plural, "body": body}))
    return made


def faulty(draw: Draw) -> list[Action]:
    """Pods that a plugin fails on or refuses from the start, and one that workers die of until it is
    made another; and one that matters more all of a sudden. They fit nowhere, if anybody gets so far."""
    rng, made = draw.rng, []
    spec = {"nodeSelector": {"nowhere": "x"}, "containers": [{"name": "c", "image": "i"}]}
    for kind in rng.sample((EXCEPTION, *FAILURES), rng.choice((1, 2))):
        at_s = draw.time_s()
        for number in draw.some(3):
            named = {"namespace": "default", "name": f"{PREFIX}{kind}-{number}"}
            what = {**named, "labels": {FAILS_AS: kind}, "spec": spec}
            made.append(Action(at_s, "create_pod", what))
    for at_s, priority in ((0.0, 1), (draw.rng.uniform(0.2, 1.0), 2)):
        meta = {"namespace": "default", "name": f"{PREFIX}promoted"}
        ours = {"schedulerName": "default-scheduler", "priority": priority}
        body = {"metadata": meta, "spec": spec | ours}
        made.append(Action(at_s, "put_raw", {"plural": "pods", "body": body}))
    named = {"namespace": "default", "name": f"{PREFIX}reformed"}
    made.append(Action(0.0, "create_pod", {**named, "labels": {DEADLY: SCORER}, "spec": spec}))
    made.append(Action(draw.time_s() + 4, "label_pod", {**named, "labels": {DEADLY: "nobody"}}))
    return made


def refused(draw: Draw) -> list[Action]:
    """Pods that somebody refuses where they are about to be bound, some of which are deleted."""
    rng, made = draw.rng, []
    for _ in draw.some(6):
        labels = {
            REFUSED_AT: rng.choice((RESERVE, PERMIT)),
            REFUSED_AS: rng.choice(tuple(CODES)),
        }
        at_s, given = draw.time_s(), rng.choice(draw.shapes)
        for _ in draw.some(3):
            pod: Json = {"namespace": "default", "name": f"p{len(draw.pods)}"}
            draw.pods.append(pod)
            what = {**pod, "labels": given["labels"] | labels, "spec": given["spec"]}
            made.append(Action(at_s, "create_pod", what))
            if rng.random() < 0.3:
                made.append(Action(draw.time_s(), "delete_pod", dict(pod)))
    return made


def poison_bound(draw: Draw) -> list[Action]:
    """Pods that should not be, on a node without room."""
    rng = draw.rng
    room = {"cpu": "0", "memory": "0", "pods": "0"}
    node: Json = {"metadata": {"name": f"{PREFIX}home"}, "status": {"allocatable": room}}
    made = [Action(0.0, "put_raw", {"plural": "nodes", "body": node})]
    for number in draw.some(6):
        body = poisonous_pod(rng, f"bound-{number}")
        body["spec"]["nodeName"] = f"{PREFIX}home"
        made.append(Action(draw.time_s(), "put_raw", {"plural": "pods", "body": body}))
    return made


def extended(draw: Draw) -> list[Action]:
    """Pods that extenders have a say in, some of which are deleted."""
    rng, made = draw.rng, []
    draw.shapes = [shape(draw) for _ in draw.some(3)]
    for each in draw.shapes:
        resources = each["spec"]["containers"][0]["resources"]
        asked = rng.choice(((LICENCE,), (SEAT,), (LICENCE, SEAT)))
        count = {name: str(rng.randint(1, 2)) for name in asked}
        resources["requests"] |= count
        resources["limits"] = resources.get("limits", {}) | count
    for _ in draw.some(6):
        made += pods_at(draw, draw.time_s())
    pods = [action.what for action in made if action.do == "create_pod"]
    for pod in rng.sample(pods, rng.randint(0, len(pods) // 2)):
        named = {"namespace": pod["namespace"], "name": pod["name"]}
        made.append(Action(draw.time_s(), rng.choice(("delete_pod", "finish_pod")), named))
    return made


def daemons(draw: Draw) -> list[Action]:
    """Pods that want one node by its name, as a DaemonSet's do; some contradict themselves, or name one
    that is not there."""
    rng, made = draw.rng, []
    for _ in draw.some(3):
        names = [rng.choice(draw.nodes)]
        for name in draw.nodes if rng.random() < 0.5 else names:
            fields = [_is_named(name)]
            if rng.random() < 0.2:
                fields.append(_is_named(rng.choice((*draw.nodes, "nowhere"))))
            terms = [{"matchFields": fields}]
            required = {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
            }
            spec = {**rng.choice(draw.shapes)["spec"]}
            spec["affinity"] = {**spec.get("affinity", {}), "nodeAffinity": required}
            made += plan_claims.alike(draw, spec)
    return made


def _is_named(name: str) -> Json:
    return {"key": "metadata.name", "operator": "In", "values": [name]}


def images(draw: Draw) -> list[Action]:
    """What nodes have pulled already, which comes and goes."""
    rng, made = draw.rng, []
    for node in draw.nodes:
        for at_s in (0.0, draw.time_s()):
            names = rng.sample(("i:latest", "j:latest", "example.com/i:latest"), 2)
            size = rng.choice((1, 30, 400, 2000)) * 1024 * 1024
            body = {"status": {"images": [{"names": names, "sizeBytes": size}]}}
            made.append(Action(at_s, "change", {"path": f"{NODES}/{node}/status", "body": body}))
    return made
