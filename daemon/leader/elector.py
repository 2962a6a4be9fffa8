"""The elector: carries out what `election.py` says, and opens and closes the gate accordingly.

One rule above all: the gate is opened or extended only after the API server has accepted a write, and
closed before the lease is given up. If this process hangs or dies, the gate closes by time.
"""

import asyncio
import random
from typing import Any, Final, assert_never

from daemon.leader.election import Election, Follow, LeaseRecord, Look, Write
from daemon.leader.lease_object import LeaseObject
from shared import exit_codes
from shared.clock import Clock
from shared.errors import OperationalError
from shared.kube.api_client import ApiClient
from shared.kube.cluster_access import ClusterAccess
from shared.kube.connection_problems import ConnectionProblems
from shared.kube.timestamps import micro_time
from shared.runtime_options import LeaderElection
from shared.telemetry.log import EventLog
from shared.transport.lease_gate import LeaseGate

log: Final = EventLog("leader")

EXPIRY_SLACK_S: Final = 0.05
"""A lease that ran out is looked at so much later, not a moment too early."""
EVENT_TIMEOUT_S: Final = 1.0
BECAME_LEADER: Final = "became leader"
STOPPED_LEADING: Final = "stopped leading"
"""In client-go's words (tools/leaderelection/leaderelection.go, v1.36)."""


class Elector:
    """One candidate's life, in a process of its own or in the simulation."""

    def __init__(
        self,
        access: ClusterAccess,
        times: LeaderElection,
        identity: str,
        gate: LeaseGate,
        clock: Clock,
        rng: random.Random,
        problems: ConnectionProblems | None = None,
    ) -> None:
        """`identity`: ours in the lease. `rng`: for jitter."""
        self._timeout_s = times.renew_deadline_s / 2
        """client-go's: at least one more try fits before the deadline."""
        self._client = ApiClient(
            access, connections_max=1, connect_timeout_s=self._timeout_s, problems=problems
        )
        self._lease = LeaseObject(self._client, times.resource_namespace, times.resource_name)
        self._gate = gate
        self._identity = identity
        self._times = times
        self._clock = clock
        self._rng = rng
        # An earlier life of this process may have left the gate open; the lease is ours all the same.
        inherited_s = gate.until_s if gate.open_term() else 0.0
        self._election = Election(identity, times, inherited_s)
        self._leader_logged = ""
        self._problem_logged = ""
        self._untold = ""
        """What an event on the lease has to say."""
        self._stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def stop(self, code: int) -> None:
        """Has `run` end with this; the lease is given up where that is in order."""
        if not self._stopped.done():
            self._stopped.set_result(code)

    async def run(self) -> int:
        """Until told to stop; the exit code."""
        candidacy = asyncio.get_running_loop().create_task(self._stand())
        try:
            waits: list[asyncio.Future[Any]] = [candidacy, self._stopped]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if candidacy.done():
                candidacy.result()
            code = await self._stopped
            candidacy.cancel()
            await asyncio.wait([candidacy])
            if code == exit_codes.OK:
                await self._release()
        finally:
            await self._client.close()
        return code

    async def _stand(self) -> None:
        while True:
            try:
                pause_s = await self._try()
                self._problem_logged = ""
            except OperationalError as error:
                self._election.note_failed()
                # Each problem once: a server that is away for an hour is one line.
                if str(error) != self._problem_logged:
                    self._problem_logged = str(error)
                    log.warning("lease_not_had", lease=self._lease.where, problem=str(error))
                pause_s = self._pause_s()
            self._follow_up()
            await self._tell()
            await asyncio.sleep(pause_s)

    async def _release(self) -> None:
        """Gives the lease up, so that another takes over at once. Nothing may be in flight any more."""
        self._gate.close()
        try:
            # Read first: a renewal may have been under way when we were told to stop.
            self._election.note_seen(await self._lease.read(self._timeout_s), self._clock.boot_s())
            record = self._election.release(micro_time(self._clock.wall_s()))
            if record is not None:
                await self._lease.write(record, self._timeout_s)
                log.info("lease_released", lease=self._lease.where)
                self._untold = STOPPED_LEADING
                await self._tell()
        except OperationalError as error:
            if self._election.leader == self._identity:
                log.warning("lease_not_released", lease=self._lease.where, problem=str(error))

    # One attempt ----------------------------------------------------------------------------------

    async def _try(self) -> float:
        """To take or renew the lease; the seconds until the next attempt."""
        while True:
            wall = micro_time(self._clock.wall_s())
            match self._election.next_step(self._clock.boot_s(), wall):
                case Look():
                    record = await self._lease.read(self._timeout_s)
                    self._election.note_seen(record, self._clock.boot_s())
                case Write(record):
                    await self._write(record)
                    return self._pause_s()
                case Follow(until_s):
                    # What was seen may be old when we come back.
                    self._election.note_failed()
                    left_s = max(0.0, until_s - self._clock.boot_s()) + EXPIRY_SLACK_S
                    return min(left_s, self._pause_s())
                case step:
                    assert_never(step)

    async def _write(self, record: LeaseRecord) -> None:
        sent_s = self._clock.boot_s()
        await self._lease.write(record, self._timeout_s)
        now_s = self._clock.boot_s()
        # Asked before the renewal counts: a term that lapsed for a moment is over.
        is_same_term = self._election.leads(now_s) and self._gate.open_term() != 0
        self._election.note_written(record, sent_s, now_s)
        if not self._election.leads(now_s):
            return
        if is_same_term:
            self._gate.extend(self._election.leads_until_s)
        else:
            term = self._gate.begin_term(self._election.leads_until_s)
            log.info("leading", lease=self._lease.where, identity=record.holder, term=term)
            self._untold = BECAME_LEADER

    def _follow_up(self) -> None:
        """After each attempt: the gate says what the election does, and changes are told."""
        if self._gate.until_s and not self._election.leads(self._clock.boot_s()):
            self._gate.close()
            self._untold = STOPPED_LEADING
            log.warning("lease_lost", lease=self._lease.where, leader=self._election.leader)
        leader = self._election.leader
        if leader != self._leader_logged:
            self._leader_logged = leader
            is_own = leader == self._identity
            log.info("leader_is", lease=self._lease.where, leader=leader, is_own=is_own)

    async def _tell(self) -> None:
        """An event for people; one that cannot be written is none. Short, as renewals wait for it."""
        if not self._untold:
            return
        note = f"{self._identity} {self._untold}"
        self._untold = ""
        try:
            await self._lease.say(note, micro_time(self._clock.wall_s()), EVENT_TIMEOUT_S)
        except OperationalError as error:
            log.warning("event_not_written", lease=self._lease.where, note=note, problem=str(error))

    def _pause_s(self) -> float:
        # Never longer than the period, so that a lease that was given up is taken within it; shorter
        # by chance, so that two who wait do not come at once for ever.
        return self._times.retry_period_s * self._rng.uniform(0.8, 1.0)
