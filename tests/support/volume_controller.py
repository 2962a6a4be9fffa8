"""As much of kube-controller-manager's volume controller as a pod's volumes need.

The simulated API server has no controllers; this one works in the test's own thread, when it is asked
to. It gives volumes to claims by the rules of pkg/controller/volume/persistentvolume/pv_controller.go
(v1.36): a claim that names its volume and one that a volume names get it, an immediate one gets the
smallest that is free or a new one, one that waits for its consumer gets a new one once a node was
chosen for it.
"""

from collections.abc import Callable
from typing import Final

from shared.kube.quantity import value
from tests.support.live import Json, LiveBerth

CLAIMS: Final = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES: Final = "/api/v1/persistentvolumes"
CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
NOT_DYNAMIC: Final = "kubernetes.io/no-provisioner"


def set_phase(live: LiveBerth, path: str, phase: str) -> None:
    live.update(path, lambda found: found.setdefault("status", {}).update(phase=phase), "status")


class VolumeController:
    """Of one test. Volumes that it makes are taken away by `LiveBerth.reset`."""

    def __init__(self, live: LiveBerth) -> None:
        self._live = live

    def work_until(self, is_so: Callable[[], object], what: str) -> None:
        """Does what there is to do, again and again, until `is_so`."""

        def look() -> object:
            self.work()
            return is_so()

        self._live.await_news(look, lambda: f"the volume controller works until {what}")

    def work(self) -> None:
        """Each claim once."""
        items = {path: self._live.ask("GET", path)["items"] for path in (VOLUMES, CLASSES)}
        classes = {each["metadata"]["name"]: each for each in items[CLASSES]}
        volumes = {each["metadata"]["name"]: each for each in items[VOLUMES]}
        for claim in self._live.ask("GET", CLAIMS)["items"]:
            if claim["status"].get("phase") != "Bound":
                volume = self._volume_for(claim, volumes, classes)
                if volume:
                    self._bind(claim, volume)
                    volumes.pop(volume, None)

    def _volume_for(self, claim: Json, volumes: dict[str, Json], classes: dict[str, Json]) -> str:
        name, named = claim["metadata"]["name"], claim["spec"].get("volumeName", "")
        if named:
            return named if named in volumes else ""
        for volume in volumes.values():
            if volume["spec"].get("claimRef", {}).get("name") == name:
                found: str = volume["metadata"]["name"]
                return found
        storage_class = classes.get(claim["spec"]["storageClassName"])
        if storage_class is None:
            return ""
        node = claim["metadata"].get("annotations", {}).get(SELECTED_NODE, "")
        is_immediate = storage_class.get("volumeBindingMode", "Immediate") == "Immediate"
        free = self._smallest_free(claim, volumes) if is_immediate else ""
        is_wanted = is_immediate or node
        if free or not is_wanted or storage_class["provisioner"] == NOT_DYNAMIC:
            return free
        return self._provision(claim, node)

    def _smallest_free(self, claim: Json, volumes: dict[str, Json]) -> str:
        wanted = value(claim["spec"]["resources"]["requests"]["storage"])
        sizes = {
            name: value(volume["spec"]["capacity"]["storage"])
            for name, volume in volumes.items()
            if volume["spec"]["storageClassName"] == claim["spec"]["storageClassName"]
            and "claimRef" not in volume["spec"]
        }
        fitting = [(size, name) for name, size in sizes.items() if size >= wanted]
        return min(fitting)[1] if fitting else ""

    def _provision(self, claim: Json, node: str) -> str:
        name = f"pvc-{claim['metadata']['uid']}"
        spec = {
            "storageClassName": claim["spec"]["storageClassName"],
            "accessModes": claim["spec"]["accessModes"],
            "capacity": claim["spec"]["resources"]["requests"],
            "hostPath": {"path": "/tmp"},
            "claimRef": _reference(claim),
        }
        if node:
            spec["nodeAffinity"] = on_node(node)
        self._live.create(VOLUMES, "PersistentVolume", {"metadata": {"name": name}, "spec": spec})
        return name

    def _bind(self, claim: Json, name: str) -> None:
        def give(volume: Json) -> None:
            if "uid" not in volume["spec"].get("claimRef", {}):
                volume["spec"]["claimRef"] = _reference(claim)

        def take(found: Json) -> None:
            found["spec"]["volumeName"] = name
            found["metadata"].setdefault("annotations", {})[BIND_COMPLETED] = "yes"

        volume, taker = f"{VOLUMES}/{name}", f"{CLAIMS}/{claim['metadata']['name']}"
        self._live.update(volume, give)
        set_phase(self._live, volume, "Bound")
        self._live.update(taker, take)
        set_phase(self._live, taker, "Bound")


def on_node(name: str, key: str = "kubernetes.io/hostname") -> Json:
    """The node affinity of a volume that only one node, or one group of them, can reach."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [name]}]}
    return {"required": {"nodeSelectorTerms": [term]}}


def _reference(claim: Json) -> Json:
    metadata = claim["metadata"]
    names = {key: metadata[key] for key in ("namespace", "name", "uid")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **names}
