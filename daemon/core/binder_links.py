"""The binders: who is there, and what each reports of bindings and of victims of preemption."""

from typing import assert_never

from daemon.core.attempt_ends import AttemptEnds
from daemon.core.cluster_changes import ClusterChanges
from daemon.core.events import Tell
from daemon.core.holdings import Part
from daemon.core.owner_counts import Count
from shared.framework.cluster_event import ASSIGNED_POD_DELETE
from shared.framework.pod_info import PodInfo
from shared.framework.queueing_hints import PodView
from shared.kube.pod_record import decode_template
from shared.messages import from_binder, to_binder
from shared.messages.from_binder import BindFailureReason
from shared.messages.from_scorer import Failure
from shared.plugin_names import DEFAULT_PREEMPTION
from shared.transport.channels import Channel


class BinderLinks(Part):
    _changes: ClusterChanges
    _ends: AttemptEnds

    def hear(self, peer: bytes, message: from_binder.FromBinder, now_s: float) -> None:
        match message:
            case from_binder.BinderHello():
                self._welcome(peer, message.binder_index, now_s)
            case from_binder.BinderReady():
                if message.epoch == self._owner.epoch:
                    self._owner.binders.ready(peer, is_clear=not message.in_flight_count)
            case from_binder.BindReport():
                self._owner.binders.heard(peer, now_s)
                if message.epoch == self._owner.epoch:
                    self._on_report(peer, message, now_s)
            case from_binder.BinderHeartbeat():
                self._owner.counters.add(message.measured)
                if self._owner.binders.heard(peer, now_s) is None:
                    # It was given up as silent and is back; its orders are with others by now.
                    self._welcome(peer, message.binder_index, now_s)
            case _:
                assert_never(message)

    def _welcome(self, peer: bytes, binder_index: int, now_s: float) -> None:
        binders = self._owner.binders
        self._owner.counters[Count.BINDS_REPEATED] += binders.join(peer, binder_index, now_s)
        welcome = to_binder.Welcome(self._owner.epoch)
        self._owner.effects.append(Tell(Channel.BINDERS, peer, welcome))

    def _on_report(self, peer: bytes, report: from_binder.BindReport, now_s: float) -> None:
        bound_count = 0
        bound_s = now_s - max(0.0, report.held_s)
        for ticket in report.finished:
            order = self._owner.binders.settle(peer, ticket)
            if order is None:
                continue
            bound_count += 1
            uid = order.record.uid
            is_here = self._owner.cache.finish_binding(uid, now_s)
            pod = None if is_here else self._owner.queue.get(uid)
            if pod is not None and not pod.record.deleted:
                # The API server has shown it without its node again since it was bound. One that is
                # gone, or is being deleted, had to give its room up.
                self._owner.queue.requeue_unschedulable(uid, (), (), now_s)
            else:
                self._end(uid, bound_s)
        self._owner.counters[Count.BOUND] += bound_count
        for failed in report.failed:
            self._on_bind_failed(peer, failed, now_s)
        for done in report.victims:
            self._on_victim(peer, done, now_s)

    def _on_bind_failed(self, peer: bytes, failed: from_binder.BindFailed, now_s: float) -> None:
        order = self._owner.binders.settle(peer, failed.ticket)
        if order is None:
            return
        record, node_name, ticket = order.record, order.bind.node_name, order.bind.ticket
        # That a pod is deleted while it is being bound is nobody's fault.
        is_problem = failed.reason is not BindFailureReason.GONE
        tell = self._owner.warn if is_problem else self._owner.note
        why = {"reason": failed.reason.value, "message": failed.message}
        tell("binding_failed", pod=record.key, ticket=ticket, node=node_name, **why)
        self._owner.counters[Count.BINDS_FAILED] += 1
        if failed.reason is BindFailureReason.UNREACHABLE:
            self._owner.binders.order_again(order, now_s)
            return
        held = self._owner.cache.get_pod(record.uid)
        if held is None:  # Its class may be gone.
            info = PodInfo(record.namespace, decode_template(record.template))
        else:
            info = held.pod_class.info
        self._ends.take_off(record, info, node_name, failed.claims_left)
        if self._owner.cache.get_pod(record.uid) is not None:
            self._end(record.uid, now_s)  # On a node by the API server's word, which stands.
            return
        pod = self._owner.queue.get(record.uid)
        if pod is not None:
            # Of a pod that somebody else has bound or deleted, nothing is told.
            is_reported = failed.reason in (BindFailureReason.REJECTED, BindFailureReason.TIMEOUT)
            # As an error: nothing wakes the pod, it is tried again when its back-off is over.
            failure = Failure([], failed.message, is_error=True)
            self._ends.fail(pod, failure, now_s, is_reported=is_reported)
            is_announced = failed.was_announced or order.is_announced
            self._owner.nominations.not_placed(pod, is_announced=is_announced)
        self._changes.wake_as_removed(PodView(record, info), node_name, now_s)

    def _end(self, uid: str, bound_s: float) -> None:
        """Nothing is left to be tried with a pod whose order was answered: it is bound, since then."""
        pod = self._owner.queue.done(uid)
        if pod is not None:
            if self._owner.logs_attempts:
                self._owner.log_step("pod_bound", pod)
            self._owner.counters.bound(pod, bound_s)

    def _on_victim(self, peer: bytes, done: from_binder.VictimDone, now_s: float) -> None:
        order = self._owner.binders.settle_victim(peer, done.order_id)
        if order is None:
            return
        owner, problem = self._owner, done.problem
        if problem:
            owner.cache.mark_evicted(order.uid, is_evicted=False)
        # Whoever waits for it is tried again. So is who was kept out while something happened that
        # helps: who goes last need not help him.
        for uid, is_failed in owner.evictions.end(order.uid, is_failed=bool(problem)).items():
            if is_failed:
                owner.queue.fail(uid, now_s)
            else:
                owner.queue.let_in((uid,), DEFAULT_PREEMPTION, ASSIGNED_POD_DELETE.label, now_s)
        if problem:
            what = {"pod": f"{order.namespace}/{order.name}", "node": order.node_name}
            self._owner.warn("victim_not_deleted", **what, ticket=order.ticket, problem=problem)

    def lose(self, peer: bytes, reason: str) -> None:
        """Its orders go to others."""
        lost = self._owner.binders.leave(peer)
        self._owner.counters[Count.BINDS_REPEATED] += lost
        self._owner.warn("binder_lost", orders=lost, reason=reason)

    def lose_the_silent(self, now_s: float) -> None:
        for peer in self._owner.binders.silent(now_s):
            self.lose(peer, "silent")
