"""What the supervisor's own work may meet and survives, without processes."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.supervisor.children import ChildSpec
from daemon.supervisor.restart_policy import Use
from daemon.supervisor.supervise import Supervisor
from shared.runtime_options import RuntimeOptions
from shared.transport.heartbeat import Heartbeat

SPEC = ChildSpec("endpoints", "daemon.endpoints", (), is_optional=True)


class Untold:
    """A process of which the kernel tells nothing just now."""

    pid = 4711

    @property
    def create_time_s(self) -> float:
        raise OSError(24, "Too many open files")

    def send_signal(self, number: signal.Signals) -> None: ...

    def call_at_end(self, act: Callable[[], None]) -> None: ...

    def use(self) -> Use | None:
        return None

    def reap(self) -> int:
        return 0


def started(
    runtime_dir: Path, launch: Callable[[ChildSpec, tuple[str, ...]], tuple[Untold, Heartbeat]]
) -> bool:
    """Whether there is a process, or it is to be tried again."""

    async def run() -> bool:
        options = RuntimeOptions(runtime_dir=str(runtime_dir))
        supervisor = Supervisor(options, [SPEC], launch, list)
        (child,) = supervisor._children
        supervisor._start(child)
        return child.process is not None or child.restart is not None

    return asyncio.run(run())


def test_a_child_of_which_nothing_can_be_told_is_started_and_the_list_is_not_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert started(tmp_path, lambda *_: (Untold(), Heartbeat()))
    assert caplog.records[-1].message == "process_list_not_written"


def test_a_child_whose_module_cannot_be_read_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def launch(*_: object) -> tuple[Untold, Heartbeat]:
        raise ImportError("libz.so: cannot open shared object file: Too many open files")

    assert started(tmp_path, launch)
    assert [one.message for one in caplog.records[:2]] == ["child_not_started", "child_died"]
