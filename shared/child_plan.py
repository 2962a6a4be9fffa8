"""ChildPlan: what the processes of one berth are started with, as a file in the runtime directory.

The supervisor writes it when everything was checked, before it starts anybody and at each reload; every
child takes what concerns it (`ChildStart`). So each option is declared, and checked, once
(`RuntimeOptions`). The command line has only what differs between two children or two lives of one.

Binders find in it what the configuration comes to for them (`BindingPlan`), made by who knows all
plugins: so a binder reads no configuration and makes no in-tree plugin. It knows these by name, and of
what they do it has its own part.

A process is told to stop by a signal, or by its lifeline: the supervisor keeps the writing end of a
pipe, and each child has the reading end (option `--lifeline-fd`). Nothing is ever written. When the
supervisor ends, however it does, the kernel closes its end, the other becomes readable, and the child
stops. No polling, and no race with a process id that is used again, as with `os.getppid`. No child has
the writing end, which would keep its siblings alive.
"""

import argparse
import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from shared import exit_codes
from shared.clock import Clock
from shared.errors import ConfigurationError, OperationalError
from shared.runtime_options import LeaderElection, RuntimeOptions
from shared.telemetry.log import EventLog, start_logging
from shared.transport.lease_gate import GATE_NAME, LeaseGate

if TYPE_CHECKING:
    from shared.kube.cluster_access import ClusterAccess  # The owner speaks to no API server.

PLAN_NAME: Final = "children.msgpack"
"""Not JSON, which has no infinity and no keys but texts."""
PLAN_VERSION: Final = 10
"""Greater with each change of what is in the file: a child of an installation that was replaced under a
running berth says so, instead of taking a default for what is missing."""

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

log = EventLog("child")


class ProfileBinding(msgspec.Struct, frozen=True, kw_only=True):
    """The plugins of one profile that take part in bindings, by name and in order."""

    pre_bind: tuple[str, ...]
    bind: tuple[str, ...]
    post_bind: tuple[str, ...]
    arguments: Mapping[str, dict[str, Any]] = {}
    """Of those that come from other packages; all others are in-tree."""


class BindingPlan(msgspec.Struct, frozen=True, kw_only=True):
    qps: float = 0.0
    burst: int = 0
    profiles: Mapping[str, ProfileBinding] = {}
    """By schedulerName; the others bind by DefaultBinder alone."""
    extenders: Mapping[int, msgspec.Raw] = {}
    """Those that bind, by their position among all, as orders name them: each an `ExtenderConfig`, for
    what speaks to extenders."""


class ChildPlan(msgspec.Struct, frozen=True, kw_only=True):
    """For who runs berth alone: it may hold the key that an extender asks for."""

    version: int = PLAN_VERSION
    options: RuntimeOptions
    """With what the configuration says of the same things; `config` is the copy that was checked."""
    binding: BindingPlan = BindingPlan()
    election: LeaderElection | None = None
    identity: str = ""
    breaks_ties_by_name: bool = False
    """Scorers take the first by name of nodes that are equally good, for comparisons with recorded
    decisions; False: by the seed."""

    @property
    def is_candidate(self) -> bool:
        """Nothing is written before the lease is taken, which who only observes never does."""
        return self.election is not None or self.options.observe

    @property
    def path(self) -> Path:
        return Path(self.options.runtime_dir) / PLAN_NAME

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)


class _Version(msgspec.Struct):
    version: int


def read_plan(path: Path) -> ChildPlan:
    """ConfigurationError with the remedy where the file cannot be used."""
    try:
        content = path.read_bytes()
        version = msgspec.msgpack.decode(content, type=_Version).version
        if version != PLAN_VERSION:
            problem = (
                f"is of version {version}, this program reads {PLAN_VERSION}; start berth anew"
            )
            raise ConfigurationError(str(path), [problem])
        return msgspec.msgpack.decode(content, type=ChildPlan)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}; berth run writes it for its processes"
        raise ConfigurationError(str(path), [problem]) from error
    except msgspec.DecodeError as error:
        problem = f"is no plan: {error}; berth run writes it for its processes: start it anew"
        raise ConfigurationError(str(path), [problem]) from error


def exit_code_of(role: str, run: Callable[[], int]) -> int:
    """Runs it; errors of the outside become one line of the log and a status."""
    log = EventLog(role)
    try:
        return run()
    except ConfigurationError as error:
        log.error("unusable_configuration", problem=str(error))
        return exit_codes.UNUSABLE
    except OperationalError as error:
        event = f"{role}_failed"
        log.error(event, problem=str(error))
        return exit_codes.FAILED


@contextmanager
def reading_files() -> Iterator[None]:
    """Around what reads an operator's files, which were well when berth started: one that is not (it is
    being rewritten) ends the process, and its next life reads it again."""
    try:
        yield
    except ConfigurationError as error:
        log.error(
            "file_unusable", problem=str(error), remedy="it is read again until it can be used"
        )
        raise SystemExit(exit_codes.FILE_UNUSABLE) from error


class ChildStart(NamedTuple):
    plan: ChildPlan
    number: int
    """Which of the scorers, or of the binders."""
    lifeline_fd: int | None
    heartbeat_fd: int | None
    careful: frozenset[int] | None

    @property
    def options(self) -> RuntimeOptions:
        return self.plan.options

    @property
    def runtime_dir(self) -> Path:
        return Path(self.plan.options.runtime_dir)

    def access(self) -> "ClusterAccess":
        """The API server's."""
        from shared.kube.find_access import find_access

        with reading_files():
            return find_access(server=self.options.server, kubeconfig=self.options.kubeconfig)

    def call_at_end(
        self,
        loop: asyncio.AbstractEventLoop,
        stop: Callable[[], object],
        orphaned: Callable[[], object] | None = None,
    ) -> None:
        """For event loops: `stop` when told to, `orphaned` (or `stop`) when the supervisor is gone."""
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, stop)
        lifeline_fd = self.lifeline_fd

        def cut(fd: int) -> None:
            loop.remove_reader(fd)
            (orphaned or stop)()

        if lifeline_fd is not None:
            loop.add_reader(lifeline_fd, cut, lifeline_fd)

    def gate(self, clock: Clock) -> LeaseGate | None:
        """Says until when this berth may write; None where nobody is elected."""
        path = self.runtime_dir / GATE_NAME
        return LeaseGate(path, clock) if self.plan.is_candidate else None


def add_options(parser: argparse.ArgumentParser) -> None:
    """What the supervisor gives each child."""
    parser.add_argument("--lifeline-fd", type=int, help="pipe that ends with the supervisor")
    parser.add_argument("--heartbeat-fd", type=int, help="see shared/transport/heartbeat.py")
    parser.add_argument(
        "--careful",
        type=_numbers,
        metavar="N,N,...",
        help="say which object is in hand, and go without these (shared/in_hand.py)",
    )


def _numbers(text: str) -> frozenset[int]:
    return frozenset(int(number) for number in text.split(",") if number)


def watch_for_end(
    lifeline_fd: int | None, watch_fd: Callable[[int], Callable[[], bool]]
) -> Callable[[], bool]:
    """Has a poll wake up when the process is to end (by a signal, or since the supervisor is gone), and
    returns what says so after each wait. From the main thread. `watch_fd` returns what says whether the
    descriptor was readable at the last."""
    signals: list[int] = []
    fd, wakeup_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakeup_fd)
    for each in STOP_SIGNALS:
        signal.signal(each, lambda number, _: signals.append(number))
    watch_fd(fd)
    if lifeline_fd is None:
        return lambda: bool(signals)
    is_cut = watch_fd(lifeline_fd)
    return lambda: bool(signals) or is_cut()


def child_start(role: str, arguments: list[str], *, is_one_of_many: bool = False) -> ChildStart:
    """Reads command line and plan, and starts the log. Where the plan cannot be used, the process ends
    with a line of the log."""
    parser = argparse.ArgumentParser(prog=f"berth's {role}")
    parser.add_argument("plan", type=Path, help=f"{PLAN_NAME}, which the supervisor wrote")
    parser.add_argument("--index", type=int, default=0, help="which of the scorers, or binders")
    add_options(parser)
    parsed = parser.parse_args(arguments)
    name = f"{role}-{parsed.index}" if is_one_of_many else role
    try:
        plan = read_plan(parsed.plan)
    except ConfigurationError as error:
        start_logging(name)
        log.error("unusable_plan", problem=str(error))
        raise SystemExit(exit_codes.UNUSABLE) from error
    start_logging(name, plan.options.log_level)
    return ChildStart(plan, parsed.index, parsed.lifeline_fd, parsed.heartbeat_fd, parsed.careful)
