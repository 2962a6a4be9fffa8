"""How an attempt ends: the pod's binding is ordered, or it goes back to the queue with a verdict.

Here the ways of a pod through the owner come together again: what the committer accepts, what a
Permit plugin decides and what a binder reports all end in one of these. With it goes what a binder is to
free of resource claims, and what the owner forgets of them.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from daemon.core.cache import Cache
from daemon.core.cached_nodes import CachedPod
from daemon.core.events import Tell
from daemon.core.holdings import Part
from daemon.core.owner_counts import Count
from daemon.core.queue.queued_pod import PAST_MAX, QueuedPod
from daemon.core.status_patches import verdict_of
from shared.dra.device_index import CLAIMS, device_index
from shared.dra.extended import pod_uid_of
from shared.dra.pod_claims import is_used_by_none_but
from shared.extenders.extender_config import binders_of
from shared.framework.cluster_view import ClusterView
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.diagnosis import FitError
from shared.framework.status import Code, Status
from shared.kube.api.resource_v1 import ResourceClaim
from shared.kube.pod_record import PodRecord
from shared.messages.from_scorer import Failure
from shared.messages.to_binder import BindPod, Decision, ReleaseClaim, ReportPods, StatusPatch
from shared.transport.channels import Channel


class AttemptEnds(Part):
    def order_binding(
        self,
        pod: QueuedPod,
        record: PodRecord,
        node_name: str,
        work: dict[str, bytes] | None = None,
        *,
        is_announced: bool = False,
    ) -> None:
        """`record` is as it was when it was assumed. `work`: as `BindPod` has it; None: no plugin was
        asked, as for nearly all pods. `is_announced`: as `BinderPool.order` has it."""
        owner, settings = self._owner, self._owner.settings
        extenders: list[int] = []
        if work is not None:
            owner.binders.releases += claim_releases(pod.ticket, record, pod.info, owner.cache.view)
            extenders = binders_of(settings.config.extenders, pod.info.spec)
        if owner.logs_attempts:  # Nearly every pod comes by here.
            owner.log_step("binding_ordered", pod, node=node_name)
        if owner.patches.by_uid:
            owner.patches.drop(record.uid)
        is_news = not is_announced and record.nominated_node_name != node_name
        bind = BindPod(
            pod.ticket, pod.pod_class.profile, record.namespace, record.name, record.uid, node_name,
            False, record.resource_version, work or {}, extenders,
            self._decision(pod) if settings.options.annotate_decisions else None,
            owner.announces_nodes and is_news,
        )  # fmt: skip
        owner.binders.order(bind, record, is_announced=is_announced)
        owner.counters[Count.SCHEDULED] += 1
        owner.counters.recent.append((pod.popped_s, record.key, node_name, ""))

    def _decision(self, pod: QueuedPod) -> Decision:
        """How the placement of a pod came about, for its annotation."""
        cache = self._owner.cache
        begun_s = pod.added_s if pod.initial_attempt_s is None else pod.initial_attempt_s
        waited_ms = max(0, round((pod.popped_s - begun_s) * 1000))
        return Decision(cache.generation, cache.node_count(), pod.attempts, waited_ms)

    def take_off(
        self, record: PodRecord, info: PodInfo, node_name: str, claims_left: Collection[str] = ()
    ) -> CachedPod | None:
        """Undoes what was assumed of a pod. None: the pod is gone, or known to be bound; what was
        reserved is given back even then, as nobody else would. `claims_left`, by key, are allocated by
        now: their devices are not free, though the watch may yet have to say so (a written claim stays
        in the assume cache upstream: bindClaim in dynamicresources/dynamicresources.go, v1.36.2)."""
        cache = self._owner.cache
        assumed = cache.objects.assumed_for(CLAIMS, record.uid)
        left = {key: assumed[key] for key in claims_left if key in assumed}
        row = cache.nodes.row_of(node_name)
        forgotten = cache.forget_pod(record.uid)
        counters = self._owner.counters
        begun_s = counters.stopwatch()
        self._owner.plugins.run_unreserve(record, info, cache.view, row)
        took_s = counters.stopwatch() - begun_s
        counters.took("Unreserve", info.spec.scheduler_name, took_s)
        for key, claim in left.items():
            if key not in cache.objects.assumed(CLAIMS):
                cache.objects.assume(CLAIMS, key, claim, record.uid)
        return forgotten

    def fail(
        self, pod: QueuedPod, failure: Failure, now_s: float, *, is_reported: bool = True
    ) -> None:
        """The pod waits for what may help it; the world is told why, unless not `is_reported`."""
        record, pod_class, message = pod.record, pod.pod_class, failure.message
        profile = pod_class.profile
        if pod_class.last_message == message:
            message = pod_class.last_message  # One text for all that were told it.
        pod_class.last_message = message
        pod.past = (*pod.past[1 - PAST_MAX :], (now_s, message))
        counters = self._owner.counters
        counters.recent.append((pod.popped_s, record.key, "", message))
        counters.refused(pod, now_s, is_error=failure.is_error)
        plugins, pending_plugins = failure.plugins, failure.pending_plugins
        if failure.is_error:
            counters[Count.ERRORS] += 1
            counters.last_error = f"pod {record.key}: {message}"
            plugins = pending_plugins = []
        else:
            counters[Count.UNSCHEDULABLE] += 1
        queue = self._owner.queue
        place = queue.requeue_unschedulable(record.uid, plugins, pending_plugins, now_s)
        self._owner.log_step("attempt_failed", pod, message=message)
        if place is None or not is_reported:
            return  # Deleted meanwhile.
        verdict = verdict_of(pod.ticket, record, profile, message, is_error=failure.is_error)
        self._owner.patches.add(verdict)

    def report(self) -> None:
        """What statuses are to say, and events of failed attempts, once a binder can write them."""
        owner = self._owner
        if not owner.binders.ready_count():
            return
        by_binder: dict[bytes, list[StatusPatch]] = {}
        for patch in owner.patches.take():
            by_binder.setdefault(owner.binders.for_pod(patch.uid), []).append(patch)
        for peer, patches in by_binder.items():
            owner.effects.append(Tell(Channel.BINDERS, peer, ReportPods(owner.epoch, patches)))


def refusal(status: Status) -> Failure:
    """Of a pod that a plugin refused on the node that was chosen for it, or failed on."""
    if not status.is_rejected:
        return Failure([], status.message, is_error=True)
    is_pending = status.code is Code.PENDING
    plugins = [status.plugin]
    fit_error = FitError(1, "", Counter(status.reasons), frozenset(), frozenset())
    message = fit_error.message()
    return Failure([], message, [] if is_pending else plugins, plugins if is_pending else [])


def written_claims(cache: Cache) -> dict[str, str]:
    """Every assumed claim and one of its pods whose binder is done: the API server has been told."""
    found = {}
    for key, assumed in cache.objects.assumed(CLAIMS).items():
        for uid in assumed.pod_uids:
            pod = cache.get_pod(uid)
            if pod is None or not cache.is_assumed_pod(uid) or pod.is_binding_finished:
                found[key] = uid
    return found


def forget_written(cache: Cache, written: dict[str, str]) -> None:
    """A list that began after these were told has come: what it does not show as allocated was freed
    again meanwhile, which no event tells any more."""
    assumed = cache.objects.assumed(CLAIMS)
    for key, pod_uid in written.items():
        if key in assumed and pod_uid in assumed[key].pod_uids:
            cache.objects.forget_assumed(CLAIMS, key)


def claim_releases(
    ticket: int,
    record: PodRecord,
    pod: PodInfo,
    cluster: ClusterView,
    keys: Iterable[str] = (),
    group_uid: str = "",
) -> list[ReleaseClaim]:
    """What may be freed for a pod: of the claims named those that nobody else uses, and whatever an
    earlier attempt (perhaps of an earlier owner) has left of claims for its extended resources.
    `group_uid`: of its group, no pod of which has a node; what that alone has may be freed as well."""
    stale: Iterable[str] = ()
    if pod.requests.scalars:
        stale = sorted(device_index(cluster).special_claims.get(record.uid, ()))
    objects = cluster.objects
    releases = []
    own = f"{record.namespace}/"
    for key in dict.fromkeys((*filter(lambda key: key.startswith(own), keys), *stale)):
        claim: ResourceClaim | None = objects.get(CLAIMS, key)
        if claim is None or key in objects.assumed(CLAIMS):
            continue  # Gone or changed since that was found.
        is_special = pod_uid_of(claim) == record.uid
        if claim.status.allocation is None and not is_special:
            continue
        of_pod = is_used_by_none_but(claim, record.uid)
        if of_pod or is_used_by_none_but(claim, group_uid):
            meta, uid = claim.metadata, record.uid
            what = meta.namespace, meta.name, meta.uid
            of_group = "" if of_pod else group_uid
            releases.append(ReleaseClaim(*what, uid, is_special, ticket, of_group))
    return releases
