"""A whole list, page by page: a large cluster would be one answer of gigabytes."""

from collections.abc import AsyncIterator
from urllib.parse import urlencode

from shared.kube.api_client import JSON, ApiClient
from shared.kube.decode import RawPage, UnreadableAnswerError, raw_page


async def list_pages(
    api: ApiClient,
    path: str,
    page_size: int,
    timeout_s: float | None = None,
    *,
    field_selector: str = "",
    accept: str = JSON,
) -> AsyncIterator[RawPage]:
    """All of a list, on one page if `page_size` is 0; ApiError, TransportError or UnreadableAnswerError
    where it cannot be had whole."""
    token = ""
    while True:
        query = {"limit": page_size, "fieldSelector": field_selector, "continue": token}
        where = f"{path}?{urlencode({name: value for name, value in query.items() if value})}"
        body = (await api.request("GET", where, accept=accept, timeout_s=timeout_s)).body
        page = raw_page(body, path)
        page.body = body
        yield page
        former, token = token, page.metadata.continue_token
        if not token:
            return
        if token == former:
            raise UnreadableAnswerError(f"list of {path}", "a page is followed by itself")
