"""Pools: the slices of one driver that a node can reach, complete or not.

A driver publishes a pool as several slices of one generation. While it replaces them some are
missing or old; old ones are ignored, and from an incomplete pool nothing is allocated. Which slices
belong to a node depends on the node's name and labels; the caller answers that (`reaches`).

Rules: structured/internal/incubating/pools_incubating.go of
staging/src/k8s.io/dynamic-resource-allocation, v1.36.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from shared.dra.resource_slices import Counters, NodeMatch, PoolId, SliceView

Reaches = Callable[[NodeMatch], bool]
"""Whether the node in question is one of those that can reach something."""


NO_COUNTERS: Final[Counters] = {}
"""Never written."""


class Pool(NamedTuple):
    """What a node sees of a pool."""

    pool_id: PoolId
    is_incomplete: bool = False
    """Being replaced: nothing may be taken from it, and "all devices" is an error."""
    invalid: str = ""
    """Why nothing can be taken from it; empty if it is in order."""
    slices: tuple[SliceView, ...] = ()
    """With devices for the node."""
    other_slices: tuple[SliceView, ...] = ()
    """With devices for other nodes, which draw on the same counters."""
    counters: Counters = NO_COUNTERS


def gather(
    slices: Iterable[SliceView], siblings: Callable[[PoolId], Sequence[SliceView]], reaches: Reaches
) -> list[Pool]:
    """The pools of a node, in the order in which they are tried.

    `slices` are those that may belong to the node, `siblings` all slices of a pool, whomever they
    belong to.
    """
    by_pool: dict[PoolId, list[SliceView]] = {}
    for each in slices:
        if _belongs(each, reaches):
            _add(by_pool.setdefault(each.pool_id, []), each)
    pools = []
    for pool_id, found in by_pool.items():
        # Counters that another node publishes; the caller need not have named them.
        names = {each.name for each in found}
        for each in siblings(pool_id):
            if each.counter_sets and each.name not in names:
                _add(found, each)
        pools.append(_pool(pool_id, found, siblings))
    return in_order(pool for pool in pools if pool is not None)


def out_of_reach(
    pool_ids: Iterable[PoolId], siblings: Callable[[PoolId], Sequence[SliceView]]
) -> list[Pool]:
    """Pools as a node sees them that can reach nothing of them but their counters, which every node
    sees: those that are being replaced or are invalid. The others make no difference to it."""
    found = []
    for pool_id in pool_ids:
        counters: list[SliceView] = []
        for each in siblings(pool_id):
            if each.counter_sets:
                _add(counters, each)
        pool = _pool(pool_id, counters, siblings)
        if pool is not None and (pool.is_incomplete or pool.invalid):
            found.append(pool)
    return found


def in_order(pools: Iterable[Pool]) -> list[Pool]:
    """As they are tried: those without binding conditions first, then by name."""
    return sorted(
        pools, key=lambda p: (any(each.has_binding_conditions for each in p.slices), p.pool_id)
    )


def _belongs(each: SliceView, reaches: Reaches) -> bool:
    if each.counter_sets:
        return True  # Needed for the pool, wherever the node is.
    if each.match.is_stated:
        return reaches(each.match)
    return each.is_per_device and any(reaches(device.facts.match) for device in each.devices)


def _add(found: list[SliceView], each: SliceView) -> None:
    if found and each.generation < found[0].generation:
        return
    if found and each.generation > found[0].generation:
        found.clear()
    found.append(each)


def _pool(
    pool_id: PoolId, found: list[SliceView], siblings: Callable[[PoolId], Sequence[SliceView]]
) -> Pool | None:
    """None for a pool of which the node's slices are out of date."""
    found.sort(key=lambda each: each.name)
    wanted = _told_count(found)
    if len(found) == wanted:
        return _checked(pool_id, found, ())
    generation = found[0].generation
    of_pool = siblings(pool_id)
    if any(each.generation > generation for each in of_pool):
        return None
    current = [each for each in of_pool if each.generation == generation]
    if len(current) != wanted:
        return Pool(pool_id, is_incomplete=True)
    names = {each.name for each in found}
    return _checked(pool_id, found, [each for each in current if each.name not in names])


def _told_count(found: Sequence[SliceView]) -> int:
    """How many slices the pool has by those that are there. Of several numbers that of the node's own
    counts, which upstream reads before those of counters and of several nodes."""
    own = (each for each in found if each.node_name and not each.counter_sets)
    return next(own, found[0]).slice_count


def _checked(pool_id: PoolId, found: list[SliceView], others: Iterable[SliceView]) -> Pool:
    slices = tuple(each for each in found if not each.counter_sets)
    others = tuple(others)
    counters: Counters = {}
    for each in found:
        for name, amounts in each.counter_sets:
            if name in counters:
                return Pool(pool_id, invalid=f"duplicate counter set name {name}")
            counters[name] = amounts
    problem = _duplicate_device(slices) or _unknown_counter(counters, (*found, *others))
    if problem:
        return Pool(pool_id, invalid=problem)
    return Pool(pool_id, slices=slices, other_slices=others, counters=counters)


def _duplicate_device(slices: Iterable[SliceView]) -> str:
    seen: set[str] = set()
    for each in slices:
        for device in each.devices:
            if device.name in seen:
                return f"duplicate device name {device.name}"
            seen.add(device.name)
    return ""


def _unknown_counter(counters: Counters, slices: Iterable[SliceView]) -> str:
    for each in slices:
        for device in each.devices:
            for (counter_set, name), _ in device.facts.counters:
                if counter_set not in counters:
                    return f"counter set {counter_set} not found"
                if name not in counters[counter_set]:
                    return f"counter {name} not found in counter set {counter_set}"
    return ""
