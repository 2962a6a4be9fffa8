"""Clusters made up at random: scenarios as the corpus has them, of all families at once.

A number draws which families take part, then the objects. Pods come in a few shapes, of which there
are several pods each, so that what is kept of a class is used again; between attempts the cluster
changes. Everything is plain JSON that an API server would take, and a scenario that differs is saved
and replayed like any other. The same seed and number always make the same scenario.
"""

import random
from typing import Final

from bench.conformance.made_names import APPS, CREATED, PROFILES, ZONE, Json, meta
from bench.conformance.made_objects import ObjectMaker
from bench.conformance.made_storage import StorageMaker

FAMILIES: Final = (
    "affinity", "aggregates", "budgets", "changes", "devices", "extended", "gates", "huge", "images",
    "interpod", "namespaces", "nominated", "ports", "preemption", "profiles", "services", "spread",
    "taints", "terminating", "volumes",
)  # fmt: skip
RARE: Final = {
    "aggregates": 0.2, "devices": 0.3, "gates": 0.1, "huge": 0.1, "images": 0.2, "interpod": 0.35,
    "preemption": 0.75, "profiles": 0.2, "services": 0.2, "spread": 0.35, "volumes": 0.3,
}  # fmt: skip
"""How likely a family is; one half where nothing is said."""
LOW_PRIORITIES: Final = (-1, 0, 0, 0, 5, 10)
"""Of pods that are there already."""
WEIGHTED: Final = ("NodeResourcesFit", "PodTopologySpread", "InterPodAffinity", "TaintToleration",
                   "NodeAffinity", "ImageLocality", "NodeResourcesBalancedAllocation")  # fmt: skip


def scenario(seed: int, number: int) -> Json:
    """The scenario of this number, always the same."""
    rng = random.Random(f"{seed}/{number}")
    families = drawn_families(rng)
    return {"name": f"generated-{seed}-{number}", **ClusterMaker(rng, families).scenario()}


def drawn_families(rng: random.Random) -> frozenset[str]:
    """Those that take part in one cluster."""
    return frozenset(each for each in FAMILIES if rng.random() < RARE.get(each, 0.5))


class ClusterMaker:
    """Draws a whole scenario."""

    def __init__(self, rng: random.Random, families: frozenset[str]) -> None:
        self._rng = rng
        self._families = families
        self._objects = ObjectMaker(rng, families)
        self._names = self._objects.node_names
        self._shapes = [self._objects.shape() for _ in range(rng.choice((2, 3, 4)))]
        self._bound: list[Json] = []

    def scenario(self) -> Json:
        rng = self._rng
        cluster = self._cluster()
        pending = [self._pending(f"p{at}") for at in range(rng.randint(2, 7))]
        keys = [f"{p['metadata']['namespace']}/{p['metadata']['name']}" for p in pending]
        attempts = keys + rng.choices(keys, k=rng.randint(0, 3))
        made: Json = {"objects": cluster, "pending": pending, "attempts": attempts}
        made["preemption_mode"] = rng.choice(("none", "nominate", "nominate", "evict", "evict"))
        config = self._config()
        if config:
            made["config"] = config
        if "changes" in self._families:
            made["changes"] = self._changes(keys, len(attempts))
        return made

    def _cluster(self) -> Json:
        rng, objects = self._rng, self._objects
        cluster: Json = {"nodes": [objects.node(name) for name in self._names]}
        shapes = [rng.choice(self._shapes), *(objects.shape(LOW_PRIORITIES) for _ in range(2))]
        for at in range(rng.choice((0, 5, 10, 15))):
            node = rng.choice(self._names) if rng.random() < 0.97 else "ghost"
            self._bound.append(objects.pod(f"b{at}", rng.choice(shapes), node))
        cluster["pods"] = list(self._bound)
        cluster["namespaces"] = [_namespace("default", {}), _namespace("other", {"team": "x"})]
        if "budgets" in self._families:
            cluster["pdbs"] = [self._budget(app) for app in sorted(set(APPS))]
        if "services" in self._families:
            selector = {"app": rng.choice(APPS)}
            service = {"metadata": meta("s", "default"), "spec": {"selector": selector}}
            cluster["services"] = [service]
        storage = StorageMaker(rng, self._names)
        if "volumes" in self._families:
            cluster |= storage.volumes()
        if "devices" in self._families:
            cluster |= storage.devices()
        return cluster

    def _budget(self, app: str) -> Json:
        allowed = self._rng.choice((0, 0, 1, 2))
        return {
            "metadata": meta(f"budget-{app}", "default"),
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1,
                       "expectedPods": 2},
        }  # fmt: skip

    def _pending(self, name: str) -> Json:
        rng = self._rng
        pod = self._objects.pod(name, rng.choice(self._shapes))
        if self._objects.draws("nominated", 0.3):
            pod["status"]["nominatedNodeName"] = rng.choice((*self._names, *self._names, "ghost"))
        elif self._objects.draws("gates", 0.3):
            pod["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]
        return pod

    def _config(self) -> Json:
        """Two profiles; the second weighs otherwise and may lack a plugin."""
        if "profiles" not in self._families:
            return {}
        rng = self._rng
        some = rng.sample(WEIGHTED, rng.randint(1, 3))
        weighted = [{"name": name, "weight": rng.randint(1, 9)} for name in some]
        score = {"disabled": [{"name": name} for name in some], "enabled": weighted}
        second: Json = {"schedulerName": PROFILES[1], "plugins": {"score": score}}
        if rng.random() < 0.3:
            others = [each for each in WEIGHTED if each not in some]
            second["plugins"]["multiPoint"] = {"disabled": [{"name": rng.choice(others)}]}
        if rng.random() < 0.4:
            second["pluginConfig"] = [rng.choice(PLUGIN_CONFIGS)]
        return {"profiles": [{"schedulerName": PROFILES[0]}, second]}

    # What changes between attempts ------------------------------------------------------------------

    def _changes(self, keys: list[str], attempt_count: int) -> list[Json]:
        makers = (self._node_changes, self._pod_comes, self._pod_goes, self._pod_goes,
                  self._pod_changes, self._object_changes)  # fmt: skip
        count = self._rng.randint(1, 2 + attempt_count // 2)
        moments = sorted(self._rng.randrange(attempt_count) for _ in range(count))
        made = []
        for moment in moments:
            change = self._rng.choice(makers)(keys)
            if change:
                made.append({"before": moment, **change})
        return made

    def _node_changes(self, _: list[str]) -> Json:
        name = self._rng.choice((*self._names, "n8"))
        if self._rng.random() < 0.3:
            return {"kind": "nodes", "key": name}
        return {"kind": "nodes", "key": name, "becomes": self._objects.node(name)}

    def _pod_comes(self, _: list[str]) -> Json:
        shape = self._rng.choice((*self._shapes, self._objects.shape(LOW_PRIORITIES)))
        pod = self._objects.pod(f"b{len(self._bound)}", shape, self._rng.choice(self._names))
        self._bound.append(pod)
        return {"kind": "pods", "key": _key_of(pod), "becomes": pod}

    def _pod_goes(self, keys: list[str]) -> Json:
        """A pod that was there, or one that was pending: if it is bound by then."""
        all_keys = [*keys, *(_key_of(pod) for pod in self._bound)]
        return {"kind": "pods", "key": self._rng.choice(all_keys)}

    def _pod_changes(self, _: list[str]) -> Json:
        """Its labels do, or it is deleted with a grace period."""
        if not self._bound:
            return {}
        pod = self._rng.choice(self._bound)
        metadata = dict(pod["metadata"])
        if self._rng.random() < 0.7:
            metadata["labels"] = {"app": self._rng.choice(APPS), "v": "1"}
        else:
            metadata |= {"deletionTimestamp": CREATED, "deletionGracePeriodSeconds": 30}
        return {"kind": "pods", "key": _key_of(pod), "becomes": {**pod, "metadata": metadata}}

    def _object_changes(self, _: list[str]) -> Json:
        rng = self._rng
        if "budgets" in self._families and rng.random() < 0.5:
            budget = self._budget(rng.choice(APPS))
            return {"kind": "pdbs", "key": _key_of(budget), "becomes": budget}
        if "services" in self._families and rng.random() < 0.5:
            return {"kind": "services", "key": "default/s"}
        other = _namespace("other", rng.choice(({"team": "x"}, {"team": "y"})))
        return {"kind": "namespaces", "key": "other", "becomes": other}


PLUGIN_CONFIGS: Final[tuple[Json, ...]] = (
    {
        "name": "NodeResourcesFit",
        "args": {
            "scoringStrategy": {
                "type": "MostAllocated",
                "resources": [{"name": "cpu", "weight": 2}, {"name": "memory", "weight": 1}],
            }
        },
    },
    {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 50}},
    {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 10,
                                           "minCandidateNodesAbsolute": 1}},
    {
        "name": "PodTopologySpread",
        "args": {
            "defaultingType": "List",
            "defaultConstraints": [
                {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
            ],
        },
    },
)  # fmt: skip


def _namespace(name: str, labels: Json) -> Json:
    return {"metadata": meta(name, labels={"kubernetes.io/metadata.name": name, **labels})}


def _key_of(thing: Json) -> str:
    return f"{thing['metadata']['namespace']}/{thing['metadata']['name']}"
