"""DynamicResources: devices for a pod's resource claims, and for extended resources that are devices.

Filter asks the allocator for each group of nodes that offer the same; Reserve allocates on the chosen
node and lays the allocated claims over the objects of the view, so that nobody is given the same
device before the API server knows. What of that PreBind, which runs in the binder, tells it is read
after Reserve (`pre_bind_work`).

Rules: pkg/scheduler/framework/plugins/dynamicresources/{dynamicresources,extendeddynamicresources}.go,
v1.36.2. Not here, for want of a clock: the time-outs of device binding conditions. A claim whose binding
failed is refused here; one whose binding takes too long is refused in PreBind alone, and freed by that.
"""

import hashlib
import uuid
from collections.abc import Hashable, Iterable
from functools import partial
from typing import ClassVar, Final

import msgspec
import numpy as np

from shared.columns.schema import NO_ROWS, Bools, Int64s, Rows
from shared.dra.allocated import results_of
from shared.dra.device_index import CLAIMS, CLASSES, SLICES, device_index
from shared.dra.extended import SPECIAL_CLAIM, special_claim_name
from shared.dra.pod_claims import (
    ClaimError,
    Preparation,
    claims_of,
    is_reserved_for,
    is_used_by_none_but,
    preparation,
)
from shared.dra.requests import Solution, allocation_of
from shared.durations import parse_duration
from shared.errors import as_one_error
from shared.feature_gates import (
    DRA_DEVICE_BINDING_CONDITIONS,
    DRA_NODE_ALLOCATABLE_RESOURCES,
    DRA_PRIORITIZED_LIST,
    DRA_SCHEDULER_FILTER_TIMEOUT,
    FeatureGates,
)
from shared.framework.cluster_event import Action, Resource
from shared.framework.cluster_view import ClusterView
from shared.framework.normalize import DefaultNormalizeScore
from shared.framework.out_of_tree import Args
from shared.framework.plugin_api import (
    NEVER_FILTERS,
    SKIP_FILTER,
    Dependence,
    PreFilterResult,
    PreScoreResult,
    Reads,
    Scope,
)
from shared.framework.plugin_args import ArgsStruct, parse_args
from shared.framework.pod_info import PodInfo
from shared.framework.post_filter import FailedAttempt, PostFilterResult
from shared.framework.queueing_hints import Change, ClusterEventWithHint, PodView, as_kind
from shared.framework.status import (
    MORE_REASONS,
    SUCCESS,
    Code,
    FirstReasons,
    Status,
    Verdicts,
    unresolvable,
)
from shared.kube.api.core_v1 import PodStatus
from shared.kube.api.core_v1_parts import NodeAllocatableResourceClaimStatus
from shared.kube.api.resource_v1 import (
    RESERVED_FOR_MAX,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimConsumer,
)
from shared.kube.binding_work import ClaimWork, GeneratedClaim
from shared.kube.pod_group_rules import not_found
from shared.kube.pod_record import OwnFacts, PodRecord
from shared.plugin_names import DYNAMIC_RESOURCES
from shared.plugins.devices.device_allocation import (
    DeviceClaims,
    allocated_on,
    extended_requests_of,
    outcomes,
    provided_by_devices,
    scalars_of,
)
from shared.plugins.devices.node_allocatable import (
    refuse_full,
    refuse_shared,
    status_with,
    taken_by,
)
from shared.plugins.devices.pod_group_claims import (
    consumer_group,
    group_object,
    group_of_claims,
    has_begun,
    unreservable,
)
from shared.selectors.node_selector import SelectedColumns, match_any
from shared.selectors.node_terms import Terms, parse_selector

NOT_AVAILABLE: Final = "resourceclaim not available on the node"
CANNOT_FIT: Final = "cannot fit resource"
IN_USE: Final = "resourceclaim in use"
UNRESERVED: Final = "ResourceClaim unreserved for PodGroup"
ALTERNATIVES_MAX: Final = 8
"""FirstAvailableDeviceRequestMaxSize: the first alternative of a request scores this much."""


_encoder: Final = msgspec.msgpack.Encoder()


class DynamicResourcesArgs(ArgsStruct):
    filter_timeout: str = "10s"
    """How long to search devices. Here a search ends after as much work, not time
    (`dra/search_work.py`)."""
    binding_timeout: str = "600s"
    """How long the binder waits for devices to be ready."""

    def problems(self) -> list[str]:
        problems = []
        for name, text, least_s in (
            ("filterTimeout", self.filter_timeout, 0),
            ("bindingTimeout", self.binding_timeout, 1),
        ):
            try:
                if parse_duration(text) < least_s:
                    problems.append(f"{name}: must be at least {least_s}s")
            except ValueError as error:
                problems.append(f"{name}: {error}")
        return problems


class DynamicResources(DefaultNormalizeScore):
    """Costs nothing for pods without claims and extended resources."""

    NAME: ClassVar[str] = DYNAMIC_RESOURCES
    reads_labels: ClassVar[frozenset[str]] = frozenset()
    ignores_requests: ClassVar[bool] = True
    reads_claims: ClassVar[bool] = True
    may_fail: ClassVar[bool] = True
    reserve_filters: ClassVar[bool] = True
    answers_for_class: ClassVar[bool] = True
    object_kinds: ClassVar[frozenset[str]] = frozenset({CLAIMS, SLICES, CLASSES})
    followed_kinds: ClassVar[frozenset[str]] = frozenset({CLAIMS})
    pre_filter_depends: ClassVar[Dependence | None] = Dependence(Reads.OBJECTS, Scope.CLUSTER)
    filter_depends: ClassVar[Dependence] = Dependence(Reads.NODE | Reads.OBJECTS, Scope.ROW)
    pre_score_depends: ClassVar[Dependence | None] = Dependence(Reads.OBJECTS, Scope.CLUSTER)
    score_depends: ClassVar[Dependence] = Dependence(Reads.NODE | Reads.OBJECTS, Scope.ROW)

    def __init__(self, args: DynamicResourcesArgs) -> None:
        self._filter_timeout_s = parse_duration(args.filter_timeout)
        self._binding_timeout_s = parse_duration(args.binding_timeout)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        both = Action.ADD, Action.UPDATE
        of_nodes = Action.ADD, Action.UPDATE_NODE_ALLOCATABLE, Action.UPDATE_NODE_LABEL
        own = (Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM,)
        return (
            ClusterEventWithHint(Resource.NODE, of_nodes),
            ClusterEventWithHint(
                Resource.RESOURCE_CLAIM, both, _after_claim_change, reads_identity=True
            ),
            ClusterEventWithHint(Resource.POD, own, _after_own_generated_claim),
            ClusterEventWithHint(Resource.DEVICE_CLASS, both),
            ClusterEventWithHint(Resource.RESOURCE_SLICE, both),
        )

    def may_gate(self, pod: PodInfo) -> bool:
        return bool(pod.spec.resource_claims)

    def pre_enqueue(self, pod: PodInfo, cluster: ClusterView) -> Status:
        """Keeps a pod out until all of its claims exist, and its group, if that may have any: who knows
        the groups lets it in then (`SchedulingQueue.let_in`)."""
        if not pod.spec.resource_claims:
            return SUCCESS
        claims = _claims_of(pod, cluster)
        if isinstance(claims, str):
            return unresolvable(claims)._replace(plugin=self.NAME)
        group = group_of_claims(pod, cluster)
        if group and group_object(pod, cluster) is None:
            told = not_found(f"{pod.namespace}/{group}")
            return unresolvable(told)._replace(plugin=self.NAME)
        return SUCCESS

    def pre_filter(self, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        scalars = scalars_of(pod)
        if not pod.spec.resource_claims and not scalars:
            return NEVER_FILTERS
        claims = _claims_of(pod, cluster)
        if isinstance(claims, str):
            return PreFilterResult(unresolvable(claims))
        # What another pod of the group was given is there for this one, too.
        claims = [cluster.objects.shared(CLAIMS, c.metadata.key) or c for c in claims]
        if scalars and not any(name in device_index(cluster).by_resource for name in scalars):
            scalars = {}
        if not claims and not scalars:
            return SKIP_FILTER
        position = device_index(cluster).log.position
        timeout_s = self._filter_timeout_s if cluster.gates[DRA_SCHEDULER_FILTER_TIMEOUT] else 0.0
        state = DeviceClaims(claims, scalars, timeout_s, position)
        uid, group = _uid(pod), group_of_claims(pod, cluster)
        for claim in claims:
            refusal = _refusal(claim, uid, group, cluster)
            if refusal is not None:
                return PreFilterResult(refusal)
            if claim.status.allocation is not None:
                selector = claim.status.allocation.node_selector
                terms = None if selector is None else parse_selector(selector)
                errors = [error for term in terms or () for error in term.errors]
                if errors:
                    return PreFilterResult(Status(Code.ERROR, (as_one_error(errors),)))
                state.available.append((claim, terms))
        return PreFilterResult(state=state)

    def claims_likeness(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """What claims ask for that nobody has and that devices of single nodes are for: these are all
        that a placement takes."""
        if scalars_of(pod):
            return None
        if not pod.spec.resource_claims:
            return ()
        found = _claims_of(pod, cluster)
        if isinstance(found, str) or not device_index(cluster).is_of_nodes:
            return None
        claims = {claim.metadata.key: claim for claim in found}
        if len(claims) < len(pod.spec.resource_claims):
            return None
        assumed = cluster.objects.assumed(CLAIMS)
        for key, claim in claims.items():
            requests = claim.spec.devices.requests or ()
            if claim.status.allocation is not None or key in assumed:
                return None
            if any(request.first_available for request in requests):
                return None  # Which of the alternatives it is rates the node.
        likeness: bytes = _encoder.encode([claim.spec for claim in claims.values()])
        return likeness

    def rows_of_objects(self, state: DeviceClaims | None, cluster: ClusterView) -> Rows | None:
        """Nodes of which devices were given away or came back."""
        if state is None:
            return NO_ROWS
        index = device_index(cluster)
        state.position, before = index.log.position, state.position
        return index.log.since(before) if index.is_of_nodes else None

    def filter(
        self, state: DeviceClaims, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Verdicts:
        said = FirstReasons(len(rows))
        failed = np.zeros(len(rows), np.bool_)
        provided = provided_by_devices(state.scalars, cluster, rows)
        if state.scalars:
            said.refuse(provided.misfits, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, CANNOT_FIT)
        for claim, _ in state.available:
            refuse_shared(said, claim, cluster, rows)
        for at, outcome in outcomes(state, pod, cluster, rows, provided):
            if outcome.is_error:
                failed |= at & (said.codes == 0)
            elif outcome.text:
                said.refuse(at, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, outcome.text)
            elif outcome.amounts:
                refuse_full(said, at, outcome.amounts, cluster.nodes, rows)
        if failed.any():
            state.has_failed = True
            # It names devices and pools, so each node is asked for its own, as far as bits go; by name,
            # because the first one's is the attempt's.
            names_of = cluster.nodes.name_of
            for at_row in sorted(np.flatnonzero(failed), key=lambda p: names_of(rows.item(p))):
                text = MORE_REASONS
                if not said.told.is_full:
                    names = provided.sets[provided.of_row[at_row]]
                    text = allocated_on(state, pod, cluster, rows.item(at_row), names).text
                said.codes[at_row], said.reasons[at_row] = Code.ERROR, said.told.mask(text)
        if state.available:
            unavailable = _unavailable(state, cluster, rows)
            said.refuse(unavailable, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NOT_AVAILABLE)
        return said.verdicts()

    def post_filter(self, attempt: FailedAttempt) -> PostFilterResult:
        """Names what can be freed; for pods without claims there is nothing."""
        each = attempt.pod.outcome.each
        if self.NAME not in each:
            return PostFilterResult(Status(Code.ERROR, ("not found",)))
        state = attempt.pod.outcome.states.get(self.NAME)
        if not isinstance(state, DeviceClaims):
            return PostFilterResult(Status(Code.UNSCHEDULABLE, ("no new claims to deallocate",)))
        claim = self._deallocatable(attempt, state)
        if claim is not None:
            status = Status(Code.UNSCHEDULABLE, ("deallocation of ResourceClaim completed",))
            return PostFilterResult(status, freed_claims=(claim.metadata.key,))
        try:
            of_group = unreservable(attempt.pod.info, attempt.pod.cluster)
        except ClaimError as error:
            return PostFilterResult(Status(Code.ERROR, (str(error),)))
        if of_group:
            # Nobody is asked to go before it is seen where else devices are.
            return PostFilterResult(unresolvable(UNRESERVED), freed_claims=of_group)
        return PostFilterResult(Status(Code.UNSCHEDULABLE, ("still not schedulable",)))

    def _deallocatable(self, attempt: FailedAttempt, state: DeviceClaims) -> ResourceClaim | None:
        """The first claim that some node was refused for and that nobody else uses."""
        filters, filtered = attempt.pod.framework.filters, attempt.filtered
        for number, (index, texts) in enumerate(filtered.refusers):
            if filters[index].NAME != self.NAME or NOT_AVAILABLE not in texts:
                continue
            is_told = filtered.reasons >> texts.index(NOT_AVAILABLE) & 1 == 1
            rows = filtered.rows[is_told & (filtered.refused_by == number)]
            uid = _uid(attempt.pod.info)
            for claim, terms in state.available:
                if (
                    claim.metadata.key not in attempt.pod.cluster.objects.assumed(CLAIMS)
                    and is_used_by_none_but(claim, uid)
                    and not _usable(claim, terms, attempt.pod.cluster, rows).all()
                ):
                    return claim
        return None

    def pre_score(self, pod: PodInfo, cluster: ClusterView, feasible: Rows) -> PreScoreResult:
        if not pod.spec.resource_claims or not cluster.gates[DRA_PRIORITIZED_LIST]:
            return PreScoreResult(is_final=True)
        state = self.pre_filter(pod, cluster).state
        if not isinstance(state, DeviceClaims) or not any(
            request.first_available
            for claim in state.claims
            for request in claim.spec.devices.requests or ()
        ):
            # Another claim in its place starts PreFilter anew, and then this as well.
            return PreScoreResult(is_final=True)
        return PreScoreResult(state=state)

    def score(
        self, state: DeviceClaims | None, pod: PodInfo, cluster: ClusterView, rows: Rows
    ) -> Int64s:
        if state is None or not (state.pending or state.scalars):
            return np.zeros(len(rows), np.int64)
        # Those that were allocated before count as well (computeScore), also where nothing is to be
        # allocated because the node has the extended resources by itself.
        before = sum(
            _score(claim, [result.request for result in results_of(claim)])
            for claim, _ in state.available
        )
        scores = np.full(len(rows), before, np.int64)
        provided = provided_by_devices(state.scalars, cluster, rows)
        for at, outcome in outcomes(state, pod, cluster, rows, provided):
            scores[at] = before + sum(
                _score(each.claim, [given.alternative.full_name for given in each.given])
                for each in outcome.solutions
            )
        return scores

    def reserves_for(self, pod: PodInfo) -> bool:
        """Only for pods with claims, or with resources that devices may provide."""
        return bool(pod.spec.resource_claims or pod.requests.scalars)

    def reserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> Status:
        """Allocates on the node, against everything that was reserved before. Rejects what Filter
        does."""
        result = self.pre_filter(pod, cluster)
        if result.status.code is Code.SKIP:
            return SUCCESS
        state = result.state
        if not isinstance(state, DeviceClaims):
            return _not_any_more(result.status.message)
        rows = np.array([row], np.intp)
        (names,), _, misfits = provided_by_devices(state.scalars, cluster, rows)
        if misfits.any():
            return _not_any_more(CANNOT_FIT)
        if state.available and _unavailable(state, cluster, rows).any():
            return _not_any_more(NOT_AVAILABLE)
        said = FirstReasons(1)
        for claim, _ in state.available:
            refuse_shared(said, claim, cluster, rows)
        if said.codes.any():
            return _not_any_more(said.told.texts[0])
        for claim, _ in state.available:
            if cluster.objects.shared(CLAIMS, claim.metadata.key) is not None:
                cluster.objects.share_assumed(CLAIMS, claim.metadata.key, record.uid)
        if not state.pending and not names:
            return SUCCESS
        outcome = allocated_on(state, pod, cluster, row, names)
        if outcome.text:
            return _not_any_more(outcome.text)
        if outcome.amounts:
            refuse_full(said, np.ones(1, np.bool_), outcome.amounts, cluster.nodes, rows)
            if said.codes.any():
                return _not_any_more(said.told.texts[0])
        name, group = cluster.nodes.name_of(row), group_object(pod, cluster)
        for each in outcome.solutions:
            consumer = consumer_group(pod.template, each.claim, group)
            claim = _allocated_claim(each, name, record, consumer)
            cluster.objects.assume(CLAIMS, claim.metadata.key, claim, record.uid)
        return SUCCESS

    def unreserve(self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int) -> None:
        """Gives back what was assumed for the pod."""
        cluster.objects.forget_assumed_for(CLAIMS, record.uid)

    def used_claims(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView
    ) -> dict[str, ResourceClaim]:
        """By key, the claims of a reserved pod, as they were or as they were allocated for it."""
        own: dict[str, ResourceClaim] = cluster.objects.assumed_for(CLAIMS, record.uid)
        find, group = cluster.objects.all(CLAIMS).get, group_of_claims(pod, cluster)
        claims = claims_of(pod.namespace, pod.template, find, group)
        return {claim.metadata.key: claim for claim in claims} | own

    def pre_bind_work(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView, row: int
    ) -> bytes:
        """The claims of a reserved pod, but those that were reserved for it before and have no devices
        that a driver still has to prepare: these are waited for. Those of its group are looked at by
        all of its pods: another one's attempt may be giving them back."""
        if not self.reserves_for(pod):
            return b""
        assumed = cluster.objects.assumed(CLAIMS)
        has_conditions = cluster.gates[DRA_DEVICE_BINDING_CONDITIONS]
        group = group_object(pod, cluster)
        work = []
        for key, claim in self.used_claims(record, pod, cluster).items():
            # Of those that share what was allocated for one of them, that one writes it.
            is_new = key in assumed and assumed[key].pod_uids[0] == record.uid
            is_reserved = is_reserved_for(claim, record.uid)
            is_prepared = _preparation(claim, cluster).is_done
            if not is_new and is_reserved and is_prepared:
                continue
            consumer = consumer_group(pod.template, claim, group)
            allocation = claim.status.allocation
            assert allocation is not None, f"{key} is used without being allocated"
            generated = None
            # What the pod names is there; the scheduler's own claim is only assumed.
            if is_new and cluster.objects.get(CLAIMS, key) is None:
                rows = np.array([row], np.intp)
                (names,) = provided_by_devices(scalars_of(pod), cluster, rows).sets
                mappings = extended_requests_of(pod, cluster, names).mappings
                generated = GeneratedClaim(claim.spec, mappings)
            work.append(
                ClaimWork(
                    namespace=claim.metadata.namespace,
                    name=claim.metadata.name,
                    uid=claim.metadata.uid,
                    allocation=allocation,
                    is_new=is_new,
                    ready_timeout_s=self._binding_timeout_s if has_conditions else 0.0,
                    generated=generated,
                    group=consumer,
                    is_kept=consumer is not None and not is_prepared and has_begun(pod, cluster),
                )
            )
        if work:
            statuses = self._taken_of_node(record, pod, cluster)
            work[-1] = msgspec.structs.replace(work[-1], pod_statuses=statuses)
        return _encoder.encode(work) if work else b""

    def _taken_of_node(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView
    ) -> list[NodeAllocatableResourceClaimStatus]:
        """What a reserved pod's devices take of their node besides."""
        return []


class NodeAllocatableResources(DynamicResources):
    """With the gate DRANodeAllocatableResources. Which devices nodes have is the same for many of them;
    what these have left is not. That it looks at requests, too, is no matter: only of pods with claims,
    and of these one by one."""

    filter_depends: ClassVar[Dependence] = Dependence(
        Reads.NODE | Reads.USAGE | Reads.OBJECTS, Scope.ROW
    )

    def claims_likeness(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """And which claim is which, as containers name them."""
        likeness = super().claims_likeness(pod, cluster)
        names = tuple(reference.name for reference in pod.spec.resource_claims or ())
        return likeness if likeness is None or not names else (likeness, names)

    def reserved_status(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView
    ) -> PodStatus | None:
        if not self.reserves_for(pod):
            return None
        return status_with(pod, self._taken_of_node(record, pod, cluster))

    def _taken_of_node(
        self, record: PodRecord, pod: PodInfo, cluster: ClusterView
    ) -> list[NodeAllocatableResourceClaimStatus]:
        own = cluster.objects.assumed_for(CLAIMS, record.uid)
        assumed = cluster.objects.assumed(CLAIMS)
        # What was allocated for another pod of its group counts with that one.
        new = [each for key, each in own.items() if assumed[key].pod_uids[0] == record.uid]
        return taken_by(pod, new, cluster)


def dynamic_resources(gates: FeatureGates, given: Args) -> DynamicResources:
    """The plugin as these gates have it."""
    args = parse_args(DYNAMIC_RESOURCES, DynamicResourcesArgs, given)
    looks_at_room = gates[DRA_NODE_ALLOCATABLE_RESOURCES]
    return (NodeAllocatableResources if looks_at_room else DynamicResources)(args)


def _claims_of(pod: PodInfo, cluster: ClusterView) -> list[ResourceClaim] | str:
    """The pod's claims; why not, while one is missing, on its way out, or another pod's."""
    try:
        find, group = cluster.objects.all(CLAIMS).get, group_of_claims(pod, cluster)
        return claims_of(pod.namespace, pod.template, find, group)
    except ClaimError as error:
        return str(error)


def _after_claim_change(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """Some claim freed its devices, or a claim of the pod is new or has another status. Without all
    claims of the pod no change of one can help."""
    was, now = change.both(ResourceClaim)
    claims = _claims_of(pod.info, cluster)
    if now is None or isinstance(claims, str):
        return False
    if was is not None and was.status.allocation and not now.status.allocation:
        return True
    if all(claim.metadata.uid != now.metadata.uid for claim in claims):
        return False
    return was is None or was.status != now.status


def _after_own_generated_claim(pod: PodView, change: Change, cluster: ClusterView) -> bool:
    """The claims that the pod waited for are made and named in its status."""
    now = as_kind(PodView, change.new)
    if now is None or not change.is_of(pod):
        return False
    return not isinstance(_claims_of(now.info, cluster), str)


def _uid(pod: PodInfo) -> str:
    return (pod.template.own or OwnFacts()).uid


def _not_any_more(text: str) -> Status:
    """Of a pod that Filter let pass before. If it is an error now, Filter says so when it is asked."""
    return Status(Code.UNSCHEDULABLE, (text,))


def _refusal(claim: ResourceClaim, uid: str, group: str, cluster: ClusterView) -> Status | None:
    """Why the pod cannot have the claim anywhere, if so."""
    if claim.status.allocation is not None:
        users = claim.status.reserved_for or ()
        if len(users) < RESERVED_FOR_MAX or is_reserved_for(claim, uid, group):
            return None
        return unresolvable(IN_USE)
    key = claim.metadata.key
    if key in cluster.objects.assumed(CLAIMS):
        return unresolvable(f"resource claim {key} is in the process of being allocated")
    for request in claim.spec.devices.requests or ():
        refusal = _class_refusal(request, key, cluster)
        if refusal is not None:
            return refusal
    return None


def _class_refusal(request: DeviceRequest, key: str, cluster: ClusterView) -> Status | None:
    if request.exactly is not None:
        wanted = [(request.name, request.exactly.device_class_name)]
    elif request.first_available:
        if not cluster.gates[DRA_PRIORITIZED_LIST]:
            return unresolvable(
                f"resource claim {key}, request {request.name}: has subrequests, but the "
                f"{DRA_PRIORITIZED_LIST} feature is disabled"
            )
        wanted = [
            (f"{request.name}/{sub.name}", sub.device_class_name) for sub in request.first_available
        ]
    else:
        return unresolvable(f"resource claim {key}, request {request.name}: unknown request type")
    for name, class_name in wanted:
        if not class_name:
            return Status(Code.ERROR, (f"request {name}: unsupported request type",))
        if cluster.objects.get(CLASSES, class_name) is None:
            return unresolvable(f"request {name}: device class {class_name} does not exist")
    return None


def _preparation(claim: ResourceClaim, cluster: ClusterView) -> Preparation:
    has_conditions = cluster.gates[DRA_DEVICE_BINDING_CONDITIONS]
    return preparation(claim.status) if has_conditions else Preparation(is_done=True)


def _usable(claim: ResourceClaim, terms: Terms | None, cluster: ClusterView, rows: Rows) -> Bools:
    """Where an allocated claim can be used."""
    if _preparation(claim, cluster).failed is not None:
        return np.zeros(len(rows), np.bool_)
    if terms is None:
        return np.ones(len(rows), np.bool_)
    return match_any(terms, SelectedColumns(cluster.nodes, rows))


def _unavailable(state: DeviceClaims, cluster: ClusterView, rows: Rows) -> Bools:
    found = np.zeros(len(rows), np.bool_)
    for claim, terms in state.available:
        found |= ~_usable(claim, terms, cluster, rows)
    return found


def _score(claim: ResourceClaim, requests: Iterable[str]) -> int:
    """What the alternatives are worth that an allocation has in its requests: the earlier, the more."""
    given = set(requests)
    return sum(
        ALTERNATIVES_MAX - i
        for request in claim.spec.devices.requests or ()
        for i, sub in enumerate(request.first_available or ())
        if f"{request.name}/{sub.name}" in given
    )


def _allocated_claim(
    solution: Solution, node_name: str, record: PodRecord, group: ResourceClaimConsumer | None
) -> ResourceClaim:
    claim = solution.claim
    owner = claim.metadata.uid or record.uid
    allocation = allocation_of(solution, node_name, partial(_share_id, owner))
    users = claim.status.reserved_for if group is None else [group]
    status = msgspec.structs.replace(claim.status, allocation=allocation, reserved_for=users)
    meta = claim.metadata
    if meta.name == SPECIAL_CLAIM:
        name = special_claim_name(record.name, record.uid, allocation)
        meta = msgspec.structs.replace(meta, name=name)
    return msgspec.structs.replace(claim, metadata=meta, status=status)


def _share_id(owner_uid: str, number: int) -> str:
    """A UUID for one share of a device; made of who holds it, as nothing here is random."""
    digest = hashlib.sha256(f"{owner_uid}/{number}".encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))
