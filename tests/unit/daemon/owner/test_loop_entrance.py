"""When the owner lets workers of other hosts in: at once, or only once it leads."""

from pathlib import Path
from typing import Any, cast

from daemon.owner.owner_loop import OwnerLoop
from shared.transport.channels import Channel
from shared.transport.remote import KeyPair, WorkersEntrance
from tests.unit.daemon.owner.test_loop_lease import Stage

ENTRANCE = WorkersEntrance({Channel.SCORERS: "tcp://x:1"}, KeyPair(b"p", b"s"), Path("allowed"))


class Entered:
    """The sockets of a `Stage`, and what was opened."""

    def __init__(self, sockets: Any) -> None:
        self._sockets = sockets
        self.opened: list[WorkersEntrance] = []

    def admit_workers(self, entrance: WorkersEntrance) -> None:
        self.opened.append(entrance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sockets, name)


def staged(folder: Path, *, is_candidate: bool) -> tuple[Stage, Any]:
    stage = Stage(folder, is_candidate=is_candidate)
    sockets: Any = Entered(stage.sockets)
    gate = stage.gate if is_candidate else None
    stage.loop = OwnerLoop(sockets, cast("Any", stage.state), stage.clock, gate, ENTRANCE)
    return stage, sockets


def test_an_owner_that_nobody_elects_opens_at_its_start(tmp_path: Path) -> None:
    _, sockets = staged(tmp_path, is_candidate=False)
    assert sockets.opened == [ENTRANCE]


def test_one_that_stands_by_opens_when_it_leads_and_once(tmp_path: Path) -> None:
    # Workers would find an owner that gives them nothing to do, and stay.
    stage, sockets = staged(tmp_path, is_candidate=True)
    stage.turns(3)
    assert sockets.opened == []
    stage.gate.begin_term(1010.0)
    stage.turns(3)
    assert sockets.opened == [ENTRANCE]
