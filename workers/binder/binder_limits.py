"""How much a binder may ask of the API server: `clientConnection` of the configuration, kind by kind.

kube-scheduler has one limit for its bindings and another for its events. Here bindings have one, and
conditions and events together another, of the same size, so that neither can use up what is the other's;
deletions of victims and the lease have none. Each binder of the pool gets its part.
"""

from typing import Final, NamedTuple

from shared.rate_limit import RateLimit

RECORDS_PER_S: Final = 250.0
"""Conditions and events, where nothing is configured. An API server with two cores takes about a
thousand small writes a second; what people read may take a quarter of that."""
RECORDS_BURST: Final = 500


class BinderLimits(NamedTuple):
    """Of one binder; None: without a limit."""

    bindings: RateLimit | None
    records: RateLimit | None


def limits_of(qps: float, burst: int, pool_size: int) -> BinderLimits:
    """One binder's part. Without a setting (0) bindings are limited by what may be in flight alone; a
    negative `qps` lifts every limit, as in client-go."""
    assert pool_size > 0, "a binder is part of a pool"
    if qps < 0:
        return BinderLimits(None, None)
    per_s = (qps or RECORDS_PER_S) / pool_size
    at_once = max(1, round((burst or qps or RECORDS_BURST) / pool_size))
    return BinderLimits(RateLimit(per_s, at_once) if qps else None, RateLimit(per_s, at_once))
