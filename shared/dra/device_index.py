"""DeviceIndex: slices by node, what is allocated, and which nodes offer the same, kept up from deltas.

Derived from a view and belonging to it (`device_index(cluster)` makes it when it is first needed, and
catches up at each question). Most nodes of a cluster are alike: they have the same devices, as many
of them taken. Such nodes get the same signature, and one search of devices serves all of them; what
differs between them is names, which decide nothing but texts.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import compress
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from shared.columns.journal import RowLog
from shared.columns.schema import Bools, Int64s, Rows
from shared.columns.table import NodeTable
from shared.dra.allocated import AllocatedState, results_of
from shared.dra.extended import can_be_backed, classes_by_resource, pod_uid_of
from shared.dra.pools import Pool, belongs, gather, in_order, out_of_reach
from shared.dra.requests import class_selectors
from shared.dra.resource_slices import (
    DeviceFacts,
    DeviceId,
    NodeMatch,
    PoolId,
    SliceFacts,
    SliceView,
)
from shared.dra.search_work import AllocationError, Work
from shared.feature_gates import DRA_CONSUMABLE_CAPACITY, DRA_EXTENDED_RESOURCE
from shared.framework.cluster_view import ClusterView, Follower
from shared.framework.pod_info import PodInfo
from shared.grouped import Grouped, tally
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.api.resource_v1_devices import DeviceClass
from shared.selectors.node_selector import SelectedColumns, match_any

CLAIMS: Final = "resourceclaims"
SLICES: Final = "resourceslices"
CLASSES: Final = "deviceclasses"
NO_SLICES_ID: Final = 0
"""Signature of a node without slices of its own."""
POOLS_KEPT_MAX: Final = 1 << 18
"""Of all nodes together, before they are put together anew: 64 pools a node at 4,096 nodes that have
slices of their own. Where nodes reach shared ones alone, those that reach the same are one."""

SIGNATURES_MAX: Final = 1 << 16
"""Or four for each node with slices of its own: so many states that nodes were in have a number, some
1 kB each, before those that they are in now are numbered anew. Drivers may say something new at any
time."""


class Groups(NamedTuple):
    """Rows sorted into groups that offer the same. Arrays have shape (n,) unless said otherwise."""

    group: Int64s
    """Index into `keys` of each row."""
    keys: list[bytes]
    """Equal as long as the objects are the same."""
    first: Int64s
    """Shape (groups,): position of a row of each group."""


class _Offer(NamedTuple):
    """What a node has of its own, whoever has it at present."""

    number: int
    """Equal for nodes that differ in names alone."""
    devices: list[tuple[PoolId, tuple[DeviceId, ...]]]
    """Of each slice."""


_FIRST: Final[Int64s] = np.zeros(1, np.int64)


class DeviceIndex:
    """See the module. Read after `catch_up`."""

    def __init__(self, cluster: ClusterView) -> None:
        self._objects = cluster.objects
        self._follower = Follower(cluster)
        self._nodes = cluster.nodes
        self._gates = cluster.gates
        self.log = RowLog()
        """Nodes of which devices were given away or came back. Of slices that belong to no single node
        nothing is told."""
        self._facts: WeakValueDictionary[bytes, SliceFacts] = WeakValueDictionary()
        """Of the slices that are there."""
        self._start_over()

    def _start_over(self) -> None:
        self.offers = object()
        """Another one when something changed of which the keys of groups do not tell."""
        self.state = AllocatedState(has_shares=self._gates[DRA_CONSUMABLE_CAPACITY])
        self.by_resource: dict[str, DeviceClass] = {}
        """Extended resource -> the class that stands for it; none without DRAExtendedResource."""
        self.special_claims = Grouped[str, str, None]()
        """Pod uid -> keys of the claims that a scheduler made for its extended resources."""
        self._counted: dict[str, ResourceClaim] = {}
        self._slices: dict[str, SliceView] = {}
        self._by_node = Grouped[str, str, SliceView]()
        self._shared: dict[str, SliceView] = {}
        self._far_counters: dict[PoolId, int] = {}
        """Pools with slices of counters that name a node, and how many. Every node sees those."""
        self._far_pools: list[Pool] | None = None
        """Of these pools, as who has no devices of them sees them, those that keep a pod out."""
        self._by_pool = Grouped[PoolId, str, SliceView]()
        self._matches: list[NodeMatch] | None = None
        self._pools: dict[tuple[str, tuple[bool, ...] | None], list[Pool]] = {}
        """As `_gathered` found them, as long as no slice changes."""
        self._pool_count = 0
        self._shared_pools: list[PoolId] = []
        """Of these slices, sorted, and their names, as of `_matches`."""
        self._shared_names: set[str] = set()
        self._offers: dict[str, _Offer] = {}
        """By node, as long as no slice changes."""
        self._offer_ids: dict[object, int] = {}
        self._signature_ids: dict[object, int] = {None: NO_SLICES_ID}
        self._dirty: set[str] = set()
        """Nodes with slices of their own whose signature is to be made."""
        position = self.log.position + 1  # Nobody has seen everything.
        self.log = RowLog()
        self.log.position = position
        self._signatures: Int64s = np.zeros(0, np.int64)
        """By id of the node's name."""
        for key in self._objects.all(SLICES):
            self._see_slice(key)
        for key in (*self._objects.all(CLAIMS), *self._objects.assumed(CLAIMS)):
            self._see_claim(key)
        self._see_classes()
        self._follower.note()

    # Catching up -------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Takes over what changed since the last time."""
        if self._follower.saw_objects:
            return
        changes = self._follower.objects()
        if changes is None:
            self._start_over()
            return
        self._follower.note()
        for kind, key in changes:
            if kind == CLAIMS:
                self._see_claim(key)
                if self.is_of_nodes:
                    continue
            elif kind == SLICES:
                self._see_slice(key)
            elif kind == CLASSES:
                self._see_classes()
            else:
                continue
            self.offers = object()
        if len(self._signature_ids) > max(SIGNATURES_MAX, 4 * len(self._by_node)):
            self._start_over()  # States of nodes that no node is in any more have no number then.

    def _see_classes(self) -> None:
        if self._gates[DRA_EXTENDED_RESOURCE]:
            self.by_resource = classes_by_resource(self._objects.all(CLASSES).values())

    def _see_claim(self, key: str) -> None:
        claim: ResourceClaim | None = self._objects.latest(CLAIMS, key)
        counted = self._counted.pop(key, None)
        if counted is not None and claim is not None and _is_counted_as(claim, counted):
            self._counted[key] = claim
            return
        touched: list[DeviceId] = []
        if counted is not None:
            touched += self.state.count(counted, -1)
            if pod_uid_of(counted):
                self.special_claims.drop(pod_uid_of(counted), key)
        # One that was made for extended resources and never allocated is left over as well.
        if claim is not None and (claim.status.allocation is not None or pod_uid_of(claim)):
            self._counted[key] = claim
            touched += self.state.count(claim, 1)
            if pod_uid_of(claim):
                self.special_claims.put(pod_uid_of(claim), key, None)
        for driver, pool, _ in touched:
            rows = map(self._nodes.row_of, self._mark_pool((driver, pool)))
            self.log.extend([row for row in rows if row >= 0])

    def _see_slice(self, key: str) -> None:
        self._pools.clear()
        self._pool_count = 0
        self._offers.clear()
        self._far_pools = None
        old = self._slices.pop(key, None)
        if old is not None:
            self._by_pool.drop(old.pool_id, key)
            if old.match.node_name:
                self._by_node.drop(old.match.node_name, key)
            else:
                del self._shared[key]
            self._note(old, -1)
        new = self._objects.get(SLICES, key)
        if new is not None:
            view = self._slices[key] = SliceView(new, self._facts, self._gates)
            self._by_pool.put(view.pool_id, key, view)
            if view.match.node_name:
                self._by_node.put(view.match.node_name, key, view)
            else:
                self._shared[key] = view
            self._note(view, 1)

    def _note(self, view: SliceView, change: int) -> None:
        self._mark_pool(view.pool_id)
        if not view.match.node_name:
            self._matches = None
            self._dirty.update(self._by_node)  # Where their own pools stand among shared ones.
            return
        self._dirty.add(view.match.node_name)
        if view.counter_sets:
            tally(self._far_counters, view.pool_id, change)

    def _mark_pool(self, pool_id: PoolId) -> set[str]:
        """Nodes with slices of the pool, which are returned, may offer something else than before."""
        views = self._by_pool.get(pool_id, {}).values()
        names = {view.match.node_name for view in views if view.match.node_name}
        self._dirty |= names
        return names

    @property
    def is_of_nodes(self) -> bool:
        """What is given to one node is no matter of another: every slice belongs to a single one, and
        none is seen by all."""
        return not self._shared and not self._far_counters

    # A single node -------------------------------------------------------------------------------

    def pools(self, row: int) -> list[Pool]:
        """The pools that a node can reach, and those of other nodes that are in its way. Read only."""
        reached = None
        if self._shared:
            reached = tuple(reaches(match, self._nodes, row) for match in self._distinct_matches())
        pools = self._gathered(self._nodes.name_of(row), reached)
        if self._far_pools is None:
            self._far_pools = out_of_reach(self._far_counters, self._siblings)
        if not self._far_pools:
            return pools
        own = {pool.pool_id for pool in pools}
        # Its slices of a pool may be out of date, and the pool left out for it.
        own.update(view.pool_id for view in self._nearby(self._nodes.name_of(row), reached))
        return in_order([*pools, *(p for p in self._far_pools if p.pool_id not in own)])

    def _nearby(self, name: str, reached: tuple[bool, ...] | None) -> Iterator[SliceView]:
        """Slices that belong to a node which reaches these of the distinct matches."""
        yield from self._by_node.get(name, {}).values()
        if reached is not None:
            met = set(compress(self._distinct_matches(), reached))
            yield from (v for v in self._shared.values() if belongs(v, met.__contains__))

    def _gathered(self, name: str, reached: tuple[bool, ...] | None) -> list[Pool]:
        """The pools of a node that reaches these of the distinct matches; None: those in which it has
        slices of its own, as far as these go."""
        own = self._by_node.get(name, {})
        key = (name if own else "", reached)
        pools = self._pools.get(key)
        if pools is None:
            pools = self._gather(name, own.values(), reached)
            if self._pool_count > POOLS_KEPT_MAX:
                self._pools.clear()
                self._pool_count = 0
            self._pools[key] = pools
            self._pool_count += 1 + len(pools)
        return pools

    def _gather(
        self, name: str, own: Collection[SliceView], reached: tuple[bool, ...] | None
    ) -> list[Pool]:
        slices, met = [*own], {view.match for view in own}
        if reached is not None:
            if own and not any(map(self._is_for_many, own)):
                return in_order([*self._gathered(name, None), *self._gathered("", reached)])
            slices += self._shared.values()
            met.update(compress(self._distinct_matches(), reached))
        return gather(slices, self._siblings, met.__contains__)

    def _is_for_many(self, own: SliceView) -> bool:
        """Whether the pool of a slice of one node has slices that belong to no single one."""
        return any(not each.match.node_name for each in self._by_pool[own.pool_id].values())

    def facts_of(self, device: DeviceId) -> DeviceFacts | None:
        """What is said of a device; None: no slice is there that has it."""
        views = self._by_pool.get(device[:2], {}).values()
        found = (d.facts for view in views for d in view.devices if d.identity == device)
        return next(found, None)

    def class_counts(self, rows: Rows, device_class: DeviceClass) -> tuple[Int64s, Int64s]:
        """For each row how many devices of a class the node reaches, and how many of them are given
        to somebody. None where a selector cannot tell."""
        groups = self.groups(rows)
        work = Work()
        counts = [self._class_count(row, device_class, work) for row in rows[groups.first].tolist()]
        table = np.array(counts, np.int64).reshape(-1, 2)[groups.group]
        return table[:, 0], table[:, 1]

    def _class_count(self, row: int, device_class: DeviceClass, work: Work) -> tuple[int, int]:
        own = self._by_node.get(self._nodes.name_of(row), {})
        count = allocated = 0
        try:
            selectors = class_selectors(device_class)
            for view in (*own.values(), *self._shared.values()):
                if not view.is_per_device and not reaches(view.match, self._nodes, row):
                    continue
                for device in view.devices:
                    if view.is_per_device and not reaches(device.facts.match, self._nodes, row):
                        continue
                    if device.facts.is_selected(selectors, work):
                        count += 1
                        allocated += self.state.is_allocated(device.identity)
        except AllocationError:
            return 0, 0
        return count, allocated

    def _siblings(self, pool_id: PoolId) -> Collection[SliceView]:
        return self._by_pool.get(pool_id, {}).values()

    # Many nodes ----------------------------------------------------------------------------------

    def groups(self, rows: Rows) -> Groups:
        """Which of the rows offer the same."""
        self._make_signatures()
        own = self._signatures[self._nodes.name_id[rows]]
        matched = self._matched(rows)
        if len(rows) == 1:
            key = own.tobytes() if matched is None else own.tobytes() + matched.tobytes()
            return Groups(_FIRST, [key], _FIRST)
        if matched is None:
            ids, first, group = _distinct(own, len(self._signature_ids))
            return Groups(group, [i.to_bytes(8, "little") for i in ids.tolist()], first)
        table = np.column_stack((own.view(np.uint8).reshape(len(rows), 8), matched))
        table = np.ascontiguousarray(table)
        whole = table.view(np.dtype((np.void, table.shape[1]))).ravel()
        ids, first, group = np.unique(whole, return_index=True, return_inverse=True)
        return Groups(group, [each.tobytes() for each in ids], first)

    def _matched(self, rows: Rows) -> NDArray[np.uint8] | None:
        """Which slices that belong to no single node each row reaches, as bits."""
        matches = self._distinct_matches()
        if not matches:
            return None
        return np.packbits(np.array([_reached(m, self._nodes, rows) for m in matches]), axis=0).T

    def _distinct_matches(self) -> list[NodeMatch]:
        """Of slices that belong to no single node, and of their devices."""
        if self._matches is None:
            found: dict[NodeMatch, None] = {}
            for view in self._shared.values():
                found[view.match] = None
                if view.is_per_device:
                    found.update((device.facts.match, None) for device in view.devices)
            self._matches = [match for match in found if match.is_stated]
            self._shared_pools = sorted({view.pool_id for view in self._shared.values()})
            self._shared_names = {pool for _, pool in self._shared_pools}
        return self._matches

    def _make_signatures(self) -> None:
        count = len(self._nodes.names.values)
        if len(self._signatures) < count:
            more = np.zeros(count - len(self._signatures), np.int64)
            self._signatures = np.concatenate((self._signatures, more))
        if not self._dirty:
            return
        self._distinct_matches()
        # A new set: one that was once large is slow to look through, however few are in it.
        dirty, self._dirty = self._dirty, set()
        for name in dirty:
            name_id = self._nodes.names.find(name)
            if name_id < 0:
                if name in self._by_node:
                    self._dirty.add(name)  # Its slices came before the node.
                continue
            signature = self._signature(name)
            known = self._signature_ids.setdefault(signature, len(self._signature_ids))
            self._signatures[name_id] = known

    def _signature(self, name: str) -> object:
        own = self._by_node.get(name)
        if not own:
            return None
        offer = self._offers.get(name)
        if offer is None:
            offer = self._offers[name] = self._made_offer(name, own)
        taken = [self.state.fingerprint(pool, devices) for pool, devices in offer.devices]
        return offer.number, tuple(taken)

    def _made_offer(self, name: str, own: dict[str, SliceView]) -> _Offer:
        if any(self._is_for_many(view) or view.problem for view in own.values()):
            # Its own slices are part of a pool for many: it is like no other.
            said: object = name, tuple(view.content for view in own.values())
            views = [*own.values()]
        else:
            pools = self._gathered(name, None)
            names = [pool.pool_id[1] for pool in pools]
            left_out = {view.pool_id for view in own.values()}.difference(p.pool_id for p in pools)
            said = (
                tuple(sorted(left_out)),
                tuple(
                    (
                        bisect_left(self._shared_pools, pool.pool_id),
                        names.index(pool.pool_id[1]),
                        pool.pool_id[1] in self._shared_names,
                        pool.pool_id[0],
                        pool.is_incomplete,
                        pool.is_invalid,
                        tuple(view.content for view in pool.slices),
                        tuple(view.content for view in pool.other_slices),
                        tuple(sorted(pool.counters.items())),
                    )
                    for pool in pools
                ),
            )
            views = [view for pool in pools for view in (*pool.slices, *pool.other_slices)]
        number = self._offer_ids.setdefault(said, len(self._offer_ids))
        devices = [(view.pool_id, tuple(d.identity for d in view.devices)) for view in views]
        return _Offer(number, devices)


def device_index(cluster: ClusterView) -> DeviceIndex:
    """The index of a view, up to date."""
    return cluster.derived(DeviceIndex)


def takes_devices(pod: PodInfo, cluster: ClusterView) -> bool:
    """Whether a placement may take devices for extended resources of the pod, so that of two pods of
    its class the second finds them otherwise than the first did."""
    names = pod.requests.scalars
    if not may_be_devices(names, cluster):
        return False
    return not device_index(cluster).by_resource.keys().isdisjoint(names)


def may_be_devices(names: Iterable[str], cluster: ClusterView) -> bool:
    """Whether devices may provide one of these resources."""
    return bool(cluster.objects.all(CLASSES)) and any(map(can_be_backed, names))


def count_devices(
    names: Sequence[str],
    cluster: ClusterView,
    rows: Rows,
    used: list[Int64s],
    capacities: list[Int64s],
) -> None:
    """Puts devices in place of extended resources that the node does not have otherwise, into `used` and
    `capacities`, which have a column for each of `names`: the devices of the class that stands for it
    (calculateDRAExtendedResourceAllocatableRequest in
    pkg/scheduler/framework/plugins/noderesources/resource_allocation.go, v1.36.2)."""
    if not may_be_devices(names, cluster):
        return
    index = device_index(cluster)
    for i, name in enumerate(names):
        device_class = index.by_resource.get(name)
        if device_class is None:
            continue
        count, allocated = index.class_counts(rows, device_class)
        at = (capacities[i] == 0) & (count > 0)
        capacities[i] = np.where(at, count, capacities[i])
        used[i] = np.where(at, allocated, used[i])


def _is_counted_as(claim: ResourceClaim, other: ResourceClaim) -> bool:
    """What was assumed of a claim is what the API server says of it later."""
    has_same = list(results_of(claim)) == list(results_of(other))
    return has_same and pod_uid_of(claim) == pod_uid_of(other)


def reaches(match: NodeMatch, nodes: NodeTable, row: int) -> bool:
    """Whether a node is one of those that a slice or device is for (NodeMatches)."""
    return bool(_reached(match, nodes, np.array([row]))[0])


def _reached(match: NodeMatch, nodes: NodeTable, rows: Rows) -> Bools:
    """The same for many rows."""
    if match.node_name:
        found: Bools = nodes.name_id[rows] == nodes.names.find(match.node_name)
        return found
    if match.all_nodes or match.terms is None:
        return np.full(len(rows), match.all_nodes, np.bool_)
    return match_any(match.terms, SelectedColumns(nodes, rows))


def _distinct(numbers: Int64s, count: int) -> tuple[Int64s, Int64s, Int64s]:
    """`np.unique` with positions of the first and inverse, of numbers below `count`: without sorting."""
    ids = np.bincount(numbers, minlength=count).nonzero()[0]
    of_number = np.zeros(count, np.int64)
    of_number[ids] = np.arange(len(ids))
    group = of_number[numbers]
    first = np.zeros(len(ids), np.int64)
    first[group[::-1]] = np.arange(len(numbers) - 1, -1, -1)  # The last to be written is the first.
    return ids, first, group
