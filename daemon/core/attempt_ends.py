"""How an attempt ends: the pod's binding is ordered, or it goes back to the queue with a verdict.

Here the ways of a pod through the owner come together again: what the committer accepts, what a
Permit plugin decides and what a binder reports all end in one of these.
"""

from collections import Counter
from collections.abc import Collection

from daemon.core.cached_nodes import CachedPod
from daemon.core.events import Tell
from daemon.core.freed_claims import claim_releases
from daemon.core.holdings import Part
from daemon.core.owner_counts import Count
from daemon.core.queue.queued_pod import PAST_MAX, QueuedPod
from daemon.core.status_patches import verdict_of
from shared.dra.device_index import CLAIMS
from shared.extenders.extender_config import binders_of
from shared.framework.pod_info import PodInfo
from shared.framework.runtime.diagnosis import FitError
from shared.framework.status import Code, Status
from shared.kube.pod_record import PodRecord
from shared.messages.from_scorer import Failure
from shared.messages.to_binder import BindPod, Decision, ReportPods, StatusPatch
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
        facts, outgoing, settings = self._facts, self._outgoing, self._facts.settings
        extenders: list[int] = []
        if work is not None:
            outgoing.binders.releases += claim_releases(
                pod.ticket, record, pod.info, facts.cache.view
            )
            extenders = binders_of(settings.extenders, pod.info.spec)
        if settings.logs_attempts:  # Nearly every pod comes by here.
            outgoing.log_step("binding_ordered", pod, node=node_name)
        if outgoing.patches.by_uid:
            outgoing.patches.drop(record.uid)
        is_news = not is_announced and record.nominated_node_name != node_name
        bind = BindPod(
            pod.ticket, pod.pod_class.profile, record.namespace, record.name, record.uid, node_name,
            False, record.resource_version, work or {}, extenders,
            self._decision(pod) if settings.annotates_decisions else None,
            settings.announces_nodes and is_news,
        )  # fmt: skip
        outgoing.binders.order(bind, record, is_announced=is_announced)
        outgoing.counters[Count.SCHEDULED] += 1
        outgoing.counters.recent.append((pod.popped_s, record.key, node_name, ""))

    def _decision(self, pod: QueuedPod) -> Decision:
        """How the placement of a pod came about, for its annotation."""
        begun_s = pod.added_s if pod.initial_attempt_s is None else pod.initial_attempt_s
        return Decision(
            generation=self._facts.cache.generation,
            node_count=self._facts.cache.node_count(),
            attempts=pod.attempts,
            waited_ms=max(0, round((pod.popped_s - begun_s) * 1000)),
        )

    def take_off(
        self, record: PodRecord, info: PodInfo, node_name: str, claims_left: Collection[str] = ()
    ) -> CachedPod | None:
        """Undoes what was assumed of a pod. None: the pod is gone, or known to be bound; what was
        reserved is given back even then, as nobody else would. `claims_left`, by key, are allocated by
        now: their devices are not free, though the watch may yet have to say so (a written claim stays
        in the assume cache upstream: bindClaim in dynamicresources/dynamicresources.go, v1.36.2)."""
        cache = self._facts.cache
        assumed = cache.objects.assumed_for(CLAIMS, record.uid)
        left = {key: assumed[key] for key in claims_left if key in assumed}
        row = cache.nodes.row_of(node_name)
        forgotten = cache.forget_pod(record.uid)
        counters = self._outgoing.counters
        begun_s = counters.stopwatch()
        self._facts.plugins.run_unreserve(record, info, cache.view, row)
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
        self._outgoing.counters.recent.append((pod.popped_s, record.key, "", message))
        self._outgoing.counters.refused(pod, profile, now_s, is_error=failure.is_error)
        if failure.is_error:
            self._outgoing.counters[Count.ERRORS] += 1
            self._outgoing.counters.last_error = f"pod {record.key}: {message}"
            place = self._facts.queue.requeue_error(record.uid, now_s)
        else:
            self._outgoing.counters[Count.UNSCHEDULABLE] += 1
            place = self._facts.queue.requeue_unschedulable(
                record.uid, failure.plugins, failure.pending_plugins, now_s
            )
        self._outgoing.log_step("attempt_failed", pod, message=message)
        if place is None or not is_reported:
            return  # Deleted meanwhile.
        verdict = verdict_of(pod.ticket, record, profile, message, is_error=failure.is_error)
        self._outgoing.patches.add(verdict)

    def report(self) -> None:
        """What statuses are to say, and events of the attempts that failed, once there is a binder to
        write them."""
        binders, waiting = self._outgoing.binders, self._outgoing.patches
        if not binders.ready_count():
            return
        by_binder: dict[bytes, list[StatusPatch]] = {}
        for patch in waiting.take():
            peer = binders.for_pod(patch.uid)
            by_binder.setdefault(peer, []).append(patch)
        for peer, patches in by_binder.items():
            report = ReportPods(self._outgoing.epoch, patches)
            self._outgoing.effects.append(Tell(Channel.BINDERS, peer, report))


def refusal(status: Status) -> Failure:
    """Of a pod that a plugin refused on the node that was chosen for it, or failed on."""
    if not status.is_rejected:
        return Failure([], status.message, is_error=True)
    is_pending = status.code is Code.PENDING
    plugins = [status.plugin]
    fit_error = FitError(1, "", Counter(status.reasons), frozenset(), frozenset())
    message = fit_error.message()
    return Failure([], message, [] if is_pending else plugins, plugins if is_pending else [])
