"""Volumes said slowly: disks that exclude one another, limits, binding, zones.

Written from upstream's rules over plain dictionaries as the API has them, as `slow_topology.py` is.

Rules: pkg/scheduler/framework/plugins/{volumerestrictions,nodevolumelimits,volumebinding,volumezone}
and component-helpers/storage/volume, v1.36.2.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Any, NamedTuple

from bench.sim.slow_migration import Handle, driver_of, served_as, within_reach_of
from bench.sim.slow_pods import CannotTell, Verdict, quantity, rounded_up, terms_mean
from bench.sim.slow_topology import selects

Json = Mapping[str, Any]
Objects = Mapping[str, Mapping[str, Json]]
"""Kind (plural) -> key -> object."""

RESTRICTIONS, LIMITS, BINDING, ZONE = (
    "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone",
)  # fmt: skip
OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ZONE_LABELS = (
    "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
)  # fmt: skip


class VolumePod(NamedTuple):
    """What is read of a pod."""

    uid: str
    name: str
    namespace: str
    spec: Json


class Storage(NamedTuple):
    """What is there; `latest` has what the scheduler has assumed on top of what it was told."""

    told: Objects
    latest: Objects


def claim_names(pod: VolumePod) -> Iterator[tuple[str, bool]]:
    """The claims of a pod, and whether it is one of its own (an ephemeral volume's)."""
    for volume in pod.spec.get("volumes") or []:
        if volume.get("persistentVolumeClaim"):
            yield volume["persistentVolumeClaim"]["claimName"], False
        elif "ephemeral" in volume:
            yield f"{pod.name}-{volume['name']}", True


def class_of(stated: Json) -> str:
    """The storage class that a claim asks for, or that a volume is of."""
    annotations = stated["metadata"].get("annotations") or {}
    found: str = annotations.get(OLD_CLASS, stated["spec"].get("storageClassName") or "")
    return found


def _owns(pod: VolumePod, claim: Json) -> bool:
    owners = claim["metadata"].get("ownerReferences") or []
    return any(owner.get("controller") and owner.get("uid") == pod.uid for owner in owners)


# VolumeRestrictions ---------------------------------------------------------------------------------


class Moved(NamedTuple):
    """Who is there in a dry run though PreFilter did not see them, and who is not though it did."""

    came: Sequence[VolumePod]
    gone: Sequence[VolumePod]


def restrictions(
    pod: VolumePod,
    beside: Sequence[VolumePod],
    everywhere: Sequence[VolumePod],
    storage: Storage,
    moved: Moved,
) -> Verdict | None:
    """`beside`: pods of the node; `everywhere`: pods of all nodes, as PreFilter saw them."""
    claims = storage.told.get("persistentvolumeclaims", {})
    alone = set()
    for volume in pod.spec.get("volumes") or []:
        if volume.get("persistentVolumeClaim"):
            name = volume["persistentVolumeClaim"]["claimName"]
            claim = claims.get(f"{pod.namespace}/{name}")
            if claim is None:
                reason = f'persistentvolumeclaim "{name}" not found'
                return Verdict(RESTRICTIONS, reason, is_final=True)
            if "ReadWriteOncePod" in (claim["spec"].get("accessModes") or []):
                alone.add(name)
    used = {
        name for other in everywhere if other.namespace == pod.namespace
        for name, _ in claim_names(other)
    }  # fmt: skip
    count = len(alone & used)
    if not count and not _has_disks(pod):
        return None  # There is nothing to do for Filter.
    for mine in pod.spec.get("volumes") or []:
        for other in beside:
            if any(_exclude(mine, theirs) for theirs in other.spec.get("volumes") or []):
                return Verdict(RESTRICTIONS, "node(s) had no available disk")
    # A claim counts once, however many have it; but each of them takes one away when it goes.
    count += _users(alone, moved.came) - _users(alone, moved.gone)
    return Verdict(RESTRICTIONS, "a ReadWriteOncePod claim is in use") if count > 0 else None


def _users(claims: AbstractSet[str], others: Sequence[VolumePod]) -> int:
    """Of whichever namespace (updateWithPod in volume_restrictions.go)."""
    named = [each for other in others for each in claim_names(other)]
    return sum(name in claims and not is_own for name, is_own in named)


def _has_disks(pod: VolumePod) -> bool:
    """Whether the pod names disks outright."""
    kinds = ("gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi")
    return any(volume.get(kind) for volume in pod.spec.get("volumes") or [] for kind in kinds)


def _exclude(one: Json, other: Json) -> bool:
    """Whether two volumes are the same disk, of which one has to go without."""
    for kind, key in (("gcePersistentDisk", "pdName"), ("iscsi", "iqn")):
        mine, theirs = one.get(kind), other.get(kind)
        if mine and theirs and mine.get(key) == theirs.get(key):
            return not (mine.get("readOnly") and theirs.get("readOnly"))
    mine, theirs = one.get("awsElasticBlockStore"), other.get("awsElasticBlockStore")
    if mine and theirs and mine.get("volumeID") == theirs.get("volumeID"):
        return True
    mine, theirs = one.get("rbd"), other.get("rbd")
    if not (mine and theirs and set(mine["monitors"]) & set(theirs["monitors"])):
        return False
    is_same = all(
        mine.get(key, usual) == theirs.get(key, usual)
        for key, usual in (("pool", "rbd"), ("image", ""))
    )
    return is_same and not (mine.get("readOnly") and theirs.get("readOnly"))


# NodeVolumeLimits -----------------------------------------------------------------------------------


def limits(
    pod: VolumePod, node_name: str, beside: Sequence[VolumePod], storage: Storage
) -> Verdict | None:
    """What NodeVolumeLimits has against a pod on a node."""
    csi_node = storage.told.get("csinodes", {}).get(node_name)
    for name, is_own in claim_names(pod):
        claim = storage.told.get("persistentvolumeclaims", {}).get(f"{pod.namespace}/{name}")
        if claim is None:
            return Verdict(LIMITS, f'persistentvolumeclaim "{name}" not found', is_final=True)
        if is_own and not _owns(pod, claim):
            raise CannotTell("a claim of somebody else under the name of an ephemeral volume's")
    new = _handles(pod, storage, csi_node)
    counts = {
        driver["name"]: driver["allocatable"]["count"]
        for driver in ((csi_node or {}).get("spec") or {}).get("drivers") or []
        if (driver.get("allocatable") or {}).get("count") is not None
    }
    if not new or not counts:
        return None
    attached = {handle for other in beside for handle in _handles(other, storage, csi_node)}
    fresh = [handle for handle in new if handle not in attached]
    attached |= _attachments(node_name, storage)
    for driver, count in counts.items():
        more = sum(handle[0] == driver for handle in fresh)
        if more and more + sum(handle[0] == driver for handle in attached) > count:
            return Verdict(LIMITS, "node(s) exceed max volume count")
    return None


def _handles(pod: VolumePod, storage: Storage, csi_node: Json | None) -> set[Handle]:
    """What counts of a pod's volumes, claims that are not there left out."""
    volumes = pod.spec.get("volumes") or []
    found = [served_as(volume, {}, csi_node) for volume in volumes]
    claims = storage.told.get("persistentvolumeclaims", {})
    for name, _ in claim_names(pod):
        claim = claims.get(f"{pod.namespace}/{name}")
        found.append(None if claim is None else _handle(claim, storage, csi_node))
    return {handle for handle in found if handle is not None}


def _attachments(node_name: str, storage: Storage) -> set[tuple[str, str]]:
    found = set()
    for attachment in storage.told.get("volumeattachments", {}).values():
        spec = attachment["spec"]
        name = (spec.get("source") or {}).get("persistentVolumeName")
        volume = storage.told.get("persistentvolumes", {}).get(name or "")
        is_here = spec.get("nodeName") == node_name and spec.get("attacher")
        if is_here and volume is not None and volume["spec"].get("csi"):
            found.add((spec["attacher"], volume["spec"]["csi"]["volumeHandle"]))
    return found


def _handle(claim: Json, storage: Storage, csi_node: Json | None) -> Handle | None:
    """The driver and the name of a claim's volume there; of one that is not made yet its own."""
    volume = storage.told.get("persistentvolumes", {}).get(claim["spec"].get("volumeName") or "")
    if volume is not None:
        csi = volume["spec"].get("csi")
        if csi:
            return csi["driver"], csi["volumeHandle"]
        return served_as(volume["spec"], volume["metadata"].get("labels") or {}, csi_node)
    name = class_of(claim)
    found = storage.told.get("storageclasses", {}).get(name)
    if not name or found is None:
        return None
    driver, meta = driver_of(found.get("provisioner") or "", csi_node), claim["metadata"]
    return (driver, f"{meta['namespace']}/{meta['name']}") if driver else None


# VolumeBinding --------------------------------------------------------------------------------------


def binding(
    pod: VolumePod, node_name: str, labels: Mapping[str, str], storage: Storage
) -> Verdict | None:
    """What VolumeBinding has against a pod on a node."""
    if not any(True for _ in claim_names(pod)):
        return None
    for name, is_own in claim_names(pod):
        claim = storage.told.get("persistentvolumeclaims", {}).get(f"{pod.namespace}/{name}")
        problem = _unusable(pod, name, claim, is_own=is_own)
        if problem:
            return Verdict(BINDING, problem, is_final=True)
    bound, waiting = [], []
    for name, _ in claim_names(pod):
        claim = storage.latest["persistentvolumeclaims"][f"{pod.namespace}/{name}"]
        annotations = claim["metadata"].get("annotations") or {}
        has_volume = bool(claim["spec"].get("volumeName"))
        if has_volume and BIND_COMPLETED in annotations:
            bound.append(claim)
        elif not has_volume and _waits_for_pod(claim, storage):
            waiting.append(claim)
        else:
            reason = "pod has unbound immediate PersistentVolumeClaims"
            return Verdict(BINDING, reason, is_final=True)
    return _bound_elsewhere(bound, node_name, labels, storage) or _not_to_be_had(
        waiting, node_name, labels, storage
    )


def _unusable(pod: VolumePod, name: str, claim: Json | None, *, is_own: bool) -> str:
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    if (claim.get("status") or {}).get("phase") == "Lost":
        return f'persistentvolumeclaim "{name}" is lost'
    if claim["metadata"].get("deletionTimestamp"):
        return f'persistentvolumeclaim "{name}" is being deleted'
    if is_own and not _owns(pod, claim):
        return f'persistentvolumeclaim "{name}" is not the pod\'s'
    return ""


def _waits_for_pod(claim: Json, storage: Storage) -> bool:
    """Whether its volume is chosen with the node."""
    name = class_of(claim)
    if not name:
        return False
    found = storage.told.get("storageclasses", {}).get(name)
    if found is None:
        raise CannotTell("a storage class that is not there")
    return found.get("volumeBindingMode") == "WaitForFirstConsumer"


def reaches(volume: Json, labels: Mapping[str, str]) -> bool:
    """Whether a volume can be had on a node with these labels."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    return required is None or terms_mean(required.get("nodeSelectorTerms") or [], "", labels)


def _bound_elsewhere(
    claims: Sequence[Json], node_name: str, labels: Mapping[str, str], storage: Storage
) -> Verdict | None:
    csi_node = storage.told.get("csinodes", {}).get(node_name)
    for claim in claims:
        volume = storage.latest.get("persistentvolumes", {}).get(claim["spec"]["volumeName"])
        if volume is None:
            return Verdict(BINDING, "node(s) unavailable due to a volume not found", is_final=True)
        terms = within_reach_of(volume, csi_node)
        if terms is not None and not terms_mean(terms, "", labels):
            return Verdict(BINDING, "node(s) had volume node affinity conflict", is_final=True)
    return None


def _size(found: Json | None, key: str) -> Decimal:
    return quantity(str((found or {}).get(key) or "0"))


def _not_to_be_had(
    claims: Sequence[Json], node_name: str, labels: Mapping[str, str], storage: Storage
) -> Verdict | None:
    """Claims whose volume is chosen with the node: one that is there, or one to be made."""
    to_make: list[Json] = []
    to_find: list[Json] = []
    for claim in claims:
        selected = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        if selected is not None and selected != node_name:
            return Verdict(BINDING, "node(s) had no volume to bind", is_final=True)
        (to_find if selected is None else to_make).append(claim)
    to_find.sort(
        key=lambda claim: _size(claim["spec"].get("resources", {}).get("requests"), "storage")
    )
    chosen: set[str] = set()
    for claim in to_find:
        volume = _found_volume(claim, labels, chosen, storage)
        if volume is None:
            to_make.append(claim)
        else:
            chosen.add(volume["metadata"]["name"])
    for claim in to_make:
        found = storage.told.get("storageclasses", {}).get(class_of(claim))
        if found is None:
            raise CannotTell("a storage class that is not there")
        if (found.get("provisioner") or NO_PROVISIONER) == NO_PROVISIONER:
            return Verdict(BINDING, "node(s) had no volume to bind", is_final=True)
        terms = found.get("allowedTopologies") or []
        if terms and not any(_topology_holds(term, labels) for term in terms):
            return Verdict(BINDING, "node(s) had no volume to bind", is_final=True)
        if not _has_capacity(claim, found, labels, storage):
            return Verdict(BINDING, "node(s) did not have enough free storage", is_final=True)
    return None


def _topology_holds(term: Json, labels: Mapping[str, str]) -> bool:
    lines = term.get("matchLabelExpressions") or []
    return bool(lines) and all(labels.get(each["key"]) in each["values"] for each in lines)


def _is_given_to(volume: Json, claim: Json) -> bool:
    ref, meta = volume["spec"].get("claimRef"), claim["metadata"]
    if not ref or (ref.get("name"), ref.get("namespace")) != (meta["name"], meta["namespace"]):
        return False
    return not ref.get("uid") or ref["uid"] == meta["uid"]


def _found_volume(
    claim: Json, labels: Mapping[str, str], chosen: set[str], storage: Storage
) -> Json | None:
    """The volume that was meant for the claim, or the smallest that will do. Of two that were meant for
    it kube-scheduler takes whichever comes first, and they come in no order (FindMatchingVolume in
    component-helpers, AssumeCache.List; v1.36.2)."""
    spec, best, given = claim["spec"], None, []
    wanted = _size((spec.get("resources") or {}).get("requests"), "storage")
    for volume in storage.latest.get("persistentvolumes", {}).values():
        has = volume["spec"]
        is_given = _is_given_to(volume, claim)
        if volume["metadata"]["name"] in chosen or class_of(volume) != class_of(claim):
            continue
        if (has.get("claimRef") and not is_given) or volume["metadata"].get("deletionTimestamp"):
            continue
        size = _size(has.get("capacity"), "storage")
        modes = [each.get("volumeMode") or "Filesystem" for each in (spec, has)]
        kinds = [each.get("volumeAttributesClassName") or "" for each in (spec, has)]
        if size < wanted or modes[0] != modes[1] or kinds[0] != kinds[1]:
            continue
        if is_given:
            given.append(volume)
            continue
        selector = spec.get("selector")
        if (volume.get("status") or {}).get("phase") != "Available" or not reaches(volume, labels):
            continue
        if selector is not None and not selects(selector, volume["metadata"].get("labels") or {}):
            continue
        if not set(spec.get("accessModes") or []) <= set(has.get("accessModes") or []):
            continue
        if best is None or size < _size(best["spec"].get("capacity"), "storage"):
            best = volume
    if not given:
        return best
    reaching = [volume for volume in given if reaches(volume, labels)]
    if 0 < len(reaching) < len(given):
        raise CannotTell("two volumes that were meant for one claim")
    return reaching[0] if reaching else None


def _has_capacity(
    claim: Json, storage_class: Json, labels: Mapping[str, str], storage: Storage
) -> bool:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    driver = storage.told.get("csidrivers", {}).get(storage_class["provisioner"])
    if "storage" not in requests or driver is None or not driver["spec"].get("storageCapacity"):
        return True
    wanted = rounded_up(_size(requests, "storage"))
    for capacity in storage.told.get("csistoragecapacities", {}).values():
        limit = capacity.get("maximumVolumeSize") or capacity.get("capacity")
        if capacity.get("storageClassName") != storage_class["metadata"]["name"] or limit is None:
            continue
        is_enough = rounded_up(quantity(str(limit))) >= wanted
        if is_enough and selects(capacity.get("nodeTopology"), labels):
            return True
    return False


# VolumeZone -----------------------------------------------------------------------------------------


def zone(pod: VolumePod, labels: Mapping[str, str], storage: Storage) -> Verdict | None:
    """What VolumeZone has against a pod on a node."""
    told = storage.told
    meant: list[tuple[str, set[str]]] = []
    for volume in pod.spec.get("volumes") or []:
        if not volume.get("persistentVolumeClaim"):
            continue
        name = volume["persistentVolumeClaim"]["claimName"]
        claim = told.get("persistentvolumeclaims", {}).get(f"{pod.namespace}/{name}")
        if claim is None:
            return Verdict(ZONE, f'persistentvolumeclaim "{name}" not found', is_final=True)
        volume_name = claim["spec"].get("volumeName")
        if not volume_name:
            storage_class = told.get("storageclasses", {}).get(class_of(claim))
            if (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer":
                continue
            return Verdict(ZONE, "PersistentVolume had no name", is_final=True)
        found = told.get("persistentvolumes", {}).get(volume_name)
        if found is None:
            return Verdict(ZONE, f'persistentvolume "{volume_name}" not found', is_final=True)
        for key, value in (found["metadata"].get("labels") or {}).items():
            parts = {part.strip() for part in value.split("__")}
            if key in ZONE_LABELS and "" not in parts:
                meant.append((key, parts))
    if not any(key in labels for key in ZONE_LABELS):
        return None
    for key, values in meant:
        newer = key.replace("failure-domain.beta", "topology")
        if labels.get(key, labels.get(newer)) not in values:
            return Verdict(ZONE, "node(s) had no available volume zone", is_final=True)
    return None
