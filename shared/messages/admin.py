"""Questions that the command line and the supervisor put to the owner, and the answers."""

import msgspec


class _Message(msgspec.Struct, array_like=True, frozen=True):
    """Base: positional on the wire, immutable in hand."""


class StatusRequest(_Message, frozen=True, tag="qs"):
    pass


class DumpRequest(_Message, frozen=True, tag="qd"):
    """Everything in cache and queue, as text for people."""


class CompareRequest(_Message, frozen=True, tag="qc"):
    """Check cache and queue for contradictions (SIGUSR2)."""


class StopRequest(_Message, frozen=True, tag="qx"):
    """Stop giving out work; answer when nothing is in flight."""


AdminRequest = StatusRequest | DumpRequest | CompareRequest | StopRequest


class QueueLengths(msgspec.Struct, array_like=True, frozen=True):
    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight: int


class StatusAnswer(_Message, frozen=True, tag="as"):
    epoch: int
    generation: int
    synced: bool
    node_count: int
    pod_count: int
    assumed_pod_count: int
    queue: QueueLengths
    scorers_ready: int
    binders_ready: int
    binds_in_flight: int
    counters: dict[str, int]
    """Since the owner's start: scheduled, unschedulable, rejected, bind_failed, ..."""


class TextAnswer(_Message, frozen=True, tag="at"):
    lines: list[str]


AdminAnswer = StatusAnswer | TextAnswer
