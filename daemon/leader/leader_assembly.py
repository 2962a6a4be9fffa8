"""A candidate put together of its parts: apart from `__main__`, as the simulation makes it, too."""

import asyncio
import random
from typing import Any

from daemon.leader.elector import Clocks, Elector
from daemon.leader.lease_object import LeaseObject
from shared import exit_codes
from shared.child_options import LeaderElection
from shared.kube.api_client import ApiClient
from shared.kube.cluster_access import ClusterAccess
from shared.kube.connection_problems import ConnectionProblems
from shared.transport.lease_gate import LeaseGate


class LeaseCandidate:
    """The life of a process that stands for the lease."""

    def __init__(
        self,
        access: ClusterAccess,
        election: LeaderElection,
        identity: str,
        gate: LeaseGate,
        clock: Clocks,
        rng: random.Random,
        problems: ConnectionProblems | None = None,
    ) -> None:
        """`identity`: ours in the lease. `rng`: for jitter."""
        self._client = ApiClient(
            access,
            connections_max=1,
            connect_timeout_s=election.renew_deadline_s / 2,
            problems=problems,
        )
        lease = LeaseObject(self._client, election.resource_namespace, election.resource_name)
        self._elector = Elector(lease, gate, identity, election, clock, rng)
        self._stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def stop(self, code: int) -> None:
        """Has `run` end with this; the lease is given up where that is in order."""
        if not self._stopped.done():
            self._stopped.set_result(code)

    async def run(self) -> int:
        """Until told to stop; the exit code."""
        candidacy = asyncio.get_running_loop().create_task(self._elector.run())
        try:
            waits: list[asyncio.Future[Any]] = [candidacy, self._stopped]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if candidacy.done():
                candidacy.result()
            code = await self._stopped
            candidacy.cancel()
            await asyncio.wait([candidacy])
            if code == exit_codes.OK:
                await self._elector.release()
        finally:
            await self._client.close()
        return code
