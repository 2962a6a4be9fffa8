"""The owner's loop and the lease gate: when it leads, what it sends with, when its life ends."""

import math
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from bench.manual_clock import ManualClock
from daemon.core.events import Effect, Event, LeaseTaken, Tell
from daemon.owner.owner_loop import OwnerLoop
from shared.messages.to_binder import BindPods, PreemptPods, ReportPods
from shared.transport.channels import Channel
from shared.transport.lease_gate import GATE_NAME, LeaseGate


class FakeSockets:
    """Nobody says anything; time passes with each wait, and what is sent is kept."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.sent: list[Any] = []
        self.waits_ms: list[int] = []

    def poll(self, timeout_ms: int) -> list[Any]:
        self.waits_ms.append(timeout_ms)
        self._clock.advance(timeout_ms / 1000)
        return []

    def send(self, channel: Any, peer: bytes, message: Any, buffers: Any) -> bool:
        self.sent.append(message)
        return True


class FakeState:
    """Sends one of each message in each turn."""

    is_synced = False
    wakes_at_s = math.inf

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.counters: Counter[str] = Counter()

    def decide(self, events: list[Event], now_s: float) -> list[Effect]:
        self.events += events
        return [Tell(Channel.BINDERS, b"b", BindPods(1, []))]

    def spread(self, now_s: float) -> list[Effect]:
        messages = PreemptPods(1, [], []), ReportPods(1, [])
        return [Tell(Channel.BINDERS, b"b", each) for each in messages]


class Stage:
    def __init__(self, folder: Path, *, is_candidate: bool = True) -> None:
        self.clock = ManualClock(1000.0)
        self.gate = LeaseGate(folder / GATE_NAME, self.clock)
        self.sockets = FakeSockets(self.clock)
        self.state = FakeState()
        gate = self.gate if is_candidate else None
        self.loop = OwnerLoop(cast("Any", self.sockets), cast("Any", self.state), self.clock, gate)

    def turns(self, count: int) -> None:
        left = iter(range(count))
        self.loop.run(lambda: next(left, None) is None)


def test_it_stands_by_until_the_gate_opens_and_looks_often(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.turns(3)
    assert stage.state.events == []
    assert max(stage.sockets.waits_ms) <= 100
    term = stage.gate.begin_term(1010.0)
    stage.turns(2)
    assert stage.state.events == [LeaseTaken(term)]
    assert stage.sockets.waits_ms[-1] > 100


def test_everything_that_leads_to_a_write_bears_the_term(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    term = stage.gate.begin_term(1010.0)
    stage.turns(1)
    assert [message.lease_term for message in stage.sockets.sent] == [term] * 3


@pytest.mark.parametrize("is_taken_again", [False, True])
def test_its_life_ends_with_the_term_before_it_handles_anything_more(
    tmp_path: Path, is_taken_again: bool
) -> None:
    stage = Stage(tmp_path)
    stage.gate.begin_term(1010.0)
    stage.turns(1)
    stage.gate.close()
    if is_taken_again:
        stage.gate.begin_term(1010.0)
    sent = len(stage.sockets.sent)
    stage.turns(1000)
    assert stage.loop.is_lease_lost
    assert len(stage.sockets.sent) == sent


def test_without_an_election_it_knows_of_no_term(tmp_path: Path) -> None:
    stage = Stage(tmp_path, is_candidate=False)
    stage.turns(2)
    assert stage.state.events == []
    assert stage.sockets.sent[0].lease_term == 0
    assert not stage.loop.is_lease_lost
