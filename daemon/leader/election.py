"""Who leads: the rules of client-go's leader election, without clock and without I/O.

Compatible with staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go, v1.36:

- Nobody's clock is compared with another's. A lease that another holds counts from the moment at
  which we *saw* it change last, by our own clock, for the duration that its holder wrote into it.
- Every write names the resource version that was seen, so of two that write at once one is refused.
- A lease without a holder was given up, and may be taken at once.

One thing is stricter here: we lead for `renew_deadline_s` from the moment at which the last renewal
that succeeded was *sent* (the server had it later, others saw it later still), whatever became of
those after it. `renew_deadline_s` is less than the lease's duration, so we stop before anybody may
take over; the difference is for what was sent in the last moment.

Callers may rely on: `leads(now_s)` never turns true by itself; between two `note_*` calls it can only
turn false.
"""

from typing import Final, NamedTuple

import msgspec

from shared.runtime_options import LeaderElection

RELEASED_DURATION_S: Final = 1
"""What a berth that gives the lease up writes as its duration, as client-go does."""


class LeaseRecord(msgspec.Struct, frozen=True):
    """The part of a Lease's spec that an election reads and writes. Any field may be missing, as any
    program may have written it."""

    holder: str = msgspec.field(name="holderIdentity", default="")
    """Empty: nobody."""
    duration_s: int = msgspec.field(name="leaseDurationSeconds", default=0)
    acquire_time: str | None = msgspec.field(name="acquireTime", default=None)
    """None: somebody took it out. It is written back so, as client-go does; no time is empty."""
    renew_time: str = msgspec.field(name="renewTime", default="")
    transitions: int = msgspec.field(name="leaseTransitions", default=0)


class Look(NamedTuple):
    """Read the lease and tell what it is."""


class Write(NamedTuple):
    """Make the lease, or take or renew it as it was seen last."""

    record: LeaseRecord


class Follow(NamedTuple):
    """Another holds the lease. Look again when it may have run out, or after a retry period."""

    until_s: float


Step = Look | Write | Follow


class Election:
    """One candidate. Asked what to do (`next_step`), told what came of it (`note_*`)."""

    def __init__(self, identity: str, times: LeaderElection, leads_until_s: float = 0.0) -> None:
        """`identity`: ours. `leads_until_s`: of an earlier life of this process with the same one."""
        assert times.renew_deadline_s < times.lease_duration_s, "we would act on a lapsed lease"
        self._identity = identity
        self._times = times
        self.leads_until_s = leads_until_s
        self._seen: LeaseRecord | None = None
        self._seen_s = 0.0
        """When `_seen` was first seen as it is."""
        self._is_fresh = False
        """`_seen` is what the server has, as far as we know: no write of ours failed since."""

    # Questions ------------------------------------------------------------------------------------

    @property
    def leader(self) -> str:
        """Who holds the lease as far as we have seen; empty if nobody does."""
        return self._seen.holder if self._seen is not None else ""

    def leads(self, now_s: float) -> bool:
        return now_s < self.leads_until_s

    def next_step(self, now_s: float, wall: str) -> Step:
        """What to do now. `wall` is the time as the API writes it."""
        if not self._is_fresh:
            return Look()
        if self._seen is None:
            return Write(self._record(wall, wall, 0))
        seen = self._seen
        if seen.holder == self._identity:
            return Write(self._record(seen.acquire_time, wall, seen.transitions))
        expires_s = self._seen_s + seen.duration_s
        if seen.holder and now_s < expires_s:
            return Follow(expires_s)
        return Write(self._record(wall, wall, seen.transitions + 1))

    def release(self, wall: str) -> LeaseRecord | None:
        """We lead no longer, whatever comes of it. What to write so that another may take over at once;
        None if the lease is not ours."""
        self.leads_until_s = 0.0
        if self._seen is None or self._seen.holder != self._identity:
            return None
        return LeaseRecord("", RELEASED_DURATION_S, wall, wall, self._seen.transitions)

    # Answers --------------------------------------------------------------------------------------

    def note_seen(self, record: LeaseRecord | None, now_s: float) -> None:
        """The lease was read; None: there is none."""
        self._is_fresh = True
        if record != self._seen or record is None:
            self._seen, self._seen_s = record, now_s
        if record is not None and record.holder != self._identity:
            # Taken from us, or given away by hand: over, however long we had it by our own clock.
            self.leads_until_s = 0.0

    def note_written(self, record: LeaseRecord, sent_s: float, now_s: float) -> None:
        """The write that began at `sent_s` succeeded."""
        self._seen, self._seen_s, self._is_fresh = record, now_s, True
        self.leads_until_s = sent_s + self._times.renew_deadline_s

    def note_failed(self) -> None:
        """The last write or look failed, or its outcome is unknown: what the server has must be seen
        again. What we held we hold, until its time is over."""
        self._is_fresh = False

    def _record(self, acquired: str | None, renewed: str, transitions: int) -> LeaseRecord:
        return LeaseRecord(
            holder=self._identity,
            duration_s=int(self._times.lease_duration_s),
            acquire_time=acquired,
            renew_time=renewed,
            transitions=transitions,
        )
