"""A binder put together of its parts: apart from `__main__`, as the simulation makes it, too.

Knows neither the command line nor signals. Whoever calls brings the connection to the owner, the clock,
the way to the API server and what the configuration says.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from shared.clock import Clock
from shared.kube.api_client import ApiClient
from shared.kube.cluster_access import ClusterAccess
from shared.kube.connection_problems import ConnectionProblems
from shared.rate_limit import RateLimit
from shared.telemetry.tally import Tally, request_observer
from shared.transport.lease_gate import LeaseGate
from workers.binder.bind_call import DefaultBinder
from workers.binder.binder_limits import BinderLimits
from workers.binder.binder_loop import RECORDER_DRAIN_S, BinderLoop, OwnerPeer
from workers.binder.binding_cycle import BindingCycle, BindingPlugins, PreBinder
from workers.binder.claim_bind import ClaimBinder
from workers.binder.claim_free import ClaimFreer
from workers.binder.claim_lines import ClaimLines
from workers.binder.evictions import Evictor
from workers.binder.fences import FencedClient, Fences
from workers.binder.lease_hold import LeaseHold
from workers.binder.recorder import EventRecorder, RecorderSettings
from workers.binder.volume_bind import VolumeBinder

MakeProfiles = Callable[
    [ApiClient, DefaultBinder, tuple[PreBinder, ...]], dict[str, BindingPlugins]
]
"""The plugins of each profile, of those that write by this client (`binding_profiles.py`)."""


class Surroundings(NamedTuple):
    """What a binder finds where it runs."""

    access: ClusterAccess
    clock: Clock
    loop: asyncio.AbstractEventLoop
    host_name: str
    gate: LeaseGate | None = None
    """With leader election."""
    problems: ConnectionProblems | None = None


class BinderLife:
    """Everything that a binder consists of, from its connections to its end."""

    def __init__(
        self,
        binder_index: int,
        peer: OwnerPeer,
        around: Surroundings,
        limits: BinderLimits,
        in_flight_max: int,
        make_profiles: MakeProfiles | None = None,
    ) -> None:
        """`make_profiles`: with a configuration; without, every profile binds by DefaultBinder."""
        hold, fences, tally = LeaseHold(around.gate), Fences(), Tally()
        settings = RecorderSettings()

        def client(connections_max: int, rate_limit: RateLimit | None = None) -> FencedClient:
            return FencedClient(
                around.access,
                fences,
                hold.may_write,
                connections_max=connections_max,
                rate_limit=rate_limit,
                observer=request_observer(tally, around.access.host_header),
                problems=around.problems,
            )

        # Void requests of before may be under way beside.
        bind_api = client(2 * in_flight_max, limits.bindings)
        record_api = client(settings.writes_max)
        self._clients = (bind_api, record_api)
        clock = around.clock
        self._recorder = EventRecorder(
            record_api, settings, clock, around.host_name, around.loop, limits.records
        )
        lines = ClaimLines()
        default = DefaultBinder(bind_api, clock=clock)
        pre_binders = (
            VolumeBinder(bind_api),
            ClaimBinder(bind_api, self._recorder.pod_waits_for_devices, lines, clock, tally=tally),
        )
        by_profile = make_profiles(bind_api, default, pre_binders) if make_profiles else {}
        plain = BindingPlugins((default,), pre_binders)
        cycle = BindingCycle(plain, by_profile, spawn=fences.spawn)
        freer = ClaimFreer(record_api, lines)
        evictor = Evictor(
            record_api, clock, self._recorder.pod_preempted, freer=freer, fences=fences
        )
        self._binder = BinderLoop(
            binder_index,
            peer,
            cycle,
            self._recorder,
            in_flight_max,
            clock,
            evictor,
            fences,
            hold,
            tally,
        )
        self.is_orphaned = False

    def drain(self) -> None:
        """Has it end once all that it was told is done."""
        self._binder.drain()

    def stop_orphaned(self) -> None:
        """Ends it at once: its supervisor is gone, and nobody is left to report to."""
        self.is_orphaned = True
        self._binder.stop_now()

    async def run(self) -> None:
        """Until the binder has drained, or was told to stop at once."""
        await self._binder.run()
        if not self.is_orphaned:
            await self._recorder.drain(RECORDER_DRAIN_S)
        self._recorder.close()
        for client in self._clients:
            await client.close()
