"""A whole list, page by page: a large cluster would be one answer of gigabytes."""

from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import quote

import msgspec

from shared.kube.api_client import ApiClient
from shared.kube.api_errors import read_answer
from shared.kube.decode import RawPage

_page_decoder: Final = msgspec.json.Decoder(RawPage)


async def list_pages(
    api: ApiClient, path: str, page_size: int, timeout_s: float | None = None
) -> AsyncIterator[RawPage]:
    """All of a list; ApiError or TransportError where it cannot be had whole."""
    place = ""
    while True:
        body = await api.get(f"{path}?limit={page_size}{place}", timeout_s=timeout_s)
        page = read_answer(_page_decoder, body)
        yield page
        if not page.metadata.continue_token:
            return
        place = f"&continue={quote(page.metadata.continue_token)}"
