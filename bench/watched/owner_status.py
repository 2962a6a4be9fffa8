"""How the owner is, asked for while a run goes on."""

from typing import Final

from shared.messages.admin import StatusAnswer, StatusRequest
from shared.transport.owner_link import NoAnswerError, OwnerLink

STATUS_TIMEOUT_S: Final = 10.0


async def owner_status(owner: OwnerLink) -> StatusAnswer | None:
    """None: it does not answer just now; it may be starting again."""
    try:
        return await owner.ask(StatusRequest(), StatusAnswer, STATUS_TIMEOUT_S)
    except NoAnswerError:
        return None
