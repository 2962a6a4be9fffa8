"""allocResourceClaims: devices for claims without pods, by the same allocator that the plugin asks.

One claim after the other, on the first node that has room of all in an order drawn anew for each claim;
what one gets is taken for the next (test/integration/scheduler_perf/dra.go, v1.36.2).
"""

import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bench.perf.object_template import JsonObject
from daemon.core.cache import Cache
from shared.dra.allocator import allocate, understand
from shared.dra.device_index import CLAIMS, CLASSES, SLICES, DeviceIndex, reaches
from shared.dra.requests import Solution, allocation_of
from shared.dra.search_work import AllocationError, NodeAllocationError, Work
from shared.feature_gates import DEFAULT_GATES
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.resources import KINDS_BY_PLURAL


def allocated_claims(
    listed: Mapping[str, Sequence[JsonObject]], namespace: str, rng: random.Random
) -> Iterator[JsonObject]:
    """The claims of a namespace (empty: all) that had no devices, each with an allocation in its status.

    `listed`: nodes, classes, slices and claims by plural. AllocationError where there is no room."""
    cache = Cache(DEFAULT_GATES)
    for kind in (CLASSES, SLICES, CLAIMS):
        for each in listed[kind]:
            key = "/".join(filter(None, (each["metadata"].get("namespace"), _name(each))))
            cache.objects.put(kind, key, _decoded(kind, each))
    for each in listed["nodes"]:
        cache.add_node(_decoded("nodes", each))
    nodes = sorted(_name(each) for each in listed["nodes"])
    index = DeviceIndex(cache.view)
    for claim in listed[CLAIMS]:
        status = claim.get("status") or {}
        if namespace in ("", claim["metadata"]["namespace"]) and "allocation" not in status:
            rng.shuffle(nodes)
            found = _allocated(cache, index, _key(claim), nodes, rng)
            cache.objects.put(CLAIMS, _key(claim), found)
            allocation = msgspec.to_builtins(found.status.allocation)
            yield {**claim, "status": {**status, "allocation": allocation}}


def _allocated(
    cache: Cache, index: DeviceIndex, key: str, nodes: Sequence[str], rng: random.Random
) -> ResourceClaim:
    view = cache.view
    claim: ResourceClaim = cache.objects.all(CLAIMS)[key]
    understood = understand([claim], cache.objects.all(CLASSES), cache.view.gates)
    index.catch_up()
    for name in nodes:
        row = view.nodes.row_of(name)
        pools = index.pools(row)
        try:
            solutions = allocate(
                understood,
                pools,
                index.state,
                lambda match, row=row: reaches(match, view.nodes, row),  # type: ignore[misc] # The loop's variable, kept.
                Work(),
            )
        except NodeAllocationError:
            continue
        if solutions is not None:
            return _with_allocation(solutions[0], name, rng)
    raise AllocationError(f"no node has devices for claim {claim.metadata.key}")


def _with_allocation(solution: Solution, node: str, rng: random.Random) -> ResourceClaim:
    def share_id(_: int) -> str:
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))

    claim = solution.claim
    allocation = allocation_of(solution, node, share_id)
    status = msgspec.structs.replace(claim.status, allocation=allocation)
    return msgspec.structs.replace(claim, status=status)


def _decoded(kind: str, body: JsonObject) -> Any:
    return msgspec.convert(body, KINDS_BY_PLURAL[kind].struct_type)


def _name(body: JsonObject) -> str:
    name: str = body["metadata"]["name"]
    return name


def _key(claim: JsonObject) -> str:
    return f"{claim['metadata']['namespace']}/{_name(claim)}"
