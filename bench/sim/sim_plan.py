"""What happens in a seed: the cluster, the pods, and everything that goes wrong, as a list of actions.

A seed draws which features take part at all, then how much of each, so that over many seeds every
pair of features meets both alone and in a crowd.
"""

import random
from collections.abc import Callable, Container
from typing import Final, NamedTuple

from bench.sim import (
    plan_changes,
    plan_claims,
    plan_cluster,
    plan_disks,
    plan_faults,
    plan_groups,
    plan_volumes,
)
from bench.sim.deadly import SimulatedDeath
from bench.sim.door import SimulatedDoor
from bench.sim.draw import Action, Draw
from bench.sim.extender import CONFIGURATION
from bench.sim.permit import SimulatedGroup
from bench.sim.refusal import SimulatedRefusal
from shared.kube.resources import KINDS_BY_PLURAL

LASTS_S: Final = (2.0, 12.0)
"""From the first action to the last."""

FEATURES: Final = (
    "affinity", "api_faults", "binder_faults", "breaks", "budgets", "clock", "deletions", "devices",
    "election", "extended", "foreign", "gates", "groups", "kills", "namespaces", "node_churn", "poison",
    "ports", "preemption", "reloads", "renames", "restore", "server", "short_lived", "snapshots",
    "spread", "stalls", "stops", "taints", "volumes", "watch_faults",
)  # fmt: skip
RARE: Final = {
    "restore": 0.05, "clock": 0.1, "server": 0.2, "stalls": 0.2, "election": 0.2, "reloads": 0.2,
    "groups": 0.2, "devices": 0.3, "volumes": 0.3, "poison": 0.3,
}  # fmt: skip
"""How likely a feature is; one half where nothing is said."""
LATER: Final = {
    "later": {
        "asleep": 0.1, "deadly": 0.1, "device_resources": 0.15, "lingering": 0.1, "matched": 0.1,
        "poison_bound": 0.1,
    },
    "latest": {"pod_groups": 0.15},
    "extended": {"extenders": 0.15},
    "parts": {"partitions": 0.1},
    "disks": {"migrated": 0.1},
    "nodes": {"daemons": 0.1, "images": 0.1},
    "static": {"static": 0.1},
    "changes": {"altered": 0.1, "declared": 0.1},
    "refused": {"refused": 0.1},
    "torn": {"torn": 0.1},
    "seen": {"seen": 0.03},
    "remade": {"remade": 0.05},
    "faulty": {"faulty": 0.03},
    "stubborn": {"stubborn": 0.05},
    "started": {"started": 0.05},
    "raided": {"raided": 0.03},
    "doors": {"doors": 0.05},
    "equipped": {"equipped": 0.05},
    "overloaded": {"overload": 0.05, "tardy": 0.05},
    "leaves": {"paged": 0.05},
    "ended": {"ended": 0.05},
    "outfitted": {"outfitted": 0.05},
}  # fmt: skip
"""Features that are drawn after all that is above, each row from a generator of its own, by its name:
what is added here changes no seed that is without it."""

PROFILES: Final = ("default-scheduler", plan_groups.OTHER_PROFILE)
PLAIN: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
"""
OTHERWISE: Final = (
    "podInitialBackoffSeconds: 2",
    "podMaxBackoffSeconds: 4",
    "clientConnection: {qps: 2, burst: 2}",
    "percentageOfNodesToScore: 60",
    "nonsense: 1",
)
"""What a file may say next; the last is refused."""


ALL_KINDS_EACH: Final = 4
"""In one seed of so many the API server serves all kinds, in the others those that the plan has objects
of: watches of nothing find as much in a fourth of the seeds, and are a tenth of what one costs."""
ALWAYS_KINDS: Final = ("nodes", "pods", "namespaces")
BUDGETS: Final = ("poddisruptionbudgets",)
TOGETHER: Final = (
    {"persistentvolumes", "persistentvolumeclaims", "storageclasses", "csinodes", "csidrivers",
     "csistoragecapacities", "volumeattachments"},
    {"resourceclaims", "deviceclasses", "resourceslices"},
)  # fmt: skip
"""Controllers and binders make objects of one kind for those of another."""


class Plan(NamedTuple):
    """All that a seed means."""

    seed: int
    features: tuple[str, ...]
    scorer_count: int
    binder_count: int
    actions: tuple[Action, ...]
    configurations: tuple[str, ...] = (PLAIN,)
    """The files that berth is told to read as `reload` says; it begins with the first."""
    berth_count: int = 1
    feature_gates: str = ""
    gang_reservation_s: float = 0.0

    @property
    def kinds(self) -> frozenset[str]:
        """Which there may be objects of, by their plurals; in some seeds simply all."""
        if self.seed % ALL_KINDS_EACH == 0:
            return frozenset(KINDS_BY_PLURAL)
        paths = "/".join(str(each.what.get("path", "")) for each in self.actions).split("/")
        plurals = {str(each.what.get("plural", "")) for each in self.actions}
        budgets = BUDGETS if any(each.do == "create_budget" for each in self.actions) else ()
        found = {*ALWAYS_KINDS, *budgets, *plurals, *paths} & KINDS_BY_PLURAL.keys()
        return frozenset(found.union(*(some for some in TOGETHER if some & found)))

    @property
    def last_s(self) -> float:
        return max((action.at_s for action in self.actions), default=0.0)


def make_plan(seed: int) -> Plan:
    """The plan of a seed, always the same."""
    rng = random.Random(f"plan/{seed}")
    features = tuple(each for each in FEATURES if rng.random() < RARE.get(each, 0.5))
    draw = Draw(rng, frozenset(features))
    made = _actions(draw)
    counts = rng.choice((1, 2, 2, 3)), rng.choice((1, 1, 2))
    for name, chances in LATER.items():
        draw.rng = more = random.Random(f"plan/{seed}/{name}")
        drawn = tuple(each for each, chance in chances.items() if more.random() < chance)
        for each in drawn:
            made += MAKERS_LATER[each](draw)
        features += drawn
    if plan_groups.waits(seed, features):
        draw.rng = random.Random(f"plan/{seed}/while gangs wait")
        made += plan_groups.while_gangs_wait(draw)
    actions = tuple(sorted(made, key=lambda action: action.at_s))
    berth_count = 2 if "election" in features else 1
    return Plan(
        seed, features, *counts, actions, configurations(features), berth_count,
        plan_groups.feature_gates(seed, features), plan_groups.reservation_s(seed, features),
    )  # fmt: skip


def configurations(features: Container[str]) -> tuple[str, ...]:
    """Configuration files, the first of which is there at the beginning."""
    first = PLAIN
    if "election" in features:
        first = first.replace("{leaderElect: false}", "{leaderElect: true}")
    plugins = {
        "groups": SimulatedGroup.NAME,
        "deadly": SimulatedDeath.NAME,
        "refused": SimulatedRefusal.NAME,
        "seen": SimulatedDeath.NAME,
        "faulty": SimulatedDeath.NAME,
        "doors": SimulatedDoor.NAME,
    }
    names = dict.fromkeys(name for feature, name in plugins.items() if feature in features)
    enabled = [f"{{name: {name}}}" for name in names]
    if enabled or "torn" in features:
        told = f"plugins: {{multiPoint: {{enabled: [{', '.join(enabled)}]}}}}"
        schedulers = PROFILES if "torn" in features else PROFILES[:1]
        profiles = [f"{{schedulerName: {each}, {told}}}" for each in schedulers]
        first += f"profiles: [{', '.join(profiles)}]\n"
    if "extenders" in features:
        first += CONFIGURATION
    return first, *(f"{first}{more}\n" for more in OTHERWISE)


def _actions(draw: Draw) -> list[Action]:
    rng, features = draw.rng, draw.features
    draw.shapes = [plan_cluster.shape(draw) for _ in range(rng.randint(1, 5))]
    draw.lasts_s = rng.uniform(*LASTS_S)
    made = [Action(0.0, "create_namespace", {"name": "other", "labels": {"team": "x"}})]
    nodes = [plan_cluster.new_node(draw, f"n{number}") for number in range(rng.randint(1, 5))]
    made += [Action(0.0, "put_node", node) for node in nodes]
    if "volumes" in features:
        made += plan_claims.storage(draw)
    if "devices" in features:
        made += plan_claims.device_pools(draw)
    if {"volumes", "devices"} & features:
        made.append(plan_claims.controllers(draw))
    if "budgets" in features:
        made += [plan_cluster.budget(draw, app) for app in plan_cluster.APPS]
    for burst in range(rng.randint(3, 10)):
        made += plan_cluster.pods_at(draw, 0.0 if burst == 0 else draw.time_s())
    for feature, make in MAKERS.items():
        if feature in features:
            made += make(draw)
    return made


MAKERS: Final[dict[str, Callable[[Draw], list[Action]]]] = {
    "deletions": plan_cluster.deletions,
    "short_lived": plan_cluster.short_lived,
    "gates": plan_cluster.gates,
    "renames": plan_cluster.renames,
    "namespaces": plan_cluster.namespaces,
    "foreign": plan_cluster.foreign,
    "node_churn": plan_cluster.node_churn,
    "kills": plan_faults.kills,
    "stops": plan_faults.stops,
    "breaks": plan_faults.breaks,
    "snapshots": plan_faults.snapshots,
    "restore": plan_faults.restore,
    "binder_faults": plan_faults.binder_faults,
    "api_faults": plan_faults.api_faults,
    "watch_faults": plan_faults.watch_faults,
    "server": plan_faults.server,
    "stalls": plan_faults.stalls,
    "clock": plan_faults.clock,
    "volumes": plan_claims.volumes,
    "devices": plan_claims.devices,
    "poison": plan_cluster.poison,
    "reloads": plan_cluster.reloads,
}
"""In this order: what is drawn later is another for each that is drawn before."""
MAKERS_LATER: Final[dict[str, Callable[[Draw], list[Action]]]] = {
    "asleep": plan_faults.asleep,
    "deadly": plan_cluster.deadly,
    "device_resources": plan_claims.device_resources,
    "lingering": plan_faults.lingering,
    "matched": plan_claims.matched,
    "poison_bound": plan_cluster.poison_bound,
    "pod_groups": plan_groups.pod_groups,
    "extenders": plan_cluster.extended,
    "partitions": plan_claims.partitions,
    "migrated": plan_disks.migrated,
    "daemons": plan_cluster.daemons,
    "images": plan_cluster.images,
    "static": plan_volumes.static,
    "altered": plan_changes.altered,
    "refused": plan_cluster.refused,
    "torn": plan_groups.torn,
    "declared": plan_changes.declared,
    "doors": plan_changes.doors,
    "seen": plan_cluster.seen,
    "remade": plan_volumes.remade,
    "faulty": plan_cluster.faulty,
    "stubborn": plan_faults.stubborn,
    "started": plan_changes.started,
    "raided": plan_groups.raided,
    "equipped": plan_groups.equipped,
    "overload": plan_faults.overload,
    "tardy": plan_faults.tardy,
    "paged": plan_faults.paged,
    "ended": plan_changes.ended,
    "outfitted": plan_groups.outfitted,
}
