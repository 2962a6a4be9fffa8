"""Pods without a node, by what is to be said of them: a line for each reason, not for each wording; and
what the owner knows of one of them, with times as people tell them."""

from collections.abc import Iterable
from typing import Final

import msgspec

from daemon.core.fit_reasons import short_resource
from shared.messages.admin import PendingGroup, PendingPod

REASONS_MAX: Final = 30
_UNITS: Final = (("PiB", 2**50), ("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_TURN: Final = {
    "active": "Wait for their turn",
    "in_flight": "Being scheduled or bound",
    "backoff": "Backing off",
    "unschedulable": "Wait for an event",
}


class PendingReason(msgspec.Struct, frozen=True):
    """One line."""

    place: str
    text: str
    pod_count: int
    detail: str
    """How much of what is short they ask for; empty of other reasons."""
    example: str
    """`namespace/name` of one of them."""


def put_together(groups: Iterable[PendingGroup]) -> list[PendingReason]:
    """The most frequent first; pods that fit nowhere and back off are with those that wait for an
    event, as the reason is the same."""
    by_reason: dict[tuple[str, str], PendingGroup] = {}
    for one in groups:
        place = "unschedulable" if one.place == "backoff" and one.reason else one.place
        key = (place, one.reason)
        before = by_reason.get(key)
        known = msgspec.structs.replace(one, place=place)
        by_reason[key] = known if before is None else before.with_more(known)
    ordered = sorted(by_reason.values(), key=lambda one: (-one.pod_count, one.reason))
    return [_line(one) for one in ordered[:REASONS_MAX]]


def _line(group: PendingGroup) -> PendingReason:
    return PendingReason(
        group.place,
        reason_text(group.place, group.reason),
        group.pod_count,
        asked_text(group.reason, group.least, group.most),
        group.example,
    )


def reason_text(place: str, reason: str) -> str:
    """What to call it."""
    resource = short_resource(reason)
    if resource:
        return f"{called(resource)} short"
    if place == "gated":
        return f"Held by {reason}"
    return reason or _TURN.get(place, place)


def called(resource: str) -> str:
    """A resource as people call it: `nvidia.com/gpu` is a GPU, whoever makes it."""
    name = resource.rpartition("/")[2]
    return {"cpu": "CPU", "gpu": "GPU", "memory": "Memory", "pods": "Pods"}.get(name, resource)


def asked_text(reason: str, least: int, most: int) -> str:
    """How much the pods ask for of what there is too little of."""
    resource = short_resource(reason)
    if not resource or not most:
        return ""
    low, high = amount_text(resource, least), amount_text(resource, most)
    unit = {"CPU": " cores", "GPU": " GPUs"}.get(called(resource), "")
    return f"{high}{unit} each" if low == high else f"{low} to {high}{unit} each"


def amount_text(resource: str, amount: int) -> str:
    """In a unit for people; `amount` as the columns count."""
    if resource == "cpu":
        return f"{amount / 1000:,.3g}" if amount < 100_000 else f"{amount / 1000:,.0f}"
    if resource == "memory" or resource.startswith(("ephemeral-storage", "hugepages-")):
        return bytes_text(amount)
    return f"{amount:,}"


def bytes_text(amount: int) -> str:
    """Three digits and a unit."""
    for unit, size in _UNITS:
        if amount >= size:
            share = amount / size
            return f"{share:,.0f} {unit}" if share >= 1000 else f"{share:.3g} {unit}"
    return f"{amount} B"


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
