"""Owner, scoring worker and null binder as real processes, and the wires to play the cluster to them.

Whoever uses this is the watch adapter (`feed`), hears what a binder would tell the API server
(`next_line`), and may put questions to the owner as the command line does. Nothing here sleeps: every
wait ends with the message that it waits for, or with `PipelineError` after a time limit.
"""

import asyncio
import os
import select
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self, TypeVar

import msgspec

from bench.null_binder import Line
from bench.sync_peer import sync_adapter_peer
from bench.unsupervised import UnsupervisedProcesses
from shared.child_plan import ChildPlan
from shared.errors import OperationalError
from shared.kube.pod_record import PodRecord
from shared.kube.resources import ALL_KINDS, NODES, PODS
from shared.messages.admin import (
    AdminAnswer,
    AdminRequest,
    DumpRequest,
    QueueAnswer,
    QueueRequest,
    TextAnswer,
)
from shared.messages.to_owner import (
    AdapterBatch,
    AdapterHello,
    AdapterMessage,
    NodeChanged,
    NodeDeleted,
    ObjectChanged,
    ObjectDeleted,
    PodChanged,
    PodDeleted,
    StartSync,
    SyncFinished,
    SyncStarted,
)
from shared.runtime_options import RuntimeOptions
from shared.transport.owner_link import NoAnswerError, OwnerLink

A = TypeVar("A", bound=AdminAnswer)

START_TIMEOUT_S: Final = 300.0
ANSWER_S_MAX: Final = 300.0
ASK_AGAIN_S: Final = 2.0
"""After so long without an answer we look whether the processes are still there."""
SEND_TIMEOUT_MS: Final = 300_000
BATCH_MESSAGES_MAX: Final = 1024
"""As the watch adapter sends."""
READ_BYTES: Final = 1 << 16
NO_EPOCH: Final = 0

_lines: Final[msgspec.json.Decoder[Line]] = msgspec.json.Decoder(Line)


class PipelineError(OperationalError):
    """The processes are of no more use: one of them ended, or does not answer."""


class PipelineProcesses:
    """One owner, one scoring worker, one null binder, from start to end."""

    def __init__(self, configuration: bytes, feature_gates: str, server: str) -> None:
        """`configuration` is the file; `feature_gates` as on the command line; `server`: the API server
        that scorers read from for extenders, no other process does."""
        self._folder = Path(tempfile.mkdtemp(prefix="berth-conformance-"))
        config = self._folder / "config.yaml"
        config.write_bytes(configuration)
        options = RuntimeOptions(
            runtime_dir=str(self._folder),
            config=str(config),
            feature_gates=feature_gates,
            server=server,
            log_level="warning",
        )
        plan = ChildPlan(options=options, breaks_ties_by_name=True)
        self._processes = UnsupervisedProcesses(self._folder, plan)
        self._present: dict[tuple[str, str], AdapterMessage] = {}
        """(kind, key) of everything that was fed and is still there -> the message that ends it."""
        self._received: deque[Line] = deque()
        self._unfinished = b""
        self._sent_batches = 0
        self._epoch = NO_EPOCH
        self._adapter = sync_adapter_peer(self._folder, f"replay-{os.getpid()}")
        self._admin = OwnerLink(self._folder)
        self._runner = asyncio.Runner()
        try:
            self._start()
            self._sync()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The cluster ---------------------------------------------------------------------------------

    def feed(self, messages: Sequence[AdapterMessage]) -> None:
        """Changes of the cluster, in order, as the watch adapter tells them."""
        for message in messages:
            self._note(message)
        for start in range(0, len(messages), BATCH_MESSAGES_MAX):
            batch = AdapterBatch(self._epoch, list(messages[start : start + BATCH_MESSAGES_MAX]))
            self._adapter.send(batch, SEND_TIMEOUT_MS)
            self._sent_batches += 1

    def farewell(self) -> list[AdapterMessage]:
        """What makes everything that was fed go away: pods first, then nodes, then the rest."""
        order = {PODS.plural: 0, NODES.plural: 1}
        gone = sorted(self._present, key=lambda one: order.get(one[0], 2))
        return [self._present[one] for one in gone]

    def shown_pod(self, uid: str) -> PodRecord | None:
        """A pod as it was fed last."""
        goodbye = self._present.get((PODS.plural, uid))
        return goodbye.pod if isinstance(goodbye, PodDeleted) else None

    # What the processes say ----------------------------------------------------------------------

    def next_line(self, timeout_s: float) -> Line | None:
        """What the null binder was told next; None if nothing came in time."""
        if not self._received:
            self._read_lines(timeout_s)
        return self._received.popleft() if self._received else None

    def ask_queue(self) -> QueueAnswer:
        return self._ask(QueueRequest(), QueueAnswer)

    def has_heard_all(self, answer: QueueAnswer) -> bool:
        """Whether the owner had applied everything that was fed when it gave the answer."""
        return answer.counters.get("adapter_batches", 0) >= self._sent_batches

    def ask_dump(self) -> list[str]:
        return self._ask(DumpRequest(), TextAnswer).lines

    def close(self) -> None:
        """Ends the processes. Twice is harmless."""
        self._processes.close()
        self._runner.close()
        self._adapter.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    # Inside --------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._processes.start("owner", "daemon.owner")
        self._processes.start("scorer", "workers.scorer")
        self._processes.start("binder", "bench.null_binder", speaks=True)

    def _sync(self) -> None:
        """Says Hello, is asked for lists, and lists an empty cluster."""
        hello = AdapterHello()
        deadline_s = time.monotonic() + START_TIMEOUT_S
        self._adapter.send(AdapterBatch(NO_EPOCH, [hello]), int(START_TIMEOUT_S * 1000))
        while self._epoch == NO_EPOCH:
            message = self._adapter.receive(200)
            if isinstance(message, StartSync):
                self._epoch = message.epoch
            self.check()
            if time.monotonic() > deadline_s:
                raise PipelineError(f"the owner did not start; {self._processes.log_tail('owner')}")
        lists: list[AdapterMessage] = []
        for kind in ALL_KINDS:
            lists += [SyncStarted(kind.plural), SyncFinished(kind.plural, "1")]
        self.feed(lists)

    def check(self) -> None:
        """PipelineError if a process has ended."""
        for name, code in self._processes.exit_codes().items():
            raise PipelineError(f"{name} ended with {code}; {self._processes.log_tail(name)}")

    def _ask(self, request: AdminRequest, kind: type[A]) -> A:
        deadline_s = time.monotonic() + ANSWER_S_MAX
        while True:
            try:
                return self._runner.run(self._admin.ask(request, kind, ASK_AGAIN_S))
            except NoAnswerError as error:
                self.check()
                if time.monotonic() > deadline_s:
                    raise PipelineError(str(error)) from error

    def _read_lines(self, timeout_s: float) -> None:
        stream = self._processes.output("binder")
        ready, _, _ = select.select([stream], [], [], timeout_s)
        if not ready:
            return
        data = os.read(stream.fileno(), READ_BYTES)
        if not data:
            raise PipelineError(f"the null binder ended; {self._processes.log_tail('binder')}")
        *whole, self._unfinished = (self._unfinished + data).split(b"\n")
        self._received.extend(_lines.decode(line) for line in whole)

    def _note(self, message: AdapterMessage) -> None:
        match message:
            case PodChanged(pod):
                self._present[PODS.plural, pod.uid] = PodDeleted(pod)
            case NodeChanged(node):
                name = node.metadata.name
                self._present[NODES.plural, name] = NodeDeleted(name)
            case ObjectChanged(kind, key, _):
                self._present[kind, key] = ObjectDeleted(kind, key)
            case PodDeleted(pod):
                self._present.pop((PODS.plural, pod.uid), None)
            case NodeDeleted(name):
                self._present.pop((NODES.plural, name), None)
            case ObjectDeleted(kind, key):
                self._present.pop((kind, key), None)
            case _:
                assert isinstance(message, SyncStarted | SyncFinished), f"not played: {message}"
