"""A worker's loop on sockets that a test plays."""

from collections.abc import Sequence
from typing import Protocol, cast

from shared.clock import Clock
from shared.feature_gates import DEFAULT_GATES
from shared.framework.runtime.registry import BuiltProfile
from shared.messages.from_scorer import FromScorer, ScorerHello
from shared.transport.heartbeat import Heartbeat
from shared.transport.scorer_sockets import FromOwner, ScorerSockets
from workers.scorer.scorer_loop import ScorerLoop


class Sockets(Protocol):
    @property
    def is_connected(self) -> bool: ...

    def poll(self, timeout_ms: int) -> list[FromOwner]: ...

    def send(self, message: FromScorer, timeout_ms: int = 0) -> bool: ...


def loop_on(
    sockets: Sockets,
    clock: Clock,
    configuration: str = "",
    profiles: Sequence[BuiltProfile] = (),
    worker_index: int = 300,
) -> ScorerLoop:
    """A worker, without profiles if none are given; of another host if it says by which configuration
    it works."""
    return ScorerLoop(
        cast("ScorerSockets", sockets),
        profiles,
        clock,
        Heartbeat(),
        hello=ScorerHello(worker_index, "far", configuration),
        seed=0,
        gates=DEFAULT_GATES,
    )
