"""A whole list, page by page: a large cluster would be one answer of gigabytes."""

from collections.abc import AsyncIterator
from urllib.parse import quote

from shared.kube.api_client import JSON, ApiClient
from shared.kube.api_errors import ProtocolViolation, read_answer
from shared.kube.decode import RawPage, raw_page_decoder


async def list_pages(
    api: ApiClient,
    path: str,
    page_size: int,
    timeout_s: float | None = None,
    *,
    field_selector: str = "",
    accept: str = JSON,
) -> AsyncIterator[RawPage]:
    """All of a list; ApiError or TransportError where it cannot be had whole."""
    place, token = "", ""
    query = f"limit={page_size}"
    if field_selector:
        query += f"&fieldSelector={quote(field_selector)}"
    while True:
        where = f"{path}?{query}{place}"
        answer = await api.request("GET", where, accept=accept, timeout_s=timeout_s)
        page = read_answer(raw_page_decoder, answer.body)
        yield page
        former, token = token, page.metadata.continue_token
        if not token:
            return
        if token == former:
            raise ProtocolViolation(f"{path}: a page is followed by itself")
        place = f"&continue={quote(token)}"
