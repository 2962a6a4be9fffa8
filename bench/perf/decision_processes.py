"""Owner, scorers and null binders as processes, without supervisor, adapter or API server.

Started as the supervisor starts them (by module name, with its options), so what is measured is what
runs in production. With `profile_dir` each runs under cProfile and leaves NAME.prof there.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from bench.perf.owner_metrics import owner_histogram
from bench.perf.samples import Buckets
from bench.watched.owner_status import owner_status
from bench.watched.watched_processes import ProcessFailedError
from daemon.adapter.process import Adapter, AdapterPeer, EventSource, adapter_peer
from daemon.supervisor.process_list import ProcessEntry, entry_of
from shared.child_plan import ChildPlan
from shared.messages.admin import StatusAnswer
from shared.messages.to_owner import NO_EPOCH, AdapterBatch, ToAdapter
from shared.runtime_options import RuntimeOptions
from shared.transport.channels import Connected
from shared.transport.owner_link import OwnerLink
from shared.transport.runtime_dir import prepare_runtime_dir

STOP_S: Final = 20.0
TAKEN_IN_POLL_S: Final = 0.005
READ_BYTES: Final = 1 << 18
LOG_TAIL_LINES: Final = 15


class DecisionOptions(NamedTuple):
    """How the processes are started."""

    workers: int = 1
    binders: int = 1
    seed: int = 0
    scheduler_config: str = ""
    feature_gates: str = ""
    profile_dir: str = ""


class CountedPeer:
    """The adapter's connection, and what has gone to the owner through it since the sync began."""

    def __init__(self, peer: AdapterPeer) -> None:
        self._peer = peer
        self._message_count = 0
        self._has_sent = asyncio.Event()
        self.batch_count = 0

    async def send(self, message: AdapterBatch) -> bool:
        is_sent = await self._peer.send(message)
        if message.epoch != NO_EPOCH:
            self._message_count += len(message.messages)
            self.batch_count += 1
            self._has_sent.set()
        return is_sent

    async def recv(self) -> ToAdapter | Connected:
        return await self._peer.recv()

    async def until_sent(self, message_count: int) -> None:
        """Until the first so many messages have gone."""
        while self._message_count < message_count:
            self._has_sent.clear()
            await self._has_sent.wait()


class DecisionProcesses:
    """The processes of one run, in a folder of its own. To be made inside an event loop."""

    def __init__(
        self, folder: Path, options: DecisionOptions, on_output: Callable[[bytes], None]
    ) -> None:
        """`on_output` gets what the null binders write."""
        self._folder = folder
        self._options = options
        self._on_output = on_output
        self._runtime_dir = folder / "run"
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._owner = OwnerLink(self._runtime_dir)
        self._lifeline: tuple[int, int] | None = None
        self._peer: CountedPeer | None = None
        self._failure: Exception | None = None

    def start(self) -> None:
        """Starts them all; they find one another by themselves."""
        prepare_runtime_dir(self._runtime_dir)
        self._lifeline = os.pipe()
        options = self._options
        told = RuntimeOptions(
            runtime_dir=str(self._runtime_dir),
            config=options.scheduler_config,
            feature_gates=options.feature_gates,
            seed=options.seed,
            workers=options.workers,
            binders=options.binders,
        )
        plan = ChildPlan(options=told)
        plan.path.write_bytes(plan.encoded())
        self._start(plan, "owner", "daemon.owner")
        for index in range(options.workers):
            self._start(plan, f"scorer-{index}", "workers.scorer", index)
        for index in range(options.binders):
            self._start(plan, f"null-binder-{index}", "bench.null_binder", index)

    def _start(self, plan: ChildPlan, name: str, module: str, index: int = 0) -> None:
        assert self._lifeline is not None
        lifeline_fd = self._lifeline[0]
        run = ["-m", module]
        if self._options.profile_dir:
            run = ["-m", "cProfile", "-o", f"{self._options.profile_dir}/{name}.prof", *run]
        told = (f"{plan.path}", "--index", f"{index}", "--lifeline-fd", f"{lifeline_fd}")
        speaks = module == "bench.null_binder"
        with (self._folder / f"{name}.log").open("wb") as log:
            child = subprocess.Popen(  # noqa: S603 - our own interpreter and modules
                [sys.executable, "-P", *run, *told],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if speaks else log,
                stderr=log,
                pass_fds=(lifeline_fd,),
                process_group=0,
            )
        self._children[name] = child
        if speaks:
            assert child.stdout is not None
            fd = child.stdout.fileno()
            os.set_blocking(fd, False)
            asyncio.get_running_loop().add_reader(fd, self._read, fd)

    def _read(self, fd: int) -> None:
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return
        if data:
            try:
                self._on_output(data)
            except Exception as error:  # noqa: BLE001 # Nobody hears it here; a run is over with it.
                self._failure = error
        else:
            asyncio.get_running_loop().remove_reader(fd)

    async def play_adapter(self, source: EventSource) -> None:
        """Is the watch adapter, in this process, until cancelled."""
        instance = f"feeder-{os.getpid()}-{os.urandom(4).hex()}"
        with adapter_peer(self._runtime_dir, instance) as peer:
            self._peer = CountedPeer(peer)
            await Adapter(source, self._peer).run()

    async def until_taken_in(self, message_count: int) -> None:
        """Until the owner has applied the first so many of the feeder's messages, and told the
        scorers."""
        peer = self._peer
        assert peer is not None, "there is an adapter"
        await peer.until_sent(message_count)
        batch_count, applied = peer.batch_count, 0
        while applied < batch_count:
            await asyncio.sleep(TAKEN_IN_POLL_S)
            status = await self.status()
            # It answers before it applies what comes in the same turn: what it counts was published.
            applied = 0 if status is None else status.counters.get("adapter_batches", 0)

    async def status(self) -> StatusAnswer | None:
        return await owner_status(self._owner)

    async def histogram(self, name: str) -> dict[str, Buckets]:
        return await owner_histogram(self._owner, name)

    def check(self) -> None:
        """ProcessFailedError if one has ended; what was wrong with the output of one."""
        if self._failure is not None:
            raise self._failure
        for name, child in self._children.items():
            code = child.poll()
            if code is not None:
                raise ProcessFailedError(f"{name} ended with {code}; {self.log_tail(name)}")

    def log_tail(self, name: str) -> str:
        """The last lines of a process's log."""
        path = self._folder / f"{name}.log"
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return f"the end of {path}:\n" + "\n".join(f"  {line}" for line in lines)

    def entries(self) -> list[ProcessEntry]:
        """The processes, and this one as the feeder."""
        listed = [entry_of(name, child.pid) for name, child in self._children.items()]
        return [*listed, entry_of("feeder", os.getpid())]

    async def stop(self) -> None:
        """SIGTERM to all, SIGKILL to who does not go."""
        for child in self._children.values():
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        for child in self._children.values():
            if child.stdout is not None:
                asyncio.get_running_loop().remove_reader(child.stdout.fileno())
                child.stdout.close()
            try:
                await asyncio.to_thread(child.wait, STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()
                await asyncio.to_thread(child.wait)
        if self._lifeline is not None:
            for fd in self._lifeline:
                os.close(fd)
            self._lifeline = None
