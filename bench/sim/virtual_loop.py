"""An asyncio event loop on the virtual clock, and TCP connections between such loops.

What asyncio code asks of its loop, and no more: callbacks, timers, tasks, connections. Tasks have hashes
of their own, as code that keeps them in sets would otherwise act in the order of their addresses.
A connection is two pipes of bytes, each with its own latency; it may stall, and break at any moment.
"""

import asyncio
import heapq
import math
import signal
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import Any, Final

from bench.sim.schedule import Latency, MachineClock, Process, SimulatedFailure, Simulation

ROUNDS_MAX: Final = 2_000
"""Of callbacks in one turn. What has not come to an end by then never will."""
WIRE_S_MEDIAN: Final = 0.000_3


class SimulatedTask(asyncio.Task[Any]):
    """Hashes by the order of creation."""

    number = 0

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class Running:
    """While a loop is the one that runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __enter__(self) -> None:
        self._before = asyncio._get_running_loop()  # noqa: SLF001 # As every loop does.
        asyncio._set_running_loop(self._loop)  # noqa: SLF001 # The same.

    def __exit__(self, *_: object) -> None:
        asyncio._set_running_loop(self._before)  # noqa: SLF001 # The same.


class VirtualLoop(asyncio.AbstractEventLoop, Process):
    """The loop of one process's life."""

    def __init__(
        self, simulation: Simulation, name: str, clock: MachineClock, network: "Network"
    ) -> None:
        Process.__init__(self, simulation, name, clock)
        self.network = network
        self.connections: dict[Transport, None] = {}
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_count = 0
        self._task_count = 0
        self._tasks: dict[SimulatedTask, None] = {}
        self._is_ending = False
        self._is_in_turn = False
        self._signal_handlers: dict[int, Callable[[], object]] = {}

    # The process ------------------------------------------------------------------------------------

    def turn(self) -> float:
        now_s = self.time()
        while self._timers and self._timers[0][0] <= now_s:
            self._ready.append(heapq.heappop(self._timers)[2])
        self._is_in_turn = True
        self._run_ready()
        self._is_in_turn = False
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        return self._timers[0][0] + self.clock.slept_s if self._timers else math.inf

    def kill(self) -> None:
        """Connections break as the system closes them; nothing that the code does in its last throes
        reaches anybody."""
        if not self.is_alive:
            return
        Process.kill(self)
        for connection in list(self.connections):
            connection.vanish()
        self._is_ending = True
        for task in list(self._tasks):
            task.cancel()
        self._run_ready()
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001 # As asyncio.gather does.
        self._ready.clear()
        self._timers.clear()

    def receive_signal(self, number: signal.Signals) -> None:
        handler = self._signal_handlers.get(number)
        if handler is None:
            self.end(-number)
        else:
            self.call_soon(handler)

    def _run_ready(self) -> None:
        ready = self._ready
        if not ready:
            return
        with self.running():
            for _ in range(ROUNDS_MAX):
                if not ready:
                    return
                for _ in range(len(ready)):
                    handle = ready.popleft()
                    if not handle.cancelled():
                        handle._run()  # noqa: SLF001 # As every loop does.
        if not self._is_ending:
            raise SimulatedFailure("endless turn", f"{self.name} does not come to an end")

    def running(self) -> "Running":
        """What is called within finds this loop as the one that runs: also where another process's turn
        ends this one."""
        return Running(self)

    # What asyncio asks ------------------------------------------------------------------------------

    def time(self) -> float:
        return self.clock.monotonic_s()

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self.is_alive

    def is_closed(self) -> bool:
        return False

    def call_soon(  # type: ignore[override] # Of the types that typeshed gives it.
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        if not self._is_in_turn:  # What is asked for in a turn is done in it.
            self.wake()
        return handle

    def call_later(  # type: ignore[override] # Only what is asked of it.
        self, delay: float, callback: Callable[..., object], *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:  # fmt: skip
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override] # Only what is asked of it.
        self, when: float, callback: Callable[..., object], *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:  # fmt: skip
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, handle))
        if not self._is_in_turn:
            self.wake(when + self.clock.slept_s)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Left where it is; skipped when it is due."""

    def add_signal_handler(  # type: ignore[override] # Of the types that typeshed gives it.
        self, sig: int, callback: Callable[..., object], *args: Any
    ) -> None:
        self._signal_handlers[sig] = partial(callback, *args)

    def remove_signal_handler(self, sig: int) -> bool:
        return self._signal_handlers.pop(sig, None) is not None

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override] # Only what is asked of it.
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None,
        context: Context | None = None,
    ) -> SimulatedTask:  # fmt: skip
        self._task_count += 1
        task = SimulatedTask.__new__(SimulatedTask)
        task.number = self._task_count
        SimulatedTask.__init__(task, coro, loop=self, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._is_ending:
            return
        error = context.get("exception")
        raise SimulatedFailure("uncaught", f"{self.name}: {context.get('message')}: {error!r}")

    async def create_connection(  # type: ignore[override] # Only what is asked of it.
        self, protocol_factory: Callable[[], asyncio.Protocol], host: str, port: int, **_: Any
    ) -> tuple["Transport", asyncio.Protocol]:
        del host, port
        await asyncio.sleep(self.network.latency.draw_s())
        listener = self.network.listener
        if listener is None or not self.is_alive:
            raise ConnectionRefusedError("nobody listens")
        server_loop, make_server_protocol = listener
        protocol = protocol_factory()
        client = Transport(self, protocol, self.network)
        server = Transport(server_loop, make_server_protocol(), self.network)
        client.other, server.other = server, client
        server.receive(lambda: server.protocol.connection_made(server))
        protocol.connection_made(client)
        return client, protocol

    async def create_server(  # type: ignore[override] # Only what is asked of it.
        self, protocol_factory: Callable[[], asyncio.Protocol], *_: Any, **__: Any
    ) -> "Listening":
        self.network.listener = (self, protocol_factory)
        return Listening()


class Listening:
    """As much of asyncio.Server as the simulated API server looks at."""

    def __init__(self) -> None:
        self.sockets = (self,)

    def getsockname(self) -> tuple[str, int]:
        return "simulated", 1

    def close(self) -> None:
        """There is nothing to close."""


class Network:
    """The one server that everybody talks to, and how fast the way there is."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.listener: tuple[VirtualLoop, Callable[[], asyncio.Protocol]] | None = None
        self.latency = Latency(simulation.rng("network"), WIRE_S_MEDIAN)
        """Of connecting."""
        self.connections_count = 0
        self.speaker: VirtualLoop | None = None
        """Whose bytes the server is reading."""
        self.stalled_until_s: dict[tuple[str, bool], float] = {}
        """(process, towards the server) -> until when no byte gets through."""


class Transport(asyncio.Transport):
    """One end of a connection. What is written arrives in order, or not at all."""

    def __init__(self, loop: VirtualLoop, protocol: asyncio.Protocol, network: Network) -> None:
        super().__init__()
        self.loop = loop
        self.protocol = protocol
        self.other: Transport
        self._network = network
        network.connections_count += 1
        number = network.connections_count
        self._latency = Latency(network.simulation.rng(f"connection {number}"), WIRE_S_MEDIAN)
        self._is_closing = False
        self._is_lost = False
        self._arrives_s = 0.0
        self._is_paused = False
        self._unread: list[bytes] = []
        loop.connections[self] = None

    def write(self, data: Any) -> None:
        if self._is_closing or self._is_lost or not self.loop.may_send():
            return
        chunk = bytes(data)
        self._carry(lambda: self.other.take(chunk))

    def _carry(self, act: Callable[[], None]) -> None:
        """To the other end, after all that was written before."""
        network, simulation = self._network, self._network.simulation
        due_s = simulation.now_s + self._latency.draw_s()
        is_upwards = network.listener is not None and self.other.loop is network.listener[0]
        client = self.loop.name if is_upwards else self.other.loop.name
        stalled_s = network.stalled_until_s.get((client, is_upwards), 0.0)
        self._arrives_s = max(self._arrives_s, due_s, stalled_s)
        simulation.at(self._arrives_s, act)

    def take(self, chunk: bytes) -> None:
        """Bytes have arrived here."""
        if self._is_lost or not self.loop.is_alive:
            return
        if self._is_paused:
            self._unread.append(chunk)
        else:
            self.receive(lambda: self._read(chunk))

    def _read(self, chunk: bytes) -> None:
        if not self._is_lost:
            self._network.speaker = self.other.loop
            self.protocol.data_received(chunk)

    def receive(self, act: Callable[[], None]) -> None:
        if self.loop.is_alive:
            self.loop.call_soon(act)

    def lose(self, error: Exception | None) -> None:
        """The end of the connection is noticed here."""
        if self._is_lost:
            return
        self._is_lost = self._is_closing = True
        self.loop.connections.pop(self, None)
        self.receive(lambda: self.protocol.connection_lost(error))

    def close(self) -> None:
        """The other end gets what was written before."""
        if self._is_closing:
            return
        self._is_closing = True
        if self.loop.is_alive:
            self._carry(lambda: self.other.lose(None))
        self.lose_later()

    def abort(self) -> None:
        if self._is_lost:
            return
        self._is_closing = True
        if self.loop.is_alive:
            self._carry(lambda: self.other.lose(ConnectionResetError("reset by peer")))
        self.lose_later()

    def lose_later(self) -> None:
        """This end is told in its next turn, as asyncio does it."""
        if self.loop.is_alive and not self._is_lost:
            self._is_lost = True
            self.loop.connections.pop(self, None)
            self.loop.call_soon(self.protocol.connection_lost, None)

    def vanish(self) -> None:
        """The process at this end is gone; what it had written still arrives."""
        self._is_lost = self._is_closing = True
        self.loop.connections.pop(self, None)
        self._carry(lambda: self.other.lose(ConnectionResetError("reset by peer")))

    def break_off(self) -> None:
        """Both ends lose the connection, and what was on its way with it."""
        for end in (self, self.other):
            end.lose(ConnectionResetError("the connection broke"))

    def is_closing(self) -> bool:
        return self._is_closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        del name
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is room for everything."""

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        unread, self._unread = self._unread, []
        for chunk in unread:
            self.take(chunk)
