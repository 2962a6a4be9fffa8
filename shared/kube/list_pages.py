"""A whole list, page by page: a large cluster would be one answer of gigabytes."""

from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import quote

import msgspec

from shared.kube.api.meta_v1 import ApiStruct
from shared.kube.api_client import ApiClient
from shared.kube.api_errors import read_answer


class _ListMeta(ApiStruct):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class RawPage(ApiStruct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None
    """Windows on the answer."""


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
