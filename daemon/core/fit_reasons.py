"""What a message says why a pod has no node, in a phrase, so that the like can be put together.

The message counts each reason, and hardly two pods are told the same numbers. Apart because the owner
groups its pods by it and reports group theirs, from the message alone.
"""

from functools import lru_cache
from typing import Final

INSUFFICIENT: Final = "Insufficient "
_OF_ROOM: Final = (INSUFFICIENT, "Too many pods")
"""What more nodes of the same kind would mend."""
_MARK: Final = " nodes are available: "
_LENGTH_MAX: Final = 160
_COUNT_DIGITS_MAX: Final = 9
"""An extender's reason may have a number of any length after a comma."""
_KEPT_MAX: Final = 4096


def reasons_in(message: str) -> dict[str, int]:
    """Reason -> nodes that gave it (`FitError.message`); empty of any other message."""
    head, _, rest = message.partition(_MARK)
    found: dict[str, int] = {}
    if not head.startswith("0/"):
        return found
    reason = ""
    # What PostFilter says follows after the first sentence.
    for part in rest.partition(". ")[0].removesuffix(".").split(", "):
        count, _, told = part.partition(" ")
        if told and count.isdecimal() and len(count) <= _COUNT_DIGITS_MAX:
            reason = told
            found[reason] = int(count)
        elif reason:  # A comma in the reason itself.
            whole = f"{reason}, {part}"
            found[whole] = found.pop(reason)
            reason = whole
    return found


@lru_cache(_KEPT_MAX)
def reason_of(message: str) -> str:
    """Of several reasons that of most nodes; room, where that is short anywhere: other nodes would not
    have taken the pod in any case."""
    reasons = reasons_in(message)
    if not reasons:
        head, mark, rest = message.partition(_MARK)
        bare = (rest if mark and head.startswith("0/") else message).strip()
        return bare if len(bare) <= _LENGTH_MAX else f"{bare[:_LENGTH_MAX]}..."
    room = {reason: count for reason, count in reasons.items() if reason.startswith(_OF_ROOM)}
    of_most = room or reasons
    return max(of_most, key=lambda reason: (of_most[reason], reason))


def short_resource(reason: str) -> str:
    """The resource that there is too little of; empty where it is none."""
    return reason.removeprefix(INSUFFICIENT) if reason.startswith(INSUFFICIENT) else ""
