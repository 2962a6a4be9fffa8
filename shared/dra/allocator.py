"""The structured allocator: which devices of a node the claims of a pod get, if they get them.

One claim after the other, one request after the other, one device after the other: every device is
tried in order, and where something later finds no place, the search comes back and tries the next.
The first solution counts. The order (pools by name, slices by name, devices as listed) decides
which device a pod gets, so it is upstream's, as is everything that the search forgets on its way
back (`_Search.allocate`): a decision that differs is a decision that is wrong.

Rules: structured/internal/incubating/allocator_incubating.go of
staging/src/k8s.io/dynamic-resource-allocation, v1.36.
"""

from collections.abc import Generator, Iterator, Sequence
from math import comb, log2
from typing import Any, Final, NamedTuple

from shared.dra import capacity
from shared.dra.allocated import AllocatedState
from shared.dra.constraints import Constraint
from shared.dra.matching import Matching
from shared.dra.pools import Pool, Reaches
from shared.dra.requests import (
    ALL,
    EXACT_COUNT,
    Alternative,
    Given,
    Solution,
    alternatives_of,
    terms_of,
)
from shared.dra.resource_slices import CounterId, Counters, DeviceId, DeviceView, NodeMatch, PoolId
from shared.dra.search_work import (
    FREE_STEPS,
    STEP_WORK,
    AllocationError,
    NodeAllocationError,
    Work,
    WorkError,
)
from shared.feature_gates import FeatureGates
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.api.resource_v1_devices import DeviceClass
from shared.selectors.tolerations import is_repelled

RESULTS_MAX: Final = 32
"""Devices of one claim (AllocationResultsMaxSize)."""
INVALID_POOLS: Final = "invalid resource pools were encountered"
Key = tuple[int, int, int]
"""Numbers of a claim, of a request of it, and of an alternative of that."""
Calls = Generator[Any, bool, bool]
"""A call that yields further ones, and is sent what each comes to."""
Place = tuple[int, int]
"""Numbers of a slice, and of a device of it."""
FIRST_PLACE: Final = (0, 0)


class ClaimToAllocate(NamedTuple):
    """A claim, its requests understood."""

    claim: ResourceClaim
    requests: list[tuple[Alternative, ...]]


class _TooManyResultsError(Exception):
    """Internal to the search: this way leads beyond RESULTS_MAX."""


class _HopelessError(Exception):
    """Internal to the search: no way leads anywhere."""


def understand(
    claims: Sequence[ResourceClaim], classes: dict[str, DeviceClass], gates: FeatureGates
) -> list[ClaimToAllocate]:
    """The claims, ready to be allocated on any node; AllocationError for what is wrong with them."""
    return [
        ClaimToAllocate(
            claim,
            [alternatives_of(claim, r, classes, gates) for r in claim.spec.devices.requests or ()],
        )
        for claim in claims
    ]


def allocate(
    claims: Sequence[ClaimToAllocate],
    pools: Sequence[Pool],
    state: AllocatedState,
    reaches: Reaches,
    work: Work,
) -> list[Solution] | None:
    """What the claims get on the node to which `pools` belong; None: they cannot all be allocated.

    AllocationError: something is wrong, whatever the node. NodeAllocationError: on this node.
    """
    search = _Search(claims, pools, state, reaches, work)
    try:
        found = search.run()
    except _HopelessError:
        found = False
    except _TooManyResultsError as error:
        raise AllocationError("allocation max size exceeded") from error
    finally:
        work.step_count += search.step_count
    if not found and any(pool.is_invalid for pool in pools):
        raise NodeAllocationError(INVALID_POOLS)
    if not found:
        return None
    solutions = search.solutions()
    for each in solutions:
        terms_of(each)  # Whatever cannot be handed on is wrong already.
    return solutions


class _Search:
    """One attempt for one node."""

    def __init__(
        self,
        claims: Sequence[ClaimToAllocate],
        pools: Sequence[Pool],
        state: AllocatedState,
        reaches: Reaches,
        work: Work,
    ) -> None:
        self._work = work
        self._claims = claims
        self._pools = pools
        self._slices = [each for pool in pools for each in pool.slices]
        self._state = state
        self._reaches = reaches
        self.step_count = 0
        """Devices and alternatives tried."""
        self._given: list[list[Given]] = [[] for _ in claims]
        self._constraints: list[list[Constraint]] = []
        self._reached: dict[NodeMatch, bool] = {}
        """Of devices that say themselves which nodes they are for."""
        self._selected: dict[tuple[int, int], bool] = {}
        """Whether its selectors take a device, by the identities of an alternative and of what is said
        of the device, which has not room for all that claims may ask."""
        self._all: dict[Key, list[DeviceView]] = {}
        self._chosen: dict[tuple[int, int], int] = {}
        self._has_counters = any(pool.counters for pool in pools)
        self._taken: dict[DeviceId, set[int]] = {}
        """Device -> claims to which this search has given it."""
        self._taking: dict[DeviceId, dict[str, int]] = {}
        """Shared device -> what this search takes of it."""
        self._counters: dict[str, Counters] = {}
        """Pool name -> what allocated devices and this search leave of its counters; none where those
        leave less than nothing of one, as no device can be had then. By name alone, as upstream."""

    def run(self) -> bool:
        """Whether everything was allocated."""
        for c, (claim, requests) in enumerate(self._claims):
            text = f"claim {claim.metadata.key}"
            fewest = sum(
                min(self._prepared_count((c, r, a), each) for a, each in enumerate(alternatives))
                for r, alternatives in enumerate(requests)
            )
            if fewest > RESULTS_MAX:
                raise AllocationError(
                    f"{text}: number of requested devices {fewest} exceeds the claim "
                    f"limit of {RESULTS_MAX}"
                )
            stated = claim.spec.devices.constraints or ()
            self._constraints.append([Constraint(each, text, i) for i, each in enumerate(stated)])
        return _called(self._request(0, 0))

    def solutions(self) -> list[Solution]:
        """What was found."""
        return [
            Solution(
                claim,
                [each[self._chosen.get((c, r), 0)] for r, each in enumerate(requests)],
                self._given[c],
            )
            for c, (claim, requests) in enumerate(self._claims)
        ]

    # Before the search ---------------------------------------------------------------------------

    def _prepared_count(self, key: Key, asked: Alternative) -> int:
        """How many devices an alternative needs; for "all" this is where they are found."""
        if asked.mode == EXACT_COUNT:
            return asked.device_count
        if asked.mode != ALL:
            raise AllocationError(f"{asked.text}: unsupported count mode {asked.mode}")
        found: list[DeviceView] = []
        for pool in self._pools:
            if pool.is_incomplete or pool.is_invalid:
                what = "invalid" if pool.is_invalid else "being updated"
                raise AllocationError(
                    f"{asked.text}: asks for all devices, but resource pool "
                    f"{'/'.join(pool.pool_id)} is currently {what}"
                )
            for each in pool.slices:
                each.need_readable()
                self._work.add_free(STEP_WORK * len(each.devices))
                found += [device for device in each.devices if self._is_eligible(asked, device)]
        self._all[key] = found
        return len(found)

    # The search ----------------------------------------------------------------------------------
    # What looks for everything that follows is called by way of `_called`: it is as deep as there are
    # devices to find.

    def _request(self, claim: int, request: int) -> Calls:
        """Allocates this request and all after it, of this claim and of those after it."""
        if claim == len(self._claims):
            return True
        alternatives = self._claims[claim].requests
        if request >= len(alternatives):
            try:
                return (yield self._request(claim + 1, 0))
            except _TooManyResultsError:
                # An earlier claim may still choose alternatives that leave more room. It does not,
                # as the limit is per claim, but the search goes back all the same.
                return False
        if not alternatives[request][0].sub_request:
            return (yield self._device((claim, request, 0), 0, FIRST_PLACE))
        has_room = False
        for number in range(len(alternatives[request])):
            self._count_step()
            try:
                is_found = yield self._device((claim, request, number), 0, FIRST_PLACE)
            except _TooManyResultsError:
                continue
            has_room = True
            if is_found:
                self._chosen[claim, request] = number
                return True
        if not has_room:
            raise _TooManyResultsError
        return False

    def _device(self, key: Key, index: int, start: Place) -> Calls:
        """Allocates the device of this index, looking from `start` on, and everything after it."""
        claim, request, number = key
        asked = self._claims[claim].requests[request][number]
        is_all = asked.mode == ALL
        wanted = self._count_of(key)
        if is_all and not wanted:
            return False  # "All" of nothing is not enough.
        if index >= wanted:
            return (yield self._request(claim, request + 1))
        if len(self._given[claim]) + wanted - index > RESULTS_MAX:
            raise _TooManyResultsError
        if not is_all:
            return (yield self._first_fitting(key, asked, index, start))
        self._count_step()
        # The order does not matter: one that cannot be had is the end.
        is_given = self._allocate(claim, asked, self._all[key][index], is_needed=True)
        return is_given and (yield self._go_on(key, index, FIRST_PLACE))

    def _go_on(self, key: Key, index: int, start: Place) -> Calls:
        """Allocates the rest, or takes the latest device back."""
        is_found = False
        try:
            is_found = yield self._device(key, index + 1, start)
        finally:
            if not is_found:
                self._take_back(key[0])
        return is_found

    def _first_fitting(self, key: Key, asked: Alternative, index: int, start: Place) -> Calls:
        for following, device in self._devices_from(start):
            self._count_step()
            is_one = self._is_candidate(key[0], asked, device)
            if not is_one or not self._allocate(key[0], asked, device, is_needed=False):
                continue
            if (yield self._go_on(key, index, following)):
                return True
            if self._are_too_few(key[0], asked, asked.device_count - index, following):
                return False
        return False

    def _count_step(self) -> None:
        self.step_count += 1
        if self.step_count <= FREE_STEPS:
            self._work.add_free(STEP_WORK)
            return
        self._work.add(STEP_WORK)
        if self.step_count == FREE_STEPS + 1 and self._is_hopeless():
            raise _HopelessError

    def _devices_from(self, start: Place) -> Iterator[tuple[Place, DeviceView]]:
        """Each device and where the next one is."""
        first_slice, first = start
        for s in range(first_slice, len(self._slices)):
            each = self._slices[s]
            each.need_readable()
            for d in range(first, len(each.devices)):
                yield (s, d + 1), each.devices[d]
            first = 0

    def _are_too_few(self, claim: int, asked: Alternative, wanted: int, start: Place) -> bool:
        """Whether fewer devices are left than the request still wants, so that all ways to take some of
        them need not be tried. No, where more decides than each device by itself."""
        if self._constraints[claim] or self._has_counters:
            return False
        count = 0
        for _, device in self._devices_from(start):
            self._work.add_free(STEP_WORK)
            is_one = self._is_candidate(claim, asked, device)
            count += is_one and not _repels(device, asked)
            if count == wanted:
                return False
        self._work.skip(count)
        return True

    def _is_hopeless(self) -> bool:
        """Whether the requests up to some one can never all be met, so that none of the ways to try
        them need be tried: looked at once a search has become long. No, where trying may come to an
        error, which would be the attempt's."""
        matching, bits = Matching(), 0.0
        if any(pool.is_invalid for pool in self._pools):
            return False  # Devices may be there twice.
        for claim, entry in enumerate(self._claims):
            if not self._only_selectors_may_fail(claim):
                return False
            for request in range(len(entry.requests)):
                try:
                    ways = self._ways_at_best(claim, request)
                except WorkError:
                    raise
                except AllocationError:
                    return False
                bits += log2(
                    sum(_ways_to_try(len(found) - matching.size, count) for count, found in ways)
                )
                if not matching.add([each for each in ways if each[0] <= len(each[1])]):
                    self._work.skip(bits)
                    return True
                self._work.add(matching.looked_at)
        return False

    def _only_selectors_may_fail(self, claim: int) -> bool:
        """Nothing else can end the search of a claim with an error."""
        requests = self._claims[claim].requests
        most = sum(
            max(self._count_of((claim, r, a)) for a in range(len(alternatives)))
            for r, alternatives in enumerate(requests)
        )
        is_all = any(each.mode == ALL for alternatives in requests for each in alternatives)
        return most <= RESULTS_MAX and not (is_all and self._constraints[claim])

    def _count_of(self, key: Key) -> int:
        asked = self._claims[key[0]].requests[key[1]][key[2]]
        return len(self._all[key]) if asked.mode == ALL else asked.device_count

    def _ways_at_best(self, claim: int, request: int) -> list[tuple[int, dict[DeviceId, bool]]]:
        """Of each alternative how many devices it wants, and which it could have if this search gave
        none to others; True: others may have them as well."""
        found: list[tuple[int, dict[DeviceId, bool]]] = []
        for number, asked in enumerate(self._claims[claim].requests[request]):
            key = (claim, request, number)
            devices = self._all[key] if asked.mode == ALL else self._possible(asked)
            is_admins = asked.admin_access
            are_shared = {d.identity: d.facts.is_shared or is_admins for d in devices}
            found.append((self._count_of(key), are_shared))
        return found

    def _possible(self, asked: Alternative) -> Iterator[DeviceView]:
        state = self._state
        for _, device in self._devices_from(FIRST_PLACE):
            self._work.add_free(STEP_WORK)
            facts = device.facts
            if (
                (asked.admin_access or not state.is_taken(device.identity))
                and self._is_selectable(asked, device)
                and capacity.fits(asked.capacity, facts.measured, state.used(device.identity), {})
                and not _repels(device, asked)
            ):
                yield device

    def _is_candidate(self, claim: int, asked: Alternative, device: DeviceView) -> bool:
        return not self._is_in_use(claim, asked, device) and self._is_eligible(asked, device)

    def _is_in_use(self, claim: int, asked: Alternative, device: DeviceView) -> bool:
        taken_by = self._taken.get(device.identity)
        if asked.admin_access:
            return taken_by is not None and claim in taken_by
        return bool(taken_by) or self._state.is_taken(device.identity)

    # One device ----------------------------------------------------------------------------------

    def _is_eligible(self, asked: Alternative, device: DeviceView) -> bool:
        return self._is_selectable(asked, device) and self._has_capacity(asked, device)

    def _is_selectable(self, asked: Alternative, device: DeviceView) -> bool:
        """Whether class and request select the device, and the node can reach it."""
        facts = device.facts
        if not facts.is_selectable:
            return False
        key = id(asked), id(facts)
        is_selected = self._selected.get(key)
        if is_selected is None:
            is_selected = facts.is_selected(asked.selectors, self._work)
            self._selected[key] = is_selected
        if not is_selected:
            return False
        if device.where is not facts.device:
            return True  # As all of the slice, which the node sees.
        if facts.match not in self._reached:
            self._reached[facts.match] = self._reaches(facts.match)
        return self._reached[facts.match]

    def _has_capacity(self, asked: Alternative, device: DeviceView) -> bool:
        if not asked.capacity and not device.facts.measured:
            return True
        return capacity.fits(
            asked.capacity,
            device.facts.measured,
            self._state.used(device.identity),
            self._taking.get(device.identity, {}),
        )

    def _allocate(
        self, claim: int, asked: Alternative, device: DeviceView, *, is_needed: bool
    ) -> bool:
        """Gives a device to the request that is a candidate at this moment, or, where it `is_needed`,
        was one when the search began. False where it cannot be had. Counters that were consumed for a
        device which is then refused for a taint or a constraint stay consumed, as upstream."""
        facts = device.facts
        is_admins = facts.is_shared and asked.admin_access
        if not facts.can_be_had:
            return False
        if is_needed and not is_admins and self._is_in_use(claim, asked, device):
            return False
        is_share_of_used = facts.is_shared and (
            self._state.is_capacity_used(device.identity) or device.identity in self._taking
        )
        if facts.counters and not is_share_of_used and not self._consume_counters(device):
            return False
        if _repels(device, asked):
            return False
        if not self._join_constraints(claim, asked, device, is_needed=is_needed):
            return False
        taken_by = self._taken.setdefault(device.identity, set())
        if not facts.is_shared:
            taken_by.add(claim)
        if is_needed and not self._has_capacity(asked, device):
            return False
        consumed = None
        if facts.is_shared:
            consumed = {
                name: capacity.consumed_by(asked.capacity.get(name), each)
                for name, each in facts.measured.items()
            }
            _take(self._taking.setdefault(device.identity, {}), consumed, 1)
        self._given[claim].append(Given(asked, device, consumed))
        return True

    def _take_back(self, claim: int) -> None:
        """What the claim was given last."""
        asked, device, consumed = self._given[claim].pop()
        for constraint in self._constraints[claim]:
            constraint.remove(asked)
        self._taken[device.identity].discard(claim)
        if consumed is not None:
            # Of a device of which nothing is taken the share that goes first takes all with it.
            taking = self._taking.get(device.identity, {})
            _take(taking, consumed, -1)
            if consumed and not any(taking.values()):
                self._taking.pop(device.identity, None)
        elif device.facts.counters:
            _use(self._counters[device.identity[1]], device.facts.counters, -1)

    def _join_constraints(
        self, claim: int, asked: Alternative, device: DeviceView, *, is_needed: bool
    ) -> bool:
        constraints = self._constraints[claim]
        for number, constraint in enumerate(constraints):
            if constraint.add(asked, device):
                continue
            if is_needed:
                raise AllocationError(
                    f"{asked.text}: cannot add device {'/'.join(device.identity)} because a claim "
                    f"constraint would not be satisfied"
                )
            for joined in constraints[:number]:
                joined.remove(asked)
            return False
        return True

    # Counters ------------------------------------------------------------------------------------

    def _consume_counters(self, device: DeviceView) -> bool:
        """Takes the device's share of its pool's counters, if there is enough of each."""
        (driver, name, _), counters = device.identity, device.facts.counters
        left = self._counters.get(name)
        if left is None:
            left = self._counters[name] = self._counters_left((driver, name))
        _use(left, counters, 1)
        is_enough = all(left.get(where, 0) >= 0 for where, _ in counters)
        if not is_enough:
            _use(left, counters, -1)
        return bool(left) and is_enough

    def _counters_left(self, pool_id: PoolId) -> Counters:
        pool = next(each for each in self._pools if each.pool_id == pool_id)
        left = dict(pool.counters)
        for each in (*pool.slices, *pool.other_slices):
            for device in each.devices:
                if device.facts.counters and self._state.is_allocated(device.identity):
                    _use(left, device.facts.counters, 1)
        return left if all(amount >= 0 for amount in left.values()) else {}


def _called(first: Calls) -> bool:
    """What a call comes to of which each call that it yields is called in turn: on a stack of our own,
    as there may be more of them than Python's has room for."""
    stack: list[Calls] = [first]
    answer: bool | None = None
    error: Exception | None = None
    while stack:
        call = stack[-1]
        try:
            if error is not None:
                further = call.throw(error)
            else:
                further = next(call) if answer is None else call.send(answer)
        except StopIteration as end:
            answer, error = end.value, None
            stack.pop()
        except Exception as raised:  # noqa: BLE001  # Handed to whoever called.
            error = raised
            stack.pop()
        else:
            answer, error = None, None
            stack.append(further)
    if error is not None:
        raise error
    return bool(answer)


def _use(left: Counters, counters: Sequence[tuple[CounterId, int]], sign: int) -> None:
    """Takes what a device needs of its pool's counters, or gives it back."""
    for where, amount in counters:
        if where in left:
            left[where] -= sign * amount


def _ways_to_try(device_count: int, wanted: int) -> int:
    """In how many ways so many devices are taken, or as many as there are where these are too few."""
    return comb(device_count, wanted) if device_count >= wanted else 1 << max(device_count, 0)


def _repels(device: DeviceView, asked: Alternative) -> bool:
    taints = device.facts.taints
    return bool(taints) and is_repelled(taints, asked.tolerations)


def _take(taking: dict[str, int], consumed: capacity.Requested, sign: int) -> None:
    for name, amount in consumed.items():
        taking[name] = taking.get(name, 0) + sign * amount.nanos
