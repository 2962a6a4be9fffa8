"""Pod groups of a plan: gangs that come whole or in part, before their PodGroup or after it, and pods of
theirs that go."""

import random
from collections.abc import Container
from typing import Final

from bench.sim import plan_claims, plan_cluster, plan_faults
from bench.sim.draw import Action, Draw, Json
from bench.sim.plan_cluster import ZONE, shape
from bench.sim.sim_objects import HOST, NODES

GROUPS: Final = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
ALWAYS: Final = ("GenericWorkload", "GangScheduling")
WAIT_S: Final = 70.0
"""Room is held after 20 s, for as long, and again."""
AWARE: Final = "WorkloadAwarePreemption"
TOPOLOGY: Final = "TopologyAwareWorkloadScheduling"
SOMETIMES: Final = (TOPOLOGY, AWARE)
CLAIMS_OF_GROUPS: Final = "DRAWorkloadResourceClaims"
HOLDS_S: Final = 20.0
OTHER_PROFILE: Final = "other-scheduler"


def feature_gates(seed: int, features: Container[str]) -> str:
    """Those that a plan with pod groups has on."""
    if not any(
        each in features for each in ("pod_groups", "torn", "raided", "equipped", "outfitted")
    ):
        return ""
    rng = random.Random(f"plan/{seed}/gates")
    drawn = [each for each in SOMETIMES if rng.random() < 0.5]
    needs = ("torn", TOPOLOGY), ("raided", AWARE), ("outfitted", CLAIMS_OF_GROUPS)
    needed = [gate for each, gate in needs if each in features]
    return ",".join(f"{gate}=true" for gate in dict.fromkeys((*ALWAYS, *drawn, *needed)))


def waits(seed: int, features: Container[str]) -> bool:
    """Whether a plan lasts until gangs have waited for so long that room is held for them."""
    if "pod_groups" not in features:
        return False
    return random.Random(f"plan/{seed}/reservation").choice((False, True))


def reservation_s(seed: int, features: Container[str]) -> float:
    """How long a gang waits for room to be held, and for how long that is; longer than whoever looks
    whether all is at rest. Also where others have to go for a group as a whole: nobody else keeps what
    they leave for it (submitPodGroupAlgorithmResult in pkg/scheduler/schedule_one_podgroup.go, v1.36.2,
    nominates only pods that have a place already), so others may take it each time, for ever."""
    is_held = waits(seed, features) or AWARE in feature_gates(seed, features)
    return HOLDS_S if is_held else 0.0


def while_gangs_wait(draw: Draw) -> list[Action]:
    """Pods that come and go, and processes that end, until room was held for gangs that have none."""
    draw.lasts_s = WAIT_S
    made = pod_groups(draw)
    for _ in draw.some(12):
        made += plan_cluster.pods_at(draw, draw.time_s())
    for makes in (plan_cluster.deletions, plan_cluster.short_lived, plan_faults.kills):
        made += makes(draw)
    return made


def pod_groups(draw: Draw) -> list[Action]:
    """Some groups, each with its pods."""
    made = []
    for _ in draw.some(4):
        at_s = draw.time_s()
        name = f"g{len(draw.pods)}"
        pods = _members(draw, name, at_s)
        made += pods
        body = {"metadata": {"name": name}, "spec": _spec(draw, len(pods))}
        made.append(Action(draw.late_s(at_s), "create", {"path": GROUPS, "body": body}))
        if draw.rng.random() < 0.1:
            made.append(Action(draw.time_s(), "delete", {"path": f"{GROUPS}/{name}"}))
        for pod in pods:
            named = {"namespace": "default", "name": pod.what["name"]}
            draw.pods.append(named)
            if draw.rng.random() < 0.1:
                do = draw.rng.choice(("delete_pod", "finish_pod"))
                made.append(Action(draw.time_s(), do, named))
    return made


def torn(draw: Draw) -> list[Action]:
    """Groups that keep to a topology domain or a profile, of which some pods do not: somebody else bound
    them elsewhere, they name another profile, or their node says no more where it is."""
    rng, made = draw.rng, []
    for _ in draw.some(3):
        at_s, name = draw.time_s(), f"g{len(draw.pods)}"
        pods = _members(draw, name, at_s)
        tears_profiles = rng.random() < 0.3
        for pod in pods:
            named = {"namespace": "default", "name": pod.what["name"]}
            draw.pods.append(named)
            if tears_profiles and rng.random() < 0.5:
                pod.what["spec"]["schedulerName"] = OTHER_PROFILE
            if rng.random() < 0.4:
                bound_s = pod.at_s + 10 ** rng.uniform(-4, 0.5)
                node = rng.choice(draw.nodes)
                made.append(Action(bound_s, "foreign_bind", {**named, "node": node}))
        spec = _spec(draw, len(pods))
        spec["schedulingConstraints"] = {"topology": [{"key": rng.choice((HOST, ZONE))}]}
        body = {"metadata": {"name": name}, "spec": spec}
        made += pods
        made.append(Action(draw.late_s(at_s), "create", {"path": GROUPS, "body": body}))
    labels: Json = {"metadata": {"labels": {ZONE: None}}}
    for _ in draw.some(2):
        path = f"{NODES}/{rng.choice(draw.nodes)}"
        made.append(Action(draw.time_s(), "change", {"path": path, "body": labels}))
    return made


def raided(draw: Draw) -> list[Action]:
    """Groups that go as a whole, gangs that matter more, and mates of the former that come or go while
    it is found out who has to make room."""
    rng, made = draw.rng, []
    for _ in draw.some(3):
        at_s, name = draw.time_s(), f"g{len(draw.pods)}"
        raid_s = at_s + rng.uniform(0.5, 3)
        mates = _alike(draw, name, at_s, rng.randint(1, 3), 0)
        made += mates
        made.append(_group(name, at_s, {"policy": {"basic": {}}, "priority": 0}))
        gang = f"g{len(draw.pods)}"
        count = rng.randint(1, 3)
        made += _alike(draw, gang, raid_s, count, 1000)
        policy = {"gang": {"minCount": rng.randint(1, count)}}
        made.append(_group(gang, raid_s, {"policy": policy, "priority": 1000}))
        soon_s = raid_s + 10 ** rng.uniform(-3, -1)
        if rng.random() < 0.5:
            made += _alike(draw, name, soon_s, 1, 0)
        else:
            gone = {"namespace": "default", "name": rng.choice(mates).what["name"]}
            made.append(Action(soon_s, "delete_pod", gone))
    return made


def equipped(draw: Draw) -> list[Action]:
    """Groups whose pods want volumes and devices, of their own or ones that they share."""
    rng, features = draw.rng, draw.features
    made = _claimed(draw)
    for _ in draw.some(3):
        at_s, name = draw.time_s(), f"g{len(draw.pods)}"
        pods = _members(draw, name, at_s)
        for pod in pods:
            made += plan_claims.add_claims(draw, pod.what["spec"], pod.at_s)
            draw.pods.append({"namespace": "default", "name": pod.what["name"]})
        body = {"metadata": {"name": name}, "spec": _spec(draw, len(pods))}
        made += [*pods, Action(draw.late_s(at_s), "create", {"path": GROUPS, "body": body})]
        if rng.random() < 0.3:
            gone = {"namespace": "default", "name": rng.choice(pods).what["name"]}
            made.append(Action(draw.time_s(), "delete_pod", gone))
    draw.features = features
    return made


def outfitted(draw: Draw) -> list[Action]:
    """Groups that have a claim, named or of a template, which most of their pods name in the same way;
    others name it otherwise, and have it as their own."""
    rng, features = draw.rng, draw.features
    made = _claimed(draw)
    for _ in draw.some(3):
        at_s, name = draw.time_s(), f"g{len(draw.pods)}"
        listed: Json = {"name": "group", "resourceClaimTemplateName": rng.choice(("one", "two"))}
        if rng.random() < 0.5:
            listed = {"name": "group", "resourceClaimName": f"{name}-named"}
            made.append(plan_claims.named_claim(draw, f"{name}-named", at_s))
        pods = _members(draw, name, at_s)
        for pod in pods:
            wanted = {**listed, "name": "mine"} if rng.random() < 0.1 else listed
            pod.what["spec"]["resourceClaims"] = [wanted]
            draw.pods.append({"namespace": "default", "name": pod.what["name"]})
            if rng.random() < 0.1:
                gone = {"namespace": "default", "name": pod.what["name"]}
                made.append(Action(draw.time_s(), "delete_pod", gone))
        spec = {**_spec(draw, len(pods)), "resourceClaims": [listed]}
        body = {"metadata": {"name": name}, "spec": spec}
        made += [*pods, Action(draw.late_s(at_s), "create", {"path": GROUPS, "body": body})]
    draw.features = features
    return made


def _claimed(draw: Draw) -> list[Action]:
    """What pods with claims need, where it is not there."""
    made, features = list[Action](), draw.features
    if not {"volumes", "devices"} & features:
        made += [*plan_claims.storage(draw), *plan_claims.device_pools(draw)]
        made.append(plan_claims.controllers(draw))
        draw.features = features | {"volumes", "devices"}
    return made


def _group(name: str, at_s: float, spec: Json) -> Action:
    policy = {"schedulingPolicy": spec["policy"], "priority": spec["priority"]}
    body = {"metadata": {"name": name}, "spec": policy | {"disruptionMode": "PodGroup"}}
    return Action(at_s, "create", {"path": GROUPS, "body": body})


def _alike(draw: Draw, group: str, at_s: float, count: int, priority: int) -> list[Action]:
    """Pods of a group, of one shape."""
    spec = {**draw.rng.choice(draw.shapes)["spec"], "priority": priority}
    spec["schedulingGroup"] = {"podGroupName": group}
    made = []
    for _ in range(count):
        pod = {"namespace": "default", "name": f"p{len(draw.pods)}"}
        draw.pods.append(pod)
        made.append(Action(at_s, "create_pod", {**pod, "labels": {"app": "a"}, "spec": spec}))
    return made


def _spec(draw: Draw, pod_count: int) -> Json:
    rng = draw.rng
    policy: Json = {"basic": {}}
    if rng.random() < 0.8:
        policy = {"gang": {"minCount": rng.choice((pod_count, rng.randint(1, pod_count)))}}
    spec: Json = {"schedulingPolicy": policy}
    if rng.random() < 0.3:
        spec["schedulingConstraints"] = {"topology": [{"key": rng.choice((HOST, ZONE))}]}
    if rng.random() < 0.5:
        spec["disruptionMode"] = "PodGroup"
    if "preemption" in draw.features:
        spec["priority"] = rng.choice((0, 10, 100, 1000))
    return spec


def _members(draw: Draw, group: str, at_s: float) -> list[Action]:
    """Mostly alike, and mostly at once."""
    rng = draw.rng
    shapes = [shape(draw) for _ in range(rng.choice((1, 1, 1, 2)))]
    made = []
    for number in range(rng.randint(1, 6)):
        given = rng.choice(shapes)
        spec = {**given["spec"], "schedulingGroup": {"podGroupName": group}}
        pod = {"namespace": "default", "name": f"{group}p{number}", "labels": given["labels"]}
        made.append(Action(at_s, "create_pod", {**pod, "spec": spec}))
        at_s += rng.choice((0.0, 0.0, 0.0, rng.random()))
    return made
