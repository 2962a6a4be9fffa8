"""Between a pod's assumption and its binding: Permit plugins let it pass, make it wait or refuse it.

`waiting_pods.py` holds who waits and what was decided; here the decisions are carried out.
"""

from collections.abc import Iterable

from daemon.core.attempt_ends import AttemptEnds, refusal
from daemon.core.cluster_changes import ClusterChanges
from daemon.core.holdings import Part
from daemon.core.owner_counts import Count
from daemon.core.queue.queued_pod import QueuedPod
from daemon.core.waiting_pods import Waiting
from shared.errors import ObjectError
from shared.faults import reading
from shared.framework.status import CODE_NAMES, Code, Status


class PermitStage(Part):
    _changes: ClusterChanges
    _ends: AttemptEnds

    def enter(self, pod: QueuedPod, node_name: str, now_s: float) -> bool:
        """A pod is assumed and reserved: it is bound, or waits, or is refused after all (False): then
        whoever was kept away by it on some copy is to be looked at again."""
        record, info, cache = pod.record, pod.info, self._facts.cache
        begun_s = self._outgoing.counters.stopwatch()
        try:
            with reading("pod", record):
                row = cache.nodes.row_of(node_name)
                work = self._facts.plugins.pre_bind_work(record, info, cache.view, row)
                status = self._facts.waiting.run_permit(record, info, node_name, work, now_s)
        except ObjectError as error:
            work, status = {}, Status(Code.ERROR, (error.problem,))
        took_s = self._outgoing.counters.stopwatch() - begun_s
        self._outgoing.counters.took(
            "Permit", pod.pod_class.profile, took_s, status=CODE_NAMES[status.code]
        )
        if status.code is Code.WAIT:
            self._outgoing.counters[Count.PERMIT_WAITS] += 1
            self._outgoing.log_step("waits_on_permit", pod, node=node_name)
            if self._facts.settings.announces_nodes:
                self._facts.nominations.announce(record, node_name)
        elif status.is_success:
            self._ends.order_binding(pod, record, node_name, work)
        else:
            self._ends.take_off(record, info, node_name)
            self._ends.fail(pod, refusal(status), now_s)
            self._facts.nominations.not_placed(self._facts.queue.get(record.uid))
            return False
        return True

    def settle(self, now_s: float) -> None:
        """Carries out what was decided about waiting pods; that may decide about others."""
        waiting = self._facts.waiting
        if not waiting.has_work:
            return
        waiting.review(now_s)
        while decided := waiting.take_decided():
            for each in decided:
                assert each.decision is not None, "decided"
                result = (CODE_NAMES[each.decision.code],)
                self._outgoing.counters.observe("permit_wait_s", result, now_s - each.since_s)
                pod = self._facts.queue.get(each.record.uid)
                assert pod is not None, "a waiting pod is in flight"
                if each.decision.is_success:
                    is_announced = self._is_announced(each)
                    self._ends.order_binding(
                        pod, each.record, each.node_name, each.work, is_announced=is_announced
                    )
                else:
                    self._reject(each, pod, each.decision, now_s)
        self._facts.queue.activate(waiting.take_activated(), now_s)

    def _reject(self, waiting: Waiting, pod: QueuedPod, status: Status, now_s: float) -> None:
        self._outgoing.counters[Count.PERMIT_REJECTIONS] += 1
        forgotten = self._ends.take_off(waiting.record, waiting.pod, waiting.node_name)
        assert forgotten is not None, "a pod that is not assumed does not wait"
        self._ends.fail(pod, refusal(status), now_s)
        self._facts.nominations.not_placed(pod, is_announced=self._is_announced(waiting))
        # Others may have its room; the pod itself has just given it up.
        self._changes.wake_as_deleted(forgotten, now_s, but=pod.uid)

    def _is_announced(self, waiting: Waiting) -> bool:
        """Whether a binder knows that the pod's status is to say where the pod is going."""
        announces = self._facts.settings.announces_nodes
        return announces and not self._outgoing.patches.recall(waiting.record.uid)

    def drop_gone(self, uids: Iterable[str]) -> None:
        """Those of the pods that are gone, or were bound by somebody else, wait no more."""
        facts = self._facts
        if not len(facts.waiting):
            return
        for uid in uids:
            waiting = None if facts.cache.is_assumed_pod(uid) else facts.waiting.drop(uid)
            if waiting is not None:
                self._outgoing.patches.drop(uid)
                self._ends.take_off(waiting.record, waiting.pod, waiting.node_name)
                facts.queue.done(uid)
