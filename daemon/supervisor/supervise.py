"""The supervise loop: starts the processes, looks after them and ends them.

Life of a berth: *starting* until the owner says that it has listed the cluster and that a scorer
and a binder are there; *running*; on SIGHUP *reloading* (drained, and everybody who reads the
configuration started anew) until that is so again; on SIGTERM or SIGINT *draining* (the owner gives
out no more work and answers when no binding is in flight), then *stopping* (SIGTERM to all, SIGKILL
to those that are still there after a while). A second signal kills at once; one within
`SIGNAL_ECHO_S` of the first is the same, for service managers and shells send them twice. A child that
dies in between is started again as `restart_policy` says.

If this process itself is killed, the children see the end of their lifeline and stop by themselves.
"""

import asyncio
import enum
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from daemon.supervisor.child import Child
from daemon.supervisor.children import LEADER, OWNER, ChildSpec
from daemon.supervisor.dumper import dump
from daemon.supervisor.launcher import Launch, Launched, system_launch
from daemon.supervisor.plan import Plan, lay_out
from daemon.supervisor.process_list import ProcessList, SupervisorLock, entry_of, write_list
from daemon.supervisor.restart_policy import Exit, GiveUp, exit_text, next_step
from daemon.supervisor.sd_notify import ServiceNotifier
from shared import exit_codes
from shared.clock import Clock, SystemClock
from shared.errors import ConfigurationError
from shared.limits import CHILD_STOP_S, LOOK_PERIOD_S, STATUS_PERIOD_S
from shared.messages.admin import StatusAnswer, StatusRequest, StopRequest, TextAnswer
from shared.runtime_options import RuntimeOptions
from shared.telemetry.log import EventLog
from shared.transport.lease_gate import GATE_NAME, LeaseGate
from shared.transport.owner_link import NoAnswerError, OwnerLink

log = EventLog("supervisor")

STARTING_PERIOD_S: Final = 0.1
"""Until berth is ready somebody waits for it."""
SIGNAL_ECHO_S: Final = 1.0
"""Two signals within this time are one."""


class State(enum.StrEnum):
    """What the supervisor is doing, in order; it goes back from reloading to running only."""

    STARTING = "starting"
    RUNNING = "running"
    RELOADING = "reloading"
    DRAINING = "draining"
    STOPPING = "stopping"


Respecify = Callable[[], list[ChildSpec]]
"""Reads and checks the configuration anew, and says which children there are to be."""


def run(plan: Plan, make_plan: Callable[[], Plan]) -> int:
    """Runs a berth until it is told to stop; the exit code. `make_plan` reads and checks everything
    anew, at each reload; ConfigurationError if anything cannot be used."""
    # Its own in elections, as kube-scheduler makes one: the host's name, then what no other process has.
    identity = f"{socket.gethostname()}_{secrets.token_hex(16)}"
    options = plan.children.options
    with SupervisorLock(Path(options.runtime_dir)):
        lifeline_read, lifeline_write = os.pipe()
        try:
            specs = _laid_out_first(plan, lifeline_read, identity)

            def respecify() -> list[ChildSpec]:
                return lay_out(make_plan(), lifeline_read, identity)

            launch = system_launch(lifeline_read)
            return asyncio.run(Supervisor(options, specs, launch, respecify).run())
        finally:
            os.close(lifeline_read)
            os.close(lifeline_write)


def _laid_out_first(plan: Plan, lifeline_fd: int, identity: str) -> list[ChildSpec]:
    """The children to begin with; ConfigurationError where their files cannot be written."""
    runtime_dir = Path(plan.children.options.runtime_dir)
    try:
        # What an earlier berth on this directory was allowed is nothing to this one.
        LeaseGate(runtime_dir / GATE_NAME, SystemClock()).close()
        return lay_out(plan, lifeline_fd, identity)
    except OSError as error:
        problem = f"cannot be written: {error.strerror}; make room there, or choose another"
        raise ConfigurationError(str(runtime_dir), [f"{problem} --runtime-dir"]) from error


class Supervisor:
    def __init__(
        self,
        options: RuntimeOptions,
        specs: Sequence[ChildSpec],
        launch: Launch,
        respecify: Respecify,
        clock: Clock | None = None,
        owner: OwnerLink | None = None,
        tell_list: Callable[[ProcessList], None] | None = None,
    ) -> None:
        """The last three for a berth that is none of the system's. `tell_list`: OSError where those who
        want to know cannot be told."""
        runtime_dir = Path(options.runtime_dir)
        self._options = options
        self._respecify = respecify
        self._epoch = 0
        """Of the owner that answered last."""
        self._reload_turn = asyncio.Lock()
        self._clock = clock or SystemClock()
        self._launch = launch
        self._tell_list = tell_list or partial(write_list, runtime_dir)
        self._children = [Child(spec, launch) for spec in specs]
        self._own_entry = entry_of("supervisor", os.getpid())
        self._state = State.STARTING
        self._exit_code = exit_codes.OK
        self._stop_asked = asyncio.Event()
        self._is_killing = False
        self._child_ended = asyncio.Event()
        self._owner = owner or OwnerLink(runtime_dir)
        self._notifier = ServiceNotifier()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop_signal_s: float | None = None
        """When a signal first said so; it may have been asked to stop by something else before."""
        self._signalled: set[Callable[[], Coroutine[None, None, None]]] = set()
        """What the signals of the last moment ask for."""
        self._reload_count = 0
        self._reload_problems: list[str] = []
        """For `berth reload`: the reloads that were asked for, and why the last was refused."""

    async def run(self) -> int:
        """From the first child's start to the last one's end; the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_stop_signal, number)
        loop.add_signal_handler(signal.SIGHUP, self._on_work_signal, self._reload)
        dumping = partial(dump, self._owner, Path(self._options.runtime_dir))
        loop.add_signal_handler(signal.SIGUSR2, self._on_work_signal, dumping)
        if self._options.exit_with_parent:
            loop.add_reader(sys.stdin.fileno(), self._on_input)
        try:
            for child in self._children:
                self._start(child)
            watches = [
                loop.create_task(self._watch_owner()),
                loop.create_task(self._watch_heartbeats()),
            ]
            asked = loop.create_task(self._stop_asked.wait())
            done, _ = await asyncio.wait({asked, *watches}, return_when=asyncio.FIRST_COMPLETED)
            for watch in watches:
                if watch in done:
                    watch.result()  # A bug: nobody would look after the children any more.
                watch.cancel()
            await self._drain()
            await self._stop_children()
        finally:
            for child in self._children:
                child.send_signal(signal.SIGKILL)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
                loop.remove_signal_handler(number)
        log.info("stopped", exit_code=self._exit_code)
        return self._exit_code

    # Children -------------------------------------------------------------------------------------

    def _start(self, child: Child) -> None:
        child.restart = None
        try:
            child.start(self._clock.monotonic_s())
        except (OSError, ImportError) as error:
            # No memory or no process ids left: a death at birth, with the pauses that go with it.
            log.warning("child_not_started", child=child.name, reason=str(error))
            child.exits.append(Exit(exit_codes.FAILED, 0.0))
            self._replace(child, 0)
            return
        assert child.process is not None, "just started"
        child.process.call_at_end(partial(self._on_exit, child))
        log.info(
            "child_started", child=child.name, pid=child.process.pid, restarts=len(child.exits)
        )
        self._write_list()

    def _on_exit(self, child: Child) -> None:
        pid, code = child.reap()
        self._child_ended.set()
        is_ending = self._state in (State.DRAINING, State.STOPPING)
        if child.next_spec != child.spec and not is_ending:
            self._succeed(child, pid, code)
            return
        child.add_death(code, self._clock.monotonic_s())
        if is_ending:
            log.info("child_ended", child=child.name, pid=pid, how=exit_text(code))
        else:
            self._replace(child, pid)
        self._write_list()

    def _replace(self, child: Child, pid: int) -> None:
        last = child.exits[-1]
        fields = {
            "child": child.name,
            "pid": pid,
            "how": exit_text(last.code),
            "ran_s": round(last.ran_s, 3),
        }
        match next_step(child.exits, is_optional=child.spec.is_optional):
            case GiveUp(reason):
                log.error("giving_up", **fields, reason=reason)
                self._exit_code = exit_codes.FAILED
                if last.code == exit_codes.UNUSABLE:
                    self._exit_code = exit_codes.UNUSABLE
                self._stop_asked.set()
            case after_s:
                log.warning("child_died", **fields, restart_after_s=after_s)
                loop = asyncio.get_running_loop()
                child.restart = loop.call_later(after_s, self._start, child)

    def _running(self) -> list[Child]:
        return [child for child in self._children if child.process is not None]

    def _write_list(self) -> None:
        try:
            entries = [self._own_entry, *(child.entry() for child in self._children)]
            listed = ProcessList(self._state, entries, self._reload_count, self._reload_problems)
            self._tell_list(listed)
        except OSError as error:
            # A full disk blinds `berth status`; it must not stop the scheduling.
            log.warning("process_list_not_written", reason=str(error))

    # Health ---------------------------------------------------------------------------------------

    async def _watch_heartbeats(self) -> None:
        while True:
            await asyncio.sleep(LOOK_PERIOD_S)
            for child in self._running():
                if child.hangs(self._clock.monotonic_s()):
                    silent_s = round(child.silence.silent_s)
                    action = "kill and start again"
                    log.error("child_hangs", child=child.name, silent_s=silent_s, action=action)
                    child.send_signal(signal.SIGKILL)
            notes = [child.take_note() for child in self._running()]
            if any(notes):
                self._write_list()

    async def _watch_owner(self) -> None:
        watchdog_s = self._notifier.watchdog_s
        period_s = min(STATUS_PERIOD_S, watchdog_s / 3) if watchdog_s else STATUS_PERIOD_S
        await self._until_ready()
        while True:
            await asyncio.sleep(period_s)
            await self._ask_owner()

    async def _until_ready(self) -> None:
        while self._state in (State.STARTING, State.RELOADING):
            await asyncio.sleep(STARTING_PERIOD_S)
            await self._ask_owner()

    async def _ask_owner(self) -> None:
        try:
            answer = await self._owner.ask(StatusRequest(), StatusAnswer, timeout_s=5.0)
        except NoAnswerError as error:
            log.debug("owner_silent", reason=str(error))
            return
        self._on_status(answer)

    def _on_status(self, answer: StatusAnswer) -> None:
        summary = (
            f"{answer.node_count} nodes, {answer.pod_count} pods, {answer.queue.active} waiting"
        )
        is_ready = answer.synced and answer.scorers_ready > 0 and answer.binders_ready > 0
        if answer.is_standby:
            summary = f"standing by; {summary}"
        is_old = self._state is State.RELOADING and answer.epoch == self._epoch
        if self._state in (State.STARTING, State.RELOADING) and is_ready and not is_old:
            self._state = State.RUNNING
            self._write_list()
            self._notifier.tell("READY=1", summary)
            log.info(
                "ready",
                nodes=answer.node_count,
                pods=answer.pod_count,
                is_standby=answer.is_standby,
            )
        if self._state is not State.RELOADING:
            self._epoch = answer.epoch
        self._notifier.tell("WATCHDOG=1", summary)

    # Signals --------------------------------------------------------------------------------------

    def _on_stop_signal(self, number: signal.Signals) -> None:
        now_s = self._clock.monotonic_s()
        if self._stop_signal_s is None:
            log.info("stopping", signal=number.name, drain_s=self._options.drain_s)
            self._stop_signal_s = now_s
            self._stop_asked.set()
        elif now_s - self._stop_signal_s >= SIGNAL_ECHO_S:
            log.warning("killing", signal=number.name, reason="told twice")
            self._exit_code = exit_codes.FAILED
            self._is_killing = True
            self._child_ended.set()  # Who waits for an end has to look at this as well.

    def _on_input(self) -> None:
        if os.read(sys.stdin.fileno(), 4096):
            return
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        log.info("stopping", reason="standard input ended", drain_s=self._options.drain_s)
        self._stop_asked.set()

    def _on_work_signal(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Begins when no further signal can be the same one any more: what was written between the two
        counts as well."""
        if work not in self._signalled:
            self._signalled.add(work)
            asyncio.get_running_loop().call_later(SIGNAL_ECHO_S, self._begin, work)

    def _begin(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        self._signalled.discard(work)
        task = asyncio.get_running_loop().create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Reload ---------------------------------------------------------------------------------------

    async def _reload(self) -> None:
        async with self._reload_turn:
            if self._state is not State.RUNNING:
                log.warning("reload_refused", state=self._state, remedy="try again when it runs")
                self._tell_reload([f"berth is {self._state}; try again when it runs"])
                return
            # With the time by which systemd tells this reload from the last one.
            now_us = int(self._clock.monotonic_s() * 1e6)
            self._notifier.tell(f"RELOADING=1\nMONOTONIC_USEC={now_us}", "reloading")
            try:
                specs = self._respecify()
            except (ConfigurationError, OSError) as error:
                problems = error.problems if isinstance(error, ConfigurationError) else [str(error)]
                for problem in problems:
                    log.error("reload_refused", problem=problem, remedy="the old one stays in use")
                self._notifier.tell("READY=1", "running; the new configuration was refused")
                self._tell_reload(problems)
                return
            log.info("reloading")
            # For its epoch: who answers later with the same is the old one.
            await self._ask_owner()
            await self._enter_reload(specs)
        await self._until_ready()

    def _tell_reload(self, problems: list[str]) -> None:
        self._reload_count += 1
        self._reload_problems = problems
        self._write_list()

    async def _enter_reload(self, specs: list[ChildSpec]) -> None:
        wanted = {spec.name: spec for spec in specs}
        self._state = State.RELOADING
        self._tell_reload([])
        for child in self._children:
            child.next_spec = wanted.pop(child.name, None)
        # From here on some end by themselves: the owner tells them when nothing is in flight.
        await self._drain_owner()
        if self._stop_asked.is_set():
            return
        for child in [child for child in self._children if child.next_spec != child.spec]:
            if child.process is not None:
                # Told to end, the elector would give the lease up; killed, it leaves the lease to its
                # successor, which has the same identity.
                is_elector = child.name == LEADER
                child.send_signal(signal.SIGKILL if is_elector else signal.SIGTERM)
                loop = asyncio.get_running_loop()
                loop.call_later(CHILD_STOP_S, self._kill_if_still, child, child.process)
            else:
                if child.restart is not None:
                    child.restart.cancel()
                self._succeed(child, 0, 0)
        for spec in wanted.values():
            self._children.append(Child(spec, self._launch))
            self._start(self._children[-1])
        self._write_list()

    def _kill_if_still(self, child: Child, process: Launched) -> None:
        if child.process is process:
            log.warning("killing", children=[child.name], reason="did not end for the reload")
            child.send_signal(signal.SIGKILL)

    def _succeed(self, child: Child, pid: int, code: int) -> None:
        """A child has ended for a reload; its place is taken by its successor, if it has one."""
        if child.next_spec is None:
            self._children.remove(child)
        else:
            child.spec = child.next_spec
            self._start(child)
        self._write_list()
        log.info("child_replaced", child=child.name, pid=pid, how=exit_text(code))

    # The end --------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """No more work is given out, and what is in flight gets `drain_s` to finish."""
        self._enter(State.DRAINING)
        for child in self._children:
            if child.restart is not None:
                child.restart.cancel()
        await self._drain_owner()

    async def _drain_owner(self) -> None:
        owner = next((child for child in self._running() if child.name == OWNER), None)
        if owner is None:
            return
        ask = asyncio.create_task(self._owner.ask(StopRequest(), TextAnswer, self._options.drain_s))
        # Nobody is left to be asked then; a successor that heard the question would drain for ever.
        end = asyncio.create_task(self._end_of(owner))
        await asyncio.wait({ask, end}, return_when=asyncio.FIRST_COMPLETED)
        end.cancel()
        if not ask.done():
            ask.cancel()
            return
        try:
            ask.result()
            log.info("drained")
        except NoAnswerError as error:
            log.warning("not_drained", reason=str(error))

    async def _end_of(self, child: Child) -> None:
        """Returns when the process that fills the place now has ended, or all are to be killed."""
        process = child.process
        while child.process is process and not self._is_killing:
            await self._any_end()

    async def _stop_children(self) -> None:
        self._enter(State.STOPPING)
        # The owner last: it hears the last reports of the others. And who holds the lease after all:
        # it gives the lease up only when there is nobody left who could write.
        await self._stop([child for child in reversed(self._running()) if child.name != LEADER])
        await self._stop(self._running())

    async def _stop(self, children: list[Child]) -> None:
        for child in children:
            child.send_signal(signal.SIGTERM)

        def left() -> list[Child]:
            return [child for child in children if child.process is not None]

        try:
            async with asyncio.timeout(CHILD_STOP_S):
                while left() and not self._is_killing:
                    await self._any_end()
        except TimeoutError:
            names = [child.name for child in left()]
            log.warning("killing", children=names, reason=f"still there after {CHILD_STOP_S:g} s")
            self._exit_code = exit_codes.FAILED
        for child in left():
            child.send_signal(signal.SIGKILL)
        while left():
            await self._any_end()

    async def _any_end(self) -> None:
        """Waits for the end of a child or for the order to kill."""
        self._child_ended.clear()
        await self._child_ended.wait()

    def _enter(self, state: State) -> None:
        self._state = state
        self._notifier.tell("STOPPING=1", state)
        self._write_list()
