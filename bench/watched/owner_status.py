"""How the owner is, asked for while a run goes on."""

from typing import Final

from shared.errors import ProtocolVersionError
from shared.messages.admin import StatusAnswer, StatusRequest
from shared.transport.owner_link import NoAnswerError, OwnerLink

STATUS_TIMEOUT_S: Final = 10.0


async def owner_status(owner: OwnerLink) -> StatusAnswer | None:
    """None: it does not answer just now; it may be starting again. NoAnswerError where it never will."""
    try:
        return await owner.ask(StatusRequest(), StatusAnswer, STATUS_TIMEOUT_S)
    except NoAnswerError as error:
        if isinstance(error.__cause__, ProtocolVersionError):
            raise  # Its berth is of another version than this program.
        return None
