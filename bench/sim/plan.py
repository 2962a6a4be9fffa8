"""What happens in a seed: the cluster, the pods, and everything that goes wrong, as a list of actions.

A seed draws which features take part at all, then how much of each, so that over many seeds every
pair of features meets both alone and in a crowd. Actions name their objects outright: what is left
out of a list does not change what the rest means, and a failing list can be made shorter.
"""

import random
from collections.abc import Callable, Container
from typing import Any, Final, NamedTuple

from bench.sim.objects import DRIVER, on_node
from bench.sim.permit import GROUP, SimulatedGroup
from bench.sim.permit import SIZE as GROUP_SIZE
from bench.sim.poison import poison

Json = dict[str, Any]

LASTS_S: Final = (2.0, 12.0)
"""From the first action to the last."""
STARTS_S: Final = 1.5
"""By then all processes have met, mostly."""

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

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
DEVICE: Final = "example.com/device"
STORAGE: Final = "/apis/storage.k8s.io/v1"
DEVICES: Final = "/apis/resource.k8s.io/v1"
VOLUMES: Final = "/api/v1/persistentvolumes"
DISKS: Final = "/api/v1/namespaces/default/persistentvolumeclaims"
CLAIMS: Final = f"{DEVICES}/namespaces/default/resourceclaims"
SLICES: Final = f"{DEVICES}/resourceslices"
GPU_DRIVER: Final = "gpu.example.com"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
APPS: Final = ("a", "b")
NAMESPACES: Final = ("default", "other")


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


class Action(NamedTuple):
    """Something that happens at a time. `do` names a method of `world.World`."""

    at_s: float
    do: str
    what: Json

    def __str__(self) -> str:
        told = ", ".join(f"{key} {_short(value)}" for key, value in self.what.items())
        return f"{self.do.replace('_', ' ')}: {told}"


def _short(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_short(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_short(each) for each in value) + "]"
    return str(value)


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

    @property
    def last_s(self) -> float:
        return max((action.at_s for action in self.actions), default=0.0)


def make_plan(seed: int) -> Plan:
    """The plan of a seed, always the same."""
    rng = random.Random(f"plan/{seed}")
    features = tuple(each for each in FEATURES if rng.random() < RARE.get(each, 0.5))
    maker = _Maker(rng, frozenset(features))
    actions = tuple(sorted(maker.actions(), key=lambda action: action.at_s))
    counts = rng.choice((1, 2, 2, 3)), rng.choice((1, 1, 2))
    berth_count = 2 if "election" in features else 1
    return Plan(seed, features, *counts, actions, configurations(features), berth_count)


def configurations(features: Container[str]) -> tuple[str, ...]:
    """Configuration files, the first of which is there at the beginning."""
    first = PLAIN
    if "election" in features:
        first = first.replace("{leaderElect: false}", "{leaderElect: true}")
    if "groups" in features:
        enabled = f"{{enabled: [{{name: {SimulatedGroup.NAME}}}]}}"
        first += f"profiles: [{{plugins: {{multiPoint: {enabled}}}}}]\n"
    return first, *(f"{first}{more}\n" for more in OTHERWISE)


def _create(path: str, name: str, at_s: float = 0.0, **fields: Any) -> Action:
    what = {"path": path, "body": {"metadata": {"name": name}, **fields}}
    return Action(at_s, "create", what)


class _Maker:
    """Draws the actions of one seed."""

    def __init__(self, rng: random.Random, features: frozenset[str]) -> None:
        self._rng = rng
        self._features = features
        self._pods: list[Json] = []
        """Every pod that is created, as its namespace and name."""
        self._nodes: list[str] = []
        self._burst_times_s: list[float] = []
        self._shapes = [self._shape() for _ in range(rng.randint(1, 5))]
        self._lasts_s = rng.uniform(*LASTS_S)

    def actions(self) -> list[Action]:
        rng = self._rng
        made = [Action(0.0, "create_namespace", {"name": "other", "labels": {"team": "x"}})]
        nodes = [self._node(f"n{number}") for number in range(rng.randint(1, 5))]
        made += [Action(0.0, "put_node", node) for node in nodes]
        if "volumes" in self._features:
            made += self._storage()
        if "devices" in self._features:
            made += self._device_pools()
        if {"volumes", "devices"} & self._features:
            made.append(Action(0.0, "start_controllers", {"period_s": rng.choice((0.1, 0.5, 2.0))}))
        if "budgets" in self._features:
            made += [self._budget(app) for app in APPS]
        for burst in range(rng.randint(3, 10)):
            made += self._pods_at(0.0 if burst == 0 else self._time_s())
        for feature, make in self._MAKERS.items():
            if feature in self._features:
                made += make(self)
        return made

    def _time_s(self) -> float:
        """Things like to happen at the same time as others: half of all are drawn to a few moments."""
        rng = self._rng
        at_s = rng.random() * self._lasts_s
        if rng.random() < 0.5:
            at_s = round(at_s / 2) * 2 + rng.random() ** 3 * 0.05
        return STARTS_S + at_s

    # Objects ----------------------------------------------------------------------------------------

    def _node(self, name: str) -> Json:
        rng = self._rng
        if name not in self._nodes:
            self._nodes.append(name)
        labels = {HOST: name, ZONE: rng.choice(("z1", "z2"))}
        if rng.random() < 0.4:
            labels["disk"] = "ssd"
        room: Json = {
            "cpu": str(rng.choice((1, 2, 4, 6))),
            "memory": rng.choice(("2Gi", "8Gi")),
            "pods": str(rng.choice((3, 110))),
        }
        if "extended" in self._features and rng.random() < 0.6:
            room[DEVICE] = str(rng.randint(1, 3))
        taints: list[Json] = []
        if "taints" in self._features and rng.random() < 0.3:
            effect = rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
            taints = [{"key": "t", "value": "v", "effect": effect}]
        cordoned = "taints" in self._features and rng.random() < 0.1
        return {"name": name, "labels": labels, "room": room, "taints": taints,
                "unschedulable": cordoned}  # fmt: skip

    def _shape(self) -> Json:
        """Labels and spec that several pods have in common."""
        rng, features = self._rng, self._features
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
            requests[DEVICE] = count
            container["resources"]["limits"] = {DEVICE: count}
        if "ports" in features and rng.random() < 0.4:
            container["ports"] = [{"containerPort": 80, "hostPort": rng.choice((80, 81))}]
        if "preemption" in features:
            spec["priority"] = rng.choice((0, 0, 10, 100, 1000))
            if rng.random() < 0.1:
                spec["preemptionPolicy"] = "Never"
        if "taints" in features and rng.random() < 0.4:
            spec["tolerations"] = [rng.choice(({"operator": "Exists"}, {"key": "t"} | _EXISTS))]
        if rng.random() < 0.2:
            spec["nodeSelector"] = {"disk": "ssd"}
        if "spread" in features and rng.random() < 0.6:
            spec["topologySpreadConstraints"] = [self._constraint(app)]
        if "affinity" in features and rng.random() < 0.6:
            spec["affinity"] = self._affinity(app)
        return {"labels": {"app": app}, "spec": spec}

    def _constraint(self, app: str) -> Json:
        rng = self._rng
        return {
            "maxSkew": rng.choice((1, 1, 2)),
            "topologyKey": rng.choice((HOST, ZONE)),
            "whenUnsatisfiable": rng.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": {"matchLabels": {"app": app}},
        }

    def _affinity(self, app: str) -> Json:
        rng = self._rng
        term: Json = {
            "topologyKey": rng.choice((HOST, ZONE)),
            "labelSelector": {"matchLabels": {"app": rng.choice((app, *APPS))}},
        }
        if "namespaces" in self._features and rng.random() < 0.5:
            term["namespaceSelector"] = rng.choice(({}, {"matchLabels": {"team": "x"}}))
        kind = rng.choice(("podAffinity", "podAntiAffinity", "podAntiAffinity"))
        return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    def _pods_at(self, at_s: float) -> list[Action]:
        rng = self._rng
        self._burst_times_s.append(at_s or STARTS_S)
        shape = rng.choice(self._shapes)
        made = []
        for _ in range(rng.choice((1, 1, 2, 4, 8))):
            namespace = "default"
            if "namespaces" in self._features:
                namespace = rng.choice(NAMESPACES)
            pod: Json = {"namespace": namespace, "name": f"p{len(self._pods)}"}
            self._pods.append(pod)
            given, labels = dict(shape["spec"]), shape["labels"]
            made += self._add_claims(given, at_s)
            if "groups" in self._features and rng.random() < 0.3:
                labels = {
                    **labels,
                    GROUP: rng.choice(APPS),
                    GROUP_SIZE: rng.choice(("1", "2", "3")),
                }
            if "gates" in self._features and rng.random() < 0.2:
                given["schedulingGates"] = [{"name": "example.com/gate"}]
            made.append(Action(at_s, "create_pod", {**pod, "labels": labels, "spec": given}))
            at_s += rng.choice((0.0, 0.0, rng.random() * 0.02))
        return made

    # Volumes and devices ----------------------------------------------------------------------------

    def _storage(self) -> list[Action]:
        """Classes of storage, a few volumes that are there already, and how many a node can attach."""
        rng = self._rng
        made = [
            _create(
                f"{STORAGE}/storageclasses", name, provisioner=provisioner, volumeBindingMode=mode
            )
            for name, provisioner, mode in (
                ("late", DRIVER, "WaitForFirstConsumer"),
                ("now", DRIVER, "Immediate"),
                ("local", NO_PROVISIONER, "WaitForFirstConsumer"),
            )
        ]
        for number in self._some(4):
            node = rng.choice(self._nodes)
            spec = {
                "storageClassName": "local",
                "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
                "capacity": {"storage": rng.choice(("1Gi", "5Gi"))},
                "local": {"path": "/disk"},
                "nodeAffinity": on_node(node),
            }
            made.append(_create(VOLUMES, f"local-{number}", spec=spec))
        for node in self._nodes:
            if rng.random() < 0.6:
                limit = {
                    "name": DRIVER,
                    "nodeID": node,
                    "allocatable": {"count": rng.randint(0, 2)},
                }
                made.append(_create(f"{STORAGE}/csinodes", node, spec={"drivers": [limit]}))
        return made

    def _claim_spec(self) -> Json:
        rng = self._rng
        return {
            "storageClassName": rng.choice(("late", "late", "now", "local", "local")),
            "accessModes": [rng.choice(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"))],
            "resources": {"requests": {"storage": rng.choice(("1Gi", "3Gi"))}},
        }

    def _add_claims(self, spec: Json, at_s: float) -> list[Action]:
        """Has some pods want volumes and devices, their own and ones that they share; what they want
        may come later than they, or not at all."""
        rng, made = self._rng, []
        volumes, wanted = [], []
        if "volumes" in self._features and rng.random() < 0.5:
            if rng.random() < 0.2:
                template = {"volumeClaimTemplate": {"spec": self._claim_spec()}}
                volumes.append({"name": "own", "ephemeral": template})
            for _ in range(rng.choice((1, 1, 2))):
                name = self._claim_name("disk")
                volumes.append({"name": name, "persistentVolumeClaim": {"claimName": name}})
                if rng.random() < 0.9:
                    made.append(_create(DISKS, name, self._late_s(at_s), spec=self._claim_spec()))
        if "devices" in self._features and rng.random() < 0.5:
            if rng.random() < 0.5:
                wanted.append(
                    {"name": "own", "resourceClaimTemplateName": rng.choice(("one", "two"))}
                )
            else:
                name = self._claim_name("claim")
                wanted.append({"name": "shared", "resourceClaimName": name})
                devices = self._devices_spec(rng.choice((1, 1, 2)))
                made.append(_create(CLAIMS, name, self._late_s(at_s), spec={"devices": devices}))
        if volumes:
            spec["volumes"] = volumes
        if wanted:
            spec["resourceClaims"] = wanted
        return made

    def _claim_name(self, kind: str) -> str:
        """Often one that another pod has, too."""
        if self._rng.random() < 0.4:
            return f"{kind}-{self._rng.choice(APPS)}"
        return f"{kind}-{len(self._pods)}"

    def _late_s(self, at_s: float) -> float:
        rng = self._rng
        return max(0.0, at_s - 0.01) if rng.random() < 0.7 else at_s + rng.random() * 5

    def _device_pools(self) -> list[Action]:
        expression = f'device.driver == "{GPU_DRIVER}"'
        selectors = [{"cel": {"expression": expression}}]
        made = [_create(f"{DEVICES}/deviceclasses", "gpu", spec={"selectors": selectors})]
        for name, count in (("one", 1), ("two", 2)):
            spec = {"spec": {"devices": self._devices_spec(count)}}
            path = f"{DEVICES}/namespaces/default/resourceclaimtemplates"
            made.append(_create(path, name, spec=spec))
        return made + [_create(SLICES, node, spec=self._pool(node)) for node in self._nodes]

    def _pool(self, node: str) -> Json:
        rng = self._rng
        devices = [
            {"name": f"gpu-{number}", "attributes": {"model": {"string": rng.choice(("a", "b"))}}}
            for number in range(rng.randint(0, 3))
        ]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        return {"driver": GPU_DRIVER, "nodeName": node, "pool": pool, "devices": devices}

    def _devices_spec(self, count: int) -> Json:
        exactly: Json = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
        if self._rng.random() < 0.3:
            model = f'device.attributes["{GPU_DRIVER}"].model == "a"'
            exactly["selectors"] = [{"cel": {"expression": model}}]
        return {"requests": [{"name": "r", "exactly": exactly}]}

    def _volumes(self) -> list[Action]:
        """What becomes of claims and volumes later."""
        rng, made = self._rng, []
        for _ in self._some(4):
            disk = f"{DISKS}/disk-{rng.choice((*APPS, *range(len(self._pods))))}"
            node = rng.choice(self._nodes)
            at_s = self._time_s()
            choice = rng.random()
            if choice < 0.4:
                made.append(Action(at_s, "delete", {"path": disk}))
                if rng.random() < 0.7:
                    name = disk.rpartition("/")[2]
                    made.append(_create(DISKS, name, at_s + rng.random(), spec=self._claim_spec()))
            elif choice < 0.6:
                made.append(
                    Action(at_s, "delete", {"path": f"{VOLUMES}/local-{rng.randint(0, 3)}"})
                )
            elif choice < 0.8:
                made.append(Action(at_s, "delete", {"path": f"{STORAGE}/csinodes/{node}"}))
            else:
                limit = {
                    "name": DRIVER,
                    "nodeID": node,
                    "allocatable": {"count": rng.randint(0, 3)},
                }
                spec = {"drivers": [limit]}
                made.append(_create(f"{STORAGE}/csinodes", node, at_s, spec=spec))
        return made

    def _devices(self) -> list[Action]:
        """What becomes of devices later."""
        rng, made = self._rng, []
        for _ in self._some(4):
            node, at_s = rng.choice(self._nodes), self._time_s()
            choice = rng.random()
            if choice < 0.4:
                spec = self._pool(node)
                spec["pool"]["generation"] = 2
                made.append(
                    Action(at_s, "change", {"path": f"{SLICES}/{node}", "body": {"spec": spec}})
                )
            elif choice < 0.6:
                made.append(Action(at_s, "delete", {"path": f"{SLICES}/{node}"}))
                again_s = at_s + rng.random() * 3
                made.append(_create(SLICES, node, again_s, spec=self._pool(node)))
            else:
                name = f"claim-{rng.choice((*APPS, *range(len(self._pods))))}"
                made.append(Action(at_s, "delete", {"path": f"{CLAIMS}/{name}"}))
        return made

    def _budget(self, app: str) -> Action:
        allowed = self._rng.randint(0, 1)
        return Action(0.0, "create_budget", {"name": f"b-{app}", "app": app, "allowed": allowed})

    def _some(self, most: int) -> range:
        return range(self._rng.randint(1, most))

    def _pod(self) -> Json:
        return dict(self._rng.choice(self._pods))

    # What happens to the cluster --------------------------------------------------------------------

    def _deletions(self) -> list[Action]:
        return [Action(self._time_s(), "delete_pod", self._pod()) for _ in self._some(8)]

    def _short_lived(self) -> list[Action]:
        return [Action(self._time_s(), "finish_pod", self._pod()) for _ in self._some(8)]

    def _gates(self) -> list[Action]:
        return [
            Action(self._time_s(), "open_gates", pod)
            for pod in self._pods
            if self._rng.random() < 0.7
        ]

    def _renames(self) -> list[Action]:
        """Pods that are deleted and created anew under the same name, as a StatefulSet's."""
        made = []
        for _ in self._some(4):
            shape = self._rng.choice(self._shapes)
            what = {**self._pod(), "labels": shape["labels"], "spec": dict(shape["spec"])}
            made.append(Action(self._time_s(), "recreate_pod", what))
        return made

    def _namespaces(self) -> list[Action]:
        labels = self._rng.choice(({"team": "y"}, {"team": "x"}, {}))
        return [Action(self._time_s(), "label_namespace", {"name": "other", "labels": labels})]

    def _foreign(self) -> list[Action]:
        """Bindings by somebody else, and labels that change."""
        rng, made = self._rng, []
        for _ in self._some(4):
            what = {**self._pod(), "node": rng.choice(self._nodes)}
            made.append(Action(self._time_s(), "foreign_bind", what))
        for _ in self._some(3):
            what = {**self._pod(), "labels": {"app": rng.choice(APPS)}}
            made.append(Action(self._time_s(), "label_pod", what))
        for _ in self._some(4):  # Best while it is on its way to its node.
            at_s = rng.choice(self._burst_times_s) + 10 ** rng.uniform(-3, 0)
            made.append(Action(at_s, "mark_preempted", self._pod()))
        return made

    def _node_churn(self) -> list[Action]:
        rng, made = self._rng, []
        for _ in self._some(8):
            name = rng.choice((*self._nodes, f"n{len(self._nodes)}"))
            if rng.random() < 0.3:
                made.append(Action(self._time_s(), "delete_node", {"name": name}))
            elif rng.random() < 0.5:
                # While pods are on their way to the nodes that were there when they came.
                at_s = rng.choice(self._burst_times_s) + 10 ** rng.uniform(-4, -1.5)
                other = self._node(f"n{len(self._nodes)}")
                made.append(Action(at_s, "replace_node", {"old": name, "new": other}))
            else:
                made.append(Action(self._time_s(), "put_node", self._node(name)))
        for burst_s in self._burst_times_s:
            if rng.random() < 0.2:
                made += self._swap(burst_s)
        return made

    def _swap(self, burst_s: float) -> list[Action]:
        """A node that is still empty, and that pods like best, is replaced while they are on their way
        to it: the next one takes its row."""
        old, new = (self._node(f"n{len(self._nodes)}") for _ in range(2))
        for node in (old, new):
            node["room"] = {"cpu": "6", "memory": "8Gi", "pods": "110", DEVICE: "3"}
            node["taints"], node["unschedulable"] = [], False
            node["labels"] = {HOST: node["name"], ZONE: "z1", "disk": "ssd"}
        at_s = burst_s + 10 ** self._rng.uniform(-3.7, -2)
        return [
            Action(max(0.0, burst_s - 0.3), "put_node", old),
            Action(at_s, "replace_node", {"old": old["name"], "new": new}),
        ]

    def _poison(self) -> list[Action]:
        rng, made = self._rng, []
        for number in self._some(12):
            plural, body = poison(rng, rng.randint(0, number))
            at_s = rng.choice((0.0, self._time_s()))
            made.append(Action(at_s, "put_raw", {"plural": plural, "body": body}))
        return made

    def _reloads(self) -> list[Action]:
        rng = self._rng
        return [
            Action(
                self._time_s(),
                "reload",
                {"berth": rng.choice((0, 0, 1)), "configuration": rng.randint(0, len(OTHERWISE))},
            )
            for _ in self._some(3)
        ]

    # What goes wrong --------------------------------------------------------------------------------

    def _process(self) -> str:
        rng = self._rng
        names = ["owner", "scorer-0", "scorer-1", "binder-0", "binder-1", "adapter"]
        if rng.random() < 0.2:
            names = ["supervisor"]
        elif "election" in self._features:
            names += ["leader", "leader"]
        prefix = rng.choice(("", "", "1/")) if "election" in self._features else ""
        return prefix + rng.choice(names)

    def _kills(self) -> list[Action]:
        made = []
        for _ in self._some(4):
            sends = self._rng.choice((0, self._rng.randint(1, 6)))
            made.append(
                Action(self._time_s(), "kill", {"process": self._process(), "sends": sends})
            )
        return made

    def _stops(self) -> list[Action]:
        return [
            Action(
                self._time_s(),
                "stop",
                {"process": self._process(), "for_s": round(10 ** self._rng.uniform(-2, 1.5), 3)},
            )
            for _ in self._some(3)
        ] + self._machine_stops()

    def _machine_stops(self) -> list[Action]:
        rng = self._rng
        if rng.random() < 0.7:
            return []
        what = {"berth": rng.choice((0, 0, 1)), "for_s": round(10 ** rng.uniform(-1, 1.6), 3)}
        return [Action(self._time_s(), "stop_machine", what)]

    def _breaks(self) -> list[Action]:
        return [
            Action(self._time_s(), "break_link", {"process": self._process()})
            for _ in self._some(3)
        ]

    def _snapshots(self) -> list[Action]:
        rng = self._rng
        return [
            Action(
                self._time_s(),
                rng.choice(("lose_snapshots", "damage_snapshots")),
                {"process": f"scorer-{rng.randint(0, 2)}", "count": rng.randint(1, 3)},
            )
            for _ in self._some(4)
        ]

    def _binder_faults(self) -> list[Action]:
        """Of bindings and deletions: refused, or carried out and the answer lost, or answered late."""
        rng, made = self._rng, []
        for _ in self._some(5):
            rule: Json = {"method": "POST", "path": "*/binding", "times": rng.randint(1, 3)}
            if rng.random() < 0.2:
                rule |= {"method": rng.choice(("DELETE", "PATCH")), "path": "*/pods/*"}
            elif rng.random() < 0.2:
                rule |= {"method": "GET", "path": "*/pods/p*"}
            made.append(Action(self._time_s(), "api_fault", rule | self._request_fault()))
        return made

    def _request_fault(self) -> Json:
        rng = self._rng
        kind = rng.choice(("refuse", "refuse", "delay", "disconnect", "hang"))
        if kind == "refuse":
            code = rng.choice((409, 429, 429, 500, 503, 504))
            return {"at": "request", "do": "refuse", "code": code}
        at = rng.choice(("request", "answer"))
        if kind == "delay":
            return {"at": at, "do": kind, "delay_s": round(10 ** rng.uniform(-3, 1.7), 3)}
        return {"at": at, "do": kind}

    def _api_faults(self) -> list[Action]:
        """Of anything else."""
        return [
            Action(
                self._time_s(),
                "api_fault",
                {"method": self._rng.choice(("GET", "GET", "POST", "PATCH")), "path": "*",
                 "times": self._rng.randint(1, 6)} | self._request_fault(),
            )
            for _ in self._some(3)
        ]  # fmt: skip

    def _watch_faults(self) -> list[Action]:
        rng, made = self._rng, []
        for _ in self._some(4):
            fault: Json = {
                "at": "watch",
                "do": rng.choice(
                    ("disconnect", "end", "expire", "cut", "repeat", "delay", "garble")
                ),
                "path": rng.choice(("*/pods", "*/nodes", "*")),
                "times": rng.randint(1, 3),
            }
            if fault["do"] == "delay":
                fault["delay_s"] = round(10 ** rng.uniform(-3, 0.5), 3)
            if fault["do"] == "repeat":
                fault["back"] = rng.randint(0, 5)
            made.append(Action(self._time_s(), "api_fault", fault))
        return made

    def _server(self) -> list[Action]:
        return [
            Action(self._time_s(), "restart_server", {"compacts": self._rng.random() < 0.5})
            for _ in self._some(2)
        ]

    def _stalls(self) -> list[Action]:
        return [
            Action(
                self._time_s(),
                "stall",
                {
                    "process": self._client(),
                    "upwards": self._rng.random() < 0.5,
                    "for_s": round(10 ** self._rng.uniform(-2, 1.7), 3),
                },
            )
            for _ in self._some(2)
        ]

    def _client(self) -> str:
        names = ["adapter", "binder-0", "binder-1"]
        if "election" in self._features:
            names += ["leader", "1/adapter", "1/binder-0", "1/leader"]
        return self._rng.choice(names)

    def _restore(self) -> list[Action]:
        saved_s = self._time_s()
        return [
            Action(saved_s, "save_etcd", {}),
            Action(saved_s + self._rng.random() * 5, "restore_etcd", {}),
        ]

    def _clock(self) -> list[Action]:
        by_s = self._rng.choice((-3600.0, -5.0, 5.0, 86400.0))
        berth = self._rng.choice((0, 0, 1))
        return [Action(self._time_s(), "set_clock", {"berth": berth, "by_s": by_s})]

    _MAKERS: Final[dict[str, Callable[["_Maker"], list[Action]]]] = {
        "deletions": _deletions, "short_lived": _short_lived, "gates": _gates, "renames": _renames,
        "namespaces": _namespaces, "foreign": _foreign, "node_churn": _node_churn, "kills": _kills,
        "stops": _stops, "breaks": _breaks, "snapshots": _snapshots, "restore": _restore,
        "binder_faults": _binder_faults, "api_faults": _api_faults, "watch_faults": _watch_faults,
        "server": _server, "stalls": _stalls, "clock": _clock, "volumes": _volumes,
        "devices": _devices, "poison": _poison, "reloads": _reloads,
    }  # fmt: skip


_EXISTS: Final[Json] = {"operator": "Exists"}
