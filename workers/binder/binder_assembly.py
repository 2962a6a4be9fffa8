"""A binder put together of its parts: apart from `__main__`, as the simulation makes it, too.

Knows neither the command line nor signals. Whoever calls brings the connection to the owner, the clock,
the way to the API server and the binding plan.

How much a binder may ask of the API server is `clientConnection` of the configuration, kind by kind.
kube-scheduler has one limit for its bindings and another for its events. Here bindings have one, and
conditions and events together another, of the same size, so that neither can use up what is the other's;
deletions of victims and the lease have none. Each binder of the pool gets its part.
"""

from collections.abc import Iterable
from importlib.metadata import EntryPoint
from typing import Any, Final

from shared.child_plan import BindingPlan
from shared.clock import Clock
from shared.kube.api_client import ApiClient
from shared.kube.cluster_access import ClusterAccess
from shared.kube.connection_problems import ConnectionProblems
from shared.messages.from_binder import FromBinder
from shared.messages.to_binder import ToBinder
from shared.rate_limit import RateLimit
from shared.telemetry.metrics import Tally, request_observer
from shared.transport.async_peer import AsyncPeer
from shared.transport.lease_gate import LeaseGate
from workers.binder.bind_call import DefaultBinder
from workers.binder.binder_loop import RECORDER_DRAIN_S, BinderLoop
from workers.binder.binding_cycle import BindingCycle, BindingPlugins, PodBinder, PreBinder
from workers.binder.claim_bind import ClaimBinder
from workers.binder.claim_free import ClaimFreer, ClaimLines
from workers.binder.evictions import Evictor
from workers.binder.fences import FencedClient, Fences
from workers.binder.recorder import EventRecorder, RecorderSettings
from workers.binder.volume_bind import VolumeBinder

RECORDS_PER_S: Final = 250.0
"""Conditions and events, where nothing is configured. An API server with two cores takes about a
thousand small writes a second; what people read may take a quarter of that."""
RECORDS_BURST: Final = 500
BURST: Final = 100
"""Where `qps` alone is configured: pkg/scheduler/apis/config/v1/defaults.go, v1.36.2."""


def limits_of(qps: float, burst: int, pool_size: int) -> tuple[RateLimit | None, RateLimit | None]:
    """One binder's part, of bindings and of records; None: no limit. Without a setting (0) bindings are
    limited by what may be in flight alone; a negative `qps` lifts every limit, as in client-go."""
    assert pool_size > 0, "a binder is part of a pool"
    if qps < 0:
        return None, None
    per_s = (qps or RECORDS_PER_S) / pool_size
    at_once = max(1, round((burst or (BURST if qps else RECORDS_BURST)) / pool_size))
    return RateLimit(per_s, at_once) if qps else None, RateLimit(per_s, at_once)


def plugins_by_profile(
    plan: BindingPlan,
    problems: ConnectionProblems | None,
    api: ApiClient,
    binder: DefaultBinder,
    pre_binders: Iterable[PreBinder],
    entry_points: Iterable[EntryPoint] | None = None,
) -> dict[str, BindingPlugins]:
    """Profile (schedulerName) -> plugins, by the binding plan; ConfigurationError names what is wrong.
    `pre_binders` are our own code for the in-tree plugins of their names, which needs nothing of what
    these decide with; what extenders and other packages' plugins need is imported where there are any.
    `problems` is told of extenders that do not answer."""
    in_tree = {each.NAME: each for each in pre_binders}
    first: tuple[PodBinder, ...] = ()
    if plan.extenders:
        from workers.binder.extender_bind import ExtenderBinder, extenders_told

        first = (ExtenderBinder(extenders_told(plan.extenders), binder.look, problems),)
    found: dict[str, BindingPlugins] = {}
    for scheduler_name, profile in plan.profiles.items():
        plugins: dict[str, Any] = {**in_tree}
        binders: dict[str, PodBinder] = {DefaultBinder.NAME: binder}
        if profile.arguments:
            from workers.binder.foreign_plugins import foreign_plugins

            made, ways = foreign_plugins(profile, api, binder, entry_points)
            plugins = made | plugins
            binders |= ways
        found[scheduler_name] = BindingPlugins(
            binds=(*first, *(binders[name] for name in profile.bind)),
            pre_binds=tuple(plugins[name] for name in profile.pre_bind),
            post_binds=tuple(plugins[name] for name in profile.post_bind),
        )
    return found


class BinderLife(BinderLoop):
    """Everything that a binder consists of, from its connections to its end."""

    def __init__(
        self,
        binder_index: int,
        peer: AsyncPeer[FromBinder, ToBinder],
        access: ClusterAccess,
        clock: Clock,
        host_name: str,
        plan: BindingPlan,
        pool_size: int,
        in_flight_max: int,
        gate: LeaseGate | None,
        problems: ConnectionProblems | None = None,
        entry_points: Iterable[EntryPoint] | None = None,
    ) -> None:
        """`pool_size`: binders, this one among them. `gate`: with leader election. `entry_points`: of
        plugins; None: those of the installed packages. ConfigurationError names what is wrong."""
        fences, tally, settings = Fences(gate), Tally(), RecorderSettings()
        binding_rate, record_rate = limits_of(plan.qps, plan.burst, pool_size)

        def client(connections_max: int, rate_limit: RateLimit | None = None) -> FencedClient:
            return FencedClient(
                access,
                fences,
                connections_max=connections_max,
                rate_limit=rate_limit,
                observer=request_observer(tally, access.host_header),
                problems=problems,
            )

        # Void requests of before may be under way beside.
        bind_api = client(2 * in_flight_max, binding_rate)
        record_api = client(settings.writes_max)
        self._clients = (bind_api, record_api)
        recorder = EventRecorder(record_api, settings, clock, host_name, record_rate)
        lines = ClaimLines()
        default = DefaultBinder(bind_api, clock=clock)
        pre_binders = (
            VolumeBinder(bind_api),
            ClaimBinder(bind_api, recorder.pod_waits_for_devices, lines, clock, tally=tally),
        )
        by_profile = plugins_by_profile(
            plan, problems, bind_api, default, pre_binders, entry_points
        )
        plain = BindingPlugins((default,), pre_binders)
        cycle = BindingCycle(plain, default.see_late, by_profile, spawn=fences.spawn)
        freer = ClaimFreer(record_api, lines)
        evictor = Evictor(record_api, clock, recorder.pod_preempted, freer, fences)
        super().__init__(
            binder_index, peer, cycle, recorder, in_flight_max, clock, evictor, fences, tally
        )

    def drain(self) -> None:
        for client in self._clients:
            client.read_at_once()
        super().drain()

    async def run(self) -> None:
        """Until the binder has drained, or was told to stop at once."""
        await super().run()
        if not self.is_orphaned:
            await self._recorder.drain(RECORDER_DRAIN_S)
        self._recorder.close()
        for client in self._clients:
            await client.close()
