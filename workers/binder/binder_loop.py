"""The binder's I/O half: orders in, at most so many bindings in flight, outcomes back in batches.

Epochs. The owner may die and come back with another state of mind, or the connection may break and
messages be lost. So:

- On each new connection the binder says `BinderHello`, again every second until it is answered.
- The new connection, and `Welcome(epoch)`, make all orders of before void, of whatever epoch they were:
  what is not begun is dropped, what is in flight is fenced (`fences.py`), outcomes are dropped.
  `BinderReady(epoch)` is sent at once, and again when nothing of before can be written any more: an
  order for a pod of which something is in flight waits for that, other pods do not. An owner that took
  a binder for dead and hears of it again says `Welcome` too; it has given the orders to others.
- Several Hellos may be answered by several Welcomes. They all arrive before the first order that
  follows from them, because the owner hears all these Hellos before the first `BinderReady`.
- Orders that come before `BinderReady` wait; orders of another epoch are dropped.

An owner cannot be replaced without a new connection, so nobody has to watch for its silence.

Outcomes are sent all together: a failure at once, since the pod is to be tried again; that pods are
bound is urgent to nobody, and waits a little for others to share the message. They are kept until sent.

Bugs in a plugin end one binding (its outcome is unknown then, UNREACHABLE), not the process.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from logging import DEBUG
from typing import Final, assert_never

import msgspec

from shared.clock import Clock
from shared.framework.binding_api import Allowed
from shared.messages.codec import Drain
from shared.messages.from_binder import (
    BinderHeartbeat,
    BinderHello,
    BinderReady,
    BindFailed,
    BindFailureReason,
    BindReport,
    FromBinder,
    VictimDone,
)
from shared.messages.to_binder import (
    BindPod,
    BindPods,
    PreemptPods,
    ReportPods,
    StatusPatch,
    ToBinder,
    Welcome,
)
from shared.soonest_call import SoonestCall
from shared.telemetry.log import EventLog
from shared.telemetry.metrics import Tally, measured_by
from shared.transport.async_peer import AsyncPeer
from shared.transport.channels import Connected
from shared.transport.heartbeat import until_beat_s
from workers.binder.bind_call import Bound, NotBound, Outcome
from workers.binder.binding_cycle import BindingCycle
from workers.binder.evictions import Evictor
from workers.binder.fences import Fence, Fences
from workers.binder.recorder import EventRecorder

TICK_S: Final = 1.0
"""Hello until welcomed; then a heartbeat so soon after something came, without any after `QUIET_S`."""
RECORDER_TICK_S: Final = 60.0
RESEND_S: Final = 0.02
"""How soon reports are sent again that found the owner's queue full."""
REPORT_HELD_S: Final = 0.5
"""The longest that the owner does not hear of a pod that is bound: so many share a message and a
turn of the owner, and a wake with the events about them."""
REPORT_HELD_MAX: Final = 256
"""An eighth of the orders that a binder is given at a time; with more, the message is paid for."""
BINDINGS_DRAIN_S: Final = 2.0
"""After SIGTERM. What is under way then has had `DRAIN_S`, unless the owner has died."""
RECORDER_DRAIN_S: Final = 3.0


class BinderLoop:
    """Everything between the owner's messages and the binding cycles."""

    def __init__(
        self,
        binder_index: int,
        peer: AsyncPeer[FromBinder, ToBinder],
        cycle: BindingCycle,
        recorder: EventRecorder,
        in_flight_max: int,
        clock: Clock,
        evictor: Evictor,
        fences: Fences,
        tally: Tally | None = None,
    ) -> None:
        """`fences`: those of the evictor and of the clients that the plugins have. `tally`: what the
        process counts, told with the heartbeats."""
        assert in_flight_max > 0, "a binder that may not bind"
        self._index = binder_index
        self._peer = peer
        self._cycle = cycle
        self._recorder = recorder
        self._in_flight_max = in_flight_max
        self._clock = clock
        self._evictor = evictor
        self._fences = fences
        self._tally = tally or Tally()
        self._loop = asyncio.get_running_loop()
        self._log = EventLog("binder")
        self._epoch: int | None = None
        """Of the owner on this connection; None until it has welcomed us."""
        self._last_epoch: int | None = None
        self._is_ready = False
        """BinderReady has been sent: bindings may begin."""
        self._is_clear = False
        """It has been sent with nothing of before in flight."""
        self._orders: deque[BindPod] = deque()
        self._in_flight: dict[asyncio.Task[None], Fence] = {}
        self._by_pod: dict[str, asyncio.Task[None]] = {}
        """The newest of the same, by uid of the pod."""
        self._waiting_count = 0
        """Of `_in_flight`, how many are not binding yet, but wait for volumes, for plugins, or for what
        is in flight of the same pod."""
        self._report: BindReport | None = None
        self._finished_at_s = 0.0
        self._flush = SoonestCall(self._loop, self._flush_reports)
        """Of what came up; after 0 s, with all of this turn."""
        self._recorder_ticked_s = clock.monotonic_s()
        self._stirred = asyncio.Event()
        """The owner has said something since the last tick."""
        self._is_draining = False
        self.is_orphaned = False
        self._drained = self._loop.create_future()
        self._logs_attempts = self._log.is_on(DEBUG)

    async def run(self) -> None:
        """Returns when drained and everything is reported, or abandoned (`stop_now`)."""
        receiving = self._loop.create_task(self._receive())
        ticking = self._loop.create_task(self._tick())
        tasks: list[asyncio.Future[None]] = [receiving, ticking, self._drained]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            receiving.cancel()
            ticking.cancel()
            await asyncio.gather(receiving, ticking, return_exceptions=True)

    def drain(self) -> None:
        """Takes no more orders, finishes and reports what it has, writes what it can, then ends."""
        if not self._is_draining:
            self._is_draining = True
            self._log.info("draining", orders=len(self._orders), in_flight=len(self._in_flight))
            self._loop.call_later(BINDINGS_DRAIN_S, self._cut)
            self._flush_reports()

    def _cut(self) -> None:
        """The owner's drain has waited for long: the next berth learns what became of what hangs."""
        if self._in_flight or self._orders:
            in_flight = len(self._in_flight)
            self._log.warning("bindings_cut", orders=len(self._orders), in_flight=in_flight)
            self._abandon()
            self._end_if_drained()

    def stop_now(self) -> None:
        """Ends without finishing anything: its supervisor is gone, and nobody is left to report to."""
        self._log.error("supervisor_gone")
        self.is_orphaned = True
        self._abandon()
        if not self._drained.done():
            self._drained.set_result(None)

    # What the owner says --------------------------------------------------------------------------

    async def _receive(self) -> None:
        while True:
            message = await self._peer.recv()
            self._stirred.set()
            match message:
                case BindPods():
                    self._on_orders(message)
                case ReportPods():
                    if message.epoch == self._epoch and self._fences.take(message.lease_term):
                        for patch in message.patches:
                            self._recorder.patch_status(patch)
                case PreemptPods():
                    self._on_preempt(message)
                case Welcome():
                    self._on_welcome(message.epoch)
                case Drain():
                    self.drain()
                case Connected():
                    self._on_connected()
                case _:
                    assert_never(message)

    def _on_connected(self) -> None:
        if self._epoch is not None:
            self._log.warning("owner_reconnected")
        self._epoch = None
        self._void()
        self._peer.send_nowait(BinderHello(self._index))

    def _on_welcome(self, epoch: int) -> None:
        self._epoch = epoch
        self._void()
        if epoch != self._last_epoch:
            # The new owner tries every pod itself. One that is the same has no reason to say it again.
            self._recorder.forget_patches()
            self._last_epoch = epoch
        self._tell_ready()

    def _void(self) -> None:
        """Nothing that was ordered until now counts any more; the owner has given it to others."""
        if self._orders or self._in_flight:
            void = {"dropped_orders": len(self._orders), "in_flight": len(self._in_flight)}
            self._log.warning("orders_void", epoch=self._epoch, **void)
        self._orders.clear()
        self._fences.void_all()
        self._report = None
        self._is_ready = self._is_clear = False
        self._end_if_drained()

    def _on_orders(self, message: BindPods) -> None:
        if message.epoch != self._epoch or self._is_draining:
            self._log.warning("orders_refused", epoch=message.epoch, orders=len(message.orders))
            return
        if not self._fences.take(message.lease_term):
            # Their owner has lost the lease and ends, if it has not ended yet: nobody waits for them.
            self._log.warning("orders_of_lost_lease", orders=len(message.orders))
            return
        self._orders.extend(message.orders)
        self._begin_bindings()

    def _on_preempt(self, message: PreemptPods) -> None:
        if message.epoch != self._epoch or not self._fences.take(message.lease_term):
            return

        def answer(done: VictimDone) -> None:
            fence = self._fences.current()
            if fence is not None and fence.is_void:
                return
            self._open_report().victims.append(done)
            self._flush.within(0.0)

        victims = []
        for victim in message.victims:
            if victim.is_given_up or self._preempt(victim.uid):
                self._recorder.pod_preempted(victim, is_deleted=False)
                answer(VictimDone(victim.order_id, ""))
            else:
                victims.append(victim)
        self._evictor.begin(msgspec.structs.replace(message, victims=victims), answer)

    # Bindings -------------------------------------------------------------------------------------

    def _begin_bindings(self) -> None:
        if not self._is_ready or not self._orders or not self._fences.may_write():
            return
        self._recorder.set_binding(True)
        assert self._epoch is not None, "ready means welcomed"
        while self._orders and len(self._in_flight) - self._waiting_count < self._places():
            order = self._orders.popleft()
            former = self._by_pod.get(order.uid)
            fence = Fence(order.uid)
            task = self._fences.start(self._bind(order, self._epoch, former, fence), fence)
            self._in_flight[task] = fence
            self._by_pod[order.uid] = task
            task.add_done_callback(self._on_binding_over)

    def _places(self) -> int:
        """For requests in flight. Void ones, which may hang until their time is over, take nobody's,
        but together there are never more than twice as many."""
        void_count = 0 if self._is_clear else self._fences.void_count
        return self._in_flight_max + min(void_count, self._in_flight_max)

    async def _bind(
        self, order: BindPod, epoch: int, former: asyncio.Task[None] | None, fence: Fence
    ) -> None:
        """`former`: what is in flight of the pod, of an order that is void."""
        if former is not None:
            await self._over(former, fence)
            # It may have bound the pod: nobody was told what became of it.
            order = msgspec.structs.replace(order, look_first=True)
        await self._recorder.pod_ordered(order.uid)
        if self._logs_attempts:
            where = {"node": order.node_name, "look_first": order.look_first}
            self._log.debug("binding_begun", pod=order.pod, ticket=order.ticket, **where)
        try:
            outcome = await self._run(order, fence)
        except Exception as error:  # noqa: BLE001 # A plugin's bug must not cost the other bindings.
            self._log.exception("binding_failed", pod=order.pod, ticket=order.ticket)
            message = f"internal error: {type(error).__name__}: {error}"
            outcome = NotBound(BindFailureReason.UNREACHABLE, message)
        if self._logs_attempts:
            step, why = "binding_done", {}
            if isinstance(outcome, NotBound):
                step, why = "binding_refused", {"message": outcome.message}
            self._log.debug(step, pod=order.pod, ticket=order.ticket, **why)
        if fence.is_void:
            # Nobody waits for the outcome; but a new owner, who sees the pod bound, tells nobody of it.
            if isinstance(outcome, Bound) and epoch != self._epoch:
                self._recorder.pod_bound(order)
            return
        self._add_outcome(order, outcome)

    async def _over(self, former: asyncio.Task[None], fence: Fence) -> None:
        """Waits for what is in flight of the same pod. Is not cut meanwhile: whoever comes next for the
        pod waits for this task, and so for the former one."""
        fence.is_cuttable = False
        with self._waiting():
            await asyncio.wait((former,))
        fence.check()
        fence.is_cuttable = True

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Takes nobody's place among the requests in flight meanwhile."""
        self._waiting_count += 1
        try:
            self._begin_bindings()
            yield
        finally:
            self._waiting_count -= 1

    async def _run(self, order: BindPod, fence: Fence) -> Outcome:
        begun_s = self._clock.monotonic_s()
        must_wait = self._cycle.must_wait(order)
        labels = ("PreBindPreFlight", "Success" if must_wait else "Skip", order.profile)
        self._tally.observe("extension_point_s", labels, 0.0)
        if must_wait:
            prepared = await self._prepare(order, fence)
            begun_s = self._time("PreBind", order, begun_s, prepared)
            if isinstance(prepared, NotBound):
                return prepared
            await self._recorder.pod_ordered(order.uid)
        else:
            self._tally.observe("extension_point_s", ("PreBind", "Success", order.profile), 0.0)
        fence.is_cuttable = False
        outcome = await self._cycle.bind(order)
        held_s = outcome.held_s if isinstance(outcome, Bound) else 0.0
        begun_s = self._time("Bind", order, begun_s + held_s, outcome)
        if isinstance(outcome, Bound):
            await self._cycle.post_bind(order)
            self._time("PostBind", order, begun_s, outcome)
        return outcome

    async def _prepare(self, order: BindPod, fence: Fence) -> Allowed | NotBound:
        """Of what waits for volumes or plugins. Where that is wanted the pod's status says first where
        it is going; a failure to say so keeps no pod from its node (bindingCycle in
        pkg/scheduler/schedule_one.go, v1.36)."""
        with self._waiting():
            fence.is_preparing = True
            try:
                if order.announces:
                    whose = (order.profile, order.namespace, order.name, order.uid)
                    node = order.node_name
                    said = StatusPatch(*whose, ticket=order.ticket, nominated_node_name=node)
                    self._recorder.patch_status(said)
                    await asyncio.wait((self._recorder.writing(order.uid),))
                return await self._cycle.prepare(order)
            except asyncio.CancelledError:
                if not fence.is_preempted:
                    raise
                task = asyncio.current_task()
                assert task is not None, "bindings run in tasks"
                task.uncancel()
                return await self._cycle.give_up(order)
            finally:
                fence.is_preparing = False

    def _time(self, point: str, order: BindPod, begun_s: float, became: Allowed | Outcome) -> float:
        now_s = self._clock.monotonic_s()
        labels = (point, "Error" if isinstance(became, NotBound) else "Success", order.profile)
        self._tally.observe("extension_point_s", labels, now_s - begun_s)
        return now_s

    def _preempt(self, uid: str) -> bool:
        """A pod that is being prepared gives its place up and goes back to the queue, and need not be
        deleted; says whether it was (PodsInPreBind in pkg/scheduler/framework/preemption/executor.go,
        v1.36.2)."""
        task = self._by_pod.get(uid)
        if task is None or not (fence := self._in_flight[task]).is_preparing:
            return False
        fence.is_preparing, fence.is_preempted = False, True
        task.cancel()
        return True

    def _open_report(self) -> BindReport:
        if self._report is None:
            assert self._epoch is not None, "what has an outcome was ordered"
            self._report = BindReport(self._epoch, [], [], [])
            self._finished_at_s = 0.0
        return self._report

    def _add_outcome(self, order: BindPod, outcome: Outcome) -> None:
        report = self._report or self._open_report()
        match outcome:
            case Bound():
                report.finished.append(order.ticket)
                self._finished_at_s += self._clock.monotonic_s() - outcome.held_s
                self._recorder.pod_bound(order)
            case NotBound():
                reason, message, claims_left = outcome
                was_announced = order.announces and self._cycle.must_wait(order)
                report.failed.append(
                    BindFailed(order.ticket, reason, message, was_announced, claims_left)
                )
            case _:
                assert_never(outcome)
        is_urgent = report.failed or len(report.finished) >= REPORT_HELD_MAX or self._is_draining
        self._flush.within(0.0 if is_urgent else REPORT_HELD_S)

    def _on_binding_over(self, task: asyncio.Task[None]) -> None:
        uid = self._in_flight.pop(task).uid
        if self._by_pod.get(uid) is task:
            del self._by_pod[uid]
        if not task.cancelled():
            task.result()
        if self._orders:
            self._begin_bindings()
        if not self._is_clear:
            self._tell_ready()
        if not self._in_flight:
            self._recorder.set_binding(bool(self._orders))
            self._end_if_drained()

    # What the owner is told -----------------------------------------------------------------------

    def _flush_reports(self) -> None:
        self._flush.cancel()
        if self._report is not None and self._peer.send_nowait(self._aged(self._report)):
            self._report = None
        if self._report is not None:
            self._flush.within(RESEND_S)
        self._end_if_drained()

    def _aged(self, report: BindReport) -> BindReport:
        """With the time that it waited here, which is no part of what bindings took."""
        held_s = self._clock.monotonic_s() - self._finished_at_s / max(1, len(report.finished))
        return msgspec.structs.replace(report, held_s=held_s if report.finished else 0.0)

    def _tell_ready(self) -> None:
        """Says BinderReady: at once, and again when nothing of before is in flight any more."""
        if self._epoch is None or self._is_clear:
            return
        void_count = self._fences.void_count
        if self._is_ready and void_count:
            return
        if self._peer.send_nowait(BinderReady(self._epoch, void_count)):
            self._is_ready, self._is_clear = True, not void_count
            self._log.info("binder_ready", epoch=self._epoch, in_flight=void_count)
            self._begin_bindings()

    async def _tick(self) -> None:
        while True:
            self._stirred.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(until_beat_s(self._loop.time())):
                    if self._is_clear and not self._in_flight:
                        await self._stirred.wait()
                    await asyncio.sleep(TICK_S)
            if self._fences.has_lapsed():
                # The owner ends; its successor learns from the API server what became of the bindings
                # under way, so nobody is told of them, and connections that hang are cut.
                left = {"dropped_orders": len(self._orders), "in_flight": len(self._in_flight)}
                self._log.warning("lease_lost", **left)
                self._abandon()
            if self._epoch is None:
                self._peer.send_nowait(BinderHello(self._index))
            else:
                self._tell_ready()
                if self._peer.send_nowait(BinderHeartbeat(self._index, measured_by(self._tally))):
                    self._tally.clear()
            now_s = self._clock.monotonic_s()
            if now_s - self._recorder_ticked_s >= RECORDER_TICK_S:
                self._recorder_ticked_s = now_s
                self._recorder.tick()

    def _abandon(self) -> None:
        self._orders.clear()
        self._fences.cut_all()

    def _end_if_drained(self) -> None:
        if not self._is_draining or self._drained.done():
            return
        is_reported = self._report is None or self._epoch is None
        if not self._orders and not self._in_flight and is_reported:
            self._drained.set_result(None)
