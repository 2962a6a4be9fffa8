"""Pools: the slices of one driver that a node can reach, complete or not.

A driver publishes a pool as several slices of one generation. While it replaces them some are
missing or old; old ones are ignored, and from an incomplete pool nothing is allocated. Which slices
belong to a node depends on the node's name and labels; the caller answers that (`reaches`).

Rules: structured/internal/incubating/pools_incubating.go of
staging/src/k8s.io/dynamic-resource-allocation, v1.36.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from shared.dra.resource_slices import CounterId, Counters, NodeMatch, PoolId, SliceView

Reaches = Callable[[NodeMatch], bool]
"""Whether the node in question is one of those that can reach something."""
Siblings = Callable[[PoolId], Collection[SliceView]]
"""All slices of a pool, whomever they belong to."""


class Pool(NamedTuple):
    """What a node sees of a pool."""

    pool_id: PoolId
    is_incomplete: bool = False
    """Being replaced: nothing may be taken from it, and "all devices" is an error."""
    is_invalid: bool = False
    """Names in it are used twice or mean nothing: nothing can be taken from it."""
    slices: tuple[SliceView, ...] = ()
    """With devices for the node."""
    other_slices: tuple[SliceView, ...] = ()
    """With devices for other nodes, which draw on the same counters."""
    counters: Mapping[CounterId, int] = {}


def gather(slices: Iterable[SliceView], siblings: Siblings, reaches: Reaches) -> list[Pool]:
    """The pools of a node, in the order in which they are tried; `slices` are those that may belong to
    the node."""
    by_pool: dict[PoolId, list[SliceView]] = {}
    for each in slices:
        if belongs(each, reaches):
            _add(by_pool.setdefault(each.pool_id, []), each)
    return in_order(_pools(by_pool, siblings))


def out_of_reach(pool_ids: Iterable[PoolId], siblings: Siblings) -> list[Pool]:
    """Pools as a node sees them that can reach nothing of them but their counters, which every node
    sees: those that are being replaced or are invalid. The others make no difference to it."""
    seen = _pools({pool_id: [] for pool_id in pool_ids}, siblings)
    return [pool for pool in seen if pool.is_incomplete or pool.is_invalid]


def in_order(pools: Iterable[Pool]) -> list[Pool]:
    """As they are tried: those without binding conditions first, then by name."""
    return sorted(
        pools, key=lambda p: (any(each.has_binding_conditions for each in p.slices), p.pool_id)
    )


def belongs(each: SliceView, reaches: Reaches) -> bool:
    """Whether a node sees a slice."""
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


def _pools(by_pool: dict[PoolId, list[SliceView]], siblings: Siblings) -> Iterator[Pool]:
    """All but those of which the node's slices are out of date."""
    for pool_id, found in by_pool.items():
        of_pool, names = siblings(pool_id), {each.name for each in found}
        for each in of_pool:
            # Counters that another node publishes; the caller need not have named them.
            if each.counter_sets and each.name not in names:
                _add(found, each)
        found.sort(key=lambda each: each.name)
        wanted = _told_count(found)
        if len(found) == wanted:
            yield _checked(pool_id, found, ())
            continue
        generation = found[0].generation
        if any(each.generation > generation for each in of_pool):
            continue
        current = [each for each in of_pool if each.generation == generation]
        names = {each.name for each in found}
        others = tuple(each for each in current if each.name not in names)
        is_whole = len(current) == wanted
        yield _checked(pool_id, found, others) if is_whole else Pool(pool_id, is_incomplete=True)


def _told_count(found: Sequence[SliceView]) -> int:
    """How many slices the pool has by those that are there. Of several numbers that of the node's own
    counts, which upstream reads before those of counters and of several nodes."""
    own = (each for each in found if each.match.node_name and not each.counter_sets)
    return next(own, found[0]).slice_count


def _checked(pool_id: PoolId, found: list[SliceView], others: tuple[SliceView, ...]) -> Pool:
    slices = tuple(each for each in found if not each.counter_sets)
    names = [name for view in found for name, _ in view.counter_sets]
    counters: Counters = {}
    for view in found:
        for _, amounts in view.counter_sets:
            counters |= amounts
    devices = [device.identity for view in slices for device in view.devices]
    are_known = all(
        counter in counters
        for view in (*found, *others)
        for device in view.devices
        for counter, _ in device.facts.counters
    )
    if len(set(names)) < len(names) or len(set(devices)) < len(devices) or not are_known:
        return Pool(pool_id, is_invalid=True)
    return Pool(pool_id, slices=slices, other_slices=others, counters=counters)
