"""Resource claims said slowly: devices are tried out one after the other until all requests have some.

Written from upstream's rules over plain dictionaries as the API has them, as `slow_topology.py` is. Of
selectors it knows comparisons joined by &&, of constraints that an attribute is the same; of what else
there is (alternatives, shares, device taints) it says nothing: `CannotTell`.

Rules: pkg/scheduler/framework/plugins/dynamicresources and dynamic-resource-allocation/structured,
v1.36.2.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

from bench.sim.slow_pods import CannotTell, Verdict, is_extended, quantity, requests_of, terms_mean

Json = Mapping[str, Any]
CLAIMS = "DynamicResources"
RESERVED_MAX = 256
IMPLICIT = "deviceclass.resource.kubernetes.io/"
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
DeviceId = tuple[str, str, str]
"""(driver, pool, device)"""
CounterId = tuple[str, str, str, str]
"""(driver, pool, counter set, counter)"""


class Node(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def allocatable(self) -> Json: ...


class Cluster(Protocol):
    @property
    def told(self) -> Mapping[str, Mapping[str, Json]]: ...
    @property
    def latest(self) -> Mapping[str, Mapping[str, Json]]: ...


class Alike(NamedTuple):
    """A constraint: devices at these places have the same value of an attribute."""

    places: frozenset[int]
    values: Mapping[DeviceId, Json | None]


class Device(NamedTuple):
    device_id: DeviceId
    attributes: Json
    capacity: Json
    consumes: Mapping[CounterId, Decimal]
    """What it takes of what it shares with others of its pool."""


class Counters(NamedTuple):
    """What devices share."""

    left: Mapping[CounterId, Decimal]
    consumed_by: Mapping[DeviceId, Mapping[CounterId, Decimal]]

    def suffice(self, given: Iterable[DeviceId]) -> bool:
        """Whether so many devices can be had at once (checkAvailableCounters in
        structured/internal/incubating/allocator_incubating.go)."""
        total: Counter[CounterId] = Counter()
        for device in given:
            for counter, amount in self.consumed_by[device].items():
                total[counter] += amount  # type: ignore[assignment] # Counters add whatever adds.
        return all(amount <= self.left.get(counter, 0) for counter, amount in total.items())


def claims_verdict(
    uid: str, namespace: str, spec: Json, status: Json, node: Node, cluster: Cluster
) -> Verdict | None:
    """What DynamicResources has against a pod on a node."""
    wanted: list[Json] = []
    for reference in spec.get("resourceClaims") or []:
        claim = _claim(reference, namespace, status, cluster)
        if claim is None:
            return Verdict(CLAIMS, "a claim is not there", is_final=True)
        if claim["metadata"].get("deletionTimestamp"):
            return Verdict(CLAIMS, "a claim is being deleted", is_final=True)
        told = claim.get("status") or {}
        allocation = told.get("allocation")
        if _is_under_way(claim, cluster):
            return Verdict(CLAIMS, "in the process of being allocated", is_final=True)
        if allocation is None:
            wanted.append(claim)
            continue
        if any(each.get("bindingConditions") for each in _results(allocation)):
            raise CannotTell("devices with binding conditions")
        if not _is_within(allocation.get("nodeSelector"), node):
            return Verdict(CLAIMS, "resourceclaim not available on the node", is_final=True)
        if (
            not has_reserved(claim, uid, spec)
            and len(told.get("reservedFor") or []) >= RESERVED_MAX
        ):
            return Verdict(CLAIMS, "resourceclaim in use", is_final=True)
    extended = _extended(uid, spec, status, node, cluster)
    if extended is None:
        return Verdict(CLAIMS, "cannot fit resource", is_final=True)
    wanted += extended
    if wanted and not _can_allocate(wanted, node, cluster):
        return Verdict(CLAIMS, "cannot allocate all claims", is_final=True)
    return None


def has_reserved(claim: Json, uid: str, spec: Json) -> bool:
    """Whether a claim is reserved for the pod or its group."""
    name = (spec.get("schedulingGroup") or {}).get("podGroupName")
    group = "scheduling.k8s.io", "podgroups", name
    return any(
        each.get("uid") == uid
        or (each.get("apiGroup"), each.get("resource"), each.get("name")) == group
        for each in (claim.get("status") or {}).get("reservedFor") or []
    )


def unreserved(pod: Json, claims: Iterable[Json]) -> list[str]:
    """The claims, of these, that a pod has and that are not reserved for it or its group: no kubelet
    would start it."""
    meta, spec = pod["metadata"], pod["spec"]
    told = (pod.get("status") or {}).get("resourceClaimStatuses") or []
    names = {each.get("resourceClaimName") for each in [*told, *(spec.get("resourceClaims") or [])]}
    return [
        claim["metadata"]["name"]
        for claim in claims
        if claim["metadata"]["namespace"] == meta["namespace"]
        and claim["metadata"]["name"] in names
        and not has_reserved(claim, meta["uid"], spec)
    ]


def backing_class(resource: str, node: Node, cluster: Cluster) -> str:
    """The device class that provides an extended resource on a node; empty where none does, or where
    the node has the resource itself."""
    if quantity(str(node.allocatable.get(resource, "0"))) > 0:
        return ""
    return _class_of(resource, cluster)


def _class_of(resource: str, cluster: Cluster) -> str:
    classes = cluster.told.get("deviceclasses", {})
    named = [
        n for n, each in classes.items() if each["spec"].get("extendedResourceName") == resource
    ]
    if len(named) > 1:
        raise CannotTell("an extended resource of several classes")
    implicit = resource.removeprefix(IMPLICIT)
    return named[0] if named else implicit if implicit != resource and implicit in classes else ""


def _extended(
    uid: str, spec: Json, status: Json, node: Node, cluster: Cluster
) -> list[Json] | None:
    """The claim for the extended resources that a pod has to be given as devices on a node, if any.
    None: where some are devices, each of the others has to be the node's, whoever else sees to it, an
    extender say (`filterExtendedResources` in extendeddynamicresources.go)."""
    amounts = {name: count for name, count in requests_of(spec, status).items() if count}
    if not any(_class_of(name, cluster) for name in amounts):
        return []
    if len(spec["containers"]) > 1 or spec.get("initContainers"):
        raise CannotTell("extended resources of several containers")
    for claim in cluster.latest.get("resourceclaims", {}).values():
        meta = claim["metadata"]
        is_special = (meta.get("annotations") or {}).get(EXTENDED_CLAIM) == "true"
        if is_special and uid in [each["uid"] for each in meta.get("ownerReferences") or []]:
            raise CannotTell("what an earlier attempt has left")
    backed = {name: backing_class(name, node, cluster) for name in amounts}
    others = [name for name, found in backed.items() if not found and is_extended(name)]
    if any(name not in node.allocatable for name in others):
        return None
    requests = [
        {"exactly": {"deviceClassName": found, "count": int(amounts[name])}}
        for name, found in backed.items()
        if found
    ]
    return [{"spec": {"devices": {"requests": requests}}}] if requests else []


def shared_devices(claims: Iterable[Json]) -> list[DeviceId]:
    """Devices that two claims have."""
    held = Counter(device for claim in claims for device in _held(claim))
    return [device for device, count in held.items() if count > 1]


def _claim(reference: Json, namespace: str, status: Json, cluster: Cluster) -> Json | None:
    name = reference.get("resourceClaimName")
    for each in status.get("resourceClaimStatuses") or []:
        if not name and each["name"] == reference["name"]:
            name = each.get("resourceClaimName")
    return cluster.latest.get("resourceclaims", {}).get(f"{namespace}/{name}")


def _is_under_way(claim: Json, cluster: Cluster) -> bool:
    """Another pod is about to have its devices, of which the API server knows nothing yet."""
    meta = claim["metadata"]
    told = cluster.told.get("resourceclaims", {}).get(f"{meta['namespace']}/{meta['name']}")
    return (
        told is not None and told is not claim and not (told.get("status") or {}).get("allocation")
    )


def _results(allocation: Json) -> Sequence[Json]:
    return (allocation.get("devices") or {}).get("results") or []


def _is_within(selector: Json | None, node: Node) -> bool:
    if selector is None:
        return True
    return terms_mean(selector.get("nodeSelectorTerms") or [], node.name, node.labels)


def _can_allocate(claims: Sequence[Json], node: Node, cluster: Cluster) -> bool:
    devices = _devices_of(node, cluster)
    taken = {
        device
        for claim in cluster.latest.get("resourceclaims", {}).values()
        for device in _held(claim)
    }
    needs: list[list[DeviceId]] = []
    alike: list[Alike] = []
    for claim in claims:
        asked = claim["spec"].get("devices") or {}
        places: dict[str, list[int]] = {}
        for request in asked.get("requests") or []:
            meant = _meant(request, devices, cluster)
            exactly = request.get("exactly") or request
            mode = exactly.get("allocationMode") or "ExactCount"
            first = len(needs)
            if mode == "ExactCount":
                needs += [meant] * int(exactly.get("count") or 1)
            elif not meant:
                return False
            else:  # All of them.
                needs += [[device] for device in meant]
            places.setdefault(request.get("name", ""), []).extend(range(first, len(needs)))
        alike += [_alike(each, places, devices) for each in asked.get("constraints") or []]
    if alike or any(device.consumes for device in devices):
        return _assign_alike(needs, taken, alike, _counters(devices, taken, cluster), [])
    return _assign(needs, taken)


def _counters(devices: Sequence[Device], taken: set[DeviceId], cluster: Cluster) -> Counters:
    left: dict[CounterId, Decimal] = {}
    for spec, driver, pool in _current_slices(cluster):
        for each in spec.get("sharedCounters") or []:
            for name, counter in each["counters"].items():
                left[driver, pool, each["name"], name] = quantity(str(counter["value"]))
    for spec, driver, pool in _current_slices(cluster):
        for device in spec.get("devices") or []:
            if (driver, pool, device["name"]) in taken:
                for counter_id, amount in _consumed(driver, pool, device).items():
                    left[counter_id] = left.get(counter_id, Decimal(0)) - amount
    return Counters(left, {device.device_id: device.consumes for device in devices})


def _consumed(driver: str, pool: str, device: Json) -> dict[CounterId, Decimal]:
    return {
        (driver, pool, each["counterSet"], name): quantity(str(counter["value"]))
        for each in device.get("consumesCounters") or []
        for name, counter in each["counters"].items()
    }


def _held(claim: Json) -> list[DeviceId]:
    return [
        (each["driver"], each["pool"], each["device"])
        for each in _results((claim.get("status") or {}).get("allocation") or {})
        if not each.get("adminAccess")
    ]


def _alike(constraint: Json, places: Mapping[str, list[int]], devices: Sequence[Device]) -> Alike:
    """Which needs must have devices of one value, and what each device has."""
    attribute = constraint.get("matchAttribute")
    if attribute is None:
        raise CannotTell("constraints of other kinds")
    domain, _, name = attribute.rpartition("/")
    names = constraint.get("requests") or list(places)
    values = {
        each.device_id: _named(each.attributes, each.device_id[0], domain, name) for each in devices
    }
    return Alike(frozenset(place for each in names for place in places[each]), values)


def _assign_alike(
    needs: Sequence[Sequence[DeviceId]],
    taken: set[DeviceId],
    alike: Sequence[Alike],
    counters: Counters,
    given: list[DeviceId],
) -> bool:
    """As `_assign`, one after the other and back again."""
    place = len(given)
    if place == len(needs):
        return True
    for device in needs[place]:
        if device in taken or device in given:
            continue
        more = [*given, device]
        if (
            all(_is_alike(each, place, device, given) for each in alike)
            and counters.suffice(more)
            and _assign_alike(needs, taken, alike, counters, more)
        ):
            return True
    return False


def _is_alike(alike: Alike, place: int, device: DeviceId, given: Sequence[DeviceId]) -> bool:
    if place not in alike.places:
        return True
    value = alike.values[device]
    others = [alike.values[given[other]] for other in alike.places if other < place]
    return value is not None and all(value == other for other in others)


def _assign(needs: Sequence[Sequence[DeviceId]], taken: set[DeviceId]) -> bool:
    """Whether each need can have a device of its own."""
    holder: dict[DeviceId, int] = {}

    def place(need: int, seen: set[DeviceId]) -> bool:
        for device in needs[need]:
            if device in taken or device in seen:
                continue
            seen.add(device)
            if device not in holder or place(holder[device], seen):
                holder[device] = need
                return True
        return False

    return all(place(need, set()) for need in range(len(needs)))


def _current_slices(cluster: Cluster) -> list[tuple[Json, str, str]]:
    """(spec, driver, pool), of the newest generation of each pool."""
    found = [each["spec"] for each in cluster.told.get("resourceslices", {}).values()]
    newest: dict[tuple[str, str], int] = {}
    for spec in found:
        where = spec["driver"], spec["pool"]["name"]
        newest[where] = max(newest.get(where, 0), spec["pool"].get("generation") or 0)
    told = [(spec, spec["driver"], spec["pool"]["name"]) for spec in found]
    return [
        (spec, driver, pool)
        for spec, driver, pool in told
        if (spec["pool"].get("generation") or 0) == newest[driver, pool]
    ]


def _devices_of(node: Node, cluster: Cluster) -> list[Device]:
    """The devices that belong to a node, of pools that are all there."""
    current = _current_slices(cluster)
    counts = Counter((driver, pool) for _, driver, pool in current)
    found = []
    for spec, driver, pool in current:
        if spec.get("perDeviceNodeSelection"):
            raise CannotTell("devices with nodes of their own")
        is_here = spec.get("allNodes") or spec.get("nodeName") == node.name
        if spec.get("nodeSelector"):
            is_here = _is_within(spec["nodeSelector"], node)
        if not is_here:
            continue
        if counts[driver, pool] != spec["pool"].get("resourceSliceCount"):
            raise CannotTell("a pool of which not all is there")
        for each in spec.get("devices") or []:
            if any(
                each.get(k) for k in ("taints", "bindingConditions", "allowMultipleAllocations")
            ):
                raise CannotTell("devices with more to them")
            attributes, capacity = each.get("attributes") or {}, each.get("capacity") or {}
            device_id = driver, pool, each["name"]
            found.append(Device(device_id, attributes, capacity, _consumed(driver, pool, each)))
    return found


def _meant(request: Json, devices: Sequence[Device], cluster: Cluster) -> list[DeviceId]:
    """The devices that a request would take."""
    exactly = request.get("exactly") or request
    if request.get("firstAvailable") or exactly.get("adminAccess") or exactly.get("capacity"):
        raise CannotTell("requests with more to them")
    device_class = cluster.told.get("deviceclasses", {}).get(exactly.get("deviceClassName") or "")
    if device_class is None:
        return []
    selectors = [*(device_class["spec"].get("selectors") or []), *(exactly.get("selectors") or [])]
    lines = [line for each in selectors for line in each["cel"]["expression"].split("&&")]
    return [d.device_id for d in devices if all(_line_holds(line.strip(), d) for line in lines)]


_DRIVER = re.compile(r'device\.driver == "([^"]*)"')
_ATTRIBUTE = re.compile(
    r'device\.attributes\["([^"]+)"\]\.(\w+) == (?:"([^"]*)"|(true|false)|(\d+))'
)
_CAPACITY = re.compile(
    r'device\.capacity\["([^"]+)"\]\.(\w+)\.compareTo\(quantity\("([^"]+)"\)\) >= 0'
)


def _line_holds(line: str, device: Device) -> bool:
    driver, line = device.device_id[0], line.replace("'", '"')
    if found := _DRIVER.fullmatch(line):
        return driver == found[1]
    if found := _ATTRIBUTE.fullmatch(line):
        value = _named(device.attributes, driver, found[1], found[2])
        if value is None:
            raise CannotTell("an attribute that is not there")
        if found[3] is not None:
            return bool(value.get("string") == found[3])
        if found[4] is not None:
            return value.get("bool") is (found[4] == "true")
        return bool(value.get("int") == int(found[5]))
    if found := _CAPACITY.fullmatch(line):
        value = _named(device.capacity, driver, found[1], found[2])
        if value is None:
            raise CannotTell("a capacity that is not there")
        return quantity(str(value["value"])) >= quantity(found[3])
    raise CannotTell(line)


def _named(values: Json, driver: str, domain: str, name: str) -> Json | None:
    """Names without a domain are of the driver's."""
    found: Json | None = values.get(f"{domain}/{name}")
    return values.get(name) if found is None and domain == driver else found
