"""The recorder: writes what pods' statuses are to say and events, and never delays a binding.

It has connections of its own, and while bindings are queued or under way it writes only a trickle;
without bindings it writes at a limited rate, so that 10,000 pods that fit nowhere do not fill the API
server. An event waits a little, and is then written with all that came meanwhile, one behind the other
on one connection: the process finds its caches cold once for all of them.
A status that says where the pod is nominated (or is no more) is written at once, its condition with it:
room is kept for the pod by that word alone once the owner is gone, others wait for what is given up, and
the cluster autoscaler counts by it. There are as many as pods make others go or wait before they are
bound, and each of these is several requests anyway. What fails of it waits in line as the rest does.
What waits is bounded: the oldest events go first, conditions only when there are no events left to
drop, because a condition is state that tools act on and an event is a hint for people.

A condition is patched only when it differs from what this binder last wrote for that pod or, where it
has written nothing, from what the pod said when it was tried. Events that are repeated about the same
version of a pod (but that it is bound) become a series, whatever they say: the first is written, the
second makes it a series of two, more are counted and written every half hour and when the series has
been quiet for some minutes, as client-go does (tools/events/event_broadcaster.go, v1.36.2;
a new condition makes a new version, so that what is news is told). What is known of pods is
bounded, the least recently used is forgotten; a forgotten pod's event is then written once more.

Failures are retried a few times while everything waits, then given up.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Coroutine
from math import inf
from typing import Any, Final, NamedTuple

import msgspec

from shared.clock import Clock
from shared.kube.api_client import ApiClient, Urgency
from shared.kube.api_errors import (
    TRANSIENT,
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    TransportError,
)
from shared.kube.timestamps import micro_time
from shared.limits import CONDITIONS_MAX, EVENT_SERIES_MAX
from shared.messages.to_binder import BindPod, DeleteVictim, StatusPatch
from shared.rate_limit import RateLimit
from shared.soonest_call import SoonestCall
from shared.telemetry.log import EventLog
from workers.binder.api_bodies import (
    EVENTS_API,
    REQUEST_TIMEOUT_S,
    Event,
    Series,
    event_body,
    event_name,
    failed_scheduling_event,
    pod_group_path,
    pod_path,
    preempted_event,
    scheduled_event,
    series_patch,
    status_patch,
    waiting_for_devices_event,
)
from workers.binder.retries import Patience

SERIES_FINISH_S: Final = 6 * 60.0
SERIES_REFRESH_S: Final = 30 * 60.0

TRIES_MAX: Final = 5
PATIENCE: Final = Patience(pause_s=0.5, pause_s_max=30.0)
"""All that is to be written waits together; each is given up after `TRIES_MAX`."""
PATCHES_MAX: Final = 32
"""Statuses under way at the same time, of those that are written at once; the others wait before their
time begins to count."""
EVENTS_MAX: Final = 64
"""Under way at the same time: what 250 a second come to where an answer lies for a fifth of one, twice
what goes on one connection."""


class RecorderSettings(NamedTuple):
    """How much may wait, and how much is written beside bindings."""

    queue_max: int = 20_000
    """Conditions and events that wait. An event is some 500 bytes: 10 MB."""
    quiet_s: float = 0.1
    """Without a binding for so long, bindings are over; a shorter gap is one between batches."""
    writes_max: int = 4
    """Statuses under way at the same time; as many connections."""
    trickle_per_s: float = 50.0
    """Written each second while bindings are under way; the API server's work for one is about
    that of a binding, so 50 are a few percent of a busy second."""
    held_s: float = 0.5
    """The longest that events wait for others to be written with."""


class _EventEntry(msgspec.Struct, eq=False):
    """An event that waits, is being written, or may become a series."""

    event: Event | BindPod
    """An order: that its pod is bound. The event is made when it is written."""
    first_s: float
    last_s: float
    ticket: int
    """Of the attempt that it tells of; of a series, of the first."""
    name: str = ""
    """Made when first written: most events of a busy time never are."""
    count: int = 1
    written_s: float = 0.0
    written_count: int = 0
    """0: the API server has no such event (any more)."""
    is_waiting: bool = False
    since_s: float = 0.0
    """When it began to wait, by the monotonic clock."""
    tries: int = 0


class _PatchWrite(msgspec.Struct, eq=False):
    done: asyncio.Future[None]
    newer: StatusPatch | None = None
    """What came up for the same pod meanwhile; written after, so that none overtakes another."""
    is_moot: bool = False
    """The pod is to be bound: not to be tried again."""


class _WrittenCondition(NamedTuple):
    reason: str
    message: str
    observed_generation: int
    is_scheduled: bool


class EventRecorder:
    """Takes what statuses are to say, and bound pods; writes when bindings leave room."""

    def __init__(
        self,
        api: ApiClient,
        settings: RecorderSettings,
        clock: Clock,
        host_name: str,
        rate: RateLimit | None = None,
    ) -> None:
        """`rate`: of what is written at all times; None: as fast as the API server takes it."""
        self._api = api
        self._settings = settings
        self._rate = rate
        self._clock = clock
        self._host_name = host_name
        self._loop = asyncio.get_running_loop()
        self._log = EventLog("binder.recorder")
        self.events_dropped_count = 0
        """Events that were never written: no room, or given up."""
        self.patches_dropped_count = 0
        self._events: deque[_EventEntry] = deque()
        self._patches: OrderedDict[str, tuple[StatusPatch, int]] = OrderedDict()
        """UID -> what the status is to say, and how often that was tried."""
        self._series: OrderedDict[Event, _EventEntry] = OrderedDict()
        """By all but the note."""
        self._written: OrderedDict[str, _WrittenCondition] = OrderedDict()
        self._writing: dict[str, _PatchWrite] = {}
        self._slots = asyncio.Semaphore(PATCHES_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._events_under_way = 0
        self._quiet_at_s = 0.0
        """From when on bindings are over; `inf` while there are any."""
        self._next_trickle_s = 0.0
        self._grouped_s = 0.0
        """Events that began to wait by then have waited long enough, as one of them has."""
        self._failures_in_a_row = 0
        self._resume_s = 0.0
        self._wakeup = SoonestCall(self._loop, self._pump)
        self._emptied: asyncio.Future[None] | None = None
        """Once it drains: nothing waits any more."""

    # What the binder says -------------------------------------------------------------------------

    @property
    def waiting_count(self) -> int:
        return len(self._events) + len(self._patches)

    def set_binding(self, is_binding: bool) -> None:
        """Whether bindings are queued or under way."""
        now_s = self._clock.monotonic_s()
        self._quiet_at_s = inf if is_binding else now_s + self._settings.quiet_s
        if self._quiet_at_s < self._next_trickle_s:
            self._pump()

    async def pod_ordered(self, uid: str) -> None:
        """A pod is to be bound: that it could not be scheduled, or where it is nominated, must not be
        said any more, least of all after the binding, which ends any nomination at the API server. Ends
        when what is being written is through (`Relevances` in
        pkg/scheduler/framework/api_calls/api_calls.go, v1.36.2)."""
        self._patches.pop(uid, None)
        write = self._writing.get(uid)
        if write is not None:
            write.newer = None
            write.is_moot = True
            await asyncio.wait((write.done,))  # To be cut here must not cancel the future.

    def writing(self, uid: str) -> asyncio.Future[None]:
        """Ends when what is being written of the pod is through, as its nomination is at once."""
        return self._writing[uid].done

    def forget_patches(self) -> None:
        """They were another owner's: none must be written after a word of the new one, who has read what
        pods say by now, whoever wrote it."""
        self._patches.clear()
        self._written.clear()
        for write in self._writing.values():
            write.newer = None
            write.is_moot = True

    def pod_bound(self, order: BindPod) -> None:
        """Writes the Scheduled event; the API server sets the condition itself."""
        self._written.pop(order.uid, None)
        self._wait_for_event(order, order.ticket)

    def pod_waits_for_devices(self, order: BindPod) -> None:
        self._count_event(waiting_for_devices_event(order), order.ticket)
        self._pump()

    def pod_preempted(self, order: DeleteVictim, *, is_deleted: bool = True) -> None:
        self._count_event(preempted_event(order, is_deleted=is_deleted), order.ticket)
        self._pump()

    def patch_status(self, patch: StatusPatch) -> None:
        """Writes the nomination, the condition if it is news, and the FailedScheduling event."""
        write = self._writing.get(patch.uid)
        if write is not None:
            write.newer = patch if write.newer is None else patch.over(write.newer)
        else:
            self._wait_for_patch(patch)
        if patch.write_event:
            self._count_event(failed_scheduling_event(patch), patch.ticket)
        self._make_room()
        self._pump()

    def tick(self) -> None:
        """About once a minute: writes what series have counted, forgets quiet ones."""
        now_s = self._clock.wall_s()
        for key, entry in list(self._series.items()):
            # A clock that was set back ends a series too, else none is refreshed until it catches up.
            is_quiet = abs(now_s - entry.last_s) >= SERIES_FINISH_S
            is_due = is_quiet or now_s - (entry.written_s or entry.first_s) >= SERIES_REFRESH_S
            if entry.count > 1 and entry.count > entry.written_count and is_due:
                self._wait_to_write(entry)
            if is_quiet:
                del self._series[key]
        self._pump()

    async def drain(self, timeout_s: float) -> None:
        """Writes all that waits, as far as `timeout_s` goes, without regard to bindings. The rest is for
        `close` to end."""
        self._emptied = self._loop.create_future()
        self._pump()
        try:
            async with asyncio.timeout(timeout_s):
                await self._emptied
        except TimeoutError:
            self.events_dropped_count += len(self._events)
            self.patches_dropped_count += len(self._patches)
            self._log.warning(
                "recorder_gave_up", events=len(self._events), statuses=len(self._patches)
            )

    def close(self) -> None:
        """Stops at once; what waits is lost."""
        self._wakeup.cancel()
        self._events.clear()
        self._patches.clear()
        for task in self._tasks:
            task.cancel()

    # What waits -----------------------------------------------------------------------------------

    def _wait_for_patch(self, patch: StatusPatch) -> None:
        uid, is_urgent = patch.uid, patch.nominated_node_name is not None
        older = self._patches.get(uid)
        if older is not None:
            patch = patch.over(older[0])
        if patch.nominated_node_name is not None or not self._is_told(patch):
            self._patches[uid] = (patch, 0)
        else:
            # What waits, if anything, is older than what was written, which now holds again.
            self._patches.pop(uid, None)
        if is_urgent:
            self._start(self._next_patch(uid))

    def _is_told(self, patch: StatusPatch) -> bool:
        """Whether the condition says just this already: what was written here is newer than the owner's
        view of it."""
        written = self._written.get(patch.uid)
        return patch.is_told if written is None else written == _condition_of(patch)

    def _count_event(self, event: Event, ticket: int) -> None:
        now_s = self._clock.wall_s()
        key = _series_key(event)
        entry = self._series.get(key)
        if entry is None:
            entry = self._series[key] = _EventEntry(event, now_s, now_s, ticket)
            self._wait_to_write(entry)
            if len(self._series) > EVENT_SERIES_MAX:
                _, oldest = self._series.popitem(last=False)
                if oldest.count > max(1, oldest.written_count):
                    self._wait_to_write(oldest)
            return
        self._series.move_to_end(key)
        entry.count += 1
        entry.last_s = now_s
        if entry.written_count == 1 and entry.count == 2:
            self._wait_to_write(entry)

    def _wait_for_event(self, event: BindPod, ticket: int) -> None:
        now_s = self._clock.wall_s()
        self._wait_to_write(_EventEntry(event, now_s, now_s, ticket))
        if not self._wakeup.is_to_come:
            # Else something is due at a time that one more event does not change.
            self._pump()

    def _wait_to_write(self, entry: _EventEntry) -> None:
        if entry.is_waiting:
            return
        entry.is_waiting = True
        entry.since_s = self._clock.monotonic_s()
        self._events.append(entry)
        self._make_room()

    def _make_room(self) -> None:
        while len(self._events) + len(self._patches) > self._settings.queue_max:
            if self._events:
                self._drop(self._events.popleft())
                continue
            self._patches.popitem(last=False)
            self.patches_dropped_count += 1

    def _drop(self, entry: _EventEntry) -> None:
        entry.is_waiting = False
        self.events_dropped_count += 1
        if not entry.written_count and isinstance(entry.event, Event):
            # The next of its kind is a first one again.
            self._series.pop(_series_key(entry.event), None)

    # Writing --------------------------------------------------------------------------------------

    def _pump(self) -> None:
        while write := self._next_write():
            self._start(write)
        emptied = self._emptied
        if emptied is not None and not (emptied.done() or self._tasks or self.waiting_count):
            emptied.set_result(None)

    def _start(self, write: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(write)
        self._tasks.add(task)
        task.add_done_callback(self._on_written)

    def _may_write_at_s(self, now_s: float) -> float:
        at_s = max(now_s, self._resume_s)
        if self._emptied is not None:
            return at_s
        if self._rate is not None:
            at_s = max(at_s, now_s + self._rate.wait_s(now_s))
        if not self._patches and self._events[0].since_s > self._grouped_s:
            at_s = max(at_s, self._events[0].since_s + self._settings.held_s)
        trickle_s = self._next_trickle_s
        if trickle_s > now_s:
            trickle_s += self._settings.held_s  # Not one by one.
        return max(at_s, min(self._quiet_at_s, trickle_s))

    def _on_written(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self._pump()
            task.result()

    def _next_write(self) -> Coroutine[Any, Any, None] | None:
        """What may be written now. None: nothing; if anything waits, `_pump` is called when it may."""
        if self._patches:
            has_place = len(self._tasks) - self._events_under_way < self._settings.writes_max
        else:
            has_place = bool(self._events) and self._events_under_way < EVENTS_MAX
        if not has_place:
            return None
        now_s = self._clock.monotonic_s()
        next_s = self._may_write_at_s(now_s)
        if next_s > now_s:
            self._wakeup.within(next_s - now_s)
            return None
        # Those of the time that they are held are begun together, at the same rate.
        earliest_s = max(self._next_trickle_s, now_s - self._settings.held_s)
        self._next_trickle_s = earliest_s + 1.0 / self._settings.trickle_per_s
        if self._rate is not None:
            self._rate.reserve(now_s)
        if self._patches:
            return self._next_patch(next(iter(self._patches)))
        entry = self._events.popleft()
        entry.is_waiting = False
        if entry.since_s > self._grouped_s:
            self._grouped_s = now_s
        self._events_under_way += 1
        return self._write_event(entry)

    def _next_patch(self, uid: str) -> Coroutine[Any, Any, None]:
        patch, tries = self._patches.pop(uid)
        write = self._writing[uid] = _PatchWrite(self._loop.create_future())
        return self._write_patch(patch, tries, write)

    async def _write_patch(self, patch: StatusPatch, tries: int, write: _PatchWrite) -> None:
        before = self._written.get(patch.uid)
        is_turn = not patch.is_same_status
        if before is not None:
            is_turn = before.is_scheduled is not patch.is_scheduled
        body = status_patch(patch, self._clock.wall_s() if is_turn else None)
        path_of = pod_group_path if patch.is_group else pod_path
        path = path_of(patch.namespace, patch.name) + "/status"
        try:
            async with self._slots:
                await self._api.patch(path, body, timeout_s=REQUEST_TIMEOUT_S)
        except (NotFound, Conflict):
            self._written.pop(patch.uid, None)  # The pod is gone, or another one has its name.
            self._failures_in_a_row = 0
        except (ApiError, TransportError) as error:
            if not self._may_try_again(error, tries + 1):
                self.patches_dropped_count += 1
                whose = {"pod": f"{patch.namespace}/{patch.name}", "ticket": patch.ticket}
                self._log.warning("status_not_written", error=str(error), **whose)
            elif not write.is_moot:
                self._patches[patch.uid] = (patch, tries + 1)
                self._patches.move_to_end(patch.uid, last=False)
        else:
            self._failures_in_a_row = 0
            if patch.reason:
                self._written[patch.uid] = _condition_of(patch)
                self._written.move_to_end(patch.uid)
                if len(self._written) > CONDITIONS_MAX:
                    self._written.popitem(last=False)
        finally:
            del self._writing[patch.uid]
            write.done.set_result(None)
        if write.newer is not None:
            self._wait_for_patch(write.newer)

    async def _write_event(self, entry: _EventEntry) -> None:
        count = entry.count
        try:
            await self._send_event(entry, count)
        except (ApiError, TransportError) as error:
            entry.tries += 1
            if not self._may_try_again(error, entry.tries):
                self._drop(entry)
                pod = entry.event.regarding if isinstance(entry.event, Event) else entry.event
                whose = {"pod": f"{pod.namespace}/{pod.name}", "ticket": entry.ticket}
                self._log.debug("event_not_written", error=str(error), **whose)
            elif not entry.is_waiting:
                entry.is_waiting = True
                self._events.appendleft(entry)
        else:
            self._failures_in_a_row = 0
            entry.tries = 0
            entry.written_count = count
            entry.written_s = self._clock.wall_s()
            if count == 1 and entry.count > 1:
                self._wait_to_write(entry)  # It became a series while it was written.
        finally:
            self._events_under_way -= 1

    async def _send_event(self, entry: _EventEntry, count: int) -> None:
        event = entry.event
        if isinstance(event, BindPod):
            event = entry.event = scheduled_event(event)
        path = f"/apis/{EVENTS_API}/namespaces/{event.regarding.namespace}/events"
        series = Series(count, micro_time(entry.last_s)) if count > 1 else None
        if entry.written_count and series is not None:
            try:
                await self._api.patch(
                    f"{path}/{entry.name}", series_patch(series), timeout_s=REQUEST_TIMEOUT_S
                )
            except NotFound:
                entry.written_count = 0  # It has expired meanwhile; below it is made again.
            else:
                return
        entry.name = entry.name or event_name(event.regarding.name, entry.first_s)
        instance = f"{event.profile}-{self._host_name}"
        body = event_body(event, entry.name, instance, entry.first_s, series)
        try:
            await self._api.request(
                "POST", path, body, timeout_s=REQUEST_TIMEOUT_S, urgency=Urgency.NONE
            )
        except AlreadyExists:
            return  # An earlier POST was carried out after all, only its answer was lost.

    def _may_try_again(self, error: ApiError | TransportError, tries: int) -> bool:
        """Whether what failed so often is tried once more. If that might help, nothing is written for a
        while: the API server, or the way to it, is in trouble."""
        if not isinstance(error, TRANSIENT):
            return False
        now_s = self._clock.monotonic_s()
        # What failed together failed once.
        self._failures_in_a_row += now_s >= self._resume_s
        delay_s = PATIENCE.pause(self._failures_in_a_row - 1, error)
        self._resume_s = max(self._resume_s, now_s + delay_s)
        return tries < TRIES_MAX


def _condition_of(patch: StatusPatch) -> _WrittenCondition:
    """As far as another one is news. Of a pod the generation alone is none (UpdatePodCondition in
    pkg/api/v1/pod/util.go, v1.36.2)."""
    generation = patch.observed_generation if patch.is_group else 0
    return _WrittenCondition(patch.reason, patch.message, generation, patch.is_scheduled)


def _series_key(event: Event) -> Event:
    """As getKey in tools/events/event_broadcaster.go: all but the note. The host is always ours."""
    return event._replace(note="")
