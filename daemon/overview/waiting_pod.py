"""What the owner knows of one pod that waits, with times as people tell them."""

import msgspec

from shared.messages.admin import PendingPod


class PastFailure(msgspec.Struct, frozen=True):
    """An attempt that ended without a node."""

    ago_s: float
    message: str


class QueueFacts(msgspec.Struct, frozen=True):
    """What the owner knows of a pod that waits. Times in seconds, from now."""

    place: str
    attempts: int
    rejected_by: list[str]
    gated_by: str
    nominated_node: str
    awaited_victim_count: int
    pending_for_s: float
    here_for_s: float
    next_try_in_s: float | None
    """At the latest, without any event; None: it has its turn, or is held by a gate."""
    woken_by: list[str]
    assumed_node: str
    waits_for: list[str]
    """Permit plugins."""
    past: list[PastFailure]
    """The last attempts that failed, the newest first."""
    reason: str
    """What the last one comes to, in a phrase."""
    competitor_count: int
    """Other pods that wait for the same."""
    ahead_count: int
    """Of these, pods of a higher priority."""


def facts_of(pod: PendingPod, now_s: float) -> QueueFacts:
    """As the owner told it at a moment of its clock."""
    details = pod.details
    assert details is not None, "one pod was asked for"
    next_try_s = {"backoff": details.backoff_until_s, "unschedulable": details.leftover_s}
    due_s = None if pod.gated_by else next_try_s.get(pod.place)
    return QueueFacts(
        place=pod.place,
        attempts=pod.attempts,
        rejected_by=sorted({*pod.unschedulable_plugins, *pod.pending_plugins}),
        gated_by=pod.gated_by,
        nominated_node=pod.nominated_node,
        awaited_victim_count=len(pod.awaited_victims),
        pending_for_s=round(now_s - details.added_s, 1),
        here_for_s=round(now_s - details.since_s, 1),
        next_try_in_s=None if due_s is None else round(max(0.0, due_s - now_s), 1),
        woken_by=details.woken_by,
        assumed_node=details.node_name,
        waits_for=details.waits_for,
        past=[
            PastFailure(round(max(0.0, now_s - one.ended_s), 1), one.message)
            for one in reversed(details.past)
        ],
        reason=details.reason,
        competitor_count=details.competitor_count,
        ahead_count=details.ahead_count,
    )
