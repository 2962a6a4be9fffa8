"""As much of kube-controller-manager as volumes and claims need, on the virtual clock.

Volumes for claims by the rules of pkg/controller/volume/persistentvolume/pv_controller.go; claims of
ephemeral volumes by pkg/controller/volume/ephemeral; claims of templates, of pods and of pod groups, and
what is left of claims when these have ended, by pkg/controller/resourceclaim/controller.go (v1.36.2).
They come late, each time a little after something has changed.
"""

from typing import TYPE_CHECKING, Any, Final

from bench.apiserver.stored_quantities import parse_quantity
from bench.sim.sim_objects import on_node
from bench.sim.slow_migration import SERVED

if TYPE_CHECKING:
    from bench.sim.world import World

Json = dict[str, Any]

VOLUMES: Final = "/api/v1/persistentvolumes"
CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
NOT_DYNAMIC: Final = "kubernetes.io/no-provisioner"


def _claims_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"


def _groups_path(namespace: str) -> str:
    return f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{namespace}/podgroups"


def _device_claims_path(namespace: str) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"


class Controllers:
    """Of one world. What they cannot do now they do next time."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._seen_version = -1

    def work(self) -> None:
        """Once over everything, if anything has changed."""
        if self._seen_version == self._world.server.cluster.store.version:
            return
        for group in list(self._world.kind("podgroups")):
            self._make_claims_of_group(group)
        for pod in self._world.pods():
            self._make_claims(pod)
        self._give_volumes()
        self._release_devices()
        self._seen_version = self._world.server.cluster.store.version

    # Claims that pods have made for them ------------------------------------------------------------

    def _make_claims(self, pod: Json) -> None:
        meta, spec = pod["metadata"], pod["spec"]
        if "deletionTimestamp" in meta or _has_ended(pod):
            return
        for volume in spec.get("volumes") or []:
            if "ephemeral" in volume:
                name = f"{meta['name']}-{volume['name']}"
                wanted = volume["ephemeral"]["volumeClaimTemplate"]["spec"]
                body = {"metadata": {"name": name, **_owned_by(pod)}, "spec": wanted}
                self._create(_claims_path(meta["namespace"]), name, body)
        where = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        group = self._group_of(pod)
        for wanted in _unmade(pod):
            if wanted not in (group["spec"].get("resourceClaims") or []):
                self._claim_of_template(pod, where, wanted, _owned_by(pod))
                continue
            made = {each["name"]: each for each in _claims_made(group)}
            if wanted["name"] in made:
                self._tell_claim(pod, where, made[wanted["name"]])

    def _make_claims_of_group(self, group: Json) -> None:
        meta = group["metadata"]
        owner = _owned_by(group, "scheduling.k8s.io/v1alpha2", "PodGroup")
        for wanted in _unmade(group):
            where = f"{_groups_path(meta['namespace'])}/{meta['name']}"
            self._claim_of_template(group, where, wanted, owner)

    def _group_of(self, pod: Json) -> Json:
        name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName", "")
        path = _groups_path(pod["metadata"]["namespace"])
        found = self._world.ask("GET", f"{path}/{name}") if name else None
        return found or {"spec": {}}

    def _claim_of_template(self, of: Json, where: str, wanted: Json, owned: Json) -> None:
        meta = of["metadata"]
        base = f"/apis/resource.k8s.io/v1/namespaces/{meta['namespace']}/resourceclaimtemplates"
        found = self._world.ask("GET", f"{base}/{wanted['resourceClaimTemplateName']}")
        if found is None:
            return
        claim = f"{meta['name']}-{wanted['name']}"
        body = {"metadata": {"name": claim, **owned}, "spec": found["spec"]["spec"]}
        path = _device_claims_path(meta["namespace"])
        there = self._create(path, claim, body)
        if there["metadata"].get("ownerReferences") != body["metadata"]["ownerReferences"]:
            self._world.ask("DELETE", f"{path}/{claim}")  # Of the pod of this name before.
            return
        self._tell_claim(of, where, {"name": wanted["name"], "resourceClaimName": claim})

    def _tell_claim(self, of: Json, where: str, made: Json) -> None:
        statuses = [*_claims_made(of), made]
        self._world.patch(f"{where}/status", {"status": {"resourceClaimStatuses": statuses}})

    def _create(self, path: str, name: str, body: Json) -> Json:
        return (
            self._world.ask("GET", f"{path}/{name}") or self._world.ask("POST", path, body) or body
        )

    def _release_devices(self) -> None:
        """What no living pod and no group has reserved is free, and claims of those that are gone go."""
        users = [*self._world.pods(), *self._world.kind("podgroups")]
        pods = {user["metadata"]["uid"]: user for user in users}
        for table, path in (("resourceclaims", _device_claims_path),
                            ("persistentvolumeclaims", _claims_path)):  # fmt: skip
            for claim in list(self._world.kind(table)):
                meta = claim["metadata"]
                owners = [each["uid"] for each in meta.get("ownerReferences") or []]
                where = f"{path(meta['namespace'])}/{meta['name']}"
                if owners and owners[0] not in pods:
                    self._world.ask("DELETE", where)
                elif table == "resourceclaims":
                    self._release(claim, where, pods)

    def _release(self, claim: Json, where: str, pods: dict[str, Json]) -> None:
        status = claim.get("status") or {}
        reserved = status.get("reservedFor") or []
        living = [
            each for each in reserved if each["uid"] in pods and not _has_ended(pods[each["uid"]])
        ]
        if len(living) < len(reserved):
            freed: Json = {"reservedFor": living or None}
            if not living:
                freed["allocation"] = None
            self._world.patch(f"{where}/status", {"status": freed})

    # Volumes ----------------------------------------------------------------------------------------

    def _give_volumes(self) -> None:
        volumes = {each["metadata"]["name"]: each for each in self._world.kind("persistentvolumes")}
        classes = {each["metadata"]["name"]: each for each in self._world.kind("storageclasses")}
        for claim in list(self._world.kind("persistentvolumeclaims")):
            if (claim.get("status") or {}).get("phase") == "Bound":
                continue
            volume = self._volume_for(claim, volumes, classes)
            if volume:
                self._bind(claim, volume)
                volumes = {
                    each["metadata"]["name"]: each for each in self._world.kind("persistentvolumes")
                }
        claims = {each["metadata"]["uid"] for each in self._world.kind("persistentvolumeclaims")}
        for name, held in volumes.items():
            reference = held["spec"].get("claimRef") or {}
            if not reference.get("uid") and held["status"]["phase"] == "Pending":
                self._world.patch(f"{VOLUMES}/{name}/status", {"status": {"phase": "Available"}})
            if reference.get("uid", "") not in ("", *claims):
                self._world.ask("DELETE", f"{VOLUMES}/{name}")

    def _volume_for(self, claim: Json, volumes: dict[str, Json], classes: dict[str, Json]) -> str:
        named: str = claim["spec"].get("volumeName", "")
        if named:
            return named if named in volumes else ""
        for each in volumes.values():
            if (each["spec"].get("claimRef") or {}).get("uid") == claim["metadata"]["uid"]:
                found: str = each["metadata"]["name"]
                return found
        storage_class = classes.get(claim["spec"].get("storageClassName", ""))
        if storage_class is None:
            return ""
        node = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE, "")
        is_immediate = storage_class.get("volumeBindingMode", "Immediate") == "Immediate"
        free = _smallest_free(claim, volumes) if is_immediate else ""
        if free or not (is_immediate or node) or storage_class["provisioner"] == NOT_DYNAMIC:
            return free
        return self._provision(claim, storage_class["provisioner"], node)

    def _provision(self, claim: Json, provisioner: str, node: str) -> str:
        if node and self._world.ask("GET", f"/api/v1/nodes/{node}") is None:
            where = f"{_claims_path(claim['metadata']['namespace'])}/{claim['metadata']['name']}"
            self._world.patch(where, {"metadata": {"annotations": {SELECTED_NODE: None}}})
            return ""
        name = f"pvc-{claim['metadata']['uid']}"
        spec = {
            "storageClassName": claim["spec"]["storageClassName"],
            "accessModes": claim["spec"]["accessModes"],
            "capacity": claim["spec"]["resources"]["requests"],
            **_source(provisioner, name),
            "claimRef": _reference(claim),
        }
        if node:
            spec["nodeAffinity"] = on_node(node)
        self._world.ask("POST", VOLUMES, {"metadata": {"name": name}, "spec": spec})
        return name

    def _bind(self, claim: Json, name: str) -> None:
        meta = claim["metadata"]
        volume, taker = f"{VOLUMES}/{name}", f"{_claims_path(meta['namespace'])}/{meta['name']}"
        self._world.patch(volume, {"spec": {"claimRef": _reference(claim)}})
        self._world.patch(f"{volume}/status", {"status": {"phase": "Bound"}})
        bound = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": name}}
        self._world.patch(taker, bound)
        self._world.patch(f"{taker}/status", {"status": {"phase": "Bound"}})


def _smallest_free(claim: Json, volumes: dict[str, Json]) -> str:
    wanted = parse_quantity(claim["spec"]["resources"]["requests"]["storage"])
    assert wanted is not None, "a claim says how much it wants"
    fitting = []
    for name, volume in volumes.items():
        size = parse_quantity(volume["spec"]["capacity"]["storage"])
        is_free = "claimRef" not in volume["spec"]
        is_alike = volume["spec"].get("storageClassName") == claim["spec"]["storageClassName"]
        if size is not None and size >= wanted and is_free and is_alike:
            fitting.append((size, name))
    return min(fitting)[1] if fitting else ""


def _source(provisioner: str, name: str) -> Json:
    """What a provisioner makes: disks that are built into Kubernetes stay these when a driver has taken
    them over, and count as its volumes before they are made and after."""
    for kind, served in SERVED.items():
        if served.plugin == provisioner:
            return {kind: {served.named_by: name}}
    return {"csi": {"driver": provisioner, "volumeHandle": name}}


def _reference(claim: Json) -> Json:
    meta = claim["metadata"]
    names = {key: meta[key] for key in ("namespace", "name", "uid")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **names}


def _owned_by(owner: Json, version: str = "v1", kind: str = "Pod") -> Json:
    meta = owner["metadata"]
    reference = {"apiVersion": version, "kind": kind, "name": meta["name"], "uid": meta["uid"],
                 "controller": True}  # fmt: skip
    return {"ownerReferences": [reference]}


def _unmade(of: Json) -> list[Json]:
    """References of a pod or a group to templates of which no claim is made yet."""
    told = {each["name"] for each in _claims_made(of)}
    wanted = of["spec"].get("resourceClaims") or []
    return [
        each
        for each in wanted
        if each.get("resourceClaimTemplateName") and each["name"] not in told
    ]


def _claims_made(of: Json) -> list[Json]:
    made: list[Json] = (of.get("status") or {}).get("resourceClaimStatuses") or []
    return made


def _has_ended(user: Json) -> bool:
    return (user.get("status") or {}).get("phase") in ("Succeeded", "Failed")
