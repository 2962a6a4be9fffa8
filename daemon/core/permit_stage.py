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
        owner, record, info = self._owner, pod.record, pod.info
        cache, counters = owner.cache, owner.counters
        begun_s = counters.stopwatch()
        try:
            with reading("pod", record):
                row = cache.nodes.row_of(node_name)
                work = owner.plugins.pre_bind_work(record, info, cache.view, row)
                status = owner.waiting.run_permit(record, info, node_name, work, now_s)
        except ObjectError as error:
            work, status = {}, Status(Code.ERROR, (error.problem,))
        took_s, code = counters.stopwatch() - begun_s, CODE_NAMES[status.code]
        counters.took("Permit", pod.pod_class.profile, took_s, status=code)
        if status.code is Code.WAIT:
            counters[Count.PERMIT_WAITS] += 1
            owner.log_step("waits_on_permit", pod, node=node_name)
            if owner.announces_nodes:
                owner.nominations.announce(record, node_name)
        elif status.is_success:
            self._ends.order_binding(pod, record, node_name, work)
        else:
            self._ends.take_off(record, info, node_name)
            self._ends.fail(pod, refusal(status), now_s)
            owner.nominations.not_placed(owner.queue.get(record.uid))
            return False
        return True

    def settle(self, now_s: float) -> None:
        """Carries out what was decided about waiting pods; that may decide about others. Where none
        waits and none is to be activated, there is nothing to be done."""
        waiting = self._owner.waiting
        waiting.review(now_s)
        while decided := waiting.take_decided():
            for each in decided:
                assert each.decision is not None, "decided"
                result = (CODE_NAMES[each.decision.code],)
                self._owner.counters.observe("permit_wait_s", result, now_s - each.since_s)
                pod = self._owner.queue.get(each.record.uid)
                assert pod is not None, "a waiting pod is in flight"
                if each.decision.is_success:
                    said = self._is_announced(each)
                    placed = pod, each.record, each.node_name, each.work
                    self._ends.order_binding(*placed, is_announced=said)
                else:
                    self._reject(each, pod, each.decision, now_s)
        uids, waiting.to_activate = waiting.to_activate, {}
        self._owner.queue.activate(uids, now_s)

    def _reject(self, waiting: Waiting, pod: QueuedPod, status: Status, now_s: float) -> None:
        self._owner.counters[Count.PERMIT_REJECTIONS] += 1
        forgotten = self._ends.take_off(waiting.record, waiting.pod, waiting.node_name)
        assert forgotten is not None, "a pod that is not assumed does not wait"
        self._ends.fail(pod, refusal(status), now_s)
        self._owner.nominations.not_placed(pod, is_announced=self._is_announced(waiting))
        # Others may have its room; the pod itself has just given it up.
        self._changes.wake_as_removed(forgotten.view, forgotten.node_name, now_s, but=pod.uid)

    def _is_announced(self, waiting: Waiting) -> bool:
        """Whether a binder knows that the pod's status is to say where the pod is going."""
        announces = self._owner.announces_nodes
        return announces and not self._owner.patches.recall(waiting.record.uid)

    def drop_gone(self, uids: Iterable[str], now_s: float) -> None:
        """Those of the pods wait no more that are gone, were bound by somebody else, or left the queue
        because nobody can read what they have become: others may have the room of these."""
        owner = self._owner
        for uid in uids if owner.waiting.by_uid else ():
            is_assumed = owner.cache.is_assumed_pod(uid)
            is_waiting = is_assumed and owner.queue.get(uid) is not None
            waiting = None if is_waiting else owner.waiting.by_uid.pop(uid, None)
            if waiting is None:
                continue
            if is_assumed:
                owner.patches.recall(uid)  # Why it is not placed is told.
            else:
                owner.patches.drop(uid)
            forgotten = self._ends.take_off(waiting.record, waiting.pod, waiting.node_name)
            owner.queue.done(uid)
            if forgotten is not None:
                self._changes.wake_as_removed(forgotten.view, forgotten.node_name, now_s)
