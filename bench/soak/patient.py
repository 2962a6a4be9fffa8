"""Requests that are tried again until the API server has answered yes.

The load of a soak has to arrive whatever a fault plan does to it; so a creation whose answer was lost
is sent again, and "it is there already" or "it is gone already" are as good as a yes.
"""

import asyncio
from typing import Final

from shared.errors import OperationalError
from shared.kube.api_client import JSON, ApiClient
from shared.kube.api_errors import TRANSIENT, AlreadyExists, NotFound

TRIES: Final = 100
PAUSE_S: Final = 0.2


class LoadRefusedError(OperationalError):
    """The API server does not take what the soak sends."""


async def send(
    client: ApiClient, method: str, path: str, body: bytes = b"", content_type: str = JSON
) -> bool:
    """Whether the object is there as wanted; False: it is gone. Raises what will never succeed."""
    for _ in range(TRIES):
        try:
            await client.request(method, path, body, content_type)
        except AlreadyExists:
            return True
        except NotFound:
            return False
        except TRANSIENT:
            await asyncio.sleep(PAUSE_S)
        else:
            return True
    raise LoadRefusedError(f"{method} {path}: no answer after {TRIES} tries")
