"""Pods without a node, by what is to be said of them: a line for each reason, not for each wording."""

from collections.abc import Iterable
from typing import Final

import msgspec

from daemon.core.fit_reasons import short_resource
from shared.messages.admin import PendingGroup

REASONS_MAX: Final = 30
_UNITS: Final = (("PiB", 2**50), ("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_TURN: Final = {
    "active": "Wait for their turn",
    "in_flight": "Being scheduled or bound",
    "backoff": "Backing off",
    "unschedulable": "Wait for an event",
}


class PendingReason(msgspec.Struct, frozen=True):
    place: str
    text: str
    pod_count: int
    detail: str
    example: str


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
    return [
        PendingReason(
            one.place,
            reason_text(one.place, one.reason),
            one.pod_count,
            asked_text(one.reason, one.least, one.most),
            one.example,
        )
        for one in ordered[:REASONS_MAX]
    ]


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
