"""What a soak creates: kinds of pods, each for something that berth has to keep up for months.

Pure: bodies out of a seeded random choice. The kind is part of a pod's name, so that whoever sees the
pod knows what is expected of it without any table of pods.
"""

import random
from typing import Any, Final, NamedTuple

import orjson

from bench.demo.workload import IMAGE

POOL_LABEL: Final = "soak/pool"
ROUND_LABEL: Final = "soak/round"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
ZONES: Final = 3
MAIN, TIGHT = "main", "tight"
TIGHT_TAINT: Final = {"key": POOL_LABEL, "value": TIGHT, "effect": "NoSchedule"}
NODE_CPU_MILLI: Final = 4000
NODE_PODS: Final = 110
PRIORITIES: Final = {"soak-low": -10, "soak-high": 1000}


class Kind(NamedTuple):
    """A kind of pod. `share`: of all that are created; `lives`: its life in lives of a plain pod."""

    share: float
    cpu_milli: int
    lives: float = 1.0
    must_bind: bool = True
    """There is always room for it: one that stays without a node was lost."""


KINDS: Final = {
    "plain": Kind(0.695, 100),
    "varied": Kind(0.08, 150),
    "spread": Kind(0.05, 100),
    "picky": Kind(0.04, 100),
    "apart": Kind(0.03, 100),
    "gated": Kind(0.03, 100),
    "volume": Kind(0.02, 100),
    # Deleted as soon as it is there, wherever it has got to by then.
    "fleeting": Kind(0.02, 100, lives=0.0, must_bind=False),
    "huge": Kind(0.01, 1_000_000, must_bind=False),
    # Together more than the tight pool has room for; the urgent ones preempt the fillers.
    "filler": Kind(0.02, 1000, lives=1.5, must_bind=False),
    "urgent": Kind(0.005, 1000, lives=0.3, must_bind=False),
}
VARIED_CPU_MILLI_LEAST: Final = 101
APART_GROUPS: Final = 20
"""No two pods of one of these are on one node."""
GATE: Final = "soak/wait"
STORAGE_CLASS: Final = "soak-disk"
PROTECTED_LABEL: Final = "soak/protected"


def tight_node_count(rate_per_s: float, life_s: float) -> int:
    """Nodes of the pool that fillers do not all fit into."""
    filler = KINDS["filler"]
    wanted_milli = rate_per_s * filler.share * life_s * filler.lives * filler.cpu_milli
    return max(1, round(wanted_milli / 2 / NODE_CPU_MILLI))


def kind_of(pod_name: str) -> Kind:
    """By the name that `PodMaker` gave it."""
    return KINDS[pod_name.split("-")[1]]


def apart_group(pod_name: str) -> int:
    """Which pods an "apart" pod keeps away from."""
    return int(pod_name.rpartition("-")[2]) % APART_GROUPS


class PodMaker:
    """Makes pods, one after the other."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"soak/{seed}")
        self._count = 0
        self._names = list(KINDS)
        self._shares = [kind.share for kind in KINDS.values()]

    def next(self) -> tuple[str, bytes]:
        """Name and body."""
        (kind,) = self._random.choices(self._names, self._shares)
        name = f"soak-{kind}-{self._count:08d}"
        labels = {"app": kind}
        cpu_milli = KINDS[kind].cpu_milli
        spec: dict[str, Any] = {"terminationGracePeriodSeconds": 1}
        match kind:
            case "varied":
                # Labels that nobody had before, and many classes.
                labels["soak/batch"] = f"batch-{self._count // 100}"
                cpu_milli = VARIED_CPU_MILLI_LEAST + self._count % 50
            case "spread":
                labels["app"] = f"spread-{self._count % 5}"
                spec["topologySpreadConstraints"] = [_spread(labels["app"])]
            case "picky":
                spec["nodeSelector"] = {POOL_LABEL: MAIN}
                spec["affinity"] = _prefers_round(self._random.randrange(10))
            case "apart":
                labels["app"] = f"apart-{apart_group(name)}"
                spec["affinity"] = _keeps_away(labels["app"])
            case "gated":
                spec["schedulingGates"] = [{"name": GATE}]
            case "volume":
                spec["volumes"] = [{"name": "disk", "persistentVolumeClaim": {"claimName": name}}]
            case "filler" | "urgent":
                if self._count % 2:
                    labels[PROTECTED_LABEL] = "yes"
                spec["nodeSelector"] = {POOL_LABEL: TIGHT}
                spec["tolerations"] = [TIGHT_TAINT]
                spec["priorityClassName"] = "soak-low" if kind == "filler" else "soak-high"
            case _:
                pass
        self._count += 1
        requests = {"cpu": f"{cpu_milli}m", "memory": "64Mi"}
        spec["containers"] = [{"name": "main", "image": IMAGE, "resources": {"requests": requests}}]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
        }
        return name, orjson.dumps(body)


def node_body(name: str, number: int, pool: str) -> bytes:
    """A node of a pool, in one of the zones."""
    allocatable = {"cpu": f"{NODE_CPU_MILLI}m", "memory": "32Gi", "pods": f"{NODE_PODS}"}
    labels = {
        "kubernetes.io/hostname": name,
        ZONE_LABEL: f"zone-{number % ZONES}",
        POOL_LABEL: pool,
    }
    return orjson.dumps(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": [TIGHT_TAINT]} if pool == TIGHT else {},
            "status": {
                "capacity": allocatable,
                "allocatable": allocatable,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )


def claim_body(pod_name: str) -> bytes:
    """The claim of a "volume" pod; both have one name."""
    return orjson.dumps(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": pod_name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": STORAGE_CLASS,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    )


def storage_class_body() -> bytes:
    """Disks are made where their first consumer was placed."""
    return orjson.dumps(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": STORAGE_CLASS},
            "provisioner": "soak.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )


def budget_body() -> bytes:
    """A PodDisruptionBudget that allows no disruption: a new one's status says so."""
    return orjson.dumps(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "soak-protected"},
            "spec": {
                "minAvailable": 1,
                "selector": {"matchLabels": {PROTECTED_LABEL: "yes"}},
            },
        }
    )


def priority_class_bodies() -> list[bytes]:
    """What fillers and urgent pods name."""
    return [
        orjson.dumps(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )
        for name, value in PRIORITIES.items()
    ]


def _spread(app: str) -> dict[str, Any]:
    return {
        "maxSkew": 5,
        "topologyKey": ZONE_LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }


def _keeps_away(app: str) -> dict[str, Any]:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _prefers_round(number: int) -> dict[str, Any]:
    on_round = {"key": ROUND_LABEL, "operator": "In", "values": [f"round-{number}"]}
    term = {"weight": 10, "preference": {"matchExpressions": [on_round]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
