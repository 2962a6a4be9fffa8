"""Resource claims said slowly: devices are tried out one after the other until all requests have some.

Written from upstream's rules over plain dictionaries as the API has them, as `slow_topology.py` is. Of
selectors it knows comparisons joined by &&; of what else there is (constraints, alternatives,
partitions, shares, device taints, extended resources that devices provide) it says nothing:
`CannotTell`.

Rules: pkg/scheduler/framework/plugins/dynamicresources and dynamic-resource-allocation/structured,
v1.36.2.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from bench.sim.slow_pods import Verdict, quantity, requests_of, terms_mean
from bench.sim.slow_storage import CannotTell

Json = Mapping[str, Any]
CLAIMS = "DynamicResources"
RESERVED_MAX = 256
DeviceId = tuple[str, str, str]
"""(driver, pool, device)"""


class Node(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...


class Cluster(Protocol):
    @property
    def told(self) -> Mapping[str, Mapping[str, Json]]: ...
    @property
    def latest(self) -> Mapping[str, Mapping[str, Json]]: ...


class Device(NamedTuple):
    device_id: DeviceId
    attributes: Json
    capacity: Json


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
        if allocation is None:
            wanted.append(claim)
            continue
        if any(each.get("bindingConditions") for each in _results(allocation)):
            raise CannotTell("devices with binding conditions")
        if not _is_within(allocation.get("nodeSelector"), node):
            return Verdict(CLAIMS, "resourceclaim not available on the node", is_final=True)
        users = [each.get("uid") for each in told.get("reservedFor") or []]
        if uid not in users and len(users) >= RESERVED_MAX:
            return Verdict(CLAIMS, "resourceclaim in use", is_final=True)
    if wanted and not _can_allocate(wanted, node, cluster):
        return Verdict(CLAIMS, "cannot allocate all claims", is_final=True)
    return None


def refuse_extended(spec: Json, status: Json, cluster: Cluster) -> None:
    """`CannotTell` of a pod that asks for extended resources which devices provide."""
    provided = set()
    for name, found in cluster.told.get("deviceclasses", {}).items():
        provided |= {
            found["spec"].get("extendedResourceName"),
            f"deviceclass.resource.kubernetes.io/{name}",
        }
    if provided & set(requests_of(spec, status)):
        raise CannotTell("extended resources that devices provide")


def _claim(reference: Json, namespace: str, status: Json, cluster: Cluster) -> Json | None:
    name = reference.get("resourceClaimName")
    for each in status.get("resourceClaimStatuses") or []:
        if not name and each["name"] == reference["name"]:
            name = each.get("resourceClaimName")
    return cluster.latest.get("resourceclaims", {}).get(f"{namespace}/{name}")


def _results(allocation: Json) -> Sequence[Json]:
    return (allocation.get("devices") or {}).get("results") or []


def _is_within(selector: Json | None, node: Node) -> bool:
    if selector is None:
        return True
    return terms_mean(selector.get("nodeSelectorTerms") or [], node.name, node.labels)


def _can_allocate(claims: Sequence[Json], node: Node, cluster: Cluster) -> bool:
    devices = _devices_of(node, cluster)
    taken = {
        (each["driver"], each["pool"], each["device"])
        for claim in cluster.latest.get("resourceclaims", {}).values()
        for each in _results((claim.get("status") or {}).get("allocation") or {})
        if not each.get("adminAccess")
    }
    needs: list[list[DeviceId]] = []
    for claim in claims:
        asked = claim["spec"].get("devices") or {}
        if asked.get("constraints"):
            raise CannotTell("constraints")
        for request in asked.get("requests") or []:
            meant = _meant(request, devices, cluster)
            exactly = request.get("exactly") or request
            mode = exactly.get("allocationMode") or "ExactCount"
            if mode == "ExactCount":
                needs += [meant] * int(exactly.get("count") or 1)
            elif not meant:
                return False
            else:  # All of them.
                needs += [[device] for device in meant]
    return _assign(needs, taken)


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


def _devices_of(node: Node, cluster: Cluster) -> list[Device]:
    """The devices that belong to a node, of pools that are all there."""
    pools: dict[tuple[str, str], list[Json]] = {}
    for each in cluster.told.get("resourceslices", {}).values():
        spec = each["spec"]
        if spec.get("sharedCounters") or spec.get("perDeviceNodeSelection"):
            raise CannotTell("partitions and devices with nodes of their own")
        pools.setdefault((spec["driver"], spec["pool"]["name"]), []).append(spec)
    found = []
    for (driver, pool), slices in pools.items():
        newest = max(spec["pool"].get("generation") or 0 for spec in slices)
        current = [spec for spec in slices if (spec["pool"].get("generation") or 0) == newest]
        for spec in current:
            is_here = spec.get("allNodes") or spec.get("nodeName") == node.name
            if spec.get("nodeSelector"):
                is_here = _is_within(spec["nodeSelector"], node)
            if not is_here:
                continue
            if len(current) != spec["pool"].get("resourceSliceCount"):
                raise CannotTell("a pool of which not all is there")
            for each in spec.get("devices") or []:
                if any(each.get(k) for k in ("taints", "consumesCounters", "bindingConditions",
                                             "allowMultipleAllocations")):  # fmt: skip
                    raise CannotTell("devices with more to them")
                device_id = (driver, pool, each["name"])
                found.append(
                    Device(device_id, each.get("attributes") or {}, each.get("capacity") or {})
                )
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
