"""When a worker greets, when it stays and when it leaves; its sockets are played."""

from collections.abc import Sequence

import msgspec
import pytest

from bench.manual_clock import ManualClock
from daemon.core.cache import Cache
from daemon.core.snapshot_log import SnapshotLog
from shared.clock import SystemClock
from shared.feature_gates import DEFAULT_GATES
from shared.messages.codec import Drain
from shared.messages.from_scorer import FromScorer, ResyncRequest, ScorerHello
from shared.messages.to_scorer import (
    ExtendedTask,
    GreetAgain,
    ScheduleExtended,
    SchedulePods,
    ScorerRefused,
    SnapshotFull,
    TaskRun,
    ToScorer,
)
from shared.transport.channels import Connected
from shared.transport.scorer_sockets import FromOwner, RefusedError
from tests.support.lone_scorer import loop_on


class PlayedSockets:
    """Hands out what the owner is to have said, one message for each poll."""

    def __init__(self, messages: Sequence[ToScorer | Connected]) -> None:
        self._messages = [FromOwner(message, ()) for message in messages]
        self.sent: list[FromScorer] = []
        self.is_connected = True
        self.failed_count = 0

    @property
    def is_over(self) -> bool:
        return not self._messages

    def poll(self, timeout_ms: int) -> list[FromOwner]:
        del timeout_ms
        return [self._messages.pop(0)]

    def send(self, message: FromScorer, timeout_ms: int = 0) -> bool:
        del timeout_ms
        self.sent.append(message)
        return True


def hellos_after(messages: Sequence[ToScorer | Connected], configuration: str) -> int:
    """How often the worker greeted; it must have taken all messages."""
    sockets = PlayedSockets(messages)
    loop = loop_on(sockets, SystemClock(), configuration)
    loop.run(lambda: sockets.is_over)
    assert sockets.is_over
    greetings = [each for each in sockets.sent if isinstance(each, ScorerHello)]
    assert all(each.configuration == configuration for each in greetings)
    assert sockets.sent[:1] == greetings[:1], "a worker greets before it says anything else"
    return len(greetings)


@pytest.mark.parametrize("configuration", ["", "abc"])
def test_it_greets_each_new_connection_and_whenever_it_is_asked_to(configuration: str) -> None:
    assert hellos_after([Connected(), GreetAgain(), Connected()], configuration) == 3


def test_a_worker_of_another_host_stays_when_its_owner_leaves() -> None:
    assert hellos_after([Connected(), Drain(), Connected()], "abc") == 2


def test_a_worker_of_the_owners_host_leaves_with_it() -> None:
    with pytest.raises(AssertionError):
        hellos_after([Connected(), Drain(), Connected()], "")


def test_a_worker_that_is_refused_ends_with_the_reason() -> None:
    with pytest.raises(RefusedError, match="other configuration"):
        hellos_after([Connected(), ScorerRefused("other configuration")], "abc")


LATE = 65
"""A delta of the earlier owner, which the new one will not come to for long."""


class LastingSockets(PlayedSockets):
    """A second of silence after each message, and some more at the end."""

    def __init__(self, came: Sequence[FromOwner], clock: ManualClock) -> None:
        super().__init__([])
        self.polls: list[list[FromOwner]] = [part for one in came for part in ([one], [])]
        self.polls += [[]] * 5
        self._clock = clock

    @property
    def is_over(self) -> bool:
        return not self.polls

    def poll(self, timeout_ms: int) -> list[FromOwner]:
        del timeout_ms
        self._clock.advance(1.0)
        return self.polls.pop(0)


@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize(
    "work",
    [
        SchedulePods(1, 0, LATE, 3, [TaskRun(4, 1)]),
        ScheduleExtended(1, LATE, [ExtendedTask(3, 4, False, "ns", "n", "u")]),
    ],
    ids=["by itself", "with extenders"],
)
def test_what_an_earlier_owner_wanted_keeps_nobody_waiting(work: ToScorer, is_early: bool) -> None:
    """Whether it comes before the new owner's snapshot or after it, no delta is waited for."""
    log = SnapshotLog(Cache(DEFAULT_GATES), epoch=2)
    log.skip({})
    whole, buffers = log.full({}, next_ticket=0)
    came = [FromOwner(whole, tuple(buffers))]
    came.insert(0 if is_early else 1, FromOwner(work, ()))
    clock = ManualClock(0.0)
    sockets = LastingSockets([FromOwner(Connected(), ()), *came], clock)
    loop_on(sockets, clock).run(lambda: sockets.is_over)
    assert not [each for each in sockets.sent if isinstance(each, ResyncRequest)]


def test_a_first_copy_that_is_of_no_use_is_asked_for_until_one_is() -> None:
    """Also where it came twice in a moment, of which the second is not asked for again at once."""
    useless = SnapshotFull(2, 0, 1, {}, msgspec.Raw(b"\xc1"), 0)
    clock = ManualClock(0.0)
    sockets = LastingSockets([FromOwner(Connected(), ())], clock)
    sockets.polls.insert(1, [FromOwner(useless, ())] * 2)
    loop_on(sockets, clock).run(lambda: sockets.is_over)
    assert len([each for each in sockets.sent if isinstance(each, ResyncRequest)]) == 2
