"""Between a pod's assumption and its binding: Permit plugins let it pass, make it wait or refuse it.

`waiting_pods.py` holds who waits and what was decided; here the decisions are carried out.
"""

from daemon.core.bindings import NO_WORK
from daemon.core.dispatch import Attempt
from daemon.core.holdings import Holdings
from daemon.core.outcomes import Outcomes, refusal
from daemon.core.waiting_pods import Waiting
from shared.errors import ObjectError
from shared.faults import reading
from shared.framework.status import CODE_NAMES, Code, Status
from shared.messages.to_owner import AdapterMessage, PodChanged, PodDeleted, SyncFinished


class PermitStage:
    """Of all pods that are not bound plainly."""

    def __init__(self, holdings: Holdings, outcomes: Outcomes) -> None:
        self._holdings = holdings
        self._outcomes = outcomes

    def enter(self, attempt: Attempt, node_name: str, now_s: float) -> None:
        """A pod is assumed and reserved: it is bound, or waits, or is refused after all."""
        holdings, record, info = self._holdings, attempt.pod.record, attempt.pod_class.info
        begun_s = holdings.counters.stopwatch()
        try:
            with reading("pod", record):
                work = self._outcomes.work_for(record, info, node_name)
                status = holdings.waiting.run_permit(
                    record, info, node_name, work, holdings.cache.view, now_s
                )
        except ObjectError as error:
            work, status = NO_WORK, Status(Code.ERROR, (error.problem,))
        took_s = holdings.counters.stopwatch() - begun_s
        holdings.counters.took(
            "Permit", attempt.pod_class.profile, took_s, status=CODE_NAMES[status.code]
        )
        if status.code is Code.WAIT:
            holdings.counters["permit_waits"] += 1
            if holdings.settings.announces_nodes:
                holdings.nominations.announce(record, node_name)
        elif status.is_success:
            self._outcomes.order_binding(record, attempt.pod_class, node_name, work)
        else:
            self._outcomes.take_off(record, info, node_name)
            self._outcomes.fail(attempt, refusal(status), now_s)
            holdings.nominations.not_placed(holdings.queue.get(record.uid))

    def settle(self, now_s: float) -> None:
        """Carries out what was decided about waiting pods; that may decide about others."""
        holdings, waiting = self._holdings, self._holdings.waiting
        waiting.review(holdings.cache.view, now_s)
        while decided := waiting.take_decided():
            for each in decided:
                assert each.decision is not None, "decided"
                result = (CODE_NAMES[each.decision.code],)
                holdings.counters.observe("permit_wait_s", result, now_s - each.since_s)
                if each.decision.is_success:
                    pod_class = holdings.changes.class_of(each.record.uid)
                    told = self._told(each)
                    self._outcomes.order_binding(
                        each.record, pod_class, each.node_name, each.work, is_announced=told
                    )
                else:
                    self._reject(each, each.decision, now_s)
        holdings.queue.activate(waiting.take_activated(), now_s)

    def _reject(self, waiting: Waiting, status: Status, now_s: float) -> None:
        holdings, uid = self._holdings, waiting.record.uid
        holdings.counters["permit_rejections"] += 1
        forgotten = self._outcomes.take_off(waiting.record, waiting.pod, waiting.node_name)
        pod = holdings.queue.get(uid)
        assert forgotten is not None, "a pod that is not assumed does not wait"
        assert pod is not None, "a waiting pod is in flight"
        attempt = Attempt(0, 0, pod, holdings.changes.class_of(uid))
        self._outcomes.fail(attempt, refusal(status), now_s)
        holdings.nominations.not_placed(pod, is_announced=self._told(waiting))
        # Others may have its room; the pod itself has just given it up.
        holdings.changes.wake_as_deleted(forgotten, now_s, but=uid)

    def _told(self, waiting: Waiting) -> bool:
        """Whether a binder knows that the pod's status is to say where the pod is going."""
        holdings = self._holdings
        if not holdings.settings.announces_nodes:
            return False
        return not holdings.nominations.recall(waiting.record.uid)

    def drop(self, message: AdapterMessage) -> None:
        """Pods that are gone, or were bound by somebody else, wait no more."""
        holdings = self._holdings
        match message:
            case PodChanged(pod) | PodDeleted(pod):
                uids = [pod.uid]
            case SyncFinished():
                uids = holdings.waiting.uids()
            case _:
                return
        for uid in uids:
            is_assumed = holdings.cache.is_assumed_pod(uid)
            waiting = None if is_assumed else holdings.waiting.drop(uid)
            if waiting is not None:
                holdings.nominations.recall(uid)
                self._outcomes.take_off(waiting.record, waiting.pod, waiting.node_name)
                if holdings.queue.done(uid) is not None:
                    holdings.changes.release_queued(uid)
