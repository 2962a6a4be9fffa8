"""A worker's loop on sockets that a test plays."""

from typing import Protocol, cast

from shared.clock import Clock
from shared.framework.runtime.framework import Framework
from shared.framework.runtime.plugin_times import PluginTimes
from shared.kube.decode import decode_object
from shared.messages.from_scorer import FromScorer
from shared.transport.scorer_sockets import FromOwner, ScorerSockets
from workers.scorer.scorer_loop import ScorerLoop
from workers.scorer.tie_break import BY_SEED


class Sockets(Protocol):
    @property
    def is_connected(self) -> bool: ...

    def poll(self, timeout_ms: int) -> list[FromOwner]: ...

    def send(self, message: FromScorer, timeout_ms: int = 0) -> bool: ...


def loop_on(
    sockets: Sockets,
    clock: Clock,
    configuration: str = "",
    frameworks: dict[str, Framework] | None = None,
    worker_index: int = 300,
    plugin_times: PluginTimes | None = None,
) -> ScorerLoop:
    """A worker, without profiles if none are given; of another host if it says by which configuration
    it works."""
    return ScorerLoop(
        cast("ScorerSockets", sockets),
        worker_index=worker_index,
        instance="far",
        seed=0,
        tie_break=BY_SEED,
        frameworks=frameworks or {},
        reserves={},
        decode_object=decode_object,
        clock=clock,
        configuration=configuration,
        plugin_times=plugin_times,
    )
